/** Colours by size and by owner: classes, and of each its name and its colour in the style sheet. */

import { formatBytes } from "./format.js";

/** Sizes and owners that have colours of their own. */
const SIZE_CLASSES = 5, OWNER_CLASSES = 7;

/** @typedef {{ classOf: Uint8Array, classes: { ink: string, name: string }[] }} Coloring */

/**
 * The classes that blocks fall in, by size: each one reaches down to a quarter of the one before.
 * @param {Float64Array} sizes
 * @returns {Coloring}
 */
export function colorsBySize(sizes) {
  const top = 2 ** Math.ceil(Math.log2(sizes.reduce((most, size) => Math.max(most, size), 1) + 1));
  const least = Array.from({ length: SIZE_CLASSES }, (_, k) => (k === SIZE_CLASSES - 1 ? 0 : top / 4 ** (k + 1)));
  return {
    classOf: Uint8Array.from(sizes, (size) => least.findIndex((bytes) => size >= bytes)),
    classes: least.map((bytes, k) => ({ ink: `size-${k + 1}`, name: k === SIZE_CLASSES - 1 ? `below ${formatBytes(least[k - 1])}` : `${formatBytes(bytes)} and more` })),
  };
}

/**
 * The owners of the most bytes have colours of their own, all others share one.
 * @param {Float64Array} owners of blocks, by number
 * @param {Float64Array} sizes of the same blocks
 * @param {string[]} texts of owners
 * @returns {Coloring}
 */
export function colorsByOwner(owners, sizes, texts) {
  const bytes = new Map();
  owners.forEach((owner, k) => bytes.set(owner, (bytes.get(owner) ?? 0) + sizes[k]));
  bytes.delete(-1);
  const largest = [...bytes.keys()].sort((a, b) => bytes.get(b) - bytes.get(a) || a - b).slice(0, OWNER_CLASSES);
  const classes = largest.map((owner, k) => ({ ink: `owner-${k + 1}`, name: texts[owner].split(" < ", 2).join(" < ") }));
  return {
    classOf: Uint8Array.from(owners, (owner) => (largest.includes(owner) ? largest.indexOf(owner) : largest.length)),
    classes: [...classes, { ink: "owner-other", name: largest.length ? "other owners" : "owner unknown" }],
  };
}

/**
 * What can be read on a fill: black or white.
 * @param {string} fill `#rrggbb`
 * @returns {string}
 */
export function inkOn(fill) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
  return 0.3 * red + 0.59 * green + 0.11 * blue > 130 ? "#000000" : "#ffffff";
}
