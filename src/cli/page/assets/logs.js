// View of log records: the latest first, with a chart of their number over time.

import { ask, grouped, h, hue, largest, setText, smallest, timeOfDay } from "./dom.js";
import { Rows } from "./rows.js";
import { SpanPanel, level } from "./span.js";

/** Minimum severity number for each choice. */
const LEVELS = { "all levels": 0, debug: 5, info: 9, warn: 13, error: 17, fatal: 21 };

export class LogsView {
  constructor(app, main, _, parameters) {
    this.app = app;
    this.isLogs = true;
    this.title = "logs · standpipe";
    this.placeholder = "search:  declined   sev>=warn   service:pay   body~card   key=value   trace:4bf92f";
    this.listed = [];
    this.rows = new Rows({
      label: "log records",
      make: () => h("div", {}, h("span", { class: "time" }), h("span", { class: "severity" }), h("span", { class: "services" }),
        h("span", { class: "name" }), h("a", { class: "trace" })),
      fill: (row, index) => this.fill(row, index),
      choose: (index) => this.show(this.listed[index].number),
    });
    this.panel = new SpanPanel(app, () => this.unselect());
    this.levels = h("select", { "aria-label": "minimum severity", onchange: () => this.search() },
      ...Object.keys(LEVELS).map((name) => h("option", { value: name }, name)));
    this.chart = h("canvas", { class: "minimap", title: "log records over time" });
    this.matches = h("p", { class: "matches" });
    const heads = ["time", "severity", "service", "body", "trace"];
    const list = h("section", { class: "list" },
      h("div", { class: "bar-of-tools" }, this.levels, this.chart),
      h("div", { class: "head" }, ...heads.map((text) => h("span", {}, text))), this.rows.element, this.matches);
    main.append(h("div", { class: "split" }, list, this.panel.element));
    if (parameters.get("level") in LEVELS) this.levels.value = parameters.get("level");
  }

  async search() {
    const parameters = new URLSearchParams();
    if (this.app.query) parameters.set("q", this.app.query);
    if (LEVELS[this.levels.value]) parameters.set("level", this.levels.value);
    this.app.note(`/logs${parameters.size ? `?${parameters}` : ""}`);
    this.rows.element.scrollTop = 0;
    await this.update();
  }

  async update() {
    const answer = await this.app.find(this, `/api/logs?level=${LEVELS[this.levels.value]}&`);
    if (!answer) return;
    this.listed = answer.rows;
    this.rows.replace(this.listed.map((log) => log.number));
    const { matched, rows } = answer;
    setText(this.matches, rows.length < matched ? `the latest ${grouped(rows.length)} of ${grouped(matched)}`
      : rows.length ? "" : this.app.query ? "no log record matches" : "no log records yet");
    this.drawChart();
  }

  fill(row, index) {
    const log = this.listed[index];
    const [time, severity, service, body, trace] = row.children;
    setText(time, timeOfDay(log.time));
    setText(severity, log.severity);
    severity.className = `severity ${level(log.level)}`;
    row.classList.toggle("bad", log.level >= 17);
    if (service.textContent !== this.app.service(log.service)) {
      service.replaceChildren(h("i", { class: `dot ${hue(log.service)}` }), this.app.service(log.service));
    }
    setText(body, `${log.event ? `${log.event}  ` : ""}${log.text}`);
    setText(trace, log.trace.slice(0, 8));
    if (log.trace) trace.setAttribute("href", `/trace/${log.trace}${log.span ? `?span=${log.span}` : ""}`);
    else trace.removeAttribute("href");
  }

  /** Draws the number of listed log records over time, and the share of errors. */
  drawChart() {
    const canvas = this.chart;
    const width = (canvas.width = canvas.clientWidth * devicePixelRatio);
    const height = (canvas.height = canvas.clientHeight * devicePixelRatio);
    if (!this.listed.length || !width) return;
    const times = this.listed.map((log) => log.time);
    const [from, to] = [smallest(times), largest(times)];
    const parts = Math.min(120, Math.max(10, Math.floor(width / 8)));
    const bars = Array.from({ length: parts }, () => ({ all: 0, bad: 0 }));
    for (const log of this.listed) {
      const bar = bars[Math.min(parts - 1, Math.floor(((log.time - from) / Math.max(1, to - from)) * parts))];
      bar.all++;
      if (log.level >= 17) bar.bad++;
    }
    const most = largest(bars.map((bar) => bar.all));
    const style = getComputedStyle(canvas);
    const context = canvas.getContext("2d");
    bars.forEach(({ all, bad }, index) => {
      const x = (index * width) / parts;
      for (const [number, color] of [[all, "--minimap"], [bad, "--bad"]]) {
        const tall = (number / most) * (height - 2);
        context.fillStyle = style.getPropertyValue(color);
        context.fillRect(x, height - tall, width / parts - 1, tall);
      }
    });
    canvas.title = `${timeOfDay(from)} to ${timeOfDay(to)}`;
  }

  async show(number) {
    const log = await ask(`/api/log/${number}`).catch(() => undefined);
    if (log && this.listed[this.rows.selected]?.number === number) this.panel.showLog(log);
  }

  unselect() {
    this.panel.hide();
    this.rows.select(-1);
  }

  key(event) {
    if (event.key === "Escape" && this.rows.selected >= 0) {
      this.unselect();
      return true;
    }
    return this.rows.key(event);
  }

  redraw() {
    this.drawChart();
  }

  close() {
    this.rows.close();
  }
}
