/** Where the lines of a picture's scales stand, and what is written at them. */

import { formatCount } from "./format.js";

const UNITS_OF_BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const SECOND = 1e6, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
/** Steps between times that are not powers of ten. */
const STEPS_OF_TIME = [10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400].map((seconds) => seconds * SECOND);

/**
 * A line of a scale.
 * @typedef {Object} Tick
 * @property {number} at
 * @property {string} text
 */

/**
 * Multiples of a step in `from … to`.
 * @param {number} from
 * @param {number} to
 * @param {number} step
 * @returns {number[]}
 */
function multiples(from, to, step) {
  const found = [];
  for (let k = Math.ceil(from / step); k * step <= to; k += 1) found.push(k * step);
  return found;
}

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
 * @param {number} from in bytes
 * @param {number} to
 * @param {number} most how many there are at most, about
 * @returns {Tick[]}
 */
export function bytesTicks(from, to, most) {
  if (!(to > from)) return [];
  const step = Math.max(2 ** Math.ceil(Math.log2((to - from) / most)), 1);
  const unit = Math.min(Math.floor(Math.log2(Math.max(Math.abs(from), Math.abs(to), 1)) / 10), UNITS_OF_BYTES.length - 1);
  return multiples(from, to, step).map((at) => {
    const small = Math.abs(at) < 1024 ** unit / 64 && at !== 0 && unit > 0;
    const value = at / 1024 ** (small ? unit - 1 : unit);
    return { at, text: at === 0 ? "0" : `${Number(value.toFixed(value % 1 ? 3 : 0))} ${UNITS_OF_BYTES[small ? unit - 1 : unit]}` };
  });
}

/**
 * @param {number} from
 * @param {number} to
 * @param {number} most
 * @returns {Tick[]}
 */
export function eventTicks(from, to, most) {
  if (!(to > from)) return [];
  return multiples(from, to, Math.max(roundStep((to - from) / most), 1)).map((at) => ({ at, text: formatCount(at) }));
}

/**
 * @param {number} from in microseconds
 * @param {number} to
 * @param {number} most
 * @param {number} zero from where times are counted
 * @returns {Tick[]}
 */
export function timeTicks(from, to, most, zero) {
  if (!(to > from)) return [];
  const least = Math.max((to - from) / most, 1);
  const step = least <= 10 * SECOND ? roundStep(least) : STEPS_OF_TIME.find((one) => one >= least) ?? roundStep(least / DAY) * DAY;
  return multiples(from - zero, to - zero, step).map((at) => ({ at: at + zero, text: timeText(at, step) }));
}

/**
 * @param {number} time in microseconds
 * @param {number} step
 * @returns {string}
 */
function timeText(time, step) {
  if (time === 0) return "0";
  if (step >= SECOND * 10 && Math.abs(time) >= MINUTE) {
    const days = Math.floor(time / DAY), hours = Math.floor((time % DAY) / HOUR), minutes = Math.floor((time % HOUR) / MINUTE), seconds = Math.round((time % MINUTE) / SECOND);
    const parts = [[days, "d"], [hours, "h"], [minutes, "min"], [seconds, "s"]].filter(([count]) => count);
    return parts.slice(0, 2).map(([count, unit]) => `${count} ${unit}`).join(" ");
  }
  const [size, unit] = step >= SECOND / 100 || time >= 10 * SECOND ? [SECOND, "s"] : step >= 10 ? [1000, "ms"] : [1, "µs"];
  return `${Number((time / size).toFixed(6))} ${unit}`;
}
