/** Tables: plain ones, and ones that are sorted by their headings, filtered by a text, and shown in pages. */

import { button, element, onKeys } from "./dom.js";
import { formatCount } from "./format.js";

/** Rows of a page of a table; those that are printed at most. */
const TABLE_PAGE = 20, PRINTED = 1000;

/**
 * A column of a table: its values by row, exact or a text, and how one is written.
 * @typedef {{ key: string, title: string, values: ArrayLike<any>, write?: (value: any, row: number) => string | Node }} Field
 */

/**
 * Rows in the order of a column; equal ones stay in the order of the log.
 * @param {number[]} rows
 * @param {ArrayLike<any>} values
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
 * @param {ArrayLike<string>[]} texts one entry a column of texts
 * @param {number} count rows
 * @param {string} filter
 * @returns {number[]}
 */
export function filteredRows(texts, count, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return [...Array(count).keys()].filter((row) => words.every((word) => texts.some((column) => column[row].toLowerCase().includes(word))));
}

/**
 * Columns of rows: of each its key, its title and how its values are written.
 * @param {any[]} rows
 * @param {[string, string, ((value: any) => string)?][]} named
 * @returns {Field[]}
 */
export function fieldsOf(rows, named) {
  return named.map(([key, title, write]) => ({ key, title, write, values: rows.map((row) => row[key] ?? null) }));
}

/**
 * A table; columns without any value are left out.
 * @param {string} id
 * @param {string} what its rows are, in the plural
 * @param {Field[]} all
 * @param {{ act?: (row: number) => void, keep?: (row: number) => boolean, mark?: (row: number) => string, data?: (row: number) => Record<string, any>, plain?: boolean }} [how]
 * what a click on a row does, which rows are kept beside the filter, the classes of a row and its other attributes; a plain table has all rows, as they are
 * @returns {{ parts: HTMLElement[], update: () => void, refresh: () => void, reveal: (row: number) => void }} `update` looks at the rows again,
 * `refresh` at their classes alone, `reveal` turns to the page of a row
 */
export function grid(id, what, all, { act, keep = () => true, mark = () => "", data = () => ({}), plain = false } = {}) {
  /** @param {Field} field */
  const isText = ({ values }) => typeof values[0] === "string";
  const count = all[0].values.length, fields = all.filter(({ values }) => !count || Array.from(values).some((value) => value !== null && value !== ""));
  const texts = fields.filter(isText).map(({ values }) => values), most = plain ? count : TABLE_PAGE;
  let by = -1, down = true, from = 0, rows = /** @type {number[]} */ ([]);
  const body = element("tbody"), status = element("span", { class: "quiet", role: "status" });
  const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${what}`, input: () => { from = 0; update(); } });
  const heads = fields.map((field, k) => element("th", { scope: "col", "data-key": field.key, class: isText(field) ? "" : "right" },
    plain ? field.title : button(field.title, () => sort(k))));
  /** @param {number} to */
  const turn = (to) => {
    from = to;
    fill();
  };
  const pages = [button("\u2039", () => turn(from - most), { "aria-label": "Previous page" }), button("\u203a", () => turn(from + most), { "aria-label": "Next page" })];

  /** First the largest figure or the first name, then the other way round, then the order of the log. @param {number} k */
  function sort(k) {
    const first = !isText(fields[k]);
    if (by !== k) [by, down] = [k, first];
    else if (down === first) down = !first;
    else by = -1;
    from = 0;
    update();
  }

  function update() {
    rows = filteredRows(texts, count, filter.value).filter(keep);
    if (by >= 0) rows = sortedRows(rows, fields[by].values, down);
    heads.forEach((head, k) => plain || head.setAttribute("aria-sort", k !== by ? "none" : down ? "descending" : "ascending"));
    turn(Math.min(from, Math.max(Math.ceil(rows.length / most) - 1, 0) * most));
  }

  function fill() {
    const shown = rows.slice(from, from + most), end = from + shown.length;
    body.replaceChildren(...shown.map(made));
    status.textContent = `${end ? `${formatCount(from + 1)}\u2013${formatCount(end)} of ` : ""}${formatCount(rows.length)} ${what}${rows.length < count ? ` (${formatCount(count)} in all)` : ""}`;
    [pages[0].disabled, pages[1].disabled] = [from === 0, end >= rows.length];
    for (const page of pages) page.hidden = rows.length <= most;
  }

  /** @param {number} row */
  function made(row) {
    const cells = fields.map(({ key, values, write = String }) => {
      const value = values[row] ?? "", text = typeof value === "string";
      return element("td", { "data-key": key, "data-value": value, class: text ? "name" : "right", title: text ? value : key.endsWith("_bytes") ? `${value} B` : "" }, value === "" ? "" : write(value, row));
    });
    const line = element("tr", { "data-row": row, class: mark(row), ...data(row), ...(act ? { tabindex: 0, click: () => act(row) } : {}) }, ...cells);
    /** @param {any} other */
    const go = (other) => other?.focus();
    if (act) onKeys(line, { Enter: () => act(row), ArrowDown: () => go(line.nextElementSibling), ArrowUp: () => go(line.previousElementSibling) });
    return line;
  }

  function refresh() {
    for (const row of body.children) row.className = mark(Number(/** @type {HTMLElement} */ (row).dataset.row));
  }

  /** @param {number} row */
  function reveal(row) {
    const place = rows.indexOf(row);
    if (place >= 0 && Math.floor(place / most) * most !== from) turn(Math.floor(place / most) * most);
  }

  update();
  if (!plain) {
    // On paper nobody can turn pages.
    addEventListener("beforeprint", () => body.isConnected && body.replaceChildren(...rows.slice(0, PRINTED).map(made)));
    addEventListener("afterprint", fill);
  }
  const table = element("div", { class: "wide" }, element("table", { id }, element("thead", {}, element("tr", {}, ...heads)), body));
  const controls = element("p", { class: "controls" }, ...(texts.length && count > 3 ? [filter] : []), ...pages, status);
  return { parts: plain ? [table] : [controls, table], update, refresh, reveal };
}
