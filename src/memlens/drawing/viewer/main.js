/** The page: unpacks the data, and puts the parts together. */

import { addressed } from "./address.js";
import { App } from "./app.js";
import { drawAsked, drawForPaper } from "./canvas.js";
import { unpacked } from "./data.js";
import { details, legendTable } from "./details.js";
import { diffSection } from "./diff.js";
import { devicesPart } from "./devices.js";
import { element } from "./dom.js";
import { flameGraph } from "./flame.js";
import { formatBytes, formatCount } from "./format.js";
import { memoryMap } from "./memory_map.js";
import { pictureOf } from "./picture.js";
import { blocksTable, growthPart, heldTable, trustPart, windowsTable } from "./tables.js";

/** The parts below the picture, in their order. @type {((app: App) => Node | null)[]} */
const PARTS = [memoryMap, flameGraph, windowsTable, growthPart, heldTable, blocksTable, trustPart];

/** What the first picture needs; all else is unpacked when that is drawn. */
const FIRST = ["path", "terms", "lo", "hi", "state", "figures", "levels", "stacks", "marks", "bands"];

const frame = () => new Promise(requestAnimationFrame);
/** When what was changed is on the screen. */
const painted = () => frame().then(frame);

async function firstPicture() {
  await painted();
  if (!performance.getEntriesByName("memlens-first-picture").length) performance.mark("memlens-first-picture");
}

/** Zooms that are tried where nobody sees it, and undone before the next frame: code that has run is several times as fast. */
const TRIED = 4;

/** @param {import("./axis.js").Axis} axis */
async function tryZooms(axis) {
  for (let k = 1; k <= TRIED; k += 1) {
    const { from, to } = axis;
    axis.zoom(0.5 ** k);
    drawAsked();
    axis.show(from, to);
    drawAsked();
    await frame();
  }
}

/** How often a log was chosen: what is still being made of one that was chosen before is not shown any more. */
let choices = 0;

/**
 * The parts of one log.
 * @param {HTMLElement} place
 * @param {any} packed
 * @param {number} log its number, where it is not the one that the page begins with; else -1
 * @param {import("./address.js").Both | null} both
 */
async function show(place, packed, log, both) {
  /** @param {string[]} keys */
  const part = (keys) => unpacked(Object.fromEntries(keys.map((key) => [key, packed[key]])));
  verdict(log < 0 ? null : packed.verdict);
  const own = (choices += 1), app = new App(await part(FIRST), log);
  if (own !== choices) return;
  const still = app.view.lo === app.view.hi;
  if (still) place.replaceChildren(figures(app), element("p", {}, app.view.state ? "This input is the state at one moment, without a history: there is no curve, and a peak is not known." : "Nothing is allocated or freed in what is shown, so there is no curve."));
  else {
    const { legend, show: tell } = legendTable(app);
    place.replaceChildren(figures(app), pictureOf(app, tell), details(app, legend));
  }
  await firstPicture();
  Object.assign(app.view, await part(Object.keys(packed).filter((key) => !FIRST.includes(key))));
  if (own !== choices) return;
  for (const make of PARTS) if (!(still && make === blocksTable)) place.append(make(app) ?? "");
  if (!still) {
    app.look({}); // now there are bars
    addressed(app, both);
    await tryZooms(app.axis);
  }
  const sections = [...document.querySelectorAll("section[id]")];
  document.getElementById("parts")?.replaceChildren(
    ...sections.map((one) => element("a", { href: `#${one.id}` }, one.querySelector("h2")?.textContent ?? one.id)));
}

/** What the page says first: of all its logs. @type {{ sentences: string[], tone: string } | null} */
let first = null;

/**
 * Say what there is to say of one device, or of all (`null`).
 * @param {{ sentences: string[], tone: string } | null} of
 */
function verdict(of) {
  const header = document.querySelector("header"), place = document.getElementById("verdict");
  if (!header || !place) return;
  first ??= { sentences: Array.from(place.children, (span) => span.textContent ?? ""), tone: header.className };
  const { sentences, tone } = of ?? first;
  header.className = tone;
  place.replaceChildren(...sentences.flatMap((text) => [element("span", {}, text), " "]));
}

/**
 * The figures on top, to be read off before anything is looked at.
 * @param {App} app
 * @returns {HTMLElement}
 */
function figures(app) {
  const { figures, hi, lo, state } = app.view, { knows_reserved: reserves, reserved_at_peak_bytes: there } = figures, at = (/** @type {number | null} */ line) => (line ? `at ${app.lineText(line)}` : "");
  const most = reserves ? [["reserved-peak-bytes", figures.reserved_peak_bytes]] : [], live = ["live-bytes", figures.live_bytes];
  const shown = /** @type {[string, string, number, string][]} */ (state ? [["Allocated", ...live, ""], ...most.map((one) => ["Reserved", ...one, ""])] : [
    ["Peak", "peak-bytes", figures.peak_bytes, [at(figures.peak_line), there === null ? "" : `${formatBytes(there)} reserved`].filter(Boolean).join(", ")],
    ...most.map((one) => ["Most reserved", ...one, at(figures.reserved_peak_line)]), ["Live at the end", ...live, ""],
  ]);
  /** @param {string} name @param {string} text @param {string} note @param {Record<string, any>} data */
  const entry = (name, text, note, data) => element("div", {}, element("dt", {}, name), element("dd", data, text), ...(note ? [element("dd", { class: "note" }, note)] : []));
  return element("dl", { id: "figures" },
    ...shown.map(([name, key, bytes, note]) => entry(name, formatBytes(bytes), note, { [`data-${key}`]: bytes, title: `${bytes} bytes` })),
    ...(state ? [] : [entry("Events shown", formatCount(hi - lo), "", { "data-events": hi - lo })]));
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
  for (const [name, open] of /** @type {[string, boolean][]} */ ([["beforeprint", true], ["afterprint", false]]))
    addEventListener(name, () => {
      document.getElementById("words")?.toggleAttribute("open", open);
      drawForPaper(open);
    });
  try {
    if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old for them, it has no DecompressionStream");
    const data = JSON.parse(document.getElementById("data")?.textContent ?? "null");
    const diff = data.diff && await diffSection(data.diff);
    if (diff) {
      place.before(diff.place, element("h2", { id: "head-alone" }, `Head alone: ${data.diff.head}`));
      await firstPicture();
      await diff.fill();
    }
    const asked = new URLSearchParams(location.hash.slice(1)).get("log") ?? "", shown = /^\d+$/.test(asked) && Number(asked) < data.logs.length ? Number(asked) : data.shown;
    /** @param {number} k */
    const showLog = (k) => show(place, data.logs[k], k === data.shown ? -1 : k, diff?.both ?? null);
    const devices = data.logs.length > 1 ? devicesPart(data.logs, shown, showLog) : null;
    if (devices) place.before(devices.place);
    await showLog(shown);
    await devices?.fill();
    if (diff) await tryZooms(diff.both.axis);
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
