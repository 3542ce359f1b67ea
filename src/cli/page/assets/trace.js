// View of one trace: the tree of its spans, their bars over time, and a side panel with the details of the selected
// span.

import { cleared, onDrag } from "./charts.js";
import { Refused, ask, back, copy, count, dot, duration, h, hue, largest, missing, setText, timeOfDay } from "./dom.js";
import { ROW, Rows, isNarrow } from "./rows.js";
import { SpanPanel } from "./span.js";
import { ProfileView } from "./profile.js";

/** Minimum number of identical childless siblings that are grouped in one row. */
const MIN_LIKE_LEAVES = 5;
/** Number of places for marks of events and log records on the lane of a bar. Marks at one place are merged. */
const MARK_PLACES = 120;
/** Gaps of more than this share of the trace's time can be folded. Folding shortens a gap to the share `FOLDED_GAP`. */
const MIN_GAP = 0.04;
const FOLDED_GAP = 0.01;
/** Maximum number of services in the legend. */
const MAX_SERVICES = 8;
const MODES = { "": "waterfall", flame: "flame graph", table: "table", json: "JSON" };
const KINDS = ["", "", "server", "client", "producer", "consumer"];

export class TraceView {
  constructor(app, main, [id = ""], parameters) {
    this.app = app;
    this.id = id;
    app.opened = id;
    this.wanted = parameters.get("span");
    this.title = `trace ${id.slice(0, 8)} · standpipe`;
    this.placeholder = "find in this trace:  text   service:pay   key=value   err   dur>1ms";
    this.mode = parameters.get("view") ?? "";
    this.collapsed = new Set();
    this.unfolded = new Set();
    this.hits = [];
    this.hitSet = new Set();
    this.range = undefined;
    this.rows = new Rows({
      role: "treegrid",
      label: "spans",
      make: () => h("div",
        h("span.label", { role: "gridcell" }, h("i.guides"), h("button.twist", { tabindex: "-1" }),
          h("i.dot"), h("b"), h("small")),
        h("span.lane", { role: "gridcell" }, h("i.bar"), h("span.segments"), h("em"), h("span.marks"))),
      fill: (row, index) => this.fill(row, index),
      choose: (index, how, event) => this.choose(index, how, event),
    });
    this.summary = h("div.summary");
    this.minimap = h("canvas.minimap", { title: "drag to zoom · double-click for the whole trace" });
    this.axis = h("div.axis", h("span", "span"), h("span.ticks"));
    this.panel = new SpanPanel(app, () => this.select(-1));
    this.waterfall = h("section.waterfall", this.minimap, this.axis, this.rows.element);
    this.profile = new ProfileView(app, this);
    main.append(this.summary, h("div.split", this.waterfall, this.profile.element, this.panel.element));
    onDrag(this.minimap, (...ends) => {
      const times = ends.map(([x]) => (x / this.minimap.clientWidth) * this.trace.nanos);
      this.zoom([Math.min(...times), Math.max(...times)]);
    });
    this.minimap.addEventListener("dblclick", () => this.zoom());
    this.resized = new ResizeObserver(() => this.drawMinimap());
    this.resized.observe(this.minimap);
  }

  async update() {
    let trace;
    try {
      const { changed, logs } = this.trace ?? {};
      trace = await ask(`/api/trace/${this.id}${changed === undefined ? "" : `?changed=${changed}&logs=${logs.length}`}`);
    } catch (error) {
      if (!this.trace) {
        this.waterfall.hidden = true;
        this.summary.replaceChildren(missing(this.id, error, this.app.list));
      } else if (error instanceof Refused) this.summary.prepend(this.goneNote ??= h("p.warn", error.message));
      return;
    }
    if (this.app.view !== this) return;
    const known = this.app.services.length;
    if (trace) this.take(trace);
    else if (known !== this.known) this.drawSummary();
    this.known = known;
    this.rows.draw();
  }

  /** Shows a new version of the trace. Keeps the selection, the zoom and the collapsed rows. */
  take(trace) {
    const isFirst = !this.trace;
    const selected = this.span();
    const shift = isFirst ? 0 : Number(BigInt(this.trace.base) - BigInt(trace.base));
    this.trace = trace;
    this.grow();
    this.range = this.isZoomed ? this.range.map((time) => time + shift) : [0, trace.nanos];
    this.gaps = this.gaps && this.findGaps();
    this.critical = this.critical && this.criticalPath();
    this.flatten();
    if (this.app.query) this.find().then(() => isFirst && this.hits.length && !this.wanted && this.open(this.hits[0]));
    this.rows.selected = selected === undefined ? -1 : this.shown.findIndex((row) => row.span === selected);
    this.oddities = this.findOddities();
    this.drawMinimap();
    this.setMode(this.mode);
    if (isFirst && this.wanted && this.indexOf(this.wanted) >= 0) this.open(this.indexOf(this.wanted));
    else if (selected !== undefined && !this.panel.element.hidden) this.show(selected);
  }

  indexOf(spanId) {
    const at = this.trace.ids.indexOf(spanId);
    for (let from = at; from >= 0; from = this.trace.ids.indexOf(spanId, from + 1)) if (from % 16 === 0) return from / 16;
    return -1;
  }

  /** Builds the tree, with children ordered by their start. Each span is in the tree once, even if there are cycles of
   * parents. */
  grow() {
    const { parent, start, duration: nanos, flags } = this.trace;
    this.trace.error = flags.map((flag) => flag & 1);
    const { error } = this.trace;
    const size = parent.length;
    const byStart = Uint32Array.from({ length: size }, (_, index) => index).sort((a, b) => start[a] - start[b] || a - b);
    const children = new Map();
    const roots = [];
    for (const index of byStart) {
      if (parent[index] < 0) roots.push(index);
      else if (children.has(parent[index])) children.get(parent[index]).push(index);
      else children.set(parent[index], [index]);
    }
    const depth = new Int32Array(size).fill(-1);
    const order = [];
    for (const root of [...roots, ...byStart]) {
      if (depth[root] >= 0) continue;
      depth[root] = 0;
      const waiting = [root];
      while (waiting.length) {
        const index = waiting.pop();
        order.push(index);
        const below = (children.get(index) ?? []).filter((child) => depth[child] < 0);
        children.set(index, below);
        below.forEach((child) => (depth[child] = depth[index] + 1));
        for (let at = below.length - 1; at >= 0; at--) waiting.push(below[at]);
      }
    }
    const inside = new Uint32Array(size);
    const errors = new Uint32Array(size);
    const up = new Int32Array(size).fill(-1);
    for (const [index, below] of children) below.forEach((child) => (up[child] = index));
    for (let at = size - 1; at >= 0; at--) {
      const index = order[at];
      errors[index] += error[index];
      if (up[index] >= 0) {
        inside[up[index]] += inside[index] + 1;
        errors[up[index]] += errors[index];
      }
    }
    this.tree = { children, depth, order, inside, errors, up, end: start.map((from, index) => from + nanos[index]) };
    this.marks = new Map();
    const mark = (span, time, kind) => {
      if (!this.marks.has(span)) this.marks.set(span, []);
      this.marks.get(span).push([time, kind]);
    };
    this.trace.events.forEach(([span, time]) => mark(span, time, "event"));
    this.trace.logs.forEach(([span, time, level]) => span >= 0 && mark(span, time, level >= 17 ? "log bad" : "log"));
  }

  /** Computes the visible rows: a row is a span, or a group of identical childless siblings. */
  flatten() {
    const { children, order, up } = this.tree;
    const rows = [];
    const hidden = new Uint8Array(order.length);
    for (const index of order) {
      const above = up[index];
      if (above >= 0 && (hidden[above] || this.collapsed.has(above))) {
        hidden[index] = 1;
        continue;
      }
      if (hidden[index]) continue;
      rows.push({ span: index });
      if (!this.collapsed.has(index)) this.foldLeaves(children.get(index), hidden);
      for (const fold of this.folds ?? []) rows.push(fold);
      this.folds = undefined;
    }
    this.shown = rows;
    this.rows.setCount(rows.length);
  }

  foldLeaves(below, hidden) {
    const groups = new Map();
    for (const child of below ?? []) {
      if (this.tree.inside[child] || this.trace.error[child]) continue;
      const key = `${this.trace.name[child]} ${this.trace.service[child]}`;
      if (groups.has(key)) groups.get(key).push(child);
      else groups.set(key, [child]);
    }
    for (const spans of groups.values()) {
      if (spans.length < MIN_LIKE_LEAVES || this.isUnfolded || this.unfolded.has(spans[0])) continue;
      spans.forEach((span) => (hidden[span] = 1));
      const nanos = spans.map((span) => this.trace.duration[span]);
      (this.folds ??= []).push({
        span: spans[0],
        like: spans,
        end: largest(spans.map((span) => this.tree.end[span])),
        nanos: nanos.reduce((sum, one) => sum + one, 0),
        most: largest(nanos),
      });
    }
  }

  /** Converts a time to a position on the axis, where folded gaps are short. */
  fold(time) {
    let folded = time;
    for (const { from, to } of this.gaps ?? []) {
      if (time <= from) break;
      const size = Math.min(to - from, this.trace.nanos * FOLDED_GAP);
      folded -= time >= to ? to - from - size : ((time - from) * (to - from - size)) / (to - from);
    }
    return folded;
  }

  /** Returns the position of a time within the zoomed range, in percent. */
  place(time) {
    const [from, to] = this.range.map((one) => this.fold(one));
    time = this.fold(time);
    return (100 * (time - from)) / Math.max(1, to - from);
  }

  fill(row, index) {
    const shown = this.shown[index];
    const { span, like } = shown;
    const { trace, tree } = this;
    const [label, lane] = row.children;
    const [guides, twist, dot, name, service] = label.children;
    const [bar, segments, text, marks] = lane.children;
    const below = tree.children.get(span)?.length ?? 0;
    const isClosed = this.collapsed.has(span);
    guides.style.width = `min(${tree.depth[span] * 14}px, 45%)`;
    setText(twist, like ? "⋯" : below ? (isClosed ? "▸" : "▾") : "");
    twist.hidden = !like && !below;
    dot.className = `dot ${hue(trace.service[span])}`;
    const title = trace.names[trace.name[span]];
    setText(name, like ? `${title} ×${like.length}` : title || "(no name)");
    name.title = title;
    const kind = KINDS[trace.kind[span]];
    const hiddenErrors = isClosed ? tree.errors[span] - trace.error[span] : 0;
    setText(service, [this.app.service(trace.service[span]), kind, isClosed ? `+${tree.inside[span]}` : "",
      hiddenErrors ? `✗ ${hiddenErrors}` : "", trace.parent[span] === -2 ? "parent missing" : ""].filter(Boolean).join(" · "));
    row.classList.toggle("bad", Boolean(trace.error[span]));
    row.classList.toggle("like", Boolean(like));
    row.classList.toggle("hit", this.hitSet.has(span));
    this.fillSegments(segments, (!like && this.critical?.parts.get(span)) || []);
    row.setAttribute("aria-level", tree.depth[span] + 1);
    if (below) row.setAttribute("aria-expanded", !isClosed);
    else row.removeAttribute("aria-expanded");
    const start = trace.start[span];
    const end = shown.end ?? tree.end[span];
    const [left, right] = [Math.max(0, this.place(start)), Math.min(100, this.place(end))];
    bar.className = `bar ${hue(trace.service[span])}`;
    bar.hidden = left > 100 || right < 0;
    bar.style.left = `${left}%`;
    bar.style.width = `max(2px, ${Math.max(0, right - left)}%)`;
    const nanos = shown.nanos ?? trace.duration[span];
    const most = like ? `, max ${duration(shown.most)}` : "";
    // An arrow points to a bar outside of the zoomed range.
    const side = left > 100 ? " →" : right < 0 ? " ←" : "";
    const merged = this.fillMarks(marks, (!like && this.marks.get(span)) || []);
    setText(text, `${trace.error[span] ? "✗ " : ""}${duration(nanos)}${most}${merged ? ` ◆ +${merged}` : ""}${side}`);
    // On a narrow screen the text takes a larger part of the lane.
    const room = isNarrow() ? 50 : like ? 24 : 16;
    const place = right < 100 - room ? "behind" : left > room ? "before" : like ? "above" : "inside";
    text.className = place;
    bar.classList.toggle("low", place === "above");
    text.style.left = place === "behind" ? `${Math.max(0, right)}%` : "";
    text.style.right = place === "behind" ? "" : place === "before" ? `${100 - Math.min(100, left)}%` : `${100 - right}%`;
  }

  fillSegments(element, parts) {
    resize(element, parts.length);
    parts.forEach(([from, to], index) => {
      const [left, right] = [Math.max(0, this.place(from)), Math.min(100, this.place(to))];
      element.children[index].hidden = left > 100 || right < 0;
      element.children[index].style.left = `${left}%`;
      element.children[index].style.width = `max(2px, ${Math.max(0, right - left)}%)`;
    });
  }

  /** Draws marks, one for each place. Returns the number of marks that share a place with a drawn one. */
  fillMarks(element, marks) {
    const places = new Map();
    let visible = 0;
    for (const [time, kind] of marks) {
      const place = this.place(time);
      if (place < 0 || place > 100) continue;
      visible++;
      const key = `${Math.round((place / 100) * MARK_PLACES)} ${kind === "event"}`;
      if (!places.has(key) || kind === "log bad") places.set(key, [place, kind]);
    }
    resize(element, places.size);
    [...places.values()].forEach(([place, kind], index) => {
      element.children[index].className = kind;
      element.children[index].style.left = `${place}%`;
    });
    return (this.isZoomed ? visible : marks.length) - places.size;
  }

  choose(index, how, event) {
    const { span, like } = this.shown[index];
    if (how === "click" && event.target.closest(".twist")) return this.toggle(index);
    if (like && how !== "move") {
      this.unfolded.add(like[0]);
      return this.flatten();
    }
    if (like) return this.panel.hide();
    this.show(span);
  }

  async show(span) {
    this.note(this.trace.ids.slice(span * 16, span * 16 + 16));
    await this.panel.show(this.id, span, this.trace, this.selfTime(span));
  }

  /** Updates the address, so that it leads to the selected span and the search. */
  note(span) {
    const parameters = new URLSearchParams();
    if (span) parameters.set("span", span);
    if (this.app.query) parameters.set("q", this.app.query);
    if (this.mode) parameters.set("view", this.mode);
    if (this.app.time) parameters.set("time", this.app.time);
    this.app.note(`/trace/${this.id}${parameters.size ? `?${parameters}` : ""}`);
  }

  /** Returns the time of a span that none of its children covers. */
  selfTime(span) {
    const { start } = this.trace;
    let [covered, until] = [0, start[span]];
    for (const child of this.tree.children.get(span) ?? []) {
      const end = Math.min(this.tree.end[child], this.tree.end[span]);
      covered += Math.max(0, end - Math.max(until, start[child]));
      until = Math.max(until, end);
    }
    return Math.max(0, this.trace.duration[span] - covered);
  }

  span() {
    return this.shown?.[this.rows.selected]?.span;
  }

  select(index) {
    this.rows.select(index);
    if (index < 0) {
      this.panel.hide();
      this.note();
    }
  }

  /** Selects a span. Expands its ancestors, and the group that contains it. */
  open(span) {
    for (let above = this.tree.up[span]; above >= 0; above = this.tree.up[above]) this.collapsed.delete(above);
    this.flatten();
    let index = this.shown.findIndex((row) => row.span === span && !row.like);
    if (index < 0) {
      const fold = this.shown.find((row) => row.like?.includes(span));
      if (!fold) return;
      this.unfolded.add(fold.like[0]);
      this.flatten();
      index = this.shown.findIndex((row) => row.span === span);
    }
    this.rows.select(index);
    this.show(span);
  }

  toggle(index, close) {
    const { span, like } = this.shown[index];
    if (like) this.unfolded.add(like[0]);
    else if (close ?? !this.collapsed.has(span)) this.collapsed.add(span);
    else this.collapsed.delete(span);
    this.flatten();
  }

  /** Requests the spans that match the search, or have a matching log record: only the server knows the attributes. */
  async find() {
    const { query } = this.app;
    const found = query ? await this.app.find(this, `/api/trace/${this.id}/find`, { from: "", to: "" }) : [];
    if (!found || query !== this.app.query) return;
    if (!query) this.app.problem();
    this.hitSet = new Set(found.rows ?? found);
    this.hits = this.tree.order.filter((span) => this.hitSet.has(span));
    this.drawSummary();
    this.rows.draw();
  }

  async search() {
    if (!this.trace) return;
    this.note();
    await this.find();
    if (this.hits.length) this.open(this.hits[0]);
  }

  /** Shows the waterfall (""), or another form of the trace: "flame", "table" or "json". */
  setMode(mode) {
    this.mode = mode;
    this.waterfall.hidden = Boolean(mode);
    if (mode) this.panel.hide();
    this.profile.show(mode);
    this.drawSummary();
    if (!mode) this.rows.draw();
  }

  searchFor(query) {
    document.getElementById("search").value = this.app.query = query;
    this.setMode("");
    return this.search();
  }

  /** Finds the gaps: long times with no open leaf span, and no event or log record. */
  findGaps() {
    const { trace, tree } = this;
    const busy = tree.order.filter((span) => !tree.inside[span]).map((span) => [trace.start[span], tree.end[span]]);
    for (const [, time] of [...trace.events, ...trace.logs]) busy.push([time, time]);
    busy.push([trace.nanos, trace.nanos]);
    busy.sort((a, b) => a[0] - b[0]);
    const gaps = [];
    let until = 0;
    for (const [from, to] of busy) {
      if (from - until > trace.nanos * MIN_GAP) gaps.push({ from: until, to: from });
      until = Math.max(until, to);
    }
    return gaps;
  }

  toggleGaps() {
    this.gaps = this.gaps ? undefined : this.findGaps();
    this.drawSummary();
    this.rows.draw();
  }

  /** Selects the next or previous of `spans` in the order of the tree, and continues at the other end. */
  jump(spans, forward) {
    if (!spans.length) return;
    const at = this.tree.order.indexOf(this.span() ?? -1);
    const place = new Map(this.tree.order.map((span, index) => [span, index]));
    const sorted = [...spans].sort((a, b) => place.get(a) - place.get(b));
    const found = forward ? sorted.find((span) => place.get(span) > at) : sorted.findLast((span) => place.get(span) < at);
    this.open(found ?? (forward ? sorted[0] : sorted.at(-1)));
  }

  toggleCritical() {
    this.critical = this.critical ? undefined : this.criticalPath();
    this.drawSummary();
    this.rows.draw();
  }

  /** Computes the critical path from the end to the start: the parts in which the trace waited for a span and none of
   * its children. Parts of different spans do not overlap. */
  criticalPath() {
    const parts = new Map();
    const { children, depth, end, order } = this.tree;
    const { start } = this.trace;
    let total = 0;
    const waiting = [order.filter((span) => depth[span] === 0).reduce((a, b) => (end[b] > end[a] ? b : a))];
    while (waiting.length) {
      const span = waiting.pop();
      const own = [];
      let time = end[span];
      const add = (from, to) => to > from && (own.push([from, to]), (total += to - from));
      for (const child of [...(children.get(span) ?? [])].sort((a, b) => end[b] - end[a])) {
        if (end[child] > time || start[child] < start[span]) continue;
        add(end[child], time);
        waiting.push(child);
        time = start[child];
      }
      add(start[span], time);
      parts.set(span, own);
    }
    return { parts, total };
  }

  zoom(range) {
    const all = this.trace.nanos;
    this.isZoomed = Boolean(range);
    const [from, to] = range ?? [0, all];
    this.range = [Math.max(0, from), Math.min(all, Math.max(to, from + 1))];
    this.drawTicks();
    this.drawMinimap();
    this.rows.draw();
  }

  key(event) {
    if (!this.trace) return false;
    const index = this.rows.selected;
    const span = this.span();
    const errors = () => this.tree.order.filter((one) => this.trace.error[one]);
    const { children, up } = this.tree;
    const act = {
      ArrowRight: () => {
        if (span === undefined) return;
        if (this.collapsed.has(span) || this.shown[index].like) this.toggle(index, false);
        else if (children.get(span)?.length) this.rows.key({ key: "ArrowDown" });
      },
      ArrowLeft: () => {
        if (span === undefined) return;
        if (children.get(span)?.length && !this.collapsed.has(span)) this.toggle(index, true);
        else if (up[span] >= 0) this.open(up[span]);
      },
      n: () => this.jump(this.hits, true),
      N: () => this.jump(this.hits, false),
      e: () => this.jump(errors(), true),
      E: () => this.jump(errors(), false),
      c: () => this.toggleCritical(),
      z: () => span !== undefined && this.zoom([this.trace.start[span], this.tree.end[span]]),
      0: () => this.zoom(),
      "[": () => {
        this.tree.order.forEach((one) => children.get(one)?.length && this.tree.depth[one] && this.collapsed.add(one));
        this.isUnfolded = false;
        this.unfolded.clear();
        this.flatten();
      },
      "]": () => {
        this.collapsed.clear();
        this.isUnfolded = true;
        this.flatten();
      },
      g: () => this.toggleGaps(),
      x: () => this.compare(),
      y: () => this.copyText(),
      Y: () => this.copyJson(),
      Escape: () => (this.mode ? this.setMode("") : this.rows.selected >= 0 ? this.select(-1) : this.app.go(this.app.list)),
    }[event.key];
    if (!act) return !this.mode && this.rows.key(event);
    act();
    return true;
  }

  /** Returns the query for the selected span with its descendants, or an empty text for the whole trace. */
  part() {
    const row = this.shown[this.rows.selected];
    const span = row?.like ? this.tree.up[row.span] : row?.span;
    return span === undefined ? "" : `?span=${span}`;
  }

  name() {
    return this.trace.names[this.trace.name[this.tree.order[0]]] || "(no name)";
  }

  compare() {
    this.app.compared = { id: this.id, name: this.name() };
    this.app.go(this.app.list);
  }

  async copyText(button = this.textButton) {
    copy(await ask(`/api/trace/${this.id}/text${this.part()}`), button);
  }

  async copyJson(button = this.jsonButton) {
    copy(await ask(`/api/trace/${this.id}/otlp${this.part()}`), button);
  }

  drawSummary() {
    const { trace } = this;
    const errors = trace.error.reduce((sum, one) => sum + one, 0);
    const services = [...new Set(trace.service)];
    const missing = trace.parent.filter((parent) => parent === -2).length;
    const stray = trace.logs.filter(([span]) => span < 0).length;
    const hits = this.app.query && h("span.found", this.hits.length === 1 ? "1 match" : `${this.hits.length || "no"} matches`);
    const rest = services.length - MAX_SERVICES;
    this.textButton = h("button", { title: "copy as text (y)", onclick: () => this.copyText() }, "copy text");
    this.jsonButton = h("button", { title: "copy as OTLP JSON (Y)", onclick: () => this.copyJson() }, "copy JSON");
    this.summary.replaceChildren(
      back(this.app.list),
      h("h1", this.name()),
      h("code", { title: this.id }, this.id.slice(0, 8)),
      h("span", timeOfDay(Number(BigInt(trace.base) / 1000000n))),
      h("span", duration(trace.nanos)),
      h("span", count(trace.parent.length, "span")),
      h("span", { class: errors ? "bad" : "good" }, errors ? `✗ ${count(errors, "error")}` : "no errors"),
      h("a", { href: `/logs?q=${encodeURIComponent(`trace:${this.id}`)}` }, count(trace.logs.length, "log record")),
      missing ? h("span.warn", trace.parent.includes(-1) ? `${count(missing, "parent")} missing` : "root span missing") : "",
      trace.left_out ? h("span.warn", `${count(trace.left_out, "span")} more not kept: the trace is too large`) : "",
      stray ? h("span.warn", `${count(stray, "log record")} outside of these spans`) : "",
      ...this.oddities.map((text) => h("span.warn", text)),
      hits,
      this.critical ? h("span.critical", `critical path: ${duration(this.critical.total)} in ${count(this.critical.parts.size, "span")}`) : "",
      this.gaps ? h("span", this.gaps.length ? `${count(this.gaps.length, "gap")} folded: ${duration(this.gaps.reduce((sum, { from, to }) => sum + to - from, 0))}` : "no gaps") : "",
      h("span.legend", ...services.slice(0, MAX_SERVICES).map((number) =>
        h("span", dot(number), this.app.service(number))), rest > 0 ? `+${rest}` : ""),
      h("span.tools",
        h("span.modes", { role: "group" }, ...Object.entries(MODES).map(([mode, text]) => h("button", { class: mode === this.mode ? "on" : "", onclick: () => {
          this.setMode(mode);
          this.note();
        } }, text))),
        h("button", { class: this.critical ? "on" : "", title: "the parts of spans that the trace waited for (c)", onclick: () => this.toggleCritical() }, "critical path"),
        h("button", { class: this.gaps ? "on" : "", title: "fold the time in which nothing happens (g)", onclick: () => this.toggleGaps() }, "gaps"),
        h("button", { title: "compare with another trace (x)", onclick: () => this.compare() }, "compare"),
        this.textButton, this.jsonButton));
    this.drawTicks();
  }

  /** Describes inconsistencies that only a faulty sender causes. */
  findOddities() {
    const { flags, ids, parent } = this.trace;
    const circles = parent.filter((above, span) => above >= 0 && this.tree.depth[span] === 0).length;
    const different = new Set(parent.map((_, span) => ids.slice(span * 16, span * 16 + 16))).size;
    const early = flags.filter((flag) => flag & 2).length;
    return [
      circles && `${count(circles, "cycle")} of parents`,
      different < parent.length && `${count(parent.length - different, "duplicate span id")}`,
      early && `${count(early, "span")} with an end before the start`,
    ].filter(Boolean);
  }

  drawTicks() {
    const ticks = this.axis.lastChild;
    const [from, to] = this.range ?? [0, this.trace.nanos];
    const step = niceStep((to - from) / 6);
    const marks = [];
    for (let time = Math.ceil(from / step) * step; time <= to && marks.length < 12; time += step) {
      const mark = h("span", time ? duration(time).replace(/\.0+(?=\D)/, "") : "0");
      mark.style.left = `${this.place(time)}%`;
      marks.push(mark);
    }
    ticks.replaceChildren(...marks);
  }

  /** Draws the number of open spans over time, and the zoomed range. */
  drawMinimap() {
    const { trace } = this;
    const canvas = this.minimap;
    const fits = !trace || trace.parent.length * ROW < this.rows.element.clientHeight;
    canvas.hidden = fits && this.range?.[0] === 0 && this.range?.[1] === trace?.nanos;
    if (canvas.hidden || !trace) return;
    const { width, height, context, color } = cleared(canvas);
    if (!width) return;
    const open = new Float64Array(width + 1);
    const bad = new Uint8Array(width + 1);
    const at = (time) => Math.min(width, Math.max(0, Math.floor((time / Math.max(1, trace.nanos)) * width)));
    for (let span = 0; span < trace.start.length; span++) {
      open[at(trace.start[span])]++;
      open[Math.min(width, at(this.tree.end[span]) + 1)]--;
      if (trace.error[span]) bad[at(trace.start[span])] = 1;
    }
    let most = 1;
    for (let x = 1; x <= width; x++) most = Math.max(most, (open[x] += open[x - 1]));
    context.fillStyle = color("--minimap");
    for (let x = 0; x < width; x++) {
      const tall = (open[x] / most) * (height - 4);
      context.fillRect(x, height - tall, 1, tall);
    }
    context.fillStyle = color("--bad");
    for (let x = 0; x < width; x++) if (bad[x]) context.fillRect(x, 0, 2, 4);
    const [left, right] = this.range.map((time) => (time / Math.max(1, trace.nanos)) * width);
    context.fillStyle = color("--shade");
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, width - right, height);
  }

  redraw() {
    if (this.trace) this.drawMinimap();
  }

  close() {
    this.rows.close();
    this.resized.disconnect();
  }
}

function resize(element, size) {
  while (element.children.length > size) element.lastChild.remove();
  while (element.children.length < size) element.append(h("i"));
}

/** Rounds a step up to 1, 2 or 5 times a power of ten. */
function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  return power * ([1, 2, 5, 10].find((step) => step * power >= rough) ?? 10);
}
