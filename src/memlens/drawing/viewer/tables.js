/** The tables of the page: windows, what is held at the end, growth, and what to believe of the log. */

import { color, drawing } from "./canvas.js";
import { element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact, signedBytes } from "./format.js";

/** Rows of a page of a table, and the height of the picture of growth in CSS pixels. */
const TABLE_PAGE = 20, GROWTH_HEIGHT = 120;

/**
 * A column of a table: its values by row, exact or a text, and how one is written.
 * @typedef {{ key: string, title: string, values: ArrayLike<number> | string[], write?: (value: any, row: number) => string }} Field
 */

/**
 * Rows in the order of a column; equal ones stay in the order of the log.
 * @param {number[]} rows
 * @param {ArrayLike<number> | string[]} values
 * @param {boolean} down the largest first
 * @returns {number[]}
 */
export function sortedRows(rows, values, down) {
  const sign = down ? -1 : 1, { compare } = new Intl.Collator("en", { numeric: true });
  /** @param {any} a @param {any} b */
  const compared = (a, b) => (typeof a === "string" ? compare(a, b) : a === b ? 0 : a - b);
  return [...rows].sort((a, b) => sign * compared(values[a], values[b]) || a - b);
}

/**
 * The rows whose texts hold all words of a filter.
 * @param {string[][]} texts one entry a column of texts
 * @param {number} count rows
 * @param {string} filter
 * @returns {number[]}
 */
export function filteredRows(texts, count, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return Array.from({ length: count }, (_, row) => row).filter((row) => words.every((word) => texts.some((column) => column[row].toLowerCase().includes(word))));
}

/**
 * A table that is sorted by its headings, filtered by a text, and shown in pages.
 * @param {string} id
 * @param {string} what its rows are, in the plural
 * @param {Field[]} fields
 * @param {{ act?: (row: number) => void, keep?: (row: number) => boolean, mark?: (row: number) => string, count?: number }} [how] what a click on a row does,
 * which rows are kept beside the filter, and the classes of a row
 * @returns {{ parts: HTMLElement[], update: () => void, refresh: () => void, reveal: (row: number) => void }} `update` looks at the rows again,
 * `refresh` at their classes alone
 */
export function grid(id, what, fields, { act, keep = () => true, mark = () => "" } = {}) {
  const count = fields[0].values.length, texts = /** @type {string[][]} */ (fields.map(({ values }) => values).filter((values) => typeof values[0] === "string"));
  let by = -1, down = true, from = 0, rows = /** @type {number[]} */ ([]);
  const body = element("tbody"), status = element("span", { class: "quiet", role: "status" });
  const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${what}`, input: () => { from = 0; update(); } });
  const heads = fields.map(({ key, title, values }, k) => element("th", { scope: "col", "data-key": key, class: typeof values[0] === "string" ? "" : "right" },
    element("button", { type: "button", click: () => sort(k) }, title)));
  const pages = [[-1, "\u2039", "Previous page"], [1, "\u203a", "Next page"]].map(([step, sign, name]) => element("button", { type: "button", "aria-label": name, click: () => {
    from = Math.min(Math.max(from + Number(step) * TABLE_PAGE, 0), Math.max(rows.length - 1, 0));
    fill();
  } }, String(sign)));

  /** @param {number} k */
  function sort(k) {
    // First the largest figure or the first name, then the other way round, then the order of the log.
    const first = typeof fields[k].values[0] !== "string";
    if (by !== k) [by, down] = [k, first];
    else if (down === first) down = !first;
    else by = -1;
    from = 0;
    update();
  }

  function update() {
    rows = filteredRows(texts, count, filter.value).filter(keep);
    if (by >= 0) rows = sortedRows(rows, fields[by].values, down);
    from = Math.min(from, Math.max(Math.ceil(rows.length / TABLE_PAGE) - 1, 0) * TABLE_PAGE);
    heads.forEach((head, k) => head.setAttribute("aria-sort", k !== by ? "none" : down ? "descending" : "ascending"));
    fill();
  }

  function fill() {
    const shown = rows.slice(from, from + TABLE_PAGE);
    body.replaceChildren(...shown.map((row) => element("tr", { "data-row": row, class: mark(row), ...(act ? { tabindex: 0, click: () => act(row), keydown: (/** @type {KeyboardEvent} */ event) => pressed(event, row) } : {}) },
      ...fields.map(({ key, values, write = String }) => {
        const value = values[row], text = write(value, row);
        return element("td", { "data-key": key, "data-value": value, class: typeof value === "string" ? "name" : "right", title: key.endsWith("_bytes") ? `${value} B` : typeof value === "string" ? value : "" }, text);
      }))));
    const some = rows.length ? `${formatCount(from + 1)}\u2013${formatCount(from + shown.length)} of ` : "";
    status.textContent = `${some}${formatCount(rows.length)} ${what}${rows.length < count ? ` (${formatCount(count)} in all)` : ""}`;
    pages[0].disabled = from === 0;
    pages[1].disabled = from + TABLE_PAGE >= rows.length;
    for (const page of pages) page.hidden = rows.length <= TABLE_PAGE;
  }

  /**
   * @param {KeyboardEvent} event
   * @param {number} row
   */
  function pressed(event, row) {
    const there = /** @type {HTMLElement} */ (event.currentTarget);
    const next = { ArrowDown: there.nextElementSibling, ArrowUp: there.previousElementSibling }[event.key];
    if (event.key === "Enter") act?.(row);
    else if (next instanceof HTMLElement) next.focus();
    else return;
    event.preventDefault();
  }

  function refresh() {
    for (const row of body.children) row.className = mark(Number(/** @type {HTMLElement} */ (row).dataset.row));
  }

  /** @param {number} row */
  function reveal(row) {
    const place = rows.indexOf(row);
    if (place >= 0 && (place < from || place >= from + TABLE_PAGE)) {
      from = place - (place % TABLE_PAGE);
      fill();
    }
  }

  update();
  const table = element("table", { id }, element("thead", {}, element("tr", {}, ...heads)), body);
  const controls = element("p", { class: "controls" }, ...(texts.length && count > 3 ? [filter] : []), ...pages, status);
  return { parts: [controls, element("div", { class: "wide" }, table)], update, refresh, reveal };
}

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
  const only = element("input", { type: "checkbox" });
  /** @param {number} k */
  const visible = (k) => windows.lo[k] < axis.to && windows.hi[k] > axis.from;
  let chosen = -1;
  const table = grid("windows-table", "windows", fields, {
    act: (k) => {
      app.select("window", k);
      axis.show(windows.lo[k], windows.hi[k]);
    },
    keep: (k) => !only.checked || visible(k),
    mark: (k) => `${visible(k) ? "" : "outside"} ${k === chosen ? "chosen" : ""}`,
  });
  only.addEventListener("change", table.update);
  axis.onChange(() => (only.checked ? table.update() : table.refresh()));
  app.onSelect((selected) => {
    const event = selected?.kind === "moment" ? selected.value : app.block;
    chosen = selected?.kind === "window" ? selected.value : windows.lo.findIndex((/** @type {number} */ lo, /** @type {number} */ k) => lo <= event && event < windows.hi[k]);
    if (chosen >= 0) table.reveal(chosen);
    table.refresh();
  });
  const title = windows.found ? (windows.repeated ? "Steps" : "Parts") : "Windows";
  const how = element("p", { class: "quiet" }, windows.found ? "Found by themselves: " : "Cut by ", element("code", {}, `--by '${windows.by}'`), ". A click shows a row in the pictures above.");
  const filter = element("label", {}, only, " only what is shown above");
  return section("windows", title, how, element("p", { class: "controls" }, filter), ...table.parts);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function heldTable(app) {
  const { held, owners, terms } = app.view, total = held.held_bytes + held.opening_bytes, count = held.held_allocs + held.opening_blocks;
  const none = !app.view.lifetimes.known ? "It cannot be told, for no line says which block it is about." : count ? "" : "Nothing: every block that is allocated here is freed here.";
  if (none) return section("held", "Held at the end", element("p", {}, none));
  const named = Array.from(held.owners, (owner) => (owner < 0 ? "" : owners[owner]));
  const lines = Array.from(held.first_line, (line) => Math.max(line, 0)), frees = Array.from(held.first_free_line, (line) => (line < 0 ? Infinity : line));
  const fields = [
    { key: "size_bytes", title: "Size", values: held.size_bytes, write: formatExact }, { key: "count", title: "Blocks", values: held.count, write: formatCount },
    { key: "total_bytes", title: "Together", values: held.total_bytes, write: formatBytes },
    { key: "first_line", title: `First ${terms.line}`, values: lines, write: (/** @type {number} */ line) => (line ? formatCount(line) : "before the input") },
    { key: "first_free_line", title: "Freed", values: frees, write: (/** @type {number} */ line, /** @type {number} */ row) => (held.first_free_event[row] < 0 ? "never" : `later, ${app.lineText(line)}`) },
    ...(named.some(Boolean) ? [{ key: "owner", title: "Owner", values: named }] : []),
  ];
  const table = grid("held-table", "groups", fields, {
    act: (row) => app.select("block-event", held.first_event[row]),
    mark: (row) => (held.first_event[row] === app.block ? "chosen" : ""),
  });
  app.onSelect(table.refresh);
  const opening = held.opening_bytes ? `, ${formatExact(held.opening_bytes)} of it from before the input` : "";
  const what = element("p", { "data-bytes": total, "data-blocks": count }, `${formatExact(total)} in ${formatCount(count)} ${count === 1 ? "block" : "blocks"}${opening}. A click selects the first block of a row.`);
  const left = held.left_groups ? element("p", { class: "quiet" }, `${formatCount(held.left_groups)} smaller groups of ${formatExact(held.left_bytes)} together are not listed.`) : "";
  return section("held", "Held at the end", what, ...table.parts, left);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement | null} nothing where growth is not judged
 */
export function growthPart(app) {
  const { growth, windows, owners } = app.view;
  if (!growth || !windows) return null;
  const live = /** @type {Float64Array} */ (windows.live_bytes), names = windows.names, count = live.length;
  const most = live.reduce((a, b) => Math.max(a, b), 1), least = Math.min(live.reduce((a, b) => Math.min(a, b), 0), 0);
  let at = -1;
  const { canvas, redraw } = drawing(`Live at the end of each of ${formatCount(count)} windows: ${growth.words}`, GROWTH_HEIGHT, (context, width, height) => {
    const y = (/** @type {number} */ bytes) => height - 2 - ((bytes - least) / (most - least)) * (height - 8), step = width / count;
    // Of windows that share a pixel the highest is drawn.
    for (let x = 0, k = 0; k < count; ) {
      const first = k;
      let high = -Infinity;
      do high = Math.max(high, live[k++]); while (k < count && k * step < x + 1);
      context.fillStyle = color(at >= first && at < k ? "text" : growth.bad && growth.since !== null && first >= names.indexOf(growth.since) ? "bad" : "allocated");
      const right = Math.max(k * step - (step > 4 ? 1 : 0), x + 1);
      context.fillRect(x, y(Math.max(high, 0)), right - x, Math.abs(y(0) - y(high)));
      x = k * step;
    }
  });
  const told = element("p", { class: "told", role: "status", "aria-live": "polite", id: "growth-at" });
  canvas.setAttribute("aria-describedby", "growth-at");
  /** @param {number} k */
  const point = (k) => {
    if (k === at) return;
    at = k;
    told.textContent = k < 0 ? "" : `${names[k]}: ${formatExact(live[k])} live at its end.`;
    told.dataset.bytes = k < 0 ? "" : String(live[k]);
    redraw();
  };
  canvas.addEventListener("pointermove", (event) => point(Math.min(Math.max(Math.floor((event.offsetX / canvas.clientWidth) * count), 0), count - 1)));
  canvas.addEventListener("pointerleave", () => point(-1));
  canvas.addEventListener("click", () => at >= 0 && app.select("window", at));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) point(Math.min(Math.max(at + step, 0), count - 1));
    else if (event.key === "Enter" && at >= 0) app.select("window", at);
    else return;
    event.preventDefault();
  });
  const piles = growth.piling, parts = [];
  if (piles.length) {
    /** @param {string} key @param {string} title @param {(value: any) => string} [write] */
    const column = (key, title, write) => ({ key, title, values: piles.map((/** @type {any} */ pile) => pile[key] ?? ""), write });
    const fields = [column("size_bytes", "Size", formatExact), column("count", "Blocks", formatCount), column("total_bytes", "Together", formatBytes),
      column("bytes_per_window", "A window", (bytes) => formatBytes(Math.round(bytes))), column("windows", "In windows", formatCount)];
    if (piles.some((/** @type {any} */ pile) => pile.phase)) fields.push(column("phase", "Phase"));
    if (piles.some((/** @type {any} */ pile) => pile.owner >= 0)) fields.push({ key: "owner", title: "Owner", values: piles.map((/** @type {any} */ pile) => owners[pile.owner] ?? ""), write: undefined });
    parts.push(element("h3", {}, "What piles up"), ...grid("piling-table", "groups", fields).parts);
  }
  const words = element("p", { class: growth.bad ? "bad" : "", "data-verdict": growth.verdict }, `${growth.words[0].toUpperCase()}${growth.words.slice(1)}.`);
  return section("growth", "Growth", words, element("p", { class: "quiet" }, "Live at the end of each window:"), canvas, told, ...parts);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function trustPart(app) {
  const { trust } = app.view;
  /** @param {any} finding */
  const item = ({ code, message, hint, line }) => element("li", { "data-code": code, "data-line": line ?? "" }, asSentence(message), hint ? ` ${hint}` : "");
  const first = trust.first_disagreement, parts = [];
  if (trust.doubts.length) parts.push(element("h3", {}, "What to doubt"), element("ul", { class: "bad" }, ...trust.doubts.map(item)));
  if (trust.notes.length) parts.push(element("h3", {}, "What to know"), element("ul", {}, ...trust.notes.map(item)));
  if (trust.figures_checked && !(trust.ok && trust.figures_agreeing === trust.figures_checked)) {
    const explained = trust.figures_explained ? `, ${formatCount(trust.figures_explained)} differ for a reason that is explained above` : "";
    parts.push(element("p", { "data-checked": trust.figures_checked, "data-agreeing": trust.figures_agreeing },
      `${formatCount(trust.figures_agreeing)} of ${formatCount(trust.figures_checked)} figures that the framework printed agree${explained}.`));
  }
  if (first) parts.push(element("p", { class: "bad" }, `The first that does not is ${first.metric.replace("_", " ")}${first.line === null ? "" : ` at ${app.lineText(first.line)}`}: ${formatExact(first.low_bytes)} there, ${formatExact(first.ours_bytes)} by the events.`));
  return section("trust", "Trust", element("p", { class: trust.ok ? "good" : "bad" }, asSentence(trust.summary)), ...parts);
}

/**
 * @param {string} words
 * @returns {string}
 */
function asSentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}
