// Shares of an attribute's bins: bars, and whiskers of one standard error.

import * as axes from "./axes.js";
import { s, table } from "./elements.js";
import { percent } from "./numbers.js";
import { leftAxis, restsOn, ticks } from "./picture.js";

const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 14, 12, 48];

export function showHistogram(frame, answer) {
  const [axis] = answer.axes;
  const { share, standard_error: error } = answer;
  const most = share.indexOf(Math.max(...share));
  frame.show(
    (width) => ({ height: HEIGHT, children: bars(axis, share, error, width) }),
    `Histogram of ${axes.named(axis)}, ${share.length} bins, estimated. The largest share is ` +
      `${percent(share[most], error[most])}, in ${axes.binName(axis, most)}.`,
    `Bars: estimated share of all readings. Whiskers: one standard error. ${restsOn(answer)}`,
    table(`Shares of ${axes.named(axis)}, ± one standard error`,
      [["Bin", false], ["Share", true]],
      share.map((value, i) => [axes.binName(axis, i), percent(value, error[i])])),
  );
}

function bars(axis, share, error, width) {
  const tops = share.map((value, i) => (value ?? 0) + (error[i] ?? 0));
  const values = ticks(100 * Math.max(...tops), 5);
  const highest = values.at(-1) || 1;
  const [right, bottom] = [width - RIGHT, HEIGHT - BOTTOM];
  const y = (value) => bottom - (value / highest) * (bottom - TOP);
  const each = (right - LEFT) / share.length;
  const gap = Math.min(2, each / 5);
  return [
    leftAxis(values, y, LEFT, right, (value) => `${value} %`),
    share.map((value, i) => {
      if (value === null) return [];
      const [low, high] = [y(0), y(100 * Math.max(value, 0))];
      const x = LEFT + i * each;
      return s("rect", { class: "bar", x: x + gap / 2, y: high, width: each - gap,
        height: low - high });
    }),
    share.map((value, i) => whisker(LEFT + (i + 0.5) * each, value, error[i], y, each)),
    axes.along(axis, LEFT, right, bottom),
  ];
}

function whisker(x, value, error, y, room) {
  if (value === null || !(error > 0)) return [];
  const [low, high] = [y(100 * Math.max(value - error, 0)), y(100 * (value + error))];
  const half = Math.min(4, room / 3);
  return s("path", { class: "whisker",
    d: `M${x} ${low}V${high}M${x - half} ${high}h${2 * half}M${x - half} ${low}h${2 * half}` });
}
