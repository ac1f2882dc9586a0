// What changed: two periods of a stream, or two groups of devices, attribute by attribute, and each
// attribute over time.

import { get, isOutdated } from "./api.js";
import { choice, field, h } from "./elements.js";
import { suggestions } from "./names.js";

// Of a period, unless somebody chooses: so long, or so many windows where that is longer.
const MOST_SECONDS = 7 * 86400;
const MOST_WINDOWS = 7;
const PERIODS = [["first_from", "first_to"], ["second_from", "second_to"]];

export function changes(subject, parameters, renew) {
  const content = h("div", null, h("h1", null, "What changed?"),
    h("p", { class: "loading", role: "status" }, "Loading…"));
  import("./change_answers.js").catch(() => null); // Fetched beside the list of streams.
  let asked = parameters;
  let page = null;
  let last = "";

  async function refresh(signal) {
    const { streams, groups } = await get("/v1/streams", {}, signal);
    const readings = streams.filter((each) => each.holds === "readings");
    const found = subject === null ? readings[0] : readings.find((each) => each.stream === subject);
    if (found === undefined) {
      content.replaceChildren(h("h1", null, "What changed?"), none(subject, readings));
      return;
    }
    if (!found.stored.releases) {
      content.replaceChildren(h("h1", null, `What changed in ${found.stream}?`),
        h("p", { class: "lead" }, "Nothing is stored of this stream yet."), none(null, readings));
      page = null;
      return;
    }
    if (page === null) {
      page = await built(found, readings, groups, asked, apply);
      content.replaceChildren(...page.nodes);
    }
    const now = JSON.stringify([found.stored, asked.toString()]);
    if (now === last) return;
    await page.draw(found, asked, signal);
    last = isOutdated(signal) ? "" : now;
  }

  function apply(chosen) {
    asked = chosen;
    const query = chosen.toString();
    history.pushState(null, "", `#changes/${encodeURIComponent(page.name)}${query && `?${query}`}`);
    renew();
  }
  return { title: "What changed?", content, refresh };
}

function none(subject, streams) {
  return h("div", null,
    subject === null ? null :
      h("p", { class: "problem" }, `There is no stream of readings ${subject}.`),
    h("ul", null, streams.map(({ stream: name }) =>
      h("li", null, h("a", { href: `#changes/${encodeURIComponent(name)}` }, name)))));
}

async function built(found, streams, groups, asked, apply) {
  const view = (await import("./change_answers.js")).frames(found);
  return {
    name: found.stream,
    nodes: [h("h1", null, `What changed in ${found.stream}?`),
      asking(found, streams, groups, asked, apply), ...view.elements],
    draw: (now, chosen, aborted) => view.draw(now, chosen, usual(now), aborted),
  };
}

function asking(found, streams, groups, asked, apply) {
  const other = choice("stream", streams.map((each) => [each.stream, each.stream]), found.stream);
  other.addEventListener("change", () => {
    location.hash = `#changes/${encodeURIComponent(other.value)}`;
  });
  const what = choice("compare", [["periods", "two periods"], ["groups", "two groups of devices"]],
    asked.get("against") === null ? "periods" : "groups");
  const given = { ...usual(found), ...Object.fromEntries(asked) };
  const time = (name, text) => field(text, h("input", { name, type: "datetime-local",
    value: given[name] }));
  const suggested = suggestions(groups);
  const whose = (name, text, hint) => field(text, h("input", { name, ...suggested.input,
    value: asked.get(name) }), hint);
  const periods = [time("first_from", "First period from (UTC)"), time("first_to", "First period to"),
    time("second_from", "Second period from (UTC)"), time("second_to", "Second period to")];
  const against = [whose("against", "Compared with", "other devices or groups"),
    time("from", "From (UTC)"), time("to", "To (UTC)")];
  const form = h("form", { class: "asking card", "aria-label": "What to compare" },
    field("Stream", other), field("Compare", what),
    whose("devices", "Devices", "names with commas between, @ before a group; empty: all"),
    periods, against, suggested.list,
    h("div", { class: "act" }, h("button", { type: "submit" }, "Compare")));
  const turn = () => {
    const groups = what.value === "groups";
    for (const each of periods) each.hidden = groups;
    for (const each of against) each.hidden = !groups;
    for (const name of ["devices", "against"]) form.elements[name].required = groups;
  };
  what.addEventListener("change", turn);
  turn();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    apply(chosenIn(form, what.value === "groups"));
  });
  return form;
}

function chosenIn(form, groups) {
  const names = ["devices", ...(groups ? ["against", "from", "to"] : PERIODS.flat())];
  return new URLSearchParams(names.map((name) => [name, form.elements[name].value
    .replace(/\s/g, "")]).filter(([, value]) => value !== ""));
}

// The newest days against as many before them: the halves of what is stored, a week or seven windows at most.
function usual({ stored, window_seconds: seconds }) {
  // A device's window begins a little after the fleet's, so its end lies in the next one.
  const [first, end] = [stored.first_window, stored.last_window].map((each) =>
    Math.floor(Date.parse(each) / 1000 / seconds));
  const half = Math.max(1, Math.floor((end - first) / 2));
  const length = seconds * Math.min(half, Math.max(MOST_WINDOWS, Math.floor(MOST_SECONDS / seconds)));
  const last = end * seconds;
  const text = (at) => new Date(1000 * at).toISOString().slice(0, 16);
  return { first_from: text(last - 2 * length), first_to: text(last - length),
    second_from: text(last - length), second_to: text(last) };
}
