// A file of synthetic readings, made by the server. Made twice with one seed it is the same file.

import { address, hand, streamPath, token } from "./api.js";
import { selection } from "./asked.js";
import { choice, field, h } from "./elements.js";

const FORMATS = [["csv", "CSV"], ["parquet", "Parquet"], ["json", "JSON"]];

export function download(found) {
  const rows = h("input", { type: "number", min: 1, max: 100000000, value: 10000, required: true });
  const format = choice("format", FORMATS, "csv");
  const seed = h("input", { type: "number", min: 0, placeholder: "a new one" });
  const link = h("a", { class: "button", id: "download" }, "Download");
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h("form", { class: "asking" },
    field("Rows", rows), field("Format", format),
    field("Seed", seed, "same seed, same rows"),
    h("div", { class: "act" }, link));
  let chosen = {};

  function renew() {
    link.href = address(streamPath(found.stream, "sample"),
      { rows: rows.value, format: format.value, seed: seed.value, ...chosen });
    link.download = `${found.stream}.${format.value}`;
  }
  form.addEventListener("input", renew);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    link.click();
  });
  link.addEventListener("click", (event) => {
    problem.textContent = "";
    if (!form.reportValidity()) event.preventDefault();
    else if (token() !== null) {
      event.preventDefault();
      hand(link.href, link.download, problem);
    }
  });
  const element = h("section", { class: "card", "aria-labelledby": "download-title" },
    h("h2", { id: "download-title" }, "Synthetic readings"),
    h("p", null, "Drawn at random from the estimate above, of the same devices and windows. No " +
      "row is a reading of a device."),
    form, problem);
  return {
    element,
    select(asked) {
      chosen = selection(asked);
      delete chosen.keys;
      renew();
    },
  };
}
