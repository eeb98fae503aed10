/** What is written on pictures. */

import assert from "node:assert/strict";
import test from "node:test";

import { inkOn } from "../../src/memlens/drawing/viewer/canvas.js";

test("what is written on a fill can be read", () => {
  assert.equal(inkOn("#6a3d9a"), "#ffffff");
  assert.equal(inkOn("#eedd88"), "#000000");
});
