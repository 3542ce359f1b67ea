// Generates the data set of the page's pictures and tests: eight services, 500 traces with errors, a trace of 2,000
// spans, log records, metrics of every kind with exemplars, and unusual texts. The output is OTLP JSON lines.
//
//   node tests/page/data.mjs > shop.jsonl        standpipe show shop.jsonl --page
//
// The same seed and time give the same lines.

import { fileURLToPath } from "node:url";

const SERVICES = ["storefront", "checkout", "payments", "inventory", "shipping", "catalog", "recommendations", "notifications"];
const ROUTES = ["GET /", "GET /products/{id}", "POST /cart", "POST /checkout", "GET /orders/{id}"];
/** Texts that break layouts: right-to-left, emoji, combining marks, markup, line breaks, a word without an end. */
const UNUSUAL = ["שלום עולם", "買い物かご 🛒", "Zo\u0308e \u202eevil\u202c", "<b onmouseover=alert(1)>bold</b>", "line one\nline two\ttab", "x".repeat(400), ""];
const LARGE = 2000;
const HOUR = 3600e3;

/** Returns a generator of numbers in [0, 1), which a seed determines (mulberry32). */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const value = (of) => {
  if (typeof of === "boolean") return { boolValue: of };
  if (typeof of === "number") return Number.isInteger(of) ? { intValue: String(of) } : { doubleValue: of };
  return Array.isArray(of) ? { arrayValue: { values: of.map(value) } } : { stringValue: of };
};
const attributes = (of) => Object.entries(of).map(([key, one]) => ({ key, value: value(one) }));
const resource = (service) => ({ attributes: attributes({ "service.name": service, "service.version": "2.4.1", "host.name": `${service}-7d9f`, "process.pid": 4242 }) });

/** Returns the lines. `end` is the time of the last trace in milliseconds since 1970. */
export function lines({ traces = 500, seed = 7, end = Date.now() } = {}) {
  const next = random(seed);
  const pick = (list) => list[Math.floor(next() * list.length)];
  const hex = (digits) => Array.from({ length: digits }, () => Math.floor(next() * 16).toString(16)).join("");
  const nanos = (millis) => String(BigInt(Math.round(millis * 1000)) * 1000n);
  const spans = new Map(SERVICES.map((service) => [service, []]));
  const logs = new Map(SERVICES.map((service) => [service, []]));
  const durations = new Map();

  /** Adds a span with what it calls, and returns its end. */
  function span(traceId, parentSpanId, service, name, start, own, { kind = 1, calls = [], ...rest } = {}) {
    const spanId = hex(16);
    let time = start + own * 0.2;
    let failed = rest.error;
    const children = [];
    for (const call of calls) {
      const ended = call(traceId, spanId, time);
      children.push(ended);
      failed ||= ended.isFatal && "upstream failed";
      time = call.isParallel ? time + 0.3 : ended.time + 0.2;
    }
    const until = Math.max(start + own, ...children.map((child) => child.time + own * 0.1));
    spans.get(service).push({ traceId, spanId, parentSpanId, name, kind, startTimeUnixNano: nanos(start), endTimeUnixNano: nanos(until),
      attributes: attributes({ "thread.id": 1 + Math.floor(next() * 8), ...rest.attributes }),
      events: (rest.events ?? []).map(([at, event, of = {}]) => ({ timeUnixNano: nanos(start + at), name: event, attributes: attributes(of) })),
      links: rest.links ?? [], status: failed ? { code: 2, message: failed } : {} });
    for (const [severity, text, body, of = {}] of rest.logs ?? []) {
      logs.get(service).push({ traceId, spanId, timeUnixNano: nanos(start + own * 0.5), severityNumber: severity, severityText: text,
        body: { stringValue: body }, attributes: attributes(of) });
    }
    return { time: until, isFatal: Boolean(failed), spanId };
  }

  const query = (service, table, own) => (trace, parent, start) => span(trace, parent, service, `SELECT ${table}`, start, own,
    { kind: 3, attributes: { "db.system": "postgresql", "db.query.text": `SELECT * FROM ${table} WHERE id = ANY($1) ORDER BY created_at DESC LIMIT 50`, "db.rows": Math.floor(next() * 50) } });
  const call = (from, to, name, own, options = {}) => (trace, parent, start) => span(trace, parent, from, `call ${to}`, start, own * 0.1, { kind: 3, attributes: { "server.address": `${to}.internal` },
    calls: [(id, above, at) => span(id, above, to, name, at, own, { kind: 2, ...options })] });
  /** Most durations are near `typical`; a few are many times longer. */
  const time = (typical) => typical * (0.6 + next() * 0.8) * (next() < 0.03 ? 8 + next() * 20 : 1);

  for (let number = 0; number < traces; number++) {
    const traceId = hex(32);
    const start = end - HOUR + (HOUR * number) / traces + next() * 4000;
    const route = pick(ROUTES);
    const odd = UNUSUAL[number % 60];
    const isDeclined = route === "POST /checkout" && next() < 0.18;
    const isEmpty = next() < 0.04;
    const calls = [query("storefront", "sessions", time(1.5))];
    if (route === "POST /checkout") {
      const pay = { error: isDeclined && "card declined", attributes: { "payment.amount": Math.round(next() * 30000) / 100, "payment.currency": pick(["EUR", "SEK", "USD"]) },
        events: [[1, "3-D Secure", { required: next() < 0.5 }], ...(isDeclined ? [[3, "exception", { "exception.type": "CardDeclined", "exception.message": "card declined: insufficient funds",
          "exception.stacktrace": Array.from({ length: 30 }, (_, line) => `    at payments.Gateway.authorize(Gateway.java:${100 + line})`).join("\n") }]] : [])],
        logs: isDeclined ? [[17, "ERROR", `card declined for order ${4000 + number}`, { "order.id": 4000 + number }]] : [[9, "INFO", `authorized order ${4000 + number}`, { "order.id": 4000 + number }]] };
      const reserve = { calls: Array.from({ length: 6 }, () => query("inventory", "stock", time(2))) };
      calls.push(call("storefront", "checkout", "place order", time(20), { attributes: { "order.id": 4000 + number, "user.id": `user-${number % 90}` },
        calls: [call("checkout", "inventory", "reserve items", time(9), reserve), call("checkout", "payments", "authorize card", time(60), pay),
          ...(isDeclined ? [] : [call("checkout", "shipping", "schedule", time(14)), call("checkout", "notifications", "send receipt", time(8), { kind: 5, logs: [[5, "DEBUG", "queued receipt"]] })])] }));
    } else {
      const search = call("storefront", "catalog", "search", time(12), { calls: Array.from({ length: 7 }, () => query("catalog", "products", time(3))), logs: [[5, "DEBUG", "cache miss", { "cache.key": `products:${number}` }]] });
      const suggest = call("storefront", "recommendations", "rank", time(30), isEmpty ? { error: "model not loaded", logs: [[13, "WARN", "falling back to bestsellers"]] } : { events: Array.from({ length: 30 }, (_, at) => [at, `epoch ${at}`]) });
      suggest.isParallel = search.isParallel = true;
      calls.push(search, suggest);
    }
    span(traceId, "", "storefront", odd === undefined ? route : odd || "", start, time(10), { kind: 2, calls, attributes: { "http.route": route.split(" ")[1], "http.request.method": route.split(" ")[0],
      "http.response.status_code": isDeclined ? 402 : 200, "user_agent.original": pick(["Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0", "curl/8.5"]), ...(odd === undefined ? {} : { "text.unusual": odd }) },
      logs: [[9, "INFO", `${route} served${odd ? `: ${odd}` : ""}`]] });
    durations.set(traceId, spans.get("storefront").at(-1));
  }

  // One trace of LARGE spans in a tree, and with repeated leaves.
  const large = "1a2b".repeat(8);
  const begin = end - 60e3;
  const [ids, levels] = [[], []];
  for (let number = 0; number < LARGE; number++) {
    const parent = number ? Math.floor((number - 1) / 6) : -1;
    // Each level of the tree is another service; some of the deepest call back, so that the map of services has a cycle.
    const level = number ? levels[parent] + 1 : 0;
    levels.push(level);
    const service = level > 4 && number % 9 === 0 ? "catalog" : ["storefront", "checkout", "inventory", "catalog", "recommendations"][Math.min(level, 4)];
    const start = begin + number * 4;
    ids.push(hex(16));
    spans.get(service).push({ traceId: large, spanId: ids[number], parentSpanId: ids[parent] ?? "", name: number ? `step ${number % 23}` : "nightly import", kind: 1,
      startTimeUnixNano: nanos(start), endTimeUnixNano: nanos(number ? start + 20 + next() * 400 : begin + LARGE * 4 + 500),
      attributes: attributes({ "batch.number": number, "file.name": `part-${number}.csv` }), events: [], links: [], status: number % 250 === 249 ? { code: 2, message: "bad row" } : {} });
  }

  const all = [];
  const scoped = (kind, scope, records) => (service) => ({ [`resource${kind}`]: [{ resource: resource(service), [`scope${kind}`]: [{ scope: { name: "shop", version: "1.0" }, [scope]: records(service) }] }] });
  for (const service of SERVICES) {
    all.push(scoped("Spans", "spans", () => spans.get(service))(service));
    if (logs.get(service).length) all.push(scoped("Logs", "logRecords", () => logs.get(service))(service));
  }
  all.push(...metrics(end, next, nanos, [...durations.values()]));
  return all.map((line) => JSON.stringify(line));
}

/** Returns metrics of every kind for one hour, a point per minute. */
function metrics(end, next, nanos, roots) {
  const steps = 60;
  const bounds = [5, 10, 25, 50, 75, 100, 250, 500, 1000, 2500];
  const exemplar = (of) => ({ timeUnixNano: of.startTimeUnixNano, asDouble: Number(BigInt(of.endTimeUnixNano) - BigInt(of.startTimeUnixNano)) / 1e6, traceId: of.traceId, spanId: of.spanId, filteredAttributes: [] });
  const series = (labels, points) => Array.from({ length: steps }, (_, step) => points(step)).map((point, step) => ({
    attributes: attributes(labels), startTimeUnixNano: nanos(end - HOUR), timeUnixNano: nanos(end - HOUR + (HOUR * step) / steps), ...point }));
  const delta = (points) => points.map((point, step) => ({ ...point, startTimeUnixNano: nanos(end - HOUR + (HOUR * (step - 1)) / steps) }));
  const counter = (labels, rate) => {
    let sum = 0;
    return series(labels, () => ({ asInt: String((sum += Math.round(rate * (0.5 + next())))) }));
  };
  const histogram = (labels, middle) => {
    const counts = new Array(bounds.length + 1).fill(0);
    let [sum, count, most] = [0, 0, 0];
    return series(labels, (step) => {
      for (let one = 0; one < 20; one++) {
        const of = middle * Math.exp((next() + next() + next() - 1.5) * 1.4);
        counts[bounds.findIndex((bound) => of <= bound) < 0 ? bounds.length : bounds.findIndex((bound) => of <= bound)]++;
        [sum, count, most] = [sum + of, count + 1, Math.max(most, of)];
      }
      const root = roots[Math.floor((step * roots.length) / steps)];
      return { count: String(count), sum, min: 0.4, max: most, explicitBounds: bounds, bucketCounts: counts.map(String), exemplars: root && step % 4 === 0 ? [exemplar(root)] : [] };
    });
  };
  const exponential = (labels, middle) => series(labels, (step) => {
    const bucketCounts = Array.from({ length: 40 }, (_, at) => String(Math.round(30 * (step + 1) * Math.exp(-((at - 20) ** 2) / 40) * (0.8 + next() * 0.4))));
    const count = bucketCounts.reduce((all, one) => all + Number(one), 0);
    return { count: String(count), sum: count * middle, scale: 2, zeroCount: "0", positive: { offset: -36, bucketCounts }, negative: { offset: 0, bucketCounts: [] } };
  });
  const line = (service, list) => ({ resourceMetrics: [{ resource: resource(service), scopeMetrics: [{ scope: { name: "shop" }, metrics: list }] }] });
  const gauge = (labels, middle) => series(labels, (step) => ({ asDouble: middle * (1 + 0.3 * Math.sin(step / 6) + 0.05 * next()) }));
  return [
    line("storefront", [
      { name: "http.server.request.duration", unit: "ms", description: "Duration of requests", histogram: { aggregationTemporality: 2, dataPoints: ["GET /", "POST /checkout", "GET /products/{id}"].flatMap((route, at) => histogram({ "http.route": route }, 20 + 40 * at)) } },
      { name: "http.server.requests", unit: "{request}", description: "Requests served", sum: { isMonotonic: true, aggregationTemporality: 2, dataPoints: ["GET /", "POST /checkout", "GET /products/{id}", "POST /cart"].flatMap((route, at) => counter({ "http.route": route }, 400 / (at + 1))) } },
      { name: "process.memory.usage", unit: "By", description: "Resident memory", gauge: { dataPoints: gauge({}, 180e6) } },
    ]),
    line("payments", [
      { name: "payments.authorized", unit: "{payment}", description: "Authorized payments", sum: { isMonotonic: true, aggregationTemporality: 1, dataPoints: ["EUR", "SEK", "USD"].flatMap((currency, at) => delta(series({ currency }, () => ({ asInt: String(Math.round(30 / (at + 1) * (0.5 + next()))) })))) } },
      { name: "payments.latency", unit: "s", description: "Latency of the card network", exponentialHistogram: { aggregationTemporality: 2, dataPoints: exponential({}, 0.06) } },
    ]),
    line("inventory", [
      { name: "stock.level", unit: "{item}", description: "Items in stock", sum: { isMonotonic: false, aggregationTemporality: 2, dataPoints: ["north", "south"].flatMap((store) => series({ store }, (step) => ({ asInt: String(Math.round(900 - step * 7 + 60 * next())) }))) } },
      { name: "cpu.utilization", unit: "1", description: "Share of one core", gauge: { dataPoints: gauge({}, 0.4) } },
    ]),
    line("catalog", [{ name: "search.results", unit: "{result}", description: "Results per search", summary: { dataPoints: series({}, (step) => ({ count: String(10 * step + 10), sum: 200, quantileValues: [0.5, 0.9, 0.99].map((quantile) => ({ quantile, value: 10 + 50 * quantile ** 4 + 4 * next() })) })) } }]),
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(`${lines().join("\n")}\n`);
