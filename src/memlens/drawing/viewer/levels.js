/** Curves in buckets of events, or of places of another axis; where they are told closely each one is a bucket. */

import { firstAtLeast } from "./axis.js";

/** Lowest and highest of any stretch of a column, from levels of detail: each level has the extremes of pairs of the one below. */
export class Pyramid {
  /**
   * @param {Float64Array} low the lowest of each bucket
   * @param {Float64Array} high the highest of each bucket; may be the same column
   */
  constructor(low, high) {
    this.low = halves(low, Math.min);
    this.high = halves(high, Math.max);
  }

  /**
   * The lowest and the highest of buckets `from … to - 1`; `[Infinity, -Infinity]` where there is none.
   * @param {number} from
   * @param {number} to
   * @returns {[number, number]}
   */
  extremes(from, to) {
    let low = Infinity, high = -Infinity;
    for (let level = 0; from < to; level += 1, from = (from + 1) >> 1, to >>= 1) { // what is not in a pair is at an end
      const lows = this.low[level], highs = this.high[level];
      low = Math.min(low, lows[from], lows[to - 1]);
      high = Math.max(high, highs[from], highs[to - 1]);
    }
    return [low, high];
  }
}

/**
 * A column, that of its pairs, and so on.
 * @param {Float64Array} values
 * @param {(a: number, b: number) => number} better
 * @returns {Float64Array[]}
 */
function halves(values, better) {
  const levels = [values];
  for (let all = values; all.length > 1; all = levels[levels.length - 1]) {
    const half = new Float64Array((all.length + 1) >> 1);
    for (let k = 0; k < half.length; k += 1) half[k] = better(all[2 * k], all[Math.min(2 * k + 1, all.length - 1)]);
    levels.push(half);
  }
  return levels;
}

/**
 * Neighbouring buckets of events `lo … hi - 1`, with edges where they hold several: what is known of each, and the extremes of the curves.
 * @typedef {{ lo: number, hi: number, edges: Float64Array | null, columns: any, curves: Record<string, Pyramid> }} Part
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
    const [part, first, last] = this.buckets(from, to);
    return first < last ? part.curves[curve].extremes(first, last) : [0, 0];
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
 * @param {any} columns
 * @param {number} lo
 * @param {Float64Array | null} edges
 * @param {Record<string, Float64Array[]>} curves the lowest and the highest of each bucket
 * @returns {Part}
 */
export function partOf(columns, lo, edges, curves) {
  const pyramids = Object.entries(curves).map(([name, [low, high]]) => [name, new Pyramid(low, high)]);
  return { lo, hi: edges ? edges[edges.length - 1] : lo + Object.values(curves)[0][0].length, edges, columns, curves: Object.fromEntries(pyramids) };
}

/** Allocated and reserved bytes of a run, as the page has them (`memlens.drawing.levels`). */
export class Levels extends Buckets {
  /** @param {any} columns */
  constructor({ details, ...whole }) {
    super([...details.map((/** @type {any} */ detail) => ({ ...detail, low_bytes: detail.bytes, high_bytes: detail.bytes })), whole].map((columns) =>
      partOf(columns, columns.lo ?? whole.edges[0], columns.edges ?? null, {
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
