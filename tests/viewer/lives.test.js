/** Areas and bars stacked up to the level: what each cell shows, against a plain account of made blocks. */

import assert from "node:assert/strict";
import test from "node:test";

import { Axis } from "../../src/memlens/drawing/viewer/axis.js";
import { Levels } from "../../src/memlens/drawing/viewer/levels.js";
import { Blocks } from "../../src/memlens/drawing/viewer/layout.js";
import { columnsOf, Lives, NOTHING } from "../../src/memlens/drawing/viewer/lives.js";
import { less, nearest, rowsAt, rowsOf } from "../../src/memlens/drawing/viewer/moment.js";

/** Numbers by chance, the same each time. */
function chance(seed) {
  let state = seed;
  return (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
}

/** Blocks that live from one event to another, some of them with bars, and the level after each of `events` events in buckets. */
function made(seed, events, count, bars, perBucket) {
  const roll = chance(seed), blocks = [];
  for (let k = 0; k < count; k += 1) {
    const alloc = roll(events), free = Math.min(alloc + 1 + roll(events), events);
    blocks.push({ alloc, free, size: 1 + roll(1000) });
  }
  blocks.sort((a, b) => a.alloc - b.alloc);
  const level = Array.from({ length: events }, (_, event) => sum(blocks.filter((b) => b.alloc <= event && event < b.free)));
  const edges = [];
  for (let edge = 0; edge < events; edge += perBucket) edges.push(edge);
  edges.push(events);
  const parts = edges.slice(0, -1).map((from, k) => level.slice(from, edges[k + 1]));
  const columns = {
    edges: Float64Array.from(edges),
    low_bytes: Float64Array.from(parts, (part) => Math.min(...part)),
    high_bytes: Float64Array.from(parts, (part) => Math.max(...part)),
    reserved_bytes: new Float64Array(parts.length),
    high_event: Float64Array.from(parts, (part, k) => edges[k] + part.indexOf(Math.max(...part))),
    line: new Float64Array(parts.length),
    owner: new Float64Array(parts.length),
    time_us: null,
    details: [],
  };
  const shown = blocks.slice(0, bars);
  const lives = new Lives({
    alloc: Float64Array.from(shown, (b) => b.alloc), free: Float64Array.from(shown, (b) => b.free), size_bytes: Float64Array.from(shown, (b) => b.size),
  });
  return { blocks, shown, level, lives, levels: new Levels(columns), axis: new Axis(0, events) };
}

function sum(blocks) {
  return blocks.reduce((total, block) => total + block.size, 0);
}

for (const [seed, events, perBucket] of [[1, 60, 1], [2, 60, 7], [3, 700, 1], [4, 700, 16]])
  for (const [from, to] of [[0, events], [events * 0.3, events * 0.4], [events - 5, events]])
    test(`areas and bars of ${events} events by ${perBucket}, ${from} to ${to}`, () => {
      const { blocks, shown, level, lives, levels, axis } = made(seed, events, 80, 50, perBucket);
      axis.show(from, to);
      const width = 90, rows = 200, most = Math.max(...level), groups = 3, groupOf = (k) => (blocks[k].size % groups);
      const columns = columnsOf(levels, axis, width), tops = new Float64Array(width * groups);
      for (let x = 0; x < width; x += 1)
        for (let group = 0, top = 0; group < groups; group += 1)
          tops[x * groups + group] = top += sum(blocks.filter((b, k) => groupOf(k) === group && b.alloc <= columns.events[x] && columns.events[x] < b.free));
      const cells = lives.cells(columns, tops, shown.map((_, k) => groupOf(k)), rows, [0, most], axis);
      const order = [...shown.keys()].sort((a, b) => shown[b].free - shown[b].alloc - (shown[a].free - shown[a].alloc) || a - b)
        .filter((k) => (shown[k].size / most) * rows >= 2 && axis.toPixel(shown[k].free, width) - axis.toPixel(shown[k].alloc, width) >= 3);
      for (let x = 0; x < width; x += 1) {
        const event = columns.events[x], first = Math.floor(axis.toEvent(x, width)), last = Math.ceil(axis.toEvent(x + 1, width));
        assert.equal(columns.bytes[x], level[event], "the level is that of the event");
        assert.ok(columns.bytes[x] >= Math.max(...level.slice(first, last)), "no peak is lost");
        assert.ok(x === 0 || event >= columns.events[x - 1]);
        // Group by group from the bottom: its bars, what lives longest first, then the rest of it.
        const expected = [];
        let below = 0;
        for (let group = 0; group < groups; group += 1) {
          for (const bar of order.filter((k) => groupOf(k) === group && shown[k].alloc <= event && event < shown[k].free)) {
            below += shown[bar].size;
            while (expected.length < Math.round((below / most) * rows)) expected.push(bar + 1);
          }
          below = tops[x * groups + group];
          while (expected.length < Math.round((below / most) * rows)) expected.push(-1 - group);
        }
        assert.equal(below, level[event]);
        while (expected.length < rows) expected.push(NOTHING);
        assert.deepEqual(Array.from({ length: rows }, (_, row) => cells[(rows - 1 - row) * width + x]), expected);
      }
    });

test("the peak of all is in its column however many events a column has", () => {
  const { level, levels, axis } = made(9, 3000, 400, 10, 1), peak = Math.max(...level);
  for (const width of [1, 7, 100, 2999]) assert.equal(Math.max(...columnsOf(levels, axis, width).bytes), peak);
});

test("a scale that does not begin at nothing cuts off what lies below it", () => {
  const lives = new Lives({ alloc: Float64Array.of(0), free: Float64Array.of(9), size_bytes: Float64Array.of(60) });
  const cells = lives.cells({ events: Float64Array.of(1), bytes: Float64Array.of(100) }, Float64Array.of(60, 100), [0], 10, [50, 100], { toPixel: (event) => event });
  assert.deepEqual([...cells], [-2, -2, -2, -2, -2, -2, -2, -2, 1, 1]);
});

test("what is live, the largest first, and the block of an event", () => {
  const { shown, lives } = made(5, 60, 40, 40, 1), half = shown.length >> 1;
  const columns = (of) => ({ alloc: of.map(({ alloc }) => alloc), free: of.map(({ free }) => free), size_bytes: of.map(({ size }) => size), at: of.map(() => 0) });
  const blocks = new Blocks(columns(shown.slice(0, half)), { columns: columns(shown.slice(half)), known: [] }, null);
  for (const event of [0, 17, 59]) {
    const live = [...shown.keys()].filter((k) => shown[k].alloc <= event && event < shown[k].free).sort((a, b) => shown[b].size - shown[a].size || a - b);
    assert.deepEqual(blocks.liveAfter(event), live);
    assert.deepEqual(blocks.liveAfter(event, true), live.filter((k) => k < half));
  }
  for (let event = -1; event < 62; event += 1) {
    const bar = lives.blockOf(event);
    assert.equal(bar, shown.findIndex((block) => block.alloc === event));
  }
});

test("what is sought lies at the bottom of its area, however small it is", () => {
  const lives = new Lives({ alloc: Float64Array.of(0, 0, 0, 0), free: Float64Array.of(9, 9, 9, 9), size_bytes: Float64Array.of(40, 1, 1, 1) });
  const cells = (found) => [...lives.cells({ events: Float64Array.of(1), bytes: Float64Array.of(60) }, Float64Array.of(60), [0, 0, 0, 0], 30, [0, 60], { toPixel: (event) => event }, found)];
  assert.deepEqual(cells(null).filter((cell) => cell > 1), []);
  const sought = cells([0, 1, 0, 1]).reverse();
  assert.deepEqual(sought.slice(0, 2), [2, 1], "1 + 1 of 60 bytes are one of 30 rows");
  assert.equal(sought.filter((cell) => cell > 1).length, 1);
});

test("a log without events or blocks has an empty picture", () => {
  const { lives, levels, axis } = made(6, 1, 0, 0, 1), columns = columnsOf(levels, axis, 3);
  assert.deepEqual([...lives.cells(columns, new Float64Array(3), [], 2, [0, 1], axis)], [0, 0, 0, 0, 0, 0]);
});

test("the nearest moment, and its rows add up to the level", () => {
  const events = Float64Array.from([-1, 4, 10]);
  assert.deepEqual([-5, -1, 1, 2, 4, 7, 8, 99].map((event) => nearest(events, event)), [0, 0, 0, 1, 1, 1, 2, 2]);
  const moments = {
    event: events, size_bytes: Float64Array.from([100, 300]), owner: Float64Array.from([7, -1]), counts: Float64Array.from([0, 2, 1, 0, 1, 0]),
    other_counts: Float64Array.from([0, 3, 0]), other_bytes: Float64Array.from([0, 30, 0]), odd_bytes: Float64Array.from([0, -7, 0]),
  };
  const figures = (rows) => rows.map(({ size, owner, count, bytes }) => [size, owner, count, bytes]);
  assert.deepEqual(rowsAt(moments, 0), []);
  assert.deepEqual(figures(rowsAt(moments, 1)), [[300, -1, 1, 300], [100, 7, 2, 200], [null, -1, 3, 30], [null, -1, null, -7]]);
  assert.deepEqual(figures(rowsAt(moments, 2)), [[100, 7, 1, 100]]);
  // What there is more of, and less: 1 × 100 for 2, none for 1 × 300, none for the others.
  assert.deepEqual(figures(less(rowsAt(moments, 2), rowsAt(moments, 1))), [[null, -1, null, 7], [null, -1, -3, -30], [100, 7, -1, -100], [300, -1, -1, -300]]);
});

test("blocks by size and owner, the most bytes first", () => {
  const columns = { size_bytes: [5, 3, 5, 5], owner: [1, 1, 1, 2] };
  assert.deepEqual(rowsOf(columns, [0, 1, 2, 3]).map(({ size, owner, count, bytes }) => [size, owner, count, bytes]), [[5, 1, 2, 10], [5, 2, 1, 5], [3, 1, 1, 3]]);
});
