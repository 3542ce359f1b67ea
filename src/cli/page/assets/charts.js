// Charts on a canvas: lines and heat maps over time, and the scatter plot of traces.

import { dot, duration, grouped, h, largest, short, smallest, timeOfDay, withUnit } from "./dom.js";

export const QUANTILES = [0.5, 0.9, 0.99];
const MARGIN = { left: 76, right: 12, top: 10, bottom: 24 };
/** Minimum height of a cell of a heat map, in pixels. */
const CELL = 10;
/** Maximum distance between the pointer and a point that it hits, in pixels. */
const REACH = 9;
/** Minimum length of a drag in pixels. */
const MIN_DRAG = 6;

/** Estimates a quantile by linear interpolation within its bucket, limited by min and max; NaN without values. */
export function quantile({ bounds, counts, min, max }, q) {
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

/** Clears a canvas. Returns its size in pixels, its context, and a function that looks up colors. */
export function cleared(canvas) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => size * devicePixelRatio);
  Object.assign(canvas, { width, height });
  const style = getComputedStyle(canvas);
  return { width, height, context: canvas.getContext("2d"), color: (name) => style.getPropertyValue(name) };
}

/** Calls `choose(from, to)` with the positions `[x, y]` of a drag, or `click(position)`. Marks the dragged part. */
export function onDrag(element, choose, { click, isBox = false } = {}) {
  const mark = h("i.marked", { hidden: true });
  element.after(mark);
  element.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    element.setPointerCapture(event.pointerId);
    const at = (moved) => {
      const box = element.getBoundingClientRect();
      return [Math.max(0, Math.min(box.width, moved.clientX - box.left)), Math.max(0, Math.min(box.height, moved.clientY - box.top))];
    };
    const start = at(event);
    const move = (moved) => {
      const end = at(moved);
      mark.hidden = Math.abs(end[0] - start[0]) < MIN_DRAG;
      const [left, top] = [element.offsetLeft, element.offsetTop];
      const size = { left: left + Math.min(start[0], end[0]), width: Math.abs(end[0] - start[0]), top: isBox ? top + Math.min(start[1], end[1]) : top,
        height: isBox ? Math.abs(end[1] - start[1]) : element.clientHeight };
      for (const [name, value] of Object.entries(size)) mark.style[name] = `${value}px`;
    };
    const over = new AbortController();
    const end = (ended) => {
      over.abort();
      mark.hidden = true;
      const to = at(ended);
      if (ended.type === "pointercancel") return;
      if (Math.abs(to[0] - start[0]) >= MIN_DRAG) choose(start, to);
      else click?.(to, ended);
    };
    element.addEventListener("pointermove", move, over);
    element.addEventListener("pointerup", end, over);
    element.addEventListener("pointercancel", end, over);
  });
}

export class Plot {
  constructor(canvas, tip, unit) {
    Object.assign(this, { canvas, tip, unit, ...cleared(canvas), width: canvas.clientWidth, height: canvas.clientHeight });
    this.context.scale(devicePixelRatio, devicePixelRatio);
    this.context.font = `11px ${this.color("font-family")}`;
  }

  timeAt(x) {
    const part = (x - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right);
    return this.from + Math.max(0, Math.min(1, part)) * (this.to - this.from);
  }

  valueAt(y) {
    const part = Math.max(0, Math.min(1, (this.height - MARGIN.bottom - y) / (this.height - MARGIN.top - MARGIN.bottom)));
    return this.isLog ? Math.exp(Math.log(this.low) + part * (Math.log(this.high) - Math.log(this.low))) : this.low + part * (this.high - this.low);
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
      context.fillText(withUnit(value, this.unit + suffix), MARGIN.left - 6, y, MARGIN.left - 8);
    }
    context.textBaseline = "top";
    const steps = Math.max(1, Math.floor(this.width / 150));
    for (let at = 0; at <= steps; at++) {
      const time = this.from + ((this.to - this.from) * at) / steps;
      context.textAlign = at === 0 ? "left" : at === steps ? "right" : "center";
      context.fillText(timeOfDay(time).replace(this.to - this.from < 10e3 ? "" : /\.\d+$/, ""), this.x(time), this.height - MARGIN.bottom + 8);
    }
  }

  ticks() {
    if (this.isLog) {
      const [first, last] = [Math.ceil(Math.log10(this.low) - 1e-6), Math.floor(Math.log10(this.high) + 1e-6)];
      const step = Math.max(1, Math.ceil((last - first) / 8));
      const decades = [];
      for (let power = first; power <= last; power += step) decades.push(10 ** power);
      return last > first ? decades : [first - 1, first].flatMap((power) => [1, 2, 5].map((one) => one * 10 ** power)).filter((value) => value >= this.low && value <= this.high);
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

  /** Returns the indices of the points within reach of a position, the nearest first. */
  hits(places, [x, y]) {
    const near = places.map(([left, top], index) => [Math.hypot(left - x, top - y), index]).filter(([far]) => far <= REACH);
    return near.sort((a, b) => a[0] - b[0]).map(([, index]) => index);
  }

  exemplars(list) {
    const { context } = this;
    this.shownExemplars = list.filter(({ time, value }) => time >= this.from && time <= this.to && Number.isFinite(value));
    this.exemplarPlaces = this.shownExemplars.map(({ time, value }) => [this.x(time), this.y(value)]);
    context.lineWidth = 2;
    context.strokeStyle = this.color("--text");
    context.fillStyle = this.color("--panel");
    for (const [x, y] of this.exemplarPlaces) {
      context.beginPath();
      context.arc(x, y, 4, 0, 7);
      context.fill();
      context.stroke();
    }
  }

  exemplarAt(place) {
    return this.shownExemplars?.[this.hits(this.exemplarPlaces, place)[0]];
  }

  lines(lines, suffix = "") {
    const all = lines.flatMap((line) => line.points);
    if (!all.length) return this.nothing(suffix ? "a rate needs two points" : "no points in this time range");
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
        return h("p", dot(line.color), `${withUnit(value, this.unit + suffix)}  ${line.label}`);
      });
      return [h("p", timeOfDay(time)), ...rows];
    });
  }

  heatMap(columns) {
    const edges = columns.flatMap(({ bounds, counts, min, max }) =>
      counts.flatMap((count, at) => (count ? [bounds[at - 1] ?? min, bounds[at] ?? max] : []))).filter((edge) => Number.isFinite(edge));
    if (!edges.length) return this.nothing("no values in this time range");
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
        h("p", h("i", { class: `dot quantile${index}` }), `p${q * 100}  ${sum ? withUnit(quantile(column, q), this.unit) : "–"}`));
      return [h("p", `${timeOfDay(column.time)}  ${grouped(sum)} values`), ...rows];
    });
  }

  /** Returns the positions of the buckets of a column. Small buckets are merged into cells of equal height. */
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
      const exemplar = this.exemplarAt([event.clientX - box.left, event.clientY - box.top]);
      canvas.style.cursor = exemplar ? "pointer" : "";
      if (tip.hidden) return;
      tip.replaceChildren(...describe(this.from + part * (this.to - this.from), [event.clientX - box.left, event.clientY - box.top]),
        ...(exemplar ? [h("p", `exemplar ${withUnit(exemplar.value, this.unit)}: click for trace ${exemplar.trace.slice(0, 8)}`)] : []));
      const isLeft = event.clientX - box.left < this.width / 2;
      tip.style.left = isLeft ? `${event.clientX - box.left + 14}px` : "";
      tip.style.right = isLeft ? "" : `${this.width - (event.clientX - box.left) + 14}px`;
      tip.style.top = `${Math.min(event.clientY - box.top + 10, this.height - tip.clientHeight)}px`;
    };
    canvas.onpointermove = (event) => show((canvas.pointer = event));
    canvas.onpointerleave = () => {
      tip.hidden = true;
      canvas.pointer = undefined;
    };
    // The chart was redrawn under the pointer: update the tip, which describes the value there.
    if (canvas.pointer) show(canvas.pointer);
  }
}

function nearest(list, time, timeOf) {
  return list.reduce((best, one) => (Math.abs(timeOf(one) - time) < Math.abs(timeOf(best) - time) ? one : best));
}

/** The durations of traces over time: a click on a point opens its trace, and a drag selects traces. */
export class Scatter {
  constructor({ open, choose }) {
    this.canvas = h("canvas", { role: "img", "aria-label": "durations of traces over time", title: "click a point for its trace · drag to select traces" });
    this.tip = h("div.tip", { hidden: true });
    this.element = h("div.scatter.plot", { hidden: true }, this.canvas, this.tip);
    onDrag(this.canvas, (from, to) => {
      if (!this.plot) return;
      const [left, right] = [from[0], to[0]].sort((a, b) => a - b);
      const [top, bottom] = [from[1], to[1]].sort((a, b) => a - b);
      choose({ from: this.plot.timeAt(left), to: this.plot.timeAt(right), low: this.plot.valueAt(bottom), high: this.plot.valueAt(top) });
    }, { isBox: true, click: (place) => {
      const [hit] = this.plot?.hits(this.places, place) ?? [];
      if (hit !== undefined) open(this.points[hit][3]);
    } });
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(this.element);
  }

  redraw() {
    if (this.points) this.draw(this.points);
  }

  /** Draws points: start in milliseconds, duration in nanoseconds, number of errors, trace id. */
  draw(points) {
    this.points = points;
    if (!this.canvas.clientWidth) return;
    const plot = (this.plot = new Plot(this.canvas, this.tip, "ns"));
    this.places = [];
    if (!points.length) return plot.nothing("no traces");
    const nanos = points.map(([, nanos]) => Math.max(1, nanos));
    plot.setTimes(points.map(([start]) => start));
    plot.isLog = true;
    [plot.low, plot.high] = [smallest(nanos) / 1.3, largest(nanos) * 1.3];
    plot.axes();
    this.places = points.map(([start], index) => [plot.x(start), plot.y(nanos[index])]);
    const { context } = plot;
    // Errors are drawn last, and as crosses, so that they are seen without color.
    for (const isBad of [false, true]) {
      context.fillStyle = context.strokeStyle = plot.color(isBad ? "--bad" : "--accent");
      context.globalAlpha = isBad ? 1 : 0.55;
      context.lineWidth = 1.75;
      points.forEach(([, , errors], index) => {
        if (errors > 0 !== isBad) return;
        const [x, y] = this.places[index];
        context.beginPath();
        if (isBad) [[-3, -3, 3, 3], [-3, 3, 3, -3]].forEach(([a, b, c, d]) => (context.moveTo(x + a, y + b), context.lineTo(x + c, y + d)));
        else context.arc(x, y, 2.75, 0, 7);
        if (isBad) context.stroke();
        else context.fill();
      });
    }
    context.globalAlpha = 1;
    plot.hover((time, place) => {
      const hits = plot.hits(this.places, place);
      const rows = hits.slice(0, 5).map((hit) => h("p", `${timeOfDay(points[hit][0])}  ${duration(points[hit][1])}${points[hit][2] ? `  ✗ ${points[hit][2]}` : ""}`));
      return hits.length ? rows : [h("p", `${timeOfDay(time)}  ${duration(plot.valueAt(place[1]))}`)];
    });
  }

  close() {
    this.resized.disconnect();
  }
}
