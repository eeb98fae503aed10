/** Curves in buckets of events, or of places of another axis; where they are told closely each one is a bucket. */

import { firstAtLeast } from "./axis.js";

/**
 * Neighbouring buckets of events `lo … hi - 1`, with edges where they hold several: what is known of each, and of each curve the lowest and the highest levels.
 * @typedef {{ lo: number, hi: number, edges: Float64Array | null, columns: any, curves: Record<string, [Float64Array, Float64Array]> }} Part
 */

/**
 * The highest level of a stretch: the event that reaches it (the one before the first where the run starts from it), and of its bucket the highest reserved
 * level and how many events it has; a line of 0 and an owner of -1 are unknown.
 * @typedef {{ event: number, bytes: number, reserved: number, size: number, line: number, owner: number }} Highest
 */

export class Buckets {
  /** @type {[Part, number, number][]} */
  #pixels = [];

  /** @param {Part[]} parts stretches in order, none over another one, and then the whole */
  constructor(parts) {
    this.parts = parts;
    this.begins = Float64Array.from(parts.slice(0, -1), ({ lo }) => lo);
    this.whole = parts[parts.length - 1];
    this.pixelsOf = "";
  }

  /**
   * The buckets of events `from … to - 1`, of the closest part that has all of them: the first, and the one after the last; none where there is no event.
   * @param {number} from with a fraction: what an event reaches lasts until the next one
   * @param {number} to
   * @returns {[Part, number, number]}
   */
  buckets(from, to) {
    const { lo, hi } = this.whole, first = Math.max(Math.floor(from), lo), last = Math.min(Math.max(Math.ceil(to), first + 1), hi);
    if (first >= last) return [this.whole, 0, 0];
    const near = this.parts[this.stretchOf(first)], part = near && last <= near.hi ? near : this.whole;
    return [part, bucketOf(part, first), bucketOf(part, last - 1) + 1];
  }

  /**
   * @param {number} event
   * @returns {number} the last stretch that begins no later, -1 for none
   */
  stretchOf(event) {
    return firstAtLeast(this.begins, event + 1) - 1;
  }

  /**
   * The lowest and the highest of a curve; 0 where there is no event.
   * @param {string} curve
   * @param {number} from
   * @param {number} to
   * @returns {[number, number]}
   */
  extremes(curve, from, to) {
    return this.extremesOf(this.buckets(from, to), curve);
  }

  /**
   * @param {[Part, number, number]} buckets
   * @param {string} curve
   * @returns {[number, number]} the same of some buckets
   */
  extremesOf([{ curves }, first, last], curve) {
    const [lows, highs] = curves[curve];
    let low = first < last ? Infinity : 0, high = first < last ? -Infinity : 0;
    for (let bucket = first; bucket < last; bucket += 1) {
      if (lows[bucket] < low) low = lows[bucket];
      if (highs[bucket] > high) high = highs[bucket];
    }
    return [low, high];
  }

  /**
   * The buckets of each pixel of a picture, looked up once for all that is drawn of one part of an axis.
   * @param {import("./axis.js").Axis} axis
   * @param {number} width
   * @returns {[Part, number, number][]}
   */
  pixels(axis, width) {
    const of = [axis.from, axis.to, axis.overTime, width].join();
    if (of !== this.pixelsOf) {
      let to = axis.toEvent(0, width);
      this.#pixels = Array.from({ length: width }, (_, x) => this.buckets(to, to = axis.toEvent(x + 1, width)));
      this.pixelsOf = of;
    }
    return this.#pixels;
  }

  /**
   * The first of some buckets in which a column is highest.
   * @param {[Part, number, number]} buckets
   * @param {string} name
   * @returns {number} -1 where there is none
   */
  best([{ columns }, first, last], name) {
    const values = columns[name];
    let best = first < last ? first : -1;
    for (let bucket = first + 1; bucket < last; bucket += 1) if (values[bucket] > values[best]) best = bucket;
    return best;
  }

  /**
   * @param {[Part, number, number]} buckets
   * @returns {Highest | null} of their events
   */
  highestOf(buckets) {
    const best = this.best(buckets, "high_bytes"), [{ lo, edges, columns }] = buckets;
    return best < 0 ? null : {
      event: columns.high_event?.[best] ?? lo + best, size: edges ? edges[best + 1] - edges[best] : 1,
      bytes: columns.high_bytes[best], reserved: columns.reserved_bytes?.[best], line: columns.line?.[best], owner: columns.owner?.[best],
    };
  }
}

/**
 * The bucket of an event: they are nearly alike in size, so the first guess is hardly ever off by more than one.
 * @param {Part} part
 * @param {number} event one of its own
 * @returns {number}
 */
export function bucketOf({ lo, hi, edges }, event) {
  if (!edges) return event - lo;
  let bucket = Math.floor(((event - lo) / (hi - lo)) * (edges.length - 1));
  while (edges[bucket] > event) bucket -= 1;
  while (edges[bucket + 1] <= event) bucket += 1;
  return bucket;
}

/**
 * @param {any} columns of buckets; without edges each event from their `lo` on is one
 * @param {number} lo
 * @param {Record<string, [Float64Array, Float64Array]>} curves
 * @returns {Part}
 */
export function partOf({ edges = null, ...columns }, lo, curves) {
  return { lo, hi: edges ? edges[edges.length - 1] : lo + Object.values(curves)[0][0].length, edges, columns, curves };
}

/** Allocated and reserved bytes of a run, as the page has them (`memlens.drawing.levels`). */
export class Levels extends Buckets {
  /** @param {any} columns */
  constructor({ details, ...whole }) {
    super([...details.map((/** @type {any} */ detail) => ({ ...detail, low_bytes: detail.bytes, high_bytes: detail.bytes })), whole].map((columns) =>
      partOf(columns, columns.lo ?? whole.edges[0], {
        allocated: [columns.low_bytes, columns.high_bytes], reserved: [columns.reserved_bytes, columns.reserved_bytes],
      })));
    const { lo, hi } = this.whole, [lowest, peak] = this.extremes("allocated", lo, hi);
    this.lowest = lowest;
    this.peak = peak;
    this.reservedPeak = this.extremes("reserved", lo, hi)[1];
  }

  /**
   * The level right after an event that is there by itself, and its line; nothing of another one.
   * @param {number} event
   * @returns {{ bytes: number, line: number } | null}
   */
  after(event) {
    const [{ lo, hi, edges, columns }] = this.buckets(event, event + 1), k = event - lo;
    if (!(lo <= event && event < hi && (!edges || edges.length === hi - lo + 1))) return null;
    // The first bucket has the level that the run starts from, too: where that is the higher one, the event's own is the lower.
    return { bytes: k === 0 && columns.high_event?.[0] < lo ? columns.low_bytes[0] : columns.high_bytes[k], line: columns.line[k] };
  }

  /**
   * @param {number} from
   * @param {number} to
   * @returns {Highest | null}
   */
  highest(from, to) {
    return this.highestOf(this.buckets(from, to));
  }
}
