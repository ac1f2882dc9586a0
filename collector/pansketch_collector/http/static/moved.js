// Which attributes moved between two selections: the difference of each mean, and how far each
// distribution moved, with their errors and one verdict each.

import * as axes from "./axes.js";
import { max, scaleLinear } from "./d3.js";
import { h, s, table } from "./elements.js";
import { withError } from "./numbers.js";
import { restsOn } from "./picture.js";

const LINE = 34; // pixels of an attribute
const [RIGHT, TOP, BOTTOM] = [24, 10, 52];
const LETTER = 8; // pixels of one, about

// `change`, `drift`: answers, or null where the sketch does not answer. `found`: the stream; `names`:
// of the two selections.
export function showMoved(frame, { change, drift }, found, names) {
  const rows = joined(change, drift, found);
  const moved = rows.filter((each) => each.verdict === "changed").map((each) => each.attribute);
  const { level, periods } = change ?? drift;
  const sums = rows.filter((each) => each.change !== null && each.range);
  frame.show(
    (width) => drawn(sums, width),
    `${says(moved, rows)} Difference of each mean as a share of its attribute's range.`,
    h("div", null, h("p", { class: "verdict" }, says(moved, rows)),
      `Changed: the mean or the distribution differs beyond noise, each at a level of ${level} ` +
        "for all attributes together (Holm's correction). " +
        (sums.length ? "Picture: the second mean minus the first; whiskers: two standard errors; " +
          "cyclic attributes are in the table alone." : "No mean is drawn."),
      periods.map((each, i) => h("p", null, `${names[i]}: `, restsOn(each)))),
    table("Each attribute, ± one standard error",
      [["Attribute", false], ["Verdict", false], [names[0], true], [names[1], true],
        ["Difference of means", true], ["p", true], ["Distribution moved by", true], ["p", true]],
      rows.map((each) => [each.attribute, verdict(each), shown(each.first, each.unit),
        shown(each.second, each.unit), shown(each.change, each.unit), p(each.p_value),
        shown(each.distance, each.distance_unit), p(each.distance_p_value)])),
    { answer: { change, drift }, rows: rows.map(({ range, ...row }) => row) },
  );
  frame.open();
}

function says(moved, rows) {
  const known = rows.filter((each) => each.verdict !== "not known").length;
  if (!moved.length) {
    return `None of ${known} attribute${known === 1 ? "" : "s"} changed beyond noise.`;
  }
  return `${moved.length} of ${known} attribute${known === 1 ? "" : "s"} changed beyond noise: ` +
    `${moved.join(", ")}.`;
}

function joined(change, drift, found) {
  const byName = (answer) => new Map((answer?.attributes ?? []).map((a) => [a.attribute, a]));
  const [means, shapes] = [byName(change), byName(drift)];
  return found.attributes.filter(({ name }) => means.has(name) || shapes.has(name)).map((each) => {
    const [mean, shape] = [means.get(each.name), shapes.get(each.name)];
    const verdicts = [mean, shape].map((one) => one?.beyond_noise).filter((one) => one !== null &&
      one !== undefined);
    return {
      attribute: each.name, unit: each.unit ?? "",
      first: mean?.first ?? null, second: mean?.second ?? null, change: mean?.change ?? null,
      p_value: mean?.p_value ?? null, distance: shape?.change ?? null,
      distance_unit: shape?.unit ?? "", distance_from_noise: shape?.from_noise ?? null,
      distance_p_value: shape?.p_value ?? null,
      verdict: !verdicts.length ? "not known" : verdicts.some(Boolean) ? "changed" : "within noise",
      refused: mean?.refused ?? shape?.refused ?? null,
      // A mean on a circle has no place on a line.
      range: each.high === undefined || each.cyclic ? null : each.high - each.low,
    };
  });
}

// The word says it; the mark is for the eye alone.
function verdict({ verdict: word, refused }) {
  return h("div", null, h("strong", { class: word === "changed" ? "moved" : null }, word),
    refused ? h("small", null, refused) : null);
}

function shown(estimate, unit) {
  return estimate ? withError(estimate.value, estimate.standard_error, unit) : "–";
}

function p(value) {
  if (value === null) return "–";
  return value < 0.001 ? "< 0.001" : value.toFixed(3);
}

function drawn(rows, width) {
  const height = TOP + LINE * rows.length + BOTTOM;
  if (!rows.length) return { height: 0, children: [] };
  const share = (row) => 100 * row.change.value / row.range;
  const error = (row) => 200 * (row.change.standard_error ?? 0) / row.range;
  const most = max(rows, (row) => Math.abs(share(row)) + error(row)) || 1;
  const left = Math.min(Math.max(...rows.map((row) => row.attribute.length)) * LETTER + 16,
    width / 2);
  const x = scaleLinear([-most, most], [left, width - RIGHT]).nice(4);
  const bottom = height - BOTTOM;
  const format = x.tickFormat(4);
  const labels = axes.fitting(x, (value) => `${format(value)} %`, 5);
  const line = (row, i) => {
    const [y, low, high] = [TOP + LINE * (i + 0.5), share(row) - error(row), share(row) + error(row)];
    return s("g", { class: row.verdict === "changed" ? "moved" : null },
      s("text", { x: left - 10, y: y + 4, "text-anchor": "end" }, row.attribute),
      across(x(low), x(high), y),
      s("circle", { class: "point", cx: x(share(row)), cy: y, r: row.verdict === "changed" ? 6 : 4 }));
  };
  return { height, children: [
    labels.map(([at]) => s("line", { class: "grid", x1: at, x2: at, y1: TOP, y2: bottom })),
    s("line", { class: "tick", x1: x(0), x2: x(0), y1: TOP, y2: bottom }),
    rows.map(line),
    axes.below(labels, bottom, width),
    s("text", { class: "axis", x: (left + width - RIGHT) / 2, y: bottom + 42,
      "text-anchor": "middle" }, "difference, share of the range"),
  ] };
}

function across(from, to, y) {
  const path = `M${from},${y}H${to}M${from},${y - 4}V${y + 4}M${to},${y - 4}V${y + 4}`;
  return s("path", { class: "whisker", d: path });
}
