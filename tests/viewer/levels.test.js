/** The levels of a run in buckets of several events and event by event: what is said of any stretch is what one finds by looking at its events. */

import assert from "node:assert/strict";
import test from "node:test";

import { Levels } from "../../src/memlens/drawing/viewer/levels.js";

/** A generator of numbers that gives the same ones each time (Lehmer's, modulus 2^31 - 1). */
function chances(seed) {
  let state = seed;
  return (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
}

/** A run: the level after each event, and the one before the first. */
function run(chance, lo, events) {
  const bytes = [], chunks = [];
  const before = chance(500);
  for (let k = 0, level = before, reserved = 0; k < events; k += 1) {
    level += chance(200) - 100;
    reserved += chance(3) ? 0 : chance(100);
    bytes.push(level);
    chunks.push(reserved);
  }
  return { lo, hi: lo + events, before, bytes, chunks };
}

/** Its columns as the page has them, worked out one bucket after the other, the slow way. */
function columns({ lo, hi, before, bytes, chunks }, buckets, details) {
  const edges = Float64Array.from({ length: buckets + 1 }, (_, k) => lo + Math.floor((k * (hi - lo)) / buckets));
  const of = (k) => bytes.slice(edges[k] - lo, edges[k + 1] - lo).concat(k ? [] : [before]);
  const each = (make) => Float64Array.from({ length: buckets }, (_, k) => make(k));
  const high = each((k) => Math.max(...of(k)));
  const event = each((k) => {
    const at = bytes.slice(edges[k] - lo, edges[k + 1] - lo).indexOf(high[k]);
    return at < 0 ? lo - 1 : edges[k] + at;
  });
  return {
    edges,
    low_bytes: each((k) => Math.min(...of(k))),
    high_bytes: high,
    reserved_bytes: each((k) => Math.max(...chunks.slice(edges[k] - lo, edges[k + 1] - lo))),
    high_event: event,
    line: event.map((one) => 10 * one + 1),
    owner: event.map((one) => one % 7),
    details: details.map(([from, to]) => ({
      lo: from,
      bytes: Float64Array.from(bytes.slice(from - lo, to - lo)),
      reserved_bytes: Float64Array.from(chunks.slice(from - lo, to - lo)),
      line: Float64Array.from({ length: to - from }, (_, k) => 10 * (from + k) + 1),
      owner: Float64Array.from({ length: to - from }, (_, k) => (from + k) % 7),
    })),
  };
}

for (const [lo, events, buckets] of [[0, 40, 40], [0, 100, 9], [17, 203, 40], [3, 1000, 64]]) {
  test(`${events} events from ${lo} in ${buckets} buckets`, () => {
    const chance = chances(events + buckets), made = run(chance, lo, events);
    const details = buckets < events ? [[lo + 5, lo + 25], [lo + 60, lo + events - 3]] : [];
    const levels = new Levels(columns(made, buckets, details));
    assert.equal(levels.peak, Math.max(made.before, ...made.bytes));
    assert.equal(levels.lowest, Math.min(made.before, ...made.bytes));
    assert.equal(levels.reservedPeak, Math.max(...made.chunks));
    for (let round = 0; round < 3000; round += 1) {
      const from = lo + chance(events * 4) / 4, to = Math.min(from + chance(round % 2 ? 80 : events * 4) / 4, lo + events);
      const inside = made.bytes.slice(Math.floor(from) - lo, Math.max(Math.ceil(to), Math.floor(from) + 1) - lo);
      const [low, high] = levels.extremes("allocated", from, to), [, reserved] = levels.extremes("reserved", from, to), found = levels.highest(from, to);
      // No peak is ever lost, whatever the buckets are.
      assert.ok(high >= Math.max(...inside) && low <= Math.min(...inside));
      assert.ok(reserved >= Math.max(...made.chunks.slice(Math.floor(from) - lo, Math.max(Math.ceil(to), Math.floor(from) + 1) - lo)));
      assert.equal(found.bytes, high);
      assert.equal(found.bytes, found.event < lo ? made.before : made.bytes[found.event - lo]);
      assert.deepEqual([found.line, found.owner], [10 * found.event + 1, found.event % 7]);
      const exact = buckets === events || details.some(([a, b]) => a <= Math.floor(from) && Math.max(Math.ceil(to), Math.floor(from) + 1) <= b);
      if (exact) assert.equal(found.size, 1);
      if (exact && (details.length || from >= lo + 1)) {
        assert.deepEqual([low, high], [Math.min(...inside), Math.max(...inside)]);
        assert.equal(found.event, Math.floor(from) + inside.indexOf(high));
        assert.equal(found.reserved, made.chunks[found.event - lo]);
      }
    }
  });
}

test("a stretch outside of the run is its nearest event, and a run without events has none", () => {
  const made = run(chances(1), 10, 20), levels = new Levels(columns(made, 20, []));
  assert.equal(levels.highest(50, 60), null);
  assert.equal(levels.highest(-5, 11).event <= 10, true);
  const empty = new Float64Array(0);
  const none = new Levels({ edges: Float64Array.of(7), low_bytes: empty, high_bytes: empty, reserved_bytes: empty, high_event: empty, line: empty, owner: empty, details: [] });
  assert.deepEqual(none.extremes("allocated", 7, 8), [0, 0]);
  assert.equal(none.highest(7, 8), null);
  assert.deepEqual([none.lowest, none.peak, none.reservedPeak], [0, 0, 0]);
});
