// Other forms of a trace: a flame graph, a table of operations, OTLP JSON; and the comparison of two traces.

import { ask, back, copy, count, dot, duration, grouped, h, hue, missing, quoted } from "./dom.js";

/** Minimum width of a block of a flame graph, in percent of the whole. */
const MIN_BLOCK = 0.1;
/** Maximum number of levels of a flame graph. A click on a block shows further levels. */
const MAX_DEPTH = 200;
/** Maximum number of characters of JSON that are shown. */
const MAX_JSON = 300_000;

/** Sums of the spans of each operation (service and name). `view` has the columns and the tree of a trace. */
function operations(view) {
  const { trace, tree } = view;
  const critical = view.criticalPath?.().parts;
  const sums = new Map();
  for (const span of tree.order) {
    const [service, name] = [trace.service[span], trace.names[trace.name[span]]];
    const key = `${service} ${name}`;
    if (!sums.has(key)) sums.set(key, { key, service, name, spans: 0, total: 0, self: 0, most: 0, errors: 0, critical: 0 });
    const sum = sums.get(key);
    sum.spans++;
    sum.total += trace.duration[span];
    sum.self += view.selfTime(span);
    sum.most = Math.max(sum.most, trace.duration[span]);
    sum.errors += trace.error[span];
    for (const [from, to] of critical?.get(span) ?? []) sum.critical += to - from;
  }
  return [...sums.values()];
}

/** Returns a table whose heads sort it when clicked. A column has a title, and functions for its value and text. */
function sortable(rows, columns, first, onRow) {
  let [sorted, isUp] = [1, false];
  const table = h("table.operations");
  const draw = () => {
    const by = columns[sorted][1];
    const order = [...rows].sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) * (isUp ? 1 : -1));
    const head = columns.map(([title], at) => h("th", h("button", { onclick: () => {
      [sorted, isUp] = [at, sorted === at ? !isUp : at === 0];
      draw();
    } }, title, at === sorted ? (isUp ? " ↑" : " ↓") : "")));
    table.replaceChildren(h("thead", h("tr", ...head)), h("tbody", ...order.map((row) =>
      h("tr", { class: onRow && "link", tabindex: onRow && 0, role: onRow && "link", onclick: onRow && (() => onRow(row)), onkeydown: onRow && ((event) => event.key === "Enter" && onRow(row)) },
        h("td", ...first(row)), ...columns.slice(1).map(([, value, text = grouped, mark]) =>
          h("td", { class: `number ${mark?.(value(row)) ?? ""}` }, text(value(row))))))));
  };
  draw();
  return table;
}

const orDash = (text) => (value) => (value ? text(value) : "–");
const title = (app) => ({ service, name }) => [dot(service), h("b", name || "(no name)"), h("small", app.service(service))];

export class ProfileView {
  constructor(app, view) {
    Object.assign(this, { app, view });
    this.element = h("section.profile", { hidden: true });
  }

  show(mode) {
    this.element.hidden = !mode;
    const key = `${mode} ${this.view.trace.changed} ${this.app.services.length}`;
    if (!mode || key === this.drawn) return;
    this.drawn = key;
    this.element.className = `profile ${mode}`;
    if (mode === "flame") this.drawFlame();
    else if (mode === "table") this.drawTable();
    else this.drawJson();
  }

  drawTable() {
    this.element.replaceChildren(sortable(operations(this.view), [
      ["operation", ({ service, name }) => `${this.app.service(service)} ${name}`], ["total", ({ total }) => total, duration], ["self", ({ self }) => self, duration],
      ["critical", ({ critical }) => critical, orDash(duration)], ["count", ({ spans }) => spans], ["mean", ({ total, spans }) => total / spans, duration],
      ["max", ({ most }) => most, duration], ["errors", ({ errors }) => errors, orDash((number) => `✗ ${number}`), (number) => number && "bad"],
    ], title(this.app), ({ service, name }) => this.view.searchFor(`service:${quoted(this.app.service(service))} name:${quoted(name)}`)));
  }

  async drawJson() {
    const path = `/api/trace/${this.view.id}/otlp`;
    const text = await ask(path).catch((error) => error.message);
    const lines = text.length > MAX_JSON ? `${text.slice(0, MAX_JSON)}\n… the download has all ${grouped(text.length)} characters`
      : text.trim().split("\n").map((line) => JSON.stringify(JSON.parse(line), null, 2)).join("\n");
    const button = h("button", { onclick: () => copy(text, button) }, "copy");
    this.element.replaceChildren(h("p.bar-of-tools", `OTLP JSON lines, ${grouped(text.length)} characters`, button,
      h("a.button", { href: path, download: `trace-${this.view.id.slice(0, 8)}.jsonl` }, "download")), h("pre", lines));
  }

  /** Draws the tree of operations. Spans of one operation with the same path of parents are one block. Its width is the
   * sum of the self times of these spans and of all spans below them. */
  drawFlame() {
    const { trace, tree } = this.view;
    const root = { children: new Map(), self: 0, spans: 0, errors: 0, depth: -1 };
    const blocks = [root];
    const of = new Array(trace.parent.length);
    for (const span of tree.order) {
      const above = tree.up[span] >= 0 ? of[tree.up[span]] : root;
      const key = `${trace.service[span]} ${trace.name[span]}`;
      if (!above.children.has(key)) {
        blocks.push({ above, service: trace.service[span], name: trace.names[trace.name[span]], children: new Map(), self: 0, spans: 0, errors: 0, depth: above.depth + 1 });
        above.children.set(key, blocks.at(-1));
      }
      const block = (of[span] = above.children.get(key));
      block.self += this.view.selfTime(span);
      block.spans++;
      block.errors += trace.error[span];
    }
    for (const block of blocks) block.total = block.self;
    for (let at = blocks.length - 1; at > 0; at--) blocks[at].above.total += blocks[at].total;
    this.root = root;
    this.facts = h("p.bar-of-tools");
    this.blocks = h("div.blocks");
    this.element.replaceChildren(this.facts, this.blocks);
    this.drawBlocks(root);
  }

  describe(block) {
    if (block === this.root) return `all: ${duration(block.total)} · click a block to zoom`;
    return `${this.app.service(block.service)} · ${block.name}: ${duration(block.total)}, self ${duration(block.self)}, ${count(block.spans, "span")}${block.errors ? `, ✗ ${count(block.errors, "error")}` : ""}`;
  }

  drawBlocks(top) {
    const drawn = [];
    let deepest = 0;
    const draw = (block, left, width) => {
      if (width < MIN_BLOCK || block.depth > top.depth + MAX_DEPTH) return;
      deepest = Math.max(deepest, block.depth);
      if (block !== this.root) {
        drawn.push(h("button", { class: `${hue(block.service)} ${block.errors ? "bad" : ""}`, title: this.describe(block), vars: { "--left": `${left}%`, "--width": `${width}%`, "--depth": block.depth },
          onclick: () => this.drawBlocks(block === top ? block.above : block), onpointerenter: () => (this.facts.textContent = this.describe(block)),
          onfocus: () => (this.facts.textContent = this.describe(block)) }, width > 1.5 ? block.name || "(no name)" : ""));
      }
      let at = left;
      for (const child of [...block.children.values()].sort((a, b) => b.total - a.total)) {
        const share = block.total ? (width * child.total) / block.total : 0;
        draw(child, at, share);
        at += share;
      }
    };
    const above = [];
    for (let block = top.above; block && block !== this.root; block = block.above) above.push(block);
    for (const block of above) {
      drawn.push(h("button", { class: `${hue(block.service)} faded`, title: this.describe(block), vars: { "--left": "0%", "--width": "100%", "--depth": block.depth }, onclick: () => this.drawBlocks(block) }, block.name));
    }
    draw(top, 0, 100);
    this.facts.textContent = this.describe(top);
    this.blocks.style.setProperty("--rows", deepest + 1);
    this.blocks.replaceChildren(...drawn);
  }
}

export class CompareView {
  constructor(app, main, ids) {
    Object.assign(this, { app, main, ids });
    app.compared = undefined;
    this.title = "comparison · standpipe";
  }

  async update() {
    if (this.isDrawn) return;
    const { TraceView } = await import("./trace.js");
    const sides = [];
    for (const id of this.ids.slice(0, 2)) {
      const trace = await ask(`/api/trace/${id}`).catch((error) => this.main.replaceChildren(missing(id, error, this.app.list)));
      if (!trace || this.app.view !== this) return;
      // Only the methods of TraceView that build and measure the tree are used. They need no elements of the page.
      const side = Object.create(TraceView.prototype, { trace: { value: trace, writable: true }, tree: { value: undefined, writable: true }, marks: { value: undefined, writable: true } });
      side.grow();
      sides.push({ id, trace, name: side.name(), sums: new Map(operations(side).map((sum) => [sum.key, sum])) });
    }
    this.isDrawn = true;
    const none = { spans: 0, total: 0, self: 0, errors: 0 };
    const rows = [...new Set(sides.flatMap(({ sums }) => [...sums.keys()]))].map((key) => {
      const [a, b] = sides.map(({ sums }) => sums.get(key) ?? none);
      return { ...(a.key ? a : b), a, b };
    });
    const signed = (text) => (value) => (value ? `${value > 0 ? "+" : "−"}${text(Math.abs(value))}` : "±0");
    const worse = (value) => (value > 0 ? "bad" : value < 0 ? "good" : "");
    const head = ({ id, trace, name }, letter) => h("a", { href: `/trace/${id}` }, h("b", `${letter} `), `${duration(trace.nanos)}, ${count(trace.parent.length, "span")} · ${id.slice(0, 8)} ${name}`);
    const [a, b] = sides;
    const change = b.trace.nanos - a.trace.nanos;
    this.main.replaceChildren(h("div.summary", back(this.app.list), h("h1", "Comparison"), head(a, "A"), head(b, "B"),
      h("b", { class: worse(change) }, `B − A: ${signed(duration)(change)}`)),
    h("section.profile.table", sortable(rows, [
      ["operation", ({ service, name }) => `${this.app.service(service)} ${name}`], ["change of self", ({ a, b }) => b.self - a.self, signed(duration), worse],
      ["change of total", ({ a, b }) => b.total - a.total, signed(duration), worse], ["total A", ({ a }) => a.total, orDash(duration)], ["total B", ({ b }) => b.total, orDash(duration)],
      ["count A", ({ a }) => a.spans, orDash(grouped)], ["count B", ({ b }) => b.spans, orDash(grouped)], ["errors A", ({ a }) => a.errors, orDash(grouped)], ["errors B", ({ b }) => b.errors, orDash(grouped)],
    ], title(this.app))));
  }

  key(event) {
    if (event.key !== "Escape") return false;
    this.app.go(this.app.list);
    return true;
  }
}
