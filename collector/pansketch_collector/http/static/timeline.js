// What pictures over time share: runs of windows, a line, a band, and times along the axis.

import * as axes from "./axes.js";
import { area, line, utcDay, utcFormat, utcMinute } from "./d3.js";
import { s } from "./elements.js";

const DAY = utcFormat("%Y-%m-%d");
const MINUTE = utcFormat("%m-%d %H:%M");
const SECOND = utcFormat("%H:%M:%S");
const ALONE = 8; // pixels of a level without neighbours

// Points of windows that follow each other; a missing window parts them.
export function runs(points, seconds) {
  const found = [];
  for (const each of points) {
    const run = found.at(-1);
    if (run && each.at - run.at(-1).at <= 1500 * seconds) run.push(each);
    else found.push([each]);
  }
  return found;
}

// A run of one has no length of its own.
function ends(run, x) {
  const at = (each) => [x(each.at), each];
  if (run.length > 1) return run.map(at);
  return [-ALONE / 2, ALONE / 2].map((off) => [x(run[0].at) + off, run[0]]);
}

export function band(run, x, y) {
  const shape = area(([at]) => at, ([, each]) => y(each.low), ([, each]) => y(each.high));
  return s("path", { class: "band", d: shape(ends(run, x)) });
}

export function connected(run, x, y) {
  const shape = line(([at]) => at, ([, each]) => y(each.value));
  return s("path", { class: "line", d: shape(ends(run, x)) });
}

// Not more of them than windows. Where fewer than two round ones have room, the first and the last.
export function times(x, seconds) {
  const [first, last] = x.domain();
  const found = axes.fitting(x, written, Math.round((last - first) / (1000 * seconds)) + 1);
  if (found.length > 1) return found;
  const text = seconds >= 86400 ? DAY : seconds >= 60 ? MINUTE : SECOND;
  return (last > first ? [first, last] : [first]).map((time) => [x(time), text(time)]);
}

function written(time) {
  if (utcMinute(time) < time) return SECOND(time);
  return (utcDay(time) < time ? MINUTE : DAY)(time);
}
