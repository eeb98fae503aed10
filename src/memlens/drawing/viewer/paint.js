/** The cells of a picture as pixels. */

import { color } from "./canvas.js";
import { columnsOf, NOTHING } from "./lives.js";

/**
 * What was drawn last, and what it was drawn of; of each group from the last one on, of nothing and of each bar its colour, and that of its edges.
 * @typedef {{ cellsOf: string, imageOf: string, inksOf: string, cells: Int32Array, events: Float64Array, inks: Uint32Array, edges: Uint32Array, image: HTMLCanvasElement, data: ImageData | null }} Drawn
 * @returns {Drawn}
 */
export const nothingDrawn = () => ({
  cellsOf: "", imageOf: "", inksOf: "", cells: new Int32Array(), events: new Float64Array(), inks: new Uint32Array(), edges: new Uint32Array(), image: document.createElement("canvas"), data: null,
});

/**
 * The areas up to the highest level of each column, and bars in them: worked out again where another part or other groups are shown, and coloured again where
 * they look different.
 * @param {import("./track.js").Frame & { high: number }} frame
 * @param {Drawn} drawn
 * @param {import("./levels.js").Buckets} levels
 * @param {import("./stacks.js").Stacks} stacks
 * @param {import("./lives.js").Lives} lives
 * @param {{ found?: ArrayLike<number> | null, sought?: string, over?: number, chosen?: number }} [how] what is sought, and of each bar whether it is that; the bar that the
 * pointer is on, and the one that is selected
 */
export function drawAreas({ context, axis, width, low, high, top, bottom }, drawn, levels, stacks, lives, { found = null, sought = "", over = -1, chosen = -1 } = {}) {
  const { way: { groups, bars = [] } } = stacks, count = groups.length, size = lives.size.length, rows = Math.max(Math.round((bottom - top) * (window.devicePixelRatio || 1)), 1);
  const inksOf = [stacks.chosen, sought, size, color("back")].join(), cellsOf = [axis.from, axis.to, axis.overTime, width, rows, low, high, inksOf].join(), imageOf = [cellsOf, over, chosen].join();
  if (cellsOf !== drawn.cellsOf) {
    const columns = columnsOf(levels, axis, width), cells = lives.cells(columns, stacks.tops(columns), bars, rows, [low, high], axis, found, drawn.cells);
    Object.assign(drawn, { cellsOf, cells, events: columns.events });
  }
  if (inksOf !== drawn.inksOf) {
    Object.assign(drawn, { inksOf, inks: new Uint32Array(count + 1 + size), edges: new Uint32Array(count + 1 + size) });
    const shades = groups.map(({ ink }) => [0, 0.45, 0.8, 0.92].map((share) => pixel(ink, "back", share)));
    // Pale is what is not sought.
    const set = (/** @type {number} */ at, /** @type {number} */ group, /** @type {boolean} */ is) => ([drawn.inks[at], drawn.edges[at]] = is ? shades[group] : shades[group].slice(2));
    groups.forEach(({ name }, group) => set(count - 1 - group, group, name.toLowerCase().includes(sought)));
    for (let bar = 0; bar < size; bar += 1) set(count + 1 + bar, bars[bar], found === null || Boolean(found[bar]));
  }
  if (imageOf !== drawn.imageOf) {
    const { inks, edges } = drawn, special = [over, chosen].filter((bar) => bar >= 0).map((bar) => count + 1 + bar), before = special.map((at) => [inks[at], edges[at]]);
    if (over >= 0) inks[count + 1 + over] = pixel(groups[bars[over]].ink, "text", 0.3);
    // Against whatever lies beside it: one of the two stands out.
    if (chosen >= 0) [inks[count + 1 + chosen], edges[count + 1 + chosen]] = [pixel("text"), pixel("back")];
    toImage(drawn, width, rows, count);
    special.forEach((at, k) => ([inks[at], edges[at]] = before[k]));
  }
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

/**
 * Cells as an image, with edges where there is room for them.
 * @param {Drawn} drawn
 * @param {number} width
 * @param {number} rows
 * @param {number} count groups
 */
function toImage(drawn, width, rows, count) {
  const { cells, image, inks, edges } = drawn;
  const context = /** @type {CanvasRenderingContext2D} */ (image.getContext("2d"));
  if (drawn.data?.width !== width || drawn.data.height !== rows) {
    [image.width, image.height] = [width, rows];
    drawn.data = context.createImageData(width, rows);
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
