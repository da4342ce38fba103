// All jobs: what needs a person first, then each job with its routes.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { badge, empty, number, plain, problem, routeBadge, table, tile } from "./parts.js";
import { ago, behind, compact, count, leftOut, rate, span } from "./words.js";

const MOST_ROUTES = 12;
const MOST_NOTES = 40;

export const jobHref = (id, tab = "") => `#/job/${encodeURIComponent(id)}${tab ? `/${tab}` : ""}`;

export function fleetView() {
  return {
    everyMs: 2000,
    load: () => ask("fleet"),
    title: () => "Jobs",
    crumbs: () => [h("span", { "aria-current": "page" }, "Jobs")],
    render: (data) => [
      h("h1", { class: "unseen" }, "Jobs"),
      tiles(data.jobs),
      attention(data.jobs, data.now_ms),
      data.jobs.map((job) => card(job, data.now_ms)),
    ],
  };
}

const routesOf = (jobs) => jobs.flatMap((job) => (job.status?.routes ?? []).map((route) => ({ job, route })));

// States of a route that has no ledger yet: nothing of it is to be known.
const UNBORN = new Set(["not_started", "no_table"]);

const STALE_MS = 60_000;

export const needsLook = (job) => !job.status.ok || job.status.routes.some((route) => route.attention?.length || overdue(job, route.route));

export const overdue = (job, route) => job.stands?.[route]?.overdue ?? 0;

function tiles(jobs) {
  const all = routesOf(jobs);
  const sum = (pick) => all.reduce((found, each) => found + (pick(each) ?? 0), 0);
  // A sum of which parts are not known is at least so much.
  const known = (pick) => all.every((each) => UNBORN.has(each.route.state) || (pick(each) ?? null) !== null);
  const total = (pick, write = compact) => `${known(pick) ? "" : "≥ "}${write(sum(pick))}`;
  const ill = jobs.filter((job) => job.status && needsLook(job)).length;
  const unseen = jobs.filter((job) => !job.status).length;
  const running = all.filter(({ route }) => route.driver).length;
  const age = ({ route }) => route.lag_ms ?? route.lag_at_least_ms ?? (route.lag_records === 0 ? 0 : null);
  const furthest = all.reduce((most, each) => (age(each) === null ? most : Math.max(most ?? 0, age(each))), null);
  const exact = known(age) && all.every(({ route }) => route.lag_ms !== null || route.lag_records === 0 || UNBORN.has(route.state));
  const dirty = sum(({ route }) => route.rows_dirty_open);
  const stands = ({ job, route }) => (job.stands?.[route.route] ? overdue(job, route.route) : null);
  const late = sum(stands);
  const well = unseen ? "not all are looked at yet" : "all well";
  return h("section", { class: "tiles", "aria-label": "All jobs together" },
    tile("Jobs", count(jobs.length), ill ? `${ill} ${ill === 1 ? "needs" : "need"} attention` : well, ill ? "bad" : unseen ? "" : "good"),
    tile("Routes running", `${running} of ${all.length}`, "each fills one table"),
    tile("Rows a second", rate(sum(({ route }) => (route.driver ? route.rows_per_s : 0))), "committed, last minute"),
    tile("Furthest behind", furthest === null || (furthest === 0 && !exact) ? "not known" : `${exact ? "" : "≥ "}${span(furthest)}`,
      `${total(({ route }) => route.lag_records)} records wait`),
    tile("Overdue", total(stands, count), late === 1 ? "hour or day is open too long" : "hours or days are open too long", late ? "warn" : ""),
    tile("Dirty rows open", total(({ route }) => route.rows_dirty_open), dirty ? "kept whole, can be replayed" : known(({ route }) => route.rows_dirty_open) ? "none" : "not known", dirty ? "warn" : ""));
}

function attention(jobs, now) {
  const found = [];
  for (const job of jobs) {
    if (job.seen_at_ms && now - job.seen_at_ms > STALE_MS) found.push(note("warn", job, "", `not looked at for ${span(now - job.seen_at_ms)}: what is shown is so old`));
    if (job.status?.error) found.push(note("bad", job, "", told(job.status.error), job.status.error.code));
    for (const route of job.status?.routes ?? []) {
      const name = route.route === job.status.job ? "" : route.route;
      const mild = route.state === "waiting" || (route.left_out_count > 0 && !route.message);
      const looks = route.attention ?? [];
      if (!route.ok && (route.message || route.left_out_count || !looks.length)) found.push(note(mild ? "warn" : "bad", job, name, route.message ?? leftOut(route) ?? route.state, route.code));
      found.push(...looks.map((text) => note("warn", job, name, text)));
      const late = overdue(job, route.route);
      if (late) found.push(note("warn", job, name, `${late} ${late === 1 ? "time is" : "times are"} overdue in ${route.table}`, null, "hours"));
    }
  }
  if (!found.length && jobs.some((job) => !job.status)) return h("p", { "data-key": "attention" }, "Not all jobs are looked at yet.");
  if (!found.length) return h("p", { class: "well", "data-key": "attention" }, badge("All is well", "good"), " Every job can be looked at, and no hour is overdue.");
  const [bad, others] = [true, false].map((is) => found.filter((each) => each.isBad === is));
  const shown = found.length > MOST_NOTES ? [...bad, ...others].slice(0, MOST_NOTES) : found;
  return h("section", { class: "attention", "data-key": "attention", "aria-labelledby": "attention" },
    h("h2", { id: "attention" }, "Needs attention"), h("ul", {}, shown.map((each) => each.node)),
    found.length > shown.length ? h("p", { class: "where" }, `and ${count(found.length - shown.length)} more`) : null);
}

function told(error) {
  const [first] = error.problems ?? [];
  return first ? `${error.message}, first in line ${first.line}: ${first.problem}` : error.message;
}

function note(kind, job, route, text, code, tab = "") {
  const first = String(text).split("\n")[0];
  return { isBad: kind === "bad", node: h("li", {}, badge(kind === "bad" ? "problem" : "look", kind),
    h("a", { href: jobHref(job.id, tab) }, route ? `${job.status.job} / ${route}` : job.status.job),
    h("span", { class: "note-text" }, code && code !== "SW000" ? h("span", { class: "code" }, code) : null, plain(first))) };
}

function card(job, now) {
  const status = job.status;
  const name = status?.job ?? job.id;
  const routes = status?.routes ?? [];
  const shown = routes.slice(0, MOST_ROUTES);
  return h("section", { class: "card", "data-key": `job ${job.id}`, "aria-label": `Job ${name}` },
    h("div", { class: "card-head" },
      h("h2", {}, h("a", { href: jobHref(job.id) }, name)),
      h("span", { class: "where" }, job.file),
      h("nav", { class: "card-links", "aria-label": `Pages of ${name}` }, ["hours", "dirty", "ledger"].map((tab) => h("a", { href: jobHref(job.id, tab) }, TABS[tab])))),
    status?.error ? problem(status.error) : null,
    !status ? empty("It is looked at for the first time …") : null,
    shown.length ? routeTable(job, shown, now) : status && !status.error ? empty("No routes: no topic matches the job's patterns.") : null,
    routes.length > shown.length ? h("p", {}, h("a", { href: jobHref(job.id) }, `All ${routes.length} routes`)) : null);
}

export const TABS = { overview: "Overview", hours: "Hours", dirty: "Dirty rows", ledger: "Ledger" };

// Routes that need a look first, then the others in their order.
export const ranked = (job, routes) => [...routes].sort((a, b) => need(job, b) - need(job, a));

const need = (job, route) => (route.ok === false ? 2 : overdue(job, route.route) || route.attention?.length ? 1 : 0);

export function routeTable(job, routes, now) {
  const heads = [["Route"], ["Table"], ["State"], ["Rows/s", "number"], ["Behind", "number"], ["Lag", "number"], ["Read", "number"],
    ["Dirty, open", "number"], ["Late", "number"], ["Overdue", "number"], ["Last commit", "number"]];
  return table(`Routes of ${job.status.job}`, heads, routes.map((route) => routeRow(job, route, now)));
}

function routeRow(job, route, now) {
  const late = job.stands?.[route.route]?.overdue;
  const link = (value, tab, kind) => (value ? h("a", { href: `${jobHref(job.id, tab)}?${new URLSearchParams({ route: route.route })}`, class: kind }, count(value)) : count(value));
  return h("tr", { "data-key": route.route },
    h("th", { scope: "row" }, route.route),
    h("td", { class: "name" }, route.table),
    h("td", {}, routeBadge(route.state)),
    number(route.driver ? rate(route.rows_per_s) : "–"),
    number(behind(route)),
    number(`${route.left_out_count && route.lag_records !== null ? "≥ " : ""}${count(route.lag_records)}`),
    number(compact(route.rows_read), { title: count(route.rows_read) }),
    number(link(route.rows_dirty_open, "dirty", "warn-text")),
    number(count(route.rows_late)),
    number(link(late, "hours", "warn-text")),
    number(ago(route.last_commit_ms, now)));
}
