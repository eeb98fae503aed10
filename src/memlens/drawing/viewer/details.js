/** What stands beside the picture: what its colours mean, with the bytes of each at the moment that is looked at, and what is selected. */

import { button, element, swatch } from "./dom.js";
import { formatBytes, formatCount, shortNames } from "./format.js";
import { lifeOf } from "./life.js";
import { momentOf, rangeOf } from "./moment.js";

/** Milliseconds until a click was no double click, for whose second click nothing may have moved. */
const DOUBLE_CLICK = 400;
/** @type {Record<string, (app: import("./app.js").App) => HTMLElement>} */
const SHOWN = { block: lifeOf, "block-event": lifeOf, moment: momentOf, range: rangeOf };

/**
 * The groups of the chosen way from the top of the stack to its bottom, and below them what is allocated and reserved.
 * @param {import("./app.js").App} app
 * @returns {{ legend: HTMLElement, show: (at: { event: number, bytes: number, reserved: number } | null) => void }} `show` fills in the bytes of a moment; of none those of what is selected, else of the peak
 */
export function legendTable(app) {
  const { stacks, levels } = app, head = element("caption"), body = element("tbody"), legend = element("table", { id: "legend", class: "groups" }, head, body);
  /** @param {string} ink @param {string} name @param {string} [short] @param {Record<string, any>} [data] */
  const row = (ink, name, short = name, data = {}) => {
    const sought = name.toLowerCase(), seek = () => app.look({ sought: app.sought === sought ? "" : name });
    const text = "data-group" in data ? button(short, seek, { "aria-pressed": String(app.sought === sought), title: `${name}: show it alone` }) : short;
    return element("tr", data, element("th", { scope: "row", title: name }, swatch(ink), text), element("td", { class: "right" }));
  };
  const fill = () => {
    const focused = body.contains(document.activeElement) ? document.activeElement?.closest("tr")?.rowIndex : undefined, { key, groups } = stacks.way, short = shortNames(groups.map(({ name }) => name));
    body.replaceChildren(...groups.map(({ ink, name }, group) => row(ink, name, short[group], { "data-group": group })).reverse(),
      ...(key === "all" ? [] : [row("", "allocated, all of these", undefined, { class: "total" })]), ...(levels.reservedPeak > 0 ? [row("reserved", "reserved")] : []));
    if (focused !== undefined) legend.rows[focused]?.querySelector("button")?.focus();
    show(null);
  };
  /** @param {{ event: number, bytes: number, reserved: number } | null} at */
  const show = (at) => {
    const { moment } = app, found = at ?? levels.highest(Math.max(moment, app.axis.lo), Math.max(moment, app.axis.lo) + 1);
    if (!found) return;
    const { sums, event } = stacks.at(found.event), figures = [...(stacks.way.key === "all" ? [] : sums.reverse()), found.bytes, found.reserved];
    [...body.rows].forEach(({ cells: [, cell] }, k) => {
      cell.textContent = formatBytes(figures[k]);
      cell.dataset.bytes = String(figures[k]);
    });
    head.textContent = `${at || app.selected ? "At" : "At the peak,"} event ${formatCount(Math.max(event, app.axis.lo))}${event === found.event ? "" : ", the nearest known"}`;
    legend.dataset.event = String(event);
  };
  app.onLook(fill);
  app.onSelect(() => show(null));
  fill();
  return { legend, show };
}

/**
 * The place beside the picture; on a small screen what is selected is a drawer at its foot.
 * @param {import("./app.js").App} app
 * @param {HTMLElement} legend
 * @returns {HTMLElement}
 */
export function details(app, legend) {
  const body = element("div", { role: "status", "aria-live": "polite" }), close = button("Close", () => app.select(null), { title: "Close (Esc)" });
  const chosen = element("div", { id: "chosen", hidden: true }, close, body);
  let opening = 0;
  const open = () => {
    const clicked = document.activeElement;
    chosen.classList.add("open");
    // What was clicked on stays in sight above a drawer.
    if (clicked instanceof HTMLCanvasElement && clicked.getBoundingClientRect().bottom > chosen.getBoundingClientRect().top && getComputedStyle(chosen).position === "fixed") clicked.scrollIntoView();
  };
  app.onSelect((selected) => {
    const made = selected && SHOWN[selected.kind]?.(app);
    clearTimeout(opening);
    body.replaceChildren(...(made ? [made] : []));
    chosen.hidden = !made;
    chosen.scrollTop = 0;
    chosen.classList.remove("open");
    document.documentElement.classList.toggle("drawer", Boolean(made));
    if (made) opening = setTimeout(open, DOUBLE_CLICK);
  });
  document.addEventListener("keydown", ({ key, target }) => {
    if (key === "Escape" && chosen.isConnected && !chosen.hidden && !(target instanceof HTMLCanvasElement)) app.select(null);
  });
  return element("aside", { id: "details", "aria-label": "What is shown and selected" }, legend, chosen);
}
