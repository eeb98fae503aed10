/** Where the lines of a picture's scales stand, and what is written at them. */

import { formatCount, UNITS } from "./format.js";

const SECOND = 1e6, DAY = 86400 * SECOND;
/** Steps between times that are not powers of ten. */
const STEPS_OF_TIME = [10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400].map((seconds) => seconds * SECOND);

/** @typedef {{ at: number, text: string }} Tick */

/**
 * The smallest of 1, 2 and 5 times a power of ten that is at least `least`.
 * @param {number} least
 * @returns {number}
 */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10);
}

/**
 * Multiples of a step.
 * @param {number} from
 * @param {number} to
 * @param {number} step
 * @param {(at: number) => string} write
 * @param {number} [zero] from where they are counted
 * @returns {Tick[]}
 */
function ticksOf(from, to, step, write, zero = 0) {
  const found = [];
  for (let k = Math.ceil((from - zero) / step); to > from && k * step <= to - zero; k += 1) found.push({ at: k * step + zero, text: write(k * step) });
  return found;
}

/**
 * @param {number} from in bytes
 * @param {number} to
 * @param {number} most how many there are at most, about
 * @returns {Tick[]}
 */
export function bytesTicks(from, to, most) {
  const unit = Math.min(Math.floor(Math.log2(Math.max(Math.abs(from), Math.abs(to), 1)) / 10), UNITS.length - 1);
  return ticksOf(from, to, Math.max(2 ** Math.ceil(Math.log2((to - from) / most)), 1), (at) => {
    const own = unit > 0 && Math.abs(at) < 1024 ** unit / 64 ? unit - 1 : unit, value = at / 1024 ** own;
    return at === 0 ? "0" : `${Number(value.toFixed(value % 1 ? 3 : 0))} ${UNITS[own]}`;
  });
}

/**
 * @param {number} from
 * @param {number} to
 * @param {number} most
 * @returns {Tick[]}
 */
export function eventTicks(from, to, most) {
  return ticksOf(from, to, Math.max(roundStep((to - from) / most), 1), formatCount);
}

/**
 * @param {number} from in microseconds
 * @param {number} to
 * @param {number} most
 * @param {number} zero from where times are counted
 * @returns {Tick[]}
 */
export function timeTicks(from, to, most, zero) {
  const least = Math.max((to - from) / most, 1);
  const step = least <= 10 * SECOND ? roundStep(least) : STEPS_OF_TIME.find((one) => one >= least) ?? roundStep(least / DAY) * DAY;
  return ticksOf(from, to, step, (at) => timeText(at, step), zero);
}

/**
 * @param {number} time in microseconds
 * @param {number} step
 * @returns {string}
 */
function timeText(time, step) {
  if (time === 0) return "0";
  const seconds = Math.round(time / SECOND);
  if (step >= SECOND * 10 && seconds >= 60) {
    const parts = [[Math.floor(seconds / 86400), "d"], [Math.floor(seconds / 3600) % 24, "h"], [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
    return parts.filter(([count]) => count).slice(0, 2).map((part) => part.join(" ")).join(" ");
  }
  const [size, unit] = step >= SECOND / 100 || time >= 10 * SECOND ? [SECOND, "s"] : step >= 10 ? [1000, "ms"] : [1, "µs"];
  return `${Number((time / size).toFixed(6))} ${unit}`;
}
