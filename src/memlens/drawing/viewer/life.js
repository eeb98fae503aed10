/** The whole life of the selected block. */

import { button, element, section } from "./dom.js";
import { formatCount, formatDuration, formatExact } from "./format.js";
import { livesOf } from "./lives.js";

/** Milliseconds until a click was no double click, for whose second click nothing may have moved; the height of the links on top in CSS pixels. */
const DOUBLE_CLICK = 400, NAV = 40;

/**
 * A part of the page about what is selected; what is selected is kept in sight, at the edge of the window where its place lies beyond that.
 * @param {import("./app.js").App} app
 * @param {string} id
 * @param {string} title
 * @param {string} words what is to be done where nothing is shown
 * @param {(place: HTMLElement) => Node[] | null} show
 * @returns {HTMLElement}
 */
export function panel(app, id, title, words, show) {
  const body = element("div", { role: "status", "aria-live": "polite" }), hint = element("p", { class: "hint" }, words), place = section(id, title, hint, body);
  let opening = 0;
  const open = () => {
    place.classList.add("panel");
    place.scrollTop = 0;
    // What was clicked on stays in sight above it, but for a little.
    const clicked = document.activeElement, { top = 0, bottom = 0 } = clicked instanceof HTMLCanvasElement ? clicked.getBoundingClientRect() : {};
    const covered = bottom - place.getBoundingClientRect().top;
    if (clicked?.compareDocumentPosition(place) === Node.DOCUMENT_POSITION_FOLLOWING && covered > (bottom - top) / 4) scrollBy(0, Math.min(covered, top - NAV));
  };
  app.onSelect(() => {
    const shown = show(place);
    body.replaceChildren(...shown ?? []);
    hint.hidden = shown !== null;
    clearTimeout(opening);
    if (!shown) place.classList.remove("panel");
    else opening = setTimeout(open, DOUBLE_CLICK);
  });
  return place;
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement | null} nothing where blocks are not known
 */
export function lifeOf(app) {
  const { lifetimes: columns, maps } = app.view;
  if (!columns.known) return null;
  return panel(app, "life", "One block", "Click on a bar, or choose a block in a list, to see its whole life.", (place) => {
    const known = app.block >= 0, bar = livesOf(app).blockOf(app.block);
    place.dataset.block = known ? String(bar) : "";
    if (!known || bar >= 0) return known ? lifeDetails(app, bar) : null;
    // A block without a bar is a small one of a memory map.
    const pieces = maps.moments.map((/** @type {any} */ moment) => moment.pieces).find((/** @type {any} */ one) => one?.events.includes(app.block));
    return [element("p", {}, "This page has the whole life of the largest blocks alone. ", commandOf(app, pieces?.lines[pieces.events.indexOf(app.block)]))];
  });
}

/**
 * What tells all of a block.
 * @param {import("./app.js").App} app
 * @param {number | undefined} line 0 where there is none
 * @returns {Node | string}
 */
function commandOf(app, line) {
  return line ? element("span", {}, "More of it: ", element("code", {}, `${app.view.command} ${line}`)) : "";
}

/**
 * @param {import("./app.js").App} app
 * @param {number} bar
 * @returns {Node[]}
 */
function lifeDetails(app, bar) {
  const { axis, view: { lifetimes: columns, terms } } = app, of = (/** @type {string} */ key) => columns[key][bar];
  const size = of("size_bytes"), alloc = of("alloc"), free = of("free"), born = of("alloc_line"), gone = of("free_line"), freed = [0, 2].includes(of("fate"));
  const lasted = of("life_us") >= 0 ? `, ${formatDuration(of("life_us"))}` : "";
  /** @param {number} line @param {number | null} event */
  const at = (line, event) => `${app.lineText(line)}${event === null ? ", beyond what is shown" : ` (event ${formatCount(event)})`}`;
  /** @type {[string, Node | string][]} */
  const entries = [
    ["Size", element("span", { "data-bytes": size }, formatExact(size))],
    ["Fate", [columns.fates[of("fate")].words, app.view.roles?.classes[of("role")].name].filter(Boolean).join(" \u00b7 ")],
    ["Life", `${formatCount(of("life_events"))} events${gone ? lasted : " to the end of the log"}`],
    ["Allocated", born ? at(born, alloc) : "before the input begins"], ["by", ownerNode(app, of("owner"))],
    ["Freed", gone ? at(gone, freed ? free : null) : "never"], [terms.line === "line" ? "after" : "by", ownerNode(app, of("free_owner"))],
  ];
  const list = element("dl", { class: "facts" }, ...entries.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  const showLife = () => {
    const margin = Math.max((free - alloc) * 0.1, 4);
    axis.show(alloc - margin, free + margin);
    document.getElementById("lifetimes")?.scrollIntoView();
  };
  const controls = element("p", { class: "controls" }, button("Show its life", showLife),
    button("What else is alive when it is allocated", () => app.select("moment", Math.max(alloc, axis.lo))), button("Close", () => app.select(null)));
  const [, before, after] = columns.contexts.find((/** @type {any[]} */ [number]) => number === bar) ?? [];
  const lines = before ? [...linesAround("Around its ALLOC", before, born), ...linesAround("Around its FREE", after, gone)] : [];
  return [controls, element("div", { class: "beside" }, list, element("div", {}, ...(lines.length ? lines : [commandOf(app, born)])))];
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
 * @param {number} own the line of the event
 * @returns {Node[]}
 */
function linesAround(title, [first, ...lines], own) {
  if (first === undefined) return [];
  return [element("h4", {}, title), element("pre", {}, ...lines.map((text, k) => {
    const line = first + k;
    return element(line === own ? "mark" : "span", { "data-line": line }, `${line === own ? "\u25b6" : " "} ${line}  ${text}\n`);
  }))];
}
