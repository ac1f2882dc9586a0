// Different keys, window by window: points, whiskers of one standard error, a band between them.

import { s, table } from "./elements.js";
import { moment, withError, whole } from "./numbers.js";
import { leftAxis, ticks } from "./picture.js";

const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [60, 20, 12, 34];

export function showDistinct(frame, answer) {
  const { figures } = answer;
  const last = figures.at(-1);
  const merged = answer.keys === "shared" ? "devices may share keys: their union" :
    "each device has keys of its own: their sum";
  const left = answer.left_out ?
    ` ${answer.left_out} releases were made with other settings and are left out.` : "";
  frame.show(
    (width) => ({ height: HEIGHT, children: drawn(figures, answer.window_seconds, width) }),
    `Different keys in each of ${figures.length} windows, estimated. In the newest, from ` +
      `${moment(last.from)}: ${withError(last.value, last.standard_error)}.`,
    `Points: estimated number of different keys in a window. Whiskers and band: one standard ` +
      `error. Of ${answer.fleet} device${answer.fleet === 1 ? "" : "s"}; ${merged}. No key is ` +
      `in it, and keys cannot be followed from one window to another. Promise: ` +
      `${answer.guarantee}.${left}`,
    table("Different keys by window, ± one standard error. Times are UTC.",
      [["Window from", false], ["Devices", true], ["Keys", true], ["Remark", false]],
      figures.map((each) => [moment(each.from), `${each.devices.length} of ${answer.fleet}`,
        withError(each.value, each.standard_error), remark(each)])),
  );
}

function remark(figure) {
  if (figure.problem) return figure.problem;
  return figure.frozen.length ? `incomplete: ${figure.frozen.join(", ")} froze` : "";
}

function drawn(figures, seconds, width) {
  const points = figures.map((each) => ({
    at: Date.parse(each.from) / 1000, value: each.value, error: each.standard_error ?? 0,
    frozen: each.frozen.length > 0,
  })).filter((each) => each.value !== null);
  if (!points.length) {
    return [s("text", { x: LEFT, y: HEIGHT / 2 }, "No window has an estimate: see the table.")];
  }
  const starts = points.map((each) => each.at);
  const [first, last] = [Math.min(...starts), Math.max(...starts)];
  const values = ticks(Math.max(...points.map((each) => each.value + each.error)), 5);
  const [right, bottom] = [width - RIGHT, HEIGHT - BOTTOM];
  const inner = LEFT + 16;
  const x = (at) => (last === first ? (inner + right) / 2 :
    inner + ((at - first) / (last - first)) * (right - inner - 16));
  const y = (value) => bottom - (Math.max(value, 0) / (values.at(-1) || 1)) * (bottom - TOP);
  return [
    leftAxis(values, y, LEFT, right, whole),
    runs(points, seconds).map((run) => [band(run, x, y), line(run, x, y)]),
    points.map((each) => mark(each, x(each.at), y)),
    times(points, x, bottom, right - inner),
  ];
}

// Points of windows that follow each other; a missing window parts them.
function runs(points, seconds) {
  const found = [];
  for (const each of points) {
    const run = found.at(-1);
    if (run && each.at - run.at(-1).at <= 1.5 * seconds) run.push(each);
    else found.push([each]);
  }
  return found;
}

function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function band(run, x, y) {
  const above = run.map((each) => [x(each.at), y(each.value + each.error)]);
  const below = run.map((each) => [x(each.at), y(each.value - each.error)]).reverse();
  return s("path", { class: "band", d: `${path([...above, ...below])}Z` });
}

function line(run, x, y) {
  return s("path", { class: "line", d: path(run.map((each) => [x(each.at), y(each.value)])) });
}

function mark(each, x, y) {
  const [low, high] = [y(each.value - each.error), y(each.value + each.error)];
  return [
    s("path", { class: "whisker", d: `M${x} ${low}V${high}M${x - 4} ${high}h8M${x - 4} ${low}h8` }),
    s("circle", { class: each.frozen ? "point frozen" : "point", cx: x, cy: y(each.value), r: 4 }),
  ];
}

function times(points, x, bottom, room) {
  const step = Math.ceil(points.length / Math.max(1, Math.floor(room / 110)));
  return points.filter((_, i) => i % step === 0).map((each) =>
    s("text", { x: x(each.at), y: bottom + 20, "text-anchor": "middle" }, short(each.at)));
}

function short(at) {
  const text = new Date(at * 1000).toISOString();
  return at % 86400 === 0 ? text.slice(0, 10) : text.slice(5, 16).replace("T", " ");
}
