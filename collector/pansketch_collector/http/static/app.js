// Which view is open, when it is renewed, and what is asked when a token is wanted.

import * as api from "./api.js";
import { changes } from "./changes.js";
import { fleet } from "./fleet.js";
import { privacy } from "./privacy.js";
import { reference } from "./reference.js";
import { stream } from "./stream.js";

const EVERY_MILLISECONDS = 5000;
const VIEWS = { fleet, stream, changes, privacy, api: reference };
const at = (id) => document.getElementById(id);

let open = null; // the view: { title, content, refresh(signal) }
let running = null; // an AbortController of the refresh under way
let timer = null;

// `#stream/air?attribute=temp`: the view, what follows its name, and parameters.
function place() {
  const [path, query] = location.hash.slice(1).split("?");
  const [name, ...rest] = path.split("/");
  return {
    name: Object.hasOwn(VIEWS, name) ? name : "fleet",
    subject: rest.length ? decoded(rest.join("/")) : null,
    parameters: new URLSearchParams(query ?? ""),
  };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function show() {
  const { name, subject, parameters } = place();
  running?.abort();
  open = VIEWS[name](subject, parameters, renew);
  document.title = `${open.title} – pansketch`;
  at("main").replaceChildren(open.content);
  at("main").setAttribute("aria-busy", "true");
  for (const link of document.querySelectorAll("header nav a, footer a")) {
    if (link.getAttribute("href") === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  refresh();
}

// Called by a view; `refused`: a change that needs a token.
function renew(refused) {
  if (refused instanceof api.Problem) askForToken();
  else refresh();
}

async function refresh() {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  try {
    await open.refresh(mine.signal);
    settled(`As of ${new Date().toISOString().slice(11, 19)} UTC`, "");
  } catch (error) {
    if (mine.signal.aborted) return;
    if (error instanceof api.Problem && error.status === 401) {
      askForToken();
      return;
    }
    if (!(error instanceof api.Problem)) {
      settled("Not up to date", "This page has failed. Load it again.");
      throw error;
    }
    settled("Not up to date", error.message);
  } finally {
    if (mine === running) at("main").setAttribute("aria-busy", "false");
  }
  if (mine === running && !document.hidden) timer = setTimeout(refresh, EVERY_MILLISECONDS);
}

function settled(freshness, sentence) {
  at("freshness").textContent = freshness;
  // Said aloud, so only when it changes.
  if (at("says").textContent !== sentence) at("says").textContent = sentence;
}

function askForToken() {
  clearTimeout(timer);
  at("asks-problem").textContent = api.token() === null ? "" : "That token is not this server's.";
  api.forgetToken();
  at("freshness").textContent = "Not up to date";
  if (!at("asks").open) at("asks").showModal();
}

at("asks-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.keepToken(at("asks-token").value.trim());
  at("asks-token").value = "";
  at("asks").close();
  refresh();
});

// A link of this kind would be a view's name in the address; it moves the focus alone.
at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("main").focus();
});

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (document.hidden) running?.abort();
  else if (!at("asks").open) refresh();
});

window.addEventListener("hashchange", () => {
  show();
  at("main").focus();
});

show();
