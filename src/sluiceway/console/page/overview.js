// How a job is: charts of the last hour, routes, epochs with their phases, what follows the commits.

import { ask, jobPath } from "./api.js";
import { chart, linesOf } from "./chart.js";
import { h } from "./dom.js";
import { ranked, routeTable } from "./fleet.js";
import { badge, choice, empty, finder, number, problem, table } from "./parts.js";
import { compact, count, exactClock, leftOut, moment, rate, seconds, span } from "./words.js";

const MOST_ROUTES = 100;
const MOST_REPORTS = 20;
const PHASES = ["run", "prepare", "commit", "publish"];
const AFTER = PHASES.slice(1);

let chosen = null;
let looked = "";
const kept = new Map();

// Of a job with very many routes the server tells all of one.
export const chosenRoute = () => chosen;

// The server is asked for what is new since the last look only.
async function historyOf(id) {
  const before = kept.get(id);
  const news = await ask(jobPath(id, "/history"), { since: before?.at_ms.at(-1) ?? 0 });
  const found = before ? joined(before, news) : news;
  kept.set(id, found);
  return found;
}

function joined(before, news) {
  const first = Date.now() - 3_700_000;
  const from = Math.max(0, before.at_ms.findIndex((at) => at >= first));
  const at_ms = [...before.at_ms.slice(from), ...news.at_ms];
  const routes = {};
  for (const name of new Set([...Object.keys(before.routes), ...Object.keys(news.routes)])) {
    const series = Object.keys(before.routes[name] ?? news.routes[name]);
    const gap = (length) => Array(length).fill(null);
    routes[name] = Object.fromEntries(series.map((each) => [each, [
      ...(before.routes[name]?.[each].slice(from) ?? gap(before.at_ms.length - from)),
      ...(news.routes[name]?.[each] ?? gap(news.at_ms.length)),
    ]]));
  }
  return { at_ms, routes };
}

export function overviewTab(at) {
  return {
    everyMs: 2000,
    load: async () => ({ history: await historyOf(at.id) }),
    render: (data, job, again) => [
      job.status.error ? problem(job.status.error, "Routes may be missing") : null,
      reports(job.status.routes),
      charts(data.history, job.now_ms),
      routeCard(job, again),
      chains(job),
      beside(job, again),
    ],
  };
}

function routeCard(job, again) {
  const all = job.status.routes;
  const many = all.length > MOST_ROUTES;
  const found = many ? ranked(job, all.filter((route) => `${route.route} ${route.table}`.includes(looked))) : all;
  const shown = found.slice(0, MOST_ROUTES);
  const find = (text) => {
    looked = text;
    again();
  };
  return h("section", { class: "card", "data-key": "routes", "aria-label": "Routes" },
    h("div", { class: "bar" }, h("h2", {}, "Routes"), many ? finder("Find a route or table", looked, find) : null),
    shown.length ? routeTable(job, shown, job.now_ms) : empty(all.length ? "No route has such a name." : "No routes: no topic matches the job's patterns."),
    found.length > shown.length ? h("p", { class: "where" }, `${shown.length} of ${count(found.length)}, those that need a look first; \`sluiceway status\` has all.`) : null);
}

// Tables that routes read: how far each is with its own, and what it waits for.
function chains(job) {
  const found = job.status.routes.filter((route) => route.upstream);
  if (!found.length) return null;
  const rows = found.map((route) => h("tr", { "data-key": route.route },
    h("th", { scope: "row" }, h("span", { class: "name" }, `${route.upstream.table} → ${route.table}`)), h("td", {}, howFar(route)), h("td", {}, waits(route) || "nothing")));
  return h("section", { class: "card", "data-key": "chains", "aria-label": "Chains" }, h("h2", {}, "Tables that are read"),
    table("Tables that are read", [["Table"], ["How far"], ["Waits for"]], rows));
}

const howFar = ({ upstream }) => upstream.units ? `units: ${count(upstream.units.computed)} computed, ${count(upstream.units.due)} due` : `slot ${upstream.read_slot ?? "?"} of ${upstream.published_slot}`;

const waits = ({ units_wait_for: why, upstream: { units: seen } }) => [why, seen?.open ? `${count(seen.open)} ${seen.open === 1 ? "unit" : "units"} to be complete` : null].filter(Boolean).join("; ");

function reports(routes) {
  return routes.filter((route) => route.message || route.left_out_count || route.attention?.length).slice(0, MOST_REPORTS).map((route) =>
    h("div", { "data-key": `report-${route.route}` }, problem({
      message: [route.message ?? leftOut(route), ...(route.attention ?? [])].filter(Boolean).join("; "), code: route.code, commands: route.report?.commands,
      where: Object.entries(route.report?.evidence ?? {}).map(([name, value]) => `${name} ${value}`).join(", "),
    }, route.route)));
}

function charts(history, now) {
  const times = history.at_ms;
  const one = (title, series, write, least) => chart({ title, times, lines: linesOf(history, series), now, write, least });
  return h("section", { class: "charts", "data-key": "charts", "aria-label": "The last hour" },
    one("Rows a second", "rows_per_s", rate, 2),
    one("Records that wait", "lag_records", compact, 2),
    one("Behind", "lag_ms", span, 2000),
    one("Dirty rows a second", "dirty_rows_per_s", rate, 0.2));
}

function beside(job, again) {
  const running = job.status.routes.filter((route) => route.driver);
  if (!running.length) return h("section", { class: "card", "data-key": "epochs" }, h("h2", {}, "Epochs"), empty("No driver runs. What was committed is in the ledger."));
  const route = running.find((each) => each.route === chosen) ?? running[0];
  const choose = (name) => {
    chosen = name;
    again();
  };
  return [
    running.length > 1 ? h("div", { class: "bar", "data-key": "choose" }, choice("Route", running.map((each) => [each.route, each.route]), route.route, choose)) : null,
    h("div", { class: "columns", "data-key": "columns" },
      h("section", { class: "card", "aria-label": "Epochs" },
        h("div", { class: "bar" }, h("h2", {}, `Last epochs of ${route.route}`), route.watermark_ms === null ? null : h("span", { class: "where" }, `watermark ${moment(route.watermark_ms)}`)), epochs(route)),
      h("section", { class: "card", "aria-label": "Followers" }, h("h2", {}, `What follows the commits of ${route.route}`), followers(route))),
  ];
}

function epochs(route) {
  if (!route.epochs) return empty("Looking …");
  if (!route.epochs.length) return empty("This driver has committed no rows yet.");
  const most = Math.max(...route.epochs.map(afterRun), 0.001);
  const heads = [["Slot", "number"], ["Committed"], ["Rows", "number"], ["Dirty", "number"], ["Files", "number"], ["Run", "number"], ["Prepare, commit, publish"]];
  const rows = [...route.epochs].reverse().map((each) => h("tr", { "data-key": each.seq },
    number(each.seq), h("td", {}, exactClock(each.committed_ms)), number(count(each.rows_read)),
    number(count(each.rows_dirty), { class: each.rows_dirty ? "warn-text" : "" }), number(each.files), number(seconds(each.phases.run)),
    h("td", { class: "phases" }, h("div", { class: "phase-line" },
      h("span", { class: "phase-bar", "aria-hidden": "true" }, AFTER.map((phase) => h("i", { class: `phase ${phase}`, style: { width: `${(100 * (each.phases[phase] ?? 0)) / most}%` } }))),
      h("span", { class: "phase-text", title: AFTER.map((phase) => `${phase} ${seconds(each.phases[phase])}`).join(", ") }, AFTER.map((phase) => seconds(each.phases[phase])).join(" + "))))));
  return [table(`Last epochs of ${route.route}`, heads, rows),
    h("p", { class: "legend" }, AFTER.map((phase) => h("span", {}, h("i", { class: `key phase ${phase}`, "aria-hidden": "true" }), phase)))];
}

const afterRun = (epoch) => AFTER.reduce((sum, phase) => sum + (epoch.phases[phase] ?? 0), 0);

function followers(route) {
  if (!route.followers) return empty("Looking …");
  if (!route.followers.length) return empty("Nothing has followed yet.");
  const rows = route.followers.map((each) => h("tr", { "data-key": each.name },
    h("th", { scope: "row" }, each.name), h("td", {}, each.lags ? badge("behind", "warn") : badge("up to date", "good")),
    number(each.place), number(count(each.behind_slots)), number(span(each.behind_ms)), h("td", {}, each.waits_for || "nothing")));
  return table(`Followers of ${route.route}`, [["Follower"], ["State"], ["Place", "number"], ["Behind, slots", "number"], ["For", "number"], ["Waits for"]], rows);
}
