// The page in a real browser: fill the form, watch figures move, cancel, read, compare; at two widths, both colour schemes, and by keyboard alone.
// Usage: node site.mjs FOLDER_FOR_PICTURES URL TOKEN_FILE PROCESS_ID_OF_THE_SERVER
import { readFileSync } from "node:fs";
import { HtmlValidate } from "html-validate";
import { axe, faint, insist, launch, violations } from "./chromium.mjs";

const [pictures, url, tokenFile, server] = process.argv.slice(2);
const token = readFileSync(tokenFile, "utf8").trim();
const WIDTHS = { phone: { width: 360, height: 740 }, desk: { width: 1280, height: 900 } };
const SOON = 60_000;

// The server writes HTML without line ends and with short forms of attributes: that is style and no mistake.
const html = new HtmlValidate({ extends: ["html-validate:standard"], rules: { "attribute-boolean-style": "off", "no-implicit-button-type": "off" } });

const browser = await launch();

// A page that complains when it asks anybody else, when a script fails, and when it is wider than its screen.
const open = async (width, colorScheme) => {
  const context = await browser.newContext({ viewport: WIDTHS[width], colorScheme, reducedMotion: "reduce", locale: "en-GB", timezoneId: "Asia/Tokyo" });
  const page = await context.newPage();
  page.setDefaultTimeout(SOON);
  const faults = [];
  page.on("request", (request) => { if (!request.url().startsWith(url) && !request.url().startsWith("data:")) faults.push(`asks ${request.url()}`); });
  page.on("pageerror", (error) => faults.push(`script: ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error" && !/401|404|422/.test(message.text())) faults.push(`console: ${message.text()}`); });
  const look = async (name) => {
    await page.waitForLoadState(); // Without its style sheet a page has no colours to compare.
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    insist(wide <= 0, `${name} is ${wide} px wider than a ${width}`);
    // Symptom: on a phone, a select or a table was cut off. Tables scroll in their own box.
    await page.setViewportSize(WIDTHS.phone);
    const [whole, screen, cut] = await page.evaluate(() => [document.scrollingElement.scrollWidth, innerWidth,
      [...document.querySelectorAll("select, input, button, table, svg")].filter((one) => !one.closest(".wide") && one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML.slice(0, 80))]);
    insist(whole <= screen && cut.length === 0, `${name} on a screen of ${screen} px: ${whole} px wide; cut off: ${cut}`);
    if (width !== "phone") await page.screenshot({ path: `${pictures}/${name}-narrow-${colorScheme}.png`, fullPage: true });
    await page.setViewportSize(WIDTHS[width]);
    const unnamed = await page.evaluate(() => [...document.querySelectorAll("input:not([type=hidden]), select")]
      .filter((one) => !document.querySelector(`label[for="${one.id}"]`)).map((one) => one.name));
    insist(unnamed.length === 0, `${name}: fields without a label: ${unnamed}`);
    const [, texts, tooFaint] = /^rgb\([^)]*\) (\d+) (.*)$/s.exec(await page.evaluate(`(${faint})(document)`));
    insist(Number(texts) > 5 && !tooFaint, `${name}, ${colorScheme}: of ${texts} texts are too faint: ${tooFaint}`);
    await page.evaluate(axe);
    faults.push(...await page.evaluate(violations));
    // As the server sends it, before scripts change it. The answer to a form has no address.
    const answer = await context.request.get(page.url());
    if (answer.ok()) {
      const { results } = await html.validateString(await answer.text());
      faults.push(...results.flatMap(({ messages }) => messages.map(({ ruleId, message }) => `HTML, ${ruleId}: ${message}`)));
    }
    await page.screenshot({ path: `${pictures}/${name}-${width}-${colorScheme}.png`, fullPage: true });
    insist(faults.length === 0, `${name}: ${faults.join("; ")}`);
  };
  return { page, look, context };
};

const logIn = async (page) => {
  await page.goto(`${url}/login`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Start a run" }).waitFor();
};

// By mouse: refusal, question, live figures, verdict.
const start = async ({ page, look }, time) => {
  await logIn(page);
  await look("home");
  await page.getByLabel("Hosts").selectOption("here");
  await page.getByLabel("Time per test").fill("9h");
  await page.getByLabel("Rate per link").fill("1T");
  await page.getByLabel("Your name").fill("anna");
  await page.getByLabel("Purpose").fill("new cable <b>at</b> Eth1/8");
  await page.getByRole("button", { name: "Continue" }).click();
  // Symptom: the second wrong field was named after the first was right.
  await page.getByRole("alert").first().waitFor();
  const alerts = await page.getByRole("alert").allTextContents();
  insist(alerts.length === 2 && alerts.every((text) => /^[A-Z].*\.$/.test(text)), `errors of both fields, as sentences: ${alerts}`);
  await look("refused");
  await page.getByLabel("Rate per link").fill("");
  await page.getByLabel("Time per test").fill(time);
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: /Loads this machine with 3 nodes/ }).waitFor();
  for (const text of ["anna", "new cable <b>at</b> Eth1/8"]) await page.getByRole("definition").filter({ hasText: text }).waitFor();
  await look("question");
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/\/runs\/pb-/);
  const name = new URL(page.url()).pathname.split("/").pop();
  // Symptom: Back after Start asked to send a form again.
  await page.goBack();
  await page.getByText("This run was started").waitFor();
  await page.goForward();
  await page.waitForURL(/\/runs\/pb-/);
  // Figures move: a rate, and a course that grows.
  const courses = new Set();
  const deadline = Date.now() + SOON;
  while (courses.size < 3) {
    insist(Date.now() < deadline, `the figures of ${name} do not move: ${[...courses]}`);
    const course = await page.locator("#curve polyline").getAttribute("points", { timeout: SOON }).catch(() => null);
    if (course) courses.add(course);
    await page.waitForTimeout(100);
  }
  // Symptom: every rate in Gbit/s, however low.
  const rate = (await page.locator("#total").textContent()).match(/^([\d.]+) [GMk]bit\/s$/);
  insist(Number(rate?.[1]) > 0, "a rate with its unit");
  insist((await page.locator("#unit").textContent()).match(/^[GMk]bit\/s$/), "the unit of the pairs");
  insist((await page.locator("#matrix tbody td").count()) === 9, "a matrix of three nodes");
  insist(Number(await page.locator("#matrix tbody td").nth(1).textContent()) > 0, "the rate of a pair");
  insist((await page.locator(".legend li").count()) === 7, "a legend of seven colours");
  insist((await page.locator(".chart .rates span").count()) === 4, "labels of the chart");
  const names = await page.locator("#live").evaluate(() => [...document.querySelectorAll("#matrix tbody th")].map((cell) => cell.textContent));
  insist(names.length === 3 && names.every(Boolean), `names of its rows: ${names}`);
  // Symptom: a pair of many nodes could be read by mouse alone. The cell keeps the focus while figures change.
  await page.locator("#cells").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  const points = () => document.querySelector("#curve polyline").getAttribute("points");
  const before = await page.evaluate(points);
  while ((await page.evaluate(points)) === before) await page.waitForTimeout(100);
  insist(await page.evaluate(() => document.activeElement.matches("#matrix tbody tr:first-child td:nth-child(3)")), "the cell keeps the focus");
  const readout = await page.locator("#readout").textContent();
  insist(readout.match(/^\S+ to \S+: [\d.]+ [GMk]bit\/s; .* sends .*; .* receives /), `read-out of a pair: ${readout}`);
  await page.locator("#matrix tbody td").nth(3).click();
  insist((await page.locator("#readout").textContent()).startsWith(`${names[1]} to ${names[0]}: `), "read-out of a tapped cell");
  await look("live");
  return name;
};

// Symptom: the page of a run whose server was lost looked like that of a live run.
const lose = async ({ page }) => {
  const course = () => page.locator("#curve polyline").getAttribute("points");
  process.kill(Number(server), "SIGSTOP");
  try {
    await page.getByText(/No word from the server since \d\d:\d\d:\d\d UTC; trying again/).waitFor();
  } finally {
    process.kill(Number(server), "SIGCONT");
  }
  await page.locator("#lost").waitFor({ state: "hidden" });
  const before = await course();
  while ((await course()) === before) await page.waitForTimeout(100);
};

const desk = await open("desk", "light");
const first = await start(desk, "15s");
// Symptom: who watched the events saw the present stage only.
insist((await desk.page.locator("#events li").allTextContents()).some((text) => /test 1 of \d/.test(text)), "the events of a run");
await desk.page.getByRole("link", { name: "Open the report" }).waitFor();
// Symptom: at its end a run lost its figures, and its title did not say what became of it.
await desk.page.locator("header .word").waitFor();
insist(/^(NOT JUDGED|PASS|HOST-LIMITED) - here/.test(await desk.page.title()), `the title of an ended run: ${await desk.page.title()}`);
insist(await desk.page.locator("svg.course").count() === 1 && await desk.page.locator("svg.heat").count() === 1, "curve and pairs of an ended run");
insist((await desk.page.locator(".badge").first().textContent()).match(/NOT JUDGED|PASS|HOST-LIMITED/), "a verdict");
insist(await desk.page.getByText("new cable <b>at</b> Eth1/8").count(), "what somebody wrote is text");
// Symptom: times were in UTC alone.
const times = await desk.page.locator("dd time").allTextContents();
insist(times.length === 3 && times.every((text) => /^[-\d]+ [:\d]+ UTC \(.* GMT\+9\)$/.test(text)), `times in UTC and here: ${times}`);
await desk.look("ended");
await desk.page.getByRole("link", { name: "Open the report" }).click();
await desk.page.getByRole("heading", { name: "Conditions of test" }).first().waitFor();
await desk.look("report");
// Symptom: a report was a dead end.
await desk.page.getByRole("link", { name: `Back to run ${first}` }).click();
await desk.page.getByRole("button", { name: "History" }).click();
await desk.page.getByRole("heading", { name: /^History of / }).waitFor();
await desk.look("history");
await desk.page.goBack();
await desk.page.getByRole("link", { name: "Run again" }).click();
await desk.page.getByRole("heading", { name: "Start a run" }).waitFor();
insist((await desk.page.getByLabel("Purpose").inputValue()) === "new cable <b>at</b> Eth1/8", "the same request");

// On a phone, dark: cancel one.
const phone = await open("phone", "dark");
const second = await start(phone, "60s");
insist(second !== first, "another run");
await lose(phone);
// A run that waits for it.
await desk.page.goto(`${url}/?again=${first}`);
await desk.page.getByLabel("Hosts").selectOption("a group whose name is far longer than a phone is wide");
await desk.page.getByRole("button", { name: "Continue" }).click();
await desk.page.getByRole("button", { name: "Start" }).click();
await desk.page.getByText("This run waits for 1 run").waitFor();
await desk.look("waiting");
await desk.page.getByRole("button", { name: "Cancel this run" }).click();
await desk.page.locator(".badge", { hasText: "cancelled" }).waitFor();
await phone.page.getByRole("button", { name: "Cancel this run" }).click();
// Symptom: until it was over, a cancelled run was "running", with the button.
await phone.page.locator(".badge", { hasText: /cancelling|cancelled/ }).waitFor();
insist((await phone.page.getByRole("button", { name: "Cancel this run" }).count()) === 0, "a cancelled run cannot be cancelled");
await phone.page.locator(".badge", { hasText: "cancelled" }).waitFor();
await phone.look("cancelled");

// A colleague gets the link, and has no token.
const guest = await open("phone", "light");
await guest.page.goto(`${url}/runs/${first}`);
await guest.page.getByRole("link", { name: "Open the report" }).waitFor();
insist((await guest.page.getByRole("button", { name: "Cancel this run" }).count()) === 0, "who has no token cannot cancel");
await guest.look("guest");
// Symptom: "Run again" without a session led to the list after the login.
await guest.page.getByRole("link", { name: "Run again" }).click();
await guest.page.getByRole("heading", { name: "Log in" }).waitFor();
await guest.look("login");
await guest.page.getByLabel("Token").fill(token);
await guest.page.getByRole("button", { name: "Log in" }).click();
await guest.page.getByRole("heading", { name: "Start a run" }).waitFor();
insist((await guest.page.getByLabel("Purpose").inputValue()) === "new cable <b>at</b> Eth1/8", "after the login, the same request");
await guest.page.goto(`${url}/nothing`);
await guest.look("nothing");

// Other kinds of runs.
for (const [kind, text] of [["linktest", /bit\/s.*the slowest link/], ["imb", /shortest time: PingPong/]]) {
  await desk.page.goto(`${url}/?group=here`);
  await desk.page.getByRole("radio", { name: kind }).check();
  await desk.page.getByRole("button", { name: "Continue" }).click();
  await desk.page.getByRole("button", { name: "Start" }).click();
  await desk.page.getByRole("link", { name: "Open the report" }).waitFor();
  insist(text.test(await desk.page.locator(".tiles").textContent()), `tiles of ${kind}`);
  await desk.look(kind);
}

// By keyboard alone: from the first page to a run that has ended.
const keys = await open("desk", "dark");
await keys.page.goto(`${url}/login`);
// The browser gives the field the focus with its first frame, which may come after the page has loaded.
await keys.page.locator("#token:focus").waitFor();
await keys.page.keyboard.type(token);
await keys.page.keyboard.press("Enter");
await keys.page.getByRole("heading", { name: "Start a run" }).waitFor();
const tabTo = async (selector) => {
  for (let count = 0; count < 60; count++) {
    if (await keys.page.evaluate((wanted) => document.activeElement && document.activeElement.matches(wanted), selector)) {
      const ring = await keys.page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      insist(ring !== "none", `${selector}: nobody sees that it has the focus`);
      return;
    }
    await keys.page.keyboard.press("Tab");
  }
  throw new Error(`no way to ${selector} by keyboard`);
};
await tabTo("#group");
await keys.page.keyboard.type("here");
await tabTo("#time");
await keys.page.keyboard.type("1s");
await keys.page.keyboard.press("Enter");
await keys.page.getByRole("heading", { name: /Loads this machine/ }).waitFor();
await tabTo("main button");
await keys.page.keyboard.press("Enter");
await keys.page.waitForURL(/\/runs\/pb-/);
const third = new URL(keys.page.url()).pathname.split("/").pop();
await keys.page.getByRole("link", { name: "Open the report" }).waitFor();
await keys.look("keyboard");

// Search, and two runs beside each other, at both widths.
for (const [width, colorScheme] of [["desk", "light"], ["phone", "dark"]]) {
  const reader = await open(width, colorScheme);
  await reader.page.goto(`${url}/runs`);
  await reader.page.getByLabel("Search words").fill("cable Eth1/8 cancelled");
  await reader.page.getByRole("button", { name: "Search" }).click();
  await reader.page.waitForURL(/q=/);
  await reader.look("runs");
  // By keyboard: a filter is set, and is the word of a search; then it is cleared.
  await reader.page.getByLabel("Search words").fill("");
  await reader.page.getByRole("button", { name: "Search" }).click();
  const filter = reader.page.getByRole("group", { name: "state" }).getByRole("link", { name: "cancelled" });
  await filter.press("Enter");
  await reader.page.waitForURL(/q=state%3Acancelled|q=state:cancelled/);
  insist((await reader.page.getByLabel("Search words").inputValue()) === "state:cancelled", "the filter is a search word");
  insist((await filter.getAttribute("aria-current")) === "true", "the filter is set");
  const words = await reader.page.locator(".runs .badge").allTextContents();
  insist(words.length > 0 && words.every((word) => word === "cancelled"), `only cancelled runs: ${words}`);
  await reader.look("filtered");
  await filter.press("Enter");
  await reader.page.waitForURL(/q=$/);
  await reader.page.getByRole("link", { name: "Compare", exact: true }).click();
  const chosen = await Promise.all(["Before", "Now"].map((label) => reader.page.getByLabel(label).inputValue()));
  insist(chosen[0] !== chosen[1], `two different runs are chosen: ${chosen}`);
  await reader.page.getByLabel("Before").selectOption(first);
  await reader.page.getByLabel("Now").selectOption(third);
  await reader.page.getByRole("button", { name: "Compare" }).click();
  await reader.page.getByRole("table").waitFor();
  await reader.look("compare");
}
await browser.close();
console.log(`DONE ${first} ${second} ${third}`);
