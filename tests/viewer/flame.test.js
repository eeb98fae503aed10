/** Boxes of a flame graph: their bytes add up. */

import assert from "node:assert/strict";
import test from "node:test";

import { framesOf, inksOf } from "../../src/memlens/drawing/viewer/flame.js";

const owners = ["relu < forward < main", "conv < forward < main", "load < main"];
const flame = {
  owners: Float64Array.of(0, 1, 0, 2, -1), size_bytes: Float64Array.of(1000, 700, 10, 300, 5), blocks: Float64Array.of(2, 1, 4, 1, 2),
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
  const none = { owners: [], size_bytes: [], blocks: [], left: { groups: 0, blocks: 0, bytes: 0 }, other_bytes: 500 };
  assert.deepEqual(framesOf(none, []).map(({ bytes }) => bytes), [500, 500]);
});

test("without any owner the boxes are sizes", () => {
  const boxes = framesOf({ ...flame, owners: Float64Array.of(-1, -1, -1, -1, -1), left: { groups: 0 } }, []);
  assert.deepEqual(boxes.map(({ depth }) => depth), [0, 1, 1, 1, 1, 1]);
});

test("of a stack without end the innermost frames are shown", () => {
  const endless = { ...flame, owners: Float64Array.of(0), size_bytes: Float64Array.of(8), blocks: Float64Array.of(1), left: { groups: 0 } };
  const boxes = framesOf(endless, ["a < ".repeat(100000) + "z"]);
  assert.equal(Math.max(...boxes.map(({ depth }) => depth)), 41);
});

test("blocks have the colours of the groups that the picture has", () => {
  const size = { key: "size", groups: [{ ink: "size-2", name: "1 KiB", from: 1024, to: 1025 }, { ink: "size-1", name: "4 KiB and more", from: 4096, to: 8192 }, { ink: "owner-other", name: "other sizes", from: 0, to: 0 }] };
  const owner = { key: "owner", groups: [{ ink: "owner-1", name: "relu" }] };
  const app = /** @type {any} */ ({ stacks: { ways: [size, owner] }, view: { short_owners: ["matmul", "relu"] } });
  assert.deepEqual(inksOf(app, [1024, 5000, 7, 4096], [-1, -1, -1, -1]), ["size-2", "size-1", "owner-other", "size-1"]);
  assert.deepEqual(inksOf(app, [1024, 1024, 1024], [1, 0, -1]), ["owner-1", "owner-other", "owner-other"]);
  assert.deepEqual(inksOf(/** @type {any} */ ({ stacks: { ways: [] }, view: { short_owners: [] } }), [7], [-1]), ["owner-other"]);
});
