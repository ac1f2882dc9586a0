// What is asked of a stream: its attributes, and which of its releases.

const SELECTING = ["from", "to", "devices", "generator", "keys"];

export function askable(found) {
  return found.attributes.filter((each) => each.constant === undefined).map((each) => each.name);
}

// The two attributes that are shown; the second differs from the first wherever there are two.
export function chosenAttributes(found, asked) {
  const names = askable(found);
  const first = asked.get("attribute") ?? names[0];
  const second = asked.get("second");
  const other = names.find((each) => each !== first);
  return [first, second === first ? other : second ?? other];
}

export function selection(asked) {
  return Object.fromEntries(SELECTING.map((name) => [name, asked.get(name)]));
}
