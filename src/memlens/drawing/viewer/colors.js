/** Colours by size and by owner: classes, and of each its name and its colour in the style sheet. */

import { formatBytes } from "./format.js";

/** Sizes that have colours of their own. */
const SIZES = 5;

/**
 * How blocks are coloured: the class of each, and of each class its colour in the style sheet and what it is called.
 * @typedef {{ classOf: Uint8Array, classes: { ink: string, name: string }[] }} Colouring
 */

/**
 * By size: each class reaches down to a quarter of the one before.
 * @param {Float64Array} sizes
 * @returns {Colouring}
 */
export function bySize(sizes) {
  const top = 2 ** Math.ceil(Math.log2(sizes.reduce((most, size) => Math.max(most, size), 1) + 1));
  const least = Array.from({ length: SIZES }, (_, k) => (k === SIZES - 1 ? 0 : top / 4 ** (k + 1)));
  return {
    classOf: Uint8Array.from(sizes, (size) => least.findIndex((bytes) => size >= bytes)),
    classes: least.map((bytes, k) => ({ ink: `size-${k + 1}`, name: bytes ? `${formatBytes(bytes)} and more` : `below ${formatBytes(least[k - 1])}` })),
  };
}

/**
 * By owner: those whose bars are largest, in bytes times events, have colours of their own, the same ones in all pictures.
 * @param {import("./app.js").App} app
 * @param {Float64Array} owners of the blocks that are coloured
 * @returns {Colouring}
 */
export function byOwner(app, owners) {
  const largest = /** @type {number[]} */ (app.view.lifetimes.largest_owners);
  const classes = largest.map((number, k) => ({ ink: `owner-${k + 1}`, name: shortOwner(app, number) }));
  return {
    classOf: Uint8Array.from(owners, (number) => (largest.includes(number) ? largest.indexOf(number) : largest.length)),
    classes: [...classes, { ink: "owner-other", name: largest.length ? "other owners" : "owner unknown" }],
  };
}

/**
 * By role, where roles are told.
 * @param {import("./app.js").App} app
 * @param {Float64Array} roles of the blocks that are coloured
 * @returns {Colouring}
 */
export function byRole(app, roles) {
  return { classOf: Uint8Array.from(roles), classes: app.view.roles?.classes ?? [] };
}

/**
 * What that choice is called; nothing where there is none.
 * @param {import("./app.js").App} app
 * @returns {string[]}
 */
export function roleWay(app) {
  return app.view.roles ? [`role, told by ${app.view.roles.told_by}`] : [];
}

/**
 * An owner in short: the operator or the innermost frame, and the user's own.
 * @param {import("./app.js").App} app
 * @param {number} number
 * @returns {string}
 */
export function shortOwner(app, number) {
  const short = app.view.short_owners?.[number] ?? "";
  const frames = short.split(" < ").map((frame) => (frame.length > 48 ? `${frame.slice(0, 24)}\u2026${frame.slice(-23)}` : frame));
  return `${frames.join(" < ")}${app.ownerText(number) === short ? "" : " \u2026"}`;
}
