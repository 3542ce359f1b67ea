// View of all traces, by default the latest first, with a scatter plot of their durations. Rows do not move under the
// pointer: new traces are announced.

import { Scatter } from "./charts.js";
import { copy, count, dot, duration, flash, grouped, h, hue, setText, timeOfDay } from "./dom.js";
import { Listing, Rows, isNarrow } from "./rows.js";

/** Heads of the columns: the text, the sort order that a click selects, and a tip. Order and tip are optional. */
const HEADS = [["time", "time"], ["trace"], ["services"], ["", undefined, "the length of a bar is the logarithm of the duration"],
  ["duration", "duration"], ["spans", "spans"], ["logs"], ["errors", "errors"]];
/** Length of the shortest bar, in percent. */
const SHORTEST_BAR = 6;

export class TracesView {
  constructor(app, main, _, parameters) {
    this.app = app;
    this.title = "traces · standpipe";
    this.placeholder = "search:  checkout   service:pay   err   dur>100ms   http.route=/cart   -health   or";
    this.sort = parameters.get("sort") ?? "time";
    this.order = parameters.get("order") ?? "";
    this.rows = new Rows({
      label: "traces",
      isTall: true,
      make: () => h("a",
        h("span.time"), h("span.name"), h("span.services"),
        h("span.lane", h("i")), h("span.number.duration"),
        h("span.number"), h("span.number"), h("span.number.errors")),
      fill: (row, index) => this.fill(row, index),
      // Rows are links, so the browser handles clicks.
      choose: (index, how) => how === "enter" && this.listing.row(index) && this.app.go(this.target(this.listing.row(index).id)),
    });
    this.listing = new Listing(this.rows, {
      ask: (parameters) => app.find(this, "/api/traces", { ...this.filter(), ...parameters }),
      taken: (answer) => this.take(answer),
      key: (trace) => trace.id,
    });
    this.head = h("div.head", ...HEADS.map(([text, sort, title]) => (sort
      ? h("button", { title: `sort by ${text}`, "data-sort": sort, onclick: () => this.sortBy(sort) }, text) : h("span", { title }, text))));
    this.matches = h("p.matches", { role: "status" });
    this.scatterButton = h("button", { title: "durations over time", onclick: () => this.toggleScatter() }, "scatter plot");
    this.compared = h("span.compared");
    const tools = h("div.bar-of-tools", this.matches, this.compared, this.scatterButton);
    this.scatter = new Scatter({
      open: (id) => app.go(this.target(id)),
      choose: (part) => this.choose(part),
    });
    this.hasScatter = localStorage.getItem("scatter") !== "no" && !isNarrow();
    this.list = h("section.list", tools, this.scatter.element, this.head, this.rows.element, this.listing.button);
    main.append(this.list);
    this.drawHead();
  }

  /** Returns the parameters of a request that select and order the traces. */
  filter() {
    return { sort: this.sort === "time" ? "" : this.sort, order: this.order, before: this.app.paused?.version, points: this.hasScatter ? 1 : "" };
  }

  address() {
    return this.app.address("/", { sort: this.sort === "time" ? "" : this.sort, order: this.order });
  }

  async search() {
    this.app.list = this.address();
    this.app.note(this.app.list);
    this.reset();
    await this.update();
  }

  /** Scrolls to the top, and updates the list's address. */
  reset() {
    this.app.list = this.address();
    this.listing.toTop();
  }

  sortBy(sort) {
    this.order = this.sort === sort && !this.order ? "up" : "";
    this.sort = sort;
    this.drawHead();
    return this.search();
  }

  async update() {
    const { opened } = this.app;
    this.app.opened = undefined;
    await this.listing.update(opened);
  }

  take(answer) {
    const { matched } = answer;
    const { query, time, state } = this.app;
    [this.shortest, this.longest] = [Math.max(1, answer.shortest ?? 1), Math.max(1, answer.longest ?? 1)];
    const { newer } = this.listing;
    this.listing.announce(newer, this.sort === "time" ? count(newer, "new trace") : `${grouped(newer)} more above`);
    const isEmpty = !matched && !query && !time && Boolean(state) && !this.app.paused;
    setText(this.matches, answer.isInvalid ? "" : matched ? count(matched, query || time ? "match" : "trace")
      : isEmpty ? "" : "no trace matches");
    setText(this.scatterButton, this.hasScatter ? "hide scatter plot" : "scatter plot");
    this.list.classList.toggle("empty", isEmpty);
    this.scatter.element.hidden = !this.hasScatter || isEmpty;
    this.drawCompared();
    if (isEmpty && !this.welcome) this.list.append((this.welcome = welcome(this.app)));
    if (!isEmpty) {
      this.welcome?.remove();
      this.welcome = undefined;
    }
    if (!this.scatter.element.hidden) this.scatter.draw(answer.points ?? []);
  }

  toggleScatter() {
    this.hasScatter = !this.hasScatter;
    localStorage.setItem("scatter", this.hasScatter ? "yes" : "no");
    return this.listing.update();
  }

  /** Narrows the search and the time range to a part of the scatter plot. */
  choose({ from, to, low, high }) {
    const words = this.app.query.split(/\s+/).filter((word) => word && !/^dur[<>]=/.test(word));
    const inUnit = (nanos) => (nanos < 1e6 ? `${Math.round(nanos)}ns` : `${Math.round(nanos / 1e3)}us`);
    this.app.query = [...words, `dur>=${inUnit(low)}`, `dur<=${inUnit(high)}`].join(" ");
    document.getElementById("search").value = this.app.query;
    return this.app.setRange(from, to);
  }

  drawHead() {
    for (const head of this.head.querySelectorAll("[data-sort]")) {
      const isSorted = head.dataset.sort === this.sort;
      setText(head, `${head.dataset.sort}${isSorted ? (this.order ? " ↑" : " ↓") : ""}`);
      if (isSorted) head.setAttribute("aria-pressed", "true");
      else head.removeAttribute("aria-pressed");
    }
  }

  /** Returns the address to open for a trace: the page of the trace, or, if the user has chosen another trace to
   * compare, the page that compares the two. */
  target(id) {
    const { compared } = this.app;
    return compared && compared.id !== id ? `/compare/${compared.id}/${id}` : `/trace/${id}`;
  }

  drawCompared() {
    const { compared } = this.app;
    this.compared.replaceChildren(...(compared ? [`compare ${compared.name} with …  `, h("button", { onclick: () => this.compare() }, "cancel")] : []));
    this.rows.draw();
  }

  compare(trace) {
    this.app.compared = trace && { id: trace.id, name: trace.name };
    this.drawCompared();
  }

  fill(row, index) {
    const trace = this.listing.row(index);
    row.classList.toggle("waiting", !trace);
    if (!trace) {
      row.removeAttribute("href");
      return;
    }
    const [time, name, services, lane, nanos, spans, logs, errors] = row.children;
    row.setAttribute("href", this.target(trace.id));
    row.classList.toggle("bad", trace.errors > 0);
    row.classList.toggle("chosen", this.app.compared?.id === trace.id);
    setText(time, timeOfDay(trace.start));
    setText(name, `${trace.has_root ? "" : "(no root span) "}${trace.name || "(no name)"}`);
    name.title = trace.name;
    const names = trace.services.map(([number, spans]) => `${this.app.service(number)}: ${count(spans, "span")}`).join("\n");
    if (services.title !== names) {
      services.title = names;
      const dots = trace.services.slice(0, 6).map(([number]) => dot(number));
      services.replaceChildren(...dots, this.app.service(trace.services[0][0]),
        trace.services.length > 1 ? ` +${trace.services.length - 1}` : "");
    }
    // Logarithmic: else one long trace would flatten the others.
    const part = this.longest > this.shortest ? Math.log(Math.max(1, trace.nanos) / this.shortest) / Math.log(this.longest / this.shortest) : 1;
    lane.firstChild.style.width = `${SHORTEST_BAR + (100 - SHORTEST_BAR) * part}%`;
    lane.firstChild.className = hue(trace.services[0][0]);
    setText(nanos, duration(trace.nanos));
    setText(spans, grouped(trace.spans));
    setText(logs, trace.logs ? grouped(trace.logs) : "–");
    setText(errors, trace.errors ? `✗ ${grouped(trace.errors)}` : "–");
  }

  key(event) {
    const trace = this.listing.row(this.rows.selected);
    if (event.key === "x" && trace) {
      if (this.app.compared && this.app.compared.id !== trace.id) this.app.go(this.target(trace.id));
      else this.compare(this.app.compared ? undefined : trace);
      return true;
    }
    if (event.key === "Escape" && this.app.compared) {
      this.compare();
      return true;
    }
    return this.rows.key(event);
  }

  redraw() {
    this.scatter.redraw();
  }

  close() {
    this.rows.close();
    this.scatter.close();
  }
}

/** Draws the first steps, while there are no traces. */
function welcome(app) {
  const { http = "", grpc = "" } = app.state ?? {};
  const env = `OTEL_EXPORTER_OTLP_ENDPOINT=${http}`;
  const lines = [
    ["any command", `${env} standpipe exec -- ls`],
    ["Rust", `Telemetry::start(Config::new().exporter(Exporter::http("${http}")))`],
    ["Python", `${env} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf opentelemetry-instrument python app.py`],
    ["Node", `${env} node --require @opentelemetry/auto-instrumentations-node/register app.js`],
    ["Java", `${env} java -javaagent:opentelemetry-javaagent.jar -jar app.jar`],
    [".NET", `OTEL_EXPORTER_OTLP_ENDPOINT=${grpc} dotnet run`],
  ];
  const demo = h("button.primary", { onclick: async () => {
    const response = await fetch("/api/demo", { method: "POST" });
    flash(demo, response.ok ? "the demo is running …" : await response.text());
  } }, "Send demo traces");
  const row = ([name, line]) => {
    const button = h("button", { onclick: () => copy(line, button) }, "copy");
    return h("tr", h("th", name), h("td", h("code", line)), h("td", button));
  };
  const drop = h("p", "Files of OTLP JSON lines, and traces of Jaeger and Zipkin, can be dropped on this page.");
  if (!http) return h("div.welcome", h("h1", "No telemetry loaded"), drop);
  return h("div.welcome",
    h("h1", "No telemetry received yet"),
    h("p", "Listening on ", h("code", http), " (HTTP) and ", h("code", grpc), " (gRPC)."),
    h("p", demo),
    h("table", ...lines.map(row)), drop);
}
