// View of metrics: counters as rates, gauges as values, histograms as heat maps with quantiles.

import { Plot, QUANTILES, onDrag, quantile } from "./charts.js";
import { ask, dot, grouped, h, traceAt, withUnit } from "./dom.js";

/** Maximum number of lines in a chart. The legend lists all. */
const MAX_LINES = 12;

export class MetricsView {
  constructor(app, main, [name]) {
    this.app = app;
    this.title = "metrics · standpipe";
    this.placeholder = "filter by name";
    this.search = (query) => {
      this.filter = query.toLowerCase();
      this.drawList();
    };
    this.filter = "";
    this.chosen = name === undefined ? undefined : decoded(name);
    this.metrics = [];
    this.hidden = new Set();
    /** How histograms are drawn: one series as a "heat map", or a quantile of each series, such as "p90", as a line. */
    this.form = "heat map";
    this.list = h("nav.metrics", { "aria-label": "metrics" });
    this.chart = h("section.chart");
    main.append(h("div.split", this.list, this.chart));
    this.resized = new ResizeObserver(() => this.drawChart());
    this.resized.observe(this.chart);
  }

  async update() {
    const metrics = await ask("/api/metrics").catch(() => []);
    if (this.app.view !== this) return;
    this.metrics = metrics;
    this.chosen ??= metrics[0]?.name;
    this.drawList();
    await this.load();
  }

  async load() {
    const name = this.chosen;
    const series = name === undefined ? [] : await ask(`/api/series?name=${encodeURIComponent(name)}`).catch(() => []);
    if (name !== this.chosen || this.app.view !== this) return;
    const key = JSON.stringify([name, series, this.app.services, this.app.time]);
    if (key === this.drawn) return;
    this.drawn = key;
    this.series = series;
    this.drawChart();
  }

  points(series) {
    const [from, to] = this.app.range();
    const end = Math.min(to, this.app.paused?.at ?? Infinity);
    return from || end < Infinity ? series.points.filter((point) => point.time >= from && point.time <= end) : series.points;
  }

  /** Returns the exemplars of the series and of their points. */
  exemplars(list) {
    return list.flatMap((series) => [...(series.exemplars ?? []), ...this.points(series).flatMap((point) => point.exemplars ?? [])]);
  }

  shownMetrics() {
    return this.metrics.filter((metric) => metric.name.toLowerCase().includes(this.filter)).sort((a, b) => a.services[0] - b.services[0]);
  }

  drawList() {
    const shown = this.shownMetrics();
    // The number of points changes with every push, so it is not part of the key that decides whether the list is drawn
    // again.
    const key = JSON.stringify([shown.map(({ points, ...metric }) => metric), this.chosen]);
    if (key === this.drawnList) return;
    this.drawnList = key;
    const link = (metric) => h("a", {
      href: `/metrics/${encodeURIComponent(metric.name)}`,
      "aria-current": metric.name === this.chosen ? "true" : undefined,
      title: metric.description,
    }, h("b", metric.name), h("small", [metric.kind, metric.unit, `${metric.series} series`].filter(Boolean).join(" · ")));
    const services = [...new Set(shown.map((metric) => metric.services[0]))];
    this.list.replaceChildren(...services.flatMap((service) => [
      h("h2", dot(service), this.app.service(service)),
      ...shown.filter((metric) => metric.services[0] === service).map(link)]),
    shown.length ? "" : h("p.matches", this.metrics.length ? "no metric matches" : "no metrics yet"));
    this.list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }

  metric() {
    return this.metrics.find((metric) => metric.name === this.chosen);
  }

  drawChart() {
    const metric = this.metric();
    if (!metric || !this.series) {
      this.chart.replaceChildren();
      this.plotOf = undefined;
      return;
    }
    if (this.plotOf !== metric.name) {
      this.plotOf = metric.name;
      this.canvas = h("canvas", { role: "img", "aria-label": `${metric.name} over time` });
      this.tip = h("div.tip", { hidden: true });
      this.legend = h("div.legend");
      this.forms = h("select", { "aria-label": "form of the chart", onchange: () => {
        this.form = this.forms.value;
        this.drawChart();
      } }, ...["heat map", ...QUANTILES.map((q) => `p${q * 100}`)].map((form) => h("option", { selected: form === this.form }, form)));
      const title = h("div.chart-head", h("h1", metric.name),
        h("p", [metric.kind, metric.unit, metric.description].filter(Boolean).join(" · ")), this.forms);
      onDrag(this.canvas, ([left], [right]) => {
        if (!this.plot?.to) return;
        this.app.setRange(this.plot.timeAt(left), this.plot.timeAt(right));
      }, { click: (place) => {
        const exemplar = this.plot?.exemplarAt(place);
        if (exemplar) this.app.go(traceAt(exemplar.trace, exemplar.span));
      } });
      this.chart.replaceChildren(title, h("div.plot", this.canvas, this.tip), this.legend);
    }
    const plot = (this.plot = new Plot(this.canvas, this.tip, metric.unit));
    const isHistogram = this.series.some((series) => series.points.some((point) => point.bounds));
    this.forms.hidden = !isHistogram;
    if (isHistogram && this.form === "heat map") this.drawHistogram(plot);
    else this.drawLines(plot, metric);
  }

  /** Replaces the legend if it differs. An unchanged legend stays, because it may be under the pointer. */
  setLegend(...children) {
    const drawn = h("div", ...children);
    const text = (element) => [...element.children].map((child) => child.textContent + child.className).join("\n");
    if (text(drawn) !== text(this.legend)) this.legend.replaceChildren(...drawn.children);
  }

  label(series) {
    const isAmbiguous = this.series.some((other) =>
      other !== series && other.service === series.service && other.attributes === series.attributes);
    const parts = [this.metric().services.length > 1 ? this.app.service(series.service) : "", series.attributes, isAmbiguous ? series.instance : ""];
    return parts.filter(Boolean).join("  ") || this.app.service(series.service);
  }

  drawLines(plot, metric) {
    const isRate = metric.kind.startsWith("counter");
    const isDelta = metric.kind.endsWith("delta");
    const lines = this.series.flatMap((series) => {
      const all = this.points(series);
      const points = all.filter((point) => point.value !== null && point.value !== undefined);
      const line = (label, values, id) => ({ label, points: values, last: values.at(-1)?.[1], id });
      if (all.some((point) => point.bounds)) {
        const q = Number(this.form.slice(1)) / 100;
        return [line(this.label(series), increments(all.filter((point) => point.bounds), isDelta).map((point) => [point.time, quantile(point, q)]).filter(([, value]) => Number.isFinite(value)), series.id)];
      }
      const quantiles = [...new Set(all.flatMap((point) => (point.quantiles ?? []).map(([q]) => q)))];
      if (quantiles.length) {
        return quantiles.map((q) => line(`${this.label(series)}  q${q}`, all.flatMap((point) =>
          (point.quantiles ?? []).filter(([of]) => of === q).map(([, value]) => [point.time, value])), `${series.id} ${q}`));
      }
      const values = isRate ? rates(points, isDelta) : points.map((point) => [point.time, point.value]);
      const last = isRate && isDelta ? points.reduce((sum, point) => sum + point.value, 0) : points.at(-1)?.value;
      return [{ ...line(this.label(series), values, series.id), last }];
    }).map((line, index) => ({ ...line, color: index % MAX_LINES }));
    const shown = lines.filter((line) => !this.hidden.has(line.id)).slice(0, MAX_LINES);
    plot.lines(shown, isRate ? "/s" : "");
    if (!isRate && plot.to) plot.exemplars(this.exemplars(this.series.filter((series) => !this.hidden.has(series.id))));
    this.setLegend(...lines.map((line) => h("button", {
      class: this.hidden.has(line.id) ? "off" : "",
      onclick: () => {
        if (!this.hidden.delete(line.id)) this.hidden.add(line.id);
        this.drawChart();
      },
    }, dot(line.color), line.label, h("em", line.last === undefined ? "" : `${isRate ? "total " : ""}${withUnit(line.last, metric.unit)}`))),
    this.exemplarLinks());
  }

  /** Draws links to the traces of the latest exemplars, for users without a pointer, who cannot click the rings. */
  exemplarLinks() {
    const latest = new Map(this.exemplars(this.series).sort((a, b) => b.time - a.time).map((one) => [one.trace + one.span, one]));
    return latest.size ? h("p.facts", "exemplars: ", ...[...latest.values()].slice(0, 8).map(({ value, trace, span }) =>
      h("a", { href: traceAt(trace, span) }, `${withUnit(value, this.metric().unit)} ↗`))) : "";
  }

  /** Draws the histogram of one series. Buckets of several series cannot be combined in one heat map. */
  drawHistogram(plot) {
    const histograms = this.series.filter((series) => series.points.some((point) => point.bounds));
    const chosen = histograms.find((series) => series.id === this.chosenSeries) ?? histograms[0];
    const points = this.points(chosen).filter((point) => point.bounds);
    const isDelta = chosen.kind.endsWith("delta");
    plot.heatMap(increments(points, isDelta));
    if (plot.to) plot.exemplars(this.exemplars([chosen]));
    if (!points.length) return this.legend.replaceChildren();
    const unit = this.metric().unit;
    const total = isDelta ? points.findLast((point) => point.count) ?? points.at(-1) : points.at(-1);
    const known = (name, value) => (value === null ? "" : `${name} ${withUnit(value, unit)}`);
    const facts = [`${grouped(total.count)} values${isDelta ? " in the last interval" : ""}`, known("sum", total.sum), known("min", total.min), known("max", total.max)];
    const quantiles = QUANTILES.map((q) => quantile(total, q));
    this.setLegend(
      h("p.facts", facts.filter(Boolean).join(" · "), ...quantiles.map((value, index) => Number.isFinite(value)
        && h("span", h("i", { class: `dot quantile${index}` }), `p${QUANTILES[index] * 100} ${withUnit(value, unit)}`))),
      ...histograms.map((series) => h("button", {
        class: series === chosen ? "on" : "",
        onclick: () => {
          this.chosenSeries = series.id;
          this.drawChart();
        },
      }, dot(series.service), this.label(series))), this.exemplarLinks());
  }

  key(event) {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step || !this.metrics.length) return false;
    const shown = this.shownMetrics();
    const at = shown.findIndex((metric) => metric.name === this.chosen);
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + step))];
    if (!next) return true;
    this.app.note(this.app.address(`/metrics/${encodeURIComponent(next.name)}`));
    this.chosen = next.name;
    this.drawList();
    this.load();
    return true;
  }

  redraw() {
    this.drawChart();
  }

  close() {
    this.resized.disconnect();
  }
}

/** Returns the rates per second. A counter that was reset starts again from 0, so its rate is not negative. */
function rates(points, isDelta) {
  const rates = [];
  for (let at = 1; at < points.length; at++) {
    const [before, point] = [points[at - 1], points[at]];
    const isNew = isDelta || point.start > before.start || point.value < before.value;
    const more = isNew ? point.value : point.value - before.value;
    if (point.time > before.time) rates.push([point.time, Math.max(0, more) / ((point.time - before.time) / 1000)]);
  }
  return rates;
}

/** Returns the increments. The first of several totals covers an unknown time, and is left out. */
function increments(points, isDelta) {
  const columns = points.map((point, at) => {
    const before = points[at - 1];
    const isNew = isDelta || !before || point.start > before.start || point.count < before.count;
    return { ...point, counts: isNew ? point.counts : less(point, before) };
  });
  return isDelta || columns.length < 2 ? columns : columns.slice(1);
}

/** Subtracts the counts of an earlier point. Exponential histograms may have merged buckets since: an old bucket is
 * part of the new bucket that contains its upper bound. */
function less(point, before) {
  const counts = [...point.counts];
  before.counts.forEach((count, at) => {
    const end = before.bounds[at] ?? Infinity;
    const found = point.bounds.findIndex((bound) => bound >= end - Math.abs(end) * 1e-9);
    counts[found < 0 ? counts.length - 1 : found] -= count;
  });
  return counts.map((count) => Math.max(0, count));
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
