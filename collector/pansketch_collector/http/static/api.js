// Requests to the API of this server, with a token where it wants one.

import { save } from "./files.js";

const KEY = "pansketch-token";
const NEWER = "Pansketch-Newer-Releases";
const MAX_HELD = 64;

// The newest answers by address: [ETag, what was answered]. Here and not in the browser's cache, so
// that nothing of them outlives this tab or is on a disk.
const held = new Map();

// Of the refreshes with an answer from fewer releases than are stored: their signals.
const outdated = new WeakSet();

export class Problem extends Error {
  // What the server said (RFC 9457), or that it did not answer: status 0.
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

// Whether something that was asked with this signal has to be asked again.
export function isOutdated(signal) {
  return outdated.has(signal);
}

export function token() {
  return sessionStorage.getItem(KEY);
}

export function keepToken(text) {
  sessionStorage.setItem(KEY, text);
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
  held.clear();
}

// `parameters`: an object; a list is a parameter several times, and what is empty is left out.
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) {
      if (each !== undefined && each !== null && each !== "") query.append(name, each);
    }
  }
  const text = query.toString();
  return `${path.slice(1)}${text ? `?${text}` : ""}`;
}

async function answered(url, signal, known, method = "GET") {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  if (known) headers["If-None-Match"] = known;
  let response;
  try {
    response = await fetch(url, { method, headers, signal, redirect: "error", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The collector does not answer. The page tries again.");
  }
  if (signal && response.headers.has(NEWER)) outdated.add(signal);
  if (response.ok || (known && response.status === 304)) return response;
  let sentence = `The collector answered ${response.status}.`;
  try {
    sentence = (await response.json()).detail;
  } catch {
    // A proxy in between may answer in its own way.
  }
  throw new Problem(response.status, sentence);
}

export async function get(path, parameters, signal) {
  const url = address(path, parameters);
  const [tag, last] = held.get(url) ?? [];
  const response = await answered(url, signal, tag);
  const answer = response.status === 304 ? last : await response.json();
  hold(url, response.headers.get("ETag"), answer);
  return answer;
}

function hold(url, tag, answer) {
  held.delete(url);
  if (tag === null) return;
  held.set(url, [tag, answer]);
  if (held.size > MAX_HELD) held.delete(held.keys().next().value);
}

// A request that changes something. Its header makes a browser ask first where it comes from
// another site, and this server then refuses.
export async function change(method, path, parameters) {
  return (await answered(address(path, parameters), undefined, undefined, method)).json();
}

export async function getText(path, signal) {
  return (await answered(address(path), signal)).text();
}

// Fetches a file and hands it over as a link's click would: a link cannot bear a token. `problem`:
// the element that says what went wrong.
export async function hand(url, name, problem) {
  problem.textContent = "";
  try {
    save(name, await (await answered(url)).blob());
  } catch (error) {
    problem.textContent = error.message;
  }
}

export function streamPath(stream, rest) {
  return `/v1/streams/${encodeURIComponent(stream)}/${rest}`;
}
