/** The levels of a run as the page has them (`memlens.drawing.levels`): buckets of events, and stretches in which each event is there. */

import { Pyramid } from "./pyramid.js";

/**
 * Levels of neighbouring buckets; of a stretch that is there event by event each bucket is one event.
 * @typedef {Object} Part
 * @property {number} lo the first event
 * @property {number} hi the event after the last one
 * @property {(event: number) => number} bucket the bucket of an event
 * @property {(bucket: number) => number} size how many events a bucket has
 * @property {Pyramid} allocated
 * @property {Pyramid} reserved
 * @property {Float64Array} high the highest allocated level of each bucket
 * @property {Float64Array} chunks the highest reserved one
 * @property {(bucket: number) => number} event the event that reaches the highest level
 * @property {Float64Array} line its line, 0 where unknown
 * @property {Float64Array} owner its owner's number, -1 for none
 */

/**
 * The highest level of a stretch.
 * @typedef {Object} Highest
 * @property {number} event the event that reaches it; the one before the first where the run starts from it
 * @property {number} bytes
 * @property {number} reserved the highest reserved level of its bucket
 * @property {number} size how many events the bucket has
 * @property {number} line 0 where unknown
 * @property {number} owner -1 for none
 */

export class Levels {
  /** @param {any} columns */
  constructor(columns) {
    const { edges, low_bytes: low, high_bytes: high, reserved_bytes: chunks } = columns;
    const buckets = high.length, lo = buckets ? edges[0] : 0, hi = buckets ? edges[buckets] : 0;
    /** @type {Part} */
    this.whole = {
      lo, hi,
      bucket: (event) => bucketOf(edges, event),
      size: (bucket) => edges[bucket + 1] - edges[bucket],
      allocated: new Pyramid(low, high),
      reserved: new Pyramid(chunks, chunks),
      high, chunks,
      event: (bucket) => columns.high_event[bucket],
      line: columns.line,
      owner: columns.owner,
    };
    /** @type {Part[]} */
    this.details = columns.details.map(detailOf);
    const [lowest, peak, reservedPeak] = this.extremes(lo, hi);
    this.lowest = lowest;
    this.peak = peak;
    this.reservedPeak = reservedPeak;
  }

  /**
   * The buckets that hold events `from … to - 1`, of the closest part that has all of them.
   * @param {number} from with a fraction: what an event reaches lasts until the next one
   * @param {number} to
   * @returns {[Part, number, number]} the part, the first bucket, and the one after the last; none where the log is empty
   */
  buckets(from, to) {
    const first = Math.max(Math.floor(from), this.whole.lo), last = Math.min(Math.max(Math.ceil(to), first + 1), this.whole.hi);
    if (first >= last) return [this.whole, 0, 0];
    const part = this.details.find((detail) => detail.lo <= first && last <= detail.hi) ?? this.whole;
    return [part, part.bucket(first), part.bucket(last - 1) + 1];
  }

  /**
   * The lowest and the highest allocated and the highest reserved level of a stretch of events.
   * @param {number} from
   * @param {number} to
   * @returns {[number, number, number]}
   */
  extremes(from, to) {
    const [part, first, last] = this.buckets(from, to);
    if (first === last) return [0, 0, 0];
    return [...part.allocated.extremes(first, last), part.reserved.extremes(first, last)[1]];
  }

  /**
   * The event that first reaches the highest level of a stretch; `null` where there is none.
   * @param {number} from
   * @param {number} to
   * @returns {Highest | null}
   */
  highest(from, to) {
    const [part, first, last] = this.buckets(from, to);
    if (first === last) return null;
    let best = first;
    for (let bucket = first + 1; bucket < last; bucket += 1) if (part.high[bucket] > part.high[best]) best = bucket;
    return {
      event: part.event(best),
      bytes: part.high[best],
      reserved: part.chunks[best],
      size: part.size(best),
      line: part.line[best],
      owner: part.owner[best],
    };
  }
}

/**
 * @param {any} columns
 * @returns {Part}
 */
function detailOf(columns) {
  const { lo, bytes: high, reserved_bytes: chunks, line, owner } = columns;
  return {
    lo,
    hi: lo + high.length,
    bucket: (event) => event - lo,
    size: () => 1,
    allocated: new Pyramid(high, high),
    reserved: new Pyramid(chunks, chunks),
    high, chunks,
    event: (bucket) => lo + bucket,
    line, owner,
  };
}

/**
 * The bucket of an event: they are nearly alike in size, so the first guess is hardly ever off by more than one.
 * @param {Float64Array} edges
 * @param {number} event one of theirs
 * @returns {number}
 */
function bucketOf(edges, event) {
  const buckets = edges.length - 1;
  let bucket = Math.floor(((event - edges[0]) / (edges[buckets] - edges[0])) * buckets);
  bucket = Math.min(Math.max(bucket, 0), buckets - 1);
  while (edges[bucket] > event) bucket -= 1;
  while (edges[bucket + 1] <= event) bucket += 1;
  return bucket;
}
