// What every release of each stream promises.

import { get, streamPath } from "./api.js";
import { audit } from "./audit.js";
import { h } from "./elements.js";
import { duration, plain } from "./numbers.js";
import * as promises from "./promises.js";

export function privacy() {
  const audited = h("div");
  const cards = h("div", { class: "cards" });
  const content = h("div", null, h("h1", null, "Privacy"),
    h("p", { class: "lead" }, "ε (epsilon) measures what can be learnt: the smaller, the less. " +
      "It is spent on the device, before anything leaves it. Looking at this page, asking and " +
      "downloading cost nothing more."),
    audited, cards);
  let last = "";

  async function refresh(signal) {
    const [{ streams }, found] = await Promise.all([
      get("/v1/streams", {}, signal), get("/v1/audit", {}, signal)]);
    const promised = await Promise.all(
      streams.map(({ stream }) => get(streamPath(stream, "guarantee"), {}, signal)));
    const now = JSON.stringify([found, promised]);
    if (now === last) return;
    last = now;
    audited.replaceChildren(audit(found));
    cards.replaceChildren(...promised.map(card));
  }
  return { title: "Privacy", content, refresh };
}

function card(promise, place) {
  const title = `promise-${place}`;
  const facts = [
    ["Protected", promises.unit(promise)],
    ["ε", plain(promise.epsilon)],
    ["ε of the state alone", plain(promise.epsilon_state)],
    ["ε of the release alone", promise.epsilon_release ? plain(promise.epsilon_release) :
      "no fresh noise is added"],
    ["δ", promises.delta(promise)],
    ["Window", duration(promise.window_seconds)],
  ];
  return h("section", { class: "card", "aria-labelledby": title },
    h("h2", { id: title }, promise.stream),
    h("p", null, promises.meaning(promise)),
    list(facts),
    h("h3", null, "What it costs, in ε"), list(promises.costs(promise)),
    h("h3", null, `Intrusion: ${promise.intrusion}`),
    promises.intrusion(promise).map((text) => h("p", null, text)),
    h("p", { class: "sentence" }, "As every release says it: ", h("q", null, promise.sentence)));
}

function list(facts) {
  return h("dl", { class: "facts" }, facts.map(([name, text]) =>
    h("div", null, h("dt", null, name), h("dd", null, text))));
}
