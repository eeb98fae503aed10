/** Colours of blocks, the same in all pictures: those of the groups that the areas have. */

/**
 * How blocks are coloured: the class of each, and of each class its colour in the style sheet and what it is called.
 * @typedef {{ classOf: Uint8Array, classes: { ink: string, name: string }[] }} Colouring
 */

/**
 * @param {import("./app.js").App} app
 * @param {string} key of a way to group what is live
 * @returns {{ ink: string, name: string, from?: number, to?: number }[]} its groups; none where the log has no such way
 */
const groupsOf = (app, key) => app.stacks.ways.find((way) => way.key === key)?.groups ?? [];

/**
 * Blocks by what their groups are told by; those of no group are others.
 * @param {import("./app.js").App} app
 * @param {string} key
 * @param {ArrayLike<any>} values
 * @param {(group: any, value: any) => boolean} holds
 * @returns {Colouring}
 */
function coloured(app, key, values, holds) {
  const groups = groupsOf(app, key).filter(({ ink }) => ink !== "owner-other"), known = new Map();
  const classOf = Uint8Array.from(values, (value) => {
    if (!known.has(value)) known.set(value, groups.findIndex((group) => holds(group, value)));
    return known.get(value) < 0 ? groups.length : known.get(value);
  });
  return { classOf, classes: [...groups, { ink: "owner-other", name: groups.length ? `other ${key}s` : `${key} not known` }] };
}

/**
 * @param {import("./app.js").App} app
 * @param {ArrayLike<number>} sizes
 * @returns {Colouring}
 */
export function bySize(app, sizes) {
  return coloured(app, "size", Array.from(sizes), ({ from, to }, size) => from <= size && size < to);
}

/**
 * @param {import("./app.js").App} app
 * @param {ArrayLike<number>} owners of the blocks that are coloured
 * @returns {Colouring}
 */
export function byOwner(app, owners) {
  return coloured(app, "owner", Array.from(owners, (number) => app.view.short_owners[number]), ({ name }, text) => name === text);
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
