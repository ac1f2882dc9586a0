// The bins of one attribute, and what they are called.

import { plain } from "./numbers.js";

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

// The same for a file.
export function bin(axis, place) {
  const { attribute } = axis;
  if (axis.categories) return { [attribute]: axis.categories[place] };
  return { [`${attribute}.from`]: axis.edges[place], [`${attribute}.to`]: axis.edges[place + 1] };
}
