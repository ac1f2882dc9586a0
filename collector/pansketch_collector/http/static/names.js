// What a field of devices suggests: groups at once, and devices when somebody is about to choose.
// The list of a large fleet has megabytes, and no picture needs it.

import { get } from "./api.js";
import { h } from "./elements.js";

// { list, input }: the suggestions, and the attributes of a field that has them.
export function suggestions(groups) {
  const list = h("datalist", { id: "names" }, Object.keys(groups).map((each) => option(`@${each}`)));
  let asked = false;
  async function fill() {
    if (asked) return;
    asked = true;
    try {
      const { devices } = await get("/v1/devices", { limit: 1000 });
      list.append(...devices.map((each) => option(each.device)));
    } catch {
      asked = false; // The next focus asks again; names can be written without.
    }
  }
  return { list, input: { list: list.id, pattern: "[a-z0-9, @\\-]*", autocomplete: "off",
    onfocus: fill } };
}

function option(value) {
  return h("option", { value });
}
