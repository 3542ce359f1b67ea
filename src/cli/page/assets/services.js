// Views of the service map and of the refused requests.

import { ask, count, duration, grouped, h, hue, svg, timeOfDay } from "./dom.js";

const BOX = { width: 170, height: 54, between: 110, below: 26 };

export class ServicesView {
  constructor(app, main) {
    this.app = app;
    this.title = "services · standpipe";
    this.map = h("section", { class: "map" });
    main.append(this.map);
  }

  async update() {
    const map = await ask("/api/services").catch(() => ({ nodes: [], edges: [] }));
    if (this.app.view !== this) return;
    const key = JSON.stringify(map);
    if (key === this.drawn) return;
    this.drawn = key;
    this.map.replaceChildren(map.nodes.length ? this.draw(map) : h("p", { class: "matches" }, "no spans yet"));
  }

  draw({ nodes, edges }) {
    const columns = layers(nodes.length, edges);
    const places = [];
    columns.forEach((column, x) => column.forEach((node, y) => {
      places[node] = { x: 20 + x * (BOX.width + BOX.between), y: 20 + y * (BOX.height + BOX.below) };
    }));
    const width = 40 + columns.length * (BOX.width + BOX.between) - BOX.between;
    const height = 20 + Math.max(...columns.map((column) => column.length)) * (BOX.height + BOX.below);
    const most = Math.max(1, ...edges.map((edge) => edge.calls));
    const lines = edges.map((edge) => this.edge(edge, places, most, nodes));
    const boxes = nodes.map((node, index) => this.node(node, places[index]));
    const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" },
      svg("path", { d: "M0 0 8 4 0 8z", class: "arrow" }));
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "map of services" },
      svg("defs", {}, arrow), ...lines, ...boxes);
  }

  edge({ from, to, calls, errors, nanos }, places, most, nodes) {
    const [a, b] = [places[from], places[to]];
    const isBack = b.x <= a.x;
    const start = [isBack ? a.x : a.x + BOX.width, a.y + BOX.height / 2];
    const end = [isBack ? b.x + BOX.width : b.x, b.y + BOX.height / 2];
    const middle = (start[0] + end[0]) / 2;
    const lift = isBack ? 60 : 0;
    const path = `M${start} C${middle} ${start[1] - lift} ${middle} ${end[1] - lift} ${end}`;
    const label = svg("text", { x: middle, y: (start[1] + end[1]) / 2 - 7 - lift * 0.75, class: errors ? "bad" : "" });
    label.append(`${grouped(calls)}×  ${duration(nanos / calls)}`);
    const title = svg("title", {});
    title.append(`${nodes[from].name} → ${nodes[to].name}: ${count(calls, "call")}, ${duration(nanos / calls)} on average, ${count(errors, "error")}`);
    return svg("g", { class: errors ? "edge bad" : "edge" }, title,
      svg("path", { d: path, "stroke-width": 1 + 3 * Math.sqrt(calls / most), "marker-end": "url(#arrow)" }), label);
  }

  node({ name, spans, errors }, { x, y }) {
    const number = this.app.services.indexOf(name);
    const title = svg("text", { x: x + 14, y: y + 22, class: "title" });
    title.append(name.length > 18 ? `${name.slice(0, 17)}…` : name || "(no service)");
    const facts = svg("text", { x: x + 14, y: y + 41, class: errors ? "bad" : "" });
    facts.append(`${count(spans, "span")}${errors ? `  ✗ ${grouped(errors)}` : ""}`);
    const group = svg("g", { class: "node", tabindex: 0, role: "link", "aria-label": name },
      svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 6 }),
      svg("rect", { x, y, width: 4, height: BOX.height, rx: 2, class: `fill ${hue(Math.max(0, number))}` }), title, facts);
    const open = () => this.app.go(`/?q=${encodeURIComponent(`service:"${name}"`)}`);
    group.addEventListener("click", open);
    group.addEventListener("keydown", (event) => event.key === "Enter" && open());
    return group;
  }
}

/** Assigns services to columns: callers are to the left of the services that they call, except in cycles. */
function layers(size, edges) {
  const layer = new Array(size).fill(0);
  for (let round = 0; round < size; round++) {
    let isChanged = false;
    for (const { from, to } of edges) {
      if (layer[to] <= layer[from] && layer[from] + 1 < size) {
        layer[to] = layer[from] + 1;
        isChanged = true;
      }
    }
    if (!isChanged) break;
  }
  const used = [...new Set(layer)].sort((a, b) => a - b);
  return used.map((number) => layer.flatMap((of, node) => (of === number ? [node] : [])));
}

export class RequestsView {
  constructor(app, main) {
    this.app = app;
    this.title = "requests · standpipe";
    this.list = h("section", { class: "requests" });
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
      return h("tr", {}, h("td", { class: "time" }, timeOfDay(row.at)), h("td", { class: "bad" }, row.status),
        h("td", {}, row.count > 1 ? `${grouped(row.count)}×` : ""), h("td", {}, h("p", {}, what), h("p", { class: "advice" }, advice.join("; "))));
    });
    this.list.replaceChildren(
      h("p", { class: "facts" }, `${grouped(counts.requests)} accepted with ${count(counts.spans, "span")}, ${count(counts.logs, "log record")} and ${count(counts.points, "data point")} · `,
        h("b", { class: counts.refused ? "bad" : "good" }, `${grouped(counts.refused)} refused`)),
      rows.length ? h("table", {}, ...rows) : h("p", { class: "matches" }, "No request was refused. If something is missing here, it was not sent to these addresses."));
  }
}
