/** The tables of the page: windows, what is held at the end, growth, and what to believe of the log. */

import { checkbox, element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact, signedBytes } from "./format.js";
import { fieldsOf, grid } from "./grid.js";
import { blockTable } from "./life.js";

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement | null} nothing where the log has no windows
 */
export function windowsTable(app) {
  const { windows, terms } = app.view, { axis } = app;
  if (!windows) return null;
  const names = windows.names.map((/** @type {string} */ name, /** @type {number} */ k) => (windows.open_end && k === windows.names.length - 1 ? `${name} (open)` : name));
  const figures = /** @type {[string, string, (value: number) => string][]} */ ([
    ["peak_bytes", "Peak", formatBytes], ["rise_bytes", "Rise", formatBytes], ["remaining_bytes", "Remaining", signedBytes], ["live_bytes", "Live at end", formatBytes],
    ["alloc_bytes", "Allocated", formatBytes], ["allocs", "Allocs", formatCount], ["free_bytes", "Freed", formatBytes], ["frees", "Frees", formatCount],
    ["carried_in_bytes", "Carried in", formatBytes], ["reserved_peak_bytes", "Reserved", formatBytes], ["start_line", `First ${terms.line}`, formatCount],
  ]).filter(([key]) => key !== "reserved_peak_bytes" || windows[key].some((/** @type {number} */ bytes) => bytes > 0));
  const fields = [{ key: "name", title: "Window", values: names }, ...figures.map(([key, title, write]) => ({ key, title, values: windows[key], write }))];
  let only = false;
  /** @param {number} k */
  const visible = (k) => windows.lo[k] < axis.to && windows.hi[k] > axis.from;
  let chosen = -1;
  const table = grid("windows-table", "windows", fields, {
    act: (k) => {
      app.select("window", k);
      axis.show(windows.lo[k], windows.hi[k]);
    },
    keep: (k) => !only || visible(k),
    mark: (k) => `${visible(k) ? "" : "outside"} ${k === chosen ? "chosen" : ""}`,
  });
  axis.onChange(() => (only ? table.update() : table.refresh()));
  app.onSelect((selected) => {
    const event = selected?.kind === "moment" ? selected.value : app.block;
    chosen = selected?.kind === "window" ? selected.value : windows.lo.findIndex((/** @type {number} */ lo, /** @type {number} */ k) => lo <= event && event < windows.hi[k]);
    if (chosen >= 0) table.reveal(chosen);
    table.refresh();
  });
  const title = windows.found ? (windows.repeated ? "Steps" : "Parts") : "Windows";
  const how = element("p", { class: "quiet" }, windows.found ? "Found by themselves: " : "Cut by ", element("code", {}, `--by '${windows.by}'`), ". A click shows a row in the pictures above.");
  const filter = checkbox("only what is shown above", (on) => {
    only = on;
    table.update();
  });
  return section("windows", title, how, element("p", { class: "controls" }, filter), ...table.parts);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function heldTable(app) {
  const { held, terms, state } = app.view, title = state ? "What is live" : "Held at the end", what = element("p", { "data-bytes": held.bytes, "data-blocks": held.blocks }, held.words);
  if (!held.size_bytes.length) return section("held", title, what);
  const fields = [
    { key: "size_bytes", title: "Size", values: held.size_bytes, write: formatExact }, { key: "count", title: "Blocks", values: held.count, write: formatCount },
    { key: "total_bytes", title: "Together", values: held.total_bytes, write: formatBytes },
    // A state has neither a before nor an after.
    ...(state ? [] : [{ key: "first_line", title: `First ${terms.line}`, values: held.first_line, write: (/** @type {number} */ line) => (line > 0 ? formatCount(line) : "before the input") },
    { key: "first_free_line", title: "Freed", values: held.first_free_line, write: (/** @type {number} */ line, /** @type {number} */ row) => (held.first_free_event[row] < 0 ? "never" : `later, ${app.lineText(line)}`) }]),
    { key: "owner", title: "Owner", values: Array.from(held.owners, (owner) => app.ownerText(owner)) },
  ];
  const table = grid("held-table", "groups", fields, {
    act: (row) => app.select("block-event", held.first_event[row]),
    mark: (row) => (held.first_event[row] === app.block ? "chosen" : ""),
  });
  app.onSelect(table.refresh);
  what.append(" A click selects the first block of a row.");
  const left = held.left_groups ? element("p", { class: "quiet" }, `${formatCount(held.left_groups)} smaller groups of ${formatExact(held.left_bytes)} together are not listed.`) : "";
  return section("held", title, what, ...table.parts, left);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement | null} nothing where growth is not judged
 */
export function growthPart(app) {
  const { growth } = app.view;
  if (!growth) return null;
  const piles = growth.piling.map((/** @type {any} */ pile) => ({ ...pile, owner: app.ownerText(pile.owner) })), parts = [];
  const fields = fieldsOf(piles, [["size_bytes", "Size", formatExact], ["count", "Blocks", formatCount], ["total_bytes", "Together", formatBytes],
    ["bytes_per_window", "A window", (bytes) => formatBytes(Math.round(bytes))], ["windows", "In windows", formatCount], ["phase", "Phase"], ["owner", "Owner"]]);
  if (piles.length) parts.push(element("h3", {}, "What piles up"), ...grid("piling-table", "groups", fields).parts);
  if (growth.piling_left) parts.push(element("p", { class: "quiet" }, `${formatCount(growth.piling_left)} smaller groups are not listed.`));
  return section("growth", "Growth", element("p", { class: growth.bad ? "bad" : "", "data-verdict": growth.verdict }, asSentence(growth.words)), ...parts);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function trustPart(app) {
  const { trust } = app.view, parts = [];
  /** @param {any} finding */
  const item = ({ code, message, hint, line }) => element("li", { "data-code": code, "data-line": line ?? "" }, asSentence(message), hint ? ` ${hint}` : "");
  for (const [title, tone, findings] of [["What to doubt", "bad", trust.doubts], ["What to know", "", trust.notes]])
    if (findings.length) parts.push(element("h3", {}, title), element("ul", { class: tone }, ...findings.map(item)));
  return section("trust", "Trust", element("p", { class: trust.ok ? "good" : "bad" }, asSentence(trust.summary)), ...parts,
    ...trust.words.map((/** @type {string} */ words) => element("p", { class: trust.ok ? "" : "bad" }, words)));
}

/**
 * @param {string} words
 * @returns {string}
 */
function asSentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}

/**
 * The blocks that have bars, the largest first: the picture as a table.
 * @param {import("./app.js").App} app
 * @returns {HTMLElement | null} nothing where it is not known which blocks are live
 */
export function blocksTable(app) {
  const { size_bytes: sizes, left_out: left, known } = app.view.lifetimes;
  if (!known) return null;
  const bars = Array.from(/** @type {Float64Array} */ (sizes).keys()).sort((a, b) => sizes[b] - sizes[a] || a - b);
  const rest = left.blocks ? `${formatCount(left.blocks)} smaller ones of ${formatExact(left.bytes)} together have no bars in the picture and are not listed.` : "All blocks are listed.";
  return section("blocks", "Blocks", element("p", { class: "quiet", "data-bars": bars.length, "data-left-blocks": left.blocks, "data-left-bytes": left.bytes }, rest), ...blockTable(app, "blocks-table", bars));
}
