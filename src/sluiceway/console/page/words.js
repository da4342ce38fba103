// Numbers, times and states in words.

const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 86_400_000;

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));

export const compact = (number) => (number === null || number === undefined ? "–" : short.format(number));

// What a route goes on without, as no leader answers; null when it reads all its partitions.
export function leftOut(route) {
  const [first] = Object.entries(route.left_out ?? {});
  if (!first) return null;
  const many = route.left_out_count;
  return `${count(many)} ${many === 1 ? "partition is" : "partitions are"} left out. ${first[0]}: ${first[1]}`;
}

export function rate(number) {
  if (number === null || number === undefined) return "–";
  return number > 0 && number < 10 ? number.toFixed(1) : whole.format(number);
}

export function bytes(number) {
  if (number === null || number === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit && number < 10 ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${ms < 10_000 ? (ms / 1000).toFixed(1).replace(".0", "") : Math.round(ms / 1000)} s`;
  if (ms < HOUR) return `${Math.round(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${(ms / HOUR).toFixed(1).replace(".0", "")} h`;
  return `${(ms / DAY).toFixed(1).replace(".0", "")} d`;
}

// How far a route is behind: known, at least so far, or not known, which is never 0.
export function behind(route) {
  if (route.lag_ms !== null && route.lag_ms !== undefined) return span(route.lag_ms);
  return route.lag_at_least_ms ? `≥ ${span(route.lag_at_least_ms)}` : "–";
}

export const seconds = (value) => (value === undefined ? "–" : span(1000 * value));

export const ago = (ms, now) => (ms === null || ms === undefined ? "–" : now - ms < 1000 ? "just now" : `${span(now - ms)} ago`);

const formats = new Map();

function inZone(zone, parts) {
  const key = `${zone} ${Object.keys(parts)}`;
  if (!formats.has(key)) {
    let made;
    try {
      made = new Intl.DateTimeFormat("en-GB", { timeZone: zone, ...parts });
    } catch {
      // A zone that this browser does not know.
      made = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", ...parts });
    }
    formats.set(key, made);
  }
  return formats.get(key);
}

// Times of records are what producers say: one that no calendar has is told as the number it is.
const LAST_MS = 8_640_000_000_000_000;

function timeText(ms, zone, parts) {
  return Math.abs(ms) <= LAST_MS ? inZone(zone, parts).format(ms) : `${ms} ms`;
}

const CLOCK = { hour: "2-digit", minute: "2-digit" };

export const clock = (ms, zone = "UTC") => timeText(ms, zone, CLOCK);

export const exactClock = (ms) => timeText(ms, "UTC", { ...CLOCK, second: "2-digit" });

const DAY_PARTS = { weekday: "short", day: "numeric", month: "short" };

// With its year unless that is the current one: records may be of any.
export function day(ms, zone = "UTC") {
  const year = (at) => timeText(at, zone, { year: "numeric" });
  return timeText(ms, zone, year(ms) === year(Date.now()) ? DAY_PARTS : { ...DAY_PARTS, year: "numeric" });
}

export const moment = (ms) => (ms === null || ms === undefined ? "–" : Math.abs(ms) <= LAST_MS ? `${day(ms)}, ${exactClock(ms)}` : `${ms} ms`);

// State of a route -> its word and its kind, which gives colour and sign.
const ROUTE_STATES = {
  running: ["running", "good"],
  caught_up: ["caught up", "good"],
  starting: ["starting", "calm"],
  stopped: ["stopped", "still"],
  not_started: ["not started", "still"],
  no_table: ["no table yet", "still"],
  waiting: ["waiting", "warn"],
  halted: ["halted", "bad"],
  unknown: ["not known", "bad"],
};

export const routeState = (state) => ROUTE_STATES[state] ?? [String(state), "still"];

// State of an hour -> what it means.
export const STANDS = {
  open: "takes rows",
  overdue: "open for longer than it should be",
  closed: "rows that still come are late",
  ready: "complete and announced",
  late: "rows have come since it was announced",
  expired: "dropped by its owner",
};
