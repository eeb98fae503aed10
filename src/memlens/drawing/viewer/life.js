/** Blocks in words: one in a sentence, all of them in a table, and the whole life of the selected one. */

import { button, element } from "./dom.js";
import { formatBytes, formatCount, formatDuration, formatExact } from "./format.js";
import { grid } from "./grid.js";

/**
 * A block in a line; of one that has no bar it is not known who holds it, and when it is freed.
 * @param {import("./app.js").App} app
 * @param {number} number
 * @returns {string}
 */
export function blockText(app, number) {
  const { columns, bars } = app.blocks, { fate, fates, free_line: free, holder, holders } = app.view.lifetimes, line = columns.alloc_line[number];
  const ofBar = number >= bars ? [] : [holders[holder[number]] && `held by ${holders[holder[number]]}`], roles = app.stacks.ways.find(({ key }) => key === "role");
  const until = number >= bars ? [] : [free[number] ? `freed at ${app.lineText(free[number])}` : "never freed", fates[fate[number]]];
  return [`block of ${formatExact(columns.size_bytes[number])}`, app.ownerText(columns.owner[number]), ...ofBar, line ? `allocated at ${app.lineText(line)}` : "live before the input begins",
    ...until, ...placeOf(app, number).map(([, text]) => text), roles?.groups[app.groupOf(number, roles)].name].filter(Boolean).join(" \u00b7 ");
}

/**
 * Where a block lies, as far as the input says.
 * @param {import("./app.js").App} app
 * @param {number} number
 * @returns {[string, string][]}
 */
function placeOf(app, number) {
  const { at, stream, pool } = app.blocks.columns, name = app.view.lifetimes.pools[pool[number]];
  const parts = /** @type {[string, string][]} */ ([["Address", at[number] > 0 ? `at 0x${at[number].toString(16)}` : ""], ["Stream", stream[number] >= 0 ? `stream ${stream[number]}` : ""], ["Pool", name ?? ""]]);
  return parts.filter(([, text]) => text);
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
    { key: "owner", title: "Owner", values: bars.map((bar) => app.ownerText(columns.owner[bar])), write: (_, row) => app.shortOwner(columns.owner[bars[row]]) },
  ], { plain, data: (row) => ({ "data-block": bars[row], "data-bytes": columns.size_bytes[bars[row]] }) }).parts;
}

/**
 * The selected block, which may have no bar: then it is a small one of a memory map.
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function lifeOf(app) {
  const bar = app.lives.blockOf(app.block), { columns, bars } = app.blocks, number = columns.alloc.indexOf(app.block, bars);
  if (bar >= 0) return element("div", { id: "life", "data-block": bar }, ...lifeDetails(app, bar));
  const known = number < 0 ? [] : [element("h3", {}, `Block of ${formatBytes(columns.size_bytes[number])}`), element("p", {}, blockText(app, number)), element("p", {}, ownerNode(app, columns.owner[number]))];
  return element("div", { id: "life", "data-block": -1 },
    ...known, element("p", {}, "This page has the whole life of the largest blocks alone. ", commandOf(app, columns.alloc_line[number])));
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
    ["Held by", columns.holders[of("holder")] ?? ""], ...placeOf(app, bar).map(([name, text]) => /** @type {[string, string]} */ ([name, text.replace(/^at /, "")])),
    ...app.stacks.ways.filter(({ key }) => !["size", "fate", "owner", "holder"].includes(key)).map(({ name, groups, bars }) => /** @type {[string, string]} */ ([name[0].toUpperCase() + name.slice(1), groups[bars[bar]].name])),
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
