// Adds local times to those in UTC. Follows a run: puts each part that the server draws in place of the one before it, says when the server is silent, and reads out cells of the matrix.
"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const addLocal = (part) => part.querySelectorAll("time[datetime]").forEach((time) => {
    const local = ` (${new Date(time.dateTime).toLocaleString([], { timeZoneName: "short" })})`;
    if (time.title) time.title += local;
    else time.append(local);
  });
  addLocal(document);
  if (!at("run") || !at("run").dataset.events) return;
  // The server sends something each second. Time of silence until the page says so, and until it connects anew.
  const SILENT_MS = 2200;
  const AGAIN_MS = 5000;
  let [source, began, heard] = [null, 0, Date.now()];

  // Changes only what differs, so that focus and scrolling stay.
  const put = (old, now) => {
    if (old.isEqualNode(now)) return;
    if (old.nodeName !== now.nodeName || old.id !== now.id || old.childNodes.length !== now.childNodes.length) {
      old.replaceWith(now);
    } else if (old.nodeType === Node.TEXT_NODE) {
      old.data = now.data;
    } else {
      for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && name !== "tabindex") old.removeAttribute(name);
      for (const { name, value } of now.attributes) old.setAttribute(name, value);
      [...now.childNodes].forEach((child, place) => put(old.childNodes[place], child));
    }
  };

  let cell = null;
  const readOut = () => {
    const place = at("readout");
    if (!cell || !cell.isConnected) {
      if (place) place.textContent = "Tap a cell, or use the arrow keys in the matrix, to read a pair.";
      return;
    }
    const [row, column] = [cell.parentElement.cells[0], at("matrix").tHead.rows[0].cells[cell.cellIndex]];
    const rate = cell.textContent ? `${cell.textContent} ${at("unit").textContent}` : "no link";
    place.textContent = [`${row.textContent} to ${column.textContent}: ${rate}`, row.title, column.title].filter(Boolean).join("; ");
  };
  const choose = (chosen) => {
    if (!chosen || chosen.nodeName !== "TD") return;
    cell = chosen;
    cell.tabIndex = -1;
    cell.focus();
    readOut();
  };
  document.addEventListener("click", (event) => choose(event.target.closest("#matrix tbody td")));
  document.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step || !event.target.closest("#cells")) return;
    event.preventDefault();
    const from = event.target.closest("td");
    const row = at("matrix").tBodies[0].rows[from ? from.parentElement.sectionRowIndex + step[0] : 0];
    choose(row && row.cells[from ? from.cellIndex + step[1] : 1]);
  });

  const hear = () => {
    heard = Date.now();
    at("lost").hidden = true;
  };
  const follow = () => {
    began = Date.now();
    source = new EventSource(at("run").dataset.events);
    source.addEventListener("alive", hear);
    source.addEventListener("part", (event) => {
      hear();
      const made = document.createElement("template");
      made.innerHTML = event.data;
      const now = made.content.firstElementChild;
      if (!now) return;
      addLocal(made.content);
      const { events, cancel, title } = now.dataset;
      document.title = `${title} - pipebench`;
      put(at("run"), now);
      readOut();
      if (cancel === undefined && at("cancel")) at("cancel").remove();
      if (events === undefined) {
        source.close();
        clearInterval(timer);
      }
    });
  };
  const timer = setInterval(() => {
    if (Date.now() - heard < SILENT_MS) return;
    at("lost").firstElementChild.textContent = `No word from the server since ${new Date(heard).toISOString().slice(11, 19)} UTC; trying again. What follows is of that time.`;
    at("lost").hidden = false;
    // The browser does not connect anew after a refusal, nor while it takes a dead connection for an open one.
    if (Date.now() - Math.max(began, heard) < AGAIN_MS) return;
    source.close();
    follow();
  }, 500);
  readOut();
  follow();
})();
