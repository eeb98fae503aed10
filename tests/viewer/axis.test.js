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
