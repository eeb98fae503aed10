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
