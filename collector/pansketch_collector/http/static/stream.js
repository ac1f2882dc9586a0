// One stream: pictures of what was asked for, and a file of synthetic readings.

import { get, isOutdated } from "./api.js";
import { askable, chosenAttributes } from "./asked.js";
import { download } from "./download.js";
import { choice, field, h } from "./elements.js";
import { suggestions } from "./names.js";
import { moment, whole } from "./numbers.js";

const GENERATORS = { auto: "automatic" };

export function stream(subject, parameters, renew) {
  const content = h("div", null, h("h1", null, "Stream"));
  drawing().catch(() => null); // Fetched beside the list of streams.
  let asked = parameters;
  let page = null; // what is built once the stream is known
  let last = "";

  async function refresh(signal) {
    const { streams, groups } = await get("/v1/streams", {}, signal);
    const found = subject === null ? streams[0] : streams.find((each) => each.stream === subject);
    if (found === undefined) {
      content.replaceChildren(h("h1", null, "Stream"), unknown(subject, streams));
      return;
    }
    if (page === null) {
      page = await built(found, streams, groups, asked, apply);
      content.replaceChildren(...page.nodes);
    }
    page.stored.textContent = storedText(found);
    const now = JSON.stringify([found.stored, asked.toString()]);
    if (now === last) return;
    page.empty(!found.stored.releases);
    page.results.setAttribute("aria-busy", "true");
    try {
      if (found.stored.releases) await page.draw(asked, signal);
    } finally {
      page.results.removeAttribute("aria-busy");
    }
    last = isOutdated(signal) ? "" : now;
  }

  function apply(chosen) {
    asked = chosen;
    const query = chosen.toString();
    history.pushState(null, "", `#stream/${encodeURIComponent(page.name)}${query && `?${query}`}`);
    renew();
  }
  return { title: subject ?? "Stream", content, refresh };
}

// What draws is loaded where there is something to draw.
function drawing() {
  return import("./answers.js");
}

function unknown(subject, streams) {
  const names = streams.map(({ stream: name }) =>
    h("li", null, h("a", { href: `#stream/${encodeURIComponent(name)}` }, name)));
  return h("div", null, h("p", { class: "problem" }, `There is no stream ${subject}.`),
    h("ul", null, names));
}

function storedText(found) {
  const { releases, devices, gaps, first_window: first, last_window: end } = found.stored;
  if (!releases) return "Nothing is stored of this stream yet.";
  return `${whole(releases)} releases of ${devices} devices, ${moment(first)} to ${moment(end)} ` +
    `UTC, ${whole(gaps)} missing windows.`;
}

async function built(found, streams, groups, asked, apply) {
  const answers = await drawing();
  const stored = h("p", { class: "lead" });
  const results = h("div");
  const holdsKeys = found.holds === "keys";
  const file = holdsKeys ? null : download(found);
  const view = answers.frames(found);
  results.append(...view.elements);
  const form = asking(found, streams, groups, asked, apply);
  return {
    name: found.stream, stored, results,
    nodes: [h("h1", null, "Stream ", found.stream), stored, form, results,
      ...(file ? [file.element] : [])],
    // Where nothing is stored there is nothing to ask.
    empty(is) {
      results.hidden = is;
      if (file) file.element.hidden = is;
    },
    async draw(chosen, aborted) {
      file?.select(chosen);
      await view.draw(chosen, aborted);
    },
  };
}

function asking(found, streams, groups, asked, apply) {
  const other = choice("stream", streams.map((each) => [each.stream, each.stream]), found.stream);
  other.addEventListener("change", () => {
    location.hash = `#stream/${encodeURIComponent(other.value)}`;
  });
  const suggested = suggestions(groups);
  const form = h("form", { class: "asking card", "aria-label": "What to show" },
    field("Stream", other),
    found.holds === "keys" ? keyFields(asked) : readingFields(found, asked),
    field("From (UTC)", h("input", { name: "from", type: "datetime-local",
      value: asked.get("from") }), "windows that start then or later"),
    field("To (UTC)", h("input", { name: "to", type: "datetime-local", value: asked.get("to") }),
      "windows that start before"),
    field("Devices", h("input", { name: "devices", ...suggested.input, placeholder: "all",
      value: asked.get("devices") }), "names with commas between, @ before a group"),
    suggested.list,
    h("div", { class: "act" }, h("button", { type: "submit" }, "Show")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    part(form.elements.attribute, form.elements.second);
    apply(chosenIn(form));
  });
  return form;
}

// Two attributes differ: the second gives way.
function part(first, second) {
  if (second?.value !== first?.value) return;
  if (second) second.value = [...second.options].find((each) => each.value !== first.value).value;
}

function chosenIn(form) {
  const found = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    const text = name === "devices" ? value.replace(/\s/g, "") : value;
    if (name !== "stream" && text !== "" && text !== "auto") found.set(name, text);
  }
  return found;
}

function readingFields(found, asked) {
  const names = askable(found).map((each) => [each, each]);
  const generators = ["auto", ...found.generators].map((each) => [each, GENERATORS[each] ?? each]);
  const [first, second] = chosenAttributes(found, asked);
  return [
    field("Attribute", choice("attribute", names, first)),
    names.length > 1 ? field("Together with", choice("second", names, second)) : [],
    field("Generator", choice("generator", generators, asked.get("generator") ?? "auto")),
  ];
}

function keyFields(asked) {
  return field("Devices see", choice("keys", [["", "as the stream says"],
    ["shared", "the same keys"], ["disjoint", "keys of their own"]], asked.get("keys") ?? ""));
}
