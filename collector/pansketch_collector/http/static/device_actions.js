// Exclude a device, count it again, forget it: buttons, and a dialog that asks before anything is
// sent. They are there only where the server has a token.

import { change } from "./api.js";
import { h } from "./elements.js";

const EXCLUDE = { button: "Exclude", method: "POST", rest: "/exclusions", title: "Exclude",
  says: "Its releases are left out of every answer, also those that are still to come. Nothing is " +
    "deleted, and it can be undone." };
const UNDO = { button: "Count again", method: "DELETE", rest: "/exclusions", title: "Count again",
  says: "All exclusions of this device end: its releases count in every answer again." };
const FORGET = { button: "Forget", method: "DELETE", rest: "", title: "Forget",
  says: "What the device reported of itself is deleted, so that another one has room. Its releases " +
    "stay, unless they are deleted as well." };

// Buttons for one device. `changed`: called when something was changed.
export function actions(device, changed) {
  const made = [EXCLUDE, ...(device.excluded.length ? [UNDO] : []), FORGET].map((each) =>
    h("button", { type: "button", class: "quiet", "aria-haspopup": "dialog",
      "aria-label": `${each.button} ${device.device}`,
      onclick: () => asks(each, device.device, changed) }, each.button));
  return h("div", { class: "actions" }, made);
}

function asks(action, device, changed) {
  const problem = h("p", { class: "problem", role: "alert" });
  const releases = h("input", { type: "checkbox", id: "delete-releases" });
  const name = h("input", { type: "text", id: "delete-name", autocomplete: "off",
    autocapitalize: "off", spellcheck: "false" });
  const deleting = h("div", { class: "field", hidden: true },
    h("label", { for: "delete-name" }, `Write ${device} to delete its releases for good`), name);
  releases.addEventListener("change", () => {
    deleting.hidden = !releases.checked;
    name.required = releases.checked;
  });
  const range = { from: null, to: null };
  const time = (key, text) => {
    const input = h("input", { type: "datetime-local", id: `exclude-${key}` });
    input.addEventListener("input", () => { range[key] = input.value; });
    return h("div", { class: "field" }, h("label", { for: input.id }, text), input);
  };
  const submit = h("button", { type: "submit" }, action.title);
  const form = h("form", { class: "confirming" },
    h("h2", { id: "confirm-title" }, `${action.title} ${device}?`),
    h("p", { id: "confirm-says" }, action.says),
    action === EXCLUDE ? [time("from", "Windows from (UTC), empty: all"), time("to", "to (UTC)")] :
      null,
    action === FORGET ? [h("p", null, releases, " ",
      h("label", { for: "delete-releases" }, "Delete its releases as well")), deleting] : null,
    problem,
    h("p", { class: "actions" }, submit, " ",
      h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel")));
  const dialog = h("dialog", { "aria-labelledby": "confirm-title",
    "aria-describedby": "confirm-says" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (releases.checked && name.value.trim() !== device) {
      problem.textContent = `Write ${device}, or leave its releases stored.`;
      return;
    }
    submit.disabled = true;
    const parameters = action === EXCLUDE ? range :
      releases.checked ? { releases: true, confirm: device } : {};
    try {
      await change(action.method, `/v1/devices/${encodeURIComponent(device)}${action.rest}`,
        parameters);
      dialog.close();
      changed();
    } catch (error) {
      if (error.status === 401) {
        dialog.close();
        changed(error);
        return;
      }
      problem.textContent = error.message;
      submit.disabled = false;
    }
  });
  document.body.append(dialog);
  dialog.showModal();
}
