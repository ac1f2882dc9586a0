// The frame of a picture: what it shows, the drawing, what it rests on, and the same as a table.

import { h, s, scrolling } from "./elements.js";
import { files } from "./files.js";
import { minute, moment } from "./numbers.js";

const NARROWEST = 280;
const WIDEST = 1120;

// Returns { element, show(draw, says, rest, table, made), wait(), fail(sentence), open() }:
// `draw(width)` gives children of an SVG of that width and its height, `says` the alternative text,
// `rest` what the figures rest on, `made` the answer and its rows, for files (files.js).
export function picture(title, level = "h2") {
  const drawing = h("div", { class: "drawing" });
  const below = h("figcaption");
  const numbers = h("div");
  const details = h("details", null, h("summary", null, `${title} as a table`),
    scrolling(`${title} as a table`, numbers));
  const heading = h(level, null, title);
  const name = title.replace(/[^\p{L}\p{N}]+/gu, "-").toLowerCase();
  const saved = files(title, () => ({ name, ...shown.made }));
  saved.hidden = true;
  const element = h("section", { class: "card picture" }, heading,
    h("figure", null, drawing, below), details, saved);
  let shown = null;

  function redraw() {
    if (!shown) return;
    const width = Math.round(Math.min(Math.max(drawing.clientWidth, NARROWEST), WIDEST));
    const { height, children } = shown.draw(width);
    drawing.replaceChildren(s("svg", {
      role: "img", "aria-label": shown.says, viewBox: `0 0 ${width} ${height}`, width, height,
    }, children));
  }
  function emptied(instead) {
    shown = null;
    drawing.replaceChildren(instead);
    below.replaceChildren();
    details.hidden = saved.hidden = true;
  }
  let before = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== before) redraw();
    before = now;
  }).observe(drawing);

  return {
    element,
    show(draw, says, rest, table, made) {
      shown = { draw, says, made };
      redraw();
      element.removeAttribute("aria-busy");
      below.replaceChildren(rest);
      details.hidden = saved.hidden = false;
      numbers.replaceChildren(table);
    },
    fail(sentence) {
      emptied(h("p", { class: "problem" }, sentence));
      element.removeAttribute("aria-busy");
    },
    // What was shown before stays until there is something new.
    wait() {
      element.setAttribute("aria-busy", "true");
      if (shown === null) emptied(h("p", { class: "loading" }, "Being computed…"));
    },
    open() {
      details.open = true;
    },
  };
}

// What an estimate is, for the line under a picture.
export function restsOn(answer) {
  const { releases, devices, windows } = answer;
  const left = leftOut(answer);
  return `Estimated from ${releases} noisy release${releases === 1 ? "" : "s"} of ${devices} ` +
    `device${devices === 1 ? "" : "s"}, ${moment(windows.from)} to ${moment(windows.to)} UTC, by ` +
    `${answer.generator}; no reading is in it. ${promised(answer)}.${left}`;
}

function promised(answer) {
  if (answer.epochs.length < 2) return `Promise: ${answer.guarantee}`;
  const each = answer.epochs.map(({ releases, served_since: since, guarantee }) =>
    `${releases} of settings ${since ? `served since ${minute(since)}` : "not served yet"}: ` +
    guarantee);
  return `Promises: ${each.join("; ")}`;
}

// How many releases are not in an answer, and why; "" where all are.
export function leftOut(answer) {
  const because = answer.left_out_because.map((each) => each.releases === 1 && each.reason ||
    `${each.releases}: ${each.reason}`);
  return answer.left_out ? ` Left out: ${answer.left_out} (${because.join("; ")}).` : "";
}
