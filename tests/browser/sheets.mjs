// Sheets in a real browser: on a phone, at a desk and on paper, in both colour schemes. None may have findings of axe,
// texts that are cut, on top of each other or too faint, or its verdict below the first screen.
// Usage: node sheets.mjs FOLDER_FOR_PICTURES FOLDER_WITH_SHEETS
import { readdirSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { axe, faint, launch, violations } from "./chromium.mjs";

const [pictures, folder] = process.argv.slice(2);
// A4 without its margins of 14 mm has 688 by 1016 pixels.
const VIEWS = { phone: { width: 390, height: 844 }, desk: { width: 1280, height: 900 }, print: { width: 688, height: 1016 } };
const NARROWEST = 360;
const GROUNDS = { light: "rgb(255, 255, 255)", dark: "rgb(20, 25, 28)" };

// Pixels by which the page is wider than its screen, and the bottom of its verdict.
const extent = () => [document.documentElement.scrollWidth - window.innerWidth, document.querySelector("header .word").getBoundingClientRect().bottom];

// Contents wider than their element: on a phone those that scroll may be, elsewhere none.
const cut = (mayScroll) => [...document.body.querySelectorAll("*:not(svg *)")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0)
  .filter((one) => ({ visible: false, auto: !mayScroll, scroll: !mayScroll })[getComputedStyle(one).overflowX] ?? true)
  .map((one) => `cut: ${one.tagName} in #${one.closest("[id]")?.id}: ${one.scrollWidth} px in ${one.clientWidth}`);

// Texts of pictures that leave their picture or overlap.
const crowded = () => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")].map((text) => ({ said: text.textContent, box: text.getBoundingClientRect() }));
  const leaves = ({ box }) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  // Boxes are higher than their letters: a quarter of the height may be shared.
  const meet = ({ box: a }, { box: b }) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > Math.min(a.height, b.height) / 4;
  return [
    ...texts.filter(leaves).map(({ said }) => `outside of its picture: ${said}`),
    ...texts.flatMap((one, at) => texts.slice(at + 1).filter((other) => meet(one, other)).map((other) => `on top of each other: ${one.said}, ${other.said}`)),
  ].map((what) => `${what} (${svg.getAttribute("aria-label")})`);
});

const sheets = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".html")).sort();
const findings = [];
const browser = await launch();
for (const sheet of sheets) for (const colorScheme of ["light", "dark"]) {
  const page = await browser.newPage({ colorScheme });
  await page.goto(pathToFileURL(resolve(folder, sheet)).href);
  await page.evaluate(axe);
  // What is folded must be whole as well.
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
  for (const [view, viewport] of Object.entries(VIEWS)) {
    const isPhone = view === "phone", scheme = view === "print" ? "light" : colorScheme;
    await page.emulateMedia({ media: view === "print" ? "print" : "screen" });
    const found = [];
    for (const width of isPhone ? [NARROWEST, viewport.width] : [viewport.width]) {
      await page.setViewportSize({ ...viewport, width });
      const [excess, bottom] = await page.evaluate(extent);
      if (excess > 0) found.push(`${excess} px wider than ${width}`);
      if (bottom > 200) found.push(`the verdict is not on the first screen: ${bottom} px`);
    }
    found.push(...await page.evaluate(violations), ...await page.evaluate(cut, isPhone), ...await page.evaluate(crowded));
    const [, ground, texts, tooFaint] = /^(rgb\([^)]*\)) (\d+) (.*)$/s.exec(await page.evaluate(`(${faint})(document)`));
    if (ground !== GROUNDS[scheme]) found.push(`the ground is ${ground}`);
    if (Number(texts) <= 50) found.push(`only ${texts} texts`);
    if (tooFaint) found.push(`too faint: ${tooFaint}`);
    await page.screenshot({ path: `${pictures}/${sheet.replace("/", "-").replace(".html", "")}-${view}-${colorScheme}.png`, fullPage: true });
    findings.push(...found.map((what) => `${sheet}, ${view}, ${colorScheme}: ${what}`));
  }
  await page.close();
}
await browser.close();
if (findings.length > 0) throw new Error(findings.join("\n"));
console.log(`DONE ${sheets.length}`);
