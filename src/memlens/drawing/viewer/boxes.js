/** Pictures made of boxes: drawn once, and looked up where the pointer is. */

import { color, drawing, inkOn, sharpness } from "./canvas.js";
import { explained, onKeys } from "./dom.js";

/** A letter's width in CSS pixels. */
const LETTER = 6.2;

/**
 * A box: where it lies, as shares of the picture's width and in CSS pixels down it.
 * @typedef {Object} Box
 * @property {number} left
 * @property {number} right
 * @property {number} top
 * @property {number} height
 * @property {string} [fill] a colour of the style sheet
 * @property {string} [edge] likewise
 * @property {string} [text] written on it where there is room: bytes as a whole, names cut
 * @property {any} [of] what it shows, told where the pointer or the keyboard is; several boxes may show one thing
 */

/**
 * A picture of boxes.
 * @param {Object} how
 * @param {string} how.id
 * @param {string} how.label what it shows, for who cannot see it
 * @param {string} how.hint what can be done with it
 * @param {number} how.height in CSS pixels
 * @param {() => Box[]} how.lay
 * @param {(thing: any) => [string, Record<string, string | number>]} how.tell a thing in words, and its exact figures
 * @param {(thing: any) => void} how.act what a click and Enter do
 * @param {(things: any[]) => any[]} [how.stops] through which of the things, in the order of their boxes, the keys to the left and the right go
 * @param {() => any} [how.chosen] what is selected in the page
 * @param {Record<string, () => void>} [how.keys] other keys
 */
export function boxes({ id, label, hint: words, height, lay, tell, act, stops = (things) => things, chosen = () => null, keys = {} }) {
  /** What the pointer or the keyboard is at. @type {any} */
  let at = null;
  let made = /** @type {Box[]} */ ([]), drawnFor = "", version = 0;
  const still = document.createElement("canvas");
  const { canvas, redraw } = drawing(label, height, (context, width, high) => {
    const now = [width, high, sharpness(), version, color("back")].join();
    if (now !== drawnFor) {
      [still.width, still.height, drawnFor] = [canvas.width, canvas.height, now];
      const base = /** @type {CanvasRenderingContext2D} */ (still.getContext("2d"));
      base.scale(canvas.width / width, canvas.height / high);
      base.font = context.font;
      /** @type {Record<string, string>} */
      const inks = {};
      for (const box of made) drawBox(base, box, width, (name) => (inks[name] ??= color(name)));
    }
    context.drawImage(still, 0, 0, width, high);
    context.strokeStyle = color("chosen");
    context.lineWidth = 2;
    const marked = [at, chosen()].filter((thing) => thing !== null);
    for (const { of, left, right, top, height: tall } of made)
      if (marked.includes(of)) context.strokeRect(left * width + 1, top + 1, Math.max((right - left) * width - 2, 2), tall - 2);
  });
  const { line, hint, tell: say } = explained(canvas, id, words);
  /** @param {any} thing */
  const point = (thing) => {
    if (thing === at) return;
    at = thing;
    if (at === null) say("", {});
    else say(...tell(at));
    redraw();
  };
  /** @param {MouseEvent} event */
  const under = ({ offsetX, offsetY: y }) => {
    const x = Math.min(Math.max(offsetX / canvas.clientWidth, 0), 1 - 1e-9);
    return made.find(({ of, left, right, top, height: tall }) => of !== undefined && left <= x && x < right && top <= y && y < top + tall)?.of ?? null;
  };
  /** @param {number} way */
  const step = (way) => {
    const all = stops([...new Set(made.map(({ of }) => of).filter((thing) => thing !== undefined))]);
    point(all[Math.min(Math.max(all.indexOf(at) + way, 0), all.length - 1)] ?? null);
  };
  const doIt = () => at !== null && act(at);
  canvas.addEventListener("pointermove", (event) => point(under(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    point(under(event));
    doIt();
  });
  onKeys(canvas, { ArrowLeft: () => step(-1), ArrowRight: () => step(1), Enter: doIt, ...keys });
  /** Lay the boxes anew. @param {number} [tall] */
  const show = (tall = height) => {
    made = lay();
    version += 1;
    canvas.style.height = `${tall}px`;
    redraw();
  };
  return { canvas, line, hint, point, show, redraw, at: () => at };
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Box} box
 * @param {number} width of the picture
 * @param {(name: string) => string} ink colours of the style sheet
 */
function drawBox(context, { left, right, top, height, fill, edge, text = "" }, width, ink) {
  const x = left * width, w = (right - left) * width;
  context.fillStyle = ink(fill ?? "text");
  if (fill) context.fillRect(x, top, w > 3 ? w - 0.5 : w, height);
  if (edge) {
    context.strokeStyle = ink(edge);
    context.strokeRect(Math.round(x) + 0.5, Math.round(top) + 0.5, Math.max(w - 1, 0.5), height - 1);
  }
  const room = Math.floor((w - 6) / LETTER), fits = text.length <= room;
  if (!text || room < 3 || height < 12 || (!fits && /^[\d.]+ \w*B$/.test(text))) return;
  if (fill) context.fillStyle = inkOn(String(context.fillStyle));
  context.textBaseline = "middle";
  context.fillText(fits ? text : `${text.slice(0, room - 1)}\u2026`, x + 3, top + height / 2, w - 4);
}
