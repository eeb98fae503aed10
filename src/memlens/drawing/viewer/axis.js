/** What part of the log all pictures show: a stretch of events, drawn over events or over time. */

export class Axis {
  /**
   * @param {number} lo the first event
   * @param {number} hi the event after the last one
   * @param {Float64Array | null} edges events at which the time is known, rising
   * @param {Float64Array | null} times the time at each of them, in microseconds, not falling
   */
  constructor(lo, hi, edges = null, times = null) {
    this.lo = this.from = lo;
    this.hi = this.to = Math.max(hi, lo + 1);
    this.edges = edges;
    this.times = times;
    this.overTime = false;
    /** @type {(() => void)[]} */
    this.listeners = [];
  }

  /** @param {() => void} listener called when another part is shown, or the same part in another way */
  onChange(listener) {
    this.listeners.push(listener);
  }

  changed() {
    for (const listener of this.listeners) listener();
  }

  /**
   * Show another part: at least a few events, and none outside of the log.
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    const all = this.hi - this.lo, width = Math.min(Math.max(to - from, 4), all);
    this.from = Math.min(Math.max((from + to - width) / 2, this.lo), this.hi - width);
    this.to = this.from + width;
    this.changed();
  }

  reset() {
    this.show(this.lo, this.hi);
  }

  /** @param {boolean} overTime draw over time instead of over events; without times there is nothing to switch */
  drawOverTime(overTime) {
    this.overTime = overTime && this.times !== null;
    this.changed();
  }

  /**
   * Show more or less around a place, which stays where it is in the picture.
   * @param {number} factor below 1 to show less
   * @param {number} at the place, as a share of the picture's width
   */
  zoom(factor, at = 0.5) {
    const [begin, width] = this.span();
    this.showPositions(begin + width * at * (1 - factor), width * factor);
  }

  /** @param {number} share of the picture's width, to the right */
  pan(share) {
    const [begin, width] = this.span();
    this.showPositions(begin + width * share, width);
  }

  /** @param {number} begin @param {number} width */
  showPositions(begin, width) {
    const first = this.position(this.lo), last = this.position(this.hi), from = Math.min(Math.max(begin, first), last - width);
    if (width >= last - first) this.reset();
    // Of events at one moment those that come last belong to it as well.
    else this.show(this.event(from), from + width >= last ? this.hi : this.event(from + width));
  }

  /** @returns {[number, number]} the first position that is shown, and how far the last one is from it */
  span() {
    const begin = this.position(this.from);
    return [begin, this.position(this.to) - begin];
  }

  /**
   * What an event is drawn by: itself, or its time.
   * @param {number} event
   * @returns {number}
   */
  position(event) {
    return this.overTime ? interpolated(this.edges, this.times, event) : event;
  }

  /**
   * The first event at a position.
   * @param {number} position
   * @returns {number}
   */
  event(position) {
    return this.overTime ? interpolated(this.times, this.edges, position) : position;
  }

  /**
   * Where an event stands in a picture; events that all happen at one moment are drawn side by side.
   * @param {number} event
   * @param {number} width of the picture in pixels
   * @returns {number}
   */
  toPixel(event, width) {
    const [begin, shown] = this.span();
    return (shown > 0 ? (this.position(event) - begin) / shown : (event - this.from) / (this.to - this.from)) * width;
  }

  /**
   * The event at a pixel, with a fraction; what is left of the picture is its first event, and what is right of it its last one.
   * @param {number} pixel
   * @param {number} width
   * @returns {number}
   */
  toEvent(pixel, width) {
    if (pixel <= 0 || width <= 0) return this.from;
    if (pixel >= width) return this.to;
    const [begin, shown] = this.span(), share = pixel / width;
    return shown > 0 ? Math.min(Math.max(this.event(begin + share * shown), this.from), this.to) : this.from + share * (this.to - this.from);
  }
}

/**
 * Between two columns, neither of which falls: the value of the second where the first one reaches `x`, at the first such place.
 * @param {Float64Array | null} xs
 * @param {Float64Array | null} ys
 * @param {number} x
 * @returns {number}
 */
export function interpolated(xs, ys, x) {
  if (xs === null || ys === null) return x;
  const k = firstAtLeast(xs, x);
  if (k === 0 || k === xs.length) return ys[Math.max(k - 1, 0)];
  return ys[k - 1] + ((x - xs[k - 1]) / (xs[k] - xs[k - 1])) * (ys[k] - ys[k - 1]);
}

/**
 * The index of the first of rising values that is at least `x`; how many there are where none is.
 * @param {Float64Array} values
 * @param {number} x
 * @returns {number}
 */
export function firstAtLeast(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low;
}
