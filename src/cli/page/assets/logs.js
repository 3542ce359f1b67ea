// View of log records: the latest first, with a chart of their number over time.

import { cleared, onDrag } from "./charts.js";
import { ask, count, dot, h, largest, setText, timeOfDay, traceAt } from "./dom.js";
import { Listing, Rows } from "./rows.js";
import { SpanPanel, level } from "./span.js";

/** Minimum severity number for each choice. */
const LEVELS = { "all levels": 0, debug: 5, info: 9, warn: 13, error: 17, fatal: 21 };

export class LogsView {
  constructor(app, main, _, parameters) {
    this.app = app;
    this.isLogs = true;
    this.title = "logs · standpipe";
    this.placeholder = "search:  declined   sev>=warn   service:pay   body~card   key=value   trace:4bf92f";
    this.around = parameters.get("around") ?? undefined;
    this.rows = new Rows({
      label: "log records",
      isTall: true,
      make: () => h("div", h("span.time"), h("span.severity"), h("span.services"),
        h("span.name"), h("a.trace")),
      fill: (row, index) => this.fill(row, index),
      choose: (index) => this.listing.row(index) && this.show(this.listing.row(index).number),
    });
    this.listing = new Listing(this.rows, {
      ask: (parameters) => app.find(this, "/api/logs", { ...this.filter(), ...parameters }),
      taken: (answer) => this.take(answer),
      key: (log) => String(log.number),
    });
    this.panel = new SpanPanel(app, () => this.unselect());
    this.levels = h("select", { "aria-label": "minimum severity", onchange: () => this.search() },
      ...Object.keys(LEVELS).map((name) => h("option", { value: name }, name)));
    this.chart = h("canvas.minimap");
    this.matches = h("p.matches", { role: "status" });
    const heads = ["time", "severity", "service", "body", "trace"];
    const list = h("section.list",
      h("div.bar-of-tools", this.levels, this.matches, h("div.histogram", this.chart)),
      h("div.head", ...heads.map((text) => h("span", text))), this.rows.element, this.listing.button);
    onDrag(this.chart, ([left], [right]) => {
      const at = (x) => this.times[0] + (x / this.chart.clientWidth) * (this.times[1] - this.times[0]);
      return app.setRange(at(left), at(right));
    });
    main.append(h("div.split", list, this.panel.element));
    if (parameters.get("level") in LEVELS) this.levels.value = parameters.get("level");
  }

  /** Returns the parameters of a request that select the log records. */
  filter() {
    return { level: LEVELS[this.levels.value], before: this.app.paused?.logs };
  }

  async search() {
    this.app.note(this.app.address("/logs", { level: LEVELS[this.levels.value] ? this.levels.value : "" }));
    this.reset();
    await this.update();
  }

  reset() {
    this.listing.toTop();
  }

  /** Requests the records. The first request centers on the record that the address names. */
  async update() {
    const { around } = this;
    this.around = undefined;
    await this.listing.update(around);
    if (around) this.show(Number(around));
  }

  take(answer) {
    const { matched, bars = [], from, to } = answer;
    this.times = [from, to];
    this.listing.announce(this.listing.newer, count(this.listing.newer, "new record"));
    const isFiltered = this.app.query || this.app.time || LEVELS[this.levels.value];
    setText(this.matches, matched ? count(matched, isFiltered ? "match" : "record")
      : answer.isInvalid ? "" : isFiltered ? "no log record matches" : "no log records yet");
    this.bars = bars;
    this.drawChart();
  }

  fill(row, index) {
    const log = this.listing.row(index);
    row.classList.toggle("waiting", !log);
    if (!log) return;
    const [time, severity, service, body, trace] = row.children;
    setText(time, timeOfDay(log.time));
    setText(severity, log.severity);
    severity.className = `severity ${level(log.level)}`;
    row.classList.toggle("bad", log.level >= 17);
    if (service.textContent !== this.app.service(log.service)) {
      service.replaceChildren(dot(log.service), this.app.service(log.service));
    }
    setText(body, `${log.event ? `${log.event}  ` : ""}${log.text}`);
    setText(trace, log.trace.slice(0, 8));
    if (log.trace) trace.setAttribute("href", traceAt(log.trace, log.span));
    else trace.removeAttribute("href");
  }

  /** Draws the numbers of matching log records, and of the errors among them, over time. */
  drawChart() {
    const { width, height, context, color } = cleared(this.chart);
    if (!this.bars?.length || !width) return;
    const most = largest(this.bars.map(([all]) => all));
    const wide = width / this.bars.length;
    this.bars.forEach((bar, index) => bar.forEach((number, isBad) => {
      const tall = number && Math.max(2, (number / most) * (height - 2));
      context.fillStyle = color(isBad ? "--bad" : "--minimap");
      context.fillRect(index * wide, height - tall, Math.max(1, wide - 1), tall);
    }));
    this.chart.title = `${timeOfDay(this.times[0])} to ${timeOfDay(this.times[1])} · drag to select a time range`;
  }

  async show(number) {
    const log = await ask(`/api/log/${number}`).catch(() => undefined);
    if (log && this.listing.row(this.rows.selected)?.number === number) this.panel.showLog(log);
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
