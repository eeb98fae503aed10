/** Pictures of curves over an axis, one below the other, and what the pointer or the keyboard is at in them. */

import { firstAtLeast } from "./axis.js";
import { color, drawing, stroke, widthOf, write } from "./canvas.js";
import { checkbox, element, explained, onKeys, section } from "./dom.js";
import { formatCount } from "./format.js";
import { Bitmap } from "./paint.js";
import { bytesTicks } from "./ticks.js";
import { zoomable, zoomButtons } from "./zoom.js";

/** The height of a row of bands, and how near to the pointer is what it is at, in CSS pixels; the scale of bytes beside a picture is as wide as the style sheet says. */
export const ROW = 17;
const NEAR = 2;

/**
 * A picture while it is drawn: curves from `top` to `bottom`.
 * @typedef {{ context: CanvasRenderingContext2D, axis: import("./axis.js").Axis, width: number, low: number, top: number, bottom: number, x: (event: number) => number, y: (bytes: number) => number }} Frame
 */

/**
 * Neighbouring stretches with names, each behind the one before: windows or steps, or phases.
 * @typedef {{ kind: string, lo: Float64Array, hi: Float64Array, names: string[] }} Row
 */

/**
 * One of the pictures: its heights, the lowest and highest of its scale, the curves that this can be fitted to, and what is drawn below and above the lines
 * of the scale; its name, a colour as well, and those of its axis, with their colours, stand beside it. In a signed one 0 always stays in sight.
 * @typedef {{ label: string, height: number, top: number, foot: number, whole: [number, number], fits: string[], signed?: boolean, rows: Row[], curves: (bitmap: Bitmap, frame: Frame & { high: number }) => void, over: (frame: Frame) => void, dots: (at: any) => number[], name?: string, axisNames?: () => [string, string][] }} Track
 */

/**
 * Pictures that share an axis, a line about what the pointer or the keyboard is at (`find` finds it in a stretch, and knows where in the picture the pointer is,
 * `eventOf` says where it stands, `tell` what it is), keys and switches; what else is told of a drag goes to `zooms`.
 * @param {string} id
 * @param {string} title
 * @param {string} hint
 * @param {import("./axis.js").Axis} axis
 * @param {import("./levels.js").Buckets} buckets
 * @param {Track[]} tracks
 * @param {{ find: (from: number, to: number, place?: [number, number]) => any, eventOf: (at: any) => number, tell: (at: any) => [string, Record<string, number | string>], act?: (at: any) => void, point?: (at: any) => void, keys?: Record<string, (at: any) => void>, zooms?: Record<string, any> }} how
 */
export function tracksOf(id, title, hint, axis, buckets, tracks, { find, eventOf, tell, act = () => {}, point: pointed = () => {}, keys = {}, zooms = {} }) {
  /** @type {any} */
  let at = null;
  let fitted = false, moved = false;
  /** Finds what the pointer is at, which is something else when another part is shown. @type {(() => any) | null} */
  let under = null;
  const pictures = tracks.map((track) => {
    /** @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
    const framed = (context, width, height) => {
      const ends = fitted ? track.fits.flatMap((curve) => buckets.extremes(curve, axis.from, axis.to)) : track.whole;
      return frameOf(context, axis, width, height, fitted && !track.signed ? ends : [0, ...ends], track);
    };
    const scale = drawing("", track.height, (context, width, height) => {
      const frame = framed(context, width, height);
      for (const tick of scaleOf(frame)) write(context, `${track.signed && tick.at > 0 ? "+" : ""}${tick.text}`, width - 6, Math.min(frame.y(tick.at), frame.bottom - 4), { align: "right", ink: color("quiet") });
      if (track.name) write(context, track.name, width - 6, track.top - ROW / 2 - 2, { align: "right", ink: color(track.name) });
      track.axisNames?.().forEach(([text, ink], row) => write(context, text, width - 6, frame.bottom + 11 + row * 13, { align: "right", ink: color(ink) }));
    });
    const bitmap = new Bitmap(), picture = drawing(track.label, track.height, (context, width, height) => {
      const frame = framed(context, width, height), ticks = scaleOf(frame);
      bitmap.show(context, width, frame.bottom, () => track.curves(bitmap, frame));
      if (moved) follow();
      for (const tick of ticks) stroke(context, color("grid"), [0, frame.y(tick.at)], [width, frame.y(tick.at)]);
      track.rows.forEach((row, k) => drawBands(frame, row, k * ROW, k === 0));
      track.over(frame);
      const over = zoom.dragged();
      if (over) {
        context.fillStyle = color("brush");
        context.fillRect(over[0], 0, over[1] - over[0], frame.bottom);
      }
      if (!at) return;
      const x = frame.x(eventOf(at));
      stroke(context, color("quiet"), [x, track.top], [x, frame.bottom], [2, 2]);
      context.fillStyle = color("text");
      for (const bytes of track.dots(at)) {
        context.beginPath();
        context.arc(x, frame.y(bytes), 3, 0, 7);
        context.fill();
      }
    });
    const { canvas } = picture;
    const zoom = zoomable(canvas, axis, {
      redraw, ...zooms,
      around: () => (at ? Math.min(Math.max(axis.toPixel(eventOf(at) + 0.5, canvas.clientWidth) / canvas.clientWidth, 0), 1) : 0.5),
      hover: (x, y) => {
        const found = x === null ? null : () => find(axis.toEvent(x - NEAR, canvas.clientWidth), axis.toEvent(x + NEAR + 1, canvas.clientWidth), [x, y]);
        point(found && found());
        under = found;
      },
      click: (x, y) => { // a band is shown alone
        const row = track.rows[Math.floor(y / ROW)], band = row ? bandAt(row, axis.toEvent(x, canvas.clientWidth)) : -1;
        if (band >= 0) axis.show(row.lo[band], row.hi[band]);
        else if (at) act(at);
      },
    });
    const own = Object.entries(keys).map(([key, press]) => [key, () => press(at)]);
    onKeys(canvas, { ...Object.fromEntries(own), ",": () => move(-1), ".": () => move(1), Enter: () => at && act(at) });
    return { ...picture, scale, track: element("div", { class: "track" }, canvas, scale.canvas) };
  });
  const canvases = pictures.map(({ canvas }) => canvas), told = explained(canvases[0], id, hint), place = section(id, title);
  for (const canvas of canvases) canvas.setAttribute("aria-describedby", `${id}-at ${id}-keys`);
  const controls = element("div", { class: "controls" }, zoomButtons(axis), checkbox("Fit the height", (on) => {
    fitted = on;
    rescale();
  }));

  function redraw() {
    for (const picture of pictures) picture.redraw();
  }
  function rescale() {
    for (const picture of pictures) picture.scale.redraw();
    redraw();
  }
  /** What is at the pointer now; what the keyboard was at, as long as that is shown. */
  function follow() {
    const found = under, event = at ? eventOf(at) : NaN;
    moved = false;
    if (found) point(found());
    else if (event < axis.from - 1 || event > axis.to) point(null);
    under = found;
  }
  /** @param {any} found */
  function point(found) {
    at = found;
    under = null;
    pointed(at);
    const [text, data] = at ? tell(at) : ["", {}];
    if (text !== told.line.textContent) told.tell(text, data);
    redraw();
  }
  /** @param {number} way 1 to what comes next, by a few pixels or at least one bucket, -1 back */
  function move(way) {
    const few = Math.max(((axis.to - axis.from) / canvases[0].clientWidth) * 2 * NEAR, 1), event = at ? eventOf(at) : (axis.from + axis.to) / 2;
    const next = Math.min(Math.max(Math.floor(event) + way * Math.ceil(Math.max(few, at?.size ?? 1)), axis.lo), axis.hi - 1);
    if (next < axis.from || next >= axis.to) axis.pan(way / 4);
    point(way > 0 ? find(next, next + few) : find(next - few + 1, next + 1));
  }
  const shown = () => {
    const over = axis.overTime ? "time" : "events", same = place.dataset.over === over && !fitted;
    Object.assign(place.dataset, { from: Math.floor(axis.from), to: Math.ceil(axis.to), over });
    moved = true;
    if (same) redraw();
    else rescale();
  };
  axis.onChange(shown);
  shown();
  return { place, controls, canvases, tracks: pictures.map(({ track }) => track), point, redraw, line: told.line, hint: told.hint };
}

/** @param {{ low: number, high: number }} frame */
const scaleOf = ({ low, high }) => bytesTicks(low, high, 6);

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./axis.js").Axis} axis
 * @param {number} width
 * @param {number} height
 * @param {number[]} levels that are to be in the picture
 * @param {{ top: number, foot: number }} edges what is above and below the curves
 * @returns {Frame & { high: number }}
 */
export function frameOf(context, axis, width, height, levels, { top, foot }) {
  const bottom = height - foot, low = Math.min(...levels), most = Math.max(...levels), high = most > low ? low + (most - low) * 1.04 : low + 1;
  return { context, axis, width, low, high, top, bottom, x: (event) => axis.toPixel(event, width), y: (bytes) => bottom - ((bytes - low) / (high - low)) * (bottom - top) };
}

/**
 * The lowest and the highest of curves at each pixel.
 * @param {Frame} frame
 * @param {import("./levels.js").Buckets} buckets
 * @param {...string} curves
 * @returns {import("./paint.js").Pixels[]}
 */
export function pixelsOf({ axis, width }, buckets, ...curves) {
  const found = curves.map(() => ({ low: new Float64Array(width), high: new Float64Array(width) }));
  buckets.pixels(axis, width).forEach((pixel, x) => curves.forEach((curve, k) => ([found[k].low[x], found[k].high[x]] = buckets.extremesOf(pixel, curve))));
  return found;
}

/**
 * The band that holds an event, -1 for none.
 * @param {Row} row
 * @param {number} event
 * @returns {number}
 */
export function bandAt(row, event) {
  const band = firstAtLeast(row.lo, Math.floor(event) + 1) - 1;
  return band >= 0 && event < row.hi[band] ? band : -1;
}

/**
 * @param {Frame} frame
 * @param {Row} row
 * @param {number} top
 * @param {boolean} down whether lines between bands reach down to the axis
 */
function drawBands({ context, axis, width, bottom, x }, row, top, down) {
  const first = Math.max(firstAtLeast(row.lo, axis.from + 1e-9) - 1, 0), last = firstAtLeast(row.lo, axis.to), many = last - first > width / 3;
  /** @param {number} begin @param {number} end @param {string} ink @param {string} text */
  const band = (begin, end, ink, text) => {
    context.fillStyle = color(ink);
    context.fillRect(begin, top, Math.max(end - begin - 1, 1), ROW - 2);
    context.fillStyle = color("text");
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(fitting(context, text, end - begin - 6), (begin + end) / 2, top + ROW / 2);
  };
  if (many) band(0, width, "band", `${formatCount(last - first)} ${row.kind}: zoom in`);
  for (let k = first; k < last && !many; k += 1) {
    const begin = Math.max(x(row.lo[k]), 0), end = Math.min(x(row.hi[k]), width);
    if (row.hi[k] <= axis.from) continue;
    band(begin, end, k % 2 ? "band" : "band-other", row.names[k]);
    if (down && last - first < width / 12 && begin > 0) {
      context.fillStyle = color("grid");
      context.fillRect(Math.round(begin), top + ROW, 1, bottom - top - ROW);
    }
  }
}

/**
 * As much of a name as there is room for, without what decorates it (`## forward ##`): where there is little the number at its end.
 * @param {CanvasRenderingContext2D} context
 * @param {string} name
 * @param {number} room in pixels
 * @returns {string}
 */
export function fitting(context, name, room) {
  /** @param {string} text */
  const fits = (text) => widthOf(context, text) <= room;
  if (room < 6 || name.length < 200 && fits(name)) return room < 6 ? "" : name;
  name = name.replace(/^[^\p{L}\p{N}]+(?=[\p{L}\p{N}])/u, "");
  const number = /\d+$/.exec(name)?.[0];
  if (number && room < 40 && fits(number)) return number;
  if (name.length < 200 && fits(name)) return name;
  let end = Math.min(name.length, Math.floor(room / 2), 200); // no letter is narrower than two pixels, as a rule
  while (end > 1 && !fits(`${name.slice(0, end)}\u2026`)) end -= 1;
  return end > 1 ? `${name.slice(0, end)}\u2026` : "";
}
