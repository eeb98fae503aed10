/** Canvases that are sharp on any screen, drawn again when their size or the colours change. */

import { element } from "./dom.js";

/** Redraws that the browser keeps a note of, for who measures them. */
const MEASURED = 1000;
let measured = 0;
/** What is to be drawn in the next frame. @type {Set<() => void>} */
const ASKED = new Set();

/** Draw all that is to be drawn. */
export function drawAsked() {
  const asked = [...ASKED];
  ASKED.clear();
  for (const draw of asked) draw();
}

/** Of paper a CSS pixel has so many pixels. */
const SHARP = 3;
let paper = false;
/** @returns {number} how many pixels a CSS pixel has */
export const sharpness = () => (paper ? SHARP : window.devicePixelRatio || 1);

/** What draws each canvas. @type {WeakMap<HTMLCanvasElement, () => void>} */
const DRAWS = new WeakMap();

/**
 * Draw all pictures as wide and as sharp as they are on paper, or on the screen again: a browser prints what is drawn, and squeezes what is too wide.
 * @param {boolean} on
 */
export function drawForPaper(on) {
  paper = on;
  document.documentElement.classList.toggle("printing", on);
  for (const canvas of document.querySelectorAll("canvas")) DRAWS.get(canvas)?.();
}

/** Colours that were looked up, until the scheme changes, and texts that were measured. @type {Map<string, string>} */
const COLORS = new Map();
/** @type {Map<string, number>} */
const WIDTHS = new Map();
const MOST_WIDTHS = 10_000;
globalThis.matchMedia?.("(prefers-color-scheme: dark)").addEventListener("change", () => COLORS.clear());

/**
 * A colour of the style sheet.
 * @param {string} name of a custom property, without the dashes
 * @returns {string}
 */
export function color(name) {
  const known = COLORS.get(name) ?? getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  COLORS.set(name, known);
  return known;
}

/**
 * How wide a text is, in the only font that pictures have.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @returns {number}
 */
export function widthOf(context, text) {
  const known = WIDTHS.get(text) ?? context.measureText(text).width;
  if (WIDTHS.size > MOST_WIDTHS) WIDTHS.clear();
  WIDTHS.set(text, known);
  return known;
}

/**
 * A canvas as wide as its place.
 * @param {string} label what it shows, for who cannot see it; empty where another one says it
 * @param {number} height in CSS pixels
 * @param {(context: CanvasRenderingContext2D, width: number, height: number) => void} draw in CSS pixels
 * @returns {{ canvas: HTMLCanvasElement, redraw: () => void }} redraws happen once a frame at most
 */
export function drawing(label, height, draw) {
  const canvas = element("canvas", label ? { role: "img", "aria-label": label, tabindex: 0 } : { "aria-hidden": "true" });
  canvas.style.height = `${height}px`;
  const now = () => {
    const width = canvas.clientWidth, high = canvas.clientHeight, ratio = sharpness();
    if (!width) return;
    const start = performance.now();
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), size = [Math.round(width * ratio), Math.round(high * ratio)];
    // Memory of another size is dear, and so is new one of the same.
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    context.save();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, high);
    context.font = "11px system-ui, sans-serif";
    draw(context, width, high);
    context.restore();
    if ((measured += 1) % MEASURED === 0) performance.clearMeasures("memlens-redraw");
    performance.measure("memlens-redraw", { start, detail: label });
  };
  const redraw = () => {
    if (!ASKED.size) requestAnimationFrame(drawAsked);
    ASKED.add(now);
  };
  DRAWS.set(canvas, now);
  new ResizeObserver(now).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return { canvas, redraw };
}

/**
 * Text that can be read on anything.
 * @param {CanvasRenderingContext2D} context
 * @param {string} text
 * @param {number} x
 * @param {number} y
 * @param {{ align?: CanvasTextAlign, ink?: string }} [how]
 */
export function write(context, text, x, y, { align = "left", ink = color("text") } = {}) {
  context.textAlign = align;
  context.textBaseline = "middle";
  const wide = widthOf(context, text), begin = align === "left" ? x : align === "right" ? x - wide : x - wide / 2;
  context.fillStyle = color("back");
  context.fillRect(begin - 2, y - 6, wide + 4, 12);
  context.fillStyle = ink;
  context.fillText(text, x, y);
}

/**
 * A straight line, sharp.
 * @param {CanvasRenderingContext2D} context
 * @param {string} ink
 * @param {[number, number]} from
 * @param {[number, number]} to
 * @param {number[]} [dashes]
 */
export function stroke(context, ink, [x0, y0], [x1, y1], dashes = []) {
  context.strokeStyle = ink;
  context.lineWidth = 1;
  context.setLineDash(dashes);
  context.beginPath();
  context.moveTo(Math.round(x0) + 0.5, Math.round(y0) + 0.5);
  context.lineTo(Math.round(x1) + 0.5, Math.round(y1) + 0.5);
  context.stroke();
}

/**
 * What can be read on a fill: black or white, whichever has more contrast (WCAG 2.2, relative luminance).
 * @param {string} fill `#rrggbb`
 * @returns {string}
 */
export function inkOn(fill) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}
