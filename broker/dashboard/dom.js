// Elements: made, kept in step with a list, and what several views are made of.

/** An element. Attributes by name; on…: listeners; dataset, style: their members; null and false: left out. */
export function h(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "dataset") Object.assign(made.dataset, value);
    else if (key === "style") for (const [what, how] of Object.entries(value)) made.style.setProperty(what, how);
    else if (key === "value") made.value = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Sets a text only where it changes, so that selections and screen readers are left alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Children of an element, one for each item: those that stay are told, not made anew, so that focus stays where it
 * is. make(item) gives {element, tell}; tell(item) may be missing.
 */
export class Rows {
  constructor(parent, keyOf, make) {
    this.parent = parent;
    this.keyOf = keyOf;
    this.make = make;
    this.rows = new Map();
  }

  show(items) {
    const wanted = new Set(items.map(this.keyOf));
    for (const [key, row] of this.rows) {
      if (wanted.has(key)) continue;
      row.element.remove();
      this.rows.delete(key);
    }
    let place = this.parent.firstElementChild;
    for (const item of items) {
      const key = this.keyOf(item);
      let row = this.rows.get(key);
      if (!row) this.rows.set(key, (row = this.make(item)));
      if (row.tell) row.tell(item);
      if (row.element === place) place = place.nextElementSibling;
      else this.parent.insertBefore(row.element, place);
    }
  }
}

/** A table inside a box that scrolls sideways by keyboard too. heads: texts, or [text, class]. cards: see cardRow. */
export function table(caption, heads, { hidden = false, cards = false } = {}) {
  const body = h("tbody", { role: cards && "rowgroup" });
  const cells = heads.map((head) => {
    const [text, kind] = Array.isArray(head) ? head : [head, null];
    return h("th", { scope: "col", class: kind, role: cards && "columnheader" }, text);
  });
  const inside = h(
    "table",
    { role: cards && "table" },
    h("caption", { class: hidden ? "unseen" : null }, caption),
    h("thead", { role: cards && "rowgroup" }, h("tr", { role: cards && "row" }, cells)),
    body,
  );
  const box = h(
    "div",
    { class: cards ? "scroller cards" : "scroller", role: "region", "aria-label": caption, tabindex: "0" },
    inside,
  );
  return { box, body };
}

const ROLES = { TH: "rowheader", TD: "cell" };

/** A row that is a card on narrow screens: there each cell says what it is, and stays a cell to screen readers. */
export function cardRow(heads, row) {
  row.setAttribute("role", "row");
  [...row.children].forEach((cell, place) => {
    cell.setAttribute("role", ROLES[cell.tagName]);
    cell.dataset.label = Array.isArray(heads[place]) ? heads[place][0] : heads[place];
  });
  return row;
}

const SYMBOLS = { good: "✓", bad: "✕", warn: "!", busy: "▶", idle: "○", none: "–" };

/** A state in words with a symbol: never by colour alone. kind: good, bad, warn, busy, idle, none. */
export function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, SYMBOLS[kind]), " ", text);
}

/** What is shown where there is nothing yet: what that means, and what to do next. */
export function empty(title, ...next) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), ...next.map((one) => h("p", {}, one)));
}

/** A command that can be copied. */
export function command(text) {
  return h("code", { class: "command" }, text);
}

/** A labelled field of a form. */
export function field(label, control, hint = null) {
  const id = `f-${label.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint && h("span", { class: "hint", id: `${id}-hint` }, hint),
  );
}

/** A control of a toolbar with its label before it. */
export function labelled(label, control) {
  control.id = `c-${label.toLowerCase()}`;
  return h("span", {}, h("label", { for: control.id }, label), " ", control);
}

/** A list to choose one from. options: [value, text]. */
export function select(options, value, onchange) {
  const made = h("select", { onchange: () => onchange(made.value) });
  choices(made, options, value);
  return made;
}

/** Changes what a list offers, and keeps what is chosen where it is still there. */
export function choices(made, options, value = made.value) {
  const now = JSON.stringify(options);
  if (made.dataset.options !== now) {
    made.dataset.options = now;
    made.replaceChildren(...options.map(([key, text]) => h("option", { value: key }, text)));
  }
  made.value = options.some(([key]) => key === value) ? value : (options[0] || [""])[0];
}

/** Runs a function at most once in so many milliseconds, the last time after the last call. */
export function calmly(run, wait_ms) {
  let timer = null;
  const calm = () => {
    if (timer === null)
      timer = setTimeout(() => {
        timer = null;
        run();
      }, wait_ms);
  };
  calm.stop = () => {
    clearTimeout(timer);
    timer = null;
  };
  return calm;
}
