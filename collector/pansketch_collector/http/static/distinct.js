// Different keys, window by window: points, whiskers of one standard error, a band between them.

import * as axes from "./axes.js";
import { max, scaleUtc } from "./d3.js";
import { s, table } from "./elements.js";
import { moment, withError } from "./numbers.js";
import { leftOut } from "./picture.js";
import { band, connected, runs, times } from "./timeline.js";
import { whisker } from "./whisker.js";

const HEIGHT = 300;
const [RIGHT, TOP, BOTTOM] = [20, 12, 34];
const INSET = 16; // pixels from an end of the axis to the first and the last point

export function showDistinct(frame, answer) {
  const { figures } = answer;
  const last = figures.at(-1);
  const merged = answer.keys === "shared" ? "devices may share keys: their union" :
    "each device has keys of its own: their sum";
  const left = leftOut(answer);
  frame.show(
    (width) => ({ height: HEIGHT, children: drawn(figures, answer.window_seconds, width) }),
    `Different keys in each of ${figures.length} windows, estimated. In the newest, from ` +
      `${moment(last.from)}: ${withError(last.value, last.standard_error)}.`,
    `Points: estimated number of distinct keys in a window. Whiskers and band: one standard ` +
      `error. Of ${answer.fleet} device${answer.fleet === 1 ? "" : "s"}; ${merged}. No key is ` +
      `in it, and keys cannot be followed from one window to another. Promise: ` +
      `${answer.guarantee}.${left}`,
    table("Different keys by window, ± one standard error. Times are UTC.",
      [["Window from", false], ["Devices", true], ["Keys", true], ["Remark", false]],
      figures.map((each) => [moment(each.from), `${each.devices.length} of ${answer.fleet}`,
        withError(each.value, each.standard_error), remark(each)])),
    { answer, rows: figures },
  );
}

function remark(figure) {
  if (figure.problem) return figure.problem;
  return figure.frozen.length ? `incomplete: ${figure.frozen.join(", ")} froze` : "";
}

function drawn(figures, seconds, width) {
  const points = figures.map((each) => ({
    at: Date.parse(each.from), value: each.value, error: each.standard_error ?? 0,
    frozen: each.frozen.length > 0,
  })).filter((each) => each.value !== null)
    .map((each) => ({ ...each, low: each.value - each.error, high: each.value + each.error }));
  if (!points.length) {
    return [s("text", { x: INSET, y: HEIGHT / 2 }, "No window has an estimate: see the table.")];
  }
  const bottom = HEIGHT - BOTTOM;
  const y = axes.fromZero(max(points, (each) => each.value + each.error), bottom, TOP);
  const heights = axes.heights(y);
  const [left, right] = [Math.max(axes.longest(heights) + 14, 44), width - RIGHT];
  const x = scaleUtc([points[0].at, points.at(-1).at], [left + INSET, right - INSET]);
  return [
    axes.grid(heights, left, right),
    runs(points, seconds).map((run) => [band(run, x, y), connected(run, x, y)]),
    points.map((each) => mark(each, x(each.at), y)),
    axes.below(times(x, seconds), bottom, width),
  ];
}

function mark({ value, error, frozen }, x, y) {
  return [
    whisker(x, y(value - error), y(value + error), 4),
    s("circle", { class: frozen ? "point frozen" : "point", cx: x, cy: y(value), r: 4 }),
  ];
}
