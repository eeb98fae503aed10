/** What is alive at the selected moment, by size and owner. */

import { firstAtLeast } from "./axis.js";
import { shortOwner } from "./colors.js";
import { button, element } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { grid } from "./grid.js";
import { panel } from "./life.js";
import { blockTable } from "./lifetimes.js";
import { livesOf } from "./lives.js";

/** Blocks in the list. */
const ALIVE = 30;

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
 * What is live at a moment: rows of groups, the largest first, then all others, and what the log frees without having allocated it.
 * @param {any} moments columns (`memlens.drawing.lifetimes.moments`)
 * @param {number} at the place of the moment
 * @returns {{ group: number, count: number, bytes: number }[]} the group -1 is all others, -2 what has no blocks
 */
export function rowsAt(moments, at) {
  const width = moments.event.length, sizes = /** @type {number[]} */ ([...moments.size_bytes]);
  const rows = sizes.map((size, group) => ({ group, count: moments.counts[group * width + at], bytes: moments.counts[group * width + at] * size }));
  return [...rows.sort((a, b) => b.bytes - a.bytes || a.group - b.group), { group: -1, count: moments.other_counts[at], bytes: moments.other_bytes[at] },
    { group: -2, count: 0, bytes: moments.odd_bytes[at] }].filter(({ count, bytes }) => count || bytes);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function momentOf(app) {
  const { moments } = app.view;
  return panel(app, "moment", "One moment", "Click into the timeline, or beside the bars, to see what is alive there.", (place) => {
    const asked = app.selected?.kind === "moment" ? app.selected.value : null, at = nearest(moments.event, asked ?? 0);
    Object.assign(place.dataset, asked === null ? { event: "", bytes: "" } : { event: moments.event[at], bytes: moments.level_bytes[at] });
    return asked === null ? null : aliveAt(app, asked, at);
  });
}

/**
 * @param {import("./app.js").App} app
 * @param {number} asked an event
 * @param {number} at the place of the moment
 * @returns {Node[]}
 */
function aliveAt(app, asked, at) {
  const { moments, lifetimes: { known } } = app.view, event = moments.event[at], line = moments.line[at], rows = rowsAt(moments, at);
  const where = event < app.axis.lo ? "before the first event" : `right after event ${formatCount(event)}${line ? `, ${app.lineText(line)}` : ""}`;
  const moved = asked === event ? "" : `, the nearest moment to event ${formatCount(asked)} that this page has`;
  const names = [known ? "all others" : "which blocks these are is not known", "frees of what the log never allocates, and sizes that differ"];
  const table = grid("alive", "groups", [
    { key: "total_bytes", title: "Together", values: rows.map(({ bytes }) => bytes), write: formatBytes },
    { key: "count", title: "Blocks", values: rows.map(({ group, count }) => (known && group > -2 ? count : null)), write: formatCount },
    { key: "size_bytes", title: "Size", values: rows.map(({ group }) => moments.size_bytes[group] ?? null), write: formatBytes },
    { key: "owner", title: "Owner", values: rows.map(({ group }) => (group < 0 ? names[-1 - group] : app.ownerText(moments.owner[group]))), write: (text, k) => shortOwner(app, moments.owner[rows[k].group]) || text },
  ], { plain: true, data: (k) => ({ "data-bytes": rows[k].bytes, "data-count": rows[k].count }) });
  const bars = known ? livesOf(app).liveAfter(event) : [];
  const listed = `${formatCount(bars.length)} of these blocks have bars${bars.length > ALIVE ? `; the ${ALIVE} largest` : ""}:`;
  return [
    element("p", {}, `${formatExact(moments.level_bytes[at])} allocated ${where}${moved}. `, button("Close", () => app.select(null))),
    element("div", { class: "beside" }, ...table.parts, bars.length ? element("div", {}, element("p", {}, listed), blockTable(app, "alive-blocks", bars.slice(0, ALIVE))) : ""),
  ];
}
