/** The view in the address of the page: a link shows what was seen. */

/** Milliseconds after which a view that no longer changes is written down. */
const REST = 300;
/** The log that is shown: of several each has a view of its own. @type {import("./app.js").App | null} */
let shown = null;

/**
 * The view as the part of an address behind the `#`: only what is not as it is at first.
 * @param {import("./app.js").App} app
 * @returns {string}
 */
export function hashOf({ axis, log, stacks, selected, sought }) {
  const said = new URLSearchParams();
  if (log >= 0) said.set("log", String(log));
  if (stacks.chosen) said.set("by", stacks.way.key);
  if (axis.from > axis.lo || axis.to < axis.hi) said.set("events", `${Math.floor(axis.from)}-${Math.ceil(axis.to)}`);
  if (axis.overTime) said.set("over", "time");
  if (sought) said.set("find", sought);
  if (selected && ["block", "moment", "range"].includes(selected.kind)) said.set(selected.kind, selected.kind === "range" ? `${selected.value}-${selected.to}` : String(selected.value));
  return said.toString();
}

/**
 * Make a view as an address says; what is wrong in it is passed over.
 * @param {import("./app.js").App} app
 * @param {string} hash without the `#`
 */
export function restore(app, hash) {
  const said = new URLSearchParams(hash), { axis, stacks, view } = app;
  /** Whole numbers that an address says. @param {string} key @returns {number[]} */
  const numbers = (key) => (/^\d+(-\d+)?$/.test(said.get(key) ?? "") ? String(said.get(key)).split("-").map(Number) : []);
  const way = stacks.ways.findIndex(({ key }) => key === said.get("by")), [from, to] = numbers("events");
  app.look({ way: way < 0 ? 0 : way, sought: said.get("find") ?? "" });
  axis.overTime = said.get("over") === "time" && axis.times !== null;
  if (to > from) axis.show(from, to);
  else axis.reset();
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
 */
export function addressed(app) {
  let writing = 0, own = location.hash;
  shown = app;
  const read = () => {
    if (shown !== app) return;
    const hash = location.hash.slice(1);
    if (location.hash !== own && (hash.includes("=") || !hash)) restore(app, hash);
    own = location.hash;
  };
  if (location.hash.includes("=")) restore(app, location.hash.slice(1));
  // In the frame of a notebook there is no address of its own.
  if (location.protocol === "about:") return;
  const write = () => {
    clearTimeout(writing);
    writing = setTimeout(() => {
      const hash = hashOf(app);
      if (shown !== app || hash === location.hash.slice(1) || (!hash && !location.hash.includes("="))) return;
      history.replaceState(null, "", `#${hash}`);
      own = location.hash;
    }, REST);
  };
  app.axis.onChange(write);
  app.onSelect(write);
  app.onLook(write);
  addEventListener("hashchange", read);
}
