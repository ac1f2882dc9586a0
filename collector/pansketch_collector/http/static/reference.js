// The API, from its own description: for people who have given the token, which a link cannot bear.

import { address, get, hand, token } from "./api.js";
import { blocks, h } from "./elements.js";

const FILE = "/openapi.json";
const HEAD = [["Parameter", false], ["Type", false], ["Meaning", false]];

export function reference() {
  const problem = h("p", { class: "problem", role: "alert" });
  const link = h("a", { href: address(FILE), download: "openapi.json" }, "openapi.json");
  link.addEventListener("click", (event) => {
    if (token() === null) return;
    event.preventDefault();
    hand(link.href, link.download, problem);
  });
  const operations = h("div");
  const content = h("div", null, h("h1", null, "The API"),
    h("p", { class: "lead" }, "All that this page shows can be had from these addresses of this " +
      "server. All of them read, except those that need a token to change something. The same for " +
      "programs: ", link, "."),
    problem, operations);
  let shown = false;

  async function refresh(signal) {
    if (shown) return;
    const { paths } = await get(FILE, {}, signal);
    operations.replaceChildren(...Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, about]) =>
        operation(`${method.toUpperCase()} ${path}`, about))));
    shown = true;
  }
  return { title: "The API", content, refresh };
}

function operation(name, about) {
  const rows = (about.parameters ?? []).map((each) => [
    h("code", null, each.name), types(each.schema).join(", "),
    [...coded(each.description ?? ""), each.required ? " (needed)" : ""]]);
  return h("section", { class: "card reference" },
    h("h2", null, h("code", null, name)),
    h("p", null, coded(`${about.description ?? about.summary}.`)),
    rows.length ? blocks("What it may be asked with", HEAD, rows) : null);
}

// A text with names between backticks.
function coded(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", null, part) : part));
}

function types(schema) {
  return (schema.anyOf ?? [schema]).filter((each) => each.type !== "null").map((each) => {
    if (each.enum) return each.enum.join(" | ");
    if (each.const !== undefined) return String(each.const);
    if (each.type === "array") return `several of ${types(each.items).join(" or ")}`;
    const { minimum: low, maximum: high } = each;
    return each.type + (low === undefined ? "" : ` from ${low}`) +
      (high === undefined ? "" : ` to ${high}`);
  });
}
