/** Figures for people, written as the rest of memlens writes them. */

export const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/**
 * Bytes: `512 B`, `3.38 MiB`, as `memlens.text.format_bytes` writes them to the last digit.
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

/**
 * A duration: `0.25 ms`, `12.30 s`, `3 min 05 s`, `2 h 03 min`.
 * @param {number} microseconds
 * @returns {string}
 */
export function formatDuration(microseconds) {
  if (microseconds < 1e6) return `${(microseconds / 1000).toFixed(2)} ms`;
  if (microseconds < 6e7) return `${(microseconds / 1e6).toFixed(2)} s`;
  const seconds = Math.round(microseconds / 1e6), minutes = Math.floor(seconds / 60);
  if (seconds < 3600) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/**
 * Bytes with their sign: `+3.38 MiB`.
 * @param {number} bytes
 * @returns {string}
 */
export function signedBytes(bytes) {
  return `${bytes > 0 ? "+" : ""}${formatBytes(bytes)}`;
}

/**
 * A name without the middles of long frames.
 * @param {string} name
 * @returns {string}
 */
export function shortName(name) {
  return name.split(" < ").map((frame) => (frame.length > 48 ? `${frame.slice(0, 24)}\u2026${frame.slice(-23)}` : frame)).join(" < ");
}

/**
 * Names without the middles of long frames, unless it is these that tell some of them apart.
 * @param {string[]} names
 * @returns {string[]}
 */
export function shortNames(names) {
  const short = names.map(shortName);
  return names.map((name, k) => (short.filter((other) => other === short[k]).length > 1 ? name : short[k]));
}
