// The board of hours: a line a table, a column a time; and why a time is as it is.

import { ask, jobPath } from "./api.js";
import { h } from "./dom.js";
import { badge, choice, empty, finder, number, problem, table } from "./parts.js";
import { STANDS, ago, bytes, clock, count, day, moment, span } from "./words.js";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const COLUMNS = { "24h": [HOUR, 24], "48h": [HOUR, 48], "14d": [24 * HOUR, 14] };
const SIGNS = { open: "◔", overdue: "!", closed: "◑", ready: "✓", late: "↺", expired: "✕" };
const KINDS = { open: "calm", overdue: "bad", closed: "calm", ready: "good", late: "warn", expired: "still" };
const MOST_LISTED = 200;
const MOST_TABLES = 60;
const MOST_ERRORS = 20;

let spanShown = "24h";
let stateShown = "all";
let looked = "";

export function hoursTab(at) {
  const wanted = { route: at.query.get("why-route"), partition: at.query.get("why") };
  const link = (route, partition) => {
    const only = at.query.get("route");
    const query = new URLSearchParams({ ...(only ? { route: only } : {}), ...(partition ? { "why-route": route, why: partition } : {}) });
    return `#/job/${encodeURIComponent(at.id)}/hours${query.size ? `?${query}` : ""}`;
  };
  return {
    everyMs: 4000,
    load: async () => {
      const found = ask(jobPath(at.id, "/partitions"), { route: at.query.get("route"), find: looked || null });
      const why = wanted.partition ? ask(jobPath(at.id, "/why"), wanted).catch((error) => ({ error: error.error })) : null;
      const { routes, routes_left_out } = await found;
      return { routes, left_out: routes_left_out, why: await why };
    },
    render: (data, job, again) => {
      const only = at.query.get("route");
      const many = !only && data.routes.length + data.left_out > MOST_TABLES;
      const routes = data.routes.filter((each) => (only ? each.route === only : !many || each.route.includes(looked) || each.table?.includes(looked)));
      const good = routes.filter((each) => !each.error);
      const find = (text) => {
        looked = text;
        again();
      };
      return [
        only ? h("p", { class: "bar", "data-key": "only" }, `Only ${only}. `, h("a", { href: `#/job/${encodeURIComponent(at.id)}/hours` }, "All tables")) : null,
        many ? h("div", { class: "bar", "data-key": "find" }, finder("Find a route or table", looked, find)) : null,
        routes.filter((each) => each.error).slice(0, MOST_ERRORS).map((each) => h("div", { "data-key": `e-${each.route}` }, problem(each.error, each.route))),
        board(good, job, wanted, link, again),
        data.why ? whyPanel(data.why, wanted, link, job.now_ms) : null,
        listing(good, link, again),
      ];
    },
  };
}

// Late rows in a time, and those aside, which readers of the table do not see.
function lateOf(each) {
  const aside = each.late_rows_aside ?? 0;
  const inside = each.late_rows - aside;
  return aside ? [inside ? `${count(inside)} in it` : null, `${count(aside)} aside`].filter(Boolean).join(", ") : count(each.late_rows);
}

// An hour that is over, and that no row has come for.
const stateOf = (each) => (each.files || each.rows || !["open", "overdue"].includes(each.state) ? each.state : `${each.state}, no row yet`);

const timed = (route) => route.prefixes.filter((each) => each.begin_ms !== null);

function board(routes, job, wanted, link, again) {
  const all = routes.flatMap(timed);
  const choose = (value) => {
    spanShown = value;
    again();
  };
  const bar = h("div", { class: "bar" }, h("h2", {}, "Hours of each table"),
    choice("How much time", [["24h", "24 hours"], ["48h", "48 hours"], ["14d", "14 days"]], spanShown, choose), legend());
  if (!all.length) return h("section", { class: "card", "data-key": "board" }, bar, empty("No time of a table is known yet: nothing is committed, or its columns say no time."));
  const [unit, columns] = COLUMNS[spanShown];
  const zone = routes[0].timezone;
  // Not by arguments: a call takes some ten thousand of them at most.
  const greatest = (values, least) => values.reduce((most, each) => Math.max(most, each), least);
  const known = greatest(all.map((each) => Math.min(each.begin_ms, job.now_ms)), -Infinity);
  // The board ends now, unless all that is known lies before what it shows.
  const latest = job.now_ms - known < unit * columns ? job.now_ms : known;
  // Whole days begin where the latest one does, whatever the zone.
  const days = all.filter((each) => each.end_ms - each.begin_ms >= 23 * HOUR).map((each) => each.begin_ms);
  const day0 = greatest(days, -Infinity);
  const aligned = unit === HOUR || day0 === -Infinity ? 0 : day0;
  const base = aligned + Math.floor((latest - aligned) / unit) * unit;
  const first = base - (columns - 1) * unit;
  const heads = Array.from({ length: columns }, (_, index) => first + index * unit);
  const shown = routes.length > MOST_TABLES ? [...routes].sort((a, b) => need(b) - need(a)).slice(0, MOST_TABLES) : routes;
  const cells = shown.map((route) => line(route, { first, unit, columns, wanted, link }));
  const sparse = columns > 24 ? 6 : 3;
  return h("section", { class: "card", "data-key": "board" }, bar,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Board of hours" },
      h("table", { class: `board ${columns > 24 ? "dense" : ""}` },
        h("caption", { class: "unseen" }, "State of each time of each table; each cell says why"),
        h("thead", {},
          unit === HOUR ? h("tr", {}, h("td", {}), daysOf(heads, zone)) : null,
          h("tr", {}, h("th", { scope: "col" }, `Table, times in ${zone}`), heads.map((at, index) => {
            const text = unit === HOUR ? clock(at, zone).slice(0, 2) : day(at, zone);
            const isNow = at <= job.now_ms && job.now_ms < at + unit;
            const kind = [index % sparse && unit === HOUR && !isNow ? "minor" : "", isNow ? "now" : ""].join(" ").trim();
            return h("th", { scope: "col", class: kind || null, "aria-current": isNow ? "time" : null }, text, isNow ? h("span", { class: "now-mark" }, "now") : null);
          }))),
        h("tbody", {}, cells))),
    routes.length > shown.length ? h("p", { class: "where" }, `${shown.length} of ${count(routes.length)} tables, those with overdue and late hours first.`) : null);
}

const need = (route) => route.prefixes.reduce((most, each) => Math.max(most, WORST.length - WORST.indexOf(each.state)), 0);

function daysOf(heads, zone) {
  const groups = [];
  for (const at of heads) {
    const name = day(at, zone);
    if (groups.at(-1)?.name === name) groups.at(-1).size += 1;
    else groups.push({ name, size: 1 });
  }
  // A name is wider than two columns; a screen reader is told it all the same.
  return groups.map((each) =>
    h("th", { scope: "colgroup", colspan: each.size, class: "day" }, each.size > 2 ? each.name : h("span", { class: "unseen" }, each.name)));
}

function line(route, { first, unit, columns, wanted, link }) {
  const cells = [];
  const places = new Map();
  for (const each of timed(route)) {
    const start = Math.max(0, Math.floor((each.begin_ms - first) / unit));
    const end = Math.min(columns, Math.max(start + 1, Math.ceil((each.end_ms - first) / unit)));
    if (each.end_ms <= first || start >= columns) continue;
    places.set(start, { size: end - start, held: [...(places.get(start)?.held ?? []), each] });
  }
  for (let column = 0; column < columns;) {
    const found = places.get(column);
    if (!found) {
      cells.push(h("td", { class: "none" }));
      column += 1;
      continue;
    }
    const size = Math.min(found.size, columns - column);
    cells.push(h("td", { colspan: size > 1 ? size : null }, cell(route, found.held, wanted, link)));
    column += size;
  }
  return h("tr", { "data-key": route.route }, h("th", { scope: "row" }, route.table), cells);
}

const WORST = ["overdue", "late", "open", "closed", "ready", "expired"];

// Several times in one column, as the hours of a day, are shown as the worst of them.
function cell(route, held, wanted, link) {
  const worst = [...held].sort((a, b) => WORST.indexOf(a.state) - WORST.indexOf(b.state))[0];
  const rows = held.reduce((sum, each) => sum + each.rows, 0);
  const begins = `${day(held[0].begin_ms, route.timezone)} ${clock(held[0].begin_ms, route.timezone)}`;
  const several = held.length > 1 ? `${held.length} times, the worst ` : "";
  const label = `${route.table}, ${begins}: ${several}${stateOf(worst)}, ${count(rows)} rows${worst.late_rows ? `, ${count(worst.late_rows)} late` : ""}`;
  const chosen = held.some((each) => each.prefix === wanted.partition) && route.route === wanted.route;
  return h("a", {
    class: `cell ${worst.state}`, href: chosen ? link() : link(route.route, worst.prefix), title: label, "aria-label": label,
    "aria-current": chosen ? "true" : null, "data-key": worst.prefix,
  }, h("span", { "aria-hidden": "true" }, SIGNS[worst.state]), worst.late_rows && worst.state !== "late" ? h("i", { class: "late-dot", "aria-hidden": "true" }) : null);
}

function legend() {
  return h("ul", { class: "legend", "aria-label": "What the signs mean" },
    Object.entries(STANDS).filter(([state]) => state !== "expired").map(([state, text]) => h("li", { title: text }, h("span", { class: `cell small ${state}`, "aria-hidden": "true" }, SIGNS[state]), state)),
    h("li", { title: "some of its rows came late" }, h("i", { class: "late-dot", "aria-hidden": "true" }), "had late rows"));
}

function whyPanel(why, wanted, link, now) {
  const close = h("a", { class: "close", href: link(), "aria-label": "Close" }, "✕");
  if (why.error) return h("section", { class: "card why", "data-key": "why", "aria-live": "polite" }, close, problem(why.error, wanted.partition));
  const facts = [
    ["Rows", count(why.rows)], ["Version", why.version || "not announced"],
    ["Time", why.begin_ms === null ? "–" : `${moment(why.begin_ms)} to ${moment(why.end_ms)}`],
    ["Watermark", moment(why.watermark_ms)], ["Needed watermark", moment(why.needs_ms)],
    ["Expected", moment(why.expected_ms)], ["Log ends read", why.looked_at_ms === null ? "–" : ago(why.looked_at_ms, now)],
    ["Announced to", Object.entries(why.announced_to).map(([name, done]) => `${name}: ${done ? "yes" : "not yet"}`).join(", ") || "none"],
  ];
  const holders = why.holders.map((each) => h("tr", {}, h("th", { scope: "row" }, `${each.topic}[${each.partition}]`), h("td", {}, each.reason),
    h("td", {}, moment(each.at_ms)), h("td", {}, moment(each.needs_ms)), number(count(each.behind_records))));
  return h("section", { class: "card why", "data-key": "why", "aria-live": "polite" }, close,
    h("h2", {}, `Why is ${why.prefix} of ${wanted.route} `, badge(why.state ?? "no such time", KINDS[why.state] ?? "still"), "?"),
    h("p", { class: "why-text" }, why.text),
    h("dl", {}, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))),
    holders.length ? table("Source partitions that hold it", [["Held by"], ["Because"], ["Is at"], ["Has to be at"], ["Behind", "number"]], holders) : null);
}

function listing(routes, link, again) {
  const choose = (value) => {
    stateShown = value;
    again();
  };
  const all = routes.flatMap((route) => route.prefixes.map((each) => ({ route, each })));
  const counts = new Map();
  for (const route of routes) for (const [state, held] of Object.entries(route.counts)) counts.set(state, (counts.get(state) ?? 0) + held);
  const states = Object.keys(STANDS).filter((state) => counts.get(state));
  const whole = [...counts.values()].reduce((sum, each) => sum + each, 0);
  const number_of = stateShown === "all" ? whole : counts.get(stateShown) ?? 0;
  const found = all.filter(({ each }) => stateShown === "all" || each.state === stateShown);
  const recent = [...found].sort((a, b) => (b.each.begin_ms ?? 0) - (a.each.begin_ms ?? 0));
  const rows = recent.slice(0, MOST_LISTED).map(({ route, each }) => h("tr", { "data-key": `${route.route} ${each.prefix}` },
    h("td", { class: "name" }, route.table), h("th", { scope: "row" }, h("a", { href: link(route.route, each.prefix) }, each.prefix)),
    h("td", {}, badge(stateOf(each), KINDS[each.state], STANDS[each.state])), number(each.version || "–"), number(`${each.whole ? "" : "≥ "}${count(each.rows)}`),
    number(count(each.files)), number(bytes(each.size_bytes)), number(lateOf(each), { class: each.late_rows ? "warn-text" : "" }), number(span(each.delay_ms))));
  const heads = [["Table"], ["Partition"], ["State"], ["Version", "number"], ["Rows", "number"], ["Files", "number"], ["Bytes", "number"], ["Late", "number"], ["Announced after", "number"]];
  return h("section", { class: "card", "data-key": "listing" },
    h("div", { class: "bar" }, h("h2", {}, "All partitions, newest first"), choice("State", [["all", `all ${count(whole)}`], ...states.map((state) => [state, `${state} ${count(counts.get(state))}`])], stateShown, choose)),
    rows.length ? table("Partitions, newest first", heads, rows) : empty("None."),
    number_of > rows.length ? h("p", { class: "where" }, `The newest ${rows.length} of ${count(number_of)}; \`sluiceway partitions list\` has all.`) : null);
}
