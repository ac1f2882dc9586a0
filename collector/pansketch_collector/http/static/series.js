// Something over time: points of windows or days, whiskers of one standard error, and the level
// behind their noise, as a line in a band of two. One series, or two that are compared.

import * as axes from "./axes.js";
import { max, min, scaleUtc } from "./d3.js";
import { h, s, table } from "./elements.js";
import { moment, withError } from "./numbers.js";
import { restsOn } from "./picture.js";
import { band, connected, runs, times } from "./timeline.js";
import { whisker } from "./whisker.js";

const [HEIGHT, BRIEF_HEIGHT] = [300, 210];
const [RIGHT, TOP, BOTTOM] = [20, 12, 34];
const INSET = 16; // pixels from an end of the axis to the first and the last point
const CROWDED = 9; // pixels between points, below which they are dots without whiskers
const DAY_SECONDS = 86400;
const STYLES = ["solid line, round points", "dashed line, square points"];

// `parts`: [{ name, answer }], the answers of one question by window or day. `periods`: [name, from,
// to], in milliseconds, marked below the line. `brief`: one of many, which are explained together.
export function showSeries(frame, parts, what, { brief = false, periods = [] } = {}) {
  const height = brief ? BRIEF_HEIGHT : HEIGHT;
  const { by } = parts[0].answer;
  const unit = parts.map(({ answer }) => answer.unit).find((each) => each) ?? "";
  const rows = parts.flatMap(({ name, answer }) => answer.rows.map((row) => ({ of: name, ...row })));
  const seconds = (Date.parse(rows[0].to) - Date.parse(rows[0].from)) / 1000;
  const smooth = parts.some(({ answer }) => answer.step !== undefined);
  const noisy = rows.filter((each) => each.value === null).length;
  const several = parts.length > 1;
  const sources = parts.map(({ name, answer }) =>
    h("p", null, several ? `${name}: ` : "", restsOn(answer)));
  frame.show(
    (width) => ({ height, children: drawn(parts, periods, seconds, unit, width, height) }),
    `${what} in each of ${rows.length} ${by}s${smooth ? ", with its level" : ""}. ` +
      parts.map((each) => newest(each, unit, several)).join(" "),
    h("div", null,
      several ? h("p", null, parts.map(({ name }, i) =>
        h("span", { class: `key of-${i}` }, `${name}: ${STYLES[i]}`))) : null,
      (brief ? "" : explained(by)) + (smooth ? "" : "A cyclic attribute has no level.") +
        without(noisy, by),
      brief ? null : sources),
    h("div", null, brief ? sources : null, table(`${what} by ${by}, ± one standard error. Times are UTC.`,
      [...(several ? [["Of", false]] : []), [seconds < DAY_SECONDS ? "Window from" : "From", false],
        ["Releases", true], ["Readings", true], ["Value", true],
        ...(smooth ? [["Level", true]] : [])],
      rows.map((each) => [...(several ? [each.of] : []), moment(each.from), each.releases,
        shown(each.readings, ""),
        each.value === null ? "too noisy" : withError(each.value, each.standard_error, unit),
        ...(smooth ? [shown(each.level, unit)] : [])]))),
    { answer: several ? parts : parts[0].answer, rows },
  );
}

export function explained(by) {
  return `Points: the value of one ${by}. Whiskers, if there is room: one standard error. Line and ` +
    "band: the level behind the noise, plus or minus two standard errors, inside the bounds.";
}

function newest({ name, answer }, unit, several) {
  const last = answer.rows.findLast((each) => each.level ?? each.value !== null) ??
    answer.rows.at(-1);
  const [what, value] = last.level ? ["Level", last.level] :
    ["Value", last.value === null ? null : last];
  return `${what}${several ? ` of ${name}` : ""} in the newest, from ${moment(last.from)}: ` +
    `${shown(value, unit)}.`;
}

function without(noisy, by) {
  if (!noisy) return "";
  return ` ${noisy} ${by}${noisy > 1 ? "s have" : " has"} no point: noise outweighs the readings.`;
}

function shown(estimate, unit) {
  return estimate ? withError(estimate.value, estimate.standard_error, unit ?? "") : "–";
}

function placed({ answer: { rows } }) {
  return {
    points: rows.filter((each) => each.value !== null).map((each) => ({
      at: Date.parse(each.from), value: each.value, error: each.standard_error ?? 0,
    })).map((each) => ({ ...each, low: each.value - each.error, high: each.value + each.error })),
    levels: rows.filter((each) => each.level).map((each) => ({
      at: Date.parse(each.from), value: each.level.value,
      low: each.level.band[0] ?? each.level.value, high: each.level.band[1] ?? each.level.value,
    })),
  };
}

function drawn(parts, periods, seconds, unit, width, height) {
  const series = parts.map(placed);
  const all = series.flatMap(({ points, levels }) => [...points, ...levels]);
  if (!all.length) {
    return [s("text", { x: INSET, y: height / 2 }, "No row has a value: see the table.")];
  }
  const bottom = height - BOTTOM;
  const y = axes.around(min(all, (each) => each.low), max(all, (each) => each.high), bottom, TOP);
  const heights = axes.heights(y, unit ? ` ${unit}` : "");
  const [left, right] = [Math.max(axes.longest(heights) + 14, 44), width - RIGHT];
  const x = scaleUtc([min(all, (each) => each.at), max(all, (each) => each.at)],
    [left + INSET, right - INSET]);
  const rows = max(parts, ({ answer }) => answer.rows.length);
  const crowded = (right - left) / rows < CROWDED;
  return [
    axes.grid(heights, left, right),
    periods.map((each, i) => marked(each, i, x, [left, right], bottom)),
    series.map(({ points, levels }, i) => s("g", { class: `of-${i}` },
      runs(levels, seconds).map((run) => band(run, x, y)),
      points.map((each) => mark(each, x(each.at), y, crowded, i)),
      runs(levels, seconds).map((run) => connected(run, x, y)))),
    axes.below(times(x, seconds), bottom, width),
  ];
}

// A bar below the line for each period that is compared.
function marked([name, from, to], place, x, [left, right], bottom) {
  const at = (time) => Math.min(Math.max(x(time), left), right);
  if (at(to) <= at(from)) return [];
  return [
    s("rect", { class: `period of-${place}`, x: at(from), y: bottom - 4, width: at(to) - at(from),
      height: 4 }),
    s("text", { x: (at(from) + at(to)) / 2, y: bottom - 9, "text-anchor": "middle" }, name),
  ];
}

function mark({ value, error }, x, y, crowded, place) {
  if (crowded) return s("circle", { class: "dot", cx: x, cy: y(value), r: 2 });
  return [
    whisker(x, y(value - error), y(value + error), 4),
    place ? s("rect", { class: "point", x: x - 3, y: y(value) - 3, width: 6, height: 6 }) :
      s("circle", { class: "point", cx: x, cy: y(value), r: 3 }),
  ];
}
