// Shares of pairs of bins: a field of cells, darker for more.

import * as axes from "./axes.js";
import { s, table } from "./elements.js";
import { percent } from "./numbers.js";
import { restsOn } from "./picture.js";

const SHADES = 9; // classes shade-0 to shade-8 of the style sheet
const CLEAR = 2; // standard errors above zero
const [RIGHT, TOP, BOTTOM, CELL] = [14, 44, 48, 26];

export function showDensity(frame, answer) {
  const [across, up] = answer.axes;
  const { share, standard_error: error } = answer;
  const names = `${axes.named(across)} and ${axes.named(up)}`;
  const most = largest(share);
  frame.show(
    (width) => field(across, up, share, error, width),
    `Density of ${names}, ${axes.count(across)} by ${axes.count(up)} bins, estimated. The largest ` +
      `share is ${percent(share[most[0]][most[1]], error[most[0]][most[1]])}, in ` +
      `${axes.binName(across, most[0])} and ${axes.binName(up, most[1])}.`,
    "Colour: the estimated share of all readings, by its square root. A dot: a share that is less " +
      `than ${CLEAR} standard errors, and may be noise alone. ${restsOn(answer)}`,
    table(`Shares of ${names}, ± one standard error`,
      [[`${across.attribute} \\ ${up.attribute}`, false],
        ...Array.from({ length: axes.count(up) }, (_, j) => [axes.binName(up, j), true])],
      share.map((row, i) => [axes.binName(across, i),
        ...row.map((value, j) => percent(value, error[i][j]))])),
  );
}

function largest(share) {
  let found = [0, 0];
  share.forEach((row, i) => row.forEach((value, j) => {
    if (value > share[found[0]][found[1]]) found = [i, j];
  }));
  return found;
}

function field(across, up, share, error, width) {
  const rows = axes.count(up);
  const height = TOP + Math.max(rows * CELL, 90) + BOTTOM;
  const left = Math.min(Math.max(axes.widest(up) + 14, 44), 120);
  const [right, bottom] = [width - RIGHT, height - BOTTOM];
  const [wide, high] = [(right - left) / share.length, (bottom - TOP) / rows];
  const top = Math.max(...share.flat());
  const cells = share.flatMap((row, i) => row.map((value, j) => {
    const [x, y] = [left + i * wide, bottom - (j + 1) * high];
    return [
      s("rect", { class: `shade-${shade(value, top)}`, x, y, width: wide - 1, height: high - 1 }),
      value > 0 && !(value > CLEAR * (error[i][j] ?? Infinity)) ?
        s("circle", { class: "dot", cx: x + wide / 2, cy: y + high / 2, r: 1.5 }) : [],
    ];
  }));
  return { height, children: [
    legend(left, top),
    cells, axes.along(across, left, right, bottom), axes.upwards(up, TOP, bottom, left),
    s("text", { class: "axis", x: left, y: 34 }, `up: ${axes.named(up)}`),
  ] };
}

function shade(value, top) {
  if (!(value > 0) || !(top > 0)) return 0;
  return Math.min(SHADES - 1, Math.max(1, Math.ceil(Math.sqrt(value / top) * (SHADES - 1))));
}

function legend(left, top) {
  const swatches = Array.from({ length: SHADES }, (_, i) =>
    s("rect", { class: `shade-${i}`, x: left + 22 + i * 12, y: 3, width: 12, height: 10 }));
  return [s("text", { x: left, y: 12 }, "0"), swatches,
    s("text", { x: left + 22 + SHADES * 12 + 6, y: 12 }, `${(100 * top).toPrecision(2)} %`)];
}
