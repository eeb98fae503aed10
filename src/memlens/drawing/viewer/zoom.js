/** Zooming by pointer, wheel and keys, alike for all pictures that share the axis. */

import { element } from "./dom.js";

/** A pointer that moves less than this has clicked. */
const CLICK = 4;
/** What one step of a key or a button shows: less, or more. */
const CLOSER = 0.5;

/**
 * What a picture does with the pointer.
 * @typedef {Object} Handlers
 * @property {() => void} redraw
 * @property {(x: number | null, y: number) => void} [hover] where the pointer is, in CSS pixels; `null` when it has left
 * @property {(x: number, y: number) => void} [click]
 * @property {import("./axis.js").Axis} [scale] what the picture itself is drawn over, where it is not the part that is shown
 * @property {() => [number, number]} [part] the shown part in such a picture, which can be moved, in CSS pixels
 */

/**
 * Make the part that is shown follow what is done to a picture.
 * @param {HTMLCanvasElement} canvas
 * @param {import("./axis.js").Axis} axis
 * @param {Handlers} handlers
 * @returns {{ dragged: () => [number, number] | null }} what is being dragged over, in CSS pixels
 */
export function zoomable(canvas, axis, { redraw, hover, click, scale = axis, part }) {
  /** @type {{ from: number, to: number, moves: boolean } | null} */
  let drag = null;
  const dragged = () => drag !== null && !drag.moves && Math.abs(drag.to - drag.from) >= CLICK;
  const stop = () => {
    drag = null;
    redraw();
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const x = event.offsetX, [from, to] = part?.() ?? [Infinity, -Infinity];
    drag = { from: x, to: x, moves: from <= x && x <= to && (from > 0 || to < canvas.clientWidth) };
    canvas.setPointerCapture(event.pointerId);
    hover?.(x, event.offsetY); // a finger hovers over nothing before
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag?.moves) {
      const [begin, width] = axis.span();
      axis.showPositions(begin + ((event.offsetX - drag.to) / canvas.clientWidth) * scale.span()[1], width);
    }
    if (drag) drag.to = event.offsetX;
    hover?.(event.offsetX, event.offsetY);
    redraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const width = canvas.clientWidth, [from, to] = [drag.from, drag.to].sort((a, b) => a - b);
    if (dragged()) axis.show(scale.toEvent(from, width), scale.toEvent(to, width));
    else if (!drag.moves) click?.(event.offsetX, event.offsetY);
    stop();
  });
  canvas.addEventListener("pointercancel", stop);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") hover?.(null, 0);
    redraw();
  });
  canvas.addEventListener("dblclick", () => axis.reset());
  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey) axis.zoom(event.deltaY < 0 ? 0.8 : 1.25, event.offsetX / canvas.clientWidth);
    else if (event.shiftKey || event.deltaX) axis.pan((event.deltaX || event.deltaY) / canvas.clientWidth);
    else return;
    event.preventDefault();
  }, { passive: false });
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowLeft: () => axis.pan(-0.25),
    ArrowRight: () => axis.pan(0.25),
    "+": () => axis.zoom(CLOSER),
    "=": () => axis.zoom(CLOSER),
    "-": () => axis.zoom(1 / CLOSER),
    Home: () => axis.reset(),
    Escape: () => {
      if (drag) stop();
      else axis.reset();
    },
  };
  canvas.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey && event.key !== "+" ? undefined : keys[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  });
  return { dragged: () => drag !== null && dragged() ? [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)] : null };
}

/**
 * Buttons that zoom, for fingers and screen readers.
 * @param {import("./axis.js").Axis} axis
 * @returns {HTMLElement}
 */
export function zoomButtons(axis) {
  /** @type {[string, string, () => void][]} */
  const buttons = [
    ["+", "Show less of the run", () => axis.zoom(CLOSER)],
    ["\u2212", "Show more of the run", () => axis.zoom(1 / CLOSER)],
    ["\u2190", "Move to what comes before", () => axis.pan(-0.25)],
    ["\u2192", "Move to what comes after", () => axis.pan(0.25)],
    ["Whole run", "Show the whole run", () => axis.reset()],
  ];
  return element("span", { class: "buttons", role: "group", "aria-label": "Zoom" },
    ...buttons.map(([text, title, click]) => element("button", { type: "button", title, "aria-label": title, click }, text)));
}
