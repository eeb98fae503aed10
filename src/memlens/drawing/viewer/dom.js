/** Elements made without markup: text from a log is only ever text. */

/**
 * An element with attributes and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | number | boolean | ((event: any) => void)>} [attributes] a function listens to the event of that name
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false) made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}

/**
 * A part of the page with a heading.
 * @param {string} id
 * @param {string} title
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function section(id, title, ...children) {
  return element("section", { id, "aria-labelledby": `${id}-title` }, element("h2", { id: `${id}-title` }, title), ...children);
}

/**
 * A switch.
 * @param {string} text
 * @param {(on: boolean) => void} change
 * @returns {HTMLElement}
 */
export function checkbox(text, change) {
  return element("label", {}, element("input", { type: "checkbox", change: (/** @type {any} */ event) => change(event.target.checked) }), ` ${text}`);
}
