// Elements from names, properties and children. Texts are texts: nothing is read as markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined));
  return element;
}

export function h(name, properties, ...children) {
  return filled(document.createElement(name), properties, children);
}

export function s(name, properties, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

// A table that scrolls by itself where it is too wide. `head`: [text, is a number]; `rows`: cells,
// the first of which names its row.
export function table(caption, head, rows) {
  const numeric = head.map(([, number]) => (number ? "number" : null));
  const cell = (content, place) =>
    place === 0
      ? h("th", { scope: "row" }, content)
      : h("td", { class: numeric[place] }, content);
  return h(
    "table",
    null,
    h("caption", null, caption),
    h("thead", null, h("tr", null, head.map(([text], i) =>
      h("th", { scope: "col", class: numeric[i] }, text)))),
    h("tbody", null, rows.map((row) => h("tr", null, row.map(cell)))),
  );
}

// The same, and where the window is narrow a block for each row: a name beside every value. In
// some browsers such a style takes a table's meaning from it, so here each part says what it is.
export function blocks(caption, head, rows) {
  const made = table(caption, head, rows);
  made.classList.add("blocks");
  const roles = { thead: "rowgroup", tbody: "rowgroup", tr: "row", td: "cell",
    "thead th": "columnheader", "tbody th": "rowheader" };
  made.setAttribute("role", "table");
  for (const [part, role] of Object.entries(roles)) {
    for (const each of made.querySelectorAll(part)) each.setAttribute("role", role);
  }
  for (const each of made.querySelectorAll("td")) each.dataset.label = head[each.cellIndex][0];
  return made;
}

export function scrolling(label, content) {
  return h("div", { class: "scrolling", role: "region", "aria-label": label, tabindex: "0" },
    content);
}

let labels = 0;

// A labelled field. `control`: an input or a select.
export function field(text, control, hint) {
  const id = `field-${(labels += 1)}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h("div", { class: "field" }, h("label", { for: id }, text), control,
    hint ? h("small", { id: `${id}-hint` }, hint) : null);
}

// `options`: [value, text].
export function choice(name, options, chosen) {
  return h("select", { name }, options.map(([value, text]) =>
    h("option", { value, selected: value === chosen }, text)));
}
