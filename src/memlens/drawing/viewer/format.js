/** Figures for people, written as the rest of memlens writes them. */

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/**
 * Bytes: `512 B`, `3.38 MiB`, as `memlens.units.format_bytes` writes them to the last digit.
 * @param {number} bytes
 * @returns {string}
 */
export function formatBytes(bytes) {
  let value = Math.abs(bytes), unit = 0;
  while (value >= (unit ? 1023.995 : 1024) && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const sign = bytes < 0 ? "-" : "";
  return unit === 0 ? `${sign}${value} B` : `${sign}${twoDecimals(value)} ${UNITS[unit]}`;
}

/**
 * A tie (only eighths are) goes to the even digit, as in Python; toFixed takes it up.
 * @param {number} value
 * @returns {string}
 */
function twoDecimals(value) {
  return (value * 8) % 4 === 1 ? (Math.floor(value * 100) / 100).toFixed(2) : value.toFixed(2);
}

/**
 * Bytes for people and to the byte: `3.38 MiB (3538944 B)`.
 * @param {number} bytes
 * @returns {string}
 */
export function formatExact(bytes) {
  return Math.abs(bytes) < 1024 ? formatBytes(bytes) : `${formatBytes(bytes)} (${bytes} B)`;
}

/**
 * A count: `1,942`.
 * @param {number} count
 * @returns {string}
 */
export function formatCount(count) {
  return String(count).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}
