// Numbers as texts: as many digits as their error leaves.

const SHOWN = 2; // digits of a standard error

function decimals(error) {
  if (!(error > 0)) return null;
  return Math.min(Math.max(0, SHOWN - 1 - Math.floor(Math.log10(error))), 12);
}

// As axes have it, and as it is read aloud; what is rounded to zero has no sign.
function minus(text) {
  return text.replace(/^-/, Number(text) === 0 ? "" : "−");
}

export function plain(value) {
  return value === null ? "unknown" : minus(String(Number(value.toPrecision(4))));
}

export function withError(value, error, unit = "") {
  if (value === null) return "no estimate";
  const digits = decimals(error);
  const after = unit ? ` ${unit}` : "";
  if (digits === null) return `${plain(value)}${after}${error === null ? " ± unknown" : ""}`;
  return `${minus(value.toFixed(digits))} ± ${error.toFixed(digits)}${after}`;
}

export function percent(share, error) {
  if (share === null) return "no estimate";
  const part = error === null ? null : 100 * error;
  // Below a ten-thousandth of a per cent nobody reads on.
  if (part !== null && part < 1e-4) return `${Number((100 * share).toFixed(4))} % ± < 0.0001`;
  return withError(100 * share, part, "%");
}

export function whole(number) {
  return number.toLocaleString("en");
}

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function duration(seconds) {
  const [unit, size] = UNITS.find(([, each]) => seconds >= each) ?? UNITS[3];
  return `${Number((seconds / size).toFixed(1))} ${unit}`;
}

// `2013-03-01T00:00:00Z` for people; all times are UTC.
export function moment(text) {
  return text === null || text === undefined ? "–" : text.replace("T", " ").replace(/(:00)?Z$/, "");
}

// The same without its seconds.
export function minute(text) {
  return moment(text).slice(0, 16);
}
