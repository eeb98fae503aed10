/** Who is alive from when to when: the largest blocks as bars, stacked up to the curve; all others are one band on top of them. */

import { color, drawing, stroke, write } from "./canvas.js";
import { byOwner, bySize, shortOwner } from "./colors.js";
import { element, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { FATES, livesOf, NOTHING, REST } from "./lives.js";
import { bytesTicks } from "./ticks.js";
import { zoomable } from "./zoom.js";

/** Height in CSS pixels; blocks in the list. */
const BARS_HEIGHT = 320, LISTED = 30;
/** The picture is a little higher than what is in it. */
const HEADROOM = 1.04;
/** What becomes of blocks, in words. */
export const FATE_WORDS = ["temporary", "held: not freed in what is shown", "released: carried in, freed here", "carried in, not freed here"];

/**
 * By what becomes of them; the counts are of all blocks, those without bars too.
 * @param {import("./app.js").App} app
 * @returns {import("./colors.js").Colouring}
 */
function byFate({ view: { lifetimes } }) {
  return {
    classOf: Uint8Array.from(lifetimes.fate),
    classes: FATES.map((fate, k) => {
      const { blocks, bytes } = lifetimes.fates[fate];
      return { ink: `fate-${fate}`, name: `${FATE_WORDS[k]} (${formatCount(blocks)}, ${formatBytes(bytes)})` };
    }),
  };
}

/**
 * One block in a sentence.
 * @param {import("./app.js").App} app
 * @param {number} bar
 * @returns {string}
 */
export function blockText(app, bar) {
  const { size_bytes: size, owner, fate, alloc_line: alloc, free_line: free } = app.view.lifetimes;
  const parts = [formatExact(size[bar]), shortOwner(app, owner[bar])];
  parts.push(alloc[bar] ? `allocated at ${app.lineText(alloc[bar])}` : "live before the input begins");
  parts.push(free[bar] ? `freed at ${app.lineText(free[bar])}` : "never freed", FATE_WORDS[fate[bar]]);
  return parts.filter(Boolean).join(" \u00b7 ");
}

/**
 * A colour as the four bytes of a pixel.
 * @param {string} name of a custom property that is written as six hexadecimal digits
 * @param {string} [other] mixed in
 * @param {number} [share] how much of that
 * @returns {number}
 */
function pixel(name, other = name, share = 0) {
  const [own, mixed] = [name, other].map((one) => parseInt(color(one).slice(1), 16));
  const [red, green, blue] = [16, 8, 0].map((bits) => Math.round(((own >> bits) & 255) * (1 - share) + ((mixed >> bits) & 255) * share));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/**
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
export function lifetimes(app) {
  const { axis, levels } = app, { lifetimes: columns } = app.view, lives = livesOf(app);
  if (!columns.known)
    return section("lifetimes", "Lifetimes", element("p", {}, "The lines of this log have no addresses, so which blocks are live is not known."));
  /** @type {Record<string, () => import("./colors.js").Colouring>} */
  const ways = { "size": () => bySize(lives.size), "owner": () => byOwner(app, columns.owner), "fate": () => byFate(app) };
  let way = new Set(columns.owner).size > 1 ? "owner" : "size", coloring = ways[way]();
  const highest = Math.max(levels.peak, lives.most) * HEADROOM;
  /** The bar that the pointer is on. */
  let over = -1;
  /** What was drawn last, and what it was drawn of. */
  const drawn = { cellsOf: "", imageOf: "", ...lives.picture(axis, 0, 0, 0), image: document.createElement("canvas") };

  /** @param {number} width @param {number} rows */
  const prepare = (width, rows) => {
    const cellsOf = [axis.from, axis.to, axis.overTime, width, rows].join();
    if (cellsOf !== drawn.cellsOf) Object.assign(drawn, lives.picture(axis, width, rows, highest));
    const imageOf = [cellsOf, way, over, app.selected?.kind, app.selected?.value, color("back")].join();
    if (imageOf !== drawn.imageOf) paint(app, drawn, width, rows, coloring, over);
    Object.assign(drawn, { cellsOf, imageOf });
  };
  /** What is being dragged over. @type {{ over: () => [number, number] | null }} */
  const brush = { over: () => null };
  const { canvas, redraw } = drawing("The largest blocks as bars over the run, stacked up to the allocated bytes; the list below has them as text", BARS_HEIGHT, (context, width, height) => {
    prepare(width, Math.round(height * (window.devicePixelRatio || 1)));
    context.imageSmoothingEnabled = false;
    context.drawImage(drawn.image, 0, 0, width, height);
    const y = (/** @type {number} */ bytes) => height - (bytes / highest) * height;
    // Bars and rest end at the curve, but for bars that reach above it.
    context.strokeStyle = color("text");
    context.beginPath();
    if (lives.most > levels.peak) drawn.columns.bytes.forEach((bytes, x) => context.lineTo(x + 0.5, y(bytes)));
    context.stroke();
    for (const tick of bytesTicks(0, highest, 6)) if (tick.at > 0 && y(tick.at) > 6) write(context, tick.text, 4, y(tick.at), { ink: color("quiet") });
    if (app.selected?.kind === "moment") {
      const x = axis.toPixel(Math.max(app.selected.value, axis.lo), width);
      stroke(context, color("text"), [x, 0], [x, height]);
    }
    // A bar may be too thin to be seen, so lines say where it begins and ends.
    const bar = lives.blockOf(app.block);
    for (const event of bar >= 0 ? [lives.alloc[bar], lives.free[bar]] : []) {
      const x = axis.toPixel(event, width);
      if (x >= 0 && x < width) stroke(context, color("chosen"), [x, 0], [x, height], [3, 3]);
    }
    const dragged = brush.over();
    context.fillStyle = color("brush");
    if (dragged) context.fillRect(dragged[0], 0, dragged[1] - dragged[0], height);
  });

  const told = element("p", { class: "told", role: "status", "aria-live": "polite", id: "lifetimes-at" });
  /** The cell under the pointer. @param {number} x @param {number} y */
  const cellAt = (x, y) => {
    const width = drawn.columns.events.length, rows = width ? drawn.cells.length / width : 0;
    const row = Math.floor((y / BARS_HEIGHT) * rows), column = Math.floor(x);
    return row >= 0 && row < rows && column >= 0 && column < width ? drawn.cells[row * width + column] : NOTHING;
  };
  /** @param {number} column */
  const restText = (column) => {
    const event = drawn.columns.events[column], level = drawn.columns.bytes[column];
    return `${formatExact(level - lives.bytesAfter(event))} in blocks without bars of their own, of ${formatExact(level)} right after event ${formatCount(event)}`;
  };
  /** @param {number | null} x @param {number} y */
  const hover = (x, y) => {
    const cell = x === null ? NOTHING : cellAt(x, y);
    over = cell > 0 ? cell - 1 : -1;
    told.textContent = over >= 0 ? blockText(app, over) : cell === REST && x !== null ? restText(Math.floor(x)) : "";
    Object.assign(told.dataset, { block: over, bytes: over >= 0 ? lives.size[over] : "" });
  };
  /** @param {number} x @param {number} y */
  const click = (x, y) => {
    const cell = cellAt(x, y), column = Math.min(Math.max(Math.floor(x), 0), drawn.columns.events.length - 1);
    if (cell > 0) app.select("block", cell - 1);
    else app.select("moment", drawn.columns.events[column]);
  };
  brush.over = zoomable(canvas, axis, { redraw, hover, click }).dragged;
  canvas.addEventListener("dblclick", () => app.select(null)); // its first click was none

  const legend = element("div", { class: "legend" });
  /** @param {string} name */
  const colour = (name) => {
    [way, coloring] = [name, ways[name]()];
    const used = new Set(coloring.classOf), entry = (/** @type {string} */ ink, /** @type {string} */ text) =>
      element("span", {}, element("i", { class: ink }), text);
    legend.replaceChildren(
      ...coloring.classes.map(({ ink, name: text }, k) => (used.has(k) ? entry(ink, text) : "")),
      entry("rest", `no bar of their own (${formatCount(columns.left_out.blocks)}, ${formatBytes(columns.left_out.bytes)})`));
    redraw();
  };
  const choice = element("select", { id: "lifetimes-by", change: () => colour(choice.value) },
    ...Object.keys(ways).map((name) => element("option", { value: name, selected: name === way }, name)));
  colour(way);
  axis.onChange(redraw);
  app.onSelect(redraw);
  Object.assign(canvas.dataset, { bars: lives.size.length, leftOutBlocks: columns.left_out.blocks, leftOutBytes: columns.left_out.bytes });
  canvas.setAttribute("aria-describedby", "lifetimes-at lifetimes-hint");
  const hint = element("p", { class: "hint", id: "lifetimes-hint" },
    "Click a bar for its whole life, beside them for what is alive there; drag and keys as in the timeline. What lives long lies at the bottom. "
    + "The largest blocks have bars, and those of the most bytes times events; of blocks alike first those that live at the peak.");
  return section("lifetimes", "Lifetimes", element("p", { class: "controls" }, element("label", {}, "Colour by ", choice)),
    legend, canvas, told, hint,
    lives.most > levels.peak ? element("p", { class: "hint" }, "This log frees what it never allocates, so the blocks that are live are more than the curve says: the bars reach above it.") : "",
    largestList(app));
}

/**
 * Colour the cells.
 * @param {import("./app.js").App} app
 * @param {{ cells: Int32Array, image: HTMLCanvasElement }} drawn
 * @param {number} width
 * @param {number} rows
 * @param {import("./colors.js").Colouring} coloring
 * @param {number} over the bar that the pointer is on
 */
function paint(app, { cells, image }, width, rows, { classOf, classes }, over) {
  const lives = livesOf(app), { selected } = app, chosen = lives.blockOf(app.block);
  const moment = selected?.kind === "moment" ? selected.value : null;
  // Of the rest, of nothing and of each bar its colour, and that of its edges; pale where it does not live at the selected moment.
  const inks = new Uint32Array(lives.size.length + 2), edges = new Uint32Array(inks.length);
  const shades = classes.map(({ ink }) => [pixel(ink), pixel(ink, "back", 0.5), pixel(ink, "back", 0.75), pixel(ink, "back", 0.9)]);
  inks[REST + 1] = pixel("rest");
  for (let bar = 0; bar < lives.size.length; bar += 1) {
    const pale = moment !== null && (lives.alloc[bar] > moment || lives.free[bar] <= moment) ? 2 : 0;
    inks[bar + 2] = shades[classOf[bar]][pale];
    edges[bar + 2] = shades[classOf[bar]][pale + 1];
  }
  if (over >= 0) inks[over + 2] = pixel(classes[classOf[over]].ink, "text", 0.3);
  if (chosen >= 0) inks[chosen + 2] = edges[chosen + 2] = pixel("chosen");
  const striped = classes.findIndex(({ ink }) => ink === "fate-held");
  image.width = width;
  image.height = rows;
  const context = /** @type {CanvasRenderingContext2D} */ (image.getContext("2d"));
  const data = context.createImageData(width, rows), pixels = new Uint32Array(data.data.buffer);
  for (let at = 0; at < cells.length; at += 1) {
    const cell = cells[at];
    if (cell === NOTHING) continue;
    // An edge where enough of the bar lies beside it: thin bars keep their colour.
    const edge = cell > 0 && ((cells[at - width] !== cell && cells[at + width] === cell && cells[at + 2 * width] === cell)
      || (cells[at - 1] !== cell && cells[at + 1] === cell && cells[at + 2] === cell)
      || (striped >= 0 && classOf[cell - 1] === striped && (at % width + Math.floor(at / width)) % 8 < 2));
    pixels[at] = edge ? edges[cell + 1] : inks[cell + 1];
  }
  context.putImageData(data, 0, 0);
}

/**
 * The largest blocks as a table, for the keyboard and for who cannot see the bars.
 * @param {import("./app.js").App} app
 * @returns {HTMLElement}
 */
function largestList(app) {
  const { size } = livesOf(app), bars = Array.from(size.keys()).sort((a, b) => size[b] - size[a] || a - b).slice(0, LISTED);
  return element("details", { id: "largest" }, element("summary", {}, `The ${formatCount(bars.length)} largest blocks as a list`), blockTable(app, bars));
}

/**
 * Blocks as a table; each can be selected.
 * @param {import("./app.js").App} app
 * @param {number[]} bars
 * @returns {HTMLElement}
 */
export function blockTable(app, bars) {
  const { size_bytes: size, owner, fate, alloc_line: alloc, free_line: free } = app.view.lifetimes;
  const line = (/** @type {number} */ number, /** @type {string} */ none) => element("td", { class: "right" }, number ? formatCount(number) : none);
  const known = bars.some((bar) => owner[bar] >= 0);
  const rows = bars.map((bar) => element("tr", { "data-block": bar, "data-bytes": size[bar] },
    element("td", {}, element("button", { type: "button", click: () => app.select("block", bar) }, formatBytes(size[bar]))),
    line(alloc[bar], "before"), line(free[bar], "never"), element("td", {}, FATE_WORDS[fate[bar]].split(/[:,]/, 1)[0]),
    known ? element("td", { title: app.ownerText(owner[bar]) }, shortOwner(app, owner[bar])) : ""));
  const { line: place } = app.view.terms;
  const heads = ["Block", `Allocated at ${place}`, `Freed at ${place}`, "Fate", ...(known ? ["Owner"] : [])].map((text) => element("th", { scope: "col" }, text));
  return element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows)));
}
