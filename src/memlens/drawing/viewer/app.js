/** What the parts of the page share: the log that is shown, the part of it, and what is selected. */

import { Axis } from "./axis.js";

/**
 * What the page gets of one log (`memlens.drawing.report`), unpacked.
 * @typedef {Object} LogView
 * @property {string} path
 * @property {{ line: string, lines: string, chunk: string }} terms
 * @property {{ sentences: string[], tone: string }} verdict
 * @property {number} lo the first event
 * @property {number} hi the event after the last one
 * @property {any} levels
 * @property {any} maps
 * @property {any} flame
 * @property {any} windows
 * @property {any} held
 * @property {any} trust
 * @property {any} growth
 * @property {any} [lifetimes]
 * @property {string[]} owners whole texts, by their numbers in this page
 */

/** One thing is selected at a time: a block (its bar), a moment (an event), a window, a finding. */
export class App {
  /** @param {LogView} view */
  constructor(view) {
    this.view = view;
    this.axis = new Axis(view.lo, view.hi);
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
   * @param {string | null} kind `block`, `block-event` (by its ALLOC), `moment`, `window` or `finding`; `null` for nothing
   * @param {number} value its number
   */
  select(kind, value = -1) {
    this.selected = kind === null ? null : { kind, value };
    for (const listener of this.listeners) listener(this.selected);
  }
}
