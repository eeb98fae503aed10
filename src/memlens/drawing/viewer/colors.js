/** Colours of blocks, the same in all pictures: those of the groups that the areas have. */

/**
 * The colours of groups of blocks: those of the areas by owner, or by size where no owner is known.
 * @param {import("./app.js").App} app
 * @param {ArrayLike<number>} sizes
 * @param {ArrayLike<number>} owners
 * @returns {string[]}
 */
export function inksOf(app, sizes, owners) {
  const key = Array.from(owners).some((owner) => owner >= 0) ? "owner" : "size", groups = app.stacks.ways.find((way) => way.key === key)?.groups ?? [];
  return Array.from(sizes, (size, k) => groups.find(({ name, from = 0, to = 0 }) => (key === "owner" ? name === app.view.short_owners[owners[k]] : from <= size && size < to))?.ink ?? "owner-other");
}

/**
 * An owner in short: the operator or the innermost frame, and the user's own.
 * @param {import("./app.js").App} app
 * @param {number} number
 * @returns {string}
 */
export function shortOwner(app, number) {
  const short = app.view.short_owners?.[number] ?? "";
  return `${shortName(short)}${app.ownerText(number) === short ? "" : " \u2026"}`;
}

/**
 * A name without the middles of long frames.
 * @param {string} name
 * @returns {string}
 */
export function shortName(name) {
  return name.split(" < ").map((frame) => (frame.length > 48 ? `${frame.slice(0, 24)}\u2026${frame.slice(-23)}` : frame)).join(" < ");
}
