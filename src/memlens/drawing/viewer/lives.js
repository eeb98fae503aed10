/** The areas of a picture and the bars of single blocks in them: which lies where, worked out without a canvas. */

import { firstAtLeast } from "./axis.js";

/** The cell of a picture where nothing is; those of groups lie below it, those of bars above. */
export const NOTHING = 0;
/** A bar is at least so high and so wide in pixels; what would be smaller stays in the area of its group. */
const LEAST_HIGH = 2, LEAST_WIDE = 3;

/**
 * A picture of cells, a row after the other, the top one first: of each column the event with the highest level among its own, and that level.
 * @typedef {{ cells: Int32Array, events: Float64Array, bytes: Float64Array }} Cells
 */

export class Lives {
  /** @param {any} lifetimes columns of blocks (`memlens.drawing.lifetimes`) */
  constructor(lifetimes) {
    /** @type {Float64Array} */
    this.alloc = lifetimes.alloc;
    /** @type {Float64Array} */
    this.free = lifetimes.free;
    /** @type {Float64Array} */
    this.size = lifetimes.size_bytes;
    /** The blocks from the bottom of an area to its top: what lives long moves nothing that lies above it. */
    this.order = Int32Array.from(this.alloc.keys()).sort((a, b) => this.free[b] - this.alloc[b] - this.free[a] + this.alloc[a] || a - b);
  }

  /**
   * Which group or block each cell of a picture shows: minus one and the number of the group below that, or the number of the block and one.
   * @param {{ events: Float64Array, bytes: Float64Array }} columns
   * @param {Float64Array} tops up to where each group reaches, column by column (`Stacks.tops`)
   * @param {ArrayLike<number>} groupOf the group of each block
   * @param {number} rows
   * @param {[number, number]} scale the bytes at the bottom and at the top
   * @param {{ toPixel: (event: number, width: number) => number }} axis
   * @param {ArrayLike<number> | null} [found] of each block whether it is sought: those lie at the bottom of their areas, however small they are
   * @param {Int32Array} [before] cells that are not needed any more
   * @returns {Int32Array}
   */
  cells({ events }, tops, groupOf, rows, [low, high], axis, found = null, before = undefined) {
    const width = events.length, cells = before?.length === width * rows ? before.fill(NOTHING) : new Int32Array(width * rows), count = tops.length / Math.max(width, 1);
    const row = (/** @type {number} */ bytes) => Math.min(Math.max(Math.round(((bytes - low) / (high - low)) * rows), 0), rows);
    const least = (LEAST_HIGH * (high - low)) / rows, bars = Array.from({ length: count }, () => /** @type {number[]} */ ([]));
    const seen = this.order.filter((bar) => this.alloc[bar] <= events[width - 1] && this.free[bar] > events[0]);
    /** @param {number} bar */
    const large = (bar) => this.size[bar] >= least && axis.toPixel(this.free[bar], width) - axis.toPixel(this.alloc[bar], width) >= LEAST_WIDE;
    if (found) for (const bar of seen) if (found[bar]) bars[groupOf[bar]].push(bar);
    for (const bar of seen) if (!found?.[bar] && large(bar)) bars[groupOf[bar]].push(bar);
    for (let x = 0; x < width; x += 1) {
      let at = (rows - row(0) - 1) * width + x, reached = row(0), below = 0;
      for (let group = 0; group < count; group += 1) {
        const top = tops[x * count + group], end = row(top);
        /** @param {number} to @param {number} cell */
        const fill = (to, cell) => {
          for (; reached < to; reached += 1, at -= width) cells[at] = cell;
        };
        if (end > reached)
          for (const bar of bars[group])
            if (this.alloc[bar] <= events[x] && events[x] < this.free[bar]) fill(Math.min(row(below += this.size[bar]), end), bar + 1);
        fill(end, -1 - group);
        below = top;
      }
    }
    return cells;
  }

  /**
   * The number of the block that an event allocates; -1 where it has no bar.
   * @param {number} event
   * @returns {number}
   */
  blockOf(event) {
    const bar = firstAtLeast(this.alloc, event);
    return this.alloc[bar] === event ? bar : -1;
  }
}

/**
 * Of each column of a picture the event with the highest level among its own, and that level.
 * @param {import("./levels.js").Buckets} levels
 * @param {import("./axis.js").Axis} axis
 * @param {number} width in pixels
 * @returns {{ events: Float64Array, bytes: Float64Array }} the events do not fall
 */
export function columnsOf(levels, axis, width) {
  const events = new Float64Array(width), bytes = new Float64Array(width);
  levels.pixels(axis, width).forEach((buckets, x) => {
    const found = levels.highestOf(buckets);
    if (!found) return;
    // A bucket may reach beyond its column; what is drawn does not go back.
    const stays = x > 0 && events[x - 1] > found.event;
    events[x] = stays ? events[x - 1] : found.event;
    bytes[x] = stays ? bytes[x - 1] : found.bytes;
  });
  return { events, bytes };
}

export const NO_BARS = new Lives({ alloc: new Float64Array(), free: new Float64Array(), size_bytes: new Float64Array() });
