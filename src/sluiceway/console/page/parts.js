// Pieces that several views show.

import { ask } from "./api.js";
import { h } from "./dom.js";
import { routeState } from "./words.js";

const SIGNS = { good: "●", calm: "◔", still: "○", warn: "▲", bad: "■" };

// A state as a word with a sign before it: colour is never the only mark.
export function badge(word, kind, title) {
  const sign = h("span", { "aria-hidden": "true", class: "sign" }, SIGNS[kind] ?? "•");
  return h("span", { class: `badge ${kind}`, title }, sign, word);
}

export const routeBadge = (state) => badge(...routeState(state));

// A table that scrolls by itself where it is too wide. `heads` are [text, "number" or nothing].
export function table(caption, heads, rows, props = {}) {
  const head = heads.map(([text, kind]) => h("th", { scope: "col", class: kind ?? null }, text));
  const body = h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption, ...props }, body);
}

export const number = (text, props = {}) => h("td", { ...props, class: `number ${props.class ?? ""}` }, text);

export function tile(label, value, note, kind = "", href = null) {
  const inside = [h("span", { class: "tile-label" }, label), h("strong", {}, value), h("span", { class: "tile-note" }, note)];
  return href ? h("a", { class: `tile ${kind}`, href }, inside) : h("div", { class: `tile ${kind}` }, inside);
}

// A command as it can be pasted into a shell.
export function command(text) {
  const copy = async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  return h("div", { class: "command" },
    h("code", { tabindex: "0" }, text),
    h("button", { type: "button", "aria-label": `Copy: ${text}`, on: { click: copy } }, "Copy"));
}

// What is wrong and what to do next; `error` as every answer for programs has it.
export function problem(error, title) {
  const code = error.code && error.code !== "SW000" ? error.code : null;
  const list = (error.problems ?? []).map((each) =>
    h("li", {}, h("span", { class: "where" }, `line ${each.line}, column ${each.column}: `), plain(each.problem), each.todo ? [" – ", plain(each.todo)] : null));
  return h("section", { class: "problem", "aria-label": title ?? "Problem" },
    h("p", {}, title ? h("strong", {}, `${title}: `) : null, plain(error.message)),
    error.where ? h("p", { class: "where" }, error.where) : null,
    list.length ? h("ul", {}, list) : null,
    error.hint ? h("p", {}, plain(error.hint)) : null,
    (error.commands ?? []).map(command),
    code ? explanation(code) : null);
}

// The runbook's page of a code, read when it is opened.
export function explanation(code) {
  const place = h("div", { class: "runbook" });
  const open = async (event) => {
    if (!event.currentTarget.open || place.childNodes.length) return;
    try {
      const page = await ask(`explain/${encodeURIComponent(code)}`);
      place.append(h("h3", {}, page.title), ...page.text.split("\n\n").map((each) => h("p", {}, plain(each))));
    } catch (error) {
      place.append(h("p", {}, error.message));
    }
  };
  return h("details", { "data-key": `explain-${code}`, on: { toggle: open } }, h("summary", {}, `${code}: what it means and what to do`), place);
}

// Text with what stands between backticks as code.
export function plain(text) {
  return String(text ?? "").split("`").map((each, index) => (index % 2 ? h("code", {}, each) : each));
}

// A field that looks for names among many.
export function finder(label, text, find) {
  return h("input", { type: "search", class: "finder", placeholder: label, "aria-label": label, autocomplete: "off", value: text, "data-key": `find ${label}`, on: { input: (event) => find(event.currentTarget.value.trim()) } });
}

export const empty = (text) => h("p", { class: "empty" }, text);

const MOST_BUTTONS = 8;

// One of several as a row of buttons; of many, as a list.
export function choice(label, options, chosen, choose) {
  if (options.length > MOST_BUTTONS) {
    return h("select", { "aria-label": label, "data-key": `choice ${label}`, on: { change: (event) => choose(event.currentTarget.value) } },
      options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
  }
  return h("div", { class: "choice", role: "group", "aria-label": label }, options.map(([value, text]) =>
    h("button", { type: "button", "data-key": `c-${value}`, "aria-pressed": String(value === chosen), on: { click: () => choose(value) } }, text)));
}
