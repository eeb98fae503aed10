/** What the parts of the page share: the log that is shown, the part of it, what is selected, pointed at and sought. */

import { Axis } from "./axis.js";
import { formatBytes, formatCount, shortName } from "./format.js";
import { Blocks } from "./layout.js";
import { Levels } from "./levels.js";
import { Lives, NO_BARS } from "./lives.js";
import { Stacks } from "./stacks.js";

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
 * @property {boolean} state whether this is a state without a history
 * @property {Record<string, any>} figures the figures on top, exact
 * @property {any} levels
 * @property {any} stacks
 * @property {Mark[]} marks the peak, and failures
 * @property {import("./track.js").Row[]} bands windows or steps, and their phases
 * @property {any} lifetimes columns of blocks
 * @property {any} moments what is alive at moments
 * @property {any} maps
 * @property {any} others blocks without bars
 * @property {any} windows
 * @property {any} held
 * @property {any} trust
 * @property {any} growth
 * @property {string[]} owners whole texts, by their numbers in this page
 * @property {string[]} short_owners the same in short: the innermost frame, and the user's own
 */

/**
 * One thing is selected at a time: a block (its bar), a moment (an event), a range (of events, up to `to`), a window, a finding.
 * @typedef {{ kind: string, value: number, to?: number }} Selected
 */

export class App {
  /** @type {Blocks | undefined} */
  #blocks;
  /** @type {Lives | undefined} */
  #lives;

  /**
   * @param {LogView} view
   * @param {number} [log] its number in the page, where it is not the one that that begins with
   */
  constructor(view, log = -1) {
    this.view = view;
    this.log = log;
    this.levels = new Levels(view.levels);
    this.stacks = new Stacks(view.stacks, this.levels);
    this.axis = new Axis(view.lo, view.hi, view.levels.edges, view.levels.time_us);
    /** @type {Selected | null} */
    this.selected = null;
    /** What is sought among owners, holders, sizes and the other groups, in small letters. */
    this.sought = "";
    /** Of each bar whether it is one of those. @type {ArrayLike<number> | null} */
    this.found = null;
    /** @type {((selected: Selected | null) => void)[]} */
    this.listeners = [];
    /** @type {(() => void)[]} */
    this.watchers = [];
  }

  /** @param {(selected: Selected | null) => void} listener called when something else is selected */
  onSelect(listener) {
    this.listeners.push(listener);
  }

  /** @param {() => void} watcher called when blocks are grouped in another way, or something else is sought */
  onLook(watcher) {
    this.watchers.push(watcher);
  }

  /**
   * Group what is live in another way, or look for something.
   * @param {{ way?: number, sought?: string }} how
   */
  look({ way = this.stacks.chosen, sought = this.sought }) {
    this.stacks.chosen = way;
    this.sought = sought.trim().toLowerCase();
    this.found = this.sought ? this.view.lifetimes?.alloc.map((/** @type {number} */ _, /** @type {number} */ bar) => Number(this.hasSought(bar))) ?? null : null;
    for (const watcher of this.watchers) watcher();
  }

  /** All blocks that the page knows. */
  get blocks() {
    return this.#blocks ??= new Blocks(this.view.lifetimes, this.view.others, this.view.maps);
  }

  /** Those that have bars; none before they are unpacked. */
  get lives() {
    return this.view.lifetimes ? this.#lives ??= new Lives(this.view.lifetimes) : NO_BARS;
  }

  /**
   * The group of a block.
   * @param {number} number that of the block
   * @param {import("./stacks.js").Way} [way]
   * @returns {number}
   */
  groupOf(number, { bars, others } = this.stacks.way) {
    const count = this.blocks.bars;
    return number < count ? bars[number] : others[number - count];
  }

  /** @returns {number} the ALLOC of the block that is selected, -1 where none is */
  get block() {
    const { kind, value } = this.selected ?? { kind: "", value: -1 };
    return kind === "block-event" ? value : kind === "block" ? this.view.lifetimes?.alloc[value] ?? -1 : -1;
  }

  /** @returns {number} the event that is looked at: the moment or the ALLOC of the block that is selected; else where the peak is */
  get moment() {
    const { kind, value, to } = this.selected ?? { kind: "", value: -1 };
    return kind === "moment" ? value : kind === "range" ? Number(to) : this.block >= 0 ? this.block : this.view.marks[0]?.event ?? this.axis.lo - 1;
  }

  /**
   * @param {string | null} kind `block`, `block-event` (by its ALLOC, for one that may have no bar), `moment`, `range`, `window` or `finding`; `null` for nothing
   * @param {number} value its number
   * @param {number} [to] where a range ends
   */
  select(kind, value = -1, to) {
    const bar = kind === "block-event" ? this.lives.blockOf(value) : -1;
    if (bar >= 0) [kind, value] = ["block", bar];
    this.selected = kind === null ? null : { kind, value, to };
    for (const listener of this.listeners) listener(this.selected);
  }

  /**
   * Whether a bar is one of those that are sought: by its size, its owner, or a group that it is in.
   * @param {number} bar
   * @returns {boolean}
   */
  hasSought(bar) {
    const { size_bytes: sizes, owner } = this.view.lifetimes;
    return [formatBytes(sizes[bar]), this.ownerText(owner[bar]), ...this.stacks.ways.map(({ groups, bars }) => groups[bars[bar]].name)]
      .some((text) => text.toLowerCase().includes(this.sought));
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

  /**
   * @param {number} owner its number
   * @returns {string} the operator or the innermost frame, and the user's own
   */
  shortOwner(owner) {
    const short = this.view.short_owners?.[owner] ?? "";
    return `${shortName(short)}${this.ownerText(owner) === short ? "" : " \u2026"}`;
  }
}
