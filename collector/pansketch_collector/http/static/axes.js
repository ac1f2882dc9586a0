// Scales and the texts along them. A label is [pixel, text]; none may cover another.

import { format, max, scaleBand, scaleLinear, scaleLog, scaleSymlog } from "./d3.js";
import { s } from "./elements.js";

const LETTER = 7; // pixels of one, about
const LINE = 22; // pixels between texts above each other
const MOST = 20; // values along an axis, about
const LINES = 5; // across a picture, about
const ROUNDEST = ["0", "1", "5", "2"]; // digits of a value, the most telling first
const EVEN = 1e-6; // of the whole: a difference of bins that are equally wide

function width(text) {
  return (text.length + 2) * LETTER;
}

export function longest(labels) {
  return max(labels, ([, text]) => text.length) * LETTER;
}

function fit([one, text], [other, next], size) {
  return Math.abs(one - other) >= (size(text) + size(next)) / 2;
}

// As many of them as there is room for, the first ones first.
function spread(labels, size) {
  const kept = [];
  for (const each of labels) {
    if (kept.every((other) => fit(each, other, size))) kept.push(each);
  }
  return kept;
}

// The most of a scale's round values that have room beside each other. `text(value, count)`.
export function fitting(scale, text, most = MOST, size = width) {
  let labels = [];
  for (let count = Math.min(most, MOST); count > 0; count -= 1) {
    labels = scale.ticks(count).map((value) => [scale(value), text(value, count)]);
    const all = spread(labels, size).length === labels.length;
    if (all && labels.length > 1 && labels.length <= most) return labels;
  }
  return spread(labels, size);
}

// Those of an attribute's bins, which fill a range of pixels.
function labelsOf({ categories, edges }, pixels, size) {
  if (categories) return thinned(categories, scaleBand(categories, pixels), size);
  const bend = bendOf(edges);
  if (bend !== null) return spread(logarithmic(edges, bend, pixels), size);
  const scale = scaleLinear([edges[0], edges.at(-1)], pixels);
  return fitting(scale, (value, count) => scale.tickFormat(count, "f")(value), MOST, size);
}

function thinned(categories, scale, size) {
  const step = Math.ceil(max(categories, size) / scale.bandwidth());
  return categories.filter((_, i) => i % step === 0).map((text) =>
    [scale(text) + scale.bandwidth() / 2, text]);
}

// Where a scale turns from linear to logarithmic, in its unit above its low end; null of a linear
// one. Of log(1 + (x - low) / bend) each bin is wider than the one before by the same factor.
function bendOf(edges) {
  const [first, last] = [edges[1] - edges[0], edges.at(-1) - edges.at(-2)];
  if (Math.abs(last - first) < EVEN * (edges.at(-1) - edges[0])) return null;
  return first / ((last / first) ** (1 / (edges.length - 2)) - 1);
}

function logarithmic(edges, bend, pixels) {
  const [low, high] = [edges[0], edges.at(-1)];
  const scale = scaleSymlog([0, high - low], pixels).constant(bend);
  const text = format(".12~r");
  return roundest(low, high, Math.min(bend, high - low) / 10).map((value) =>
    [scale(value - low), text(value)]);
}

// Round values, the most telling first: powers of ten, then their halves and fifths. What is nearer
// to 0 than `finest` lies beside it.
function roundest(low, high, finest) {
  const between = (from, to) => (from < to ? scaleLog().domain([from, to]).ticks() : []);
  const found = [...(low <= 0 && high >= 0 ? [0] : []), ...between(Math.max(low, finest), high),
    ...between(low, Math.min(high, -finest))];
  const rank = (value) => ROUNDEST.indexOf(Math.abs(value).toExponential().split("e")[0]);
  const round = found.filter((value) => rank(value) >= 0).sort((a, b) => rank(a) - rank(b));
  if (round.length > 2 || low === 0) return round;
  // Less than a power of ten holds few of them: round steps from the low end on, then.
  return roundest(0, high - low, finest).map((value) => low + value);
}

export function across(axis, left, right) {
  return labelsOf(axis, [left, right], width);
}

// From the bottom up.
export function upwards(axis, bottom, top) {
  return labelsOf(axis, [bottom, top], () => LINE);
}

// Labels under a picture; `edge`: its right end, which no text crosses. Names have no tick: they
// stand for the whole of a bin.
export function below(labels, y, edge, names = false) {
  return labels.map(([x, text]) => [
    names ? [] : s("line", { class: "tick", x1: x, x2: x, y1: y, y2: y + 5 }),
    s("text", { x: Math.min(x, edge - (text.length * LETTER) / 2), y: y + 20,
      "text-anchor": "middle" }, text),
  ]);
}

export function beside(labels, x, names = false) {
  return labels.map(([y, text]) => [
    names ? [] : s("line", { class: "tick", x1: x - 5, x2: x, y1: y, y2: y }),
    s("text", { x: x - 8, y: y + 4, "text-anchor": "end" }, text),
  ]);
}

// Heights from zero to a round value that is not below `highest`. What is below zero lies at zero.
export function fromZero(highest, bottom, top) {
  return scaleLinear([0, highest > 0 ? highest : 1], [bottom, top]).nice(LINES).clamp(true);
}

// Heights between round values around these two.
export function around(lowest, highest, bottom, top) {
  const room = highest > lowest ? 0 : Math.abs(highest) || 1;
  return scaleLinear([lowest - room, highest + room], [bottom, top]).nice(LINES);
}

export function heights(y, after = "") {
  const text = y.tickFormat(LINES);
  return y.ticks(LINES).map((value) => [y(value), text(value) + after]);
}

// A line across the picture for each label.
export function grid(labels, left, right) {
  return labels.map(([y, text]) => [
    s("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
    s("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, text),
  ]);
}
