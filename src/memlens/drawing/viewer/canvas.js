/** Canvases that are sharp on any screen, drawn again when their size or the colours change. */

import { element } from "./dom.js";

/**
 * A colour of the style sheet.
 * @param {string} name of a custom property, without the dashes
 * @returns {string}
 */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/**
 * A canvas as wide as its place.
 * @param {string} label what it shows, for who cannot see it
 * @param {number} height in CSS pixels
 * @param {(context: CanvasRenderingContext2D, width: number, height: number) => void} draw in CSS pixels
 * @returns {{ canvas: HTMLCanvasElement, redraw: () => void }} redraws happen once a frame at most
 */
export function drawing(label, height, draw) {
  const canvas = element("canvas", { role: "img", "aria-label": label, tabindex: 0 });
  canvas.style.height = `${height}px`;
  let asked = 0;
  const now = () => {
    asked = 0;
    const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(ratio, ratio);
    draw(context, width, height);
  };
  const redraw = () => {
    asked ||= requestAnimationFrame(now);
  };
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return { canvas, redraw };
}
