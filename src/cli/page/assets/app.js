// Routes addresses to views, and updates the current view when the server reports changes, unless the page is paused.

import { ask, bytes, count, grouped, h, setText } from "./dom.js";
import { TracesView } from "./traces.js";
import { TraceView } from "./trace.js";
import { LogsView } from "./logs.js";
import { MetricsView } from "./metrics.js";
import { RequestsView, ServicesView } from "./services.js";

/** Milliseconds between two polls, while there is no event stream. */
const POLL = 2000;
/** Number of polls before the next attempt to open an event stream. */
const POLLS = 15;
const views = {
  traces: TracesView,
  trace: TraceView,
  logs: LogsView,
  metrics: MetricsView,
  services: ServicesView,
  requests: RequestsView,
};

const byId = (id) => document.getElementById(id);

/** State and functions that the views share. */
export const app = {
  services: [],
  state: undefined,
  query: "",
  live: true,
  view: undefined,
  /** Address of the list that a trace was opened from, and the id of that trace. */
  list: "/",
  opened: undefined,

  go(path) {
    history.pushState(undefined, "", path);
    show();
  },

  /** Changes the address without changing the view. */
  note(path) {
    history.replaceState(undefined, "", path);
  },

  service(number) {
    return this.services[number] || "(no service)";
  },

  /** Returns the server's result for the search, or undefined if the search or the view has changed meanwhile. Shows errors. */
  async find(view, path) {
    const { query } = app;
    const [answer, error] = await ask(`${path}q=${encodeURIComponent(query)}`).then((found) => [found], (refused) => [undefined, refused]);
    if (query !== app.query || app.view !== view) return undefined;
    app.problem(error?.message);
    return answer;
  },

  /** Shows an error of the search below the search field. */
  problem(text) {
    const element = byId("problem");
    element.hidden = !text;
    setText(element, text ?? "");
  },
};

function show() {
  const [name, ...rest] = location.pathname.slice(1).split("/");
  const kind = name === "" ? "traces" : name;
  const parameters = new URLSearchParams(location.search);
  app.view?.close?.();
  app.problem();
  app.query = parameters.get("q") ?? "";
  byId("search").value = app.query;
  const main = byId("view");
  main.replaceChildren();
  main.className = kind;
  for (const link of document.querySelectorAll("nav a")) {
    const is = link.dataset.view === (kind === "trace" ? "traces" : kind);
    if (is) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (kind === "traces") app.list = `/${location.search}`;
  app.view = new (views[kind] ?? TracesView)(app, main, rest, parameters);
  byId("search").placeholder = app.view.placeholder ?? "";
  byId("search").disabled = !app.view.search;
  document.title = app.view.title ?? "standpipe";
  return app.view.update();
}

async function refresh() {
  let state;
  try {
    state = await ask("/api/state");
  } catch {
    setText(byId("foot"), "standpipe does not answer; it may have ended. The page continues when standpipe answers again.");
    document.body.classList.add("gone");
    return;
  }
  document.body.classList.remove("gone");
  app.state = state;
  app.services = state.services;
  const { counts } = state;
  const kept = (kept, all, what) => (kept === all ? count(all, what) : `${grouped(kept)} of ${count(all, what)}`);
  setText(
    byId("foot"),
    [
      `${state.http} (HTTP)`,
      `${state.grpc} (gRPC)`,
      `kept ${kept(state.kept_traces, counts.traces, "trace")}`,
      kept(state.kept_logs, counts.logs, "log record"),
      `${bytes(state.bytes)} of ${bytes(state.limit)}`,
    ].join("  ·  "),
  );
  const requests = document.querySelector('nav a[data-view="requests"]');
  setText(requests, counts.refused ? `Requests (${counts.refused}!)` : "Requests");
  requests.classList.toggle("bad", counts.refused > 0);
  if (app.live) await app.view?.update();
}

let isRefreshing = false;
let isStale = false;

/** Refreshes the view. Only one refresh runs at a time; a change during a refresh causes one more. */
async function news() {
  isStale = true;
  if (isRefreshing) return;
  isRefreshing = true;
  try {
    while (isStale) {
      isStale = false;
      await refresh();
    }
  } finally {
    isRefreshing = false;
  }
}

let stream;
let timer;

/** Opens the event stream while the page is visible. If the stream fails, the page polls. */
function connect() {
  stream?.close();
  clearInterval(timer);
  stream = undefined;
  if (document.hidden) return;
  stream = new EventSource("/api/events");
  stream.onmessage = news;
  stream.onerror = () => {
    stream.close();
    let polls = 0;
    clearInterval(timer);
    timer = setInterval(() => (++polls % POLLS || document.body.classList.contains("gone") ? news() : connect()), POLL);
    news();
  };
}

function setLive(live) {
  app.live = live;
  const button = byId("live");
  setText(button, live ? "● live" : "❚❚ paused");
  button.classList.toggle("paused", !live);
  if (live) news();
}

function setTheme(theme) {
  const isDark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  setText(byId("theme"), isDark ? "☀" : "☾");
  byId("theme").onclick = () => {
    localStorage.setItem("theme", isDark ? "light" : "dark");
    setTheme(isDark ? "light" : "dark");
    app.view?.redraw?.();
  };
}

const KEYS = [
  ["j k ↑ ↓", "row"], ["Enter", "open, details"], ["→ ←", "open, close, parent"], ["/", "search"],
  ["n N", "next, previous match"], ["e E", "next, previous error"], ["c", "critical path"],
  ["z", "zoom to the span"], ["0", "zoom to the whole trace"], ["[ ]", "collapse, expand all"],
  ["y", "copy as text"], ["Y", "copy as JSON"], ["t l m s r", "traces, logs, metrics, services, requests"],
  ["p", "pause"], ["Esc", "back"], ["?", "this list"],
];

function showKeys() {
  const rows = KEYS.map(([keys, what]) => h("tr", {}, h("td", {}, h("kbd", {}, keys)), h("td", {}, what)));
  const dialog = h("dialog", { class: "keys", onclose: () => dialog.remove(), onclick: () => dialog.close() },
    h("h2", {}, "Keys"), h("table", {}, ...rows));
  document.body.append(dialog);
  dialog.showModal();
}

const VIEW_KEYS = { t: "/", l: "/logs", m: "/metrics", s: "/services", r: "/requests" };

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog")) return;
  const field = event.target.closest("input, select, textarea");
  if (field) {
    if (event.key === "Escape") field.blur();
    else if (field.id === "search" && event.key === "ArrowDown") byId("view").querySelector(".rows")?.focus();
    return;
  }
  // Enter and space activate the focused control, not the selected row.
  if ((event.key === "Enter" || event.key === " ") && event.target.closest("button, a, summary, [role=link]")) return;
  if (app.view?.key?.(event)) {
    event.preventDefault();
    return;
  }
  if (event.key === "/") byId("search").focus();
  else if (event.key === "p") setLive(!app.live);
  else if (event.key === "?") showKeys();
  else if (event.key in VIEW_KEYS) app.go(VIEW_KEYS[event.key]);
  else return;
  event.preventDefault();
}

let typing;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    app.query = byId("search").value;
    app.view?.search?.(app.query);
  }, 120);
});
byId("live").addEventListener("click", () => setLive(!app.live));
byId("keys").addEventListener("click", showKeys);
document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", connect);
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  app.go(link.getAttribute("href"));
});
addEventListener("popstate", show);

setTheme(localStorage.getItem("theme"));
app.live = false;
// The names of the services are needed before the first view.
await news();
show();
setLive(true);
connect();
