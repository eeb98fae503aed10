/** The picture: what is live over the run as areas stacked up to the level, single blocks as bars in them, and what is reserved as a line. */

import { Axis, interpolated } from "./axis.js";
import { color, drawing, stroke, widthOf, write } from "./canvas.js";
import { button, checkbox, choice, element } from "./dom.js";
import { formatBytes, formatCount, formatDuration, formatExact } from "./format.js";
import { blockText } from "./life.js";
import { NOTHING } from "./lives.js";
import { Bitmap, drawAreas, nothingDrawn } from "./paint.js";
import { eventTicks, timeTicks } from "./ticks.js";
import { bandAt, frameOf, pixelsOf, ROW, tracksOf } from "./track.js";
import { zoomable } from "./zoom.js";

/** Heights in CSS pixels: the picture, the strip of the whole run, the scale of the axis. */
const HEIGHT = 400, STRIP = 36, SCALE = 18;
/** The key p shows so many events around the peak. */
const AROUND = 256;

/**
 * What the pointer or the keyboard is at: a moment, and under the pointer a bar or the area of a group, -1 for none.
 * @typedef {import("./levels.js").Highest & { bar: number, group: number }} At
 */

/**
 * @param {import("./app.js").App} app
 * @param {(at: At | null) => void} point told where the pointer or the keyboard is
 * @returns {HTMLElement}
 */
export function pictureOf(app, point) {
  const { axis, levels, stacks } = app, { marks, bands: rows } = app.view, head = rows.length * ROW, top = head + ROW + 6;
  const drawn = nothingDrawn();
  /** The bar that the pointer is on, and where a range begins that the keyboard is at. */
  let over = -1, begun = -1;

  /** @param {Bitmap} bitmap @param {import("./track.js").Frame & { high: number }} frame */
  const draw = (bitmap, frame) => {
    drawAreas(bitmap, frame, drawn, levels, stacks, app.lives, { found: app.found, sought: app.sought, over, chosen: app.lives.blockOf(app.block) });
    const [allocated, reserved] = pixelsOf(frame, levels, "allocated", "reserved");
    if (levels.lowest < 0) bitmap.line(frame, allocated, "text");
    if (levels.reservedPeak > 0) bitmap.line(frame, reserved, "reserved");
  };
  /** @param {import("./track.js").Frame} frame */
  const drawOver = (frame) => {
    const { context, width, bottom, x } = frame, { kind, value, to } = app.selected ?? { kind: "", value: -1 };
    drawScale(frame);
    drawMarks(frame, app, head);
    const bar = app.lives.blockOf(app.block);
    if (kind === "range") {
      context.fillStyle = color("brush");
      context.fillRect(x(value), top, x(Number(to)) - x(value), bottom - top);
    }
    // Where the selected moment is; where a range, or a bar, which may be too thin to be seen, begins and ends.
    const edges = kind === "moment" ? [Math.max(value, axis.lo)] : kind === "range" ? [value, Number(to)] : bar >= 0 ? [app.lives.alloc[bar], app.lives.free[bar]] : [];
    for (const event of edges) if (x(event) >= 0 && x(event) <= width) stroke(context, color("text"), [x(event), top], [x(event), bottom], kind === "moment" ? [] : [3, 3]);
  };
  /** The cell at a place in CSS pixels. @param {number} x @param {number} y */
  const cellAt = (x, y) => {
    const width = drawn.events.length, tall = drawn.cells.length / Math.max(width, 1), row = Math.floor(((y - top) / (HEIGHT - SCALE - top)) * tall);
    return row < 0 || row >= tall ? NOTHING : drawn.cells[row * width + Math.min(Math.max(Math.floor(x), 0), width - 1)];
  };
  const toPeak = () => {
    const [peak] = marks;
    if (!peak) return;
    if (axis.to - axis.from > AROUND || peak.event < axis.from || peak.event >= axis.to) axis.show(peak.event - AROUND / 2, peak.event + AROUND / 2);
    picture.point({ ...levels.highest(peak.event, peak.event + 1), bar: -1, group: -1 });
  };
  /** @param {number} from @param {number} to */
  const ask = (from, to) => app.select("range", Math.max(Math.floor(Math.min(from, to)), axis.lo), Math.min(Math.ceil(Math.max(from, to)), axis.hi - 1));
  let asking = false;
  const label = () => `What is live over the run, ${stacks.way.key === "all" ? "which blocks is not known" : `by ${stacks.way.name}`}, stacked up to the allocated bytes; the peak is ${formatExact(levels.peak)}`;
  const picture = tracksOf("picture", "Memory over the run",
    "Click a block or a moment to see all of it beside the picture; click a step to show it. Drag, or Ctrl and wheel, to zoom; drag with Shift to see what stays of a range; double click for the whole run. "
    + "Keys: \u2190 \u2192 move \u00b7 + \u2212 zoom \u00b7 Home whole run \u00b7 P peak \u00b7 comma and dot step \u00b7 Enter select \u00b7 [ and ] begin and end a range \u00b7 Esc back",
    axis, levels, [{
      label: label(),
      height: HEIGHT, top, foot: SCALE, rows, axisNames: () => [[axis.overTime ? "time" : "event", "quiet"]],
      whole: [levels.lowest, Math.max(levels.peak, levels.reservedPeak)], fits: ["allocated"],
      curves: draw, over: drawOver, dots: (at) => [at.bytes],
    }], {
      find: (from, to, place) => {
        const found = levels.highest(from, to), cell = place ? cellAt(...place) : NOTHING;
        return found && { ...found, bar: cell > 0 ? cell - 1 : -1, group: cell < 0 ? -1 - cell : -1 };
      },
      eventOf: (at) => Math.max(at.event, axis.lo),
      tell: (at) => {
        const { event, sums } = stacks.at(at.event);
        return [sentences(app, at, event, sums), { bytes: at.bytes, event: at.event, line: at.line, reserved: at.reserved, of: event, sums: sums.join(), block: at.bar, group: at.group }];
      },
      act: (at) => (at.bar >= 0 ? app.select("block", at.bar) : app.select("moment", Math.max(at.event, axis.lo))),
      point: (at) => {
        over = at?.bar ?? -1;
        point(at);
      },
      keys: { p: toPeak, P: toPeak, "[": (at) => (begun = at?.event ?? begun), "]": (at) => at && begun >= 0 && ask(begun, at.event) },
      zooms: {
        ask, asks: () => asking,
        escape: () => {
          const open = app.selected !== null;
          if (open) app.select(null);
          return open;
        },
      },
    });
  const [canvas] = picture.canvases, [track] = picture.tracks;
  canvas.addEventListener("dblclick", () => app.select(null)); // its first click was none
  app.onSelect(picture.redraw);

  picture.controls.firstChild?.after(button("Peak", () => {
    toPeak();
    canvas.focus();
  }));
  const by = choice("By", stacks.ways.map(({ name }) => name), (way) => app.look({ way }), { first: stacks.chosen, id: "picture-by" });
  const search = element("input", { type: "search", id: "picture-find", placeholder: "Find owner, size \u2026", "aria-label": "Find blocks by owner, size or group", input: () => app.look({ sought: search.value }) });
  const matches = element("span", { class: "quiet", role: "status", id: "picture-found" });
  const overTime = checkbox("Over time", (on) => axis.drawOverTime(on));
  if (stacks.ways.length > 1) picture.controls.prepend(by);
  if (axis.times !== null) picture.controls.append(overTime);
  picture.controls.append(checkbox("Drag a range", (on) => (asking = on)), search, matches);
  const looked = () => {
    canvas.dataset.by = stacks.way.key;
    canvas.setAttribute("aria-label", label());
    // An address may say it, too.
    for (const select of by.getElementsByTagName("select")) select.selectedIndex = stacks.chosen;
    for (const box of overTime.getElementsByTagName("input")) box.checked = axis.overTime;
    if (search.value.trim().toLowerCase() !== app.sought) search.value = app.sought;
    const found = app.found, live = found ? app.blocks.liveAfter(app.moment, true).filter((bar) => found[bar]) : [];
    const bytes = live.reduce((sum, bar) => sum + app.view.lifetimes.size_bytes[bar], 0);
    matches.textContent = found ? `${formatCount(Array.from(found).filter(Boolean).length)} of ${formatCount(found.length)} bars; ${formatBytes(bytes)} of them live ${app.selected ? "at this moment" : "at the peak"}` : "";
    picture.redraw();
  };
  app.onLook(looked);
  app.onSelect(looked);
  axis.onChange(looked);
  looked();
  picture.place.append(picture.controls, track, strip(app), picture.line, picture.hint);
  Object.assign(picture.place.dataset, { peakBytes: levels.peak, reservedPeakBytes: levels.reservedPeak });
  return picture.place;
}

/** @param {import("./track.js").Frame} frame */
export function drawScale({ context, axis, width, bottom }) {
  stroke(context, color("line"), [0, bottom], [width, bottom]);
  const most = Math.max(width / 110, 2), [begin, shown] = axis.span();
  for (const { at, text } of axis.overTime ? timeTicks(begin, begin + shown, most, axis.position(axis.lo)) : eventTicks(axis.from, axis.to, most)) {
    const x = ((at - begin) / shown) * width, half = widthOf(context, text) / 2;
    stroke(context, color("quiet"), [x, bottom], [x, bottom + 4]);
    write(context, text, Math.min(Math.max(x, half + 1), width - half - 1), bottom + 11, { align: "center", ink: color("quiet") });
  }
}

/**
 * The peak at its place, and failures from top to bottom, with their names above all data; a name that would cover another one is left out.
 * @param {import("./track.js").Frame} frame
 * @param {import("./app.js").App} app
 * @param {number} head where their names stand
 */
function drawMarks({ context, axis, width, bottom, x: pixel, y }, { view }, head) {
  const taken = /** @type {[number, number][]} */ ([]);
  // What ends a run is named before its peak.
  for (const { kind, event, bytes, label } of [...view.marks].sort((a, b) => Number(a.kind === "peak") - Number(b.kind === "peak"))) {
    if (event < axis.from - 1 || event > axis.to) continue;
    const x = pixel(event), failed = kind === "oom", ink = color(failed ? "bad" : "text");
    const text = failed ? label : `${label} ${formatBytes(bytes)}`, room = widthOf(context, text);
    // Above its place; or beside it, where another name stands there.
    const begin = [x - room / 2, x - room, x, x - room - 12, x + 12].map((at) => Math.min(Math.max(at, 0), width - room)).find((at) => !taken.some(([from, to]) => at < to + 8 && at + room > from - 8));
    if (failed) stroke(context, ink, [x, head + ROW], [x, bottom], [4, 3]);
    context.fillStyle = ink;
    context.beginPath();
    for (const [dx, dy] of [[0, 0], [-4, -7], [4, -7]]) context.lineTo(x + dx, y(bytes) + dy);
    context.fill();
    if (begin === undefined) continue;
    taken.push([begin, begin + room]);
    write(context, text, begin, head + ROW / 2, { ink });
  }
}

/**
 * What there is at a moment, in words: the level, each group, and what the pointer is on.
 * @param {import("./app.js").App} app
 * @param {At} at
 * @param {number} known the event of which the groups are known
 * @param {number[]} sums their bytes
 * @returns {string}
 */
function sentences(app, at, known, sums) {
  const { axis, levels, stacks: { way } } = app, { edges, times } = axis;
  const moment = [
    `${formatExact(at.bytes)} allocated${at.size > 1 ? `, the highest of ${formatCount(at.size)} events together` : ""}`,
    levels.reservedPeak > 0 && `${at.size === 1 ? "" : "up to "}${formatExact(at.reserved)} reserved`,
    at.event < axis.lo ? "before the first event" : `event ${formatCount(at.event)}`,
    at.line && app.lineText(at.line),
    times !== null && at.event >= axis.lo && `${formatDuration(interpolated(edges, times, at.event) - times[0])} after the start`,
    ...app.view.bands.map((row) => row.names[bandAt(row, at.event)]),
    app.ownerText(at.owner),
  ].filter(Boolean).join(" \u00b7 ");
  const groups = way.groups.map(({ name }, group) => ({ name, bytes: sums[group] })).filter(({ bytes }) => bytes).reverse().map(({ name, bytes }) => `${name} ${formatBytes(bytes)}`).join(" \u00b7 ");
  const near = known === at.event || way.key === "all" ? "" : `right after event ${formatCount(known)}, the nearest that this page knows: `;
  const under = at.bar >= 0 ? blockText(app, at.bar) : at.group >= 0 && way.key !== "all" ? `${way.groups[at.group].name}: ${formatBytes(sums[at.group])}` : "";
  return [moment, way.key === "all" ? "" : near + groups, under].filter(Boolean).join("\n");
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
  const bitmap = new Bitmap(), { canvas, redraw } = drawing("The whole run, and the part of it that is shown", STRIP, (context, width, height) => {
    run.overTime = axis.overTime;
    bitmap.show(context, width, height, () => {
      const frame = frameOf(context, run, width, height, [0, levels.lowest, levels.peak], { top: 0, foot: 0 }), [allocated] = pixelsOf(frame, levels, "allocated");
      bitmap.clear().area(frame, allocated.high, "allocated-light");
      bitmap.area(frame, allocated.low, "allocated");
    }, [axis.overTime, color("allocated")].join());
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
  return element("div", { class: "track" }, canvas, element("span", { class: "quiet" }, "whole run"));
}
