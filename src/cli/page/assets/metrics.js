// How do numbers go? Counters as rates, gauges as they are, histograms as heat maps with quantiles.

import { ask, grouped, h, hue, largest, short, smallest, timeOfDay } from "./dom.js";

const QUANTILES = [0.5, 0.9, 0.99];
const MARGIN = { left: 64, right: 12, top: 10, bottom: 24 };
/** Lines in one chart; others are named below it. */
const MOST_LINES = 12;
/** The least height of a cell of a heat map. */
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
    this.chosen = name === undefined ? undefined : decodeURIComponent(name);
    this.metrics = [];
    this.hidden = new Set();
    this.list = h("nav", { class: "metrics", "aria-label": "metrics" });
    this.chart = h("section", { class: "chart" });
    main.append(h("div", { class: "split" }, this.list, this.chart));
    this.resized = new ResizeObserver(() => this.drawChart());
    this.resized.observe(this.chart);
  }

  async update() {
    this.metrics = await ask("/api/metrics").catch(() => []);
    if (this.app.view !== this) return;
    this.chosen ??= this.metrics[0]?.name;
    this.drawList();
    await this.load();
  }

  async load() {
    const name = this.chosen;
    const series = name === undefined ? [] : await ask(`/api/series?name=${encodeURIComponent(name)}`).catch(() => []);
    if (name !== this.chosen) return;
    this.series = series;
    this.drawChart();
  }

  drawList() {
    const shown = this.metrics.filter((metric) => metric.name.toLowerCase().includes(this.filter));
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
      return;
    }
    const isHistogram = this.series.some((series) => series.points.some((point) => point.bounds));
    const canvas = h("canvas", { role: "img", "aria-label": `${metric.name} over time` });
    const tip = h("div", { class: "tip", hidden: true });
    const title = h("div", { class: "chart-head" }, h("h1", {}, metric.name),
      h("p", {}, [metric.kind, metric.unit, metric.description].filter(Boolean).join(" · ")));
    const legend = h("div", { class: "legend" });
    this.chart.replaceChildren(title, h("div", { class: "plot" }, canvas, tip), legend);
    const plot = new Plot(canvas, tip, metric.unit);
    if (isHistogram) this.drawHistogram(plot, legend);
    else this.drawLines(plot, legend, metric);
  }

  label(series) {
    return [this.metric().services.length > 1 ? this.app.service(series.service) : "", series.attributes].filter(Boolean).join("  ")
      || this.app.service(series.service);
  }

  drawLines(plot, legend, metric) {
    const isRate = metric.kind === "counter";
    const lines = this.series.map((series, index) => {
      const points = series.points.filter((point) => point.value !== null && point.value !== undefined)
        .map((point) => [point.time, point.value]);
      return { label: this.label(series), colour: index % MOST_LINES, points: isRate ? rates(points) : points, last: points.at(-1)?.[1], id: series.id };
    });
    const shown = lines.filter((line) => !this.hidden.has(line.id)).slice(0, MOST_LINES);
    plot.lines(shown, isRate ? " per second" : "");
    legend.replaceChildren(...lines.map((line) => h("button", {
      class: this.hidden.has(line.id) ? "off" : "",
      onclick: () => {
        if (!this.hidden.delete(line.id)) this.hidden.add(line.id);
        this.drawChart();
      },
    }, h("i", { class: `dot ${hue(line.colour)}` }), line.label, h("em", {}, line.last === undefined ? "" : short(line.last)))));
  }

  /** One series at a time: the buckets of several do not add up to a picture. */
  drawHistogram(plot, legend) {
    const histograms = this.series.filter((series) => series.points.some((point) => point.bounds));
    const chosen = histograms.find((series) => series.id === this.chosenSeries) ?? histograms[0];
    const isDelta = chosen.kind.endsWith("delta");
    const columns = increments(chosen.points, isDelta);
    plot.heatMap(columns);
    const last = columns.at(-1);
    const quantiles = last ? QUANTILES.map((q, index) =>
      h("span", {}, h("i", { class: `dot quantile${index}` }), `p${q * 100} ${short(quantile(last, q))}`)) : [];
    const total = chosen.points.at(-1);
    legend.replaceChildren(
      h("p", { class: "facts" }, [`${grouped(total.count)} values`, total.sum === null ? "" : `sum ${short(total.sum)}`,
        total.min === null ? "" : `min ${short(total.min)}`, total.max === null ? "" : `max ${short(total.max)}`].filter(Boolean).join(" · "), ...quantiles),
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
    const at = this.metrics.findIndex((metric) => metric.name === this.chosen);
    const next = this.metrics[Math.max(0, Math.min(this.metrics.length - 1, at + step))];
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

/** A counter that begins anew is not a fall. */
function rates(points) {
  const rates = [];
  for (let at = 1; at < points.length; at++) {
    const [[before, from], [time, to]] = [points[at - 1], points[at]];
    if (time > before) rates.push([time, Math.max(0, to < from ? to : to - from) / ((time - before) / 1000)]);
  }
  return rates;
}

/** What each point adds to the one before. */
function increments(points, isDelta) {
  const columns = [];
  let before;
  for (const point of points) {
    if (!point.bounds) continue;
    const isSame = before && before.bounds.length === point.bounds.length && before.bounds.every((bound, at) => bound === point.bounds[at]) && before.count <= point.count;
    const counts = isDelta || !before ? point.counts : isSame ? point.counts.map((count, at) => count - before.counts[at]) : regrouped(before, point);
    columns.push({ time: point.time, bounds: point.bounds, counts, min: point.min, max: point.max });
    before = point;
  }
  return columns;
}

/** Exponential histograms widen: what was in a narrow bucket is in the wider one that holds its end. */
function regrouped(before, point) {
  if (before.count > point.count) return point.counts;
  const counts = [...point.counts];
  before.counts.forEach((count, at) => {
    const end = before.bounds[at] ?? Infinity;
    const found = point.bounds.findIndex((bound) => bound >= end * (1 - 1e-9));
    counts[found < 0 ? counts.length - 1 : found] -= count;
  });
  return counts.map((count) => Math.max(0, count));
}

/** Linear within the bucket, which ends at what is known of the least and the largest. */
function quantile({ bounds, counts, min, max }, q) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (!total) return NaN;
  let rest = q * total;
  for (let at = 0; at < counts.length; at++) {
    if (rest <= counts[at] && counts[at]) {
      const from = at ? bounds[at - 1] : (min ?? Math.min(0, bounds[0] ?? 0));
      const to = bounds[at] ?? max ?? bounds.at(-1) ?? from;
      return from + ((to - from) * rest) / counts[at];
    }
    rest -= counts[at];
  }
  return bounds.at(-1);
}

/** A chart over time on a canvas. */
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

  colour(name) {
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
    context.strokeStyle = this.colour("--line");
    context.fillStyle = this.colour("--faint");
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
      const decades = [];
      for (let power = Math.floor(Math.log10(this.low)); 10 ** power <= this.high * 1.001; power++) decades.push(10 ** power);
      return decades.filter((value) => value >= this.low * 0.999);
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
    this.high = Math.max(largest(values), this.low + 1e-9) * 1.05;
    this.axes(suffix);
    for (const line of lines) {
      const { context } = this;
      context.strokeStyle = context.fillStyle = this.colour(`--hue${line.colour}`);
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
        return h("p", {}, h("i", { class: `dot ${hue(line.colour)}` }), `${short(value)}  ${line.label}`);
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
    // the first column needs room as the others do
    if (columns.length > 1) this.from -= (this.to - this.from) / (columns.length - 1);
    else this.from -= 1000;
    const { context } = this;
    context.fillStyle = this.colour("--heat");
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
      context.strokeStyle = this.colour(`--quantile${index}`);
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
      const column = nearest(columns, time + wide / 2, (one) => one.time);
      const sum = column.counts.reduce((all, count) => all + count, 0);
      const rows = QUANTILES.map((q, index) =>
        h("p", {}, h("i", { class: `dot quantile${index}` }), `p${q * 100}  ${short(quantile(column, q))} ${this.unit}`));
      return [h("p", {}, `${timeOfDay(column.time)}  ${grouped(sum)} values`), ...rows];
    });
  }

  /** The buckets of a column where they are drawn. Those that are lower than a cell share one. */
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
    this.context.fillStyle = this.colour("--faint");
    this.context.textAlign = "center";
    this.context.fillText(text, this.width / 2, this.height / 2);
  }

  hover(describe) {
    const { canvas, tip } = this;
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const part = (event.clientX - box.left - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right);
      tip.hidden = part < 0 || part > 1;
      if (tip.hidden) return;
      tip.replaceChildren(...describe(this.from + part * (this.to - this.from)));
      const isLeft = event.clientX - box.left < this.width / 2;
      tip.style.left = isLeft ? `${event.clientX - box.left + 14}px` : "";
      tip.style.right = isLeft ? "" : `${this.width - (event.clientX - box.left) + 14}px`;
      tip.style.top = `${event.clientY - box.top + 10}px`;
    });
    canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  }
}

function nearest(list, time, timeOf) {
  return list.reduce((best, one) => (Math.abs(timeOf(one) - time) < Math.abs(timeOf(best) - time) ? one : best));
}
