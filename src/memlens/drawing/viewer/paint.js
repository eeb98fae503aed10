/** The cells of a picture as pixels. */

import { color } from "./canvas.js";
import { livesOf, NOTHING } from "./lives.js";

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
 * Colour the cells: areas and bars by their groups, an edge around bars where there is room for one; pale what is not sought.
 * @param {import("./app.js").App} app
 * @param {{ cells: Int32Array, image: HTMLCanvasElement }} drawn
 * @param {number} width
 * @param {number} rows
 * @param {number} over the bar that the pointer is on
 */
export function paint(app, { cells, image }, width, rows, over) {
  const lives = livesOf(app), { groups, bars } = app.stacks.way, count = groups.length, chosen = lives.blockOf(app.block);
  // Of each group from the last one on, of nothing and of each bar its colour, and that of its edges.
  const inks = new Uint32Array(count + 1 + lives.size.length), edges = new Uint32Array(inks.length);
  const shades = groups.map(({ ink }) => [0, 0.45, 0.8, 0.92].map((share) => pixel(ink, "back", share)));
  groups.forEach((_, group) => {
    [inks[count - 1 - group], edges[count - 1 - group]] = shades[group].slice(app.finds(group) ? 0 : 2);
  });
  for (let bar = 0; bar < lives.size.length; bar += 1)
    [inks[count + 1 + bar], edges[count + 1 + bar]] = shades[bars[bar]].slice(app.found === null || app.found[bar] ? 0 : 2);
  if (over >= 0) inks[count + 1 + over] = pixel(groups[bars[over]].ink, "text", 0.3);
  // Against whatever lies beside it: one of the two stands out.
  if (chosen >= 0) [inks[count + 1 + chosen], edges[count + 1 + chosen]] = [pixel("text"), pixel("back")];
  [image.width, image.height] = [width, Math.max(rows, 1)];
  const context = /** @type {CanvasRenderingContext2D} */ (image.getContext("2d"));
  const data = context.createImageData(width, Math.max(rows, 1)), pixels = new Uint32Array(data.data.buffer);
  for (let at = 0; at < cells.length; at += 1) {
    const cell = cells[at];
    if (cell === NOTHING) continue;
    // A bar has an edge where enough of it lies beside that, and so has the top of an area: what is thin keeps its colour.
    const edge = (cells[at - width] !== cell && cells[at + width] === cell && cells[at + 2 * width] === cell)
      || (cell > 0 && (cells[at - 1] !== cell && cells[at + 1] === cell && cells[at + 2] === cell && (cells[at - width] === cell || cells[at + width] === cell)));
    pixels[at] = edge ? edges[cell + count] : inks[cell + count];
  }
  context.putImageData(data, 0, 0);
}
