// The bins of one attribute: what they are called, and the texts along an axis of them.

import { s } from "./elements.js";
import { plain } from "./numbers.js";

const LETTER = 7; // pixels of one, about
const LINE = 22; // pixels between texts above each other
const ROUND = [1, 2, 5];

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

function width(text) {
  return (text.length + 2) * LETTER;
}

function isEven(edges) {
  const [low, high] = [edges[0], edges.at(-1)];
  return Math.abs(high - edges.at(-2) - (edges[1] - low)) < 1e-6 * (high - low);
}

// Where a value lies, in bins from the first edge on. Of a logarithmic scale only the edges are
// known: between two it is taken for one without an offset, as it is but near zero.
function place(edges, value) {
  const next = edges.findIndex((edge) => edge > value);
  const bin = next < 0 ? edges.length - 2 : Math.max(next - 1, 0);
  const scale = isEven(edges) || edges[bin] <= 0 ? (each) => each : Math.log;
  const [at, low, high] = [value, edges[bin], edges[bin + 1]].map(scale);
  return bin + (at - low) / (high - low);
}

// Round values that an axis may have texts at, the most telling first: of bins that are equally
// wide a few steps to choose from, of others powers of ten, then their halves and fifths.
function* choices(edges) {
  const [low, high] = [edges[0], edges.at(-1)];
  const power = 10 ** Math.floor(Math.log10(high - low));
  if (isEven(edges)) {
    for (const step of [power / 10, power].flatMap((each) => ROUND.map((by) => by * each))) {
      yield multiples(low, high, step);
    }
    return;
  }
  const powers = Array.from({ length: 12 }, (_, i) => power * 10 ** (1 - i));
  const signed = (by) => powers.flatMap((each) => [by * each, -by * each]).filter((each) =>
    each >= low && each <= high);
  yield [0, ...signed(1), ...signed(5), ...signed(2)].filter((each) => each >= low);
}

function multiples(low, high, step) {
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, i) =>
    Number(((first + i) * step).toPrecision(12)));
}

// [place in bins, text], so far apart that none covers another. `size(text)`: pixels it takes;
// `bin`: pixels of one.
function labels(axis, bin, size) {
  const { edges, categories } = axis;
  if (categories) return thinned(categories.map((text, i) => [i + 0.5, text]), bin, size);
  const sets = [...choices(edges)].map((values) =>
    values.map((value) => [place(edges, value), plain(value)]));
  const kept = sets.map((each) => spread(each, bin, size));
  return kept.find((each, i) => each.length > 1 && each.length === sets[i].length) ?? kept[0];
}

function fits([one, text], [other, next], bin, size) {
  return Math.abs(one - other) * bin >= (size(text) + size(next)) / 2;
}

// As many of them as there is room for, the first ones first.
function spread(found, bin, size) {
  const kept = [];
  for (const each of found) {
    if (kept.every((other) => fits(each, other, bin, size))) kept.push(each);
  }
  return kept;
}

function thinned(found, bin, size) {
  const room = Math.max(...found.map(([, text]) => size(text)));
  const step = Math.max(1, Math.ceil(room / bin));
  return found.filter((_, i) => i % step === 0);
}

export function along(axis, left, right, y) {
  const bin = (right - left) / count(axis);
  return [
    labels(axis, bin, width).map(([at, text]) => {
      // A text at an end keeps within the picture.
      const half = (text.length * LETTER) / 2;
      const x = Math.min(left + at * bin, right + 14 - half);
      return [
        axis.categories ? [] :
          s("line", { class: "tick", x1: left + at * bin, x2: left + at * bin, y1: y, y2: y + 5 }),
        s("text", { x, y: y + 20, "text-anchor": "middle" }, text),
      ];
    }),
    s("text", { class: "axis", x: (left + right) / 2, y: y + 40, "text-anchor": "middle" },
      named(axis)),
  ];
}

// From the bottom up.
export function upwards(axis, top, bottom, x) {
  const bin = (bottom - top) / count(axis);
  return labels(axis, bin, () => LINE).map(([at, text]) => [
    axis.categories ? [] :
      s("line", { class: "tick", x1: x - 5, x2: x, y1: bottom - at * bin, y2: bottom - at * bin }),
    s("text", { x: x - 8, y: bottom - at * bin + 4, "text-anchor": "end" }, text),
  ]);
}

// Pixels that the longest text of an upward axis takes.
export function widest(axis) {
  const texts = axis.categories ?? [...choices(axis.edges)].flat().map(plain);
  return Math.max(...texts.map((text) => text.length)) * LETTER;
}
