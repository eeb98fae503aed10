/** Lowest and highest of any stretch of a column, from levels of detail: each level has the extremes of pairs of the one below. */

export class Pyramid {
  /**
   * @param {Float64Array} low the lowest of each bucket
   * @param {Float64Array} high the highest of each bucket; may be the same column
   */
  constructor(low, high) {
    /** @type {Float64Array[]} */
    this.low = [low];
    /** @type {Float64Array[]} */
    this.high = [high];
    while (this.low[this.low.length - 1].length > 1) {
      this.low.push(halved(this.low[this.low.length - 1], Math.min));
      this.high.push(halved(this.high[this.high.length - 1], Math.max));
    }
  }

  /**
   * The lowest and the highest of buckets `from … to - 1`; `[Infinity, -Infinity]` where there is none.
   * @param {number} from
   * @param {number} to
   * @returns {[number, number]}
   */
  extremes(from, to) {
    let low = Infinity, high = -Infinity;
    for (let level = 0; from < to; level += 1) {
      if (from % 2) {
        low = Math.min(low, this.low[level][from]);
        high = Math.max(high, this.high[level][from]);
        from += 1;
      }
      if (to % 2) {
        to -= 1;
        low = Math.min(low, this.low[level][to]);
        high = Math.max(high, this.high[level][to]);
      }
      from /= 2;
      to /= 2;
    }
    return [low, high];
  }
}

/**
 * @param {Float64Array} values
 * @param {(a: number, b: number) => number} better
 * @returns {Float64Array}
 */
function halved(values, better) {
  const half = new Float64Array((values.length + 1) >> 1);
  for (let i = 0; i < half.length; i += 1) {
    const left = values[2 * i];
    half[i] = 2 * i + 1 < values.length ? better(left, values[2 * i + 1]) : left;
  }
  return half;
}
