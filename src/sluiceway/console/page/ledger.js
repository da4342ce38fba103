// The ledger of a route, record by record.

import { ask, jobPath } from "./api.js";
import { h } from "./dom.js";
import { badge, choice, empty, table } from "./parts.js";
import { count } from "./words.js";

const STEP = 50;
const KINDS = { DATA: "calm", READY: "good", FENCE: "still", RESET: "warn", SOURCES: "still" };

export function ledgerTab(at) {
  const from = at.query.get("from");
  let route = at.query.get("route");
  const link = (start, name = route) => {
    const query = new URLSearchParams({ route: name, ...(start === null ? {} : { from: start }) });
    return `#/job/${encodeURIComponent(at.id)}/ledger?${query}`;
  };
  return {
    everyMs: from === null ? 4000 : 60_000,
    load: async (job) => {
      const names = job.status.routes.map((each) => each.route);
      route = names.includes(route) ? route : names[0];
      return { names, found: route ? await ask(jobPath(at.id, "/ledger"), { route, from, limit: STEP }) : null };
    },
    render: ({ names, found }) => {
      if (!found) return empty("The job has no routes.");
      const first = found.records[0]?.seq ?? Number(from ?? 0);
      const after = (found.records.at(-1)?.seq ?? first) + 1;
      const go = (event) => {
        event.preventDefault();
        location.hash = link(new FormData(event.currentTarget).get("slot"));
      };
      return h("section", { class: "card", "data-key": "ledger" },
        h("div", { class: "bar" },
          names.length > 1 ? choice("Route", names.map((name) => [name, name]), route, (name) => (location.hash = link(null, name))) : h("h2", {}, route),
          h("span", { class: "where" }, `${count(found.next_seq)} records`),
          h("form", { class: "go", on: { submit: go } }, h("label", { for: "slot" }, "From slot"),
            h("input", { id: "slot", name: "slot", type: "number", min: 0, max: Math.max(0, found.next_seq - 1), required: true }), h("button", { type: "submit" }, "Go")),
          h("nav", { class: "pages", "aria-label": "Pages of the ledger" },
            first > 0 ? h("a", { href: link(Math.max(0, first - STEP)) }, "Older") : null,
            after < found.next_seq ? h("a", { href: link(after) }, "Newer") : null,
            from !== null ? h("a", { href: link(null) }, "Newest") : null)),
        table(`Ledger of ${route}, newest first`, [["Slot", "number"], ["Term", "number"], ["Type"], ["What"]], [...found.records].reverse().map(record)));
    },
  };
}

function record(each) {
  return h("tr", { "data-key": each.seq },
    h("td", { class: "number" }, each.seq), h("td", { class: "number" }, each.term), h("td", {}, badge(each.type, KINDS[each.type] ?? "calm")),
    h("td", { class: "what" }, h("details", {}, h("summary", {}, each.what), h("pre", { tabindex: "0" }, each.raw),
      each.raw_is_cut ? h("p", { class: "where" }, "It is longer; `sluiceway ledger show -o json` has all of it.") : null)));
}
