/** The curves of two runs: what is drawn and told of any stretch is what one finds by looking at every slot of it. */

import assert from "node:assert/strict";
import test from "node:test";

import { Curves } from "../../src/memlens/drawing/viewer/diff.js";

/** A generator of numbers that gives the same ones each time (Lehmer's, modulus 2^31 - 1). */
function chances(seed) {
  let state = seed;
  return (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
}

/** Levels and lines of both runs at each slot. */
function slotsOf(count, chance) {
  const column = (below) => Float64Array.from({ length: count }, () => chance(below));
  return { base_bytes: column(1000), head_bytes: column(1000), base_line: column(99), head_line: column(99) };
}

/** What the page has of them in so many buckets. */
function bucketsOf(slots, count) {
  const length = slots.base_bytes.length;
  const edges = Float64Array.from({ length: count + 1 }, (_, k) => Math.floor((k * length) / count));
  const columns = { edges, slot: [], other: [], base_low: [], base_high: [], head_low: [], head_high: [], base_bytes: [], head_bytes: [], base_line: [], head_line: [] };
  for (let k = 0; k < count; k += 1) {
    const own = [...Array(edges[k + 1] - edges[k]).keys()].map((n) => n + edges[k]);
    const apart = own.map((slot) => slots.head_bytes[slot] - slots.base_bytes[slot]);
    const slot = own.reduce((best, one) => (distance(slots, one) > distance(slots, best) ? one : best));
    columns.other.push(slots.head_bytes[slot] > slots.base_bytes[slot] ? Math.min(...apart) : Math.max(...apart));
    for (const side of ["base", "head"]) {
      const levels = own.map((one) => slots[`${side}_bytes`][one]);
      columns[`${side}_low`].push(Math.min(...levels));
      columns[`${side}_high`].push(Math.max(...levels));
      columns[`${side}_bytes`].push(slots[`${side}_bytes`][slot]);
      columns[`${side}_line`].push(slots[`${side}_line`][slot]);
    }
    columns.slot.push(slot);
  }
  return { ...Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, Float64Array.from(values)])), start_bytes: slots.head_bytes[0] - slots.base_bytes[0] };
}

const distance = (slots, slot) => Math.abs(slots.head_bytes[slot] - slots.base_bytes[slot]);

for (const count of [1, 2, 9, 40])
  test(`every stretch of ${count} slots, each a bucket`, () => {
    const slots = slotsOf(count, chances(count));
    const edges = Float64Array.from({ length: count + 1 }, (_, k) => k);
    const curves = new Curves({ slots: count, details: [], curves: { ...slots, edges } });
    for (let from = 0; from < count; from += 1)
      for (let to = from + 1; to <= count; to += 1) {
        const own = [...Array(to - from).keys()].map((n) => n + from);
        const apart = own.map((slot) => slots.head_bytes[slot] - slots.base_bytes[slot]);
        assert.deepEqual(curves.extremes("apart", from, to), [Math.min(...apart), Math.max(...apart)]);
        assert.deepEqual(curves.extremes("base", from, to), [Math.min(...own.map((slot) => slots.base_bytes[slot])), Math.max(...own.map((slot) => slots.base_bytes[slot]))]);
        const place = curves.farthest(from, to);
        assert.equal(Math.abs(place.head - place.base), Math.max(...apart.map(Math.abs)));
        assert.equal(place.base, slots.base_bytes[place.slot]);
        assert.equal(place.headLine, slots.head_line[place.slot]);
      }
  });

test("buckets of a long axis hold what their slots hold, and a stretch that is there slot by slot goes first", () => {
  const chance = chances(11), length = 1000, slots = slotsOf(length, chance);
  const lo = 300, hi = 420;
  const detail = { lo, ...Object.fromEntries(Object.entries(slots).map(([name, values]) => [name, values.slice(lo, hi)])) };
  const curves = new Curves({ slots: length, details: [detail], curves: bucketsOf(slots, 37) });
  for (let round = 0; round < 500; round += 1) {
    const from = chance(length), to = from + 1 + chance(length - from);
    const [stretch] = curves.buckets(from, to);
    const [low, high] = curves.extremes("apart", from, to);
    for (let slot = from; slot < to; slot += 1) {
      const apart = slots.head_bytes[slot] - slots.base_bytes[slot];
      assert.ok(low <= apart && apart <= high); // buckets at the ends may reach farther
    }
    const inside = lo <= from && to <= hi;
    assert.equal(stretch.lo, inside ? lo : 0);
    if (inside) assert.equal(curves.farthest(from, to).slot >= from, true);
  }
});

test("an axis without a slot has nothing to tell", () => {
  const none = new Float64Array(0);
  const curves = new Curves({ slots: 0, details: [], curves: { edges: Float64Array.of(0), base_bytes: none, head_bytes: none, base_line: none, head_line: none } });
  assert.equal(curves.farthest(0, 1), null);
});
