// Loads files that are dropped on the page or chosen: OTLP JSON lines, and traces of Jaeger and Zipkin, which are
// converted to OTLP here.

import { count } from "./dom.js";

/** Maximum length of the text of one request. A longer line is sent alone. */
const MAX_PART = 4e6;

export function acceptFiles(app) {
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    document.body.classList.add("drop");
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? document.body.classList.remove("drop"));
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    document.body.classList.remove("drop");
    load(app, [...event.dataTransfer.files]);
  });
}

export function chooseFiles(app) {
  const field = document.createElement("input");
  field.type = "file";
  field.multiple = true;
  field.addEventListener("change", () => load(app, [...field.files]));
  field.click();
}

async function load(app, files) {
  const results = [];
  for (const file of files) {
    app.report(`loading ${file.name} …`);
    results.push(`${file.name}: ${await send(toLines(await file.text())).catch((error) => error.message)}`);
  }
  app.report(results.join(" · "));
}

/** Sends lines in parts. Returns a summary with the first line that cannot be read. */
async function send(lines) {
  let [records, bad, before, problem] = [0, 0, 0, ""];
  while (before < lines.length) {
    let [end, size] = [before, 0];
    while (end < lines.length && (end === before || size + lines[end].length < MAX_PART)) size += lines[end++].length + 1;
    const response = await fetch("/api/load", { method: "POST", headers: { "content-type": "application/x-ndjson" }, body: lines.slice(before, end).join("\n") });
    if (!response.ok) throw new Error(await response.text());
    const answer = await response.json();
    [records, bad] = [records + answer.records, bad + answer.bad];
    if (!problem && answer.bad) problem = `line ${before + answer.problems[0][0]}: ${answer.problems[0][1]}`;
    before = end;
  }
  return `${count(records, "record")} loaded${bad ? `, ${count(bad, "line")} cannot be read (${problem})` : ""}`;
}

/** Returns the OTLP JSON lines of a text, which may be one JSON value of another format. */
export function toLines(text) {
  let whole;
  try {
    whole = JSON.parse(text);
  } catch {
    return text.split("\n");
  }
  const list = Array.isArray(whole) ? whole : [whole];
  if (list[0]?.data?.[0]?.spans) return ofJaeger(list.flatMap((one) => one.data));
  if (list[0]?.spans && list[0]?.processes) return ofJaeger(list);
  const spans = list.flat();
  if (spans[0]?.traceId && spans[0]?.id) return ofZipkin(spans);
  return list.map((one) => JSON.stringify(one));
}

const text = (key, value) => ({ key, value: { stringValue: String(value) } });

/** Converts microseconds since 1970 to nanoseconds, exactly. */
const nanos = (micros) => String(BigInt(Math.round(Number(micros))) * 1000n);

const padded = (id, digits) => String(id ?? "").padStart(digits, "0").slice(-digits).toLowerCase();

const line = (resource, spans, scope) => JSON.stringify({ resourceSpans: [{ resource: { attributes: resource }, scopeSpans: [{ scope: { name: scope }, spans }] }] });

const KINDS = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 };

/** Converts a Jaeger tag to an attribute. */
function tag({ key, type, value }) {
  if (type === "bool" || typeof value === "boolean") return { key, value: { boolValue: value === true || value === "true" } };
  if (type === "int64" || (type === undefined && Number.isInteger(value))) return { key, value: { intValue: String(value) } };
  if (type === "float64" || typeof value === "number") return { key, value: { doubleValue: Number(value) } };
  return text(key, value);
}

function ofJaeger(traces) {
  return traces.flatMap(({ spans, processes }) => Object.entries(processes ?? {}).map(([name, process]) => {
    const own = (spans ?? []).filter((span) => span.processID === name);
    return line([text("service.name", process.serviceName), ...(process.tags ?? []).map(tag)], own.map((span) => {
      const of = (key) => span.tags?.find((one) => one.key === key)?.value;
      const [parent, ...links] = [...(span.references ?? [])].sort((a, b) => Number(b.refType === "CHILD_OF") - Number(a.refType === "CHILD_OF"));
      const isChild = parent && padded(parent.traceID, 32) === padded(span.traceID, 32);
      const isError = String(of("error")) === "true" || of("otel.status_code") === "ERROR";
      return {
        traceId: padded(span.traceID, 32),
        spanId: padded(span.spanID, 16),
        parentSpanId: isChild ? padded(parent.spanID, 16) : span.parentSpanID ? padded(span.parentSpanID, 16) : "",
        name: span.operationName,
        kind: KINDS[of("span.kind")] ?? 0,
        startTimeUnixNano: nanos(span.startTime),
        endTimeUnixNano: nanos(span.startTime + span.duration),
        attributes: (span.tags ?? []).map(tag),
        events: (span.logs ?? []).map(({ timestamp, fields }) => ({
          timeUnixNano: nanos(timestamp),
          name: String(fields.find(({ key }) => key === "event" || key === "message")?.value ?? "log"),
          attributes: fields.filter(({ key }) => key !== "event").map(tag),
        })),
        links: (isChild || !parent ? links : [parent, ...links]).map((link) => ({ traceId: padded(link.traceID, 32), spanId: padded(link.spanID, 16) })),
        status: isError ? { code: 2, message: String(of("otel.status_description") ?? "") } : {},
      };
    }), "jaeger");
  }));
}

/** Converts spans in Zipkin's JSON, version 2. A server span with the id of a client span becomes a child of it. */
function ofZipkin(spans) {
  const shared = new Set(spans.filter((span) => span.kind === "CLIENT").map((span) => span.id));
  const services = new Map();
  for (const span of spans) {
    const name = span.localEndpoint?.serviceName ?? "";
    if (!services.has(name)) services.set(name, []);
    services.get(name).push(span);
  }
  const isServerOf = (span) => span.shared && shared.has(span.id);
  // OTLP needs distinct ids, so the id of the server's span is derived from the shared id.
  const serverId = (id) => (BigInt(`0x${padded(id, 16)}`) ^ 0x5a5a5a5a5a5a5a5an).toString(16).padStart(16, "0");
  const servers = new Map(spans.filter(isServerOf).map((span) => [span.id, span.localEndpoint?.serviceName]));
  return [...services].map(([service, own]) => line(service ? [text("service.name", service)] : [], own.map((span) => {
    // A child in the server's process names the shared id as its parent, and is put below the server's span.
    const isBelowServer = servers.has(span.parentId) && servers.get(span.parentId) === service;
    const parent = isServerOf(span) ? span.id : span.parentId;
    return {
      traceId: padded(span.traceId, 32),
      spanId: isServerOf(span) ? serverId(span.id) : padded(span.id, 16),
      parentSpanId: isBelowServer && !isServerOf(span) ? serverId(span.parentId) : parent ? padded(parent, 16) : "",
      name: span.name ?? "",
      kind: KINDS[span.kind?.toLowerCase()] ?? 0,
      startTimeUnixNano: nanos(span.timestamp ?? 0),
      endTimeUnixNano: nanos((span.timestamp ?? 0) + (span.duration ?? 0)),
      attributes: [...Object.entries(span.tags ?? {}).map(([key, value]) => text(key, value)),
        ...(span.remoteEndpoint?.serviceName ? [text("peer.service", span.remoteEndpoint.serviceName)] : [])],
      events: (span.annotations ?? []).map(({ timestamp, value }) => ({ timeUnixNano: nanos(timestamp), name: value })),
      status: span.tags && "error" in span.tags ? { code: 2, message: span.tags.error } : {},
    };
  }), "zipkin"));
}
