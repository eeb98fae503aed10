/** Areas, lines and the cells of blocks as pixels. */

import { color, sharpness } from "./canvas.js";
import { columnsOf, NOTHING } from "./lives.js";

/**
 * The lowest and the highest of a curve at each pixel.
 * @typedef {{ low: Float64Array, high: Float64Array }} Pixels
 */

/**
 * The pixels of a picture, a column for each CSS pixel and a row for each of the screen. They are put on the canvas at once: a browser without a GPU takes longer
 * for a rectangle than for many pixels here, and a curve has a rectangle in each column.
 */
export class Bitmap {
  constructor() {
    this.image = document.createElement("canvas");
    this.data = new ImageData(1, 1);
    this.pixels = new Uint32Array(1);
    this.width = this.rows = this.ratio = 1;
    this.of = "";
  }

  /**
   * Paint a picture down to a place in it, and put it on its canvas.
   * @param {CanvasRenderingContext2D} context
   * @param {number} width in CSS pixels
   * @param {number} height
   * @param {() => void} paint begins with all pixels (`clear`, `drawAreas`)
   * @param {string} [of] what it is painted of, where that is not painted again
   */
  show(context, width, height, paint, of = "") {
    const rows = Math.max(Math.round(height * sharpness()), 1), same = this.width === width && this.rows === rows;
    if (!same) {
      Object.assign(this, { width, rows, ratio: rows / height, data: new ImageData(width, rows) });
      [this.image.width, this.image.height] = [width, rows];
      this.pixels = new Uint32Array(this.data.data.buffer);
    }
    if (!same || !of || of !== this.of) {
      paint();
      this.image.getContext("2d")?.putImageData(this.data, 0, 0);
      this.of = of;
    }
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, 0, 0, width, height);
  }

  clear(end = this.pixels.length) {
    this.pixels.fill(0, 0, end);
    return this;
  }

  /**
   * Fill a stretch of each column; what covers a part of a pixel has that part of its colour.
   * @param {string} name of the colour
   * @param {Float64Array} tops in CSS pixels
   * @param {Float64Array} bottoms
   */
  fill(name, tops, bottoms) {
    const { pixels, width, rows, ratio } = this, ink = pixel(name);
    for (let x = 0; x < tops.length; x += 1) {
      const begin = Math.max(tops[x] * ratio, 0), end = Math.min(bottoms[x] * ratio, rows), whole = Math.floor(end);
      let row = Math.floor(begin), at = row * width + x;
      if (row < begin && begin < end) {
        pixels[at] = blended(pixels[at], ink, Math.min(row + 1, end) - begin);
        [row, at] = [row + 1, at + width];
      }
      for (; row < whole; row += 1, at += width) pixels[at] = ink;
      if (row < end) pixels[at] = blended(pixels[at], ink, end - row);
    }
  }

  /**
   * From nothing to a level of each pixel.
   * @param {import("./track.js").Frame} frame
   * @param {Float64Array} levels
   * @param {string} ink
   */
  area({ y, bottom }, levels, ink) {
    const zero = Math.min(Math.max(y(0), 0), bottom), tall = levels.map((bytes) => bytes && Math.max(Math.abs(zero - y(bytes)), 1));
    this.fill(ink, tall.map((high, x) => (levels[x] > 0 ? zero - high : zero)), tall.map((high, x) => (levels[x] > 0 ? zero : zero + high)));
  }

  /**
   * A line through all levels of each pixel, from what is nearer to the level before, so that a step is a step.
   * @param {import("./track.js").Frame} frame
   * @param {Pixels} pixels
   * @param {string} ink
   */
  line({ y }, { low, high }, ink) {
    let before = low[0];
    const ends = low.map((least, x) => {
      const last = before;
      before = Math.abs(before - least) <= Math.abs(before - high[x]) ? high[x] : least;
      return last;
    });
    this.fill(ink, high.map((most, x) => y(Math.max(most, ends[x])) - 0.75), low.map((least, x) => y(Math.min(least, ends[x])) + 0.75));
  }
}

/**
 * What was drawn last, and what it was drawn of; of each group from the last one on, of nothing and of each bar its colour, and that of its edges.
 * @typedef {{ cellsOf: string, imageOf: string, inksOf: string, cells: Int32Array, events: Float64Array, inks: Uint32Array, edges: Uint32Array, pixels: Uint32Array }} Drawn
 * @returns {Drawn}
 */
export const nothingDrawn = () => ({
  cellsOf: "", imageOf: "", inksOf: "", cells: new Int32Array(), events: new Float64Array(), inks: new Uint32Array(), edges: new Uint32Array(), pixels: new Uint32Array(),
});

/**
 * The areas up to the highest level of each column, and bars in them: worked out again where another part or other groups are shown, and coloured again where
 * they look different.
 * @param {Bitmap} bitmap
 * @param {import("./track.js").Frame & { high: number }} frame
 * @param {Drawn} drawn
 * @param {import("./levels.js").Buckets} levels
 * @param {import("./stacks.js").Stacks} stacks
 * @param {import("./lives.js").Lives} lives
 * @param {{ found?: ArrayLike<number> | null, sought?: string, over?: number, chosen?: number }} [how] what is sought, and of each bar whether it is that; the bar that the
 * pointer is on, and the one that is selected
 */
export function drawAreas(bitmap, { axis, width, low, high, top }, drawn, levels, stacks, lives, { found = null, sought = "", over = -1, chosen = -1 } = {}) {
  const { way: { groups, bars = [] } } = stacks, count = groups.length, size = lives.size.length, rows = Math.max(bitmap.rows - Math.round(top * bitmap.ratio), 1);
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
    toPixels(drawn, width, count);
    special.forEach((at, k) => ([inks[at], edges[at]] = before[k]));
  }
  drawn.imageOf = imageOf;
  const begin = (bitmap.rows - rows) * width;
  bitmap.clear(begin).pixels.set(drawn.pixels, begin);
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
 * A pixel that another colour lies over.
 * @param {number} under
 * @param {number} ink
 * @param {number} share how much of the pixel that covers
 * @returns {number}
 */
function blended(under, ink, share) {
  const seen = (under >>> 24) * (1 - share), alpha = seen + 255 * share, own = (255 * share) / alpha;
  let mixed = Math.round(alpha) << 24;
  for (let bits = 0; bits < 24; bits += 8) mixed |= Math.round(((under >> bits) & 255) * (1 - own) + ((ink >> bits) & 255) * own) << bits;
  return mixed >>> 0;
}

/**
 * Cells as pixels, with edges where there is room for them.
 * @param {Drawn} drawn
 * @param {number} width
 * @param {number} count groups
 */
function toPixels(drawn, width, count) {
  const { cells, inks, edges } = drawn, pixels = drawn.pixels.length === cells.length ? drawn.pixels : (drawn.pixels = new Uint32Array(cells.length));
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
}
