/** The view in the address of the page: a link shows what was seen. */

/** Milliseconds after which a view that no longer changes is written down. */
const REST = 300;
/** The log that is shown: of several each has a view of its own. @type {import("./app.js").App | null} */
let shown = null;

/**
 * What is seen of two runs: the part of their axis, the key of the way to group them (empty for the first), the number of the finding (-1 for none).
 * @typedef {{ axis: import("./axis.js").Axis, by: string, finding: number, choose: (by: string, finding: number) => void }} Both
 */

/** @param {import("./axis.js").Axis} axis @returns {string} what is shown of an axis, empty for all */
const stretchText = ({ from, to, lo, hi }) => (from > lo || to < hi ? `${Math.floor(from)}-${Math.ceil(to)}` : "");

/**
 * The view as the part of an address behind the `#`: only what is not as it is at first.
 * @param {import("./app.js").App} app
 * @param {Both | null} [both]
 * @returns {string}
 */
export function hashOf({ axis, log, stacks, selected, sought }, both = null) {
  const said = new URLSearchParams();
  if (log >= 0) said.set("log", String(log));
  if (stacks.chosen) said.set("by", stacks.way.key);
  if (stretchText(axis)) said.set("events", stretchText(axis));
  if (axis.overTime) said.set("over", "time");
  if (sought) said.set("find", sought);
  if (selected && ["block", "moment", "range"].includes(selected.kind)) said.set(selected.kind, selected.kind === "range" ? `${selected.value}-${selected.to}` : String(selected.value));
  if (both && stretchText(both.axis)) said.set("both", stretchText(both.axis));
  if (both?.by) said.set("both-by", both.by);
  if (both?.finding) said.set("finding", String(both.finding + 1));
  return said.toString();
}

/**
 * Make a view as an address says; what is wrong in it is passed over.
 * @param {import("./app.js").App} app
 * @param {string} hash without the `#`
 * @param {Both | null} [both]
 */
export function restore(app, hash, both = null) {
  const said = new URLSearchParams(hash), { axis, stacks, view } = app;
  /** Whole numbers that an address says. @param {string} key @returns {number[]} */
  const numbers = (key) => (/^\d+(-\d+)?$/.test(said.get(key) ?? "") ? String(said.get(key)).split("-").map(Number) : []);
  const way = stacks.ways.findIndex(({ key }) => key === said.get("by")), [from, to] = numbers("events");
  app.look({ way: way < 0 ? 0 : way, sought: said.get("find") ?? "" });
  axis.overTime = said.get("over") === "time" && axis.times !== null;
  if (to > from) axis.show(from, to);
  else axis.reset();
  if (both) {
    const [begin, end] = numbers("both"), [finding = 1] = numbers("finding");
    both.choose(said.get("both-by") ?? "", finding - 1);
    if (end > begin) both.axis.show(begin, end);
    else both.axis.reset();
  }
  const [block] = numbers("block"), [moment] = numbers("moment"), [begin, end] = numbers("range");
  /** @param {number} event */
  const inside = (event) => axis.lo <= event && event < axis.hi;
  if (block < view.lifetimes.alloc.length) app.select("block", block);
  else if (inside(moment)) app.select("moment", moment);
  else if (inside(begin) && inside(end)) app.select("range", Math.min(begin, end), Math.max(begin, end));
  else app.select(null);
}

/**
 * Begin with the view that the address has, and write down what becomes of it; links to parts of the page stay what they are.
 * @param {import("./app.js").App} app
 * @param {Both | null} both
 */
export function addressed(app, both) {
  let writing = 0, own = location.hash;
  shown = app;
  const read = () => {
    if (shown !== app) return;
    const hash = location.hash.slice(1);
    if (location.hash !== own && (hash.includes("=") || !hash)) restore(app, hash, both);
    own = location.hash;
  };
  if (location.hash.includes("=")) restore(app, location.hash.slice(1), both);
  // In the frame of a notebook there is no address of its own.
  if (location.protocol === "about:") return;
  const write = () => {
    clearTimeout(writing);
    writing = setTimeout(() => {
      const hash = hashOf(app, both);
      if (shown !== app || hash === location.hash.slice(1) || (!hash && !location.hash.includes("="))) return;
      history.replaceState(null, "", `#${hash}`);
      own = location.hash;
    }, REST);
  };
  app.axis.onChange(write);
  both?.axis.onChange(write);
  app.onSelect(write);
  app.onLook(write);
  addEventListener("hashchange", read);
}
