/** Figures as memlens writes them elsewhere; the expected ones are those of tests/test_units.py and of arithmetic. */

import assert from "node:assert/strict";
import test from "node:test";

import { App } from "../../src/memlens/drawing/viewer/app.js";
import { formatBytes, formatCount, formatExact, shortNames } from "../../src/memlens/drawing/viewer/format.js";

test("bytes have the largest unit of which there is one", () => {
  assert.equal(formatBytes(0), "0 B");
  assert.equal(formatBytes(512), "512 B");
  assert.equal(formatBytes(1023), "1023 B");
  assert.equal(formatBytes(1024), "1.00 KiB");
  assert.equal(formatBytes(1536), "1.50 KiB");
  assert.equal(formatBytes(3538944), "3.38 MiB"); // 3538944 / 1048576 = 3.375
  assert.equal(formatBytes(80 * 2 ** 30), "80.00 GiB");
  assert.equal(formatBytes(5 * 2 ** 40), "5.00 TiB");
});

test("a tie goes to the even digit, and what would be 1024.00 to the next unit", () => {
  assert.equal(formatBytes(1152), "1.12 KiB"); // 1.125
  assert.equal(formatBytes(1408), "1.38 KiB"); // 1.375
  assert.equal(formatBytes(1664), "1.62 KiB"); // 1.625
  assert.equal(formatBytes(1920), "1.88 KiB"); // 1.875
  assert.equal(formatBytes(2 ** 20 - 1), "1.00 MiB");
  assert.equal(formatBytes(2 ** 30 - 1), "1.00 GiB");
});

test("what is given back has a sign", () => {
  assert.equal(formatBytes(-512), "-512 B");
  assert.equal(formatBytes(-1536), "-1.50 KiB");
});

test("the exact figure stands beside the rounded one", () => {
  assert.equal(formatExact(3538944), "3.38 MiB (3538944 B)");
  assert.equal(formatExact(512), "512 B");
});

test("thousands are set apart", () => {
  assert.deepEqual([0, 999, 1000, 1942, 10_000_000].map(formatCount), ["0", "999", "1,000", "1,942", "10,000,000"]);
});

test("an owner in short has the user's own frame, and says that the stack has more", () => {
  const texts = ["relu < mlp.py:25 forward", "aten::empty < module.py:9 _call < infer.py:36 step < infer.py:60 main"];
  const shorts = ["relu < mlp.py:25 forward", "aten::empty < infer.py:36 step"];
  const app = Object.assign(Object.create(App.prototype), { view: { owners: texts, short_owners: shorts } });
  assert.equal(app.shortOwner(0), "relu < mlp.py:25 forward");
  assert.equal(app.shortOwner(1), "aten::empty < infer.py:36 step \u2026");
});

test("names in short differ where the names do", () => {
  const long = (/** @type {string} */ middle) => `site-packages/framework/${middle}/layers/attention.py:10 forward`;
  const [one, other, alone] = ["encoder", "decoder"].map(long).concat(`${"x".repeat(30)}${"y".repeat(30)}`);
  assert.deepEqual(shortNames([one, "relu", other, alone]), [one, "relu", other, `${"x".repeat(24)}\u2026${"y".repeat(23)}`]);
  assert.deepEqual(shortNames([one]), ["site-packages/framework/\u2026attention.py:10 forward"]);
});
