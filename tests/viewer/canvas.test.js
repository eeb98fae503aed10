/** What is written on pictures. */

import assert from "node:assert/strict";
import test from "node:test";

import { inkOn } from "../../src/memlens/drawing/viewer/canvas.js";
import { fitting } from "../../src/memlens/drawing/viewer/track.js";

test("what is written on a fill can be read", () => {
  assert.equal(inkOn("#6a3d9a"), "#ffffff");
  assert.equal(inkOn("#eedd88"), "#000000");
});

test("of a name that is too long as much is written as fits, without what decorates it", () => {
  const context = /** @type {any} */ ({ measureText: (text) => ({ width: 6 * text.length }) });
  assert.equal(fitting(context, "## forward ##", 80), "## forward ##");
  assert.equal(fitting(context, "## forward ##", 62), "forward ##");
  assert.equal(fitting(context, "## forward ##", 30), "forw\u2026");
  assert.equal(fitting(context, "STEP 12", 20), "12");
  assert.equal(fitting(context, "##", 11), "");
  assert.equal(fitting(context, "forward", 5), "");
});
