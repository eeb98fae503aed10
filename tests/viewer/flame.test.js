/** Boxes of a flame graph: their bytes add up. */

import assert from "node:assert/strict";
import test from "node:test";

import { byGroup, framesOf, inkOf } from "../../src/memlens/drawing/viewer/flame.js";

const owners = ["relu < forward < main", "conv < forward < main", "load < main"];
const flame = {
  owners: Float64Array.of(0, 1, 0, 2, -1), size_bytes: Float64Array.of(1000, 700, 10, 300, 5), blocks: Float64Array.of(2, 1, 4, 1, 2), groups: [0, 0, 0, 0, 0],
  left: { groups: 3, blocks: 9, bytes: 40 }, other_bytes: 0, peak_bytes: 3090,
};
const bytesOf = (boxes, name) => boxes.filter((one) => one.name === name).map(({ bytes }) => bytes);

test("callers hold what they call, and the root all of it", () => {
  const boxes = framesOf(flame, owners);
  assert.equal(boxes[0].bytes, 2 * 1000 + 700 + 4 * 10 + 300 + 2 * 5 + 40);
  assert.equal(boxes[0].blocks, 2 + 1 + 4 + 1 + 2 + 9);
  assert.deepEqual(bytesOf(boxes, "main"), [3040]);
  assert.deepEqual(bytesOf(boxes, "forward"), [2740]);
  assert.deepEqual(bytesOf(boxes, "relu"), [2040]);
  assert.deepEqual(bytesOf(boxes, "2 × 1000 B"), [2000]);
  assert.deepEqual(bytesOf(boxes, "(no owner known)"), [10]);
  assert.deepEqual(bytesOf(boxes, "(3 smaller groups)"), [40]);
});

test("children lie side by side within their parent, the largest first", () => {
  const boxes = framesOf(flame, owners);
  for (const parent of boxes) {
    const children = boxes.filter((one) => one.parent === parent);
    if (!children.length) continue;
    assert.equal(children.reduce((sum, { bytes }) => sum + bytes, 0), parent.bytes);
    assert.equal(children[0].start, parent.start);
    children.slice(1).forEach((child, k) => {
      assert.equal(child.start, children[k].start + children[k].bytes);
      assert.ok(child.bytes <= children[k].bytes);
    });
  }
});

test("what is freed and was never allocated takes away from the peak, and is drawn as nothing", () => {
  const boxes = framesOf({ ...flame, other_bytes: -90 }, owners);
  assert.equal(boxes[0].bytes, 3000);
  assert.equal(boxes[0].width, 3090);
  assert.deepEqual(bytesOf(boxes, "(freed and never allocated)"), [-90]);
});

test("of a level of which no block is known there is one box", () => {
  const none = { owners: [], size_bytes: [], blocks: [], groups: [], left: { groups: 0, blocks: 0, bytes: 0 }, other_bytes: 500 };
  assert.deepEqual(framesOf(none, []).map(({ bytes }) => bytes), [500, 500]);
});

test("without any owner the boxes are sizes", () => {
  const boxes = framesOf({ ...flame, owners: Float64Array.of(-1, -1, -1, -1, -1), left: { groups: 0 } }, []);
  assert.deepEqual(boxes.map(({ depth }) => depth), [0, 1, 1, 1, 1, 1]);
});

test("of a stack without end the innermost frames are shown", () => {
  const endless = { ...flame, owners: Float64Array.of(0), size_bytes: Float64Array.of(8), blocks: Float64Array.of(1), groups: [0], left: { groups: 0 } };
  const boxes = framesOf(endless, ["a < ".repeat(100000) + "z"]);
  assert.equal(Math.max(...boxes.map(({ depth }) => depth)), 41);
});

/** An app that knows four blocks, of which two are live at its moment, and all of these at the moment `nearest`. */
const appOf = (nearest) => /** @type {any} */ ({
  moment: 5, stacks: { way: { groups: ["a", "b", "c"].map((ink) => ({ ink })) } }, groupOf: (number) => [2, 1, 0, 0][number],
  blocks: { columns: { size_bytes: [700, 700, 700, 1000], owner: [1, 1, 1, 0] }, nearest: () => nearest, liveAfter: () => [0, 1], byPlace: [0, 1, 2, 3] },
});
const row = (size, owner, count) => ({ size, owner, count, bytes: size * count, name: "" });

test("blocks alike that are of several groups are as many boxes, each of its own colour", () => {
  const rows = byGroup(appOf(5), [row(700, 1, 2)]);
  assert.deepEqual(rows.map(({ count, bytes, group }) => [count, bytes, group]), [[1, 700, 1], [1, 700, 2]]);
  const boxes = framesOf({ owners: [1, 1], size_bytes: [700, 700], blocks: [1, 1], groups: [1, 2], left: { bytes: 0 }, other_bytes: 0 }, owners);
  assert.deepEqual(boxes.map(({ name, bytes }) => [name, bytes]).slice(-2), [["1 \u00d7 700 B", 700], ["1 \u00d7 700 B", 700]]);
  const inks = boxes.map((box) => inkOf(box, [{ ink: "a" }, { ink: "b" }, { ink: "c" }]));
  assert.deepEqual(inks, ["owner-other", "owner-other", "owner-other", "owner-other", "b", "c"]);
});

test("where it is not known which blocks are live, those alike are of the group that nearly all known ones are of", () => {
  const rows = byGroup(appOf(4), [row(700, 1, 2), row(1000, 0, 3), row(8, 0, 1)]);
  assert.deepEqual(rows.map(({ count, group }) => [count, group]), [[2, -1], [3, 0], [1, -1]]);
});
