/** The cells of a picture as pixels. */

import { color } from "./canvas.js";
import { columnsOf, NOTHING } from "./lives.js";

/**
 * What was drawn last, and what it was drawn of.
 * @typedef {{ cellsOf: string, imageOf: string, cells: Int32Array, events: Float64Array, image: HTMLCanvasElement, data: ImageData | null }} Drawn
 * @returns {Drawn}
 */
export const nothingDrawn = () => ({ cellsOf: "", imageOf: "", cells: new Int32Array(), events: new Float64Array(), image: document.createElement("canvas"), data: null });

/**
 * The areas up to the highest level of each column, and bars in them: worked out again where another part or other groups are shown, and coloured again where
 * they look different.
 * @param {import("./track.js").Frame & { high: number }} frame
 * @param {Drawn} drawn
 * @param {import("./levels.js").Buckets} levels
 * @param {import("./stacks.js").Stacks} stacks
 * @param {import("./lives.js").Lives} lives
 * @param {{ bars?: ArrayLike<number>, found?: ArrayLike<number> | null, key: string, look: string, colour: (width: number, rows: number) => void }} how the groups of
 * bars, those that are sought, and what else cells and colours depend on
 */
export function drawAreas({ context, axis, width, low, high, top, bottom }, drawn, levels, stacks, lives, { bars = [], found = null, key, look, colour }) {
  const rows = Math.round((bottom - top) * (window.devicePixelRatio || 1)), cellsOf = [axis.from, axis.to, width, rows, low, high, lives.size.length, key].join(), imageOf = [cellsOf, look].join();
  if (cellsOf !== drawn.cellsOf) {
    const columns = columnsOf(levels, axis, width), cells = lives.cells(columns, stacks.tops(columns), bars, rows, [low, high], axis, found, drawn.cells);
    Object.assign(drawn, { cellsOf, cells, events: columns.events });
  }
  if (imageOf !== drawn.imageOf) colour(width, rows);
  drawn.imageOf = imageOf;
  context.imageSmoothingEnabled = false;
  context.drawImage(drawn.image, 0, top, width, bottom - top);
}

/**
 * A colour as the four bytes of a pixel.
 * @param {string} name of a custom property that is written as six hexadecimal digits
 * @param {string} [other] mixed in
 * @param {number} [share] how much of that
 * @returns {number}
 */
function pixel(name, other = name, share = 0) {
  const [own, mixed] = [name, other].map((one) => parseInt(color(one).slice(1), 16));
  const [red, green, blue] = [16, 8, 0].map((bits) => Math.round(((own >> bits) & 255) * (1 - share) + ((mixed >> bits) & 255) * share));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Colours of the cells of a log, from those of its last group on to those of its bars, as they were mixed last. @type {WeakMap<object, { of: string, inks: Uint32Array, edges: Uint32Array }>} */
const MIXED = new WeakMap();

/**
 * Of each group from the last one on, of nothing and of each bar its colour, and that of its edges; pale what is not sought.
 * @param {import("./app.js").App} app
 * @returns {{ inks: Uint32Array, edges: Uint32Array }}
 */
function mixed(app) {
  const size = app.lives.size.length, { groups, bars, key } = app.stacks.way, count = groups.length, of = [key, app.sought, size, color("back")].join(), known = MIXED.get(app);
  if (known?.of === of) return known;
  const made = { of, inks: new Uint32Array(count + 1 + size), edges: new Uint32Array(count + 1 + size) }, shades = groups.map(({ ink }) => [0, 0.45, 0.8, 0.92].map((share) => pixel(ink, "back", share)));
  /** @param {number} at @param {number} group @param {boolean} found */
  const set = (at, group, found) => ([made.inks[at], made.edges[at]] = found ? shades[group] : shades[group].slice(2));
  groups.forEach((_, group) => set(count - 1 - group, group, app.finds(group)));
  for (let bar = 0; bar < size; bar += 1) set(count + 1 + bar, bars[bar], app.found === null || Boolean(app.found[bar]));
  MIXED.set(app, made);
  return made;
}

/**
 * Colour the cells: areas and bars by their groups, with edges where there is room for them.
 * @param {import("./app.js").App} app
 * @param {Drawn} drawn
 * @param {number} width
 * @param {number} rows
 * @param {number} over the bar that the pointer is on
 */
export function paint(app, drawn, width, rows, over) {
  const { groups, bars } = app.stacks.way, count = groups.length, chosen = app.lives.blockOf(app.block), { inks, edges } = mixed(app);
  const special = [over, chosen].filter((bar) => bar >= 0).map((bar) => count + 1 + bar), before = special.map((at) => [inks[at], edges[at]]);
  if (over >= 0) inks[count + 1 + over] = pixel(groups[bars[over]].ink, "text", 0.3);
  // Against whatever lies beside it: one of the two stands out.
  if (chosen >= 0) [inks[count + 1 + chosen], edges[count + 1 + chosen]] = [pixel("text"), pixel("back")];
  toImage(drawn, width, rows, inks, edges, count);
  special.forEach((at, k) => ([inks[at], edges[at]] = before[k]));
}

/**
 * Cells as an image, with edges where there is room for them.
 * @param {Drawn} drawn
 * @param {number} width
 * @param {number} rows
 * @param {Uint32Array} inks of each group from the last one on, of nothing, and of each bar
 * @param {Uint32Array} edges likewise
 * @param {number} count groups
 */
function toImage(drawn, width, rows, inks, edges, count) {
  const { cells, image } = drawn;
  const context = /** @type {CanvasRenderingContext2D} */ (image.getContext("2d"));
  if (drawn.data?.width !== width || drawn.data.height !== Math.max(rows, 1)) {
    [image.width, image.height] = [width, Math.max(rows, 1)];
    drawn.data = context.createImageData(width, Math.max(rows, 1));
  }
  const pixels = new Uint32Array(drawn.data.data.buffer);
  for (let at = 0; at < cells.length; at += 1) {
    const cell = cells[at];
    if (cell === NOTHING) {
      pixels[at] = 0;
      continue;
    }
    // A bar has an edge where enough of it lies beside that, and so has the top of an area: what is thin keeps its colour.
    const edge = (cells[at - width] !== cell && cells[at + width] === cell && cells[at + 2 * width] === cell)
      || (cell > 0 && cells[at - 1] !== cell && cells[at + 1] === cell && cells[at + 2] === cell && (cells[at - width] === cell || cells[at + width] === cell));
    pixels[at] = edge ? edges[cell + count] : inks[cell + count];
  }
  context.putImageData(drawn.data, 0, 0);
}

/**
 * Areas alone, without bars.
 * @param {Drawn} drawn
 * @param {number} width
 * @param {number} rows
 * @param {{ ink: string }[]} groups
 */
export function paintAreas(drawn, width, rows, groups) {
  const [inks, edges] = [0, 0.45].map((share) => Uint32Array.from([...groups.map(({ ink }) => pixel(ink, "back", share)).reverse(), 0]));
  toImage(drawn, width, rows, inks, edges, groups.length);
}
