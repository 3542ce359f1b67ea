// Routes addresses to views, and updates the current view when the server reports changes, unless the page is paused.

import { ask, bytes, count, grouped, h, setText, timeOfDay } from "./dom.js";
import { acceptFiles, chooseFiles } from "./files.js";
import { CompareView } from "./profile.js";
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
  compare: CompareView,
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
  /** Time range of all views: "", minutes until now ("15m"), or two times in milliseconds ("170000-180000"). */
  time: "",
  live: true,
  /** State of the server when the page was paused, kept across reloads. */
  paused: JSON.parse(sessionStorage.getItem("paused")) ?? undefined,
  /** Trace that is to be compared with another one. */
  compared: undefined,
  view: undefined,
  /** Address of the list that a trace was opened from, and the id of that trace. */
  list: "/",
  opened: undefined,

  go(path) {
    history.pushState(undefined, "", path);
    show();
  },

  /** Returns the address of a view with the time range, the search, and further parameters. */
  address(path, parameters = {}) {
    const all = new URLSearchParams(Object.entries({ q: app.query, time: app.time, ...parameters }).filter(([, value]) => value));
    return all.size ? `${path}?${all}` : path;
  },

  range() {
    const [from, to] = app.time.split("-").map(Number);
    const end = app.paused?.at ?? Date.now();
    if (app.time.endsWith("m")) return [end - parseInt(app.time, 10) * 60e3, Infinity];
    return app.time ? [from, to] : [0, Infinity];
  },

  setTime(time) {
    app.time = time;
    drawTimes();
    app.note(app.address(location.pathname, Object.fromEntries([...new URLSearchParams(location.search)].filter(([name]) => name !== "q" && name !== "time"))));
    app.view?.reset?.();
    return app.view?.update();
  },

  /** Limits all views to the time between two times in milliseconds. */
  setRange(...ends) {
    return app.setTime(`${Math.floor(Math.min(...ends))}-${Math.ceil(Math.max(...ends))}`);
  },

  note(path) {
    history.replaceState(undefined, "", path);
  },

  service(number) {
    return this.services[number] || "(no service)";
  },

  /** Returns the matches: none for an invalid search, undefined if the request failed or is stale. Shows errors. */
  async find(view, path, parameters = {}) {
    const { query, time } = app;
    const [answer, error] = await ask(app.request(path, parameters)).then((found) => [found], (refused) => [undefined, refused]);
    if (query !== app.query || time !== app.time || app.view !== view) return undefined;
    app.problem(error?.message);
    // After an invalid search, the old rows would look like its matches.
    return answer ?? (error.status === 400 ? { matched: 0, offset: 0, at: null, rows: [], isInvalid: true } : undefined);
  },

  /** Returns the address of a request with the search and the time range. */
  request(path, parameters = {}) {
    const [from, to] = app.range();
    const all = { q: app.query, from: from || "", to: to === Infinity ? "" : to, ...parameters };
    return `${path}?${new URLSearchParams(Object.entries(all).filter(([, value]) => value !== "" && value !== undefined))}`;
  },

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
  app.time = /^(\d+m|[\d.]+-[\d.]+)$/.exec(parameters.get("time") ?? "")?.[0] ?? "";
  drawTimes();
  byId("search").value = app.query;
  const main = byId("view");
  main.replaceChildren();
  main.className = kind;
  for (const link of document.querySelectorAll("nav a")) {
    const is = link.dataset.view === (kind === "trace" || kind === "compare" ? "traces" : kind);
    if (is) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (kind === "traces") app.list = `/${location.search}`;
  app.view = new (views[kind] ?? TracesView)(app, main, rest, parameters);
  byId("search").placeholder = app.view.placeholder ?? "";
  byId("search").disabled = !app.view.search;
  byId("time").hidden = ["trace", "compare", "requests"].includes(kind);
  document.title = app.view.title ?? "standpipe";
  byId("menu").open = false;
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
      ...(state.http ? [`${state.http} (HTTP)`, `${state.grpc} (gRPC)`] : ["records of files"]),
      `kept ${kept(state.kept_traces, counts.traces, "trace")}`,
      kept(state.kept_logs, counts.logs, "log record"),
      `${bytes(state.bytes)} of ${bytes(state.limit)}`,
    ].join("  ·  "),
  );
  const requests = document.querySelector('nav a[data-view="requests"]');
  setText(requests, counts.refused ? `Requests (${counts.refused}!)` : "Requests");
  requests.classList.toggle("bad", counts.refused > 0);
  requests.hidden = !state.http;
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
  const { version, counts } = app.state ?? { counts: {} };
  app.paused = live ? undefined : app.paused ?? { version, logs: counts.logs, at: Date.now() };
  if (live) sessionStorage.removeItem("paused");
  else sessionStorage.setItem("paused", JSON.stringify(app.paused));
  const button = byId("live");
  setText(button, live ? "● live" : "❚❚ paused");
  button.classList.toggle("paused", !live);
  if (live) news();
}

const TIMES = { "": "all time", "1m": "last minute", "5m": "last 5 min", "15m": "last 15 min", "60m": "last hour" };

function drawTimes() {
  const custom = app.time && !(app.time in TIMES) ? [[app.time, app.range().map((time) => timeOfDay(time)).join(" – ")]] : [];
  byId("time").replaceChildren(...[...Object.entries(TIMES), ...custom].map(([value, text]) =>
    h("option", { value, selected: value === app.time }, text)));
}

app.report = (text) => {
  const element = byId("note");
  setText(element, text);
  element.hidden = false;
  clearTimeout(app.reporting);
  app.reporting = setTimeout(() => (element.hidden = true), 8000);
};

async function clear() {
  byId("menu").open = false;
  await fetch("/api/clear", { method: "POST" });
  if (app.paused) setLive(true);
  app.view?.reset?.();
  await news();
}

/** Sets what the menu exports: the records that the current list shows. */
function drawExport() {
  const kind = app.view?.isLogs ? "logs" : "traces";
  const link = byId("export");
  setText(link, app.query || app.time ? `Export these ${kind}` : `Export all ${kind}`);
  link.setAttribute("download", `${kind}.jsonl`);
  link.setAttribute("href", app.request(`/api/export/${kind}`, app.view?.filter?.() ?? {}));
}

function setTheme(theme) {
  const isDark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  setText(byId("theme"), isDark ? "Light theme" : "Dark theme");
  byId("theme").onclick = () => {
    localStorage.setItem("theme", isDark ? "light" : "dark");
    setTheme(isDark ? "light" : "dark");
    app.view?.redraw?.();
  };
}

const KEYS = [
  ["j k ↑ ↓", "row"], ["Enter", "open, details"], ["→ ←", "open, close, parent"], ["/", "search"],
  ["n N", "next, previous match"], ["e E", "next, previous error"], ["c", "critical path"],
  ["g", "fold gaps without spans"], ["z", "zoom to the span"], ["0", "zoom to the whole trace"],
  ["[ ]", "collapse, expand all"], ["x", "compare with another trace"], ["y", "copy as text"], ["Y", "copy as JSON"], ["t l m s r", "traces, logs, metrics, services, requests"],
  ["p", "pause"], ["Esc", "back"], ["?", "this list"],
];

const SEARCHES = [
  ["checkout", "text in names, services, bodies and values of attributes, or an id"],
  ["service:pay", "part of the name of a service"], ["name:charge", "part of the name of a span"],
  ["trace:4bf92f", "beginning of a trace id"], ["err", "traces with an error, log records of severity error and above"],
  ["dur>100ms", "longer than; also >= < <= ="], ["spans>50", "more spans than"], ["sev>=warn", "severity of log records"],
  ["http.route=/cart", "attribute with this value; != for another value"], ["body~declined", "attribute, or body, that contains"],
  ["has:user.id", "attribute exists"], ["-health", "not this"], ["err or dur>1s", "one or the other; a space means and"],
  ['"two words"', "text with spaces or operators"],
];

function showKeys() {
  const rows = KEYS.map(([keys, what]) => h("tr", h("td", h("kbd", keys)), h("td", what)));
  const use = (example) => {
    const field = byId("search");
    if (field.disabled) return;
    field.value = `${field.value} ${example}`.trim();
    field.dispatchEvent(new Event("input"));
    field.focus();
  };
  const searches = SEARCHES.map(([example, what]) => h("tr",
    h("td", h("button.example", { title: "add to the search", onclick: () => use(example) }, example)), h("td", what)));
  const dialog = h("dialog.keys", { onclose: () => dialog.remove(), onclick: () => dialog.close() },
    h("section", h("h2", "Search"), h("table.searches", ...searches)),
    h("section", h("h2", "Keys"), h("table", ...rows)));
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
  else if (event.key in VIEW_KEYS) goTo(VIEW_KEYS[event.key]);
  else return;
  event.preventDefault();
}

/** Opens a view, and keeps the time range. */
const goTo = (path) => app.go(app.time && !path.includes("time=") ? `${path}${path.includes("?") ? "&" : "?"}time=${app.time}` : path);

let typing;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    app.query = byId("search").value.trim();
    app.view?.search?.(app.query);
  }, 120);
});
byId("live").addEventListener("click", () => setLive(!app.live));
byId("keys").addEventListener("click", showKeys);
byId("time").addEventListener("change", () => app.setTime(byId("time").value));
byId("clear").addEventListener("click", clear);
byId("open").addEventListener("click", () => chooseFiles(app));
byId("menu").addEventListener("toggle", drawExport);
acceptFiles(app);
document.addEventListener("keydown", onKey);
document.addEventListener("visibilitychange", connect);
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (!event.target.closest("#menu") || link) byId("menu").open = false;
  if (!link || link.hasAttribute("download") || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  goTo(link.getAttribute("href"));
});
addEventListener("popstate", show);

setTheme(localStorage.getItem("theme"));
app.live = false;
// The names of the services are needed before the first view.
await news();
show();
setLive(!app.paused);
connect();
