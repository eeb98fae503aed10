/** Zooming by pointer, wheel and keys, alike for all pictures that share the axis. */

import { button, element, onKeys } from "./dom.js";

/** A pointer that moves less than this has clicked. */
const CLICK = 4;

/**
 * What keys and buttons do: the text of the button, what it says, the keys.
 * @param {import("./axis.js").Axis} axis
 * @param {() => number} [around] the place that stays where it is, as a share of the picture's width
 * @returns {[string, string, string[], () => void][]}
 */
const actsOf = (axis, around = () => 0.5) => [
  ["+", "Show less of the run", ["+", "="], () => axis.zoom(0.5, around())],
  ["\u2212", "Show more of the run", ["-"], () => axis.zoom(2, around())],
  ["\u2190", "Move to what comes before", ["ArrowLeft"], () => axis.pan(-0.25)],
  ["\u2192", "Move to what comes after", ["ArrowRight"], () => axis.pan(0.25)],
  ["Whole run", "Show the whole run", ["Home"], () => axis.reset()],
];

/**
 * Make the part that is shown follow what is done to a picture, and tell where in it, in CSS pixels, the pointer is (`null` when it has left) and clicks.
 * `scale` is what the picture is drawn over where that is not the part that is shown, and `part` the shown part in it, which can be moved. What is dragged
 * over with Shift is asked about (`ask`, events) and not shown alone; `escape` says whether it did something of its own.
 * @param {HTMLCanvasElement} canvas
 * @param {import("./axis.js").Axis} axis
 * @param {{ redraw: () => void, hover?: (x: number | null, y: number) => void, click?: (x: number, y: number) => void, scale?: import("./axis.js").Axis, part?: () => [number, number], ask?: (from: number, to: number) => void, asks?: () => boolean, escape?: () => boolean, around?: () => number }} handlers
 * @returns {{ dragged: () => [number, number] | null }} what is being dragged over, in CSS pixels
 */
export function zoomable(canvas, axis, { redraw, hover, click, scale = axis, part, ask, asks = () => false, escape = () => false, around }) {
  /** @type {{ from: number, to: number, moves: boolean, asks: boolean } | null} */
  let drag = null;
  /** @returns {[number, number] | null} */
  const dragged = () => (drag && !drag.moves && Math.abs(drag.to - drag.from) >= CLICK ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] : null);
  const stop = () => {
    drag = null;
    redraw();
  };
  canvas.addEventListener("pointerdown", ({ button: pressed, offsetX: x, offsetY: y, pointerId, shiftKey }) => {
    if (pressed !== 0) return;
    const [from, to] = part?.() ?? [Infinity, -Infinity];
    drag = { from: x, to: x, moves: from <= x && x <= to && (from > 0 || to < canvas.clientWidth), asks: shiftKey || asks() };
    canvas.setPointerCapture(pointerId);
    hover?.(x, y); // a finger hovers over nothing before
  });
  canvas.addEventListener("pointermove", ({ offsetX: x, offsetY: y }) => {
    const [begin, width] = axis.span();
    if (drag?.moves) axis.showPositions(begin + ((x - drag.to) / canvas.clientWidth) * scale.span()[1], width);
    if (drag) drag.to = x;
    hover?.(x, y);
    redraw();
  });
  canvas.addEventListener("pointerup", ({ offsetX: x, offsetY: y }) => {
    const over = dragged(), width = canvas.clientWidth;
    if (over && ask && drag?.asks) ask(scale.toEvent(over[0], width), scale.toEvent(over[1], width));
    else if (over) axis.show(scale.toEvent(over[0], width), scale.toEvent(over[1], width));
    else if (drag && !drag.moves) click?.(x, y);
    stop();
  });
  canvas.addEventListener("pointercancel", stop);
  canvas.addEventListener("pointerleave", ({ pointerType }) => {
    if (pointerType !== "touch") hover?.(null, 0);
    redraw();
  });
  canvas.addEventListener("dblclick", () => axis.reset());
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey) axis.zoom(event.deltaY < 0 ? 0.8 : 1.25, event.offsetX / canvas.clientWidth);
    else if (event.shiftKey || event.deltaX) axis.pan((event.deltaX || event.deltaY) / canvas.clientWidth);
    else return;
    event.preventDefault();
  }, { passive: false });
  const keys = actsOf(axis, around).flatMap(([, , names, act]) => names.map((name) => [name, act]));
  onKeys(canvas, { ...Object.fromEntries(keys), Escape: () => (drag ? stop() : escape() || axis.reset()) });
  return { dragged };
}

/**
 * Buttons that zoom, for fingers and screen readers.
 * @param {import("./axis.js").Axis} axis
 * @returns {HTMLElement}
 */
export function zoomButtons(axis) {
  return element("span", { class: "buttons", role: "group", "aria-label": "Zoom" },
    ...actsOf(axis).map(([text, title, , act]) => button(text, act, { title, "aria-label": title })));
}
