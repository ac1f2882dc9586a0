// What the last audit found, in plain sentences: of which code, how thoroughly, and how long ago.

import { h } from "./elements.js";
import { moment, whole } from "./numbers.js";

const DAY = 86400000; // milliseconds
const OLD_DAYS = 90;
const EXTENTS = {
  full: "the full audit",
  quick: "the quick audit (fewer runs and smaller cases than the full one)",
};
const MEANING = "An audit tests the code that devices run, on the machine where somebody ran it. " +
  "It cannot tell that a device runs this code.";

export function audit(answer, now = Date.now()) {
  return h("section", { class: "card audit", "aria-labelledby": "audit-title" },
    h("h2", { id: "audit-title" }, "The last audit"),
    answer.audit === null ? none(answer) : [result(answer.audit), doubts(answer, now)],
    h("p", { class: "sentence" }, MEANING));
}

function none({ problem }) {
  if (problem !== null) return h("p", { class: "problem" }, `No audit can be shown: ${problem}.`);
  return h("p", null, "None is recorded here. ", h("code", null, "pansketch audit --record FILE"),
    " makes one and keeps what it found; ", h("code", null, "collector.audit: FILE"),
    " in the collector's configuration shows it here.");
}

function result(found) {
  const { claims, held, holds } = found;
  const planted = Object.keys(found.planted);
  const missed = planted.filter((bug) => !found.planted[bug]);
  const ran = `${moment(found.at)} UTC, ${EXTENTS[found.extent]}, of pansketch ${found.version} ` +
    `(sources ${found.sources})`;
  const bugs = missed.length ?
    `${missed.length} of ${planted.length} bugs that were planted to test the audit were not ` +
      `caught: ${missed.join(", ")}` :
    `all ${planted.length} bugs that were planted to test the audit were caught`;
  if (holds) {
    return h("p", null, h("strong", { class: "good" }, "Passed. "),
      `${ran}: all ${whole(claims)} claims held, and ${bugs}.`);
  }
  return h("div", { class: "failed", role: "group", "aria-label": "Failed audit" },
    h("p", null, h("strong", null, "FAILED. "), `${ran}: ` +
      (held < claims ? `${whole(claims - held)} of ${whole(claims)} claims did not hold, and ` :
        `all ${whole(claims)} claims held, but `) + `${bugs}.`),
    found.broken.length ? h("ul", null, found.broken.map((claim) => h("li", null, claim))) : null,
    h("p", null, "Do not rely on the guarantees below until this is explained."));
}

// What keeps a result from being one about this collector's code today.
function doubts({ audit: found, version, sources }, now) {
  const again = [h("code", null, "pansketch audit --record FILE"), " makes a new one."];
  const days = Math.floor((now - Date.parse(found.at)) / DAY);
  return [
    found.version !== version ? h("p", { class: "doubt" }, "It was an audit of another version: ",
      `this collector is pansketch ${version}. `, again) :
      found.sources !== sources ? h("p", { class: "doubt" }, "It was an audit of other sources ",
        `than this collector's (${sources}), under the same version. `, again) : null,
    days > OLD_DAYS ? h("p", { class: "doubt" }, `It is ${whole(days)} days old. `, again) : null,
    days < -1 ? h("p", { class: "doubt" }, "Its time lies in the future: one of the clocks is " +
      "wrong.") : null,
  ];
}
