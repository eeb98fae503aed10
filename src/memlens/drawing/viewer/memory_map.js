/** What lies where in the chunks of the device: at the peak, at failures and at the end. */

import { color, drawing, inkOn } from "./canvas.js";
import { element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { byOwner, bySize } from "./colors.js";

/** Heights in CSS pixels: the picture, and the name of a pool in it; rows that it has at most. */
const MAP_HEIGHT = 320, CAPTION = 16, MAP_ROWS = 16;
/** Pools and streams that are set apart. */
const PLACES = 8;
/** A block at least so wide says its size, in CSS pixels. */
const LABEL = 64;
/** What a piece of a chunk is (`memlens.drawing.memory_map.Piece`). */
export const BLOCK = 0, GAP = 1, KEPT = 2, SEVERAL = 3;
const AT = /** @type {Record<string, string>} */ ({ peak: "the peak", oom: "out of memory", end: "the end" });

/**
 * A piece of a chunk as it is shown.
 * @typedef {{ chunk: number, kind: number, offset: number, size: number, number: number }} Piece
 * `number` is that of the block among the blocks, or of what stands for several among these.
 */

/** Chunks in pieces, and where each is found. */
export class Chunks {
  /** @param {any} pieces columns (`memlens.drawing.memory_map`) */
  constructor(pieces) {
    this.pieces = pieces;
    /** The first piece of each chunk, and one more. */
    this.first = new Int32Array(pieces.counts.length + 1);
    for (let k = 0; k < pieces.counts.length; k += 1) this.first[k + 1] = this.first[k] + pieces.counts[k];
    /** Of each piece its number among those of its kind. */
    this.numbers = new Int32Array(pieces.kinds.length);
    const seen = [0, 0, 0, 0];
    pieces.kinds.forEach((/** @type {number} */ kind, /** @type {number} */ k) => {
      this.numbers[k] = seen[kind];
      seen[kind] += 1;
    });
    /** The bytes of each block, as far as it lies in chunks. */
    this.blockBytes = /** @type {Float64Array} */ (pieces.size_bytes.filter((/** @type {number} */ _, /** @type {number} */ k) => pieces.kinds[k] === BLOCK));
  }

  /**
   * The pieces of a chunk by rising address.
   * @param {number} chunk
   * @returns {Piece[]}
   */
  of(chunk) {
    const found = [];
    for (let k = this.first[chunk], offset = 0; k < this.first[chunk + 1]; k += 1) {
      const size = this.pieces.size_bytes[k];
      found.push({ chunk, kind: this.pieces.kinds[k], offset, size, number: this.numbers[k] });
      offset += size;
    }
    return found;
  }

  /**
   * The chunks of each pool and stream, those with the most bytes first; of many the smallest ones together.
   * @param {boolean} byAddress chunks by rising address, and not the largest first
   * @returns {{ pool: string | null, stream: number, bytes: number, chunks: number[] }[]}
   */
  places(byAddress) {
    const { pools, streams, chunk_bytes: sizes } = this.pieces, found = new Map();
    for (let chunk = 0; chunk < sizes.length; chunk += 1) {
      const key = `${pools[chunk]} ${streams[chunk]}`;
      const place = found.get(key) ?? { pool: pools[chunk], stream: streams[chunk], bytes: 0, chunks: [] };
      place.bytes += sizes[chunk];
      place.chunks.push(chunk);
      found.set(key, place);
    }
    const places = [...found.values()].sort((a, b) => b.bytes - a.bytes);
    if (places.length > PLACES) {
      const others = places.splice(PLACES - 1), chunks = others.flatMap((place) => place.chunks).sort((a, b) => a - b);
      places.push({ pool: `${formatCount(others.length)} others`, stream: -1, bytes: others.reduce((sum, place) => sum + place.bytes, 0), chunks });
    }
    if (!byAddress) for (const place of places) place.chunks.sort((/** @type {number} */ a, /** @type {number} */ b) => sizes[b] - sizes[a] || a - b);
    return places;
  }

  /**
   * All bytes of a block, which may go from one chunk into the next.
   * @param {number} event its ALLOC
   * @returns {number}
   */
  bytesOf(event) {
    return this.blockBytes.reduce((sum, size, k) => (this.pieces.events[k] === event ? sum + size : sum), 0);
  }
}

/**
 * Bars of given lengths in rows of one length, in order: a bar that does not fit into the rest of its row begins a row of its own, and one
 * longer than a row goes on in the next one.
 * @param {number[][]} groups lengths; each group begins a row
 * @param {number} most rows
 * @returns {{ length: number, rows: number, groups: number[], starts: Float64Array }} of a row its length, how many rows there are, the
 * first row of each group, and where each bar begins if rows lie one after the other
 */
export function barsInRows(groups, most) {
  const sizes = groups.flat(), starts = new Float64Array(sizes.length), firsts = new Array(groups.length).fill(0);
  const total = sizes.reduce((sum, size) => sum + size, 0), rows = Math.max(most, groups.length + 1);
  const fair = Math.max(Math.ceil(total / rows), 1), largest = Math.max(...groups.map((group) => group.reduce((most, size) => Math.max(most, size), 0)), 0);
  // A bar is better not broken, unless that would make all others narrow.
  for (let length = largest <= 3 * fair ? Math.max(fair, largest) : fair; ; length = Math.ceil(length * 1.04) + 1) {
    let at = 0, bar = 0;
    groups.forEach((group, k) => {
      at = Math.ceil(at / length) * length;
      firsts[k] = at / length;
      for (const size of group) {
        const left = length - (at % length);
        if (size > left && left < length) at += left;
        starts[bar] = at;
        at += size;
        bar += 1;
      }
    });
    const used = Math.ceil(at / length);
    if (used <= rows) return { length, rows: Math.max(used, 1), groups: firsts, starts };
  }
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function memoryMap(app) {
  const { maps, owners, terms } = app.view;
  const why = /** @type {Record<string, string>} */ ({
    no_chunks: `There is no map: this input does not say which ${terms.chunk}s are reserved.`,
    no_blocks: "There is no map: this input does not say which blocks are allocated.",
    no_addresses: `There is no map, only figures: it is not known at which addresses the ${terms.chunk}s lie, or several lie over each other.`,
  });
  if (!maps.moments.length) return section("map", "Memory map", element("p", {}, why[maps.missing]));
  /** @type {(Chunks | null)[]} */
  const chunks = maps.moments.map((/** @type {any} */ moment) => moment.pieces && new Chunks(moment.pieces));
  let shown = Math.max(maps.moments.findIndex((/** @type {any} */ moment) => moment.at === "oom"), 0), byAddress = false, only = -1;
  let ownersColored = chunks.some((known) => known !== null && new Set(known.pieces.owners).size > 1);
  /** What the pointer or the keyboard is at. @type {Piece | null} */
  let at = null;
  /** Where everything lies, and how often that has changed. @type {any} */
  let layout = null, version = 0;

  function lay() {
    const known = chunks[shown];
    if (!known) return;
    const sizes = known.pieces.chunk_bytes;
    const places = only < 0 ? known.places(byAddress) : [{ pool: null, stream: -1, bytes: sizes[only], chunks: [only] }];
    const order = places.flatMap((place) => place.chunks);
    const made = barsInRows(places.map((place) => place.chunks.map((chunk) => sizes[chunk])), only < 0 ? MAP_ROWS : 4);
    const captions = places.length > 1 ? places : [];
    // What a failure asked for stands above the map, as long as it is.
    const asked = maps.moments[shown].requested_bytes ? 1 : 0;
    layout = { ...made, places: captions, order, known, asked, row: (MAP_HEIGHT - (captions.length + asked) * CAPTION) / made.rows, colors: ownersColored ? byOwner(app, known.pieces.owners) : bySize(known.blockBytes) };
  }

  /** @param {number} row */
  const top = (row) => row * layout.row + CAPTION * (layout.asked + (layout.places.length ? layout.groups.filter((/** @type {number} */ first) => first <= row).length : 0));

  /**
   * The rectangles of a stretch of the picture.
   * @param {number} start
   * @param {number} size
   * @param {number} width
   * @param {(x: number, y: number, width: number, height: number) => void} draw
   */
  function each(start, size, width, draw) {
    for (let row = Math.floor(start / layout.length); row * layout.length < start + size; row += 1) {
      const from = Math.max(start - row * layout.length, 0), to = Math.min(start + size - row * layout.length, layout.length);
      draw((from / layout.length) * width, top(row) + 1, ((to - from) / layout.length) * width, layout.row - 2);
    }
  }

  /**
   * The chunks and what lies in them.
   * @param {CanvasRenderingContext2D} context
   * @param {number} width
   */
  function drawChunks(context, width) {
    const { known } = layout, inks = /** @type {Record<string, string>} */ ({});
    /** @param {string} name */
    const ink = (name) => (inks[name] ??= color(name));
    context.textBaseline = "middle";
    /** @param {string} text @param {number} x @param {number} y @param {number} room */
    const label = (text, x, y, room) => {
      const fill = String(context.fillStyle);
      context.fillStyle = inkOn(fill);
      context.fillText(text, x, y, room);
      context.fillStyle = fill;
    };
    const asked = maps.moments[shown].requested_bytes;
    if (layout.asked) {
      const w = Math.min(asked / layout.length, 1) * width;
      context.strokeStyle = context.fillStyle = ink("bad");
      context.setLineDash([4, 3]);
      context.strokeRect(0.5, 1.5, Math.max(w - 1, 1), CAPTION - 4);
      context.setLineDash([]);
      context.fillText(`asked for: ${formatBytes(asked)}`, 4, CAPTION / 2, width);
    }
    layout.places.forEach((/** @type {any} */ place, /** @type {number} */ k) => {
      context.fillStyle = ink("text");
      context.fillText(placeName(place, maps.moments[shown].pools, terms.chunk), 0, top(layout.groups[k]) - CAPTION / 2, width);
    });
    layout.order.forEach((/** @type {number} */ chunk, /** @type {number} */ k) => {
      const start = layout.starts[k];
      each(start, known.pieces.chunk_bytes[chunk], width, (x, y, w, h) => {
        context.fillStyle = ink("gap");
        context.fillRect(x, y, w, h);
      });
      for (const piece of known.of(chunk)) {
        if (piece.kind === GAP) continue;
        let share = 1;
        if (piece.kind === BLOCK) context.fillStyle = ink(layout.colors.classes[layout.colors.classOf[piece.number]].ink);
        else context.fillStyle = ink(piece.kind === KEPT ? "kept" : "allocated-light");
        if (piece.kind === SEVERAL) share = 1 - known.pieces.several.gap_bytes[piece.number] / piece.size;
        each(start + piece.offset, piece.size, width, (x, y, w, h) => {
          context.fillRect(x, y + h * (1 - share), w > 3 ? w - 0.5 : w, h * share);
          if (piece.kind === BLOCK && w > LABEL && h > 11) label(formatBytes(piece.size), x + 4, y + h / 2, w - 8);
        });
      }
      // Where chunks crowd, their edges would be all that is seen.
      context.strokeStyle = ink((known.pieces.chunk_bytes[chunk] / layout.length) * width < 8 ? "line" : "quiet");
      context.lineWidth = 1;
      each(start, known.pieces.chunk_bytes[chunk], width, (x, y, w, h) => context.strokeRect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.max(w - 1, 0.5), h - 1));
    });
  }

  /** What does not change while the pointer moves, and what it was drawn for. */
  const still = document.createElement("canvas");
  let drawnFor = "";

  const { canvas, redraw } = drawing("Memory map", MAP_HEIGHT, (context, width, height) => {
    if (!layout) return;
    const now = [width, devicePixelRatio, version, color("back")].join();
    if (now !== drawnFor) {
      still.width = canvas.width;
      still.height = canvas.height;
      const base = /** @type {CanvasRenderingContext2D} */ (still.getContext("2d"));
      base.scale(canvas.width / width, canvas.height / height);
      base.font = context.font;
      drawChunks(base, width);
      drawnFor = now;
    }
    context.drawImage(still, 0, 0, width, height);
    for (const piece of [selectedPiece(), at]) {
      if (!piece) continue;
      context.strokeStyle = color("chosen");
      context.lineWidth = 2;
      each(layout.starts[layout.order.indexOf(piece.chunk)] + piece.offset, piece.size, width, (x, y, w, h) => context.strokeRect(x, y, Math.max(w, 2), h));
    }
  });

  /** @returns {Piece | null} the block that is selected in the page */
  function selectedPiece() {
    const number = layout ? layout.known.pieces.events.indexOf(app.block) : -1;
    return number < 0 ? null : blocks().find((piece) => piece.number === number) ?? null;
  }

  /** @returns {Piece[]} the blocks in the order in which they are drawn */
  function blocks() {
    return layout.order.flatMap((/** @type {number} */ chunk) => layout.known.of(chunk)).filter((/** @type {Piece} */ piece) => piece.kind === BLOCK);
  }

  /**
   * @param {number} x
   * @param {number} y
   * @returns {Piece | null} what is drawn there
   */
  function find(x, y) {
    if (!layout) return null;
    let row = layout.rows - 1;
    while (row > 0 && top(row) > y) row -= 1;
    const place = (row + Math.min(Math.max(x / canvas.clientWidth, 0), 1)) * layout.length;
    let k = layout.starts.length - 1;
    while (k > 0 && layout.starts[k] > place) k -= 1;
    const within = place - layout.starts[k];
    return layout.known.of(layout.order[k]).find((/** @type {Piece} */ piece) => piece.offset <= within && within < piece.offset + piece.size) ?? null;
  }

  const told = element("p", { class: "told", role: "status", "aria-live": "polite", id: "map-at" });
  const hint = element("p", { class: "hint", id: "map-keys" }, `A click selects a block. Keys: \u2190 \u2192 from block to block, Enter select, z (or a double click) only this ${terms.chunk}, Esc all.`);
  canvas.setAttribute("aria-describedby", "map-at map-keys");

  /** @param {Piece | null} piece */
  function point(piece) {
    if (piece?.chunk === at?.chunk && piece?.offset === at?.offset) return;
    at = piece;
    told.textContent = piece ? sentence(piece) : "";
    const { pieces } = layout.known;
    told.dataset.bytes = String(!piece ? "" : piece.kind === BLOCK ? layout.known.bytesOf(pieces.events[piece.number]) : piece.size);
    told.dataset.event = String(piece?.kind === BLOCK ? pieces.events[piece.number] : "");
    redraw();
  }

  /** @param {Piece} piece */
  function sentence({ chunk, kind, offset, size, number }) {
    const { pieces } = layout.known, address = (BigInt(`0x${pieces.addresses[chunk]}`) + BigInt(offset)).toString(16);
    const where = `at 0x${address}, in a ${terms.chunk} of ${formatExact(pieces.chunk_bytes[chunk])}`;
    if (kind === GAP) return `Free: ${formatExact(size)} ${where}.`;
    if (kind === KEPT) return `Kept by blocks beyond their size, or after their FREE: ${formatExact(size)} ${where}.`;
    if (kind === SEVERAL) {
      const { blocks: count, block_bytes: bytes, gaps, gap_bytes: free } = pieces.several;
      return `${formatExact(size)} ${where}: ${formatCount(count[number])} smaller blocks of ${formatExact(bytes[number])} together, ${formatCount(gaps[number])} gaps of ${formatExact(free[number])}.`;
    }
    const owner = pieces.owners[number], line = pieces.lines[number];
    return `Block of ${formatExact(layout.known.bytesOf(pieces.events[number]))} ${where}${line ? `, allocated at ${app.lineText(line)}` : ""}${owner < 0 ? "" : `, by ${owners[owner]}`}.`;
  }

  function select() {
    if (at?.kind === BLOCK) app.select("block-event", layout.known.pieces.events[at.number]);
  }

  canvas.addEventListener("pointermove", (event) => point(find(event.offsetX, event.offsetY)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    point(find(event.offsetX, event.offsetY));
    select();
  });
  canvas.addEventListener("dblclick", () => alone(at?.chunk ?? -1));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step && layout) {
      const all = blocks(), now = all.findIndex((piece) => piece.chunk === at?.chunk && piece.offset === at?.offset);
      point(all[Math.min(Math.max(now + step, 0), all.length - 1)] ?? null);
    } else if (event.key === "Enter") select();
    else if (event.key === "z") alone(at?.chunk ?? -1);
    else if (event.key === "Escape") alone(-1);
    else return;
    event.preventDefault();
  });
  app.onSelect(redraw);

  /** @param {number} chunk the only one to be shown, -1 for all */
  function alone(chunk) {
    only = only === chunk ? -1 : chunk;
    update();
  }

  const legend = element("p", { class: "legend" }), rest = element("p", { class: "quiet" });
  const buttons = maps.moments.map((/** @type {any} */ moment, /** @type {number} */ k) =>
    element("button", { type: "button", click: () => show(k) }, momentName(moment)));
  const all = element("button", { type: "button", click: () => alone(-1) }, `All ${terms.chunk}s`);
  const controls = element("p", { class: "controls" },
    choice("Order", ["largest first", "by address"], (k) => { byAddress = k === 1; }),
    choice("Colour", ["by size", "by owner"], (k) => { ownersColored = k === 1; }, Number(ownersColored)), all);

  /**
   * @param {string} label
   * @param {string[]} names
   * @param {(k: number) => void} change
   * @param {number} [first]
   */
  function choice(label, names, change, first = 0) {
    const select = element("select", { change: () => { change(select.selectedIndex); update(); } }, ...names.map((name, k) => element("option", { selected: k === first }, name)));
    return element("label", {}, `${label} `, select);
  }

  /** @param {number} k */
  function show(k) {
    shown = k;
    only = -1;
    update();
  }

  function update() {
    at = null;
    layout = null;
    version += 1;
    lay();
    const known = chunks[shown], moment = maps.moments[shown];
    buttons.forEach((/** @type {HTMLElement} */ button, /** @type {number} */ k) => button.setAttribute("aria-pressed", String(k === shown)));
    canvas.hidden = controls.hidden = hint.hidden = !known;
    all.hidden = only < 0;
    canvas.setAttribute("aria-label", `Memory map at ${AT[moment.at]}: ${formatCount(moment.chunks ?? 0)} ${terms.chunk}s of ${formatBytes(moment.reserved_bytes)} with ${formatCount(moment.gaps ?? 0)} gaps`);
    canvas.dataset.moment = String(shown);
    told.textContent = known ? "" : why.no_addresses;
    rest.textContent = known?.pieces.left_chunks ? `${formatCount(known.pieces.left_chunks)} smaller ${terms.chunk}s of ${formatExact(known.pieces.left_bytes)} together are not drawn.` : "";
    const entries = /** @type {string[][]} */ (layout?.colors.classes.filter((/** @type {any} */ _, /** @type {number} */ k) => layout.colors.classOf.includes(k)).map((/** @type {any} */ one) => [one.ink, one.name]) ?? []);
    if (known?.pieces.kinds.includes(KEPT)) entries.push(["kept", "kept beyond the size"]);
    if (known?.pieces.kinds.includes(SEVERAL)) entries.push(["allocated-light", "several smaller ones"]);
    if (known) entries.push(["gap", "free"]);
    legend.replaceChildren(...entries.map(([name, text]) => element("span", {}, element("i", { class: name }), text)));
    redraw();
  }

  update();
  const left = maps.left_failures ? element("p", { class: "quiet" }, `${formatCount(maps.left_failures)} later failures are not shown here.`) : "";
  return section("map", "Memory map", figuresTable(app, buttons), left, controls, canvas, told, rest, legend, hint);
}

/**
 * @param {{ pool: string | null, stream: number, bytes: number, chunks: number[] }} place
 * @param {any[]} pools the figures of pools and streams
 * @param {string} chunk what a chunk is called
 * @returns {string}
 */
function placeName({ pool, stream, bytes, chunks }, pools, chunk) {
  const known = pools.find((one) => one.pool === pool && (one.stream ?? -1) === stream), gaps = known?.gaps ? `, ${formatCount(known.gaps)} gaps, the largest of ${formatBytes(known.largest_gap_bytes)}` : "";
  const names = [pool, stream < 0 ? null : `stream ${stream}`].filter((name) => name !== null);
  return `${names.join(", ") || "not known"}: ${formatBytes(known?.reserved_bytes ?? bytes)} in ${formatCount(known?.chunks ?? chunks.length)} ${chunk}s${gaps}`;
}

/** @param {any} moment */
function momentName(moment) {
  const name = AT[moment.at];
  return name[0].toUpperCase() + name.slice(1);
}

/**
 * The figures of the moments; the button of each shows it.
 * @param {import("./app.js").App} app
 * @param {HTMLElement[]} buttons
 * @returns {HTMLElement}
 */
function figuresTable(app, buttons) {
  const { moments } = app.view.maps, { terms } = app.view;
  const columns = /** @type {[string, string, (value: number) => string][]} */ ([
    ["line", terms.line[0].toUpperCase() + terms.line.slice(1), formatCount], ["reserved_bytes", "Reserved", formatBytes], ["allocated_bytes", "Allocated", formatBytes],
    ["free_bytes", "Free inside", formatBytes], ["chunks", `${terms.chunk[0].toUpperCase()}${terms.chunk.slice(1)}s`, formatCount], ["gaps", "Gaps", formatCount],
    ["gap_bytes", "In gaps", formatBytes], ["largest_gap_bytes", "Largest gap", formatBytes], ["outside_bytes", "Outside", formatBytes], ["requested_bytes", "Asked for", formatBytes],
  ]).filter(([key]) => moments.some((/** @type {any} */ moment) => moment[key] !== null && (key !== "outside_bytes" || moment[key] > 0)));
  const head = element("tr", {}, element("th", { scope: "col" }, "At"), ...columns.map(([, name]) => element("th", { scope: "col", class: "right" }, name)));
  const rows = moments.map((/** @type {any} */ moment, /** @type {number} */ k) => element("tr", { "data-at": moment.at },
    element("th", { scope: "row" }, buttons[k]),
    ...columns.map(([key, , write]) => element("td", { class: "right", "data-figure": key, "data-value": moment[key] ?? "", title: key.endsWith("_bytes") && moment[key] !== null ? `${moment[key]} B` : "" },
      moment[key] === null ? "" : write(moment[key])))));
  return element("div", { class: "wide" }, element("table", { id: "map-figures" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}
