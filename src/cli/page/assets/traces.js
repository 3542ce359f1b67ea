// View of all traces, the latest first. Rows do not move under the pointer: new traces are announced, unless the list is
// scrolled to the top.

import { copy, count, duration, flash, grouped, h, hue, setText, timeOfDay } from "./dom.js";
import { ROW, Rows } from "./rows.js";

export class TracesView {
  constructor(app, main) {
    this.app = app;
    this.title = "traces · standpipe";
    this.placeholder = "search:  checkout   service:pay   err   dur>100ms   http.route=/cart   -health   or";
    this.listed = [];
    this.rows = new Rows({
      label: "traces",
      make: () => h("a", {},
        h("span", { class: "time" }), h("span", { class: "name" }), h("span", { class: "services" }),
        h("span", { class: "lane" }, h("i", {})), h("span", { class: "number duration" }),
        h("span", { class: "number" }), h("span", { class: "number" }), h("span", { class: "number errors" })),
      fill: (row, index) => this.fill(row, index),
      // Rows are links, so the browser handles clicks.
      choose: (index, how) => how === "enter" && this.app.go(`/trace/${this.listed[index].id}`),
    });
    this.newer = h("button", { class: "newer", hidden: true, onclick: () => this.rows.element.scrollTo(0, 0) });
    const heads = ["time", "trace", "services", "", "duration", "spans", "logs", "errors"];
    this.head = h("div", { class: "head" }, ...heads.map((text) => h("span", {}, text)));
    this.matches = h("p", { class: "matches" });
    this.list = h("section", { class: "list" }, this.head, this.rows.element, this.newer, this.matches);
    main.append(this.list);
    this.rows.element.addEventListener("scroll", () => this.rows.element.scrollTop < ROW && (this.newer.hidden = true));
  }

  async search(query) {
    this.app.list = query ? `/?q=${encodeURIComponent(query)}` : "/";
    this.app.note(this.app.list);
    this.rows.element.scrollTop = 0;
    await this.update();
  }

  async update() {
    const answer = await this.app.find(this, "/api/traces?");
    if (answer) this.place(answer);
  }

  place({ matched, rows }) {
    this.listed = rows;
    this.longest = rows.reduce((most, row) => Math.max(most, row.nanos), 1);
    const above = this.rows.replace(rows.map((row) => row.id));
    if (above) {
      this.newer.hidden = false;
      setText(this.newer, "↑ new traces above");
    }
    if (this.app.opened) {
      this.rows.select(rows.findIndex((row) => row.id === this.app.opened));
      this.app.opened = undefined;
    }
    const isEmpty = !rows.length && !this.app.query && Boolean(this.app.state);
    setText(this.matches, rows.length < matched ? `the latest ${grouped(rows.length)} of ${grouped(matched)}: narrow the search for others`
      : !rows.length && this.app.query ? "no trace matches" : "");
    this.list.classList.toggle("empty", isEmpty);
    if (isEmpty && !this.welcome) this.list.append((this.welcome = welcome(this.app)));
    if (!isEmpty) {
      this.welcome?.remove();
      this.welcome = undefined;
    }
  }

  fill(row, index) {
    const trace = this.listed[index];
    const [time, name, services, lane, nanos, spans, logs, errors] = row.children;
    row.setAttribute("href", `/trace/${trace.id}`);
    row.classList.toggle("bad", trace.errors > 0);
    setText(time, timeOfDay(trace.start));
    setText(name, `${trace.has_root ? "" : "(no root span) "}${trace.name || "(no name)"}`);
    name.title = trace.name;
    const names = trace.services.map(([number, spans]) => `${this.app.service(number)}: ${count(spans, "span")}`).join("\n");
    if (services.title !== names) {
      services.title = names;
      const dots = trace.services.slice(0, 6).map(([number]) => h("i", { class: `dot ${hue(number)}` }));
      services.replaceChildren(...dots, this.app.service(trace.services[0][0]),
        trace.services.length > 1 ? ` +${trace.services.length - 1}` : "");
    }
    lane.firstChild.style.width = `${Math.max(1, (100 * trace.nanos) / this.longest)}%`;
    lane.firstChild.className = hue(trace.services[0][0]);
    setText(nanos, duration(trace.nanos));
    setText(spans, grouped(trace.spans));
    setText(logs, trace.logs ? grouped(trace.logs) : "–");
    setText(errors, trace.errors ? `✗ ${grouped(trace.errors)}` : "–");
  }

  key(event) {
    return this.rows.key(event);
  }

  close() {
    this.rows.close();
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
  const demo = h("button", { class: "primary", onclick: async () => {
    const response = await fetch("/api/demo", { method: "POST" });
    flash(demo, response.ok ? "the demo is running …" : await response.text());
  } }, "Send demo traces");
  const row = ([name, line]) => {
    const button = h("button", { onclick: () => copy(line, button) }, "copy");
    return h("tr", {}, h("th", {}, name), h("td", {}, h("code", {}, line)), h("td", {}, button));
  };
  return h("div", { class: "welcome" },
    h("h1", {}, "No telemetry received yet"),
    h("p", {}, "Listening on ", h("code", {}, http), " (HTTP) and ", h("code", {}, grpc), " (gRPC)."),
    h("p", {}, demo),
    h("table", {}, ...lines.map(row)));
}
