/** Colours by size and by owner: names of custom properties of the style sheet. */

/** Sizes from one of these on have a colour of their own, `size-0` to `size-5`. */
const BOUNDS = [4096, 65536, 1 << 20, 1 << 24, 1 << 28];
export const SIZE_CLASSES = ["below 4 KiB", "below 64 KiB", "below 1 MiB", "below 16 MiB", "below 256 MiB", "256 MiB and more"];
/** Owners that have a colour of their own, `fill-0` to `fill-7`; the others share one, `fill-rest`. */
const COLORED = 8;

/**
 * The class of a size.
 * @param {number} bytes
 * @returns {number}
 */
export function sizeClass(bytes) {
  let k = 0;
  while (k < BOUNDS.length && bytes >= BOUNDS[k]) k += 1;
  return k;
}

/**
 * The owners with the most bytes, each with the number of its colour.
 * @param {Map<number, number>} bytes by owner
 * @returns {Map<number, number>}
 */
export function largestOwners(bytes) {
  const largest = [...bytes].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, COLORED);
  return new Map(largest.map(([owner], k) => [owner, k]));
}

/**
 * An owner in short: the operator, or of a call stack its innermost frame.
 * @param {string} owner
 * @returns {string}
 */
export function shortOwner(owner) {
  return owner.split(" < ", 1)[0];
}
