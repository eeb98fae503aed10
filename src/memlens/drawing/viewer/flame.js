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
 * `start` is where it begins among all bytes, and `width` for how many it is drawn: all that its children are drawn for; `kinds` are the groups of blocks alike in it.
 * @typedef {{ name: string, parent: Frame | null, depth: number, bytes: number, blocks: number, start: number, width: number, kinds: number[], children: Map<string, Frame> }} Frame
 */

/**
 * The frames of a flame graph, the root first and parents before their children; the bytes of each are the sum of its children's.
 * @param {any} flame columns of groups of blocks
 * @param {string[]} owners
 * @returns {Frame[]}
 */
export function framesOf(flame, owners) {
  /** @param {string} name @param {Frame | null} parent @returns {Frame} */
  const frame = (name, parent) => ({ name, parent, depth: parent ? parent.depth + 1 : 0, bytes: 0, blocks: 0, start: 0, width: 0, kinds: [], children: new Map() });
  const root = frame("all that is live", null), known = flame.owners.some((/** @type {number} */ owner) => owner >= 0);
  /** @param {string[]} path @param {number} bytes @param {number} blocks @param {number[]} [kinds] */
  const add = (path, bytes, blocks, kinds = []) => {
    const all = [root];
    for (const name of path) {
      const at = all[all.length - 1], child = at.children.get(name) ?? frame(name, at);
      at.children.set(name, child);
      all.push(child);
    }
    for (const one of all) {
      [one.bytes, one.blocks] = [one.bytes + bytes, one.blocks + blocks];
      one.kinds.push(...kinds);
    }
  };
  for (let k = 0; k < flame.owners.length; k += 1) {
    const size = flame.size_bytes[k], blocks = flame.blocks[k], owner = flame.owners[k];
    const callers = owner >= 0 ? owners[owner].split(" < ", FRAMES) : known ? ["(no owner known)"] : [];
    add([...callers.reverse(), `${formatCount(blocks)} \u00d7 ${formatBytes(size)}${size < 1024 ? "" : ` (${size} B)`}`], size * blocks, blocks, [k]);
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
  const { lifetimes: { known }, state } = app.view, live = liveAt(app, app.moment), groups = live.rows.filter(({ size }) => size !== null), others = live.rows.filter(({ size }) => size === null);
  const blocks = live.rows.reduce((sum, { count }) => sum + (count ?? 0), 0), smaller = others.find(({ count }) => count) ?? { count: 0, bytes: 0 };
  return {
    words: live.level ? `${formatExact(live.level)}${known ? ` in ${formatCount(blocks)} blocks` : ", and it is not known in which blocks,"}${state ? "" : ` ${momentText(app, live)}`}.` : "Nothing is allocated, as far as this input says.",
    level: live.level,
    size_bytes: groups.map(({ size }) => Number(size)), blocks: groups.map(({ count }) => Number(count)), owners: groups.map(({ owner }) => owner),
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
  let shares = sharesOf(app, flame);
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
      fill: !one.name.toLowerCase().includes(app.sought) ? "gap" : inkOf(one, shares, app.stacks.way.groups),
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
    shares = sharesOf(app, flame);
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
    shares = sharesOf(app, flame);
    picture.show(height());
  });
  return section("flame", "Flame graph", what, picture.canvas, picture.line, picture.hint);
}

/**
 * Of each group of blocks alike the bytes that are in each group of the picture: of those that are live at the moment; or, where it is not known which these
 * are, as it is among all that the page knows.
 * @param {import("./app.js").App} app
 * @param {{ size_bytes: number[], blocks: number[], owners: number[] }} flame
 * @returns {number[][]}
 */
export function sharesOf(app, { size_bytes: sizes, blocks: counts, owners }) {
  const { blocks, moment, stacks: { way: { groups } } } = app, { columns } = blocks, found = /** @type {Map<string, number[]>} */ (new Map());
  for (const number of blocks.nearest(moment) === moment ? blocks.liveAfter(moment) : blocks.byPlace) {
    const kind = `${columns.size_bytes[number]} ${columns.owner[number]}`, bytes = found.get(kind) ?? groups.map(() => 0);
    bytes[app.groupOf(number)] += columns.size_bytes[number];
    found.set(kind, bytes);
  }
  return Array.from(sizes, (size, k) => {
    const bytes = found.get(`${size} ${owners[k]}`) ?? [], all = bytes.reduce((sum, one) => sum + one, 0);
    return bytes.map((one) => (all ? (one / all) * size * counts[k] : 0));
  });
}

/**
 * The colour of a box: that of the group that has nearly all of it.
 * @param {Frame} frame
 * @param {number[][]} shares
 * @param {{ ink: string }[]} groups
 * @returns {string}
 */
export function inkOf({ bytes, kinds }, shares, groups) {
  return groups.find((_, group) => kinds.reduce((sum, kind) => sum + (shares[kind][group] ?? 0), 0) >= NEARLY_ALL * bytes)?.ink ?? "owner-other";
}
