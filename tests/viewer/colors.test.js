/** Owners in short, as legends and tables have them. */

import assert from "node:assert/strict";
import test from "node:test";

import { inksOf, shortOwner } from "../../src/memlens/drawing/viewer/colors.js";

test("an owner in short has the user's own frame, and says that the stack has more", () => {
  const texts = ["relu < mlp.py:25 forward", "aten::empty < module.py:9 _call < infer.py:36 step < infer.py:60 main"];
  const shorts = ["relu < mlp.py:25 forward", "aten::empty < infer.py:36 step"];
  const app = /** @type {any} */ ({ view: { owners: texts, short_owners: shorts }, ownerText: (/** @type {number} */ k) => texts[k] });
  assert.equal(shortOwner(app, 0), "relu < mlp.py:25 forward");
  assert.equal(shortOwner(app, 1), "aten::empty < infer.py:36 step \u2026");
});

test("blocks have the colours of the groups that the picture has", () => {
  const size = { key: "size", groups: [{ ink: "size-2", name: "1 KiB", from: 1024, to: 1025 }, { ink: "size-1", name: "4 KiB and more", from: 4096, to: 8192 }, { ink: "owner-other", name: "other sizes", from: 0, to: 0 }] };
  const owner = { key: "owner", groups: [{ ink: "owner-1", name: "relu" }] };
  const app = /** @type {any} */ ({ stacks: { ways: [size, owner] }, view: { short_owners: ["matmul", "relu"] } });
  assert.deepEqual(inksOf(app, [1024, 5000, 7, 4096], [-1, -1, -1, -1]), ["size-2", "size-1", "owner-other", "size-1"]);
  assert.deepEqual(inksOf(app, [1024, 1024, 1024], [1, 0, -1]), ["owner-1", "owner-other", "owner-other"]);
  assert.deepEqual(inksOf(/** @type {any} */ ({ stacks: { ways: [] }, view: { short_owners: [] } }), [7], [-1]), ["owner-other"]);
});
