/** Devices over time, a row each, never one over another: what is allocated, all on one scale of bytes; a click on one shows it below. */

import { Axis } from "./axis.js";
import { color, drawing } from "./canvas.js";
import { unpacked } from "./data.js";
import { button, element, section } from "./dom.js";
import { formatBytes } from "./format.js";
import { Levels } from "./levels.js";
import { drawScale } from "./picture.js";
import { Bitmap } from "./paint.js";
import { frameOf, pixelsOf } from "./track.js";

/** Heights in CSS pixels: a row, and the scale below the last one. */
const DEVICE_HEIGHT = 48, DEVICE_SCALE = 18;

/**
 * The devices of a page; their rows are drawn when `fill` has unpacked their levels.
 * @param {any[]} logs as the page has them, packed
 * @param {number} first the one that is shown before anybody chooses
 * @param {(log: number) => void} show
 * @returns {{ place: HTMLElement, fill: () => Promise<void> }}
 */
export function devicesPart(logs, first, show) {
  const levels = /** @type {Levels[]} */ ([]), axes = /** @type {Axis[]} */ ([]), names = logs.map(({ path }) => path.replace(/^.*\//, "")), note = element("p", { class: "hint" });
  const most = logs.reduce((sum, { figures }) => Math.max(sum, figures.peak_bytes), 0);
  /** @param {number} k */
  function choose(k) {
    rows.forEach(({ name }, one) => name.setAttribute("aria-pressed", String(one === k)));
    show(k);
  }
  const rows = logs.map(({ figures }, k) => {
    const last = k === logs.length - 1, bitmap = new Bitmap(), { canvas, redraw } = drawing("", DEVICE_HEIGHT + (last ? DEVICE_SCALE : 0), (context, width, height) => {
      if (!levels[k]) return;
      const frame = frameOf(context, axes[k], width, height, [0, most], { top: 2, foot: last ? DEVICE_SCALE : 0 }), [allocated] = pixelsOf(frame, levels[k], "allocated");
      // Before its first event nothing is known of a device, and what is live after its last one stays.
      const known = allocated.high.map((bytes, x) => (x + 1 < frame.x(levels[k].whole.lo) ? 0 : x > frame.x(levels[k].whole.hi) ? figures.live_bytes : bytes));
      bitmap.show(context, width, frame.bottom, () => bitmap.clear().area(frame, known, "allocated"));
      context.fillStyle = color("line");
      context.fillRect(0, frame.bottom - 1, width, 1);
      if (last && axes[k].overTime) drawScale(frame);
    });
    canvas.addEventListener("click", () => choose(k));
    Object.assign(canvas.dataset, { device: k, mostBytes: most });
    const name = button(`${names[k]}: peak ${formatBytes(figures.peak_bytes)}`, () => choose(k), { "aria-pressed": String(k === first) });
    return { name, canvas, redraw };
  });
  return {
    place: section("devices", "Devices", ...rows.flatMap(({ name, canvas }) => [name, canvas]), note),
    fill: async () => {
      const found = await Promise.all(logs.map((log) => unpacked(log.levels))), times = found.map(({ time_us: time }) => time), timed = times.every((time) => time !== null);
      const begin = timed ? Math.min(...times.map((time) => time[0])) : 0, end = timed ? Math.max(...times.map((time) => time[time.length - 1])) : 0;
      found.forEach((columns, k) => {
        const { edges, time_us: time } = columns, lo = edges[0], hi = edges[edges.length - 1];
        levels[k] = new Levels(columns);
        // All over one stretch of time, from before the first event of each to after its last.
        axes[k] = timed ? new Axis(lo - 1, hi + 1, Float64Array.of(lo - 1, ...edges, hi + 1), Float64Array.of(begin, ...time, end)) : new Axis(lo, hi);
        axes[k].drawOverTime(timed);
        rows[k].redraw();
      });
      note.textContent = `Allocated bytes over ${timed ? "time" : "the events of each device, for no time is known: what stands below each other did not happen together"}; all rows have one scale, up to ${formatBytes(most)}.`;
    },
  };
}
