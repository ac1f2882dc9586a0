// One standard error up and down, between two heights.

import { pathRound } from "./d3.js";
import { s } from "./elements.js";

export function whisker(x, low, high, half) {
  const drawn = pathRound();
  drawn.moveTo(x, low);
  drawn.lineTo(x, high);
  for (const end of [low, high]) {
    drawn.moveTo(x - half, end);
    drawn.lineTo(x + half, end);
  }
  return s("path", { class: "whisker", d: String(drawn) });
}
