/** What part of the log all pictures show: a stretch of events, drawn over events or over time. */

export class Axis {
  /**
   * @param {number} lo the first event
   * @param {number} hi the event after the last one
   * @param {Float64Array | null} edges events at which the time is known, rising
   * @param {Float64Array | null} times the time at each of them, in microseconds, not falling
   */
  constructor(lo, hi, edges = null, times = null) {
    this.lo = lo;
    this.hi = Math.max(hi, lo + 1);
    this.edges = edges;
    this.times = times;
    this.from = this.lo;
    this.to = this.hi;
    this.overTime = false;
    /** @type {(() => void)[]} */
    this.listeners = [];
  }

  /** @param {() => void} listener called when another part is shown */
  onChange(listener) {
    this.listeners.push(listener);
  }

  /**
   * Show another part: at least a few events, and none outside of the log.
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    const least = Math.min(4, this.hi - this.lo);
    const width = Math.min(Math.max(to - from, least), this.hi - this.lo);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - width / 2, this.lo), this.hi - width);
    this.to = this.from + width;
    for (const listener of this.listeners) listener();
  }

  reset() {
    this.show(this.lo, this.hi);
  }

  /**
   * Where an event stands in a picture.
   * @param {number} event
   * @param {number} width of the picture in pixels
   * @returns {number}
   */
  toPixel(event, width) {
    return ((event - this.from) / (this.to - this.from)) * width;
  }

  /**
   * The event at a pixel, with a fraction.
   * @param {number} pixel
   * @param {number} width
   * @returns {number}
   */
  toEvent(pixel, width) {
    return this.from + (pixel / width) * (this.to - this.from);
  }
}
