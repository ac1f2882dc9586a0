// The mean of an attribute over time: points of windows or days, whiskers of one standard error, and
// the level behind their noise, as a line in a band of two.

import * as axes from "./axes.js";
import { max, min, scaleUtc } from "./d3.js";
import { s, table } from "./elements.js";
import { moment, withError } from "./numbers.js";
import { restsOn } from "./picture.js";
import { band, connected, runs, times } from "./timeline.js";
import { whisker } from "./whisker.js";

const HEIGHT = 300;
const [RIGHT, TOP, BOTTOM] = [20, 12, 34];
const INSET = 16; // pixels from an end of the axis to the first and the last point
const CROWDED = 9; // pixels between points, below which they are dots without whiskers
const DAY_SECONDS = 86400;

export function showSeries(frame, answer, attribute) {
  const { by, rows, unit } = answer;
  const seconds = (Date.parse(rows[0].to) - Date.parse(rows[0].from)) / 1000;
  const last = rows.findLast((each) => each.level) ?? rows.at(-1);
  const noisy = rows.filter((each) => each.value === null).length;
  frame.show(
    (width) => ({ height: HEIGHT, children: drawn(rows, seconds, unit, width) }),
    `Mean of ${attribute} in each of ${rows.length} ${by}s, with its level. Level of the newest, ` +
      `from ${moment(last.from)}: ${shown(last.level, unit)}.`,
    `Points: mean in one ${by}. Whiskers, if there is room: one standard error. Line and band: the ` +
      `level behind the noise, plus or minus two standard errors.${without(noisy, by)} ` +
      restsOn(answer),
    table(`Mean of ${attribute} by ${by}, ± one standard error. Times are UTC.`,
      [[seconds < DAY_SECONDS ? "Window from" : "From", false], ["Releases", true],
        ["Readings", true], ["Mean", true], ["Level", true]],
      rows.map((each) => [moment(each.from), each.releases, shown(each.readings, ""),
        each.value === null ? "too noisy" : withError(each.value, each.standard_error, unit),
        shown(each.level, unit)])),
  );
}

function without(noisy, by) {
  if (!noisy) return "";
  return ` ${noisy} ${by}${noisy > 1 ? "s have" : " has"} no point: noise outweighs the readings.`;
}

function shown(estimate, unit) {
  return estimate ? withError(estimate.value, estimate.standard_error, unit ?? "") : "–";
}

function drawn(rows, seconds, unit, width) {
  const points = rows.filter((each) => each.value !== null).map((each) => ({
    at: Date.parse(each.from), value: each.value, error: each.standard_error ?? 0,
  }));
  const levels = rows.filter((each) => each.level).map((each) => ({
    at: Date.parse(each.from), value: each.level.value, error: 2 * each.level.standard_error,
  }));
  if (!points.length) {
    return [s("text", { x: INSET, y: HEIGHT / 2 }, "No row has a value: see the table.")];
  }
  const bottom = HEIGHT - BOTTOM;
  const all = [...points, ...levels];
  const y = axes.around(min(all, (each) => each.value - each.error),
    max(all, (each) => each.value + each.error), bottom, TOP);
  const heights = axes.heights(y, unit ? ` ${unit}` : "");
  const [left, right] = [Math.max(axes.longest(heights) + 14, 44), width - RIGHT];
  const x = scaleUtc([all[0].at, Math.max(points.at(-1).at, levels.at(-1)?.at ?? 0)],
    [left + INSET, right - INSET]);
  const crowded = (right - left) / rows.length < CROWDED;
  return [
    axes.grid(heights, left, right),
    runs(levels, seconds).map((run) => band(run, x, y)),
    points.map((each) => mark(each, x(each.at), y, crowded)),
    runs(levels, seconds).map((run) => connected(run, x, y)),
    axes.below(times(x, seconds), bottom, width),
  ];
}

function mark({ value, error }, x, y, crowded) {
  if (crowded) return s("circle", { class: "dot", cx: x, cy: y(value), r: 2 });
  return [
    whisker(x, y(value - error), y(value + error), 4),
    s("circle", { class: "point", cx: x, cy: y(value), r: 3 }),
  ];
}
