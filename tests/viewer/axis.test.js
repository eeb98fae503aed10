/** Which part is shown: never outside of the log, never nothing, and pixels and events are each other's inverse. */

import assert from "node:assert/strict";
import test from "node:test";

import { Axis } from "../../src/memlens/drawing/viewer/axis.js";

/** The part that an axis shows after it was asked to show another. */
function shown(lo, hi, from, to) {
  const axis = new Axis(lo, hi);
  axis.show(from, to);
  return [axis.from, axis.to];
}

test("a part inside the log is shown as it is", () => {
  assert.deepEqual(shown(100, 1100, 200, 300), [200, 300]);
});

test("nothing outside of the log is shown", () => {
  assert.deepEqual(shown(100, 1100, -500, -400), [100, 200]);
  assert.deepEqual(shown(100, 1100, 1090, 1190), [1000, 1100]);
  assert.deepEqual(shown(100, 1100, -5000, 5000), [100, 1100]);
});

test("a part is never so narrow that nothing is seen, and a log of three events is shown whole", () => {
  const [from, to] = shown(0, 1000, 500, 500);
  assert.ok(to - from > 0);
  assert.ok(from <= 500 && 500 <= to);
  assert.deepEqual(shown(0, 3, 1, 1), [0, 3]);
});

test("who listens is told, and reset shows all of it", () => {
  const axis = new Axis(10, 20);
  let told = 0;
  axis.onChange(() => {
    told += 1;
  });
  axis.show(12, 17);
  assert.deepEqual([axis.from, axis.to, told], [12, 17, 1]);
  axis.reset();
  assert.deepEqual([axis.from, axis.to, told], [10, 20, 2]);
});

test("an event is where its pixel says that it is", () => {
  const axis = new Axis(0, 1e7);
  axis.show(2_500_000, 7_500_000);
  assert.equal(axis.toPixel(2_500_000, 1000), 0);
  assert.equal(axis.toPixel(5_000_000, 1000), 500);
  assert.equal(axis.toPixel(7_500_000, 1000), 1000);
  for (const event of [2_500_001, 3_141_592, 7_499_999])
    assert.ok(Math.abs(axis.toEvent(axis.toPixel(event, 1000), 1000) - event) < 1e-6);
});

test("an empty log has an axis, too", () => {
  const axis = new Axis(5, 5);
  assert.deepEqual([axis.from, axis.to], [5, 6]);
});

/** An axis over time: events come in bursts, some of them at one moment. */
function overTime() {
  const edges = Float64Array.from({ length: 201 }, (_, k) => 10 + 3 * k), times = new Float64Array(201);
  for (let k = 1, state = 3; k < 201; k += 1) {
    state = (state * 48271) % 2147483647;
    times[k] = times[k - 1] + (state % 3 ? 0 : state % 1000);
  }
  const axis = new Axis(10, 610, edges, times);
  axis.drawOverTime(true);
  return { axis, edges, times };
}

test("over time, every event is drawn at its time", () => {
  const { axis, edges, times } = overTime();
  for (let k = 0; k < 201; k += 1) assert.ok(Math.abs(axis.toPixel(edges[k], 800) - (800 * times[k]) / times[200]) < 1e-9);
  axis.drawOverTime(false);
  assert.equal(axis.toPixel(310, 800), 400);
});

test("over time, the pixels of a picture share out all events in order, at any zoom", () => {
  const { axis } = overTime();
  for (let round = 0, state = 5; round < 300; round += 1) {
    state = (state * 48271) % 2147483647;
    const from = 10 + (state % 590);
    axis.show(from, from + 2 + (state % 97));
    const begins = Array.from({ length: 81 }, (_, x) => axis.toEvent(x, 80));
    assert.deepEqual([begins[0], begins[80]], [axis.from, axis.to]);
    for (let x = 0; x < 80; x += 1) assert.ok(begins[x] <= begins[x + 1]);
  }
});

test("over time, zooming keeps the place that it is about, and moving goes no further than the run", () => {
  const { axis, times } = overTime();
  const total = times[200];
  axis.showPositions(total * 0.2, total * 0.6);
  const before = axis.span()[0] + axis.span()[1] * 0.25;
  axis.zoom(0.5, 0.25);
  assert.ok(Math.abs(axis.span()[0] + axis.span()[1] * 0.25 - before) < total * 0.02);
  for (let step = 0; step < 40; step += 1) axis.pan(0.25);
  assert.equal(axis.to, axis.hi);
  for (let step = 0; step < 80; step += 1) axis.pan(-0.25);
  assert.ok(axis.from - axis.lo < 20);
  axis.zoom(1000);
  assert.deepEqual([axis.from, axis.to], [axis.lo, axis.hi]);
});

test("an axis without times stays over events", () => {
  const axis = new Axis(0, 100);
  axis.drawOverTime(true);
  assert.equal(axis.overTime, false);
});
