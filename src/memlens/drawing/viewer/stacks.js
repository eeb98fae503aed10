/** What is live by groups (`memlens.drawing.stacks`): the bytes of each right after any event, and how their areas lie on each other up to the level. */

import { bucketOf } from "./levels.js";

/** So many buckets of a long log have one moment of which the bytes of each group are known. */
const STRETCH = 8;

/**
 * A way to group what is live: its groups from the bottom of the stack, with their colours; those of sizes have bounds.
 * @typedef {{ key: string, name: string, groups: { ink: string, name: string, from?: number, to?: number }[], bars: Float64Array, others: Float64Array, sums: Float64Array[], start: number[][], codes: Float64Array[] }} Way
 */

export class Stacks {
  /**
   * @param {any} view
   * @param {import("./levels.js").Buckets} levels
   */
  constructor(view, levels) {
    /** @type {Way[]} */
    this.ways = view.ways;
    this.view = view;
    this.levels = levels;
    /** The way that is chosen. */
    this.chosen = 0;
    /** Of each way the bytes of its groups at the moments of all, and then in each stretch that is there event by event. @type {Float64Array[][][]} */
    this.known = [];
  }

  /** @returns {Way} */
  get way() {
    return this.ways[this.chosen];
  }

  /**
   * The bytes of each group right after an event; of an event that is not there by itself those at the highest moment near it.
   * @param {number} event
   * @param {number} [chosen] the way
   * @returns {{ event: number, sums: number[] }} the event that they are of
   */
  at(event, chosen = this.chosen) {
    const [columns, k, known] = this.placeOf(event, chosen);
    return { event: known, sums: columns.map((column) => column[k]) };
  }

  /**
   * @param {number} event
   * @param {number} chosen
   * @returns {[Float64Array[], number, number]} of each group its bytes over moments, the place of the event among these, and the event that they are of there
   */
  placeOf(event, chosen) {
    const { parts, whole } = this.levels, { moments } = this.view, stretch = moments?.length ? this.levels.stretchOf(event + 1) : 0, known = event < (parts[stretch]?.hi ?? event);
    const sums = (this.known[chosen] ??= [])[known ? stretch + 1 : 0] ??= known ? this.#sumsOf(chosen, stretch) : this.ways[chosen].sums;
    if (known) return [sums, event - parts[stretch].lo + 1, event];
    const at = Math.floor(bucketOf(whole, Math.min(Math.max(event, whole.lo), whole.hi - 1)) / STRETCH);
    return [sums, at, moments[at]];
  }

  /**
   * @param {number} chosen
   * @param {number} stretch that is there event by event
   * @returns {Float64Array[]} of each group the bytes before the first event, and right after each
   */
  #sumsOf(chosen, stretch) {
    const { groups, start, codes: { [stretch]: codes } } = this.ways[chosen], { lo, hi, columns } = this.levels.parts[stretch];
    const sums = groups.map(() => new Float64Array(codes.length + 1)), now = [...start[stretch]], { before, events, excess } = this.view;
    groups.forEach((_, group) => (sums[group][0] = now[group]));
    const odd = new Map(Array.from(events, (event, k) => [event, excess[k]]));
    let level = before[stretch];
    for (let event = lo, k = 0; event < hi; event += 1, k += 1) {
      // The first bucket has the level that the run starts from, too: where that is the higher one, the event's own is the lower.
      const after = k === 0 && columns.high_event?.[0] < lo ? columns.low_bytes[0] : columns.high_bytes[k];
      if (codes[k] < groups.length) now[codes[k]] += after - level - (odd.get(event) ?? 0);
      level = after;
      for (let group = 0; group < now.length; group += 1) sums[group][k + 1] = now[group];
    }
    return sums;
  }

  /**
   * Up to where the area of each group reaches in each column of a picture, column by column; the last one to the level.
   * @param {{ events: Float64Array, bytes: Float64Array }} columns
   * @returns {Float64Array}
   */
  tops({ events, bytes }) {
    const count = this.way.groups.length, tops = new Float64Array(events.length * count);
    for (let x = 0, at = 0; x < events.length; x += 1) {
      if (x > 0 && events[x] === events[x - 1] && bytes[x] === bytes[x - 1]) {
        tops.copyWithin(at, at - count, at);
        at += count;
        continue;
      }
      // What is freed that was never allocated makes the level lower than what is live; and between two known moments the top of the stack is what changes.
      let top = 0;
      const [columns, k] = this.placeOf(events[x], this.chosen);
      for (const sums of columns) tops[at++] = Math.min(top += sums[k], bytes[x]);
      tops[at - 1] = bytes[x];
    }
    return tops;
  }
}
