/** Bars of blocks, stacked on each other up to the curve: which lies where, worked out without a canvas. */

import { firstAtLeast } from "./axis.js";

/** The cell of a picture where nothing is, and the one of what has no bar of its own. */
export const NOTHING = 0, REST = -1;

export class Lives {
  /**
   * @param {any} lifetimes columns of blocks (`memlens.drawing.lifetimes`)
   * @param {{ highest: (from: number, to: number) => { event: number, bytes: number } | null }} levels
   */
  constructor(lifetimes, levels) {
    /** @type {Float64Array} */
    this.alloc = lifetimes.alloc;
    /** @type {Float64Array} */
    this.free = lifetimes.free;
    /** @type {Float64Array} */
    this.size = lifetimes.size_bytes;
    this.levels = levels;
    /** The blocks in the order of their ends; their numbers are the order of their beginnings. */
    this.byFree = Int32Array.from(this.alloc.keys()).sort((a, b) => this.free[a] - this.free[b] || a - b);
    /** The most bytes of bars that are live together; above the peak where a log frees what it never allocated. @type {number} */
    this.most = lifetimes.most_bytes;
    /** The blocks from the bottom of the stack to its top: what lives long moves nothing that lies above it. */
    this.order = Int32Array.from(this.alloc.keys()).sort((a, b) => this.free[b] - this.alloc[b] - this.free[a] + this.alloc[a] || a - b);
  }

  /**
   * Of each column of a picture the event with the highest level among its own, and that level.
   * @param {{ toEvent: (pixel: number, width: number) => number }} axis
   * @param {number} width in pixels
   * @returns {{ events: Float64Array, bytes: Float64Array }} the events do not fall
   */
  columns(axis, width) {
    const events = new Float64Array(width), bytes = new Float64Array(width);
    for (let x = 0; x < width; x += 1) {
      const found = this.levels.highest(axis.toEvent(x, width), axis.toEvent(x + 1, width));
      if (!found) break;
      // A bucket may reach beyond its column; what is drawn does not go back.
      const stays = x > 0 && events[x - 1] > found.event;
      events[x] = stays ? events[x - 1] : found.event;
      bytes[x] = stays ? bytes[x - 1] : found.bytes;
    }
    return { events, bytes };
  }

  /**
   * Which block each cell of a picture shows: its number and one, `NOTHING` or `REST`.
   *
   * From a column to the next one little changes, and mostly at the top, where what lives shortly is: what lies below that is copied.
   * @param {{ events: Float64Array, bytes: Float64Array }} columns
   * @param {number} rows
   * @param {number} most bytes that the rows stand for
   * @returns {Int32Array} a row after the other, the top one first
   */
  cells({ events, bytes }, rows, most) {
    const width = events.length, cells = new Int32Array(width * rows), scale = most > 0 ? rows / most : 0;
    const bars = this.order.filter((bar) => this.alloc[bar] <= events[width - 1] && this.free[bar] > events[0]);
    const live = new Uint8Array(bars.length), below = new Float64Array(bars.length + 1), placeOf = new Int32Array(this.size.length).fill(-1);
    bars.forEach((bar, place) => (placeOf[bar] = place));
    let born = 0, gone = 0, first = 0;
    /** @param {number} bar @param {number} event */
    const see = (bar, event) => {
      const place = placeOf[bar], now = this.alloc[bar] <= event && event < this.free[bar] ? 1 : 0;
      if (place < 0 || now === live[place]) return;
      live[place] = now;
      first = Math.min(first, place);
    };
    for (let x = 0; x < width; x += 1) {
      const event = events[x];
      first = x ? bars.length : 0;
      for (; born < this.alloc.length && this.alloc[born] <= event; born += 1) see(born, event);
      for (; gone < this.byFree.length && this.free[this.byFree[gone]] <= event; gone += 1) see(this.byFree[gone], event);
      let row = Math.min(Math.round(below[first] * scale), rows), at = (rows - 1) * width + x;
      for (let k = 0; k < row; k += 1, at -= width) cells[at] = cells[at - 1];
      for (let place = first; place < bars.length; place += 1) {
        below[place + 1] = below[place];
        if (!live[place]) continue;
        below[place + 1] += this.size[bars[place]];
        const top = Math.min(Math.round(below[place + 1] * scale), rows);
        for (; row < top; row += 1, at -= width) cells[at] = bars[place] + 1;
      }
      for (const top = Math.min(Math.round(bytes[x] * scale), rows); row < top; row += 1, at -= width) cells[at] = REST;
    }
    return cells;
  }

  /**
   * @param {{ toEvent: (pixel: number, width: number) => number }} axis
   * @param {number} width
   * @param {number} rows
   * @param {number} most bytes that the rows stand for
   */
  picture(axis, width, rows, most) {
    const columns = this.columns(axis, width);
    return { columns, cells: this.cells(columns, rows, most) };
  }

  /**
   * The blocks that are live right after an event, the largest first.
   * @param {number} event
   * @returns {number[]}
   */
  liveAfter(event) {
    return Array.from(this.alloc.keys())
      .filter((bar) => this.alloc[bar] <= event && event < this.free[bar])
      .sort((a, b) => this.size[b] - this.size[a] || a - b);
  }

  /**
   * Bytes of the bars that are live right after an event; the rest up to the level has no bars.
   * @param {number} event
   * @returns {number}
   */
  bytesAfter(event) {
    return this.liveAfter(event).reduce((sum, bar) => sum + this.size[bar], 0);
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

/** @type {WeakMap<object, Lives>} */
const KNOWN = new WeakMap();

/**
 * The bars of the log that is shown, made once.
 * @param {import("./app.js").App} app
 * @returns {Lives}
 */
export function livesOf(app) {
  const known = KNOWN.get(app) ?? new Lives(app.view.lifetimes, app.levels);
  KNOWN.set(app, known);
  return known;
}
