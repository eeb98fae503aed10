/** What is live at the peak, by whom it was allocated: boxes as wide as their bytes, callers above or below. */

import { color, drawing, inkOn } from "./canvas.js";
import { element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { byOwner, bySize } from "./colors.js";

/** Height of a box, and a letter's width, in CSS pixels; frames of a stack that are shown, from the innermost one. */
const BOX = 19, LETTER = 6.2, FRAMES = 40;

/**
 * @typedef {{ name: string, parent: Box | null, depth: number, bytes: number, blocks: number, start: number, width: number, group: number, children: Map<string, Box> }} Box
 * `start` is where it begins among all bytes, and `width` for how many it is drawn: all that its children are drawn for; `group` is the largest
 * group of blocks in it, -1 where it has none.
 */

/**
 * The boxes of a flame graph, the root first and parents before their children; the bytes of each are the sum of its children's.
 * @param {any} flame columns of groups of blocks (`memlens.drawing.flame`)
 * @param {string[]} owners
 * @param {boolean} inward the outermost caller first, and not what allocates
 * @returns {Box[]}
 */
export function boxesOf(flame, owners, inward) {
  const root = box("all that is live at the peak", null, -1), known = flame.owners.some((/** @type {number} */ owner) => owner >= 0);
  /**
   * @param {string[]} path
   * @param {number} bytes
   * @param {number} blocks
   * @param {number} [group]
   */
  const add = (path, bytes, blocks, group = -1) => {
    let at = root;
    at.bytes += bytes;
    at.blocks += blocks;
    for (const name of path) {
      const child = at.children.get(name) ?? box(name, at, group);
      at.children.set(name, child);
      child.bytes += bytes;
      child.blocks += blocks;
      at = child;
    }
  };
  for (let k = 0; k < flame.owners.length; k += 1) {
    const size = flame.size_bytes[k], blocks = flame.blocks[k], owner = flame.owners[k];
    const frames = owner >= 0 ? owners[owner].split(" < ", FRAMES) : known ? ["(no owner known)"] : [];
    add([...(inward ? frames.reverse() : frames), `${formatCount(blocks)} \u00d7 ${formatBytes(size)}${size < 1024 ? "" : ` (${size} B)`}`], size * blocks, blocks, k);
  }
  if (flame.left.groups) add([`(${formatCount(flame.left.groups)} smaller groups)`], flame.left.bytes, flame.left.blocks);
  if (flame.other_bytes > 0) add(["(it is not known which blocks)"], flame.other_bytes, 0);
  // FREEs without an ALLOC make the level lower than what is live: that is a box that takes away.
  if (flame.other_bytes < 0) add(["(freed and never allocated)"], flame.other_bytes, 0);
  widen(root);
  const boxes = [root];
  for (const parent of boxes) {
    let start = parent.start;
    for (const child of [...parent.children.values()].sort((a, b) => b.bytes - a.bytes)) {
      child.start = start;
      start += child.width;
      boxes.push(child);
    }
  }
  return boxes;
}

/**
 * @param {string} name
 * @param {Box | null} parent
 * @param {number} group
 * @returns {Box}
 */
function box(name, parent, group) {
  return { name, parent, depth: parent ? parent.depth + 1 : 0, bytes: 0, blocks: 0, start: 0, width: 0, group, children: new Map() };
}

/** @param {Box} at */
function widen(at) {
  for (const child of at.children.values()) {
    widen(child);
    at.width += child.width;
  }
  at.width = Math.max(at.width, at.bytes, 0);
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function flameGraph(app) {
  const { flame, owners } = app.view;
  // Each box has the colour of the largest group in it, the one that the map has for its blocks.
  const colouring = flame.owners.some((/** @type {number} */ owner) => owner >= 0) ? byOwner(app, flame.owners) : bySize(flame.size_bytes);
  const stacks = owners.some((owner) => owner.includes(" < "));
  let inward = stacks, boxes = boxesOf(flame, owners, inward), focus = boxes[0], sought = "";
  /** What the pointer or the keyboard is at. @type {Box | null} */
  let at = null;
  const height = () => (boxes.reduce((most, one) => Math.max(most, one.depth), 0) + 1) * BOX;

  /**
   * Where a box is drawn: its left edge and its width, or nothing where it is not in what is shown.
   * @param {Box} one
   * @param {number} width
   * @returns {[number, number] | null}
   */
  const place = (one, width) => {
    const scale = width / Math.max(focus.width, 1);
    const left = Math.max((one.start - focus.start) * scale, 0), right = Math.min((one.start + one.width - focus.start) * scale, width);
    return right <= left ? null : [left, right - left];
  };

  const { canvas, redraw } = drawing("Flame graph of what is live at the peak", height(), (context, width) => {
    const inks = colouring.classes.map(({ ink }) => color(ink)), rest = color("owner-other"), faint = color("gap");
    const text = color("text");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const one of boxes) {
      const found = place(one, width);
      if (!found || found[1] < 0.4) continue;
      const [x, w] = found, y = one.depth * BOX, hit = !sought || one.name.toLowerCase().includes(sought);
      context.fillStyle = !hit ? faint : one.group < 0 ? rest : inks[colouring.classOf[one.group]];
      context.fillRect(x, y, w > 2 ? w - 1 : w, BOX - 1);
      const room = Math.floor((Math.min(w, width) - 6) / LETTER);
      if (room >= 3) {
        context.fillStyle = hit ? inkOn(String(context.fillStyle)) : text;
        context.fillText(one.name.length <= room ? one.name : `${one.name.slice(0, room - 1)}\u2026`, x + 3, y + BOX / 2, w - 4);
      }
      if (one === at) {
        context.strokeStyle = text;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), BOX - 3);
      }
    }
  });

  const told = element("p", { class: "told", role: "status", "aria-live": "polite", id: "flame-at" });
  const hint = element("p", { class: "hint", id: "flame-keys" }, "A click zooms in; Esc shows all, Backspace goes back. Keys: \u2190 \u2192 \u2191 \u2193 from box to box, Enter zoom.");
  const found = element("span", { class: "quiet", role: "status" });
  canvas.setAttribute("aria-describedby", "flame-at flame-keys");

  /** @param {Box | null} one */
  function point(one) {
    if (at === one) return;
    at = one;
    told.textContent = one ? sentence(one) : "";
    Object.assign(told.dataset, { bytes: one ? one.bytes : "", blocks: one ? one.blocks : "", name: one ? one.name : "" });
    redraw();
  }

  /** @param {Box} one */
  function sentence(one) {
    const share = flame.peak_bytes > 0 ? `, ${((100 * one.bytes) / flame.peak_bytes).toFixed(1)}% of the peak` : "";
    return `${one.name}: ${formatExact(one.bytes)} in ${formatCount(one.blocks)} ${one.blocks === 1 ? "block" : "blocks"}${share}.`;
  }

  /** @param {Box} one */
  function zoom(one) {
    focus = one.bytes > 0 ? one : focus;
    canvas.dataset.focus = focus.name;
    redraw();
  }

  /** @param {MouseEvent} event */
  const under = ({ offsetX: x, offsetY: y }) => boxes.find((one) => {
    const drawn = one.depth === Math.floor(y / BOX) && place(one, canvas.clientWidth);
    return drawn && drawn[0] <= x && x < drawn[0] + drawn[1];
  }) ?? null;
  canvas.addEventListener("pointermove", (event) => point(under(event)));
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("click", (event) => {
    point(under(event));
    if (at) zoom(at);
  });
  canvas.addEventListener("keydown", (event) => {
    const now = at ?? focus, siblings = now.parent ? [...now.parent.children.values()].sort((a, b) => a.start - b.start) : [now];
    const next = /** @type {Record<string, () => void>} */ ({
      ArrowRight: () => point(siblings[siblings.indexOf(now) + 1] ?? now),
      ArrowLeft: () => point(siblings[siblings.indexOf(now) - 1] ?? now),
      ArrowUp: () => point(now.parent ?? now),
      ArrowDown: () => point(boxes.find((one) => one.parent === now) ?? now),
      Enter: () => zoom(now),
      Escape: () => zoom(boxes[0]),
      Backspace: () => zoom(focus.parent ?? focus),
    })[event.key];
    if (!next) return;
    next();
    event.preventDefault();
  });

  const turn = element("button", { type: "button", "aria-pressed": "false", click: () => {
    inward = !inward;
    boxes = boxesOf(flame, owners, inward);
    [focus, at] = [boxes[0], null];
    turn.setAttribute("aria-pressed", String(!inward));
    canvas.style.height = `${height()}px`;
    redraw();
  } }, "What allocates first, callers below");
  const search = element("input", { type: "search", placeholder: "Find a name", "aria-label": "Find a name in the flame graph", input: () => {
    sought = search.value.trim().toLowerCase();
    // A box within one that is found is counted with it.
    found.textContent = sought ? `${formatExact(bytesFound(boxes, sought))} in what is found` : "";
    redraw();
  } });

  canvas.setAttribute("aria-label", `Flame graph of what is live at the peak: ${formatBytes(boxes[0].bytes)} in ${formatCount(boxes[0].blocks)} blocks`);
  canvas.dataset.peakBytes = String(boxes[0].bytes);
  const where = flame.line === null ? "" : ` at ${app.lineText(flame.line)}`;
  const less = flame.other_bytes < 0 ? ` The level is ${formatExact(-flame.other_bytes)} lower than what is live: so much is freed that the log never allocated.` : "";
  const blocks = flame.owners.length ? ` in ${formatCount(boxes[0].blocks)} blocks` : ", and it is not known in which blocks";
  const what = element("p", {}, flame.peak_bytes ? `${formatExact(flame.peak_bytes)}${blocks}${where}.${less}` : "Nothing is allocated, as far as this input says.");
  if (!flame.owners.length) return section("flame", "Live at the peak", what);
  return section("flame", "Live at the peak", what, element("p", { class: "controls" }, ...(stacks ? [turn] : []), search, found), canvas, told, hint);
}

/**
 * The bytes of the boxes whose names hold a text; those of a box within another one are counted once.
 * @param {Box[]} boxes
 * @param {string} text in small letters
 * @returns {number}
 */
export function bytesFound(boxes, text) {
  const within = new Set();
  let sum = 0;
  for (const one of boxes) {
    const counted = within.has(one.parent);
    if (!counted && !one.name.toLowerCase().includes(text)) continue;
    within.add(one);
    if (!counted) sum += one.bytes;
  }
  return sum;
}
