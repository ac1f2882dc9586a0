// The pictures of a stream: which there are, what each asks, and what stands where an answer fails.

import { Problem, get, streamPath } from "./api.js";
import { askable, chosenAttributes, selection } from "./asked.js";
import { showDensity } from "./density.js";
import { showDistinct } from "./distinct.js";
import { h, table } from "./elements.js";
import { showHistogram } from "./histogram.js";
import { withError } from "./numbers.js";
import { picture } from "./picture.js";
import { showSeries } from "./series.js";

const MOST_WINDOWS = 200; // in a picture over time; more of them are shown by day
const DAY_SECONDS = 86400;
const QUANTILES = [0.05, 0.25, 0.5, 0.75, 0.95];

// { elements, draw(asked, signal) } for a stream.
export function frames(found) {
  const ask = (asked, signal) => (parameters) => get(streamPath(found.stream, "query"),
    { ...selection(asked), ...parameters }, signal);
  return found.holds === "keys" ? ofKeys(ask) : ofReadings(found, ask);
}

function ofKeys(ask) {
  const counted = picture("Different keys over time");
  return {
    elements: [counted.element],
    draw: (asked, signal) => framed(counted, async () =>
      showDistinct(counted, await ask(asked, signal)({ question: "distinct" }))),
  };
}

function ofReadings(found, ask) {
  const one = picture("Histogram");
  const time = picture("Mean over time");
  const two = picture("Density of two attributes");
  const quantiles = h("div", { class: "quantiles" });
  one.element.append(quantiles);
  one.element.classList.add("beside");
  if (askable(found).length < 2) two.element.hidden = true;

  async function draw(asked, signal) {
    const [first, second] = chosenAttributes(found, asked);
    const answer = ask(asked, signal);
    const attribute = found.attributes.find((each) => each.name === first);
    await framed(one, async () => {
      quantiles.replaceChildren();
      showHistogram(one, await answer({ question: "histogram", attribute: first }));
      if (attribute.categories === undefined) {
        quantiles.replaceChildren(await figures(found, attribute, answer));
      }
    });
    time.element.hidden = attribute.categories !== undefined || attribute.cyclic;
    if (!time.element.hidden) {
      await framed(time, async () => showSeries(time, [{ name: first, answer: await answer({
        question: "mean", attribute: first, by: span(found, selection(asked)), smooth: true }) }],
      `Mean of ${first}`));
    }
    if (two.element.hidden) return;
    await framed(two, async () => showDensity(two,
      await answer({ question: "density", attribute: [first, second] })));
  }
  return { elements: [one.element, time.element, two.element], draw };
}

// Windows, or days where there would be too many of them.
export function span(found, { from: since, to: until }) {
  const { first_window: first, last_window: last } = found.stored;
  const [from, to] = [since, until].map((each) => each && `${each}Z`);
  const length = (Date.parse(to ?? last) - Date.parse(from ?? first)) / 1000;
  const windows = length / found.window_seconds;
  return windows > MOST_WINDOWS && found.window_seconds <= DAY_SECONDS ? "day" : "window";
}

// What the releases do not bear, or makes no sense, is said where the picture would be.
export async function framed(frame, show) {
  try {
    await show();
  } catch (error) {
    if (!(error instanceof Problem) || ![404, 409, 422].includes(error.status)) throw error;
    frame.fail(error.message);
  }
}

async function figures(found, attribute, answer) {
  const { name, unit } = attribute;
  const asked = found.questions.includes("quantile") ? QUANTILES : [];
  const [mean, ...rest] = await Promise.all([
    answer({ question: "mean", attribute: name }),
    ...asked.map((q) => answer({ question: "quantile", attribute: name, q })),
  ]);
  const rows = [["mean", withError(mean.value, mean.standard_error, unit)],
    ...rest.map((each, i) => [q(asked[i]), withError(each.value, each.standard_error, unit)])];
  const after = asked.length ? "" : " This kind of sketch answers no quantiles.";
  return table(`${name}: mean and quantiles, ± one standard error.${after}`,
    [["Figure", false], ["Value", true]], rows);
}

function q(share) {
  return share === 0.5 ? "median" : `${100 * share} % lie below`;
}
