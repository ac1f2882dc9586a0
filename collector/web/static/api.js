// Requests to the API of this server, with a token where it wants one.

const KEY = "pansketch-token";

export class Problem extends Error {
  // What the server said (RFC 9457), or that it did not answer: status 0.
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export function token() {
  return sessionStorage.getItem(KEY);
}

export function keepToken(text) {
  sessionStorage.setItem(KEY, text);
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
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
  return `..${path}${text ? `?${text}` : ""}`;
}

async function answered(url, signal) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  let response;
  try {
    response = await fetch(url, { headers, signal, redirect: "error" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The collector does not answer. The page tries again by itself.");
  }
  if (response.ok) return response;
  let sentence = `The collector answered ${response.status}.`;
  try {
    sentence = (await response.json()).detail;
  } catch {
    // A proxy in between may answer in its own way.
  }
  throw new Problem(response.status, sentence);
}

export async function get(path, parameters, signal) {
  return (await answered(address(path, parameters), signal)).json();
}

export async function getText(path, signal) {
  return (await answered(address(path), signal)).text();
}

export async function getFile(url) {
  return (await answered(url)).blob();
}

export function streamPath(stream, rest) {
  return `/v1/streams/${encodeURIComponent(stream)}/${rest}`;
}
