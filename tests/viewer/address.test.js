/** The view in an address: what is written down is read again, and what is wrong is passed over. */

import assert from "node:assert/strict";
import test from "node:test";

import { hashOf, restore } from "../../src/memlens/drawing/viewer/address.js";
import { Axis } from "../../src/memlens/drawing/viewer/axis.js";
import { App } from "../../src/memlens/drawing/viewer/app.js";

/** A log of a hundred events with two ways to group, three bars and no times. */
function made() {
  const edges = Float64Array.from({ length: 101 }, (_, k) => k), level = new Float64Array(100).fill(5);
  const way = (key) => ({ key, name: key, groups: [{ ink: "a", name: "one" }], bars: [0, 0, 0], sums: [], start: [[0]], codes: [new Float64Array(100)] });
  return new App(/** @type {any} */ ({
    lo: 0, hi: 100, levels: { edges, low_bytes: level, high_bytes: level, reserved_bytes: level, high_event: edges, line: edges, owner: edges, time_us: null, details: [] },
    stacks: { moments: null, before: [0], events: [], excess: [], ways: [way("role"), way("size")] }, marks: [], owners: [],
    lifetimes: { alloc: Float64Array.of(1, 4, 9), size_bytes: Float64Array.of(1, 2, 3), owner: [-1, -1, -1] },
  }));
}

/** What a view is like. */
const state = ({ axis, stacks, selected, sought }) => [axis.from, axis.to, stacks.way.key, sought, selected?.kind, selected?.value, selected?.to];

test("a view comes back as it was", () => {
  for (const act of [() => {}, (app) => app.axis.show(10, 30), (app) => app.look({ way: 1 }), (app) => app.look({ sought: "Relu & <b> = 7" }),
    (app) => app.select("block", 2), (app) => app.select("moment", 44), (app) => app.select("range", 3, 7)]) {
    const app = made(), other = made();
    act(app);
    restore(other, hashOf(app));
    assert.deepEqual(state(other), state(app));
  }
  assert.equal(hashOf(made()), "");
});

test("what is seen of two runs comes back, too", () => {
  const runs = () => ({ axis: new Axis(0, 50), by: "", finding: 0, choose(by, finding) { Object.assign(this, { by, finding }); } });
  for (const [shown, by, finding] of [[[0, 50], "", 0], [[7, 20], "size", 3], [[0, 9], "", -1]]) {
    const both = runs(), other = runs();
    both.axis.show(...shown);
    Object.assign(both, { by, finding });
    restore(made(), hashOf(made(), both), other);
    assert.deepEqual([other.axis.from, other.axis.to, other.by, other.finding], [...shown, by, finding]);
  }
  assert.equal(hashOf(made(), runs()), "");
});

test("what is wrong in an address is passed over", () => {
  for (const hash of ["block=7", "block=-1", "block=x", "moment=100", "moment=1e9", "range=5", "range=5-500", "events=9", "events=9-3", "by=nothing", "over=time", "&&==%", "moment=<b>"]) {
    const app = made();
    app.select("moment", 3);
    restore(app, hash);
    assert.deepEqual(state(app), state(made()), hash);
  }
});
