/** The extremes of any stretch of a column are those that one finds by looking at all of it. */

import assert from "node:assert/strict";
import test from "node:test";

import { Pyramid } from "../../src/memlens/drawing/viewer/levels.js";

/** A generator of numbers that gives the same ones each time (Lehmer's, modulus 2^31 - 1). */
function chances(seed) {
  let state = seed;
  return (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
}

/** The lowest of one column and the highest of another, looked at one by one. */
function byLooking(low, high, from, to) {
  let lowest = Infinity, highest = -Infinity;
  for (let i = from; i < to; i += 1) {
    lowest = Math.min(lowest, low[i]);
    highest = Math.max(highest, high[i]);
  }
  return [lowest, highest];
}

for (const length of [1, 2, 3, 7, 8, 9, 31, 64, 100]) {
  test(`every stretch of ${length} buckets`, () => {
    const chance = chances(length);
    const low = Float64Array.from({ length }, () => chance(1000) - 500);
    const high = low.map((value) => value + chance(100));
    const pyramid = new Pyramid(low, high);
    for (let from = 0; from <= length; from += 1)
      for (let to = from; to <= length; to += 1)
        assert.deepEqual(pyramid.extremes(from, to), byLooking(low, high, from, to), `${from} to ${to}`);
  });
}

test("a peak of one bucket is found in every stretch that holds it, and in no other", () => {
  const length = 5000, at = 3333;
  const values = new Float64Array(length);
  values[at] = 2 ** 50 + 1; // beyond single precision
  const pyramid = new Pyramid(values, values), chance = chances(7);
  for (let round = 0; round < 2000; round += 1) {
    const from = chance(length), to = from + chance(length - from) + 1;
    assert.equal(pyramid.extremes(from, to)[1], from <= at && at < to ? 2 ** 50 + 1 : 0);
  }
});

test("no bucket, no extremes", () => {
  const pyramid = new Pyramid(new Float64Array([3]), new Float64Array([4]));
  assert.deepEqual(pyramid.extremes(0, 0), [Infinity, -Infinity]);
});
