// View of metrics: counters as rates, gauges as values, histograms as heat maps with quantiles.

import { ask, grouped, h, hue, largest, short, smallest, timeOfDay } from "./dom.js";

const QUANTILES = [0.5, 0.9, 0.99];
const MARGIN = { left: 64, right: 12, top: 10, bottom: 24 };
/** Maximum number of lines in a chart. The legend lists the others. */
const MAX_LINES = 12;
/** Minimum height of a cell of a heat map, in pixels. */
const CELL = 10;

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
    this.list = h("nav", { class: "metrics", "aria-label": "metrics" });
    this.chart = h("section", { class: "chart" });
    main.append(h("div", { class: "split" }, this.list, this.chart));
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
    const key = JSON.stringify([name, series, this.app.services]);
    if (key === this.drawn) return;
    this.drawn = key;
    this.series = series;
    this.drawChart();
  }

  shownMetrics() {
    return this.metrics.filter((metric) => metric.name.toLowerCase().includes(this.filter));
  }

  drawList() {
    const shown = this.shownMetrics();
    // The number of points changes with every push, so it is not part of the key that decides whether the list is drawn again.
    const key = JSON.stringify([shown.map(({ points, ...metric }) => metric), this.chosen]);
    if (key === this.drawnList) return;
    this.drawnList = key;
    this.list.replaceChildren(...shown.map((metric) => h("a", {
      href: `/metrics/${encodeURIComponent(metric.name)}`,
      "aria-current": metric.name === this.chosen ? "true" : undefined,
      title: metric.description,
    }, h("b", {}, metric.name), h("small", {}, [metric.kind, metric.unit, `${metric.series} series`].filter(Boolean).join(" · ")))),
    shown.length ? "" : h("p", { class: "matches" }, this.metrics.length ? "no metric matches" : "no metrics yet"));
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
      this.tip = h("div", { class: "tip", hidden: true });
      this.legend = h("div", { class: "legend" });
      const title = h("div", { class: "chart-head" }, h("h1", {}, metric.name),
        h("p", {}, [metric.kind, metric.unit, metric.description].filter(Boolean).join(" · ")));
      this.chart.replaceChildren(title, h("div", { class: "plot" }, this.canvas, this.tip), this.legend);
    }
    const plot = new Plot(this.canvas, this.tip, metric.unit);
    if (this.series.some((series) => series.points.some((point) => point.bounds))) this.drawHistogram(plot);
    else this.drawLines(plot, metric);
  }

  /** Replaces the legend if it differs, because it may be under the pointer. */
  setLegend(...children) {
    const drawn = h("div", {}, ...children);
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
      const points = series.points.filter((point) => point.value !== null && point.value !== undefined);
      const line = (label, values, id) => ({ label, points: values, last: values.at(-1)?.[1], id });
      const quantiles = [...new Set(series.points.flatMap((point) => (point.quantiles ?? []).map(([q]) => q)))];
      if (quantiles.length) {
        return quantiles.map((q) => line(`${this.label(series)}  q${q}`, series.points.flatMap((point) =>
          (point.quantiles ?? []).filter(([of]) => of === q).map(([, value]) => [point.time, value])), `${series.id} ${q}`));
      }
      const values = isRate ? rates(points, isDelta) : points.map((point) => [point.time, point.value]);
      return [{ ...line(this.label(series), values, series.id), last: points.at(-1)?.value }];
    }).map((line, index) => ({ ...line, color: index % MAX_LINES }));
    const shown = lines.filter((line) => !this.hidden.has(line.id)).slice(0, MAX_LINES);
    plot.lines(shown, isRate ? " per second" : "");
    this.setLegend(...lines.map((line) => h("button", {
      class: this.hidden.has(line.id) ? "off" : "",
      onclick: () => {
        if (!this.hidden.delete(line.id)) this.hidden.add(line.id);
        this.drawChart();
      },
    }, h("i", { class: `dot ${hue(line.color)}` }), line.label, h("em", {}, line.last === undefined ? "" : short(line.last)))));
  }

  /** Draws the histogram of one series. Buckets of several series cannot be combined in one heat map. */
  drawHistogram(plot) {
    const histograms = this.series.filter((series) => series.points.some((point) => point.bounds));
    const chosen = histograms.find((series) => series.id === this.chosenSeries) ?? histograms[0];
    const points = chosen.points.filter((point) => point.bounds);
    const isDelta = chosen.kind.endsWith("delta");
    plot.heatMap(increments(points, isDelta));
    const total = isDelta ? points.findLast((point) => point.count) ?? points.at(-1) : points.at(-1);
    const known = (name, value) => (value === null ? "" : `${name} ${short(value)}`);
    const facts = [`${grouped(total.count)} values${isDelta ? " in the last interval" : ""}`, known("sum", total.sum), known("min", total.min), known("max", total.max)];
    const quantiles = QUANTILES.map((q) => quantile(total, q));
    this.setLegend(
      h("p", { class: "facts" }, facts.filter(Boolean).join(" · "), ...quantiles.map((value, index) => Number.isFinite(value)
        && h("span", {}, h("i", { class: `dot quantile${index}` }), `p${QUANTILES[index] * 100} ${short(value)}`))),
      ...histograms.map((series) => h("button", {
        class: series === chosen ? "on" : "",
        onclick: () => {
          this.chosenSeries = series.id;
          this.drawChart();
        },
      }, h("i", { class: `dot ${hue(series.service)}` }), this.label(series))));
  }

  key(event) {
    const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    if (!step || !this.metrics.length) return false;
    const shown = this.shownMetrics();
    const at = shown.findIndex((metric) => metric.name === this.chosen);
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + step))];
    if (!next) return true;
    this.app.note(`/metrics/${encodeURIComponent(next.name)}`);
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

/** Returns the increments between points. The first point covers an unknown time, and is left out if there are others. */
function increments(points, isDelta) {
  const columns = points.map((point, at) => {
    const before = points[at - 1];
    const isNew = isDelta || !before || point.start > before.start || point.count < before.count;
    return { ...point, counts: isNew ? point.counts : less(point, before) };
  });
  return isDelta || columns.length < 2 ? columns : columns.slice(1);
}

/** Subtracts the counts of an earlier point. Exponential histograms may have merged buckets since: an old bucket is part of the
 * new bucket that contains its upper bound. */
function less(point, before) {
  const counts = [...point.counts];
  before.counts.forEach((count, at) => {
    const end = before.bounds[at] ?? Infinity;
    const found = point.bounds.findIndex((bound) => bound >= end - Math.abs(end) * 1e-9);
    counts[found < 0 ? counts.length - 1 : found] -= count;
  });
  return counts.map((count) => Math.max(0, count));
}

/** Estimates a quantile by linear interpolation within its bucket, limited by min and max; NaN without values. */
function quantile({ bounds, counts, min, max }, q) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let rest = q * total;
  for (let at = 0; at < counts.length; at++) {
    if (rest <= counts[at] && counts[at]) {
      const from = at ? bounds[at - 1] : (min ?? Math.min(0, bounds[0] ?? 0));
      const to = bounds[at] ?? max ?? bounds.at(-1) ?? from;
      const value = from + ((to - from) * rest) / counts[at];
      return Math.min(max ?? Infinity, Math.max(min ?? -Infinity, value));
    }
    rest -= counts[at];
  }
  return NaN;
}

function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** A chart over time, on a canvas. */
class Plot {
  constructor(canvas, tip, unit) {
    this.canvas = canvas;
    this.tip = tip;
    this.unit = unit;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    canvas.width = this.width * devicePixelRatio;
    canvas.height = this.height * devicePixelRatio;
    this.context = canvas.getContext("2d");
    this.context.scale(devicePixelRatio, devicePixelRatio);
    this.style = getComputedStyle(canvas);
    this.context.font = `11px ${this.style.fontFamily}`;
  }

  color(name) {
    return this.style.getPropertyValue(name);
  }

  x(time) {
    const room = this.width - MARGIN.left - MARGIN.right;
    return MARGIN.left + (room * (time - this.from)) / Math.max(1, this.to - this.from);
  }

  y(value) {
    const room = this.height - MARGIN.top - MARGIN.bottom;
    const scale = this.isLog ? Math.log : (number) => number;
    const part = (scale(value) - scale(this.low)) / (scale(this.high) - scale(this.low) || 1);
    return this.height - MARGIN.bottom - room * Math.max(0, Math.min(1, part));
  }

  axes(suffix = "") {
    const { context } = this;
    context.strokeStyle = this.color("--line");
    context.fillStyle = this.color("--faint");
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of this.ticks()) {
      const y = Math.round(this.y(value)) + 0.5;
      context.beginPath();
      context.moveTo(MARGIN.left, y);
      context.lineTo(this.width - MARGIN.right, y);
      context.stroke();
      context.fillText(short(value), MARGIN.left - 6, y);
    }
    context.textBaseline = "top";
    const steps = Math.max(1, Math.floor(this.width / 180));
    for (let at = 0; at <= steps; at++) {
      const time = this.from + ((this.to - this.from) * at) / steps;
      context.textAlign = at === 0 ? "left" : at === steps ? "right" : "center";
      context.fillText(timeOfDay(time), this.x(time), this.height - MARGIN.bottom + 8);
    }
    context.textAlign = "left";
    context.fillText(`${this.unit}${suffix}`, 4, 0);
  }

  ticks() {
    if (this.isLog) {
      const [first, last] = [Math.ceil(Math.log10(this.low) - 1e-6), Math.floor(Math.log10(this.high) + 1e-6)];
      const step = Math.max(1, Math.ceil((last - first) / 8));
      const decades = [];
      for (let power = first; power <= last; power += step) decades.push(10 ** power);
      return decades;
    }
    const rough = (this.high - this.low) / 4;
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    const step = power * ([1, 2, 2.5, 5, 10].find((one) => one * power >= rough) ?? 10);
    const ticks = [];
    for (let value = Math.ceil(this.low / step) * step; value <= this.high + step / 1e6 && ticks.length < 12; value += step) ticks.push(value);
    return ticks;
  }

  setTimes(times) {
    this.from = smallest(times);
    this.to = Math.max(largest(times), this.from + 1);
  }

  lines(lines, suffix) {
    const all = lines.flatMap((line) => line.points);
    if (!all.length) return this.nothing(suffix ? "a rate needs two points" : "no points");
    this.setTimes(all.map(([time]) => time));
    const values = all.map(([, value]) => value).filter(Number.isFinite);
    this.low = Math.min(0, smallest(values));
    this.high = Math.max(0, largest(values));
    this.high += (this.high - this.low) * 0.05 || 1e-9;
    this.axes(suffix);
    for (const line of lines) {
      const { context } = this;
      context.strokeStyle = context.fillStyle = this.color(`--hue${line.color}`);
      context.lineWidth = 1.75;
      context.lineJoin = "round";
      context.beginPath();
      line.points.forEach(([time, value], at) => context[at ? "lineTo" : "moveTo"](this.x(time), this.y(value)));
      context.stroke();
      if (line.points.length < 40) {
        line.points.forEach(([time, value]) => {
          context.beginPath();
          context.arc(this.x(time), this.y(value), 2.25, 0, 7);
          context.fill();
        });
      }
    }
    this.hover((time) => {
      const rows = lines.filter((line) => line.points.length).map((line) => {
        const [, value] = nearest(line.points, time, (point) => point[0]);
        return h("p", {}, h("i", { class: `dot ${hue(line.color)}` }), `${short(value)}  ${line.label}`);
      });
      return [h("p", {}, timeOfDay(time)), ...rows];
    });
  }

  heatMap(columns) {
    const edges = columns.flatMap(({ bounds, counts, min, max }) =>
      counts.flatMap((count, at) => (count ? [bounds[at - 1] ?? min, bounds[at] ?? max] : []))).filter((edge) => Number.isFinite(edge));
    if (!edges.length) return this.nothing("no values");
    const times = columns.map((column) => column.time);
    this.setTimes(times);
    [this.low, this.high] = [smallest(edges), largest(edges)];
    const positive = edges.filter((edge) => edge > 0);
    this.isLog = this.low >= 0 && positive.length > 0 && this.high / smallest(positive) > 50;
    if (this.isLog) this.low = smallest(positive);
    if (this.low === this.high) this.high = this.low + 1;
    const wide = Math.max(3, (this.width - MARGIN.left - MARGIN.right) / Math.max(1, columns.length));
    // A column is drawn to the left of its time, so the axis begins one interval before the first column.
    if (columns.length > 1) this.from -= (this.to - this.from) / (columns.length - 1);
    else this.from -= 1000;
    const { context } = this;
    context.fillStyle = this.color("--heat");
    const cells = columns.map((column) => this.cells(column));
    const most = largest(cells.flatMap((column) => [...column.values()].map((cell) => cell.count)));
    columns.forEach(({ time }, index) => {
      const left = Math.max(this.x(time) - wide, index ? this.x(columns[index - 1].time) : 0);
      for (const { top, bottom, count } of cells[index].values()) {
        context.globalAlpha = 0.12 + 0.88 * Math.sqrt(count / most);
        context.fillRect(left, top, Math.max(2, this.x(time) - left - 1), bottom - top - 1);
      }
    });
    context.globalAlpha = 1;
    this.axes();
    QUANTILES.forEach((q, index) => {
      context.strokeStyle = this.color(`--quantile${index}`);
      context.lineWidth = 1.5;
      context.beginPath();
      let isDown = false;
      for (const column of columns) {
        const value = quantile(column, q);
        if (!Number.isFinite(value)) continue;
        context[isDown ? "lineTo" : "moveTo"](this.x(column.time) - wide / 2, this.y(value));
        isDown = true;
      }
      context.stroke();
    });
    this.hover((time) => {
      const column = columns.find((one) => one.time >= time) ?? columns.at(-1);
      const sum = column.counts.reduce((all, count) => all + count, 0);
      const rows = QUANTILES.map((q, index) =>
        h("p", {}, h("i", { class: `dot quantile${index}` }), `p${q * 100}  ${sum ? short(quantile(column, q)) : "–"} ${this.unit}`));
      return [h("p", {}, `${timeOfDay(column.time)}  ${grouped(sum)} values`), ...rows];
    });
  }

  /** Returns the positions of the buckets of a column. Buckets lower than a cell share one. */
  cells({ bounds, counts, min, max }) {
    const cells = new Map();
    counts.forEach((count, at) => {
      if (!count) return;
      let bottom = this.y(Math.max(this.low, bounds[at - 1] ?? min ?? this.low));
      let top = this.y(bounds[at] ?? max ?? this.high);
      if (bottom - top < CELL) {
        top = Math.floor((top + bottom) / 2 / CELL) * CELL;
        bottom = top + CELL;
      }
      const known = cells.get(top);
      cells.set(top, { top, bottom, count: count + (known?.count ?? 0) });
    });
    return cells;
  }

  nothing(text) {
    this.context.fillStyle = this.color("--faint");
    this.context.textAlign = "center";
    this.context.fillText(text, this.width / 2, this.height / 2);
  }

  hover(describe) {
    const { canvas, tip } = this;
    const show = (event) => {
      const box = canvas.getBoundingClientRect();
      const part = (event.clientX - box.left - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right);
      tip.hidden = part < 0 || part > 1;
      if (tip.hidden) return;
      tip.replaceChildren(...describe(this.from + part * (this.to - this.from)));
      const isLeft = event.clientX - box.left < this.width / 2;
      tip.style.left = isLeft ? `${event.clientX - box.left + 14}px` : "";
      tip.style.right = isLeft ? "" : `${this.width - (event.clientX - box.left) + 14}px`;
      tip.style.top = `${event.clientY - box.top + 10}px`;
    };
    canvas.onpointermove = (event) => show((canvas.pointer = event));
    canvas.onpointerleave = () => {
      tip.hidden = true;
      canvas.pointer = undefined;
    };
    // The chart was redrawn under the pointer.
    if (canvas.pointer) show(canvas.pointer);
  }
}

function nearest(list, time, timeOf) {
  return list.reduce((best, one) => (Math.abs(timeOf(one) - time) < Math.abs(timeOf(best) - time) ? one : best));
}
