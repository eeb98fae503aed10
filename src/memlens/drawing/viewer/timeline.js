/** Allocated and reserved bytes over the run: the whole run in a strip, and a part of it above that. */

import { Axis, interpolated } from "./axis.js";
import { color, drawing, stroke, write } from "./canvas.js";
import { button, checkbox, legendOf } from "./dom.js";
import { formatBytes, formatCount, formatDuration, formatExact } from "./format.js";
import { eventTicks, timeTicks } from "./ticks.js";
import { area, bandAt, frameOf, line, pixelsOf, ROW, tracksOf } from "./track.js";
import { zoomable } from "./zoom.js";

/** Heights in CSS pixels: the picture, the strip of the whole run, the scale of the axis. */
const HEIGHT = 300, STRIP = 40, SCALE = 18;
/** The key p shows so many events around the peak. */
const AROUND = 256;

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function timeline(app) {
  const { axis, levels } = app, { marks, bands: rows } = app.view, head = rows.length * ROW;
  const toPeak = () => {
    const [peak] = marks;
    if (!peak) return;
    if (axis.to - axis.from > AROUND || peak.event < axis.from || peak.event >= axis.to) axis.show(peak.event - AROUND / 2, peak.event + AROUND / 2);
    picture.point(levels.highest(peak.event, peak.event + 1));
  };
  const picture = tracksOf("timeline", "Timeline",
    "Drag, or Ctrl and wheel, to zoom; double click for the whole run; click for what is alive there, or on a step to show it. Keys: \u2190 \u2192 move \u00b7 + \u2212 zoom \u00b7 Home whole run \u00b7 P peak \u00b7 comma and dot step \u00b7 Enter select",
    axis, levels, [{
      label: `Allocated and reserved bytes over the run; the peak is ${formatExact(levels.peak)}`,
      height: HEIGHT, top: head + 16 + (marks.some((mark) => mark.kind === "oom") ? ROW : 0), foot: SCALE, rows,
      whole: wholeOf(levels), fits: ["allocated"],
      curves: (frame) => drawLevels(frame, levels),
      over: (frame) => {
        drawScale(frame);
        drawMarks(frame, app, head);
        if (app.selected?.kind !== "moment") return;
        const x = frame.x(app.selected.value);
        stroke(frame.context, color("text"), [x, frame.top], [x, frame.bottom]);
      },
      dots: (at) => [at.bytes],
    }], {
      find: (from, to) => levels.highest(from, to),
      eventOf: (at) => Math.max(at.event, axis.lo),
      tell: (at) => [sentence(app, at), { bytes: at.bytes, event: at.event, line: at.line, reserved: at.reserved }],
      act: (at) => app.select("moment", Math.max(at.event, axis.lo)),
      keys: { p: toPeak, P: toPeak },
    });
  const [canvas] = picture.canvases;
  canvas.addEventListener("dblclick", () => app.select(null)); // its first click was none
  app.onSelect(picture.redraw);

  picture.controls.firstChild?.after(button("Peak", () => {
    toPeak();
    canvas.focus();
  }));
  if (axis.times !== null) picture.controls.append(checkbox("Over time", (on) => axis.drawOverTime(on)));
  const legend = legendOf([{ ink: "allocated", name: "allocated" }, { ink: "allocated-light", name: "up to the highest where a pixel has several levels" }, ...levels.reservedPeak > 0 ? [{ ink: "reserved", name: "reserved" }] : []]);
  picture.place.append(picture.controls, legend, canvas, picture.line, strip(app), picture.hint);
  Object.assign(picture.place.dataset, { peakBytes: levels.peak, reservedPeakBytes: levels.reservedPeak });
  return picture.place;
}

/**
 * @param {import("./levels.js").Levels} levels
 * @returns {[number, number]}
 */
function wholeOf({ lowest, peak, reservedPeak }) {
  return [lowest, Math.max(peak, reservedPeak)];
}

/**
 * The curves: up to the lowest level of a pixel in full colour, up to its highest lighter, so that no peak is lost.
 * @param {import("./track.js").Frame} frame
 * @param {import("./levels.js").Levels} levels
 */
function drawLevels(frame, levels) {
  const [allocated, reserved] = pixelsOf(frame, levels, "allocated", "reserved");
  area(frame, allocated.high, "allocated-light");
  area(frame, allocated.low, "allocated");
  if (levels.reservedPeak > 0) line(frame, reserved, "reserved");
}

/** @param {import("./track.js").Frame} frame */
function drawScale({ context, axis, width, bottom }) {
  stroke(context, color("line"), [0, bottom], [width, bottom]);
  const most = Math.max(width / 110, 2), [begin, shown] = axis.span();
  for (const { at, text } of axis.overTime ? timeTicks(begin, begin + shown, most, axis.position(axis.lo)) : eventTicks(axis.from, axis.to, most)) {
    const x = ((at - begin) / shown) * width, half = context.measureText(text).width / 2;
    stroke(context, color("quiet"), [x, bottom], [x, bottom + 4]);
    write(context, text, Math.min(Math.max(x, half + 1), width - half - 1), bottom + 11, { align: "center", ink: color("quiet") });
  }
}

/**
 * The peak at its place, and failures from top to bottom; of names that would cover each other the first one is written.
 * @param {import("./track.js").Frame} frame
 * @param {import("./app.js").App} app
 * @param {number} head where the names of failures stand
 */
function drawMarks({ context, axis, width, bottom, x: pixel, y }, { levels, view }, head) {
  let taken = -Infinity;
  for (const { kind, event, bytes, label } of view.marks) {
    if (event < axis.from - 1 || event > axis.to) continue;
    const x = pixel(event), failed = kind === "oom", ink = color(failed ? "bad" : "text");
    const text = failed ? label : `${label} ${formatBytes(bytes)}`, room = context.measureText(text).width;
    const begin = x + room + 12 > width ? x - 8 - room : x + 8;
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
 * @returns {string}
 */
function sentence(app, at) {
  const { axis, levels } = app, { edges, times } = axis;
  return [
    `${formatExact(at.bytes)} allocated${at.size > 1 ? `, the highest of ${formatCount(at.size)} events together` : ""}`,
    levels.reservedPeak > 0 && `${at.size === 1 ? "" : "up to "}${formatExact(at.reserved)} reserved`,
    at.event < axis.lo ? "before the first event" : `event ${formatCount(at.event)}`,
    at.line && app.lineText(at.line),
    times !== null && at.event >= axis.lo && `${formatDuration(interpolated(edges, times, at.event) - times[0])} after the start`,
    ...app.view.bands.map((row) => row.names[bandAt(row, at.event)]),
    app.ownerText(at.owner),
  ].filter(Boolean).join(" \u00b7 ");
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
    drawLevels(frameOf(context, run, width, height, [0, ...wholeOf(levels)], { top: 0, foot: 0 }), levels);
    const [from, to] = zoom.dragged() ?? part();
    context.fillStyle = color("veil");
    context.fillRect(0, 0, from, height);
    context.fillRect(to, 0, width - to, height);
    context.strokeStyle = color("text");
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
  });
  const zoom = zoomable(canvas, axis, { redraw, scale: run, part });
  axis.onChange(redraw);
  return canvas;
}
