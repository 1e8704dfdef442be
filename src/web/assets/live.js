// Follows a run: draws each state that the server tells, and loads the page again when the run has come to another stage.
"use strict";
(() => {
  const live = document.getElementById("live");
  if (!live || !live.dataset.events) return;
  const BOUNDS = [0.5, 0.7, 0.8, 0.9, 0.95];
  const at = (id) => document.getElementById(id);
  // The unit that fits the highest rate, and rates in it: as units.rs has them.
  const scaleOf = (most) => (most >= 1e9 || most === 0 ? ["Gbit/s", 1e9] : most >= 1e6 ? ["Mbit/s", 1e6] : ["kbit/s", 1e3]);
  const figure = (bits, [, one]) => (bits / one).toFixed(bits / one >= 99.95 ? 1 : 2);
  const rateOf = (bits) => `${figure(bits, scaleOf(bits))} ${scaleOf(bits)[0]}`;
  const put = (id, text) => { const place = at(id); if (place.textContent !== text) place.textContent = text; };

  const stageOf = (state) => {
    if (state.state === "queued") {
      return state.before > 0 ? `queued: ${state.before} ahead, first ${state.behind}` : "queued: next to start";
    }
    return (state.live && state.live.stage) || "starting";
  };

  const drawCourse = (points, stretch) => {
    const highest = Math.max(0, ...points);
    const most = Math.max(1, highest);
    const last = Math.max(1, points.length - 1);
    const text = points.map((rate, index) => `${(index / last * 600).toFixed(1)},${(120 - rate / most * 116).toFixed(1)}`).join(" ");
    at("course").firstElementChild.setAttribute("points", text);
    put("scale", `from 0 to ${rateOf(highest)}, over ${points.length * stretch} s`);
  };

  const element = (kind, place, scope) => {
    const made = place.appendChild(document.createElement(kind));
    if (scope) made.scope = scope;
    return made;
  };

  const makeMatrix = (table, count) => {
    const [head, body] = [table.tHead, table.tBodies[0]];
    head.rows[0].replaceChildren();
    body.replaceChildren();
    table.classList.toggle("dense", count > Number(table.dataset.named));
    element("th", head.rows[0]);
    for (let row = 0; row < count; row++) {
      element("th", head.rows[0], "col");
      const cells = element("tr", body);
      element("th", cells, "row");
      for (let cell = 0; cell < count; cell++) element("td", cells);
    }
  };

  const drawMatrix = (names, rows) => {
    const table = at("matrix");
    const body = table.tBodies[0];
    if (body.rows.length !== rows.length) makeMatrix(table, rows.length);
    names.slice(0, rows.length).forEach((name, node) => {
      for (const place of [table.tHead.rows[0].cells[node + 1], body.rows[node].cells[0]]) {
        if (place.textContent !== name) place.textContent = name;
      }
    });
    const highest = Math.max(0, ...rows.flat().map((rate) => rate || 0));
    const most = Math.max(1, highest);
    const scale = scaleOf(highest);
    put("unit", scale[0]);
    let least = null;
    rows.forEach((row, from) => row.forEach((rate, to) => {
      const cell = body.rows[from].cells[to + 1];
      cell.className = rate === null ? "empty" : `c${BOUNDS.filter((bound) => rate / most >= bound).length}`;
      cell.textContent = rate === null ? "" : figure(rate, scale);
      cell.removeAttribute("title");
      if (rate !== null) {
        if (least === null || rate < least.rate) least = { rate, from, to };
        cell.title = `${names[from]} to ${names[to]}: ${rateOf(rate)}`;
      }
    }));
    put("slowest", least ? `slowest pair: ${names[least.from]} to ${names[least.to]}, ${rateOf(least.rate)}` : "");
  };

  const draw = (state) => {
    put("stage", stageOf(state));
    const now = state.live;
    if (!now) return;
    const rates = now.received_bits_per_s;
    put("total", rateOf(rates.reduce((sum, rate) => sum + rate, 0)));
    if (rates.length) {
      const least = rates.indexOf(Math.min(...rates));
      put("least", rateOf(rates[least]));
      put("leastname", now.nodes[least] || "");
    }
    if (now.test) {
      put("test", `test ${now.test.number} of ${now.test.of}`);
      put("what", now.test.what);
    }
    at("progress").value = Math.min(1, now.course_bits_per_s.length * now.stretch_s * 1000 / Math.max(1, state.data_ms || 0));
    drawCourse(now.course_bits_per_s, now.stretch_s);
    drawMatrix(now.nodes, now.matrix_bits_per_s);
  };

  const source = new EventSource(live.dataset.events);
  // The browser reconnects automatically, unless the server refused the stream.
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
  });
  source.addEventListener("state", (event) => {
    const state = JSON.parse(event.data);
    if (!state) return;
    if (state.state === live.dataset.state) {
      draw(state);
    } else if (state.state === "running") {
      live.dataset.state = "running";
      const badge = document.querySelector("h1 .badge");
      badge.textContent = "running";
      badge.className = "badge busy";
      draw(state);
    } else {
      source.close();
      location.reload();
    }
  });
})();
