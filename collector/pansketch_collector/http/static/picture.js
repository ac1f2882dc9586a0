// The frame of a picture: what it shows, the drawing, what it rests on, and the same as a table.

import { h, s, scrolling } from "./elements.js";
import { minute, moment } from "./numbers.js";

const NARROWEST = 280;
const WIDEST = 1120;

// Returns { element, show(draw, says, rest, table) }: `draw(width)` gives children of an SVG of
// that width and its height, `says` the alternative text, `rest` what the figures rest on.
export function picture(title) {
  const drawing = h("div", { class: "drawing" });
  const below = h("figcaption");
  const numbers = h("div");
  const details = h("details", null, h("summary", null, `${title} as a table`),
    scrolling(`${title} as a table`, numbers));
  const heading = h("h2", null, title);
  const element = h("section", { class: "card picture" }, heading,
    h("figure", null, drawing, below), details);
  let shown = null;

  function redraw() {
    if (!shown) return;
    const width = Math.round(Math.min(Math.max(drawing.clientWidth, NARROWEST), WIDEST));
    const { height, children } = shown.draw(width);
    drawing.replaceChildren(s("svg", {
      role: "img", "aria-label": shown.says, viewBox: `0 0 ${width} ${height}`, width, height,
    }, children));
  }
  let before = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== before) redraw();
    before = now;
  }).observe(drawing);

  return {
    element,
    show(draw, says, rest, table) {
      shown = { draw, says };
      redraw();
      below.replaceChildren(rest);
      details.hidden = false;
      numbers.replaceChildren(table);
    },
    fail(sentence) {
      shown = null;
      drawing.replaceChildren(h("p", { class: "problem" }, sentence));
      below.replaceChildren();
      details.hidden = true;
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
