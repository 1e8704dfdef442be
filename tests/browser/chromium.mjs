// What the scripts of this folder share: how the browser starts, and how a failure is raised.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

export const launch = () => chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"],
});

export const insist = (is, what) => { if (!is) throw new Error(what); };

export const beside = (name) => readFileSync(new URL(name, import.meta.url), "utf8");
export const faint = beside("faint.js");

// Findings of axe, for pages that have run `axe`.
export const axe = beside("node_modules/axe-core/axe.min.js");
export const violations = async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations
  .map(({ id, help, nodes }) => `axe, ${id}: ${help}: ${nodes.map((node) => node.target).slice(0, 3).join("; ")}`);
