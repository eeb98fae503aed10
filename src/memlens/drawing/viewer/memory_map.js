/** What lies where in the chunks of the device: at the peak, at failures and at the end. */

import { boxes } from "./boxes.js";
import { byOwner, byRole, bySize, roleWay } from "./colors.js";
import { button, choice, element, legendOf, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { grid } from "./grid.js";

/** Heights in CSS pixels: the picture, and the name of a pool in it. */
const MAP_HEIGHT = 320, CAPTION = 16;
/** What a piece of a chunk is (`memlens.drawing.memory_map.Piece`). */
export const BLOCK = 0, GAP = 1, KEPT = 2, SEVERAL = 3;

/**
 * A piece of a chunk; `number` is that of the block among the blocks, or of what stands for several among these.
 * @typedef {{ chunk: number, kind: number, offset: number, size: number, number: number }} Piece
 */

/**
 * The pieces of each chunk, by rising address.
 * @param {any} columns (`memlens.drawing.memory_map`)
 * @returns {Piece[][]}
 */
export function piecesOf({ counts, kinds, size_bytes: sizes }) {
  const seen = [0, 0, 0, 0];
  let at = 0;
  return Array.from(counts, (count, chunk) => {
    let offset = 0;
    return Array.from({ length: count }, () => {
      const kind = kinds[at], piece = { chunk, kind, offset, size: sizes[at], number: seen[kind] };
      [at, offset, seen[kind]] = [at + 1, offset + piece.size, seen[kind] + 1];
      return piece;
    });
  });
}

/** @param {string} text */
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function memoryMap(app) {
  const { maps: { moments, why, left_failures: later }, terms } = app.view;
  if (!moments.length) return section("map", "Memory map", element("p", {}, why));
  let shown = moments.findIndex((/** @type {any} */ moment) => moment.at === "oom"), byAddress = 0, only = -1;
  let owned = Number(moments.some((/** @type {any} */ moment) => new Set(moment.pieces?.owners).size > 1));
  /** The columns of the moment that is shown. @type {any} */
  let columns = null;
  let pieces = /** @type {Piece[][]} */ ([]), blocks = /** @type {Piece[]} */ ([]), coloring = bySize(app, []);

  const picture = boxes({
    id: "map", label: "Memory map", height: MAP_HEIGHT, lay, tell, stops: (things) => things.filter(({ kind }) => kind === BLOCK),
    hint: `A click selects a block. Keys: \u2190 \u2192 from block to block, Enter select, z (or a double click) only this ${terms.chunk}, Esc all.`,
    act: ({ kind, number }) => kind === BLOCK && app.select("block-event", columns.events[number]),
    chosen: () => blocks.find(({ number }) => columns.events[number] === app.block) ?? null,
    keys: { z: () => alone(picture.at()?.chunk ?? -1), Escape: () => alone(-1) },
  });
  const { canvas } = picture;
  canvas.addEventListener("dblclick", () => alone(picture.at()?.chunk ?? -1));
  app.onSelect(picture.redraw);

  /** @returns {import("./boxes.js").Box[]} */
  function lay() {
    if (!columns) return [];
    const asked = moments[shown].requested_bytes, sizes = columns.chunk_bytes;
    const { row_bytes: length, rows, captions, chunks, starts } = only < 0 ? columns.rows[byAddress] : { row_bytes: Math.ceil(sizes[only] / 4), rows: 4, captions: [], chunks: [only], starts: [0] };
    const head = asked ? CAPTION : 0, tall = (MAP_HEIGHT - head - captions.length * CAPTION) / rows;
    const top = (/** @type {number} */ row) => head + row * tall + CAPTION * captions.filter((/** @type {[number, string]} */ [first]) => first <= row).length;
    const found = /** @type {import("./boxes.js").Box[]} */ ([]);
    /** A stretch goes on in the next row. @param {number} start @param {number} size @param {Partial<import("./boxes.js").Box>} how */
    const add = (start, size, how) => {
      for (let row = Math.floor(start / length); row * length < start + size; row += 1)
        found.push({ left: Math.max(start / length - row, 0), right: Math.min((start + size) / length - row, 1), top: top(row) + 1, height: tall - 2, ...how });
    };
    // What a failure asked for stands above the map, as long as it is.
    if (asked) found.push({ left: 0, right: Math.min(asked / length, 1), top: 0, height: CAPTION - 3, edge: "bad" }, { left: 0, right: 1, top: 0, height: CAPTION - 3, text: `asked for: ${formatBytes(asked)}` });
    for (const [row, text] of captions) found.push({ left: 0, right: 1, top: top(row) - CAPTION, height: CAPTION, text });
    [...chunks].forEach((chunk, k) => {
      add(starts[k], sizes[chunk], { fill: "gap" });
      for (const of of pieces[chunk]) {
        const { kind, offset, size, number } = of;
        if (kind === BLOCK) add(starts[k] + offset, size, { of, fill: coloring.classes[coloring.classOf[number]].ink, text: formatBytes(size) });
        else if (kind === SEVERAL) add(starts[k] + offset, size, { of, fill: "allocated-light", part: [0, 1 - columns.several.gap_bytes[number] / size] });
        else add(starts[k] + offset, size, { of, fill: kind === KEPT ? "kept" : undefined });
      }
      // Where chunks crowd, their edges would be all that is seen.
      add(starts[k], sizes[chunk], { edge: sizes[chunk] < length / 100 ? "line" : "quiet" });
    });
    return found;
  }

  /**
   * A piece in a sentence; a block with all its bytes, for it may go from one chunk into the next.
   * @param {Piece} piece
   * @returns {[string, Record<string, string | number>]}
   */
  function tell({ chunk, kind, offset, size, number }) {
    const address = (BigInt(`0x${columns.addresses[chunk]}`) + BigInt(offset)).toString(16), event = columns.events[number], several = columns.several;
    const where = `at 0x${address}, in a ${terms.chunk} of ${formatExact(columns.chunk_bytes[chunk])}`;
    if (kind !== BLOCK && kind !== SEVERAL) return [`${kind === GAP ? "Free" : "Kept by blocks beyond their size, or after their FREE"}: ${formatExact(size)} ${where}.`, { bytes: size }];
    if (kind === SEVERAL) {
      const held = `${formatCount(several.blocks[number])} smaller blocks of ${formatExact(several.block_bytes[number])} together`;
      return [`${formatExact(size)} ${where}: ${held}, ${formatCount(several.gaps[number])} gaps of ${formatExact(several.gap_bytes[number])}.`, { bytes: size }];
    }
    const bytes = blocks.reduce((sum, block) => (columns.events[block.number] === event ? sum + block.size : sum), 0);
    const line = columns.lines[number], owner = app.ownerText(columns.owners[number]);
    return [`Block of ${formatExact(bytes)} ${where}${line ? `, allocated at ${app.lineText(line)}` : ""}${owner && `, by ${owner}`}${app.view.roles ? `; ${app.view.roles.classes[columns.roles[number]].name}` : ""}.`, { bytes, event }];
  }

  /** @param {number} chunk the only one to be shown, -1 for all */
  function alone(chunk) {
    only = only === chunk ? -1 : chunk;
    update();
  }

  /** @param {number} k a moment */
  function show(k) {
    [shown, only, columns] = [k, -1, moments[k].pieces];
    pieces = columns ? piecesOf(columns) : [];
    blocks = pieces.flat().filter(({ kind }) => kind === BLOCK);
    update();
  }

  const buttons = moments.map((/** @type {any} */ moment, /** @type {number} */ k) => button(moment.name, () => show(k)));
  const legend = element("div"), rest = element("p", { class: "quiet" }), all = button(`All ${terms.chunk}s`, () => alone(-1));
  const controls = element("p", { class: "controls" },
    choice("Order", ["largest first", "by address"], (k) => { byAddress = k; update(); }),
    choice("Colour", ["size", "owner", ...roleWay(app)].map((way) => `by ${way}`), (k) => { owned = k; update(); }, { first: owned, id: "map-by" }), all);

  function update() {
    const moment = moments[shown];
    coloring = owned && columns ? (owned > 1 ? byRole(app, columns.roles) : byOwner(app, columns.owners)) : bySize(app, blocks.map(({ size }) => size));
    buttons.forEach((/** @type {HTMLElement} */ one, /** @type {number} */ k) => one.setAttribute("aria-pressed", String(k === shown)));
    canvas.hidden = controls.hidden = picture.hint.hidden = !columns;
    all.hidden = only < 0;
    canvas.setAttribute("aria-label", `Memory map at ${moment.name.toLowerCase()}: ${formatCount(moment.chunks ?? 0)} ${terms.chunk}s of ${formatBytes(moment.reserved_bytes)} with ${formatCount(moment.gaps ?? 0)} gaps`);
    canvas.dataset.moment = String(shown);
    rest.textContent = !columns ? why : columns.left_chunks ? `${formatCount(columns.left_chunks)} smaller ${terms.chunk}s of ${formatExact(columns.left_bytes)} together are not drawn.` : "";
    const kinds = new Set(columns?.kinds), used = new Set(coloring.classOf);
    const others = [{ kind: KEPT, ink: "kept", name: "kept beyond the size" }, { kind: SEVERAL, ink: "allocated-light", name: "several smaller ones" }, { kind: GAP, ink: "gap", name: "free" }];
    legend.replaceChildren(legendOf([...coloring.classes.filter((_, k) => used.has(k)), ...others.filter(({ kind }) => kinds.has(kind))]));
    picture.point(null);
    picture.show();
  }

  show(Math.max(shown, 0));
  const note = element("p", { class: "quiet", role: "status" });
  app.onSelect((selected) => {
    const k = selected?.kind === "moment" ? moments.findIndex((/** @type {any} */ moment) => moment.event === selected.value) : -1;
    if (k >= 0) show(k);
    note.textContent = selected?.kind === "moment" && k < 0 ? `This page has no map of event ${formatCount(selected.value)}; the nearest are below.` : "";
  });
  const left = later ? element("p", { class: "quiet" }, `${formatCount(later)} later failures are not shown here.`) : "";
  return section("map", "Memory map", note, figuresTable(moments, terms, buttons), left, controls, canvas, picture.line, rest, legend, picture.hint);
}

/**
 * The figures of the moments; the button of each shows it.
 * @param {any[]} moments
 * @param {import("./app.js").LogView["terms"]} terms
 * @param {HTMLElement[]} buttons
 * @returns {HTMLElement}
 */
function figuresTable(moments, terms, buttons) {
  const titles = { line: capital(terms.line), reserved_bytes: "Reserved", allocated_bytes: "Allocated", free_bytes: "Free inside", chunks: `${capital(terms.chunk)}s`, gaps: "Gaps",
    gap_bytes: "In gaps", largest_gap_bytes: "Largest gap", outside_bytes: "Outside", requested_bytes: "Asked for" };
  const figures = Object.entries(titles).map(([key, title]) => ({ key, title, values: moments.map((moment) => moment[key]), write: key.endsWith("_bytes") ? formatBytes : formatCount }))
    .filter(({ key, values }) => key !== "outside_bytes" || values.some((value) => value > 0));
  const at = { key: "at", title: "At", values: moments.map((moment) => moment.at), write: (/** @type {string} */ _, /** @type {number} */ k) => buttons[k] };
  return grid("map-figures", "moments", [at, ...figures], { plain: true, data: (k) => ({ "data-at": moments[k].at }) }).parts[0];
}
