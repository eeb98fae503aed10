/** Two runs over one axis, on which what both do stands at one place (`memlens.drawing.differences`): their levels, the difference, the findings. */

import { Axis, firstAtLeast } from "./axis.js";
import { color, drawing, stroke, write } from "./canvas.js";
import { checkbox, element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact, signedBytes } from "./format.js";
import { Pyramid } from "./pyramid.js";
import { grid } from "./grid.js";
import { bytesTicks } from "./ticks.js";
import { drawBands } from "./timeline.js";
import { zoomable, zoomButtons } from "./zoom.js";

/** Heights in CSS pixels: the levels, the difference, the names of windows, a lane of lives, the lines below. */
const CURVES_HEIGHT = 280, DIFFERENCE_HEIGHT = 130, NAMES = 18, LANE = 12, LINES_HEIGHT = 32;
/** The pointer is on whatever is so near to it, in CSS pixels. */
const REACH = 2;
/** @type {["base", "head"]} */
const SIDES = ["base", "head"];

/**
 * A place on the axis at which the runs are farthest apart, of some neighbouring ones.
 * @typedef {Object} Place
 * @property {number} slot
 * @property {number} base in bytes
 * @property {number} head in bytes
 * @property {number} baseLine the line of base's last event there; 0 where there is none
 * @property {number} headLine
 */

/**
 * The curves over a stretch of the axis.
 * @typedef {Object} Stretch
 * @property {number} lo the first slot
 * @property {number} hi the slot after the last one
 * @property {(slot: number) => number} bucket
 * @property {Pyramid} base
 * @property {Pyramid} head
 * @property {Pyramid} apart head less base
 * @property {(bucket: number) => Place} place
 */

/** Both curves: buckets of slots, and stretches around findings slot by slot. */
export class Curves {
  /** @param {any} diff the data of the page, unpacked */
  constructor(diff) {
    const { edges } = diff.curves;
    /** @type {Stretch[]} */
    this.stretches = [
      ...diff.details.map((/** @type {any} */ detail) => stretchOf(detail, detail.lo, detail.lo + detail.base_bytes.length, null)),
      stretchOf(diff.curves, 0, diff.slots, edges),
    ];
  }

  /**
   * The buckets that hold slots `from … to - 1`, of the closest stretch that has all of them.
   * @param {number} from with a fraction: what a slot reaches lasts until the next one
   * @param {number} to
   * @returns {[Stretch, number, number]} the stretch, the first bucket and the one after the last; none where the axis is empty
   */
  buckets(from, to) {
    const whole = this.stretches[this.stretches.length - 1];
    const first = Math.max(Math.floor(from), 0), last = Math.min(Math.max(Math.ceil(to), first + 1), whole.hi);
    if (first >= last) return [whole, 0, 0];
    const stretch = this.stretches.find((one) => one.lo <= first && last <= one.hi) ?? whole;
    return [stretch, stretch.bucket(first), stretch.bucket(last - 1) + 1];
  }

  /**
   * The place at which the runs are farthest apart.
   * @param {number} from
   * @param {number} to
   * @returns {Place | null}
   */
  farthest(from, to) {
    const [stretch, first, last] = this.buckets(from, to);
    /** @type {Place | null} */
    let best = null;
    for (let bucket = first; bucket < last; bucket += 1) {
      const place = stretch.place(bucket);
      if (best === null || Math.abs(place.head - place.base) > Math.abs(best.head - best.base)) best = place;
    }
    return best;
  }
}

/**
 * @param {any} columns
 * @param {number} lo
 * @param {number} hi
 * @param {Float64Array | null} edges of the buckets; none where each is a slot
 * @returns {Stretch}
 */
function stretchOf(columns, lo, hi, edges) {
  const { base_bytes: base, head_bytes: head } = columns;
  const apart = columns.low ? null : Float64Array.from(base, (bytes, k) => head[k] - bytes);
  return {
    lo, hi,
    bucket: (slot) => edges === null ? slot - lo : firstAtLeast(edges, slot + 1) - 1,
    base: new Pyramid(columns.base_low ?? base, columns.base_high ?? base),
    head: new Pyramid(columns.head_low ?? head, columns.head_high ?? head),
    apart: new Pyramid(columns.low ?? apart, columns.high ?? apart),
    place: (bucket) => ({
      slot: columns.slot?.[bucket] ?? lo + bucket,
      base: base[bucket], head: head[bucket], baseLine: columns.base_line[bucket], headLine: columns.head_line[bucket],
    }),
  };
}

/**
 * @param {any} diff
 * @returns {HTMLElement}
 */
export function diffSection(diff) {
  const axis = new Axis(0, diff.slots), curves = new Curves(diff), bands = bandsOf(diff.windows);
  /** @type {Place | null} */
  let at = null;
  /** @type {any} */
  let chosen = null;
  let fitted = false;
  const { figures } = diff;
  /** What the vertical scales reach from and to. @param {("base" | "head" | "apart")[]} of @param {[number, number]} whole @returns {[number, number]} */
  const reach = (of, whole) => {
    const [stretch, first, last] = curves.buckets(axis.from, axis.to);
    if (!fitted || first === last) return whole;
    const ends = of.flatMap((one) => stretch[one].extremes(first, last));
    const [low, high] = [Math.min(...ends), Math.max(...ends)];
    return [low, high > low ? high : low + 1];
  };

  /** @param {() => [number, number] | null} dragged @param {CanvasRenderingContext2D} context @param {number} width @param {number} bottom */
  const pointer = (dragged, context, width, bottom) => {
    const over = dragged();
    if (over) {
      context.fillStyle = color("brush");
      context.fillRect(over[0], 0, over[1] - over[0], bottom);
    }
    if (at) {
      const x = axis.toPixel(at.slot + 0.5, width);
      stroke(context, color("quiet"), [x, 0], [x, bottom], [2, 2]);
    }
  };
  const top = NAMES + 2 * LANE + 6;
  const upper = drawing(`Allocated bytes of base and of head; base peaks at ${formatExact(figures.base_peak_bytes)}, head at ${formatExact(figures.head_peak_bytes)}`, CURVES_HEIGHT, (context, width, height) => {
    const bottom = height - LINES_HEIGHT;
    const [least, most] = reach(["base", "head"], [Math.min(figures.base_low_bytes, figures.head_low_bytes, 0), Math.max(figures.base_peak_bytes, figures.head_peak_bytes, 1)]);
    /** @param {number} bytes */
    const y = (bytes) => bottom - ((bytes - least) / (most - least)) * (bottom - top);
    for (const tick of bytesTicks(least, most, 5)) stroke(context, color("line"), [0, y(tick.at)], [width, y(tick.at)]);
    if (diff.windows.length > 1) drawBands(context, /** @type {any} */ ({ axis }), bands, 0, width, bottom);
    drawArea(context, axis, curves, width, y, bottom);
    drawLine(context, axis, curves, "base", width, y);
    drawLine(context, axis, curves, "head", width, y);
    for (const tick of bytesTicks(least, most, 5)) if (tick.at > least) write(context, tick.text, 4, y(tick.at), { ink: color("quiet") });
    if (chosen) drawLives(context, axis, chosen, width, bottom);
    drawLines(context, axis, curves, width, bottom);
    pointer(upperZoom.dragged, context, width, bottom);
  });
  const lower = drawing("The difference: head less base", DIFFERENCE_HEIGHT, (context, width, height) => {
    const [low, high] = reach(["apart"], [figures.low_bytes, figures.high_bytes]), edge = 10;
    const lowest = Math.min(low, 0), highest = Math.max(high, 0, lowest + 1);
    /** @param {number} bytes */
    const y = (bytes) => height - edge - ((bytes - lowest) / (highest - lowest)) * (height - 2 * edge);
    for (const tick of bytesTicks(lowest, highest, 5)) stroke(context, color("line"), [0, y(tick.at)], [width, y(tick.at)]);
    drawDifference(context, axis, curves, width, y);
    stroke(context, color("quiet"), [0, y(0)], [width, y(0)]);
    for (const tick of bytesTicks(lowest, highest, 5)) write(context, `${tick.at > 0 ? "+" : ""}${tick.text}`, 4, y(tick.at), { ink: color("quiet") });
    pointer(lowerZoom.dragged, context, width, height);
  });

  const told = element("p", { class: "told", role: "status", "aria-live": "polite", id: "diff-at" });
  /** @param {Place | null} place */
  const point = (place) => {
    at = place;
    Object.assign(told.dataset, place
      ? { slot: place.slot, baseBytes: place.base, headBytes: place.head, differenceBytes: place.head - place.base, baseLine: place.baseLine, headLine: place.headLine }
      : { slot: "", baseBytes: "", headBytes: "", differenceBytes: "", baseLine: "", headLine: "" });
    told.textContent = place ? sentenceOf(place, diff.line) : "";
    redraw();
  };
  const redraw = () => {
    upper.redraw();
    lower.redraw();
  };
  /** @param {HTMLCanvasElement} canvas */
  const handled = (canvas) => {
    canvas.setAttribute("aria-describedby", "diff-at diff-keys");
    canvas.addEventListener("keydown", (event) => {
      const way = { ",": -1, ".": 1 }[event.key];
      if (!way || event.ctrlKey || event.metaKey) return;
      const step = Math.max((axis.to - axis.from) / 200, 1);
      const slot = Math.min(Math.max(Math.floor((at?.slot ?? (axis.from + axis.to) / 2) + way * step), 0), diff.slots - 1);
      if (slot < axis.from || slot >= axis.to) axis.pan(way / 4);
      point(curves.farthest(slot, slot + 1));
    });
    return zoomable(canvas, axis, {
      redraw,
      hover: (x) => {
        const width = canvas.clientWidth, wide = width / (axis.to - axis.from) > 2 * REACH;
        point(x === null ? null : curves.farthest(axis.toEvent(wide ? x : x - REACH, width), axis.toEvent(wide ? x : x + REACH + 1, width)));
      },
    });
  };
  const upperZoom = handled(upper.canvas), lowerZoom = handled(lower.canvas);

  const place = section("diff", "Base and head side by side",
    element("p", { class: "legend" },
      element("span", {}, element("i", { class: "base" }), `base: ${diff.base}`),
      element("span", {}, element("i", { class: "head" }), `head: ${diff.head}`)),
    element("div", { class: "controls" }, zoomButtons(axis), checkbox("Fit the height", (on) => {
      fitted = on;
      redraw();
    })),
    upper.canvas,
    element("p", { class: "caption" }, "Head less base"),
    lower.canvas, told,
    element("p", { class: "hint", id: "diff-keys" },
      "Allocations that both runs make stand at one place; what only one makes has room of its own. Drag to zoom, Ctrl and wheel too; double click or Esc shows all. Keys: \u2190 \u2192 move, + \u2212 zoom, Home all, , . step."),
    findingsPart(diff, (row, zooms) => {
      chosen = row;
      if (row && zooms) axis.show(row.shown[0], row.shown[1]);
      redraw();
    }),
    pairsTable(diff, axis));
  const shown = () => Object.assign(place.dataset, { from: Math.floor(axis.from), to: Math.ceil(axis.to) });
  Object.assign(place.dataset, { slots: diff.slots, basePeakBytes: figures.base_peak_bytes, headPeakBytes: figures.head_peak_bytes });
  axis.onChange(() => {
    shown();
    redraw();
  });
  shown();
  return place;
}

/**
 * What the pointer is at, in words.
 * @param {Place} place
 * @param {string} line what a line of the input is called
 * @returns {string}
 */
function sentenceOf(place, line) {
  /** @param {number} number */
  const where = (number) => number ? ` at ${line} ${formatCount(number)}` : " before its first event";
  const apart = place.head - place.base;
  return `base ${formatExact(place.base)}${where(place.baseLine)} \u00b7 head ${formatExact(place.head)}${where(place.headLine)} \u00b7 ${apart > 0 ? "+" : ""}${formatExact(apart)}`;
}

/**
 * For each pixel what a curve has there.
 * @param {Axis} axis
 * @param {Curves} curves
 * @param {"base" | "head" | "apart"} of
 * @param {number} width
 * @param {(x: number, low: number, high: number) => void} draw
 */
function eachPixel(axis, curves, of, width, draw) {
  for (let x = 0; x < width; x += 1) {
    const [stretch, first, last] = curves.buckets(axis.toEvent(x, width), axis.toEvent(x + 1, width));
    if (first < last) draw(x, ...stretch[of].extremes(first, last));
  }
}

/** @param {CanvasRenderingContext2D} context @param {Axis} axis @param {Curves} curves @param {number} width @param {(bytes: number) => number} y @param {number} bottom */
function drawArea(context, axis, curves, width, y, bottom) {
  const zero = Math.min(y(0), bottom);
  context.fillStyle = color("base-light");
  eachPixel(axis, curves, "base", width, (x, _, high) => context.fillRect(x, Math.min(y(high), zero), 1, Math.abs(zero - y(high))));
}

/** @param {CanvasRenderingContext2D} context @param {Axis} axis @param {Curves} curves @param {"base" | "head"} side @param {number} width @param {(bytes: number) => number} y */
function drawLine(context, axis, curves, side, width, y) {
  const path = new Path2D();
  let before = NaN;
  eachPixel(axis, curves, side, width, (x, low, high) => {
    // From what is nearer to the level before, so that a step is a step.
    const ends = Math.abs(before - low) <= Math.abs(before - high) ? [low, high] : [high, low];
    for (const bytes of ends) path.lineTo(x + 0.5, y(bytes));
    before = ends[1];
  });
  context.setLineDash([]);
  context.lineJoin = "round";
  context.lineWidth = side === "head" ? 1.6 : 1.2;
  context.strokeStyle = color(side);
  context.stroke(path);
}

/** @param {CanvasRenderingContext2D} context @param {Axis} axis @param {Curves} curves @param {number} width @param {(bytes: number) => number} y */
function drawDifference(context, axis, curves, width, y) {
  const more = color("head"), less = color("base"), zero = y(0);
  eachPixel(axis, curves, "apart", width, (x, low, high) => {
    context.fillStyle = more;
    if (high > 0) context.fillRect(x, y(high), 1, Math.max(zero - y(high), 1));
    context.fillStyle = less;
    if (low < 0) context.fillRect(x, zero, 1, Math.max(y(low) - zero, 1));
  });
}

/**
 * Where the windows are.
 * @param {any[]} windows
 * @returns {{ kind: string, lo: Float64Array, hi: Float64Array, names: string[] }} by where they begin
 */
function bandsOf(windows) {
  const spans = windows.flatMap((row) => row.spans.map((/** @type {[number, number]} */ [lo, hi]) => ({ lo, hi, name: row.in === "both" ? row.name : `${row.name} (only in ${row.in})` })));
  spans.sort((one, other) => one.lo - other.lo);
  return { kind: "windows", lo: Float64Array.from(spans, (span) => span.lo), hi: Float64Array.from(spans, (span) => span.hi), names: spans.map((span) => span.name) };
}

/**
 * When the blocks of a finding live in each run: bars from ALLOC to FREE, and lines down to the curves from those of the first one.
 * @param {CanvasRenderingContext2D} context
 * @param {Axis} axis
 * @param {any} row
 * @param {number} width
 * @param {number} bottom
 */
function drawLives(context, axis, row, width, bottom) {
  SIDES.forEach((side, lane) => {
    const top = NAMES + lane * LANE;
    row[`${side}_places`].forEach((/** @type {(number | null)[] | null} */ places, /** @type {number} */ k) => {
      if (places === null) return;
      const [alloc, free] = places;
      const begin = axis.toPixel(Math.max(alloc ?? 0, 0), width), end = free === null ? width : axis.toPixel(Math.max(free, 0) + 1, width);
      context.fillStyle = color(side);
      if (end > 0 && begin < width) context.fillRect(Math.max(begin, 0), top, Math.max(Math.min(end, width) - Math.max(begin, 0), 2), LANE - 3);
      if (k) return;
      for (const [slot, name] of /** @type {[number | null, string][]} */ ([[alloc, "ALLOC"], [free, "FREE"]])) {
        if (slot === null || slot < 0) continue;
        const x = axis.toPixel(slot + 0.5, width);
        if (x < 0 || x > width) continue;
        stroke(context, color(side), [x, top], [x, bottom], [5, 3]);
        const left = x + 80 > width;
        write(context, `${side} ${name}`, left ? x - 4 : x + 4, bottom - 8 - 13 * (lane + (name === "FREE" ? 2 : 0)), { align: left ? "right" : "left", ink: color(side) });
      }
    });
    write(context, side, 4, top + LANE / 2 - 1, { ink: color(side) });
  });
}

/**
 * Below the curves the lines of both logs.
 * @param {CanvasRenderingContext2D} context
 * @param {Axis} axis
 * @param {Curves} curves
 * @param {number} width
 * @param {number} top
 */
function drawLines(context, axis, curves, width, top) {
  stroke(context, color("line"), [0, top], [width, top]);
  const many = Math.max(Math.floor(width / 130), 2);
  for (let k = 0; k < many; k += 1) {
    const x = ((k + 0.5) / many) * width, slot = Math.floor(axis.toEvent(x, width));
    const place = curves.farthest(slot, slot + 1);
    if (!place) continue;
    const at = axis.toPixel(place.slot + 0.5, width);
    stroke(context, color("quiet"), [at, top], [at, top + 4]);
    SIDES.forEach((side, row) => {
      const line = side === "base" ? place.baseLine : place.headLine;
      if (line) write(context, `${side} ${formatCount(line)}`, at, top + 10 + row * 13, { align: "center", ink: color(side) });
    });
  }
}

/**
 * The findings: a row each, and beside them where the chosen one is, in words and lines of the log.
 * @param {any} diff
 * @param {(row: any, zooms: boolean) => void} choose
 * @returns {HTMLElement}
 */
function findingsPart(diff, choose) {
  /** @type {any[]} */
  const findings = diff.findings;
  if (!findings.length) return element("p", {}, "Nothing is found that the runs do differently.");
  let chosen = -1;
  const detail = element("div", { class: "detail", id: "finding", role: "region", "aria-label": "The chosen finding" });
  /** Of a series the figures of all windows. @param {string} key @param {string} [own] */
  const of = (key, own = key) => findings.map((row) => row[key] ?? row.finding[own]);
  const table = grid("findings-table", "findings", [
    { key: "what", title: "What", values: of("what") },
    { key: "size_bytes", title: "Size", values: of("size_bytes"), write: formatBytes },
    { key: "count", title: "Count", values: of("count"), write: formatCount },
    { key: "total_bytes", title: "Total", values: of("total_bytes"), write: formatBytes },
    { key: "d_remaining_bytes", title: "\u0394remaining", values: of("d_remaining_bytes"), write: signedBytes },
    { key: "d_peak_bytes", title: diff.series ? "Largest \u0394peak" : "\u0394peak", values: of("largest_d_peak_bytes", "d_peak_bytes"), write: signedBytes },
    ...(diff.series ? [{ key: "windows", title: "Windows", values: of("windows"), write: formatCount }, { key: "first_window", title: "First in", values: of("first_window") }] : []),
    ...(findings.some((row) => row.owner) ? [{ key: "owner", title: "Owner", values: of("owner") }] : []),
  ], { act: (row) => open(row === chosen ? -1 : row, true), mark: (row) => (row === chosen ? "chosen" : "") });
  /** @param {number} row @param {boolean} zooms */
  function open(row, zooms) {
    chosen = row;
    detail.replaceChildren(...(findings[row]?.blocks ?? []).map(blockOf));
    table.refresh();
    choose(findings[row] ?? null, zooms);
  }
  open(0, false);
  const left = diff.left_out ? [element("p", { class: "hint" }, `\u2026 and ${formatCount(diff.left_out)} smaller ones`)] : [];
  return element("div", {}, element("h3", {}, diff.series ? "Findings over all windows" : "Findings"), element("div", { class: "findings" }, element("div", {}, ...table.parts, ...left), detail));
}

/**
 * A line about a finding, or lines of a log.
 * @param {any} block
 * @returns {HTMLElement}
 */
function blockOf(block) {
  if (!block.lines) {
    const text = [block.name, block.text].filter((part) => part).join(" ");
    return element("p", { class: block.style }, ...(block.label ? [element("b", {}, block.label), " "] : []), text);
  }
  return element("div", {}, element("p", {}, block.title), element("pre", { tabindex: 0 }, ...block.lines.map((/** @type {any} */ line) =>
    element("span", line.marked ? { class: "marked" } : {}, `${line.marked ? "> " : "  "}${line.line}  ${line.text}\n`))));
}

/**
 * The pairs of windows; a click shows one.
 * @param {any} diff
 * @param {Axis} axis
 * @returns {HTMLElement | string}
 */
function pairsTable({ windows }, axis) {
  if (windows.length < 2) return "";
  /** @param {string} key what windows without a partner have none of */
  const of = (key) => windows.map((/** @type {any} */ row) => row[key] ?? 0);
  /** @param {any} row */
  const note = (row) => (row.in !== "both" ? `only in ${row.in}` : row.alike ? "alike" : row.judged ? "" : "not judged");
  const figures = [["d_remaining_bytes", "\u0394remaining"], ["d_rise_bytes", "\u0394rise"], ["d_peak_bytes", "\u0394peak"], ["d_live_bytes", "\u0394live at the end"]];
  const table = grid("pairs-table", "windows", [
    { key: "name", title: "Window", values: of("name") },
    ...figures.map(([key, title]) => ({ key, title, values: of(key), write: (/** @type {number} */ bytes, /** @type {number} */ k) => (windows[k].in === "both" ? signedBytes(bytes) : "") })),
    { key: "note", title: "", values: windows.map(note) },
  ], { act: (k) => axis.show(windows[k].spans[0][0], windows[k].spans[0][1]) });
  return element("div", {}, element("h3", {}, "Windows"), ...table.parts);
}
