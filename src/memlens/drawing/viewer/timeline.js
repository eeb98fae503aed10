/** Allocated and reserved bytes over the run: the whole run in a strip, and a part of it above that. */

import { Axis, firstAtLeast } from "./axis.js";
import { color, drawing, stroke, write } from "./canvas.js";
import { checkbox, element, section } from "./dom.js";
import { formatBytes, formatCount, formatDuration, formatExact } from "./format.js";
import { bytesTicks, eventTicks, timeTicks } from "./ticks.js";
import { zoomable, zoomButtons } from "./zoom.js";

/** Heights in CSS pixels: the picture, the strip of the whole run, a row of bands, the scale of the axis. */
const HEIGHT = 300, STRIP = 40, ROW = 17, SCALE = 18;
/** The pointer is on whatever is so near to it, in CSS pixels. */
const NEAR = 2;
/** The key p shows so many events around the peak. */
const AROUND = 256;

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function timeline(app) {
  const { axis, levels } = app, { marks } = app.view, rows = rowsOf(app.view.bands);
  const head = rows.length * ROW, top = head + 16 + (marks.some((mark) => mark.kind === "oom") ? ROW : 0);
  /** What the pointer or the keyboard is at. @type {import("./levels.js").Highest | null} */
  let at = null;
  let fitted = false;

  const { canvas, redraw } = drawing(`Allocated and reserved bytes over the run; the peak is ${formatExact(levels.peak)}`, HEIGHT, (context, width, height) => {
    const bottom = height - SCALE;
    const [low, high] = heights(levels, axis, fitted);
    /** @param {number} bytes */
    const y = (bytes) => bottom - ((bytes - low) / (high - low)) * (bottom - top);
    const ticks = bytesTicks(low, high, 6);
    envelope(context, axis, levels, width, y, bottom);
    for (const tick of ticks) stroke(context, color("grid"), [0, y(tick.at)], [width, y(tick.at)]);
    rows.forEach((row, k) => drawBands(context, app, row, k * ROW, width, k === 0 ? bottom : 0));
    for (const tick of ticks) if (tick.at > low) write(context, tick.text, 4, y(tick.at), { ink: color("quiet") });
    drawScale(context, axis, width, bottom);
    drawMarks(context, app, width, y, head, bottom);
    if (app.selected?.kind === "moment") {
      const x = axis.toPixel(app.selected.value, width);
      stroke(context, color("text"), [x, top], [x, bottom]);
    }
    const over = zoom.dragged();
    if (over) {
      context.fillStyle = color("brush");
      context.fillRect(over[0], 0, over[1] - over[0], bottom);
    }
    if (at) {
      const x = axis.toPixel(Math.max(at.event, axis.lo), width);
      stroke(context, color("quiet"), [x, top], [x, bottom], [2, 2]);
      context.fillStyle = color("text");
      context.beginPath();
      context.arc(x, y(at.bytes), 3, 0, 7);
      context.fill();
    }
  });

  const told = element("p", { class: "told", role: "status", "aria-live": "polite", id: "timeline-at" });
  const hint = element("p", { class: "hint", id: "timeline-keys" },
    "Drag, or Ctrl and wheel, to zoom; double click for the whole run; click for what is alive there, or on a step to show it. Keys: \u2190 \u2192 move \u00b7 + \u2212 zoom \u00b7 Home whole run \u00b7 P peak \u00b7 comma and dot step \u00b7 Enter select");
  canvas.setAttribute("aria-describedby", "timeline-at timeline-keys");

  /** @param {import("./levels.js").Highest | null} found */
  const point = (found) => {
    if (found?.event === at?.event && found?.bytes === at?.bytes) return;
    at = found;
    Object.assign(told.dataset, at ? { bytes: at.bytes, event: at.event, line: at.line, reserved: at.reserved } : { bytes: "", event: "", line: "", reserved: "" });
    told.textContent = at ? sentence(app, at, rows) : "";
    redraw();
  };
  /** @param {number | null} x */
  const hover = (x) => {
    const width = canvas.clientWidth;
    point(x === null ? null : levels.highest(axis.toEvent(x - NEAR, width), axis.toEvent(x + NEAR + 1, width)));
  };
  const select = () => at && app.select("moment", Math.max(at.event, axis.lo));
  /** @param {number} x @param {number} y a band is shown alone, and what is below becomes the moment */
  const click = (x, y) => {
    const row = rows[Math.floor(y / ROW)], band = row ? bandAt(row, axis.toEvent(x, canvas.clientWidth)) : -1;
    if (band >= 0) axis.show(row.lo[band], row.hi[band]);
    else select();
  };
  const zoom = zoomable(canvas, axis, { redraw, hover, click });
  canvas.addEventListener("dblclick", () => app.select(null)); // its first click was none
  const toPeak = () => {
    const [peak] = marks;
    if (!peak) return;
    if (axis.to - axis.from > AROUND || peak.event < axis.from || peak.event >= axis.to) axis.show(peak.event - AROUND / 2, peak.event + AROUND / 2);
    point(levels.highest(peak.event, peak.event + 1));
  };
  /** @param {number} way 1 to what comes next, by a few pixels or at least one bucket, -1 back */
  const move = (way) => {
    const event = at?.event ?? Math.floor((axis.from + axis.to) / 2);
    const few = Math.max(((axis.to - axis.from) / canvas.clientWidth) * 2 * NEAR, 1), step = Math.max(few, at?.size ?? 1);
    const next = Math.min(Math.max(Math.round(event + way * step), axis.lo), axis.hi - 1);
    if (next < axis.from || next >= axis.to) axis.pan(way / 4);
    point(levels.highest(way > 0 ? next : next - few + 1, way > 0 ? next + few : next + 1));
  };
  canvas.addEventListener("keydown", (event) => {
    /** @type {Record<string, () => unknown>} */
    const keys = { p: toPeak, P: toPeak, Enter: select, ",": () => move(-1), ".": () => move(1) };
    if (!event.ctrlKey && !event.metaKey) keys[event.key]?.();
  });

  const place = section("timeline", "Timeline");
  const shown = () => {
    const figures = { peakBytes: levels.peak, reservedPeakBytes: levels.reservedPeak, from: Math.floor(axis.from), to: Math.ceil(axis.to), over: axis.overTime ? "time" : "events" };
    for (const one of [place, canvas]) Object.assign(one.dataset, figures);
  };
  axis.onChange(() => {
    shown();
    redraw();
  });
  app.onSelect(redraw);
  shown();

  const controls = element("div", { class: "controls" }, zoomButtons(axis),
    element("button", { type: "button", click: () => { toPeak(); canvas.focus(); } }, "Peak"),
    checkbox("Fit the height", (on) => {
      fitted = on;
      redraw();
    }));
  if (axis.times !== null) controls.append(checkbox("Over time", (on) => axis.drawOverTime(on)));
  place.append(controls, legend(app), canvas, told, strip(app), hint);
  return place;
}

/**
 * What the vertical scale reaches from and to.
 * @param {import("./levels.js").Levels} levels
 * @param {import("./axis.js").Axis} axis
 * @param {boolean} fitted to what is shown
 * @returns {[number, number]}
 */
function heights(levels, axis, fitted) {
  const [low, high, chunks] = fitted ? levels.extremes(axis.from, axis.to) : [levels.lowest, levels.peak, levels.reservedPeak];
  const bottom = fitted ? low : Math.min(low, 0), top = fitted ? high : Math.max(high, chunks);
  return top > bottom ? [bottom, bottom + (top - bottom) * 1.04] : [bottom, bottom + 1];
}

/**
 * The curves: up to the lowest level of a pixel in full colour, up to its highest lighter, so that no peak is lost.
 * @param {CanvasRenderingContext2D} context
 * @param {Axis} axis
 * @param {import("./levels.js").Levels} levels
 * @param {number} width
 * @param {(bytes: number) => number} y
 * @param {number} bottom
 */
function envelope(context, axis, levels, width, y, bottom) {
  const zero = Math.min(y(0), bottom);
  const light = new Path2D(), full = new Path2D(), chunks = new Path2D();
  for (let x = 0; x < width; x += 1) {
    const [low, high, reserved] = levels.extremes(axis.toEvent(x, width), axis.toEvent(x + 1, width));
    const [upper, lower] = [y(high), y(low)];
    full.rect(x, Math.min(lower, zero), 1, Math.abs(zero - lower));
    light.rect(x, Math.min(upper, zero), 1, Math.max(lower, upper + 1) - Math.min(upper, zero));
    chunks.lineTo(x, y(reserved));
    chunks.lineTo(x + 1, y(reserved));
  }
  context.fillStyle = color("allocated-light");
  context.fill(light);
  context.fillStyle = color("allocated");
  context.fill(full);
  if (levels.reservedPeak > 0) {
    context.save();
    context.beginPath();
    context.rect(0, 0, width, bottom);
    context.clip();
    context.strokeStyle = color("reserved");
    context.lineWidth = 1.5;
    context.stroke(chunks);
    context.restore();
  }
}

/**
 * One row of bands: windows or steps, or phases.
 * @typedef {{ kind: string, lo: Float64Array, hi: Float64Array, names: string[] }} Row
 */

/**
 * @param {any} bands
 * @returns {Row[]}
 */
function rowsOf(bands) {
  return ["windows", "phases"].map((kind, level) => {
    const own = [...bands.level.keys()].filter((k) => bands.level[k] === level).sort((a, b) => bands.lo[a] - bands.lo[b]);
    /** @param {Float64Array} values */
    const column = (values) => Float64Array.from(own, (k) => values[k]);
    return { kind, lo: column(bands.lo), hi: column(bands.hi), names: own.map((k) => bands.names[bands.name[k]]) };
  }).filter((row) => row.lo.length);
}

/**
 * @param {Row} row
 * @param {number} event
 * @returns {number} the band that holds it, -1 for none
 */
function bandAt(row, event) {
  const band = firstAtLeast(row.lo, Math.floor(event) + 1) - 1;
  return band >= 0 && event < row.hi[band] ? band : -1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./app.js").App} app
 * @param {Row} row
 * @param {number} top
 * @param {number} width
 * @param {number} down how far lines between bands reach, 0 for none
 */
export function drawBands(context, { axis }, row, top, width, down) {
  const first = Math.max(firstAtLeast(row.lo, axis.from + 1e-9) - 1, 0), last = firstAtLeast(row.lo, axis.to);
  if (last - first > width / 3) {
    context.fillStyle = color("band");
    context.fillRect(0, top, width, ROW - 2);
    write(context, `${formatCount(last - first)} ${row.kind}: zoom in`, width / 2, top + ROW / 2, { align: "center", ink: color("quiet") });
    return;
  }
  for (let k = first; k < last; k += 1) {
    if (row.hi[k] <= axis.from) continue;
    const begin = Math.max(axis.toPixel(row.lo[k], width), 0), end = Math.min(axis.toPixel(row.hi[k], width), width);
    context.fillStyle = color(k % 2 ? "band" : "band-other");
    context.fillRect(begin, top, Math.max(end - begin - 1, 1), ROW - 2);
    if (down && last - first < width / 12 && begin > 0) stroke(context, color("line"), [begin, top + ROW], [begin, down], [1, 3]);
    const text = fitting(context, row.names[k], end - begin - 6);
    context.fillStyle = color("text");
    context.textAlign = "center";
    context.textBaseline = "middle";
    if (text) context.fillText(text, (begin + end) / 2, top + ROW / 2);
  }
}

/**
 * As much of a name as there is room for; its end where the whole does not fit, for there stands its number.
 * @param {CanvasRenderingContext2D} context
 * @param {string} name
 * @param {number} room in pixels
 * @returns {string}
 */
function fitting(context, name, room) {
  if (room < 6) return "";
  if (name.length < 200 && context.measureText(name).width <= room) return name;
  const number = /\d+$/.exec(name)?.[0] ?? "";
  if (number && context.measureText(number).width <= room && room < 40) return number;
  let text = name.slice(0, 200);
  while (text && context.measureText(`${text}\u2026`).width > room) text = text.slice(0, -1);
  return text.length > 1 ? `${text}\u2026` : "";
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./axis.js").Axis} axis
 * @param {number} width
 * @param {number} top
 */
function drawScale(context, axis, width, top) {
  stroke(context, color("line"), [0, top], [width, top]);
  const most = Math.max(width / 110, 2), [begin, shown] = axis.span();
  const ticks = axis.overTime ? timeTicks(begin, begin + shown, most, axis.position(axis.lo)) : eventTicks(axis.from, axis.to, most);
  for (const { at, text } of ticks) {
    const x = shown > 0 ? ((at - begin) / shown) * width : 0, half = context.measureText(text).width / 2;
    stroke(context, color("quiet"), [x, top], [x, top + 4]);
    if (x - half >= -half && x + half <= width + half) write(context, text, Math.min(Math.max(x, half + 1), width - half - 1), top + 11, { align: "center", ink: color("quiet") });
  }
}

/**
 * The peak at its place, and failures from top to bottom; of names that would cover each other the first one is written.
 * @param {CanvasRenderingContext2D} context
 * @param {import("./app.js").App} app
 * @param {number} width
 * @param {(bytes: number) => number} y
 * @param {number} head where the names of failures stand
 * @param {number} bottom
 */
function drawMarks(context, { axis, levels, view }, width, y, head, bottom) {
  let taken = -Infinity;
  for (const { kind, event, bytes, label } of view.marks) {
    if (event < axis.from - 1 || event > axis.to) continue;
    const x = axis.toPixel(event, width), failed = kind === "oom", ink = color(failed ? "bad" : "text");
    const text = failed ? label : `${label} ${formatBytes(bytes)}`, room = context.measureText(text).width;
    const left = x + room + 12 > width, begin = left ? x - 8 - room : x + 8;
    if (failed) stroke(context, ink, [x, head], [x, bottom], [4, 3]);
    context.fillStyle = ink;
    context.beginPath();
    for (const [dx, dy] of [[0, 0], [-4, -7], [4, -7]]) context.lineTo(x + dx, y(bytes) + dy);
    context.fill();
    if (failed && begin < taken) continue;
    if (failed) taken = begin + room + 8;
    const above = y(bytes) - 8, reserved = y(levels.highest(event, event + 1)?.reserved ?? 0);
    write(context, text, begin, failed ? head + ROW / 2 : Math.abs(reserved - above) < 10 ? reserved - 9 : above, { ink });
  }
}

/**
 * What there is at a moment, in words.
 * @param {import("./app.js").App} app
 * @param {import("./levels.js").Highest} at
 * @param {Row[]} rows
 * @returns {string}
 */
function sentence(app, at, rows) {
  const { axis, levels } = app;
  const parts = [`${formatExact(at.bytes)} allocated`];
  if (levels.reservedPeak > 0) parts.push(`${at.size === 1 ? "" : "up to "}${formatExact(at.reserved)} reserved`);
  parts.push(at.event < axis.lo ? "before the first event" : `event ${formatCount(at.event)}`);
  if (at.line) parts.push(app.lineText(at.line));
  if (axis.times !== null && at.event >= axis.lo) parts.push(`${formatDuration(app.timeOf(at.event))} after the start`);
  for (const row of rows) parts.push(row.names[bandAt(row, at.event)] ?? "");
  const owner = app.ownerText(at.owner);
  return [...parts, owner].filter(Boolean).join(" \u00b7 ");
}

/**
 * What the colours mean.
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
function legend({ levels }) {
  /** @type {[string, string][]} */
  const entries = [["allocated", "allocated"], ["allocated-light", "up to the highest where a pixel has several levels"]];
  if (levels.reservedPeak > 0) entries.push(["reserved", "reserved"]);
  return element("p", { class: "legend" }, ...entries.map(([name, text]) => element("span", {}, element("i", { class: name }), text)));
}

/**
 * The whole run, and which part of it is shown above: that part can be moved, and another one be drawn.
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
function strip({ axis, levels }) {
  const run = new Axis(axis.lo, axis.hi, axis.edges, axis.times);
  /** Where the part begins and ends in pixels. @returns {[number, number]} */
  const part = () => [run.toPixel(axis.from, canvas.clientWidth), run.toPixel(axis.to, canvas.clientWidth)];
  const { canvas, redraw } = drawing("The whole run, and the part of it that is shown", STRIP, (context, width, height) => {
    run.overTime = axis.overTime;
    const [low, high] = heights(levels, run, false);
    envelope(context, run, levels, width, (bytes) => height - ((bytes - low) / (high - low)) * height, height);
    const [from, to] = zoom.dragged() ?? part();
    context.fillStyle = color("veil");
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, width - to, height);
    context.strokeStyle = color("text");
    context.setLineDash([]);
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
  });
  const zoom = zoomable(canvas, axis, { redraw, scale: run, part });
  axis.onChange(redraw);
  return canvas;
}
