/** What is alive at the selected moment, by size and owner. */

import { firstAtLeast } from "./axis.js";
import { element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { reveal } from "./life.js";
import { shortOwner } from "./colors.js";
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
 * @param {any} moments columns (`memlens.drawing.moments`)
 * @param {number} at the place of the moment
 * @returns {{ group: number, count: number, bytes: number }[]} the group -1 is all others, -2 what has no blocks
 */
export function rowsAt(moments, at) {
  const width = moments.event.length, rows = [];
  for (let group = 0; group < moments.size_bytes.length; group += 1) {
    const count = moments.counts[group * width + at];
    if (count) rows.push({ group, count, bytes: count * moments.size_bytes[group] });
  }
  rows.sort((a, b) => b.bytes - a.bytes || a.group - b.group);
  const others = { group: -1, count: moments.other_counts[at], bytes: moments.other_bytes[at] };
  if (others.count || others.bytes) rows.push(others);
  if (moments.odd_bytes[at]) rows.push({ group: -2, count: 0, bytes: moments.odd_bytes[at] });
  return rows;
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function momentOf(app) {
  const body = element("div", { role: "status", "aria-live": "polite" });
  const hint = element("p", { class: "hint" }, "Click into the timeline, or beside the bars, to see what is alive there.");
  const place = section("moment", "One moment", hint, body);
  app.onSelect((selected) => {
    const asked = selected?.kind === "moment" ? selected.value : null;
    hint.hidden = asked !== null;
    const { moments } = app.view, at = asked === null ? -1 : nearest(moments.event, asked);
    body.replaceChildren(...(asked === null ? [] : aliveAt(app, asked, at)));
    Object.assign(place.dataset, asked === null ? { event: "", bytes: "" } : { event: moments.event[at], bytes: moments.level_bytes[at] });
    reveal(place, asked !== null);
  });
  return place;
}

/**
 * @param {import("./app.js").App} app
 * @param {number} asked
 * @param {number} at
 * @returns {Node[]}
 */
function aliveAt(app, asked, at) {
  const { moments, lifetimes } = app.view, event = moments.event[at], level = moments.level_bytes[at], line = moments.line[at];
  const where = event < app.axis.lo ? "before the first event" : `right after event ${formatCount(event)}${line ? `, ${app.lineText(line)}` : ""}`;
  const moved = asked === event ? "" : `, the nearest moment to event ${formatCount(asked)} that this page has`;
  const names = { "-1": lifetimes.known ? "all others" : "which blocks these are is not known", "-2": "frees of what the log never allocates, and sizes that differ" };
  const rows = rowsAt(moments, at).map(({ group, count, bytes }) => {
    const owner = moments.owner[group] ?? -1;
    return element("tr", { "data-bytes": bytes, "data-count": count },
      element("td", { class: "right" }, formatBytes(bytes)),
      element("td", { class: "right" }, group === -2 || !lifetimes.known ? "" : formatCount(count)),
      element("td", { class: "right" }, group < 0 ? "" : formatBytes(moments.size_bytes[group])),
      element("td", { title: app.ownerText(owner) }, group < 0 ? names[/** @type {"-1" | "-2"} */ (String(group))] : shortOwner(app, owner)));
  });
  const owned = moments.owner.some((/** @type {number} */ owner) => owner >= 0);
  const heads = ["Together", "Blocks", "Size", owned ? "Owner" : ""].map((text, k) => element("th", { scope: "col", class: k < 3 ? "right" : "" }, text));
  const total = element("tr", { class: "total", "data-bytes": level }, element("td", { class: "right" }, formatBytes(level)), element("td", { colspan: 3 }, "allocated"));
  const bars = lifetimes.known ? livesOf(app).liveAfter(event) : [];
  const listed = `${formatCount(bars.length)} of these blocks have bars${bars.length > ALIVE ? `; the ${ALIVE} largest` : ""}:`;
  return [
    element("p", {}, `${formatExact(level)} allocated ${where}${moved}. `, element("button", { type: "button", click: () => app.select(null) }, "Close")),
    element("div", { class: "beside" },
      element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows, total))),
      bars.length ? element("div", {}, element("p", {}, listed), blockTable(app, bars.slice(0, ALIVE))) : ""),
  ];
}
