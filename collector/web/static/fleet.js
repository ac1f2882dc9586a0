// Every device: whether it reports, what is stored of it, what is missing, what waits on it.

import { get, getText } from "./api.js";
import { blocks, h, scrolling, table } from "./elements.js";
import { duration, minute, whole } from "./numbers.js";

const PART = 50;
const HEAD = [
  ["Device", false], ["State", false], ["Last window", false], ["Windows", true], ["Gaps", true],
  ["Late", true], ["Disputed", true], ["Waiting", true], ["Oldest", true],
  ["Dropped", true], ["Set aside", true],
];

export function fleet(subject, parameters) {
  const figures = h("dl", { class: "figures" });
  const cut = h("p", { class: "problem", hidden: true }, "The collector has no connection to its " +
    "broker now: nothing new arrives. Its log says why.");
  const devices = h("div");
  const paging = h("nav", { "aria-label": "Parts of the list", class: "paging" });
  const refused = h("div");
  const after = parameters.get("after");
  const content = h("div", null,
    h("h1", null, "Fleet"), cut, figures,
    h("section", { "aria-labelledby": "devices-title" },
      h("h2", { id: "devices-title" }, "Devices"), scrolling("Devices", devices), paging),
    h("section", { "aria-labelledby": "refused-title" },
      h("h2", { id: "refused-title" }, "Refused"), refused));
  let last = "";

  async function refresh(signal) {
    const [part, text] = await Promise.all([
      get("/v1/devices", { limit: PART, after }, signal),
      getText("/metrics", signal),
    ]);
    const now = JSON.stringify([part.devices, part.next, part.quarantine, part.total]);
    const found = measured(text);
    figures.replaceChildren(...totals(part.total, found));
    cut.hidden = total(found.pansketch_broker_connected) > 0;
    if (now === last) return;
    last = now;
    devices.replaceChildren(part.devices.length
      ? blocks(caption(part), HEAD, part.devices.map(row))
      : h("p", null, "No device has reported yet."));
    paging.replaceChildren(...links(after, part.next));
    refused.replaceChildren(...refusals(part.quarantine));
  }
  return { title: "Fleet", content, refresh };
}

// Samples of the Prometheus text, by name: [labels, value].
export function measured(text) {
  const found = {};
  for (const line of text.split("\n")) {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match) (found[match[1]] ??= []).push([match[2] ?? "", Number(match[3])]);
  }
  return found;
}

function total(samples) {
  return (samples ?? []).reduce((sum, [, value]) => sum + value, 0);
}

function totals(devices, found) {
  const states = Object.fromEntries(found.pansketch_devices ?? []);
  const oldest = Math.max(0, ...(found.pansketch_backlog_oldest_seconds ?? []).map(([, v]) => v));
  const shown = [
    ["Devices", whole(devices)],
    ["Online", whole(states['state="online"'] ?? 0)],
    ["Offline", whole(states['state="offline"'] ?? 0)],
    ["Stopped", whole(states['state="stopped"'] ?? 0)],
    ["Releases stored", whole(total(found.pansketch_releases_stored))],
    ["Missing windows", whole(total(found.pansketch_missing_windows))],
    ["Longest wait", oldest ? duration(oldest) : "none"],
    ["Refused", whole(total(found.pansketch_refused_total))],
  ];
  return shown.map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)));
}

function caption(part) {
  const shown = part.devices.length;
  return shown < part.total ? `${shown} of ${whole(part.total)} devices, by name` :
    "All devices, by name. Times are UTC.";
}

function row(device) {
  const held = Object.values(device.streams);
  const sum = (name) => whole(held.reduce((found, each) => found + each[name], 0));
  const ends = held.map((each) => each.last_window).sort();
  const said = device.health;
  return [
    device.device, state(device), minute(ends.at(-1)), sum("windows"), sum("gaps"), sum("late"),
    sum("disputed"), ...(said === null ? ["–", "–", "–", "–"] : [
      whole(said.waiting), said.waiting ? duration(said.oldest_waiting_seconds) : "–",
      whole(said.dropped), whole(said.set_aside)]),
  ];
}

// The word says it; the mark is for the eye alone.
function state(device) {
  const problems = Object.entries(device.reported).filter(([, birth]) => birth.problem);
  return h("div", null,
    h("span", { class: `mark ${device.state}`, "aria-hidden": "true" }),
    h("span", null, device.state),
    device.since === null ? null : h("small", null, `since ${minute(device.since)}`),
    ...problems.map(([name, birth]) =>
      h("small", { class: "problem" }, `${name} stopped: ${birth.problem}`)));
}

function links(after, next) {
  const first = after === null ? null : h("a", { href: "#fleet" }, "First devices");
  const more = next === null ? null :
    h("a", { href: `#fleet?after=${encodeURIComponent(next)}` }, "Next devices");
  return [first, more].filter((each) => each !== null);
}

function refusals(reasons) {
  const rows = Object.entries(reasons).map(([reason, count]) => [reason, whole(count)]);
  if (!rows.length) return [h("p", null, "No message was ever refused.")];
  return [table("Messages that went to quarantine, by reason",
    [["Reason", false], ["Messages", true]], rows)];
}
