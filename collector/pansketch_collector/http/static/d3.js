// The parts of d3 that pictures are drawn with (vendor/README.md), each after those it needs: every
// one adds to an object that all of the page could see, and nothing but this file looks at.

import "./vendor/d3-array.min.js";
import "./vendor/d3-color.min.js";
import "./vendor/d3-interpolate.min.js";
import "./vendor/d3-format.min.js";
import "./vendor/d3-time.min.js";
import "./vendor/d3-time-format.min.js";
import "./vendor/d3-scale.min.js";
import "./vendor/d3-path.min.js";
import "./vendor/d3-shape.min.js";

export const {
  area, format, line, max, maxIndex, min, pathRound, range, scaleBand, scaleLinear, scaleLog,
  scaleQuantize, scaleSymlog, scaleUtc, utcDay, utcFormat, utcMinute,
} = globalThis.d3;
