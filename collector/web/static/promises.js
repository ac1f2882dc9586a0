// What a guarantee means, in plain sentences. Rules: docs/privacy.md.

import { duration, plain } from "./numbers.js";

const DAY = 86400;
const NO_PROTECTION = 10; // of epsilon: e to the tenth is 22,026

function factor(epsilon) {
  const found = Math.exp(epsilon);
  return found < 1e6 ? plain(found) : found.toExponential(1).replace("e+", " × 10^");
}

// Windows of a day, as `pansketch-agent validate` counts them; spans likewise.
function aDay(seconds) {
  return Math.ceil(DAY / seconds);
}

function isSpan(promise) {
  return typeof promise.unit === "object";
}

export function unit(promise) {
  if (!isSpan(promise)) return promise.unit === "key" ?
    "all that bears one key in one window" : "any one reading";
  const { seconds, max_readings: readings } = promise.unit.span;
  return `up to ${readings} readings of one source within ${duration(seconds)}`;
}

// [what, what it costs] for each thing that somebody may ask about.
export function costs(promise) {
  const epsilon = plain(promise.epsilon);
  if (promise.unit === "key") return keyCosts(promise, epsilon);
  if (isSpan(promise)) {
    const { seconds, max_readings: readings } = promise.unit.span;
    const spans = aDay(seconds);
    return [
      ["A reading", `at most ${plain(promise.epsilon / readings)}`],
      ["A span", `${epsilon}, whichever windows its readings fall into`],
      ["A day", `at most ${plain(spans * promise.epsilon)}, for a source in every span ` +
        `(${spans} a day)`],
    ];
  }
  return [
    ["A reading", `${epsilon}, once: it lies in one window alone`],
    ["A key", "this stream has no keys"],
    ["A day", `${epsilon} for each reading that a source has in it: n readings of one source ` +
      `together pay n × ${epsilon}`],
  ];
}

function keyCosts(promise, epsilon) {
  const windows = aDay(promise.window_seconds);
  return [
    ["An appearance", `nothing more: all appearances in a window pay ${epsilon} together`],
    ["A key", `${epsilon} in each window of each device that it appears in`],
    ["A day", `at most ${plain(windows * promise.epsilon)}, for a key in every window of a ` +
      `device (${windows} a day)`],
  ];
}

export function meaning(promise) {
  const odds = factor(promise.epsilon);
  const found = "Whoever takes a device once, reads all its memory and disk, and also has " +
    `everything it ever published, learns at most a factor e^${plain(promise.epsilon)} = ` +
    `${odds} about ${unit(promise)}: what was thought as likely as not before is then at most ` +
    `${odds} to 1.`;
  return promise.epsilon > NO_PROTECTION ? `${found} A factor this large protects nobody.` : found;
}

export function intrusion(promise) {
  if (promise.intrusion === "announced") {
    return [
      "Covered: a device that is taken and publishes no more, and every look into it that it " +
        "knows of, because it then draws fresh noise.",
      "Not covered: a look that nobody notices, after which the device goes on publishing.",
    ];
  }
  return [
    "Covered: one look into the device that nobody notices, while it goes on publishing.",
    "Not covered: two such looks within one window. What arrived between them shows, and no " +
      "scheme that adds noise to a state can prevent it.",
  ];
}

export function delta(promise) {
  return promise.delta === 0 ? "0: no exception, however unlikely" :
    `${promise.delta}: the promise may fail with this probability`;
}
