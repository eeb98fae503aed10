/** What the parts of the page share: the log that is shown, the part of it, and what is selected. */

import { Axis } from "./axis.js";
import { formatCount } from "./format.js";
import { Levels } from "./levels.js";

/**
 * An event that is marked, a peak or a failure.
 * @typedef {{ kind: string, event: number, line: number, bytes: number, label: string }} Mark
 */

/**
 * What the page gets of one log (`memlens.drawing.report`), unpacked.
 * @typedef {Object} LogView
 * @property {string} path
 * @property {string} command what tells all of the block of a line, which comes next
 * @property {{ line: string, lines: string, chunk: string }} terms
 * @property {number} lo the first event
 * @property {number} hi the event after the last one
 * @property {Record<string, any>} figures the figures on top, exact
 * @property {any} levels
 * @property {Mark[]} marks the peak, and failures
 * @property {import("./track.js").Row[]} bands windows or steps, and their phases
 * @property {any} lifetimes columns of blocks
 * @property {any} moments what is alive at moments
 * @property {any} maps
 * @property {{ told_by: string, classes: { ink: string, name: string }[] } | null} roles the last one is none
 * @property {any} flame
 * @property {any} windows
 * @property {any} held
 * @property {any} trust
 * @property {any} growth
 * @property {string[]} owners whole texts, by their numbers in this page
 * @property {string[]} short_owners the same in short: the innermost frame, and the user's own
 */

/** One thing is selected at a time: a block (its bar), a moment (an event), a window, a finding. */
export class App {
  /** @param {LogView} view */
  constructor(view) {
    this.view = view;
    this.levels = new Levels(view.levels);
    this.axis = new Axis(view.lo, view.hi, view.levels.edges, view.levels.time_us);
    /** @type {{ kind: string, value: number } | null} */
    this.selected = null;
    /** @type {((selected: { kind: string, value: number } | null) => void)[]} */
    this.listeners = [];
  }

  /** @param {(selected: { kind: string, value: number } | null) => void} listener called when something else is selected */
  onSelect(listener) {
    this.listeners.push(listener);
  }

  /** @returns {number} the ALLOC of the block that is selected, -1 where none is */
  get block() {
    const { kind, value } = this.selected ?? { kind: "", value: -1 };
    return kind === "block-event" ? value : kind === "block" ? this.view.lifetimes?.alloc[value] ?? -1 : -1;
  }

  /**
   * @param {string | null} kind `block`, `block-event` (by its ALLOC, for one that may have no bar), `moment`, `window` or `finding`; `null` for nothing
   * @param {number} value its number
   */
  select(kind, value = -1) {
    const bar = kind === "block-event" ? this.view.lifetimes?.alloc.indexOf(value) ?? -1 : -1;
    if (bar >= 0) [kind, value] = ["block", bar];
    this.selected = kind === null ? null : { kind, value };
    for (const listener of this.listeners) listener(this.selected);
  }

  /**
   * @param {number} line
   * @returns {string} `line 1,942`, or `entry 1,942`
   */
  lineText(line) {
    return `${this.view.terms.line} ${formatCount(line)}`;
  }

  /**
   * @param {number} owner its number
   * @returns {string} its text, as the log has it; empty for none
   */
  ownerText(owner) {
    return this.view.owners?.[owner] ?? "";
  }
}
