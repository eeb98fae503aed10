/** Allocated and reserved bytes over the run. */

import { color, drawing } from "./canvas.js";
import { section } from "./dom.js";
import { formatExact } from "./format.js";
import { Pyramid } from "./pyramid.js";

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function timeline(app) {
  const { levels } = app.view, { axis } = app;
  const pyramid = new Pyramid(levels.low_bytes, levels.high_bytes);
  const buckets = levels.high_bytes.length;
  const peak = pyramid.extremes(0, buckets)[1];
  const { canvas, redraw } = drawing("Allocated bytes over the run", 240, (context, width, height) => {
    context.fillStyle = color("allocated");
    for (let x = 0; x < width; x += 1) {
      const scale = buckets / (axis.hi - axis.lo);
      const from = Math.floor((axis.toEvent(x, width) - axis.lo) * scale);
      const to = Math.max(Math.ceil((axis.toEvent(x + 1, width) - axis.lo) * scale), from + 1);
      const high = pyramid.extremes(Math.max(from, 0), Math.min(to, buckets))[1];
      const top = peak > 0 ? (Math.max(high, 0) / peak) * (height - 20) : 0;
      context.fillRect(x, height - top, 1, top);
    }
  });
  axis.onChange(redraw);
  canvas.dataset.peakBytes = String(peak);
  return section("timeline", "Timeline", `Peak ${formatExact(peak)}`, canvas);
}
