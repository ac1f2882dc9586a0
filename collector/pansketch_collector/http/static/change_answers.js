// The answers of the view of changes: one picture of all attributes, and one of each over time.

import { Problem, get, streamPath } from "./api.js";
import { framed, span } from "./answers.js";
import { h } from "./elements.js";
import { showMoved } from "./moved.js";
import { picture } from "./picture.js";
import { explained, showSeries } from "./series.js";

const MOST_CATEGORIES = 4; // of an attribute, a picture each
const AT_ONCE = 2; // pictures: one is drawn while the collector answers the next

// { elements, draw(found, asked, usual, signal) } for a stream.
export function frames(found) {
  const moved = picture("Which attributes moved");
  const lines = found.attributes.filter((each) => each.constant === undefined)
    .flatMap(linesOf).map((each) => ({ ...each, frame: picture(each.title, "h3") }));
  const many = found.attributes.filter((each) => each.categories?.length > MOST_CATEGORIES);
  const over = h("section", { "aria-labelledby": "over-time" },
    h("h2", { id: "over-time" }, "Each attribute over time"),
    h("p", { class: "sentence" }, `${explained("window or day")} What a picture rests on stands ` +
      "with its table."),
    many.length ? h("p", { class: "sentence" },
      `Of ${many.map((each) => each.name).join(", ")} the first ${MOST_CATEGORIES} categories.`) :
      null,
    h("div", { class: "cards" }, lines.map(({ frame }) => frame.element)));

  async function draw(now, asked, usual, signal) {
    for (const frame of [moved, ...lines.map((each) => each.frame)]) frame.wait();
    const { names, selections, pair, periods } = compared(asked, usual);
    const ask = (parameters) => get(streamPath(now.stream, "query"), parameters, signal);
    await framed(moved, async () => {
      await asBoth(now, ask, pair, (found) => showMoved(moved, found, now, names));
    });
    const left = lines.values();
    const drawLeft = async () => {
      for (const { frame, question, smooth, title } of left) {
        await framed(frame, async () => {
          const parts = await Promise.all(selections.map(async ([name, selection]) => ({ name,
            answer: await ask({ ...question, ...selection, by: span(now, selection), smooth }) })));
          showSeries(frame, parts, title, { brief: true, periods });
        });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, drawLeft));
  }
  return { elements: [moved.element, over], draw };
}

// What of an attribute is followed over time.
function linesOf({ name, categories, cyclic }) {
  if (categories === undefined) {
    return [{ title: `Mean of ${name}`, question: { question: "mean", attribute: name },
      smooth: cyclic ? null : true }];
  }
  return categories.slice(0, MOST_CATEGORIES).map((category) => ({
    title: `Readings with ${name} = ${category}`, smooth: true,
    question: { question: "range", attribute: name, category },
  }));
}

// Names of the two selections; the lines that are drawn; what `change` and `drift` are asked with.
function compared(asked, usual) {
  const [devices, against] = [asked.get("devices"), asked.get("against")];
  if (against !== null) {
    const range = { from: asked.get("from"), to: asked.get("to") };
    return { names: [devices, against], periods: [], pair: { devices, against, ...range },
      selections: [[devices, { devices, ...range }], [against, { devices: against, ...range }]] };
  }
  const given = { ...usual, ...Object.fromEntries(asked) };
  const { first_from, first_to, second_from, second_to } = given;
  const ends = [first_from, first_to, second_from, second_to].sort();
  const milliseconds = (text) => Date.parse(`${text}Z`);
  return {
    names: ["First period", "Second period"],
    pair: { devices, between: [`${first_from}..${first_to}`, `${second_from}..${second_to}`] },
    periods: [["first", milliseconds(first_from), milliseconds(first_to)],
      ["second", milliseconds(second_from), milliseconds(second_to)]],
    selections: [[devices ?? "all devices", { devices, from: ends[0], to: ends[3] }]],
  };
}

// Shows the answers to `change` and `drift`, the quicker one alone until the other is there; null
// for a question that the sketch does not answer. Without any answer the first refusal is thrown.
async function asBoth(found, ask, pair, show) {
  const answers = { change: null, drift: null };
  const refusals = [];
  await Promise.all(Object.keys(answers).map(async (question) => {
    if (!found.questions.includes(question)) return;
    try {
      answers[question] = await ask({ question, ...pair });
      show(answers);
    } catch (error) {
      if (!(error instanceof Problem) || ![409, 422].includes(error.status)) throw error;
      refusals.push(error);
    }
  }));
  if (answers.change === null && answers.drift === null) {
    throw refusals[0] ?? new Problem(409, "This kind of sketch compares no attributes.");
  }
}
