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
