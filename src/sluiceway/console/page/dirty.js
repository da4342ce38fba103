// Dirty rows by reason, with samples of each and the command that replays them.

import { ask, jobPath } from "./api.js";
import { h, word } from "./dom.js";
import { badge, command, empty, number, problem, table } from "./parts.js";
import { count, moment } from "./words.js";

const MOST_CARDS = 60;
const KINDS = { open: "warn", under_way: "calm", replayed: "good", purged: "still" };

export function dirtyTab(at) {
  const wanted = { route: at.query.get("of"), reason: at.query.get("reason"), path: at.query.get("path"), state: at.query.get("state") };
  const base = `#/job/${encodeURIComponent(at.id)}/dirty`;
  const only = at.query.get("route");
  const link = (route, group) => {
    const query = new URLSearchParams({ ...(only ? { route: only } : {}), ...(group ? { of: route, reason: group.reason, path: group.path, state: group.state } : {}) });
    return query.size ? `${base}?${query}` : base;
  };
  return {
    everyMs: 10_000,
    load: async () => {
      const found = ask(jobPath(at.id, "/dirty"));
      const rows = wanted.route ? ask(jobPath(at.id, "/dirty/rows"), { ...wanted, limit: 10 }).catch((error) => ({ error: error.error })) : null;
      return { routes: (await found).routes, rows: await rows };
    },
    render: (data) => {
      const routes = only ? data.routes.filter((each) => each.route === only) : data.routes;
      return [
        only ? h("p", { class: "bar", "data-key": "only" }, `Only ${only}. `, h("a", { href: base }, "All routes")) : null,
        shown(routes).map((route) => card(route, data.rows, wanted, link)),
        rest(routes),
      ];
    },
  };
}

// Of many routes only those with something to tell.
const told = (route) => route.error || route.groups.length;
const shown = (routes) => (routes.length > MOST_CARDS ? routes.filter(told).slice(0, MOST_CARDS) : routes);

function rest(routes) {
  const left = routes.length - shown(routes).length;
  if (!left) return null;
  const clean = routes.filter((route) => !told(route)).length;
  const more = left - clean;
  return h("p", { class: "where", "data-key": "rest" }, `${count(clean)} routes never had a dirty row${more ? `; ${count(more)} more had: \`sluiceway dirty list\` has all` : ""}.`);
}

function card(route, rows, wanted, link) {
  const head = h("div", { class: "bar" }, h("h2", {}, route.route), route.error ? null : badge(`${count(route.open)} open`, route.open ? "warn" : "good"));
  if (route.error) return h("section", { class: "card", "data-key": `route ${route.route}` }, head, problem(route.error));
  if (!route.groups.length) return h("section", { class: "card", "data-key": `route ${route.route}` }, head, empty("No row of this route was ever dirty."));
  const body = route.groups.flatMap((group) => groupRows(route, group, rows, wanted, link));
  const heads = [["Reason"], ["Field"], ["State"], ["Rows", "number"], ["Files", "number"], ["Slots"], ["Record times"], ["Samples"]];
  return h("section", { class: "card", "data-key": `route ${route.route}` }, head, table(`Dirty rows of ${route.route}`, heads, body),
    route.groups_left_out ? h("p", { class: "where" }, `and ${count(route.groups_left_out)} more fields and reasons; \`sluiceway dirty list\` has all.`) : null, lanes(route));
}

function groupRows(route, group, rows, wanted, link) {
  const open = wanted.route === route.route && wanted.reason === group.reason && wanted.path === group.path && wanted.state === group.state;
  const key = `${group.reason} ${group.path} ${group.state}`;
  const line = h("tr", { "data-key": key, class: open ? "chosen" : null },
    h("th", { scope: "row" }, h("code", {}, group.reason)), h("td", { class: "name", title: group.path }, word(group.path) || "–"), h("td", {}, badge(group.state.replace("_", " "), KINDS[group.state])),
    number(count(group.rows)), number(count(group.files)), h("td", {}, `${group.first_seq} to ${group.last_seq}`),
    h("td", {}, `${moment(group.first_ms)} to ${moment(group.last_ms)}`),
    // A name that is cut off asks for nothing.
    h("td", {}, group.path_is_cut ? "–" : h("a", { href: open ? link() : link(route.route, group), "aria-expanded": String(open), role: "button" }, open ? "Hide" : "Show")));
  if (!open || !rows) return [line];
  return [line, h("tr", { "data-key": `${key} samples`, class: "inside" }, h("td", { colspan: 8 }, samples(group, rows)))];
}

function samples(group, rows) {
  if (rows.error) return problem(rows.error, "Samples");
  return h("div", { class: "samples" },
    group.replay ? [h("p", {}, "Once the job file is repaired, these rows are read once more, each once. First as a dry run:"), command(group.replay)] : null,
    rows.rows.map((row) => h("article", { class: "sample" },
      h("p", {}, h("span", { class: "where" }, `${row.topic}[${row.partition}] offset ${row.offset}, ${moment(row.timestamp_ms)}, slot ${row.slot}`)),
      h("p", {}, row.message),
      rows.values ? h("pre", { tabindex: "0" }, payload(row.value)) : null)),
    rows.more ? h("p", { class: "where" }, "There are more.") : null,
    rows.values ? null : h("p", { class: "where" }, "Payloads are shown where the page is served with --values."));
}

const payload = (value) => (typeof value === "string" ? value : value === null ? "no value" : `hex ${value.hex}`);

function lanes(route) {
  if (!route.lanes.length) return null;
  const rows = route.lanes.map((lane) => h("tr", { "data-key": lane.lane }, h("th", { scope: "row" }, lane.lane.slice(0, 8)), h("td", {}, lane.kind),
    h("td", {}, badge(lane.finished ? "done" : "under way", lane.finished ? "good" : "calm")), number(count(lane.rows)), number(count(Number(lane.written))), number(count(Number(lane.dirty))), h("td", {}, lane.operator), h("td", {}, lane.why || "–")));
  return [h("h3", {}, "Replays and purges"), table(`Lanes of ${route.route}`, [["Lane"], ["Kind"], ["State"], ["Rows", "number"], ["Written", "number"], ["Dirty again", "number"], ["By"], ["Why"]], rows)];
}
