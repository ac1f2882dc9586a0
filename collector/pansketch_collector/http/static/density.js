// Shares of pairs of bins: a field of cells, darker for more.

import * as axes from "./axes.js";
import { bin, binName, count, named } from "./bins.js";
import { max, maxIndex, range, scaleBand, scaleQuantize } from "./d3.js";
import { s, table } from "./elements.js";
import { percent } from "./numbers.js";
import { restsOn } from "./picture.js";

const SHADES = 9; // classes shade-0 to shade-8 of the style sheet
const CLEAR = 2; // standard errors above zero
const [RIGHT, TOP, BOTTOM, CELL] = [14, 44, 48, 26];

export function showDensity(frame, answer) {
  const [one, two] = answer.axes;
  const { share, standard_error: error } = answer;
  const names = `${named(one)} and ${named(two)}`;
  const i = Math.max(maxIndex(share, (row) => max(row)), 0);
  const j = Math.max(maxIndex(share[i]), 0);
  frame.show(
    (width) => field(one, two, share, error, width),
    `Density of ${names}, ${count(one)} by ${count(two)} bins, estimated. The largest share is ` +
      `${percent(share[i][j], error[i][j])}, in ${binName(one, i)} and ${binName(two, j)}.`,
    "Colour: the estimated share of all readings, by its square root. A dot: a share that is less " +
      `than ${CLEAR} standard errors, and may be noise alone. ${restsOn(answer)}`,
    table(`Shares of ${names}, ± one standard error`,
      [[`${one.attribute} \\ ${two.attribute}`, false],
        ...range(count(two)).map((at) => [binName(two, at), true])],
      share.map((row, at) => [binName(one, at),
        ...row.map((value, up) => percent(value, error[at][up]))])),
    { answer, rows: share.flatMap((row, at) => row.map((value, up) => ({ ...bin(one, at),
      ...bin(two, up), share: value, standard_error: error[at][up] }))) },
  );
}

function field(one, two, share, error, width) {
  const height = TOP + Math.max(count(two) * CELL, 90) + BOTTOM;
  const [right, bottom] = [width - RIGHT, height - BOTTOM];
  const beside = axes.upwards(two, bottom, TOP);
  const left = Math.min(Math.max(axes.longest(beside) + 14, 44), 120);
  const x = scaleBand(range(count(one)), [left, right]);
  const y = scaleBand(range(count(two)), [bottom, TOP]);
  const top = Math.max(max(share.flat()) ?? 0, 0);
  const shade = shading(top);
  return { height, children: [
    legend(left, top),
    share.map((row, i) => row.map((value, j) =>
      cell(x(i), y(j), x.bandwidth(), y.bandwidth(), shade(value),
        value > 0 && !(value > CLEAR * (error[i][j] ?? Infinity))))),
    axes.below(axes.across(one, left, right), bottom, width, one.categories),
    axes.beside(beside, left, two.categories),
    s("text", { class: "axis", x: (left + right) / 2, y: bottom + 40, "text-anchor": "middle" },
      named(one)),
    s("text", { class: "axis", x: left, y: 34 }, `up: ${named(two)}`),
  ] };
}

function cell(x, y, width, height, shade, doubtful) {
  return [
    s("rect", { class: `shade-${shade}`, x, y, width: width - 1, height: height - 1 }),
    doubtful ? s("circle", { class: "dot", cx: x + width / 2, cy: y + height / 2, r: 1.5 }) : [],
  ];
}

// The first shade is that of nothing.
function shading(top) {
  const steps = scaleQuantize([0, Math.sqrt(top)], range(1, SHADES));
  return (value) => (value > 0 ? steps(Math.sqrt(value)) : 0);
}

function legend(left, top) {
  const swatches = range(SHADES).map((i) =>
    s("rect", { class: `shade-${i}`, x: left + 22 + i * 12, y: 3, width: 12, height: 10 }));
  return [s("text", { x: left, y: 12 }, "0"), swatches,
    s("text", { x: left + 22 + SHADES * 12 + 6, y: 12 }, `${(100 * top).toPrecision(2)} %`)];
}
