// One job: its head and tabs; each tab is a view of its own.

import { ask, jobPath } from "./api.js";
import { dirtyTab } from "./dirty.js";
import { h } from "./dom.js";
import { TABS, jobHref, needsLook, overdue } from "./fleet.js";
import { hoursTab } from "./hours.js";
import { ledgerTab } from "./ledger.js";
import { chosenRoute, overviewTab } from "./overview.js";
import { badge, empty, problem } from "./parts.js";
import { ago } from "./words.js";

const TAB_VIEWS = { overview: overviewTab, hours: hoursTab, dirty: dirtyTab, ledger: ledgerTab };

export function jobView(at) {
  const tab = (TAB_VIEWS[at.tab] ?? overviewTab)(at);
  const name = (data) => data.job.status?.job ?? at.id;
  return {
    everyMs: tab.everyMs,
    load: async () => {
      const job = await ask(jobPath(at.id), { route: chosenRoute() });
      return { job, tab: job.status && !job.status.error ? await tab.load(job) : null };
    },
    title: (data) => `${name(data)}, ${TABS[at.tab] ?? TABS.overview}`,
    crumbs: (data) => [h("a", { href: "#/" }, "Jobs"), h("span", { "aria-hidden": "true" }, "/"), h("span", { "aria-current": "page" }, name(data))],
    render: (data, again) => [
      head(at, data.job, name(data)),
      body(data, tab, again),
    ],
  };
}

function head(at, job, name) {
  const status = job.status;
  const state = !status ? null : status.ok ? badge(needsLook(job) ? "needs a look" : "well", needsLook(job) ? "warn" : "good") : badge("needs attention", "bad");
  const late = (status?.routes ?? []).reduce((sum, route) => sum + overdue(job, route.route), 0);
  const drivers = [...new Set((status?.routes ?? []).map((route) => route.driver).filter(Boolean))];
  return h("div", { class: "job-head", "data-key": "head" },
    h("div", { class: "job-name" }, h("h1", {}, name), state, late ? badge(`${late} overdue`, "warn") : null,
      h("span", { class: "where" }, job.file),
      h("span", { class: "where" }, drivers.length ? `driver: ${drivers.join(", ")}` : "no driver runs"),
      drivers.map((driver) => sparkUi(driver, drivers, status.routes)),
      job.seen_at_ms ? h("span", { class: "where" }, `seen ${ago(job.seen_at_ms, job.now_ms)}`) : null),
    h("nav", { class: "tabs", "aria-label": `Pages of ${name}` }, Object.entries(TABS).map(([tab, text]) =>
      h("a", { href: jobHref(at.id, tab === "overview" ? "" : tab), "aria-current": tab === at.tab ? "page" : null }, text))));
}

// The address may be known of one of a driver's routes alone; null is not known, empty is off.
function sparkUi(driver, drivers, routes) {
  const told = routes.filter((route) => route.driver === driver).map((route) => route.spark_ui);
  const address = told.find(Boolean) ?? (told.includes("") ? "" : null);
  const whose = drivers.length > 1 ? ` of ${driver}` : "";
  if (!/^https?:\/\//.test(address ?? "")) return h("span", { class: "where" }, `Spark UI${whose}: ${address === "" ? "off" : "not known"}`);
  return h("span", { class: "where" }, h("a", { href: address, target: "_blank", rel: "noreferrer noopener" }, `Spark UI${whose}`));
}

function body(data, tab, again) {
  const { status } = data.job;
  if (!status) return empty("It is looked at for the first time …");
  if (status.error && !data.tab) return problem(status.error, "The job cannot be looked at");
  return tab.render(data.tab, data.job, again);
}
