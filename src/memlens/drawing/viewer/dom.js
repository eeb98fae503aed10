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

/**
 * @param {string} text
 * @param {() => void} click
 * @param {Record<string, string | number>} [attributes]
 * @returns {HTMLButtonElement}
 */
export function button(text, click, attributes = {}) {
  return element("button", { type: "button", ...attributes, click }, text);
}

/**
 * A list to choose from.
 * @param {string} text
 * @param {string[]} names
 * @param {(k: number) => void} change
 * @param {{ first?: number, id?: string }} [how] `first` is chosen before anybody does
 * @returns {HTMLElement}
 */
export function choice(text, names, change, { first = 0, ...attributes } = {}) {
  const select = element("select", { ...attributes, change: () => change(select.selectedIndex) },
    ...names.map((name, k) => element("option", { value: name, selected: k === first }, name)));
  return element("label", {}, `${text} `, select);
}

/**
 * A patch of a colour of the style sheet; of none an empty one.
 * @param {string} ink
 * @returns {HTMLElement}
 */
export function swatch(ink) {
  const made = element("i", { class: ink });
  if (ink) made.style.background = `var(--${ink})`;
  return made;
}

/**
 * What colours mean.
 * @param {{ ink: string, name: string }[]} entries colours of the style sheet, and what they are of
 * @returns {HTMLElement}
 */
export function legendOf(entries) {
  return element("p", { class: "legend" }, ...entries.map(({ ink, name }) => element("span", {}, swatch(ink), name)));
}

/**
 * What a picture tells beside itself: a line about what the pointer or the keyboard is at, read aloud, and what can be done with it.
 * @param {HTMLElement} picture
 * @param {string} id
 * @param {string} hint
 * @returns {{ line: HTMLElement, hint: HTMLElement, tell: (text: string, data: Record<string, string | number>) => void }} `data` are the exact figures
 * of the line; what it had of others becomes empty
 */
export function explained(picture, id, hint) {
  const line = element("p", { class: "told", role: "status", "aria-live": "polite", id: `${id}-at` });
  picture.setAttribute("aria-describedby", `${id}-at ${id}-keys`);
  return {
    line, hint: element("p", { class: "hint", id: `${id}-keys` }, hint),
    tell: (text, data) => {
      line.textContent = text;
      for (const key of Object.keys(line.dataset)) line.dataset[key] = "";
      Object.assign(line.dataset, data);
    },
  };
}

/**
 * Do what a table says for keys.
 * @param {HTMLElement} target
 * @param {Record<string, () => void>} keys
 */
export function onKeys(target, keys) {
  target.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.altKey || event.metaKey ? undefined : keys[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  });
}
