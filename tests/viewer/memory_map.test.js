/** Chunks in pieces, by arithmetic. */

import assert from "node:assert/strict";
import test from "node:test";

import { inkOn } from "../../src/memlens/drawing/viewer/canvas.js";
import { BLOCK, GAP, KEPT, piecesOf, SEVERAL } from "../../src/memlens/drawing/viewer/memory_map.js";

const columns = {
  counts: Float64Array.of(3, 2, 1), kinds: Float64Array.of(BLOCK, KEPT, GAP, SEVERAL, BLOCK, BLOCK), size_bytes: Float64Array.of(10, 6, 84, 40, 30, 20),
};

test("pieces lie side by side in their chunk, and know which block they are", () => {
  assert.deepEqual(piecesOf(columns), [
    [{ chunk: 0, kind: BLOCK, offset: 0, size: 10, number: 0 }, { chunk: 0, kind: KEPT, offset: 10, size: 6, number: 0 }, { chunk: 0, kind: GAP, offset: 16, size: 84, number: 0 }],
    [{ chunk: 1, kind: SEVERAL, offset: 0, size: 40, number: 0 }, { chunk: 1, kind: BLOCK, offset: 40, size: 30, number: 1 }],
    [{ chunk: 2, kind: BLOCK, offset: 0, size: 20, number: 2 }],
  ]);
});

test("what is written on a fill can be read", () => {
  assert.equal(inkOn("#6a3d9a"), "#ffffff");
  assert.equal(inkOn("#eedd88"), "#000000");
});
