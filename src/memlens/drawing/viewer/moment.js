/** What is live at a moment, or stays of a range, by size and owner. */

import { firstAtLeast } from "./axis.js";
import { element } from "./dom.js";
import { formatBytes, formatCount, formatExact, signedBytes } from "./format.js";
import { grid } from "./grid.js";
import { blockTable } from "./life.js";

/**
 * Blocks alike; those without a size are all others (`name` says so), or what is no block's.
 * @typedef {{ size: number | null, owner: number, count: number | null, bytes: number, name: string }} Row
 * What is live right after an event.
 * @typedef {{ event: number, line: number, level: number, rows: Row[] }} Live
 */

const ODD = "frees of what the log never allocates, and sizes that differ";

/**
 * The place of the moment that is nearest to an event; of two equally near ones the earlier.
 * @param {Float64Array} events rising
 * @param {number} event
 * @returns {number}
 */
export function nearest(events, event) {
  const after = Math.min(firstAtLeast(events, event), events.length - 1);
  return after > 0 && event - events[after - 1] <= events[after] - event ? after - 1 : after;
}

/**
 * What is live at one of the moments that the page has of a long log: the largest groups first, then all others.
 * @param {any} moments columns (`memlens.drawing.lifetimes.moments`)
 * @param {number} at the place of the moment
 * @param {boolean} [known] whether the log tells which blocks are live
 * @returns {Row[]}
 */
export function rowsAt(moments, at, known = true) {
  const width = moments.event.length, sizes = /** @type {number[]} */ ([...moments.size_bytes]);
  const rows = sizes.map((size, group) => ({ size, owner: moments.owner[group], count: moments.counts[group * width + at], bytes: moments.counts[group * width + at] * size, name: "" }));
  return [...rows.filter(({ count }) => count).sort((a, b) => b.bytes - a.bytes),
    { size: null, owner: -1, count: known ? moments.other_counts[at] : null, bytes: moments.other_bytes[at], name: known ? "all others" : "which blocks these are is not known" },
    { size: null, owner: -1, count: null, bytes: moments.odd_bytes[at], name: ODD }].filter(({ count, bytes }) => count || bytes);
}

/**
 * Blocks by size and owner, the most bytes first.
 * @param {any} columns of blocks (`memlens.drawing.lifetimes`)
 * @param {number[]} bars
 * @returns {Row[]}
 */
export function rowsOf({ size_bytes: sizes, owner: owners }, bars) {
  /** @type {Map<string, { size: number, owner: number, count: number, bytes: number, name: string }>} */
  const found = new Map();
  for (const bar of bars) {
    const size = sizes[bar], owner = owners[bar], key = `${size} ${owner}`, row = found.get(key) ?? { size, owner, count: 0, bytes: 0, name: "" };
    found.set(key, { ...row, count: row.count + 1, bytes: row.bytes + size });
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes);
}

/**
 * What is live right after an event where the page knows all blocks; else at the nearest moment that the page has.
 * @param {import("./app.js").App} app
 * @param {number} asked
 * @returns {Live}
 */
export function liveAt(app, asked) {
  const { view: { moments, lifetimes }, levels } = app;
  const at = nearest(moments.event, asked), event = moments.event[at], there = { bytes: moments.level_bytes[at], line: moments.line[at] };
  const blocks = app.blocks, after = levels.after(asked) ?? (event === asked ? there : null);
  if (!after || !lifetimes.known || blocks.nearest(asked) !== asked) return { event, line: there.line, level: there.bytes, rows: rowsAt(moments, at, lifetimes.known) };
  const { bytes: level, line } = after, rows = rowsOf(blocks.columns, blocks.liveAfter(asked));
  const odd = rows.reduce((left, { bytes }) => left - bytes, level);
  return { event: asked, line, level, rows: odd ? [...rows, { size: null, owner: -1, count: null, bytes: odd, name: ODD }] : rows };
}

/**
 * Groups as a table.
 * @param {import("./app.js").App} app
 * @param {Row[]} rows
 * @param {(bytes: number) => string} write
 * @returns {HTMLElement[]}
 */
function groupTable(app, rows, write) {
  return grid("alive", "groups", [
    { key: "total_bytes", title: "Together", values: rows.map(({ bytes }) => bytes), write },
    { key: "count", title: "Blocks", values: rows.map(({ count }) => count), write: formatCount },
    { key: "size_bytes", title: "Size", values: rows.map(({ size }) => size), write: formatBytes },
    { key: "owner", title: "Owner", values: rows.map(({ owner, name }) => name || app.ownerText(owner)), write: (text, k) => rows[k].name || app.shortOwner(rows[k].owner) || text },
  ], { plain: true, data: (k) => ({ "data-bytes": rows[k].bytes, "data-count": rows[k].count ?? "" }) }).parts;
}

/**
 * @param {import("./app.js").App} app
 * @param {{ event: number, line: number }} live
 * @returns {string}
 */
export function momentText(app, { event, line }) {
  return event < app.axis.lo ? "before the first event" : `right after event ${formatCount(event)}${line ? `, ${app.lineText(line)}` : ""}`;
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function momentOf(app) {
  const asked = app.moment, live = liveAt(app, asked), { event, level, rows } = live;
  const moved = asked === event ? "" : `, the nearest moment to event ${formatCount(asked)} that this page has`;
  const bars = app.view.lifetimes.known ? app.blocks.liveAfter(event, true) : [];
  return element("div", { id: "moment", "data-event": event, "data-bytes": level },
    element("h3", {}, "Live at this moment"), element("p", {}, `${formatExact(level)} allocated ${momentText(app, live)}${moved}.`),
    ...groupTable(app, rows, formatBytes),
    ...(bars.length ? [element("p", {}, `${formatCount(bars.length)} of these blocks have bars:`), ...blockTable(app, "alive-blocks", bars)] : []));
}

/**
 * What a range leaves: the blocks that are born in it and live at its end, where all have bars; else by how much each group has more or less than before it.
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function rangeOf(app) {
  const { value: from, to = from } = app.selected ?? { value: 0 }, { blocks, view: { lifetimes } } = app;
  const [before, after] = [from - 1, to].map((event) => liveAt(app, event)), gained = after.level - before.level;
  const stay = lifetimes.known ? blocks.liveAfter(after.event, true).filter((bar) => blocks.columns.alloc[bar] > before.event) : [];
  const rows = lifetimes.left_out.blocks || !lifetimes.known ? less(after.rows, before.rows) : rowsOf(lifetimes, stay), bytes = rows.reduce((sum, row) => sum + row.bytes, 0);
  const what = lifetimes.left_out.blocks || !lifetimes.known ? "By size and owner, what there is more of, and less:" : `${formatExact(bytes)} in ${formatCount(stay.length)} blocks are allocated in it and still live at its end:`;
  return element("div", { id: "range", "data-from": before.event + 1, "data-to": after.event, "data-bytes": gained, "data-staying-bytes": bytes, "data-staying": stay.length },
    element("h3", {}, "What this range leaves"),
    element("p", {}, `The level changes by ${signedBytes(gained)} from event ${formatCount(before.event + 1)} to ${formatCount(after.event)}. ${what}`),
    ...groupTable(app, rows, lifetimes.left_out.blocks ? signedBytes : formatBytes),
    ...(stay.length ? [element("p", {}, `${formatCount(stay.length)} blocks with bars are born in it and stay:`), ...blockTable(app, "staying-blocks", stay)] : []));
}

/**
 * What rows have more than others, the most first.
 * @param {Row[]} rows
 * @param {Row[]} others
 * @returns {Row[]}
 */
export function less(rows, others) {
  const found = new Map(rows.map((row) => [`${row.size} ${row.owner} ${row.name}`, row]));
  for (const row of others) {
    const key = `${row.size} ${row.owner} ${row.name}`, own = found.get(key) ?? { ...row, count: row.count === null ? null : 0, bytes: 0 };
    found.set(key, { ...own, count: own.count === null ? null : own.count - (row.count ?? 0), bytes: own.bytes - row.bytes });
  }
  return [...found.values()].filter(({ count, bytes }) => count || bytes).sort((a, b) => b.bytes - a.bytes);
}
