// Which view is shown, and its looks at the data, every few seconds while somebody sees them.

import { Refused, hasToken, setToken } from "./api.js";
import { h, show } from "./dom.js";
import { fleetView } from "./fleet.js";
import { jobView } from "./job.js";
import { problem } from "./parts.js";

const main = document.getElementById("main");
const crumbs = document.getElementById("crumbs");
const pulse = document.getElementById("pulse");
const theme = document.getElementById("theme");

let turn = 0;
let timer = 0;
let lastGood = 0;

function place() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const [kind, id, tab] = path.split("/").filter(Boolean).map(decoded);
  return { kind, id, tab: tab ?? "overview", query: new URLSearchParams(query ?? "") };
}

// An address may be cut off, or typed.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function viewOf(at) {
  return at.kind === "job" && at.id ? jobView(at) : fleetView();
}

async function look(mine, view) {
  clearTimeout(timer);
  try {
    const data = await view.load();
    if (mine !== turn) return;
    lastGood = Date.now();
    show(crumbs, view.crumbs(data));
    document.title = `${view.title(data)} – Sluiceway`;
    show(main, view.render(data, () => render(mine, view, data)));
    if (data.version) document.getElementById("version").textContent = `Sluiceway ${data.version}`;
    beat(true);
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof Refused)) return failed(mine, view, error);
    if (error.status === 401) {
      show(main, login());
      main.querySelector("input")?.focus();
      return;
    }
    beat(false, error.message);
    if (!main.dataset.shown || error.status) show(main, problem(error.error, "This cannot be shown now"));
  }
  main.dataset.shown = "1";
  timer = setTimeout(() => look(mine, view), document.hidden ? 30_000 : view.everyMs);
}

// What cannot be drawn is told, and looked at again: a page that stands still looks like all is well.
function failed(mine, view, error) {
  console.error(error);
  show(main, problem({ message: `this view cannot be drawn: ${error.message}`, hint: "please report it; `sluiceway status` says the same in words" }));
  timer = setTimeout(() => look(mine, view), 10_000);
}

function render(mine, view, data) {
  if (mine === turn) show(main, view.render(data, () => render(mine, view, data)));
}

function beat(good, why = "") {
  const word = good ? "live" : "no answer";
  pulse.className = `pulse ${good ? "good" : "bad"}`;
  // Told to screen readers only when it changes.
  if (pulse.dataset.word !== word) show(pulse, h("span", { "aria-hidden": "true", class: "dot" }), word);
  pulse.dataset.word = word;
  pulse.title = good ? `looked at ${new Date(lastGood).toISOString().slice(11, 19)} UTC` : why;
}

function begin() {
  const at = place();
  if (at.kind === "token") {
    // A link of `#/token/...` is used once: it does not stay in the address.
    setToken(at.id ?? "");
    history.replaceState(null, "", "#/");
    return begin();
  }
  turn += 1;
  delete main.dataset.shown;
  const key = `${at.kind}/${at.id}/${at.tab}`;
  if (main.dataset.view !== key) {
    show(main, h("p", { class: "loading" }, "Looking …"));
    if (main.dataset.view !== undefined) main.focus();
    scrollTo(0, 0);
  }
  main.dataset.view = key;
  return look(turn, viewOf(at));
}

function login() {
  const send = (event) => {
    event.preventDefault();
    setToken(new FormData(event.currentTarget).get("token").trim());
    begin();
  };
  return h("form", { class: "login", on: { submit: send } },
    h("h1", {}, "A token is needed"),
    h("p", {}, "It is in the file that ", h("code", {}, "sluiceway serve --token-file"), " was given. It is kept for this tab only."),
    hasToken() ? h("p", { class: "warn-text", role: "alert" }, "The server refuses the token that was given.") : null,
    h("label", { for: "token" }, "Token"),
    h("input", { id: "token", name: "token", type: "password", autocomplete: "off", required: true }),
    h("button", { type: "submit" }, "Show the page"));
}

function paint() {
  const chosen = localStorage.getItem("sluiceway-theme") ?? "";
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  theme.value = chosen;
}

theme.addEventListener("change", () => {
  localStorage.setItem("sluiceway-theme", theme.value);
  paint();
});
addEventListener("hashchange", begin);
document.addEventListener("visibilitychange", () => document.hidden || begin());
paint();
begin();

