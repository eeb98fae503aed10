/** What lies where in the chunks of a device right after an event, worked out without a canvas from when each chunk and each block is there. */

import { firstAtLeast } from "./axis.js";

/** What a piece of a chunk is: a block, nothing, or what blocks keep beyond their size or after their FREE. */
export const BLOCK = 0, GAP = 1, KEPT = 2;
/** Rows of a picture, more where each pool and stream needs one of its own; pools and streams that are set apart at most. */
const ROWS = 16, PLACES = 8;

/**
 * A piece of a chunk, from an offset in it on; `number` is that of the block.
 * @typedef {{ chunk: number, kind: number, offset: number, size: number, number: number }} Piece
 * A chunk, or what is left of one that was given back in parts.
 * @typedef {{ at: number, size: number, pool: number, stream: number, pieces: Piece[] }} Chunk
 */

/** All blocks that the page knows: those that have bars come first, then others. */
export class Blocks {
  /** @param {any} bars columns (`memlens.drawing.lifetimes`) @param {any} others (`memlens.drawing.memory_map.other_blocks`) @param {any} maps */
  constructor(bars, { columns, known }, maps) {
    /** @type {Record<string, Float64Array>} */
    this.columns = {};
    for (const key of Object.keys(columns)) this.columns[key] = Float64Array.from([...bars[key], ...columns[key]]);
    this.bars = bars.alloc.length;
    /** Stretches of events right after which all live blocks are among these. @type {[number, number][]} */
    this.known = known;
    this.maps = maps;
    const { at, alloc } = this.columns;
    /** All by address. */
    this.byPlace = Int32Array.from(at.keys()).sort((a, b) => at[a] - at[b] || alloc[a] - alloc[b]);
  }

  /**
   * The nearest event right after which all live blocks are known; the event itself as a rule, nothing where there is none.
   * @param {number} event
   * @returns {number | null}
   */
  nearest(event) {
    let found = null, away = Infinity;
    for (const [from, to] of this.known) {
      const here = Math.min(Math.max(event, from), to - 1);
      if (Math.abs(here - event) < away) [found, away] = [here, Math.abs(here - event)];
    }
    return found;
  }

  /**
   * The blocks that are live right after an event, by their numbers, the largest first.
   * @param {number} event
   * @param {boolean} [barred] those that have bars alone
   * @returns {number[]}
   */
  liveAfter(event, barred = false) {
    const { alloc, free, size_bytes: size } = this.columns;
    return rowsWhere(barred ? alloc.subarray(0, this.bars) : alloc, (k) => alloc[k] <= event && event < free[k]).sort((a, b) => size[b] - size[a] || a - b);
  }

  /**
   * @param {number} event
   * @returns {{ chunks: Chunk[], gaps: number[], outside: number } | null} the sizes of all gaps, and the bytes of blocks in no chunk; nothing where several chunks lie over each other
   */
  layoutAfter(event) {
    const { chunks, unmapped, kept, granule, joined } = this.maps, { at, alloc, free, size_bytes: size, pool, stream } = this.columns;
    /** The first place after a block. @param {number} k */
    const end = (k) => at[k] + size[k];
    const here = rowsWhere(chunks.at, (k) => chunks.at[k] >= 0 && chunks.born[k] <= event && event < chunks.dead[k]);
    const away = rowsWhere(unmapped.at, (k) => unmapped.event[k] <= event);
    const all = Array.from(this.byPlace).filter((k) => alloc[k] <= event && event < free[k]), live = all.filter((k) => at[k] >= 0 && size[k] > 0);
    // Where each stretch begins and ends, how much more of it is reserved, and whether something covers it.
    const stretches = /** @type {[number, number, number, number][]} */ ([
      ...here.map((k) => [chunks.at[k], chunks.at[k] + chunks.size_bytes[k], 1, 0]), ...away.map((k) => [unmapped.at[k], unmapped.at[k] + unmapped.size_bytes[k], -1, 0]),
      ...live.flatMap((k) => [[at[k], end(k), 0, 1], [at[k], at[k] + Math.ceil(size[k] / granule) * granule, 0, 1]]),
      ...rowsWhere(kept.at, (k) => kept.at[k] >= 0 && kept.born[k] <= event && event < kept.last[k]).map((k) => [kept.at[k], kept.at[k] + kept.size_bytes[k], 0, 1]),
    ]);
    const edges = Float64Array.from(new Set(stretches.flatMap(([begin, stop]) => [begin, stop]))).sort(), reserves = new Int32Array(edges.length), covers = new Int32Array(edges.length);
    for (const [begin, stop, weight, cover] of stretches)
      for (const [place, sign] of [[begin, 1], [stop, -1]]) {
        const k = firstAtLeast(edges, place);
        reserves[k] += sign * weight;
        covers[k] += sign * cover;
      }
    const cuts = new Set(here.flatMap((k) => [chunks.at[k], chunks.at[k] + chunks.size_bytes[k]])), found = /** @type {Chunk[]} */ ([]), gaps = [];
    let outside = all.reduce((sum, k) => (at[k] < 0 ? sum + size[k] : sum), 0), reserved = 0, covered = 0, next = 0, of = -1, last = -1, farthest = -1, open = false;
    let chunk = /** @type {Chunk | null} */ (null);
    for (let i = 0; i + 1 < edges.length; i += 1) {
      const begin = edges[i], length = edges[i + 1] - begin;
      reserved += reserves[i];
      covered += covers[i];
      if (reserved > 1 && !away.length) return null;
      while (of + 1 < here.length && chunks.at[here[of + 1]] <= begin) of += 1;
      for (; next < live.length && at[live[next]] <= begin; next += 1) {
        last = live[next];
        if (farthest < 0 || end(last) >= end(farthest)) farthest = last;
        if (reserved <= 0) outside += size[last];
      }
      if (reserved <= 0) {
        [chunk, open] = [null, false];
        continue;
      }
      // Where blocks lie over each other, as a doubtful log may say, the one that begins last is taken, or else the one that reaches farthest.
      const number = [last, farthest].find((k) => k >= 0 && begin < end(k)) ?? -1, kind = number >= 0 ? BLOCK : covered > 0 ? KEPT : GAP;
      const fresh = !chunk || cuts.has(begin);
      if (fresh) found.push(chunk = { at: begin, size: 0, pool: chunks.pool[here[of]], stream: chunks.stream[here[of]], pieces: [] });
      if (kind === GAP && open && (!fresh || joined)) gaps[gaps.length - 1] += length;
      else if (kind === GAP) gaps.push(length);
      open = kind === GAP;
      const into = /** @type {Chunk} */ (chunk), before = into.pieces[into.pieces.length - 1];
      if (before && before.kind === kind && before.number === number) before.size += length;
      else into.pieces.push({ chunk: found.length - 1, kind, offset: into.size, size: length, number });
      into.size += length;
    }
    // What a chunk does not say the blocks in it may.
    for (const one of found)
      for (const { kind, number } of one.pieces)
        if (kind === BLOCK && at[number] >= one.at) [one.pool, one.stream] = [one.pool < 0 ? pool[number] : one.pool, one.stream < 0 ? stream[number] : one.stream];
    return { chunks: found, gaps, outside };
  }
}

/**
 * @param {ArrayLike<number>} column
 * @param {(row: number) => boolean} holds
 * @returns {number[]}
 */
function rowsWhere(column, holds) {
  const found = [];
  for (let row = 0; row < column.length; row += 1) if (holds(row)) found.push(row);
  return found;
}

/**
 * Chunks in rows of one length: those of the pool and stream with the most bytes first, of many the smallest ones together.
 * @param {Chunk[]} chunks
 * @param {boolean} byAddress those of a pool by rising address, and not the largest first
 * @returns {{ length: number, rows: number, groups: { first: number, chunks: number[], others: number }[], order: number[], starts: number[] }} the length of a row and their
 * number; the first row of each group and, of many together, how many these are; the chunks in order, and where each begins if rows lie one after the other
 */
export function chunkRows(chunks, byAddress) {
  /** @type {Map<string, number[]>} */
  const places = new Map();
  chunks.forEach(({ pool, stream }, k) => {
    const key = `${pool} ${stream}`;
    places.set(key, places.get(key) ?? []);
    places.get(key)?.push(k);
  });
  const bytes = (/** @type {number[]} */ group) => group.reduce((sum, k) => sum + chunks[k].size, 0);
  const sorted = [...places.values()].sort((a, b) => bytes(b) - bytes(a)), apart = sorted.length > PLACES ? PLACES - 1 : PLACES, rest = sorted.slice(apart);
  const groups = [...sorted.slice(0, apart), ...(rest.length ? [rest.flat().sort((a, b) => a - b)] : [])];
  if (!byAddress) for (const group of groups) group.sort((a, b) => chunks[b].size - chunks[a].size || a - b);
  const { length, rows, firsts, starts } = inRows(groups.map((group) => group.map((k) => chunks[k].size)), ROWS);
  return { length, rows, groups: groups.map((group, k) => ({ first: firsts[k], chunks: group, others: k === apart ? rest.length : 0 })), order: groups.flat(), starts };
}

/**
 * Bars in rows of one length, in order: one that does not fit into the rest of its row begins the next one, and one longer than a row goes on there.
 * @param {number[][]} groups the lengths of the bars; each group begins a row
 * @param {number} most rows, or one more than groups if that is more
 * @returns {{ length: number, rows: number, firsts: number[], starts: number[] }} the first row of each group, and where each bar begins if rows lie one after the other
 */
export function inRows(groups, most) {
  const all = groups.flat(), limit = Math.max(most, groups.length + 1), fair = Math.max(Math.ceil(all.reduce((sum, size) => sum + size, 0) / limit), 1);
  const largest = all.reduce((a, b) => Math.max(a, b), 0);
  // A bar is better not broken, unless that would make all others narrow.
  for (let length = largest <= 3 * fair ? Math.max(fair, largest) : fair; ; length += Math.floor(length / 25) + 1) {
    const firsts = [], starts = [];
    let at = 0;
    for (const group of groups) {
      at = Math.ceil(at / length) * length;
      firsts.push(at / length);
      for (const size of group) {
        const left = length - (at % length);
        if (left < size && left < length) at += left;
        starts.push(at);
        at += size;
      }
    }
    if (Math.ceil(at / length) <= limit) return { length, rows: Math.max(Math.ceil(at / length), 1), firsts, starts };
  }
}
