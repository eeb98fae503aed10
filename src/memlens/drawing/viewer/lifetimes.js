/** Who is alive from when to when: the largest blocks as bars, stacked up to the curve; all others are one band on top of them. */

import { color, drawing, stroke, write } from "./canvas.js";
import { byOwner, byRole, bySize, roleWay, shortOwner } from "./colors.js";
import { button, choice, element, explained, legendOf, section } from "./dom.js";
import { formatBytes, formatCount, formatExact } from "./format.js";
import { grid } from "./grid.js";
import { livesOf, NOTHING, REST } from "./lives.js";
import { bytesTicks } from "./ticks.js";
import { zoomable } from "./zoom.js";

/** Height in CSS pixels; blocks in the list. */
const BARS_HEIGHT = 320, LISTED = 30;
/** The picture is a little higher than what is in it. */
const HEADROOM = 1.04;

/**
 * One block in a sentence.
 * @param {import("./app.js").App} app
 * @param {number} bar
 * @returns {string}
 */
function blockText(app, bar) {
  const { size_bytes: size, owner, fate, fates, role, alloc_line: alloc, free_line: free } = app.view.lifetimes;
  const born = alloc[bar] ? `allocated at ${app.lineText(alloc[bar])}` : "live before the input begins", gone = free[bar] ? `freed at ${app.lineText(free[bar])}` : "never freed";
  return [formatExact(size[bar]), shortOwner(app, owner[bar]), born, gone, fates[fate[bar]].words, app.view.roles?.classes[role[bar]].name].filter(Boolean).join(" \u00b7 ");
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
  const colorings = /** @type {import("./colors.js").Colouring[]} */ ([bySize(lives.size), byOwner(app, columns.owner), { classOf: Uint8Array.from(columns.fate), classes: columns.fates }, byRole(app, columns.role)]);
  let way = new Set(columns.owner).size > 1 ? 1 : 0;
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
    if (imageOf !== drawn.imageOf) paint(app, drawn, width, rows, colorings[way], over);
    Object.assign(drawn, { cellsOf, imageOf });
  };
  const { canvas, redraw } = drawing("The largest blocks as bars over the run, stacked up to the allocated bytes; the list below has them as text", BARS_HEIGHT, (context, width, height) => {
    prepare(width, Math.round(height * (window.devicePixelRatio || 1)));
    context.imageSmoothingEnabled = false;
    context.drawImage(drawn.image, 0, 0, width, height);
    const y = (/** @type {number} */ bytes) => height - (bytes / highest) * height;
    for (const tick of bytesTicks(0, highest, 6)) if (tick.at > 0 && y(tick.at) > 6) write(context, tick.text, 4, y(tick.at));
    // The selected moment; and of the selected bar, which may be too thin to be seen, where it begins and ends.
    const bar = lives.blockOf(app.block), moment = app.selected?.kind === "moment";
    for (const event of moment ? [Math.max(app.selected?.value ?? 0, axis.lo)] : bar >= 0 ? [lives.alloc[bar], lives.free[bar]] : []) {
      const x = axis.toPixel(event, width);
      if (x >= 0 && x < width) stroke(context, color(moment ? "text" : "chosen"), [x, 0], [x, height], moment ? [] : [3, 3]);
    }
    const dragged = zoom.dragged();
    context.fillStyle = color("brush");
    if (dragged) context.fillRect(dragged[0], 0, dragged[1] - dragged[0], height);
  });

  const { line, hint, tell } = explained(canvas, "lifetimes", "Click a bar for its whole life, beside them for what is alive there; drag and keys as in the timeline. "
    + "What lives long lies at the bottom. The largest blocks have bars, and those of the most bytes times events; of blocks alike first those that live at the peak.");
  /** The column and the cell at a place. @param {number | null} x @param {number} y @returns {[number, number]} */
  const at = (x, y) => {
    const width = drawn.columns.events.length, column = Math.min(Math.max(Math.floor(x ?? 0), 0), width - 1);
    return [column, x === null ? NOTHING : drawn.cells[Math.floor((y / BARS_HEIGHT) * drawn.cells.length / width) * width + column] ?? NOTHING];
  };
  /** @param {number | null} x @param {number} y */
  const hover = (x, y) => {
    const [column, cell] = at(x, y), event = drawn.columns.events[column], level = drawn.columns.bytes[column];
    over = cell > 0 ? cell - 1 : -1;
    tell(over >= 0 ? blockText(app, over) : cell !== REST ? ""
      : `${formatExact(level - lives.bytesAfter(event))} in blocks without bars of their own, of ${formatExact(level)} right after event ${formatCount(event)}`,
    { block: over, bytes: over >= 0 ? lives.size[over] : "" });
  };
  /** @param {number} x @param {number} y */
  const click = (x, y) => {
    const [column, cell] = at(x, y);
    if (cell > 0) app.select("block", cell - 1);
    else app.select("moment", drawn.columns.events[column]);
  };
  const zoom = zoomable(canvas, axis, { redraw, hover, click });
  canvas.addEventListener("dblclick", () => app.select(null)); // its first click was none

  const legend = element("div"), rest = { ink: "rest", name: `no bar of their own (${formatCount(columns.left_out.blocks)}, ${formatBytes(columns.left_out.bytes)})` };
  /** @param {number} k */
  const colour = (k) => {
    way = k;
    const { classOf, classes } = colorings[k], used = new Set(classOf);
    legend.replaceChildren(legendOf([...classes.filter((_, one) => used.has(one)), rest]));
    redraw();
  };
  colour(way);
  axis.onChange(redraw);
  app.onSelect(redraw);
  Object.assign(canvas.dataset, { bars: lives.size.length, leftOutBlocks: columns.left_out.blocks, leftOutBytes: columns.left_out.bytes });
  const bars = Array.from(lives.size.keys()).sort((a, b) => lives.size[b] - lives.size[a] || a - b).slice(0, LISTED);
  return section("lifetimes", "Lifetimes", element("p", { class: "controls" }, choice("Colour by", ["size", "owner", "fate", ...roleWay(app)], colour, { first: way, id: "lifetimes-by" })),
    legend, canvas, line, hint,
    lives.most > levels.peak ? element("p", { class: "hint" }, "This log frees what it never allocates, so the blocks that are live are more than the curve says: the bars reach above it.") : "",
    element("details", { id: "largest" }, element("summary", {}, `The ${formatCount(bars.length)} largest blocks as a list`), blockTable(app, "largest-blocks", bars)));
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
  const lives = livesOf(app), chosen = lives.blockOf(app.block), moment = app.selected?.kind === "moment" ? app.selected.value : null;
  // Of the rest, of nothing and of each bar its colour, and that of its edges; pale where it does not live at the selected moment.
  const inks = new Uint32Array(lives.size.length + 2), edges = new Uint32Array(inks.length);
  const shades = classes.map(({ ink }) => [0, 0.5, 0.75, 0.9].map((share) => pixel(ink, "back", share)));
  for (let bar = 0; bar < lives.size.length; bar += 1) {
    const pale = moment !== null && (lives.alloc[bar] > moment || lives.free[bar] <= moment) ? 2 : 0;
    [inks[bar + 2], edges[bar + 2]] = shades[classOf[bar]].slice(pale);
  }
  inks[REST + 1] = pixel("rest");
  if (over >= 0) inks[over + 2] = pixel(classes[classOf[over]].ink, "text", 0.3);
  if (chosen >= 0) inks[chosen + 2] = edges[chosen + 2] = pixel("chosen");
  const striped = classes.findIndex(({ ink }) => ink === "fate-held");
  [image.width, image.height] = [width, rows];
  const context = /** @type {CanvasRenderingContext2D} */ (image.getContext("2d"));
  const data = context.createImageData(width, rows), pixels = new Uint32Array(data.data.buffer);
  for (let at = 0; at < cells.length; at += 1) {
    const cell = cells[at];
    if (cell === NOTHING) continue;
    // An edge where enough of the bar lies beside it: thin bars keep their colour.
    const edge = cell > 0 && ((cells[at - width] !== cell && cells[at + width] === cell && cells[at + 2 * width] === cell)
      || (cells[at - 1] !== cell && cells[at + 1] === cell && cells[at + 2] === cell)
      || (striped >= 0 && classOf[cell - 1] === striped && ((at % width) + Math.floor(at / width)) % 8 < 2));
    pixels[at] = edge ? edges[cell + 1] : inks[cell + 1];
  }
  context.putImageData(data, 0, 0);
}

/**
 * Blocks as a table; each can be selected.
 * @param {import("./app.js").App} app
 * @param {string} id
 * @param {number[]} bars
 * @returns {HTMLElement}
 */
export function blockTable(app, id, bars) {
  const { lifetimes: columns, terms: { line } } = app.view;
  /** @param {string} key @param {string} title @param {(value: number, row: number) => string | Node} write */
  const field = (key, title, write) => ({ key, title, write, values: bars.map((bar) => columns[key][bar]) });
  /** @param {string} none */
  const place = (none) => (/** @type {number} */ number) => (number ? formatCount(number) : none);
  return grid(id, "blocks", [
    field("size_bytes", "Block", (size, row) => button(formatBytes(size), () => app.select("block", bars[row]))),
    field("alloc_line", `Allocated at ${line}`, place("before")), field("free_line", `Freed at ${line}`, place("never")),
    { key: "fate", title: "Fate", values: bars.map((bar) => columns.fates[columns.fate[bar]].words.split(/[:,]/, 1)[0]) },
    { key: "owner", title: "Owner", values: bars.map((bar) => app.ownerText(columns.owner[bar])), write: (_, row) => shortOwner(app, columns.owner[bars[row]]) },
  ], { plain: true, data: (row) => ({ "data-block": bars[row], "data-bytes": columns.size_bytes[bars[row]] }) }).parts[0];
}
