// Shares of an attribute's bins: bars, and whiskers of one standard error.

import * as axes from "./axes.js";
import { bin, binName, named } from "./bins.js";
import { max, maxIndex, range, scaleBand } from "./d3.js";
import { s, table } from "./elements.js";
import { percent } from "./numbers.js";
import { restsOn } from "./picture.js";
import { whisker } from "./whisker.js";

const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 14, 12, 48];
const GAP = 2; // pixels between bars

export function showHistogram(frame, answer) {
  const [axis] = answer.axes;
  const { share, standard_error: error } = answer;
  const most = Math.max(maxIndex(share), 0);
  frame.show(
    (width) => ({ height: HEIGHT, children: drawn(axis, share, error, width) }),
    `Histogram of ${named(axis)}, ${share.length} bins, estimated. The largest share is ` +
      `${percent(share[most], error[most])}, in ${binName(axis, most)}.`,
    `Bars: estimated share of all readings. Whiskers: one standard error. ${atoms(axis)}` +
      restsOn(answer),
    table(`Shares of ${named(axis)}, ± one standard error`,
      [["Bin", false], ["Share", true]],
      share.map((value, i) => [binName(axis, i), percent(value, error[i])])),
    { answer, rows: share.map((value, i) => ({ ...bin(axis, i), share: value,
      standard_error: error[i] })) },
  );
}

// Values with mass of their own; those inside the bounds are in a bar, too.
function atoms(axis) {
  const texts = (axis.atoms ?? []).map((atom) =>
    `${atom.value}: ${percent(atom.share, atom.standard_error)}`);
  return texts.length ? `Atoms: ${texts.join(", ")}. ` : "";
}

function drawn(axis, share, error, width) {
  const [right, bottom] = [width - RIGHT, HEIGHT - BOTTOM];
  const x = scaleBand(range(share.length), [LEFT, right]);
  const gap = Math.min(GAP / x.step(), 0.2);
  x.paddingInner(gap).paddingOuter(gap / 2);
  const most = Math.min(100 * max(share, (value, i) => value + error[i]), 100);
  const y = axes.fromZero(most, bottom, TOP);
  const known = range(share.length).filter((i) => share[i] !== null);
  return [
    axes.grid(axes.heights(y, " %"), LEFT, right),
    known.map((i) => bar(x(i), x.bandwidth(), share[i], y)),
    known.filter((i) => error[i] > 0).map((i) =>
      whisker(x(i) + x.bandwidth() / 2, y(100 * (share[i] - error[i])),
        y(100 * (share[i] + error[i])), Math.min(4, x.step() / 3))),
    axes.below(axes.across(axis, LEFT, right), bottom, width, axis.categories),
    s("text", { class: "axis", x: (LEFT + right) / 2, y: bottom + 40, "text-anchor": "middle" },
      named(axis)),
  ];
}

function bar(x, width, share, y) {
  const top = y(100 * share);
  return s("rect", { class: "bar", x, y: top, width, height: y(0) - top });
}
