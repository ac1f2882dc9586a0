// What is shown, as a file: the answers as they came (JSON), and their rows as a table (CSV).

import { h } from "./elements.js";

const QUOTED = /[",\r\n]/;
// A spreadsheet takes a text that begins so for a formula.
const FORMULA = /^[=+\-@\t\r]/;

// Buttons. `made()`: { name, answer, rows }, rows as objects of numbers, texts and objects of them.
export function files(label, made) {
  const button = (shape, write, type) => h("button", { type: "button", class: "quiet",
    "aria-label": `${label} as ${shape}`,
    onclick: () => {
      const { name, ...shown } = made();
      save(`${name}.${shape.toLowerCase()}`, write(shown), type);
    } }, shape);
  return h("p", { class: "files" }, "Download what is shown: ",
    button("CSV", ({ rows }) => csv(rows), "text/csv"), " ",
    button("JSON", ({ answer }) => JSON.stringify(answer, null, 1), "application/json"));
}

export function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// A column for each number or text; `level.value` is one of an object in a row.
export function csv(rows) {
  const flat = rows.map((row) => Object.fromEntries(cells(row)));
  const names = [...new Set(flat.flatMap(Object.keys))];
  const lines = [names, ...flat.map((row) => names.map((name) => row[name]))];
  return lines.map((line) => `${line.map(text).join(",")}\r\n`).join("");
}

function cells(row, before = "") {
  return Object.entries(row).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? cells(value, `${before}${name}.`) : [[before + name, value]]);
}

function text(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  const found = Array.isArray(value) ? value.join(" ") : String(value);
  const safe = FORMULA.test(found) ? `'${found}` : found;
  return QUOTED.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
