// Views of the service map and of the refused requests.

import { ask, count, duration, grouped, h, hue, quoted, svg, timeOfDay } from "./dom.js";

const BOX = { width: 160, height: 58 };
/** Minimum height of a box for each line that ends at the box, so that the labels of the lines stay apart. */
const ENTRY = 40;
/** Minimum gaps of boxes. Labels need room between layers. */
const GAP = { layer: 128, box: 40 };
/** Distance of lines that pass between the same boxes. */
const LANE = 9;
/** Distance of these lines from boxes, if there is room. */
const CLEAR = 60;
/** Vertical distance between the lines of calls back to earlier layers, which pass below all boxes. */
const RETURN = 24;
/** How far the curves at both ends of such a line bend to the side: the offset of their control points. */
const TURN = 32;
const MARGIN = 24;

export class ServicesView {
  constructor(app, main) {
    this.app = app;
    this.title = "services · standpipe";
    this.placeholder = "map only the traces that match:  err   service:pay   dur>1s   key=value";
    this.map = h("section.map");
    main.append(this.map);
    this.resized = new ResizeObserver(() => this.redraw());
    this.resized.observe(this.map);
  }

  search() {
    this.app.note(this.app.address("/services"));
    return this.update();
  }

  async update() {
    const map = await this.app.find(this, "/api/services", { before: this.app.paused?.version });
    if (!map || this.app.view !== this) return;
    const key = JSON.stringify(map);
    if (key === this.drawn) return;
    this.drawn = key;
    this.shown = map.nodes?.length ? map : undefined;
    if (this.shown) this.redraw();
    else this.map.replaceChildren(h("p.matches", this.app.query || this.app.time ? "no trace matches" : "no spans yet"));
  }

  redraw() {
    if (this.shown) this.map.replaceChildren(this.draw(this.shown));
  }

  draw({ nodes, edges }) {
    const { layers, isBack } = layered(nodes.length, edges);
    const entries = nodes.map((_, node) => edges.filter(({ to }) => to === node).length);
    const tall = (node) => Math.max(BOX.height, ENTRY * entries[node]);
    const heights = layers.map((layer) => layer.reduce((sum, node) => sum + tall(node) + GAP.box, 0));
    const returns = RETURN * edges.filter((_, index) => isBack[index]).length;
    // The map fills the view. If the boxes need more room, the map is larger than the view, which then scrolls.
    const width = Math.max(2 * MARGIN + layers.length * BOX.width + (layers.length - 1) * GAP.layer, this.map.clientWidth - 4);
    const height = Math.max(2 * MARGIN + Math.max(...heights), this.map.clientHeight - 6 - returns);
    const step = layers.length > 1 ? (width - 2 * MARGIN - BOX.width) / (layers.length - 1) : 0;
    const places = new Map();
    layers.forEach((layer, at) => {
      const free = (height - 2 * MARGIN - heights[at]) / layer.length + GAP.box;
      let y = MARGIN + free / 2;
      for (const node of layer) {
        places.set(node, { x: layers.length > 1 ? MARGIN + at * step : (width - BOX.width) / 2, y, height: tall(node), layer: at });
        y += tall(node) + free;
      }
    });
    // The lines that end at a box are sorted by the height at which they begin, so that they do not cross.
    const entry = new Map();
    nodes.forEach((_, node) => edges.filter(({ to }) => to === node).sort((a, b) => places.get(a.from).y - places.get(b.from).y)
      .forEach((edge, index) => entry.set(edge, places.get(node).y + ((index + 0.5) * tall(node)) / entries[node])));
    const most = Math.max(1, ...edges.map((edge) => edge.calls));
    let below = 0;
    const passing = [];
    const lines = edges.map((edge, index) => this.edge(edge, { places, layers, passing, most, nodes, height, end: entry.get(edge), bottom: isBack[index] ? height - 8 + RETURN * ++below : 0 }));
    const boxes = nodes.map((node, index) => this.node(node, places.get(index)));
    const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" },
      svg("path", { d: "M0 0 8 4 0 8z", class: "arrow" }));
    return svg("svg", { viewBox: `0 0 ${width} ${height + returns}`, width, height: height + returns, role: "img", "aria-label": "map of services" },
      svg("defs", {}, arrow), ...boxes, ...lines.map(([line]) => line), ...lines.map(([, label]) => label));
  }

  /** Draws a line and its label. A line passes between the boxes of a layer. A call back to an earlier layer passes
   * below all boxes. */
  edge({ from, to, calls, errors, mean, p95 }, { places, layers, passing, most, nodes, height, end: endY, bottom }) {
    const [a, b] = [places.get(from), places.get(to)];
    const start = [a.x + BOX.width, a.y + a.height / 2];
    const end = [b.x, endY];
    const points = [start];
    for (let layer = a.layer + 1; layer < b.layer; layer++) {
      const boxes = layers[layer].map((node) => places.get(node));
      const at = start[1] + ((end[1] - start[1]) * (layer - a.layer)) / (b.layer - a.layer);
      // Heights at which a line can pass this layer: above the first box, between two boxes, below the last box.
      const ends = [0, ...boxes.flatMap((box) => [box.y, box.y + box.height]), height];
      const free = [0, ...boxes].map((_, place) => {
        const [from, to] = ends.slice(2 * place);
        const clear = Math.min(CLEAR, (to - from) / 2);
        return Math.max(from + clear, Math.min(to - clear, at));
      });
      let y = free.reduce((best, one) => (Math.abs(one - at) < Math.abs(best - at) ? one : best));
      const isTaken = ([of, lane]) => of === layer && Math.abs(lane - y) < LANE;
      while (passing.some(isTaken)) y += y < boxes[0].y ? -LANE : LANE;
      passing.push([layer, y]);
      points.push([boxes[0].x - 8, y], [boxes[0].x + BOX.width + 8, y]);
    }
    points.push(end);
    const path = points.slice(1).map(([x, y], at) => {
      const [left, top] = points[at];
      const middle = (left + x) / 2;
      return y === top ? `L${x} ${y}` : `C${middle} ${top} ${middle} ${y} ${x} ${y}`;
    }).join("");
    const [[x, y], [toX, toY]] = [start, end];
    const around = `C${x + TURN} ${y} ${x + TURN} ${bottom} ${x} ${bottom}L${toX} ${bottom}C${toX - TURN} ${bottom} ${toX - TURN} ${toY} ${toX} ${toY}`;
    const title = svg("title", {});
    title.append(`${nodes[from].name} → ${nodes[to].name}: ${count(calls, "call")}, mean ${duration(mean)}, p95 ${duration(p95)}, ${count(errors, "error")}`);
    const line = svg("g", { class: errors ? "edge bad" : "edge" }, title,
      svg("path", { d: `M${start}${bottom ? around : path}`, "stroke-width": 1 + 3 * Math.sqrt(calls / most), "marker-end": "url(#arrow)" }));
    // The label is near the end of the line: lines from the same box begin at one point, but end apart.
    const place = bottom ? [(start[0] + end[0]) / 2, bottom - 5] : [end[0] - 16, end[1] - 6];
    const label = svg("g", { class: errors ? "edge label bad" : "edge label", tabindex: 0, role: "link", "aria-label": title.textContent });
    const rows = [`${grouped(calls)}× p95 ${duration(p95)}`, errors ? `✗ ${grouped(errors)} (${Math.max(1, Math.round((100 * errors) / calls))} %)` : ""];
    rows.forEach((text, row) => {
      const element = svg("text", { x: place[0], y: place[1] + 20 * row, "text-anchor": bottom ? "middle" : "end" });
      element.append(text);
      label.append(element);
    });
    const query = [nodes[from], nodes[to]].map(({ name }) => `service:${quoted(name)}`).join(" ") + (errors ? " err" : "");
    for (const element of [line, label]) {
      element.addEventListener("click", () => this.app.go(this.app.address("/", { q: query })));
      element.addEventListener("keydown", (event) => event.key === "Enter" && this.app.go(this.app.address("/", { q: query })));
    }
    return [line, label];
  }

  node({ name, spans, errors }, { x, y, height }) {
    const number = this.app.services.indexOf(name);
    const title = svg("text", { x: x + 16, y: y + height / 2 - 5, class: "title" });
    title.append(name.length > 16 ? `${name.slice(0, 15)}…` : name || "(no service)");
    const facts = svg("text", { x: x + 16, y: y + height / 2 + 15, class: errors ? "bad" : "" });
    facts.append(`${count(spans, "span")}${errors ? `  ✗ ${grouped(errors)}` : ""}`);
    const group = svg("g", { class: "node", tabindex: 0, role: "link", "aria-label": name },
      svg("rect", { x, y, width: BOX.width, height, rx: 6 }),
      svg("rect", { x, y, width: 5, height, rx: 2, class: `fill ${hue(Math.max(0, number))}` }), title, facts);
    const open = () => this.app.go(this.app.address("/", { q: `service:${quoted(name)}` }));
    group.addEventListener("click", open);
    group.addEventListener("keydown", (event) => event.key === "Enter" && open());
    return group;
  }

  close() {
    this.resized.disconnect();
  }
}

/** Assigns services to layers: a caller is to the left of the services it calls, except for edges that close a cycle.
 * The order within a layer follows the places of the neighbors, so that few edges cross. */
export function layered(size, edges) {
  const out = Array.from({ length: size }, () => []);
  edges.forEach(({ from, to }, index) => out[from].push([to, index]));
  const isBack = new Array(edges.length).fill(false);
  const state = new Array(size).fill(0);
  const order = [];
  const isCalled = new Set(edges.map(({ to }) => to));
  const starts = [...Array(size).keys()].sort((a, b) => Number(isCalled.has(a)) - Number(isCalled.has(b)));
  for (const start of starts) {
    if (state[start]) continue;
    const waiting = [[start, 0]];
    state[start] = 1;
    while (waiting.length) {
      const top = waiting.at(-1);
      const next = out[top[0]][top[1]++];
      if (!next) {
        state[top[0]] = 2;
        order.unshift(waiting.pop()[0]);
      } else if (state[next[0]] === 1) isBack[next[1]] = true;
      else if (!state[next[0]]) {
        state[next[0]] = 1;
        waiting.push([next[0], 0]);
      }
    }
  }
  const layer = new Array(size).fill(0);
  for (const node of order) for (const [to, index] of out[node]) if (!isBack[index]) layer[to] = Math.max(layer[to], layer[node] + 1);
  const layers = Array.from({ length: Math.max(...layer) + 1 }, (_, at) => order.filter((node) => layer[node] === at));
  const place = new Map();
  const remember = (nodes) => nodes.forEach((node, at) => place.set(node, (at + 0.5) / nodes.length));
  layers.forEach(remember);
  for (let round = 0; round < 8; round++) {
    const isForward = round % 2 === 0;
    for (const nodes of isForward ? layers : [...layers].reverse()) {
      const mean = (node) => {
        const near = edges.filter(({ from, to }) => (isForward ? to : from) === node).map(({ from, to }) => place.get(isForward ? from : to));
        return near.length ? near.reduce((sum, one) => sum + one, 0) / near.length : place.get(node);
      };
      const means = new Map(nodes.map((node) => [node, mean(node)]));
      nodes.sort((a, b) => means.get(a) - means.get(b));
      remember(nodes);
    }
  }
  return { layers, isBack };
}

export class RequestsView {
  constructor(app, main) {
    this.app = app;
    this.title = "requests · standpipe";
    this.list = h("section.requests");
    main.append(this.list);
  }

  async update() {
    const refused = await ask("/api/requests").catch(() => []);
    if (this.app.view !== this || !this.app.state) return;
    const { counts } = this.app.state;
    const key = JSON.stringify([refused, counts]);
    if (key === this.drawn) return;
    this.drawn = key;
    const rows = refused.map((row) => {
      const [what, ...advice] = row.what.split("; ");
      return h("tr", h("td.time", timeOfDay(row.at)), h("td.bad", row.status),
        h("td", row.count > 1 ? `${grouped(row.count)}×` : ""), h("td", h("p", what), h("p.advice", advice.join("; "))));
    });
    this.list.replaceChildren(
      h("p.facts", `${count(counts.requests, "request")} accepted with ${count(counts.spans, "span")}, ${count(counts.logs, "log record")} and ${count(counts.points, "data point")} · `,
        h("b", { class: counts.refused ? "bad" : "good" }, `${grouped(counts.refused)} refused`)),
      rows.length ? h("table", ...rows) : h("p.faint", "No request was refused. If something is missing here, it was not sent to these addresses."));
  }
}
