/** The whole life of the selected block. */

import { element, section } from "./dom.js";
import { formatCount, formatDuration, formatExact } from "./format.js";
import { FATE_WORDS } from "./lifetimes.js";
import { livesOf } from "./lives.js";

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement | null} nothing where blocks are not known
 */
export function lifeOf(app) {
  if (!app.view.lifetimes.known) return null;
  const body = element("div", { role: "status", "aria-live": "polite" });
  const hint = element("p", { class: "hint" }, "Click on a bar, or choose a block in a list, to see its whole life.");
  const place = section("life", "One block", hint, body);
  /** @type {Map<number, any[]>} */
  const contexts = new Map(app.view.lifetimes.contexts.map((/** @type {any[]} */ row) => [row[0], row]));
  app.onSelect(() => {
    const known = app.block >= 0, bar = livesOf(app).blockOf(app.block);
    hint.hidden = known;
    body.replaceChildren(...(bar >= 0 ? lifeDetails(app, bar, contexts.get(bar)) : known ? [unknown(app)] : []));
    place.dataset.block = known ? String(bar) : "";
    reveal(place, known);
  });
  return place;
}

/**
 * A block that has no bar: a small one of a memory map.
 * @param {import("./app.js").App} app
 * @returns {Node}
 */
function unknown(app) {
  const maps = app.view.maps.moments.map((/** @type {any} */ moment) => moment.pieces).filter(Boolean);
  const line = maps.map((/** @type {any} */ pieces) => pieces.lines[pieces.events.indexOf(app.block)]).find(Boolean);
  return element("p", {}, "This page has the whole life of the largest blocks alone. ", line ? commandOf(app, line) : "");
}

/**
 * What tells all of a block.
 * @param {import("./app.js").App} app
 * @param {number} line
 * @returns {Node}
 */
function commandOf(app, line) {
  return element("span", {}, "More of it: ", element("code", {}, `memlens block ${quoted(app.view.path)} ${line}`));
}

/**
 * Keep what is selected in sight: at the edge of the window where its place lies beyond that.
 * @param {HTMLElement} place
 * @param {boolean} open
 */
export function reveal(place, open) {
  place.classList.toggle("panel", open);
  place.scrollTop = 0;
}

/**
 * @param {import("./app.js").App} app
 * @param {number} bar
 * @param {any[] | undefined} context the log lines around its ALLOC and its FREE
 * @returns {Node[]}
 */
function lifeDetails(app, bar, context) {
  const { axis, view: { lifetimes: columns } } = app;
  const [size, alloc, free, fate] = [columns.size_bytes[bar], columns.alloc[bar], columns.free[bar], columns.fate[bar]];
  const [born, gone] = [columns.alloc_line[bar], columns.free_line[bar]];
  const lasted = columns.life_us[bar] >= 0 ? `, ${formatDuration(columns.life_us[bar])}` : "";
  /** @type {[string, Node | string][]} */
  const entries = [
    ["Size", element("span", { "data-bytes": size }, formatExact(size))],
    ["Fate", FATE_WORDS[fate]],
    ["Life", `${formatCount(columns.life_events[bar])} events${gone ? lasted : " to the end of the log"}`],
    ["Allocated", placeText(app, born, alloc, "before the input begins")],
    ["Freed", placeText(app, gone, fate === 0 || fate === 2 ? free : null, "never")],
  ];
  if (columns.owner[bar] >= 0) entries.splice(4, 0, ["by", ownerNode(app, columns.owner[bar])]);
  if (columns.free_owner[bar] >= 0) entries.push([app.view.terms.line === "line" ? "after" : "by", ownerNode(app, columns.free_owner[bar])]);
  const list = element("dl", { class: "facts" }, ...entries.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  const showLife = () => {
    const margin = Math.max((free - alloc) * 0.1, 4);
    axis.show(alloc - margin, free + margin);
    document.getElementById("lifetimes")?.scrollIntoView();
  };
  const controls = element("p", { class: "controls" },
    element("button", { type: "button", click: showLife }, "Show its life"),
    element("button", { type: "button", click: () => app.select("moment", Math.max(alloc, axis.lo)) }, "What else is alive when it is allocated"),
    element("button", { type: "button", click: () => app.select(null) }, "Close"));
  const lines = context ? [linesAround("Around its ALLOC", context[1], born), linesAround("Around its FREE", context[2], gone)].flat() : [];
  if (!lines.length && born) lines.push(element("p", {}, commandOf(app, born)));
  return [controls, element("div", { class: "beside" }, list, element("div", {}, ...lines))];
}

/**
 * @param {import("./app.js").App} app
 * @param {number} line 0 where there is none
 * @param {number | null} event
 * @param {string} none
 * @returns {string}
 */
function placeText(app, line, event, none) {
  if (!line) return none;
  return event === null ? `${app.lineText(line)}, beyond what is shown` : `${app.lineText(line)} (event ${formatCount(event)})`;
}

/**
 * An owner in full: of a call stack each frame on a line of its own, the innermost first.
 * @param {import("./app.js").App} app
 * @param {number} number
 * @returns {Node | string}
 */
function ownerNode(app, number) {
  const text = app.ownerText(number), frames = text.split(" < ");
  return frames.length === 1 ? text : element("ol", { class: "stack" }, ...frames.map((frame) => element("li", {}, frame)));
}

/**
 * The log lines around an event, its own one marked.
 * @param {string} title
 * @param {[number, ...string[]] | []} context the number of the first line, and the lines
 * @param {number} line the one of the event
 * @returns {Node[]}
 */
function linesAround(title, context, line) {
  const [first, ...lines] = context;
  if (first === undefined) return [];
  return [element("h4", {}, title), element("pre", {}, ...lines.map((text, k) =>
    element(first + k === line ? "mark" : "span", { "data-line": first + k }, `${first + k === line ? "\u25b6" : " "} ${first + k}  ${text}\n`)))];
}

/**
 * A path as a shell takes it.
 * @param {string} path
 * @returns {string}
 */
export function quoted(path) {
  return /^[\w./:@%+,=-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}
