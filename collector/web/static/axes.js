// The bins of one attribute: what they are called, and the texts along an axis of them.

import { s } from "./elements.js";
import { plain } from "./numbers.js";

const LETTER = 7; // pixels of one, about

export function count(axis) {
  return axis.categories ? axis.categories.length : axis.edges.length - 1;
}

export function named(axis) {
  return axis.unit ? `${axis.attribute} (${axis.unit})` : axis.attribute;
}

export function binName(axis, place) {
  if (axis.categories) return axis.categories[place];
  return `${plain(axis.edges[place])} to ${plain(axis.edges[place + 1])}`;
}

// [place in bins, text]: categories stand in the middle of theirs, edges between two.
function labels(axis) {
  if (axis.categories) return axis.categories.map((text, i) => [i + 0.5, text]);
  return axis.edges.map((edge, i) => [i, plain(edge)]);
}

function every(axis, room) {
  const found = labels(axis);
  const longest = Math.max(...found.map(([, text]) => text.length));
  const fit = Math.max(1, Math.floor(room / ((longest + 2) * LETTER)));
  const step = Math.ceil((found.length - 1) / fit) || 1;
  return found.filter((_, i) => i % step === 0);
}

export function along(axis, left, right, y) {
  const width = (right - left) / count(axis);
  return [
    every(axis, right - left).map(([place, text]) =>
      s("text", { x: left + place * width, y: y + 17, "text-anchor": "middle" }, text)),
    s("text", { class: "axis", x: (left + right) / 2, y: y + 36, "text-anchor": "middle" },
      named(axis)),
  ];
}

// From the bottom up.
export function upwards(axis, top, bottom, x) {
  const height = (bottom - top) / count(axis);
  const step = Math.ceil(22 / height);
  return labels(axis).filter((_, i) => i % step === 0).map(([place, text]) =>
    s("text", { x: x - 6, y: bottom - place * height + 4, "text-anchor": "end" }, text));
}

export function widest(axis) {
  return Math.max(...labels(axis).map(([, text]) => text.length)) * LETTER;
}
