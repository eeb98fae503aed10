/** Areas and lines as pixels. */

import assert from "node:assert/strict";
import { test } from "node:test";

const canvas = () => ({ getContext: () => ({ putImageData() {} }) });
globalThis.document = { createElement: canvas, documentElement: null };
globalThis.matchMedia = () => ({ addEventListener() {} });
globalThis.ImageData = class {
  constructor(width, height) {
    this.data = new Uint8ClampedArray(4 * width * height);
  }
};
globalThis.getComputedStyle = () => ({ getPropertyValue: (name) => (name === "--back" ? "#ffffff" : "#204060") });
const { Bitmap } = await import("../../src/memlens/drawing/viewer/paint.js");

/** The pixels of a column as red, green, blue and how much they cover, from top to bottom. */
function column(bitmap, x) {
  const { data } = bitmap.data;
  return Array.from({ length: bitmap.rows }, (_, row) => Array.from(data.subarray(4 * (row * bitmap.width + x), 4 * (row * bitmap.width + x) + 4)));
}

/** A bitmap of two columns and four rows in which something was painted. */
function painted(ratio, paint) {
  globalThis.window = { devicePixelRatio: ratio };
  const bitmap = new Bitmap();
  bitmap.show({ drawImage() {} }, 2, 4 / ratio, () => paint(bitmap.clear()));
  return bitmap;
}

const NONE = [0, 0, 0, 0], INK = [0x20, 0x40, 0x60, 255];

test("what covers a part of a pixel has that part of its colour, at the top and at the bottom", () => {
  const bitmap = painted(1, (one) => one.fill("ink", Float64Array.of(0.5, 1), Float64Array.of(2.25, 1)));
  assert.deepEqual(column(bitmap, 0), [[...INK.slice(0, 3), 128], INK, [...INK.slice(0, 3), 64], NONE]);
  assert.deepEqual(column(bitmap, 1), [NONE, NONE, NONE, NONE]);
});

test("a part of a pixel is mixed with what is there, which stays opaque", () => {
  const bitmap = painted(1, (one) => {
    one.fill("back", Float64Array.of(0, 0), Float64Array.of(4, 0));
    one.fill("ink", Float64Array.of(1.25, 0), Float64Array.of(1.75, 0));
  });
  const white = [255, 255, 255, 255], mixed = [...INK.slice(0, 3).map((part) => Math.round((part + 255) / 2)), 255];
  assert.deepEqual(column(bitmap, 0), [white, mixed, white, white]);
});

test("a sharper screen has more rows for the same stretch, and nothing is painted outside of the picture", () => {
  const bitmap = painted(2, (one) => one.fill("ink", Float64Array.of(0.5, -9), Float64Array.of(1, 99)));
  assert.deepEqual(column(bitmap, 0), [NONE, INK, NONE, NONE]);
  assert.deepEqual(column(bitmap, 1), [INK, INK, INK, INK]);
});

test("what is said to be the same is not painted again", () => {
  globalThis.window = { devicePixelRatio: 1 };
  const bitmap = new Bitmap(), times = [];
  for (const of of ["a", "a", "b", "", ""]) bitmap.show({ drawImage() {} }, 2, 4, () => times.push(of), of);
  assert.deepEqual(times, ["a", "b", "", ""]);
});
