/** Blocks in words: one in a sentence, all of them in a table, and the whole life of the selected one. */

import { shortOwner } from "./colors.js";
import { button, element } from "./dom.js";
import { formatBytes, formatCount, formatDuration, formatExact } from "./format.js";
import { grid } from "./grid.js";
import { livesOf } from "./lives.js";

/**
 * @param {import("./app.js").App} app
 * @param {number} bar
 * @returns {string}
 */
export function blockText(app, bar) {
  const { size_bytes: size, owner, fate, fates, role, alloc_line: alloc, free_line: free } = app.view.lifetimes;
  const born = alloc[bar] ? `allocated at ${app.lineText(alloc[bar])}` : "live before the input begins", gone = free[bar] ? `freed at ${app.lineText(free[bar])}` : "never freed";
  const holders = app.stacks.ways.find(({ key }) => key === "holder"), holder = holders ? `held by ${holders.groups[holders.bars[bar]].name}` : "";
  return [`block of ${formatExact(size[bar])}`, shortOwner(app, owner[bar]), holder, born, gone, fates[fate[bar]], app.view.roles?.classes[role[bar]].name].filter(Boolean).join(" \u00b7 ");
}

/**
 * Blocks as a table; each can be selected.
 * @param {import("./app.js").App} app
 * @param {string} id
 * @param {number[]} bars
 * @param {boolean} [plain] without pages
 * @returns {HTMLElement[]}
 */
export function blockTable(app, id, bars, plain = false) {
  const { lifetimes: columns, terms: { line } } = app.view;
  /** @param {string} key @param {string} title @param {(value: number, row: number) => string | Node} write */
  const field = (key, title, write) => ({ key, title, write, values: bars.map((bar) => columns[key][bar]) });
  /** @param {string} none */
  const place = (none) => (/** @type {number} */ number) => (number ? formatCount(number) : none);
  return grid(id, "blocks", [
    field("size_bytes", "Block", (size, row) => button(formatBytes(size), () => app.select("block", bars[row]))),
    field("alloc_line", `Allocated at ${line}`, place("before")), field("free_line", `Freed at ${line}`, place("never")),
    { key: "fate", title: "Fate", values: bars.map((bar) => columns.fates[columns.fate[bar]].split(/[:,]/, 1)[0]) },
    { key: "owner", title: "Owner", values: bars.map((bar) => app.ownerText(columns.owner[bar])), write: (_, row) => shortOwner(app, columns.owner[bars[row]]) },
  ], { plain, data: (row) => ({ "data-block": bars[row], "data-bytes": columns.size_bytes[bars[row]] }) }).parts;
}

/**
 * The selected block, which may have no bar: then it is a small one of a memory map.
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function lifeOf(app) {
  const bar = livesOf(app).blockOf(app.block);
  if (bar >= 0) return element("div", { id: "life", "data-block": bar }, ...lifeDetails(app, bar));
  const pieces = app.view.maps.moments.map((/** @type {any} */ moment) => moment.pieces).find((/** @type {any} */ one) => one?.events.includes(app.block));
  return element("div", { id: "life", "data-block": -1 },
    element("p", {}, "This page has the whole life of the largest blocks alone. ", commandOf(app, pieces?.lines[pieces.events.indexOf(app.block)])));
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
    ["Fate", columns.fates[of("fate")]],
    ...app.stacks.ways.filter(({ key }) => !["size", "fate", "owner"].includes(key)).map(({ name, groups, bars }) => /** @type {[string, string]} */ ([name[0].toUpperCase() + name.slice(1), groups[bars[bar]].name])),
    ["Life", `${formatCount(of("life_events"))} events${gone ? lasted : " to the end of the log"}`],
    ["Allocated", born ? at(born, alloc) : "before the input begins"], ["by", ownerNode(app, of("owner"))],
    ["Freed", gone ? at(gone, freed ? free : null) : "never"], [terms.line === "line" ? "after" : "by", ownerNode(app, of("free_owner"))],
  ];
  const list = element("dl", { class: "facts" }, ...entries.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  const showLife = () => {
    const margin = Math.max((free - alloc) * 0.1, 4);
    axis.show(alloc - margin, free + margin);
    document.getElementById("picture")?.scrollIntoView();
  };
  const controls = element("p", { class: "controls" }, button("Show its life", showLife), button("What else is live then", () => app.select("moment", Math.max(alloc, axis.lo))));
  const [, before, after] = columns.contexts.find((/** @type {any[]} */ [number]) => number === bar) ?? [];
  const lines = before ? [...linesAround("Around its ALLOC", before, born), ...linesAround("Around its FREE", after, gone)] : [];
  return [element("h3", {}, `Block of ${formatBytes(size)}`), controls, list, ...(lines.length ? lines : [element("p", {}, commandOf(app, born))])];
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
