/** What lies where in the chunks of the device: at the peak, at failures, at the end, and at the moment that is selected. */

import { boxes } from "./boxes.js";
import { button, choice, element, legendOf, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { grid } from "./grid.js";
import { BLOCK, GAP, KEPT, chunkRows } from "./layout.js";
import { blockText } from "./life.js";
import { liveAt } from "./moment.js";

/** Heights in CSS pixels: the picture, the name of a pool in it, and what a failure asked for above it. */
const MAP_HEIGHT = 320, CAPTION = 16, REQUESTED = 22;

/** @param {string} text */
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function memoryMap(app) {
  const { maps: { moments, why, missing, left_failures: later, left_bytes: smaller }, terms, lifetimes: { pools } } = app.view;
  if (!moments.length) return section("map", "Memory map", element("p", {}, why));
  const first = Math.max(moments.findIndex((/** @type {any} */ moment) => moment.at === "oom"), 0);
  /** The moment that is shown, where it is one of those above, and the event right after which it is. */
  let shown = first, event = 0, byAddress = 0, only = -1, moved = false;
  let layout = /** @type {ReturnType<import("./layout.js").Blocks["layoutAfter"]>} */ (null), rows = chunkRows([], false);

  const picture = boxes({
    id: "map", label: "Memory map", height: MAP_HEIGHT, lay, tell, stops: (things) => things.filter(({ kind }) => kind === BLOCK),
    hint: `A click selects a block. Keys: \u2190 \u2192 from block to block, Enter select, z (or a double click) only this ${terms.chunk}, Esc all.`,
    act: ({ kind, number }) => kind === BLOCK && app.select("block-event", app.blocks.columns.alloc[number]),
    chosen: () => layout?.chunks.flatMap(({ pieces }) => pieces).find(({ kind, number }) => kind === BLOCK && app.blocks.columns.alloc[number] === app.block) ?? null,
    keys: { z: () => alone(picture.at()?.chunk ?? -1), Escape: () => alone(-1) },
  });
  const { canvas } = picture;
  canvas.addEventListener("dblclick", () => alone(picture.at()?.chunk ?? -1));

  /** @returns {import("./boxes.js").Box[]} */
  function lay() {
    if (!layout) return [];
    const { chunks } = layout, asked = moments[shown]?.requested_bytes, { groups } = app.stacks.way;
    const { length, rows: count, groups: places, order, starts } = only < 0 ? rows : { length: Math.ceil(chunks[only].size / 4), rows: 4, groups: [], order: [only], starts: [0] };
    const captions = places.length > 1 ? places : [], head = asked ? REQUESTED : 0, tall = (MAP_HEIGHT - head - captions.length * CAPTION) / count;
    const top = (/** @type {number} */ row) => head + row * tall + CAPTION * captions.filter((place) => place.first <= row).length;
    const found = /** @type {import("./boxes.js").Box[]} */ ([]);
    /** A stretch goes on in the next row. @param {number} start @param {number} size @param {Partial<import("./boxes.js").Box>} how */
    const add = (start, size, how) => {
      for (let row = Math.floor(start / length); row * length < start + size; row += 1)
        found.push({ left: Math.max(start / length - row, 0), right: Math.min((start + size) / length - row, 1), top: top(row) + 1, height: tall - 2, ...how });
    };
    // What a failure asked for stands above the map, as long as it is.
    if (asked) found.push({ left: 0, right: Math.min(asked / length, 1), top: 0, height: REQUESTED - 3, edge: "bad" }, { left: 0, right: 1, top: 0, height: REQUESTED - 3, text: `asked for: ${formatBytes(asked)}` });
    for (const place of captions) found.push({ left: 0, right: 1, top: top(place.first) - CAPTION, height: CAPTION, text: caption(place) });
    order.forEach((chunk, k) => {
      const { size: whole, pieces } = chunks[chunk];
      add(starts[k], whole, { fill: "gap" });
      for (const of of pieces) {
        const { kind, offset, size, number } = of;
        if (kind === BLOCK) add(starts[k] + offset, size, { of, fill: groups[app.groupOf(number)].ink, text: formatBytes(size) });
        else add(starts[k] + offset, size, { of, fill: kind === KEPT ? "kept" : undefined });
      }
      // Where chunks crowd, their edges would be all that is seen.
      add(starts[k], whole, { edge: whole < length / 100 ? "line" : "quiet" });
    });
    return found;
  }

  /** What is said of a pool and stream. @param {{ chunks: number[], others: number }} place @returns {string} */
  function caption({ chunks: numbers, others }) {
    const chunks = numbers.map((k) => /** @type {NonNullable<typeof layout>} */ (layout).chunks[k]), [{ pool, stream }] = chunks;
    const name = others ? `${formatCount(others)} others` : [pools[pool], stream < 0 ? "" : `stream ${stream}`].filter(Boolean).join(", ") || "not known";
    const gaps = chunks.flatMap((chunk) => chunk.pieces).filter(({ kind }) => kind === GAP), largest = gaps.reduce((most, { size }) => Math.max(most, size), 0);
    return `${name}: ${formatBytes(chunks.reduce((sum, { size }) => sum + size, 0))} in ${formatCount(chunks.length)} ${terms.chunk}s${gaps.length ? `, ${formatCount(gaps.length)} gaps, the largest of ${formatBytes(largest)}` : ""}`;
  }

  /**
   * A piece in a sentence; a block with all its bytes, for it may go from one chunk into the next.
   * @param {import("./layout.js").Piece} piece
   * @returns {[string, Record<string, string | number>]}
   */
  function tell({ chunk, kind, offset, size, number }) {
    const { at, size: whole } = /** @type {NonNullable<typeof layout>} */ (layout).chunks[chunk], { columns } = app.blocks;
    const inside = `in a ${terms.chunk} of ${formatExact(whole)}`, where = `at 0x${(at + offset).toString(16)}, ${inside}`;
    if (kind === GAP || kind === KEPT) return [`${kind === GAP ? "Free" : "Kept by blocks beyond their size, or after their FREE"}: ${formatExact(size)} ${where}.`, { bytes: size }];
    return [`${capital(blockText(app, number))} \u00b7 ${inside}.`, { bytes: columns.size_bytes[number], event: columns.alloc[number] }];
  }

  /** @param {number} chunk the only one to be shown, -1 for all */
  function alone(chunk) {
    only = only === chunk ? -1 : chunk;
    update();
  }

  /** @param {number} k one of the moments, -1 for the one that is selected */
  function show(k) {
    const asked = k < 0 ? app.moment : moments[k].after, blocks = app.blocks;
    event = k < 0 ? blocks.nearest(asked) ?? asked : asked;
    [shown, only] = [moments.findIndex((/** @type {any} */ { after }) => after === event), -1];
    layout = missing || blocks.nearest(event) !== event ? null : blocks.layoutAfter(event);
    note.textContent = event === asked ? "" : `Of event ${formatCount(asked)} this page does not know every block; the map is that of event ${formatCount(event)}, the nearest known.`;
    moved = k < 0;
    update();
  }

  const buttons = moments.map((/** @type {any} */ moment, /** @type {number} */ k) => button(moment.name, () => show(k)));
  const legend = element("div"), rest = element("p", { class: "quiet" }), all = button(`All ${terms.chunk}s`, () => alone(-1)), figures = element("div"), note = element("p", { class: "quiet", role: "status" });
  const by = choice("Colour", app.stacks.ways.map(({ name }) => `by ${name}`), (way) => app.look({ way }), { id: "map-by" });
  const controls = element("p", { class: "controls" }, choice("Order", ["largest first", "by address"], (k) => { byAddress = k; update(); }), by, all);

  function update() {
    const { groups } = app.stacks.way, found = layout?.chunks ?? [], pieces = found.flatMap((chunk) => chunk.pieces), name = shown < 0 ? `event ${formatCount(event)}` : moments[shown].name.toLowerCase();
    rows = chunkRows(found, Boolean(byAddress));
    figures.replaceChildren(figuresTable(app, buttons, shown < 0 ? momentAt(app, event, layout) : null));
    buttons.forEach((/** @type {HTMLElement} */ one, /** @type {number} */ k) => one.setAttribute("aria-pressed", String(k === shown)));
    canvas.hidden = controls.hidden = picture.hint.hidden = !layout;
    all.hidden = only < 0;
    by.getElementsByTagName("select")[0].selectedIndex = app.stacks.chosen;
    canvas.setAttribute("aria-label", `Memory map at ${name}: ${formatCount(found.length)} ${terms.chunk}s of ${formatBytes(found.reduce((sum, { size }) => sum + size, 0))} with ${formatCount(moments[shown]?.gaps ?? layout?.gaps.length ?? 0)} gaps`);
    Object.assign(canvas.dataset, { moment: shown, event });
    rest.textContent = !layout && app.blocks.nearest(event) !== event ? "There is no map: more blocks are live at this moment than a page has room for." : !layout ? why : smaller ? `Smaller ${terms.chunk}s of ${formatExact(smaller)} together are not drawn.` : "";
    const kinds = new Set(pieces.map(({ kind }) => kind)), used = new Set(pieces.filter(({ kind }) => kind === BLOCK).map(({ number }) => app.groupOf(number)));
    const others = [{ kind: KEPT, ink: "kept", name: "kept beyond the size" }, { kind: GAP, ink: "gap", name: "free" }];
    legend.replaceChildren(legendOf([...groups.filter((_, k) => used.has(k)), ...others.filter(({ kind }) => kinds.has(kind))]));
    picture.point(null);
    picture.show();
  }

  show(first);
  app.onLook(update);
  app.onSelect((selected) => {
    const asked = selected && ["moment", "range"].includes(selected.kind) ? app.moment : null;
    if (asked !== null) show(-1);
    else if (!selected && moved) show(first);
    else picture.redraw();
  });
  const left = later ? element("p", { class: "quiet" }, `${formatCount(later)} later failures are not shown here.`) : "";
  return section("map", "Memory map", figures, note, left, controls, canvas, picture.line, rest, legend, picture.hint);
}

/**
 * The figures of a moment that is none of those that matter, where all is known of it.
 * @param {import("./app.js").App} app
 * @param {number} event
 * @param {ReturnType<import("./layout.js").Blocks["layoutAfter"]>} layout
 * @returns {Record<string, any>}
 */
function momentAt(app, event, layout) {
  const { line, level } = liveAt(app, event), reserved = layout?.chunks.reduce((sum, { size }) => sum + size, app.view.maps.left_bytes) ?? null;
  const gaps = layout && { chunks: layout.chunks.length, gaps: layout.gaps.length, gap_bytes: layout.gaps.reduce((sum, size) => sum + size, 0), largest_gap_bytes: layout.gaps.reduce((a, b) => Math.max(a, b), 0), outside_bytes: layout.outside };
  return { at: `event ${formatCount(event)}`, line, reserved_bytes: reserved, allocated_bytes: level, free_bytes: layout && !layout.outside && reserved !== null ? reserved - level : null, ...gaps };
}

/**
 * The figures of the moments that matter, the button of each shows it, and of the one that is selected.
 * @param {import("./app.js").App} app
 * @param {HTMLElement[]} buttons
 * @param {Record<string, any> | null} chosen
 * @returns {HTMLElement}
 */
function figuresTable({ view: { maps, terms } }, buttons, chosen) {
  const moments = chosen ? [...maps.moments, chosen] : maps.moments;
  const titles = { line: capital(terms.line), reserved_bytes: "Reserved", allocated_bytes: "Allocated", free_bytes: "Free inside", chunks: `${capital(terms.chunk)}s`, gaps: "Gaps",
    gap_bytes: "In gaps", largest_gap_bytes: "Largest gap", outside_bytes: "Outside", requested_bytes: "Asked for" };
  const figures = Object.entries(titles).map(([key, title]) => ({ key, title, values: moments.map((/** @type {any} */ moment) => moment[key] ?? null), write: key.endsWith("_bytes") ? formatBytes : formatCount }))
    .filter(({ key, values }) => key !== "outside_bytes" || values.some((/** @type {number} */ value) => value > 0));
  const at = { key: "at", title: "At", values: moments.map((/** @type {any} */ moment) => moment.at), write: (/** @type {string} */ text, /** @type {number} */ k) => buttons[k] ?? text };
  return grid("map-figures", "moments", [at, ...figures], { plain: true, data: (k) => ({ "data-at": moments[k].at }) }).parts[0];
}
