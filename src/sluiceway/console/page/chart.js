// A chart of the last hour: lines by route, read by pointer or by arrow keys.

import { h, show } from "./dom.js";
import { clock, exactClock } from "./words.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
// What a chart shows, and how far its marks are apart: the least that holds all figures there are,
// so that a page that has just begun is no empty hour.
const SPANS = [[5, 1], [15, 5], [30, 10], [60, 15]].map((each) => each.map((minutes) => minutes * MINUTE));
const HEIGHT = 170;
const LEFT = 48, RIGHT = 8, TOP = 10, BOTTOM = 22;
const GAP = 30_000;
export const MOST_LINES = 6;

// Args: title; times, in milliseconds; lines, [{name, colour, values}] as long as times; now;
// write, makes text of a value; least, what the scale reaches when all values are smaller, so that
// no two of its marks read alike.
export function chart({ title, times, lines, now, write, least }) {
  const node = h("figure", { class: "chart", "data-key": title });
  node.draw = (place) => draw(place, { title, times, lines, now, write, least });
  // It has no width before it is in the document; where one like it is there, that one draws.
  queueMicrotask(() => node.isConnected && node.draw(node));
  return node;
}

function draw(place, data) {
  place.data = data;
  if (!place.watch) {
    place.watch = new ResizeObserver(() => paint(place));
    place.watch.observe(place);
  }
  paint(place);
}

function paint(place) {
  const { title, times, lines, now, write, least } = place.data;
  const width = Math.max(260, place.clientWidth - 28);
  const [span, step] = spanOf(times, now);
  const first = now - span;
  const x = (at) => LEFT + ((at - first) / span) * (width - LEFT - RIGHT);
  const top = niceTop(lines, least);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const shown = times.map((at, index) => [at, index]).filter(([at]) => at >= first);
  const latest = shown.at(-1);
  const index = latest ? Math.min(place.cursor ?? latest[1], times.length - 1) : null;
  const grid = [0, top / 2, top].map((value) => h("g", {},
    h("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
    h("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, write(value))));
  const ticks = [];
  for (let at = Math.ceil(first / step) * step; at <= now; at += step) {
    if (x(at) > LEFT + 14 && x(at) < width - 20) ticks.push(h("text", { class: "tick", x: x(at), y: HEIGHT - 6, "text-anchor": "middle" }, clock(at)));
  }
  const drawn = lines.map((line) => h("path", { class: `line s${line.colour}`, d: pathOf(line, shown, x, y) }));
  // Where a line is now: a page that has just begun has no more than this.
  const ends = lines.filter((line) => latest && typeof line.values[latest[1]] === "number").map((line) =>
    h("circle", { class: `end s${line.colour}`, cx: x(latest[0]), cy: y(line.values[latest[1]]), r: 1.5 }));
  const cursor = index === null || place.cursor === undefined ? null : h("line", { class: "cursor", x1: x(times[index]), x2: x(times[index]), y1: TOP, y2: HEIGHT - BOTTOM });
  const svg = h("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" }, grid, ticks, drawn, ends, cursor);
  const at = index === null ? "" : exactClock(times[index]);
  const told = lines.map((line) => ({ line, value: index === null ? null : line.values[index] }));
  const read = told.map(({ line, value }) => `${line.name} ${value === null || value === undefined ? "not known" : write(value)}`).join(", ");
  const steps = shown.length;
  const move = (by) => {
    if (!steps) return;
    const from = place.cursor ?? latest[1];
    place.cursor = Math.max(shown[0][1], Math.min(latest[1], from + by));
    paint(place);
  };
  const keys = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -12, PageDown: 12, Home: -1e9, End: 1e9 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    move(by);
  };
  const point = (event) => {
    if (!steps) return;
    const box = event.currentTarget.getBoundingClientRect();
    const wanted = first + ((event.clientX - box.left - LEFT) / (width - LEFT - RIGHT)) * span;
    let nearest = shown[0];
    for (const each of shown) if (Math.abs(each[0] - wanted) < Math.abs(nearest[0] - wanted)) nearest = each;
    place.cursor = nearest[1];
    paint(place);
  };
  const leave = () => {
    place.cursor = undefined;
    paint(place);
  };
  show(place,
    h("figcaption", {}, h("span", { class: "chart-title" }, title), h("span", { class: "chart-at" }, place.cursor === undefined ? "now" : at)),
    h("div", {
      class: "plot", role: "slider", tabindex: "0", "aria-label": `${title}, last hour`,
      "aria-valuemin": 0, "aria-valuemax": Math.max(0, steps - 1), "aria-valuenow": steps ? index - shown[0][1] : 0,
      "aria-valuetext": steps ? `${at}: ${read || "no route"}` : "no figures yet",
      on: { keydown: keys, pointermove: point, pointerleave: leave, blur: leave },
    }, svg, steps && lines.length ? null : h("span", { class: "chart-empty" }, "No figures yet: no driver runs, or the page has just begun.")),
    h("ul", { class: "legend" }, told.map(({ line, value }) =>
      h("li", {}, h("i", { class: `key k${line.colour}`, "aria-hidden": "true" }), line.name, h("b", {}, value === null || value === undefined ? "–" : write(value))))));
}

function spanOf(times, now) {
  const oldest = times.find((at) => at >= now - HOUR) ?? now;
  return SPANS.find(([span]) => oldest >= now - span);
}

function niceTop(lines, least) {
  const most = Math.max(least, ...lines.flatMap((line) => line.values.filter((value) => value !== null)));
  const scale = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 6, 8, 10].map((step) => step * scale).find((step) => step >= most);
}

function pathOf(line, shown, x, y) {
  let path = "";
  let before = null;
  for (const [at, index] of shown) {
    const value = line.values[index];
    if (value === null || value === undefined) {
      before = null;
      continue;
    }
    const point = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    // A line of no length is drawn as a dot: the first value is seen at once.
    path += before === null || at - before > GAP ? `M${point}h0` : `L${point}`;
    before = at;
  }
  return path;
}

// Lines for a chart: the routes with the most, the others as one sum.
export function linesOf(history, series) {
  const names = Object.keys(history.routes);
  const weight = (name) => Math.max(0, ...history.routes[name].rows_per_s.map((value) => value ?? 0));
  const ranked = [...names].sort((a, b) => weight(b) - weight(a));
  const own = ranked.slice(0, ranked.length > MOST_LINES ? MOST_LINES - 1 : MOST_LINES).sort();
  const lines = own.map((name, colour) => ({ name, colour, values: history.routes[name][series] }));
  const rest = ranked.filter((name) => !own.includes(name));
  if (rest.length) {
    // Rows add up; of delays the longest counts.
    const join = series.endsWith("_ms") ? Math.max : (a, b) => a + b;
    const together = (index) => rest.reduce((found, name) => join(found, history.routes[name][series][index] ?? 0), 0);
    lines.push({ name: `${rest.length} others`, colour: MOST_LINES - 1, values: history.at_ms.map((_, index) => together(index)) });
  }
  return lines;
}
