/** Two runs over one axis, on which what both do stands at one place (`memlens.drawing.differences`): what is live in each by groups, the difference, the findings. */

import { Axis } from "./axis.js";
import { color, stroke, write } from "./canvas.js";
import { unpacked } from "./data.js";
import { choice, element, legendOf } from "./dom.js";
import { formatBytes, formatCount, formatExact, signedBytes } from "./format.js";
import { fieldsOf, grid } from "./grid.js";
import { Buckets, partOf } from "./levels.js";
import { NO_BARS } from "./lives.js";
import { drawAreas, nothingDrawn } from "./paint.js";
import { Stacks } from "./stacks.js";
import { pixelsOf, ROW, tracksOf } from "./track.js";

/** Heights in CSS pixels: a run, the difference, a lane of lives, the lines below; half of the width of a line's number. */
const RUN_HEIGHT = 170, DIFFERENCE_HEIGHT = 130, LANE = 12, LINES_HEIGHT = 32, NUMBER = 40;
/** @type {["base", "head"]} */
const SIDES = ["base", "head"];

/**
 * The place at which the runs are farthest apart, of some neighbouring ones: the levels there, and the lines of the last events, 0 where there is none.
 * @typedef {{ slot: number, size: number, base: number, head: number, baseLine: number, headLine: number }} Place
 */

/** Both curves, and head less base. */
export class Curves extends Buckets {
  /** @param {any} diff the data of the page, unpacked */
  constructor({ curves, details }) {
    super([...details, curves].map((columns) => {
      const { base_bytes: base, head_bytes: head, other, start_bytes: start } = columns, apart = Float64Array.from(base, (bytes, k) => head[k] - bytes);
      // Where they are farthest apart is one end of a bucket; the first one has what the runs start from, too.
      const ends = [Math.min, Math.max].map((end) => (other ? apart.map((bytes, k) => end(bytes, other[k], k ? bytes : start)) : apart));
      return partOf({ ...columns, away: apart.map(Math.abs) }, columns.lo ?? 0, {
        base: [columns.base_low ?? base, columns.base_high ?? base], head: [columns.head_low ?? head, columns.head_high ?? head], apart: [ends[0], ends[1]],
      });
    }));
  }

  /**
   * @param {number} from
   * @param {number} to
   * @returns {Place | null}
   */
  farthest(from, to) {
    const found = this.buckets(from, to), best = this.best(found, "away"), [{ lo, edges, columns }] = found;
    return best < 0 ? null : {
      slot: columns.slot?.[best] ?? lo + best, size: edges ? edges[best + 1] - edges[best] : 1,
      base: columns.base_bytes[best], head: columns.head_bytes[best], baseLine: columns.base_line[best], headLine: columns.head_line[best],
    };
  }
}

/**
 * What both runs have live by the same groups, drawn a panel each.
 * @param {any} diff
 * @param {Curves} curves
 */
function stacksOf(diff, curves) {
  return SIDES.map((side) => {
    const run = new Buckets(curves.parts.map(({ columns: { slot, [`${side}_bytes`]: bytes, [`${side}_high`]: top = bytes }, ...part }) => ({ ...part, columns: { high_bytes: top, low_bytes: bytes, high_event: slot } })));
    const stacks = new Stacks(diff.stacks[side], run), drawn = nothingDrawn();
    return { stacks, draw: (/** @type {import("./paint.js").Bitmap} */ bitmap, /** @type {import("./track.js").Frame & { high: number }} */ frame) => drawAreas(bitmap, frame, drawn, run, stacks, NO_BARS) };
  });
}

/** What stands below the picture. */
const LISTED = ["findings", "windows", "left_out"];

/**
 * Two runs side by side: the picture, which needs no list, and what fills the lists below it.
 * @param {any} packed
 * @returns {Promise<{ place: HTMLElement, both: import("./address.js").Both, fill: () => Promise<void> }>}
 */
export async function diffSection({ ...packed }) {
  const lists = Object.fromEntries(LISTED.map((key) => [key, packed[key]]));
  for (const key of LISTED) delete packed[key];
  const diff = await unpacked(packed);
  const axis = new Axis(0, diff.slots), curves = new Curves(diff), { figures, bands: rows } = diff, sides = stacksOf(diff, curves), [{ stacks: base }, { stacks: head }] = sides;
  /** @type {any} */
  let chosen = null;
  const whole = /** @type {[number, number]} */ ([Math.min(figures.base_low_bytes, figures.head_low_bytes), Math.max(figures.base_peak_bytes, figures.head_peak_bytes)]);
  const picture = tracksOf("diff", "Base and head side by side",
    "What both runs allocate stands at one place. Drag, or Ctrl and wheel, to zoom; double click for the whole run; click on a window to show it. Keys: \u2190 \u2192 move \u00b7 + \u2212 zoom \u00b7 Home whole run \u00b7 comma and dot step",
    axis, curves, [...SIDES.map((side, k) => ({
      label: `What is live in ${side} by ${base.way.name}; the peak is ${formatExact(figures[`${side}_peak_bytes`])}`,
      height: RUN_HEIGHT + (k ? LINES_HEIGHT : ROW * rows.length), top: (k ? 0 : ROW * rows.length) + LANE + 6, foot: k ? LINES_HEIGHT : 4, rows: k ? [] : rows, whole, fits: SIDES, name: side, axisNames: () => /** @type {[string, string][]} */ (k ? SIDES.map((one) => [`${one} ${diff.line}`, one]) : []),
      curves: (/** @type {import("./paint.js").Bitmap} */ bitmap, /** @type {any} */ frame) => {
        sides[k].draw(bitmap, frame);
        bitmap.line(frame, pixelsOf(frame, curves, side)[0], side);
      },
      over: (/** @type {any} */ frame) => {
        drawLives(frame, chosen, side);
        if (k) drawLines(frame, curves);
      },
      dots: (/** @type {any} */ at) => [at[side]],
    })), {
      label: "The difference: head less base", height: DIFFERENCE_HEIGHT, top: 10, foot: 10, rows: [], whole: [figures.low_bytes, figures.high_bytes], fits: ["apart"], signed: true,
      curves: (bitmap, frame) => {
        const [apart] = pixelsOf(frame, curves, "apart");
        bitmap.clear().area(frame, apart.high.map((bytes) => Math.max(bytes, 0)), "head");
        bitmap.area(frame, apart.low.map((bytes) => Math.min(bytes, 0)), "base");
      },
      over: ({ context, width, y }) => stroke(context, color("quiet"), [0, y(0)], [width, y(0)]),
      dots: ({ base, head }) => [head - base],
    }], {
      find: (from, to) => curves.farthest(from, to),
      eventOf: ({ slot }) => slot + 0.5,
      tell: (at) => {
        /** @param {number} number */
        const where = (number) => (number ? ` at ${diff.line} ${formatCount(number)}` : " before its first event"), sums = [base, head].map((stacks) => stacks.at(at.slot));
        const groups = base.way.groups.map(({ name }, k) => ({ name, bytes: sums[1].sums[k] - sums[0].sums[k] })).filter(({ bytes }) => bytes).map(({ name, bytes }) => `${name} ${signedBytes(bytes)}`);
        const text = `base ${formatExact(at.base)}${where(at.baseLine)} \u00b7 head ${formatExact(at.head)}${where(at.headLine)} \u00b7 ${at.head > at.base ? "+" : ""}${formatExact(at.head - at.base)}${at.size > 1 ? `, the most of ${formatCount(at.size)} places together` : ""}`;
        return [[text, sums[0].event === at.slot ? groups.join(" \u00b7 ") : ""].filter(Boolean).join("\n"), {
          slot: at.slot, baseBytes: at.base, headBytes: at.head, differenceBytes: at.head - at.base, baseLine: at.baseLine, headLine: at.headLine, of: sums[0].event, baseSums: sums[0].sums.join(), headSums: sums[1].sums.join(),
        }];
      },
    });
  const legend = element("div"), look = (/** @type {number} */ way) => {
    base.chosen = head.chosen = way;
    both.by = way ? base.way.key : "";
    legend.replaceChildren(legendOf([...SIDES.map((side) => ({ ink: side, name: `${side}: ${diff[side]}` })), ...[...base.way.groups].reverse()]));
    axis.changed();
  };
  const by = choice("By", base.ways.map(({ name }) => name), look, { id: "diff-by" }), [select] = by.getElementsByTagName("select");
  /** @type {import("./address.js").Both} */
  const both = {
    axis, by: "", finding: 0,
    choose: (key, finding) => {
      select.selectedIndex = Math.max(base.ways.findIndex((way) => way.key === key), 0);
      look(select.selectedIndex);
      openFinding(finding, false);
    },
  };
  let openFinding = /** @type {(finding: number, zooms: boolean) => void} */ (() => {});
  look(0);
  if (base.ways.length > 1) picture.controls.prepend(by);
  const [upper, lower, apart] = picture.tracks;
  picture.place.append(legend, element("p", { class: "hint" }, `Bars above the areas: the blocks of the chosen finding, from ALLOC to FREE.${rows.some((/** @type {any} */ row) => row.kind === "part") ? ` The runs part in ${diff.parting}.` : ""}`), picture.controls, upper, lower, element("p", { class: "caption" }, "Head less base"), apart,
    picture.line, picture.hint);
  Object.assign(picture.place.dataset, { slots: diff.slots, basePeakBytes: figures.base_peak_bytes, headPeakBytes: figures.head_peak_bytes });
  return {
    place: picture.place, both,
    fill: async () => {
      const listed = { ...diff, ...await unpacked(lists) };
      const { place, open } = findingsPart(listed, (row, number, zooms) => {
        [chosen, both.finding] = [row, number];
        if (row && zooms) axis.show(row.shown[0], row.shown[1]);
        else axis.changed();
      });
      openFinding = open;
      picture.place.append(place, pairsTable(listed, axis));
    },
  };
}

/**
 * When the blocks of a finding live in a run: bars from ALLOC to FREE, and lines down from those of the first one.
 * @param {import("./track.js").Frame} frame
 * @param {any} row the finding, if any is chosen
 * @param {"base" | "head"} side
 */
function drawLives({ context, width, top: begins, bottom, x: pixel }, row, side) {
  const top = begins - LANE - 5;
  row?.[`${side}_places`].forEach((/** @type {(number | null)[] | null} */ places, /** @type {number} */ k) => {
    if (places === null) return;
    const [alloc, free] = places, begin = Math.max(pixel(Math.max(alloc ?? 0, 0)), 0), end = Math.min(free === null ? width : pixel(Math.max(free, 0) + 1), width);
    context.fillStyle = color(side);
    if (end > 0 && begin < width) context.fillRect(begin, top, Math.max(end - begin, 2), LANE - 3);
    places.forEach((slot) => {
      const x = slot === null || slot < 0 ? NaN : pixel(slot + 0.5);
      if (!k && x >= 0 && x <= width) stroke(context, color(side), [x, top], [x, bottom], [5, 3]);
    });
  });
}

/**
 * Below the curves the lines of both logs. Of places that are told together the one whose lines are known may lie left (\u2190) or right (\u2192) of what is shown.
 * @param {import("./track.js").Frame} frame
 * @param {Curves} curves
 */
function drawLines({ context, axis, width, bottom, x }, curves) {
  stroke(context, color("line"), [0, bottom], [width, bottom]);
  const many = Math.max(Math.floor(width / 130), 2), taken = /** @type {number[]} */ ([]);
  const found = Array.from({ length: many }, (_, k) => {
    const slot = Math.floor(axis.toEvent(((k + 0.5) / many) * width, width)), place = curves.farthest(slot, slot + 1), at = place ? x(place.slot + 0.5) : NaN;
    return { at, beside: at < 0 ? -1 : Number(at > width), lines: place ? [place.baseLine, place.headLine] : [] };
  });
  for (const { at, beside, lines } of found.sort((a, b) => Math.abs(a.beside) - Math.abs(b.beside))) {
    const middle = beside ? (beside < 0 ? NUMBER : width - NUMBER) : at;
    if (taken.some((other) => Math.abs(other - middle) < 2 * NUMBER)) continue;
    taken.push(middle);
    if (!beside) stroke(context, color("quiet"), [at, bottom], [at, bottom + 4]);
    lines.forEach((line, row) => {
      if (line) write(context, `${beside < 0 ? "\u2190 " : ""}${formatCount(line)}${beside > 0 ? " \u2192" : ""}`, middle, bottom + 11 + row * 13, { align: "center", ink: color(SIDES[row]) });
    });
  }
}

/**
 * The findings: a row each, and beside them where the chosen one is, in words and lines of the log.
 * @param {any} diff
 * @param {(row: any, number: number, zooms: boolean) => void} choose
 * @returns {{ place: HTMLElement, open: (finding: number, zooms: boolean) => void }}
 */
function findingsPart(diff, choose) {
  /** Of a series the figures of all windows; the column is left out where no peak of a window differs by a finding. @type {any[]} */
  const findings = diff.findings.map((/** @type {any} */ row) => ({ ...row.finding, ...row, d_peak_bytes: diff.series ? row.largest_d_peak_bytes : row.finding.d_peak_bytes }));
  if (!findings.some(({ d_peak_bytes: bytes }) => bytes)) findings.forEach((row) => delete row.d_peak_bytes);
  if (!findings.length) return { place: element("p", {}, "Nothing is found that the runs do differently."), open: () => {} };
  let chosen = -1;
  const detail = element("div", { class: "detail", id: "finding", role: "region", "aria-label": "The chosen finding" });
  const table = grid("findings-table", "findings", fieldsOf(findings, [
    ["what", "What"], ["size_bytes", "Size", formatBytes], ["count", "Count", formatCount], ["total_bytes", "Total", formatBytes], ["d_remaining_bytes", "\u0394remaining", signedBytes],
    ["d_peak_bytes", diff.series ? "Window \u0394peak" : "\u0394peak", signedBytes], ["windows", "Windows", formatCount], ["first_window", "First in"], ["owner", "Owner"],
  ]), { act: (row) => open(row === chosen ? -1 : row, true), mark: (row) => (row === chosen ? "chosen" : "") });
  /** @param {number} row @param {boolean} zooms */
  function open(row, zooms) {
    chosen = row < findings.length ? row : -1;
    detail.replaceChildren(...(findings[chosen]?.blocks ?? []).map(blockOf));
    table.refresh();
    choose(findings[chosen] ?? null, chosen, zooms);
  }
  open(0, false);
  const left = diff.left_out ? [element("p", { class: "hint" }, `\u2026 and ${formatCount(diff.left_out)} smaller ones`)] : [];
  return { place: element("div", {}, element("h3", {}, diff.series ? "Findings over all windows" : "Findings"), element("div", { class: "findings" }, element("div", {}, ...table.parts, ...left), detail)), open };
}

/**
 * A line about a finding, or lines of a log.
 * @param {any} block
 * @returns {HTMLElement}
 */
function blockOf(block) {
  if (!block.lines) {
    const text = [block.name, block.text].filter((part) => part).join(" ");
    return element("p", { class: block.style }, ...(block.label ? [element("b", {}, block.label), " "] : []), text);
  }
  return element("div", {}, element("p", {}, block.title), element("pre", { tabindex: 0 }, ...block.lines.map((/** @type {any} */ line) =>
    element("span", line.is_event ? { class: "marked" } : {}, `${line.is_event ? "> " : "  "}${line.line}  ${line.text}\n`))));
}

/**
 * The pairs of windows; a click shows one.
 * @param {any} diff
 * @param {Axis} axis
 * @returns {HTMLElement | string}
 */
function pairsTable({ windows }, axis) {
  if (windows.length < 2) return "";
  const table = grid("pairs-table", "windows", fieldsOf(windows, [
    ["name", "Window"], ["d_remaining_bytes", "\u0394remaining", signedBytes], ["d_rise_bytes", "\u0394rise", signedBytes], ["d_peak_bytes", "\u0394peak", signedBytes],
    ["d_live_bytes", "\u0394live at the end", signedBytes], ["note", ""],
  ]), { act: (k) => axis.show(windows[k].spans[0][0], windows[k].spans[0][1]) });
  return element("div", {}, element("h3", {}, "Windows"), ...table.parts);
}
