/** The page: unpacks the data, and puts the parts together. */

import { App } from "./app.js";
import { unpacked } from "./data.js";
import { diffSection } from "./diff.js";
import { choice, element } from "./dom.js";
import { flameGraph } from "./flame.js";
import { formatBytes, formatCount } from "./format.js";
import { lifeOf } from "./life.js";
import { lifetimes } from "./lifetimes.js";
import { momentOf } from "./moment.js";
import { memoryMap } from "./memory_map.js";
import { growthPart, heldTable, trustPart, windowsTable } from "./tables.js";
import { timeline } from "./timeline.js";

/**
 * The parts below the timeline, in their order: what of a view each one shows, and what makes it.
 * @type {[string, (app: App) => Node | null][]}
 */
const PARTS = [
  ["lifetimes", lifetimes], ["lifetimes", lifeOf], ["moments", momentOf], ["maps", memoryMap], ["flame", flameGraph],
  ["windows", windowsTable], ["growth", growthPart], ["held", heldTable], ["trust", trustPart],
];

/** What the first picture needs; all else is unpacked when that is drawn. */
const FIRST = ["path", "terms", "lo", "hi", "figures", "levels", "marks", "bands"];

/** When what was changed is on the screen. */
const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));

/** How often a log was chosen: what is still being made of one that was chosen before is not shown any more. */
let choices = 0;

/**
 * The parts of one log.
 * @param {HTMLElement} place
 * @param {any} packed
 */
async function show(place, packed) {
  /** @param {string[]} keys */
  const part = (keys) => unpacked(Object.fromEntries(keys.map((key) => [key, packed[key]])));
  const own = (choices += 1), app = new App(await part(FIRST));
  if (own !== choices) return;
  const still = app.view.lo === app.view.hi;
  place.replaceChildren(figures(app), still ? element("p", {}, "Nothing is allocated or freed in what is shown, so there is no curve.") : timeline(app));
  await painted();
  performance.mark("memlens-first-picture");
  Object.assign(app.view, await part(Object.keys(packed).filter((key) => !FIRST.includes(key))));
  if (own !== choices) return;
  for (const [key, make] of PARTS) if (packed[key] && !(still && (make === lifetimes || make === momentOf))) place.append(make(app) ?? "");
  const sections = [...document.querySelectorAll("section[id]")];
  document.getElementById("parts")?.replaceChildren(
    ...sections.map((one) => element("a", { href: `#${one.id}` }, one.querySelector("h2")?.textContent ?? one.id)));
}

/**
 * The figures on top, to be read off before anything is looked at.
 * @param {App} app
 * @returns {HTMLElement}
 */
function figures({ view: { figures, hi, lo } }) {
  /** @type {[string, string, number][]} */
  const shown = [["Peak", "peak-bytes", figures.peak_bytes]];
  if (figures.knows_reserved) shown.push(["Reserved peak", "reserved-peak-bytes", figures.reserved_peak_bytes]);
  shown.push(["Live at the end", "live-bytes", figures.live_bytes]);
  /** @param {string} name @param {string} text @param {Record<string, any>} [data] */
  const entry = (name, text, data = {}) => element("div", {}, element("dt", {}, name), element("dd", data, text));
  return element("dl", { id: "figures" },
    ...shown.map(([name, key, bytes]) => entry(name, formatBytes(bytes), { [`data-${key}`]: bytes, title: `${bytes} bytes` })),
    entry("Events shown", formatCount(hi - lo), { "data-events": hi - lo }));
}

async function main() {
  const root = document.documentElement, place = document.getElementById("app");
  if (!place) return;
  // In the frame of a notebook a link to a place means one of the notebook, which would be loaded into the frame.
  document.querySelector("nav")?.addEventListener("click", (event) => {
    const part = document.querySelector(/** @type {HTMLAnchorElement} */ (event.target).hash || "#none");
    if (!part || location.href !== "about:srcdoc") return;
    event.preventDefault();
    part.scrollIntoView();
  });
  try {
    if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old for them, it has no DecompressionStream");
    const data = JSON.parse(document.getElementById("data")?.textContent ?? "null");
    if (data.diff) place.before(diffSection(await unpacked(data.diff)), element("h2", { id: "head-alone" }, `Head alone: ${data.diff.head}`));
    const paths = data.logs.map((/** @type {any} */ log) => log.path);
    if (paths.length > 1) place.before(element("p", {}, choice("Show", paths, (k) => show(place, data.logs[k]), { first: data.shown, id: "log" })));
    await show(place, data.logs[data.shown]);
    await painted();
    performance.mark("memlens-drawn");
    root.dataset.ready = "true";
  } catch (error) {
    root.dataset.ready = "failed";
    place.replaceChildren(`The pictures cannot be shown: ${error instanceof Error ? error.message : error}. The words and figures below can.`);
    throw error;
  }
}

main();
