/** Owners in short, as legends and tables have them. */

import assert from "node:assert/strict";
import test from "node:test";

import { shortOwner } from "../../src/memlens/drawing/viewer/colors.js";

test("an owner in short has the user's own frame, and says that the stack has more", () => {
  const texts = ["relu < mlp.py:25 forward", "aten::empty < module.py:9 _call < infer.py:36 step < infer.py:60 main"];
  const shorts = ["relu < mlp.py:25 forward", "aten::empty < infer.py:36 step"];
  const app = /** @type {any} */ ({ view: { owners: texts, short_owners: shorts }, ownerText: (/** @type {number} */ k) => texts[k] });
  assert.equal(shortOwner(app, 0), "relu < mlp.py:25 forward");
  assert.equal(shortOwner(app, 1), "aten::empty < infer.py:36 step \u2026");
});
