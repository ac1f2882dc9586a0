// What a guarantee means, in plain sentences. Rules: docs/explanation/privacy.md.

import { duration, plain } from "./numbers.js";

const NO_PROTECTION = 10; // of epsilon: e to the tenth is 22,026

function factor(epsilon) {
  const found = Math.exp(epsilon);
  return found < 1e6 ? plain(found) : found.toExponential(1).replace("e+", " × 10^");
}

export function unit(promise) {
  if (typeof promise.unit !== "object") return promise.unit === "key" ?
    "all that bears one key in one window, on one device" : "any one reading";
  const { seconds, max_readings: readings } = promise.unit.span;
  return `up to ${readings} readings of one source within ${duration(seconds)}`;
}

// What somebody may ask the price of, and the server's own sentence with it.
export function costs(promise) {
  const found = promise.costs.map(({ of: what, says }) =>
    [what[0].toUpperCase() + what.slice(1), says]);
  const fleet = promise.fleet;
  if (fleet !== null && fleet.devices > 1 && fleet.devices !== promise.devices_per_key) {
    found.push([`At all ${fleet.devices} devices`,
      `a key at every device that has released spends ${plain(fleet.epsilon)} in a window`]);
  }
  return found;
}

export function meaning(promise) {
  const odds = factor(promise.epsilon);
  const found = "Whoever takes a device once, reads the counters of its sketch and everything the " +
    "agent wrote, and also has everything it ever published, learns from this stream at most a " +
    `factor e^${plain(promise.epsilon)} = ${odds} about ${unit(promise)}: what was thought as ` +
    "likely as not before is then at most " +
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
