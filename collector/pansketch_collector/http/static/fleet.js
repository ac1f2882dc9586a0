// Every device: whether it reports, how far behind it is, what is stored of it, what is missing, how
// much it says that it counted, which settings it runs, what waits on it.

import { get, getText } from "./api.js";
import { actions } from "./device_actions.js";
import { blocks, h, scrolling, table } from "./elements.js";
import { files } from "./files.js";
import { duration, minute, plain, whole, withError } from "./numbers.js";

const PART = 50;
const HEAD = [
  ["Device", false], ["State", false], ["Last window", false], ["Lag", true], ["Windows", true],
  ["Gaps", true], ["Late", true], ["Disputed", true], ["Waiting", true], ["Oldest", true],
  ["Dropped", true], ["Set aside", true],
];
const STREAM_HEAD = [
  ["Device", false], ["Stream", false], ["Counted", true], ["In a window", true], ["Lag", true],
  ["Windows", true], ["Ledgers", true], ["Rolled back", true], ["Settings", false],
];

export function fleet(subject, parameters, renew) {
  const figures = h("dl", { class: "figures" });
  const cut = h("p", { class: "problem", hidden: true }, "The collector has no connection to its " +
    "broker now: nothing new arrives. Its log has the reason.");
  const devices = h("div", null, h("p", { class: "loading" }, "Loading…"));
  const streams = h("div");
  const running = h("div");
  let shown = null;
  const saved = files("Devices", () => ({ name: "devices", answer: shown, rows: rowsOf(shown) }));
  saved.hidden = true;
  const lags = h("div");
  const scales = h("div");
  const paging = h("nav", { "aria-label": "Parts of the list", class: "paging" });
  const refused = h("div");
  const keepers = h("div");
  const keeping = h("section", { "aria-labelledby": "keepers-title", hidden: true },
    h("h2", { id: "keepers-title" }, "Keepers"), scrolling("Keepers", keepers));
  const after = parameters.get("after");
  const content = h("div", null,
    h("h1", null, "Fleet"), cut, figures,
    h("section", { "aria-labelledby": "devices-title" },
      h("h2", { id: "devices-title" }, "Devices"), scrolling("Devices", devices), paging, saved),
    h("section", { "aria-labelledby": "streams-title" },
      h("h2", { id: "streams-title" }, "Streams of these devices"),
      scrolling("Streams of these devices", streams)),
    h("section", { "aria-labelledby": "settings-title" },
      h("h2", { id: "settings-title" }, "Settings that devices run"), running),
    h("section", { "aria-labelledby": "lags-title" },
      h("h2", { id: "lags-title" }, "Lag"), lags, scales), keeping,
    h("section", { "aria-labelledby": "refused-title" },
      h("h2", { id: "refused-title" }, "Refused"), refused));
  let last = "";

  async function refresh(signal) {
    const [part, text] = await Promise.all([
      get("/v1/devices", { limit: PART, after }, signal),
      getText("/metrics", signal),
    ]);
    const found = measured(text);
    const clock = clockOf(found);
    // Lags are shown anew every minute.
    const now = JSON.stringify([part, Math.floor(clock / 60)]);
    figures.replaceChildren(...totals(part.total, found));
    cut.hidden = total(found.pansketch_broker_connected) > 0;
    if (now === last) return;
    last = now;
    shown = part;
    saved.hidden = false;
    const [head, more] = part.changes ? [[...HEAD, ["Change", false]],
      (each) => [actions(each, renewed)]] : [HEAD, () => []];
    devices.replaceChildren(part.devices.length
      ? blocks(caption(part), head, part.devices.map((each) => [...row(each, clock), ...more(each)]))
      : h("p", null, "No device has reported yet."));
    const held = part.devices.flatMap((each) => streamRows(each, clock));
    streams.replaceChildren(held.length
      ? blocks("What each device says that it counted, with its standard error, made of noisy " +
        "releases. Out of line: far from what the other devices say.", STREAM_HEAD, held)
      : h("p", null, "Nothing is stored of these devices yet."));
    running.replaceChildren(settingsTable(part.settings));
    lags.replaceChildren(lagTable(part.newest_windows, clock));
    scales.replaceChildren(...Object.entries(part.scales).map(([name, each]) =>
      h("p", null, `Scales of ${name}: ${scalesOf(each.now)}` +
        (each.next === null ? "." : `; then ${scalesOf(each.next)}.`))));
    keeping.hidden = part.keepers.length === 0;
    keepers.replaceChildren(...keeperTables(part));
    paging.replaceChildren(...links(after, part.next));
    refused.replaceChildren(...refusals(part.quarantine, part.refused));
  }
  // Also where a token is wanted: the renewal, or a click of somebody without one, asks for it.
  function renewed(refused) {
    last = "";
    renew(refused);
  }
  return { title: "Fleet", content, refresh };
}

// A row for each stream of each device, as a file.
function rowsOf(part) {
  return part.devices.flatMap(({ device, state, since, health, excluded, streams }) => {
    const of = { device, state, since, excluded: excluded.length > 0, health };
    const held = Object.entries(streams).map(([stream, each]) => ({ ...of, stream, ...each }));
    return held.length ? held : [of];
  });
}

function settingsTable(found) {
  if (!found.length) return h("p", null, "No device has reported its settings yet.");
  return blocks("By stream, the newest settings first", [["Stream", false], ["Settings", false],
    ["Devices", true], ["Which", false]], found.map((each) => [each.stream, settings(each),
    whole(each.devices), named(each)]));
}

function named({ names, devices }) {
  return names.join(", ") + (devices > names.length ? ", …" : "");
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

// The collector's clock in unix seconds, NaN where nothing is stored: a browser's may be another.
function clockOf(found) {
  const [labels, lag] = found.pansketch_lag_seconds?.[0] ?? ["", NaN];
  const ends = Object.fromEntries(found.pansketch_newest_window_end_timestamp_seconds ?? []);
  return lag + (ends[labels] ?? NaN);
}

function lagged(end, clock) {
  const seconds = clock - Date.parse(end) / 1000; // a date alone is UTC too
  return Number.isFinite(seconds) ? duration(Math.max(0, seconds)) : "–";
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
  const which = shown < part.total ? `${shown} of ${whole(part.total)} devices, by name` :
    "All devices, by name. Times are UTC.";
  return `${which} Database generation ${part.generation}.`;
}

function row(device, clock) {
  const held = Object.values(device.streams);
  const sum = (name) => whole(held.reduce((found, each) => found + each[name], 0));
  const ends = held.map((each) => each.last_window).sort();
  const said = device.health;
  return [
    device.device, state(device), minute(ends.at(-1)), lagged(ends.at(-1), clock), sum("windows"), sum("gaps"), sum("late"),
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
    device.health?.memory_protected === false ?
      h("small", { class: "problem" }, "its memory may be written to swap") : null,
    device.health?.name_conflicts ? h("small", { class: "problem" },
      `another client uses this name: ${whole(device.health.name_conflicts)} times`) : null,
    ...device.excluded.map((each) => h("small", { class: "problem" }, exclusion(each))),
    ...Object.entries(device.other_settings).map(([name, says]) =>
      h("small", { class: "problem" }, `${name} has other settings: ${says}`)),
    ...device.quarantine.map((each) => h("small", { class: "problem" },
      `${each.stream} refused: ${each.messages} by ${each.reason} (${each.text})`)),
    ...problems.map(([name, birth]) =>
      h("small", { class: "problem" }, `${name} stopped: ${birth.problem}`)),
    ...Object.entries(device.reported).filter(([, birth]) => birth.scale_problem).map(
      ([name, birth]) => h("small", { class: "problem" }, `${name}: ${birth.scale_problem}`)));
}

function exclusion({ from, to, releases }) {
  const range = [from === null ? "" : ` from ${minute(from)}`, to === null ? "" : ` to ${minute(to)}`];
  return `excluded from every answer${range.join("")}: ${whole(releases)} release${releases === 1 ? "" : "s"}`;
}

function streamRows(device, clock) {
  return Object.entries(device.streams).map(([name, held]) => [
    device.device, name, counted(held),
    held.total === null ? "–" : plain(held.total.value / held.total.windows),
    lagged(held.last_window, clock), whole(held.windows), whole(held.ledgers),
    whole(held.rolled_back), settings(device.settings[name]),
  ]);
}

function counted({ total, masked }) {
  if (total === null) return masked ? "masked" : "–";
  return h("div", null, withError(total.value, total.standard_error),
    total.out_of_line ? h("small", { class: "problem" }, "out of line") : null);
}

function settings(runs) {
  if (runs === undefined) return "not reported";
  if (runs.now) return "current";
  return runs.since === null ? "not served here" : `earlier, since ${minute(runs.since)}`;
}

function scalesOf(published) {
  if (published === null) return "as configured";
  const what = published.learned.length ? `learned for ${published.learned.join(", ")}` : "as configured";
  return `${what}, from ${minute(published.from)} on`;
}

function lagTable(streams, clock) {
  const rows = Object.entries(streams).map(([name, ends]) => [
    name, minute(ends.newest), lagged(ends.median, clock), lagged(ends.worst, clock),
    ends.worst_device]);
  if (!rows.length) return h("p", null, "Nothing is stored yet.");
  return blocks("Since each device's newest window ended, by stream, of the whole fleet", [
    ["Stream", false], ["Newest window", false], ["Median device", true], ["Worst device", true],
    ["Which", false]], rows);
}

function keeperTables({ keepers, levels }) {
  const when = (text) => (text === null ? "–" : minute(text));
  const asked = keepers.map((each) => [
    h("div", null, each.keeper, each.problem ? h("small", { class: "problem" }, each.problem) : null),
    each.state, whole(each.asked), when(each.oldest_asked_at), when(each.last_answer_at)]);
  const answered = levels.map((each) => [
    each.stream, each.level, whole(each.answered), whole(each.asked), whole(each.set_aside),
    whole(each.waiting), whole(each.lost)]);
  const problems = levels.flatMap((each) => each.problems.map((said) =>
    h("p", { class: "problem" }, `${each.stream} ${each.level}: ${said}`)));
  return [
    blocks("Who adds noise to answers about masked counters. No device has totals of its own there.",
      [["Keeper", false], ["State", false], ["Asked", true], ["Oldest question", false],
        ["Last answer", false]], asked),
    ...(answered.length ? [blocks("Answers, by stream and level; windows that wait, or are lost", [
      ["Stream", false], ["Level", false], ["Answers", true], ["Asked", true], ["Set aside", true],
      ["Waiting", true], ["Lost", true]], answered)] : []),
    ...problems];
}

function links(after, next) {
  const first = after === null ? null : h("a", { href: "#fleet" }, "First devices");
  const more = next === null ? null :
    h("a", { href: `#fleet?after=${encodeURIComponent(next)}` }, "Next devices");
  return [first, more].filter((each) => each !== null);
}

function refusals(reasons, held) {
  const rows = Object.entries(reasons).map(([reason, count]) => [reason, whole(count)]);
  if (!rows.length) return [h("p", null, "No message was ever refused.")];
  const found = [table("Messages that went to quarantine, by reason; each retransmission counts",
    [["Reason", false], ["Messages", true]], rows)];
  if (held.length) {
    found.push(blocks("What lies there of devices, by stream and reason", [
      ["Stream", false], ["Reason", false], ["Messages", true], ["Devices", true],
      ["Which", false]],
    held.map((each) => [each.stream || "none", each.reason, whole(each.messages),
      whole(each.devices), named(each)])));
  }
  return found;
}
