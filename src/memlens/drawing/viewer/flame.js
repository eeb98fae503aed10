/** What is live at the peak, or at the moment that is selected, by whom it was allocated: boxes as wide as their bytes, each below its caller. */

import { boxes } from "./boxes.js";
import { element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { liveAt, momentText } from "./moment.js";

/** Height of a box in CSS pixels; frames of a stack that are shown, from the innermost one; the share of the picture that a box is drawn from. */
const FRAME = 19, FRAMES = 40, NARROW = 2e-4;
/** A box has the colour of a group that has so much of it. */
const NEARLY_ALL = 0.9;

/**
 * `start` is where it begins among all bytes, and `width` for how many it is drawn: all that its children are drawn for; `groups` has its bytes by groups of the picture.
 * @typedef {{ name: string, parent: Frame | null, depth: number, bytes: number, blocks: number, start: number, width: number, groups: Map<number, number>, children: Map<string, Frame> }} Frame
 */

/**
 * The frames of a flame graph, the root first and parents before their children; the bytes of each are the sum of its children's.
 * @param {any} flame columns of groups of blocks
 * @param {string[]} owners
 * @returns {Frame[]}
 */
export function framesOf(flame, owners) {
  /** @param {string} name @param {Frame | null} parent @returns {Frame} */
  const frame = (name, parent) => ({ name, parent, depth: parent ? parent.depth + 1 : 0, bytes: 0, blocks: 0, start: 0, width: 0, groups: new Map(), children: new Map() });
  const root = frame("all that is live", null), known = flame.owners.some((/** @type {number} */ owner) => owner >= 0);
  /** @param {string[]} path @param {number} bytes @param {number} blocks @param {number} [group] */
  const add = (path, bytes, blocks, group = -1) => {
    const all = [root];
    path.forEach((name, k) => {
      // Blocks of one size may be as many in each of two groups.
      const at = all[k], key = k + 1 < path.length ? name : `${name} ${group}`, child = at.children.get(key) ?? frame(name, at);
      at.children.set(key, child);
      all.push(child);
    });
    for (const one of all) {
      [one.bytes, one.blocks] = [one.bytes + bytes, one.blocks + blocks];
      one.groups.set(group, (one.groups.get(group) ?? 0) + bytes);
    }
  };
  for (let k = 0; k < flame.owners.length; k += 1) {
    const size = flame.size_bytes[k], blocks = flame.blocks[k], owner = flame.owners[k];
    const callers = owner >= 0 ? owners[owner].split(" < ", FRAMES) : known ? ["(no owner known)"] : [];
    add([...callers.reverse(), `${formatCount(blocks)} \u00d7 ${formatBytes(size)}${size < 1024 ? "" : ` (${size} B)`}`], size * blocks, blocks, flame.groups[k]);
  }
  if (flame.left.bytes) add([`(${flame.left.groups ? `${formatCount(flame.left.groups)} ` : ""}smaller groups)`], flame.left.bytes, flame.left.blocks);
  // FREEs without an ALLOC make the level lower than what is live: that is a box that takes away.
  if (flame.other_bytes) add([flame.other_bytes > 0 ? "(it is not known which blocks)" : "(freed and never allocated)"], flame.other_bytes, 0);
  const frames = [root], largestFirst = (/** @type {Frame} */ one) => [...one.children.values()].sort((a, b) => b.bytes - a.bytes);
  for (const parent of frames) frames.push(...largestFirst(parent));
  for (const one of [...frames].reverse()) {
    one.width = Math.max(one.width, one.bytes);
    if (one.parent) one.parent.width += one.width;
  }
  for (const parent of frames) largestFirst(parent).reduce((start, child) => (child.start = start) + child.width, parent.start);
  return frames;
}

/**
 * The groups of what is live at the moment that is looked at, or at the nearest one that the page knows.
 * @param {import("./app.js").App} app
 */
function groupsAt(app) {
  const { lifetimes: { known }, state } = app.view, live = liveAt(app, app.moment), groups = byGroup(app, live.rows.filter(({ size }) => size !== null)), others = live.rows.filter(({ size }) => size === null);
  const blocks = live.rows.reduce((sum, { count }) => sum + (count ?? 0), 0), smaller = others.find(({ count }) => count) ?? { count: 0, bytes: 0 };
  return {
    words: live.level ? `${formatExact(live.level)}${known ? ` in ${formatCount(blocks)} blocks` : ", and it is not known in which blocks,"}${state ? "" : ` ${momentText(app, live)}`}.` : "Nothing is allocated, as far as this input says.",
    level: live.level,
    size_bytes: groups.map(({ size }) => Number(size)), blocks: groups.map(({ count }) => Number(count)), owners: groups.map(({ owner }) => owner), groups: groups.map(({ group }) => group),
    left: { groups: 0, blocks: smaller.count, bytes: smaller.bytes }, other_bytes: others.reduce((sum, { bytes }) => sum + bytes, -smaller.bytes),
  };
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function flameGraph(app) {
  const { owners } = app.view;
  let flame = groupsAt(app);
  let frames = framesOf(flame, owners), focus = frames[0];
  const height = () => (frames.reduce((most, one) => Math.max(most, one.depth), 0) + 1) * FRAME;
  /** @param {Frame} one */
  const zoom = (one) => {
    if (one.bytes > 0) focus = one;
    picture.canvas.dataset.focus = focus.name;
    picture.show(height());
  };
  const at = () => picture.at() ?? focus;
  const picture = boxes({
    id: "flame", label: `Flame graph of what is live: ${formatBytes(focus.bytes)} in ${formatCount(focus.blocks)} blocks`, height: height(),
    hint: "A box has the colour of what nearly all of it is. A click zooms in; Esc shows all, Backspace goes back. Keys: \u2190 \u2192 \u2191 \u2193 from box to box, Enter zoom.",
    lay: () => frames.map((one) => ({
      left: Math.max((one.start - focus.start) / Math.max(focus.width, 1), 0), right: Math.min((one.start + one.width - focus.start) / Math.max(focus.width, 1), 1),
      top: one.depth * FRAME, height: FRAME - 1, of: one, text: one.name,
      fill: !one.name.toLowerCase().includes(app.sought) ? "gap" : inkOf(one, app.stacks.way.groups),
    })).filter(({ left, right }) => right - left > NARROW),
    tell: (one) => {
      const share = flame.level > 0 ? `, ${((100 * one.bytes) / flame.level).toFixed(1)}% of all that is live` : "";
      return [`${one.name}: ${formatExact(one.bytes)} in ${formatCount(one.blocks)} ${one.blocks === 1 ? "block" : "blocks"}${share}.`, { bytes: one.bytes, blocks: one.blocks, name: one.name }];
    },
    act: zoom, stops: (all) => all.filter(({ parent }) => parent === at().parent),
    keys: {
      ArrowUp: () => picture.point(at().parent ?? at()),
      ArrowDown: () => picture.point(frames.find(({ parent }) => parent === at()) ?? at()),
      Enter: () => zoom(at()), Escape: () => zoom(frames[0]), Backspace: () => zoom(focus.parent ?? focus),
    },
  });
  const what = element("p", {});
  const update = () => {
    flame = groupsAt(app);
    frames = framesOf(flame, owners);
    focus = frames[0];
    what.textContent = flame.words;
    picture.canvas.dataset.peakBytes = String(focus.bytes);
    picture.point(null);
    picture.show(height());
  };
  update();
  if (!flame.owners.length) return section("flame", "Flame graph", what);
  app.onSelect(update);
  app.onLook(() => {
    const path = pathOf(focus);
    update();
    focus = path.reduce((one, name) => one.children.get(name) ?? one, focus);
    picture.show(height());
  });
  return section("flame", "Flame graph", what, picture.canvas, picture.line, picture.hint);
}

/** The names from below the root to a frame. @param {Frame} frame @returns {string[]} */
const pathOf = ({ name, parent }) => (parent ? [...pathOf(parent), name] : []);

/**
 * Blocks alike by the groups of the picture: as many of each as are live; or, where it is not known which blocks are, the group that nearly all blocks alike
 * are in that the page knows, -1 for none.
 * @param {import("./app.js").App} app
 * @param {import("./moment.js").Row[]} rows
 * @returns {(import("./moment.js").Row & { group: number })[]}
 */
export function byGroup(app, rows) {
  const { blocks, moment, stacks: { way: { groups } } } = app, { size_bytes: sizes, owner: owners } = blocks.columns, found = /** @type {Map<string, number[]>} */ (new Map());
  for (const number of blocks.nearest(moment) === moment ? blocks.liveAfter(moment) : blocks.byPlace) {
    const kind = `${sizes[number]} ${owners[number]}`, counts = found.get(kind) ?? groups.map(() => 0);
    counts[app.groupOf(number)] += 1;
    found.set(kind, counts);
  }
  return rows.flatMap((row) => {
    const counts = found.get(`${row.size} ${row.owner}`) ?? [], all = counts.reduce((sum, one) => sum + one, 0);
    if (all !== row.count) return [{ ...row, group: counts.findIndex((count) => count >= NEARLY_ALL * all) }];
    return counts.map((count, group) => ({ ...row, count, bytes: Number(row.size) * count, group })).filter(({ count }) => count);
  });
}

/**
 * The colour of a box: that of the group that has nearly all of it.
 * @param {Frame} frame
 * @param {{ ink: string }[]} groups
 * @returns {string}
 */
export function inkOf({ bytes, groups: own }, groups) {
  return groups.find((_, group) => (own.get(group) ?? 0) >= NEARLY_ALL * bytes)?.ink ?? "owner-other";
}
