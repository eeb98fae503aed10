/** Chunks as bars in rows, and their pieces: by arithmetic, and against what must hold of any rows. */

import assert from "node:assert/strict";
import test from "node:test";

import { inkOn } from "../../src/memlens/drawing/viewer/canvas.js";
import { barsInRows, BLOCK, Chunks, GAP, KEPT, SEVERAL } from "../../src/memlens/drawing/viewer/memory_map.js";

test("bars go into rows, and one that does not fit begins the next row", () => {
  // 30 in all and 3 rows: 10 a row. 6 and 4 fill one, 7 takes the next, 5 does not fit behind it, and 8 needs a row of its own: rows are made longer.
  const { length, rows, starts } = barsInRows([[6, 4, 7, 5, 8]], 3);
  assert.ok(length >= 12);
  assert.ok(rows <= 3);
  assert.equal(starts[0], 0);
});

test("rows of a length that fits hold everything in order, and each group begins a row", () => {
  let state = 7;
  const chance = (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
  for (let round = 0; round < 300; round += 1) {
    const groups = Array.from({ length: 1 + chance(4) }, () => Array.from({ length: 1 + chance(12) }, () => 1 + chance(10 ** (1 + chance(6)))));
    const most = 1 + chance(20), { length, rows, groups: firsts, starts } = barsInRows(groups, most);
    assert.ok(rows <= Math.max(most, groups.length + 1));
    let bar = 0, end = 0;
    groups.forEach((group, k) => {
      assert.equal(starts[bar], firsts[k] * length);
      for (const size of group) {
        assert.ok(starts[bar] >= end, "no bar lies over the one before");
        assert.ok(starts[bar] < end + 2 * length, "no row is left empty");
        const room = length - (starts[bar] % length);
        assert.ok(size <= room || size > length, "only a bar longer than a row is broken");
        assert.ok(size <= room || starts[bar] % length === 0, "and it begins one");
        end = starts[bar] + size;
        bar += 1;
      }
    });
    assert.ok(end <= rows * length);
  }
});

const pieces = {
  counts: Float64Array.of(3, 2, 1), kinds: Float64Array.of(BLOCK, KEPT, GAP, SEVERAL, BLOCK, BLOCK), size_bytes: Float64Array.of(10, 6, 84, 40, 30, 20),
  chunk_bytes: Float64Array.of(100, 70, 20), pools: ["a", "b", "a"], streams: Float64Array.of(0, 0, 0), events: Float64Array.of(3, 9, 9),
};

test("pieces lie side by side in their chunk, and know which block they are", () => {
  const chunks = new Chunks(pieces);
  assert.deepEqual(chunks.of(0), [
    { chunk: 0, kind: BLOCK, offset: 0, size: 10, number: 0 }, { chunk: 0, kind: KEPT, offset: 10, size: 6, number: 0 }, { chunk: 0, kind: GAP, offset: 16, size: 84, number: 0 },
  ]);
  assert.deepEqual(chunks.of(1), [{ chunk: 1, kind: SEVERAL, offset: 0, size: 40, number: 0 }, { chunk: 1, kind: BLOCK, offset: 40, size: 30, number: 1 }]);
  assert.equal(chunks.bytesOf(9), 50); // a block that goes from one chunk into the next
  assert.equal(chunks.bytesOf(3), 10);
});

test("chunks go by pool and stream, those that reserve most first", () => {
  const chunks = new Chunks(pieces);
  assert.deepEqual(chunks.places(false).map(({ pool, bytes, chunks: own }) => [pool, bytes, own]), [["a", 120, [0, 2]], ["b", 70, [1]]]);
  const turned = new Chunks({ ...pieces, chunk_bytes: Float64Array.of(20, 70, 100) });
  assert.deepEqual(turned.places(false)[0].chunks, [2, 0]);
  assert.deepEqual(turned.places(true)[0].chunks, [0, 2]);
});

test("of many pools and streams the smallest are one", () => {
  const count = 20, sizes = Float64Array.from({ length: count }, (_, k) => 100 + k);
  const many = { ...pieces, counts: sizes.map(() => 1), kinds: sizes.map(() => GAP), size_bytes: sizes, chunk_bytes: sizes, pools: Array(count).fill(null), streams: sizes };
  const places = new Chunks(many).places(true);
  assert.equal(places.length, 8);
  assert.deepEqual([places[7].pool, places[7].bytes, places[7].chunks], ["13 others", 13 * 106, Array.from({ length: 13 }, (_, k) => k)]);
  assert.equal(places.reduce((sum, { bytes }) => sum + bytes, 0), sizes.reduce((sum, size) => sum + size, 0));
});

test("what is written on a fill can be read", () => {
  assert.equal(inkOn("#6a3d9a"), "#ffffff");
  assert.equal(inkOn("#eedd88"), "#000000");
});
