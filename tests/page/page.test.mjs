// Tests the page in a real browser with the real command: what a user sees, and attacks by senders and other sites.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, afterEach, before, test } from "node:test";

const { STANDPIPE, CHROMIUM, PAGE_DIR, PICTURES } = process.env;
const { chromium } = createRequire(`${PAGE_DIR}/`)("playwright-core");
const LONG = 120_000;
const HOSTILE = `<img src=x onerror="window.stolen=1"><script>window.stolen=1</script>"'\u202e\u0007`;

let receiver;
let browser;

/** Runs `receive --page`. Returns the process and the addresses on which it listens. */
async function start() {
  const child = spawn(STANDPIPE, ["receive", "--address", "127.0.0.1:0", "--page-address", "127.0.0.1:0"], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { PATH: process.env.PATH },
  });
  let printed = "";
  const greeting = new Promise((resolve, reject) => {
    child.stdout.on("data", (text) => {
      if (printed.length > 10_000) return;
      printed += text;
      const [http, grpc, page] = [...printed.matchAll(/http:\/\/\S+/g)].map(([url]) => url);
      if (page) resolve({ child, http, grpc, url: page });
    });
    child.on("error", reject);
    child.on("exit", () => reject(new Error(`it ended: ${printed}`)));
  });
  return greeting;
}

before(async () => {
  receiver = await start();
  const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--host-resolver-rules=MAP evil.test 127.0.0.1"];
  browser = await chromium.launch({ executablePath: CHROMIUM, args, timeout: LONG });
});

after(async () => {
  await browser?.close();
  receiver?.child.kill("SIGINT");
});

// A tab of a failed test would keep its event stream.
afterEach(() => Promise.all(browser.contexts().flatMap((context) => context.pages().map((page) => page.close()))));

/** Opens a tab. An error in its scripts fails the test. */
async function open(path = "", options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 }, ...options });
  page.setDefaultTimeout(LONG);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.outside = [];
  page.on("request", (request) => request.url().startsWith(receiver.url) || request.url().startsWith("data:") || page.outside.push(request.url()));
  await page.goto(receiver.url + path);
  return page;
}

const picture = (page, name) => page.screenshot({ path: `${PICTURES}/${name}.png` });

async function done(page) {
  await page.close();
  assert.deepEqual(page.problems, []);
  assert.deepEqual(page.outside, [], "no request goes elsewhere");
}

async function send(signal, body) {
  const response = await fetch(`${receiver.http}/v1/${signal}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200, await response.text());
}

const text = (key, value) => ({ key, value: { stringValue: value } });
const hex = (number, digits) => number.toString(16).padStart(digits, "0");
const now = () => BigInt(Date.now()) * 1_000_000n;

function spansOf(service, spans) {
  return { resourceSpans: [{ resource: { attributes: [text("service.name", service)] }, scopeSpans: [{ scope: { name: "test" }, spans }] }] };
}

test("an empty page says where to send, and its button sends a shop's traces from this library", async () => {
  const page = await open();
  await page.waitForSelector(".welcome");
  const welcome = await page.textContent(".welcome");
  assert.ok(welcome.includes(receiver.http) && welcome.includes(receiver.grpc), welcome);
  await picture(page, "empty");
  await page.click(".welcome .primary");
  await page.waitForFunction(() => document.querySelectorAll(".rows .row:not([hidden])").length === 3);
  await page.waitForFunction(() => {
    const names = [...document.querySelectorAll(".row:not([hidden]) .name")].map((name) => name.textContent);
    return names.sort().join() === "POST /checkout,POST /checkout,process order.paid";
  });
  await page.waitForFunction(() => document.querySelector(".row.bad .errors")?.textContent === "✗ 4");
  await picture(page, "traces");
  await done(page);
});

test("a trace is opened by a click, a span by a key, and both have an address", async () => {
  const page = await open();
  await page.click(".row.bad");
  await page.waitForFunction(() => document.querySelectorAll(".trace .row:not([hidden])").length === 11);
  assert.match(await page.textContent(".summary"), /POST \/checkout.*11 spans.*✗ 4 errors/);
  await page.keyboard.press("E");
  await page.waitForFunction(() => document.querySelector("aside h2")?.textContent === "authorize card");
  const details = await page.textContent("aside");
  for (const part of ["payments", "client", "card expired", "Events", "exception", "card declined", "Resource", "Scope"]) {
    assert.ok(details.includes(part), `${part}: ${details}`);
  }
  await picture(page, "trace");
  const address = page.url();
  assert.match(address, /\/trace\/[0-9a-f]{32}\?span=[0-9a-f]{16}$/);
  await page.keyboard.press("c");
  assert.ok((await page.locator(".segments i").count()) > 2, "a critical path");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => location.pathname === "/");
  await done(page);

  const again = await open(address.slice(receiver.url.length));
  await again.waitForFunction(() => document.querySelector("aside h2")?.textContent === "authorize card");
  await done(again);
});

/** Returns the text of the clipboard once `wanted` accepts it. `waitForFunction` does not poll a function that returns
 * a promise. */
async function copied(page, wanted) {
  const deadline = Date.now() + LONG;
  for (;;) {
    const text = await page.evaluate(() => navigator.clipboard.readText());
    if (wanted(text)) return text;
    assert.ok(Date.now() < deadline, `the clipboard still has: ${text}`);
    await page.waitForTimeout(20);
  }
}

test("a subtree is copied as text and as OTLP JSON", async () => {
  const page = await open("", { permissions: ["clipboard-read", "clipboard-write"] });
  await page.click(".row.bad");
  await page.waitForSelector(".trace .row");
  await page.keyboard.press("E");
  await page.waitForSelector("aside h2");
  await page.keyboard.press("y");
  const text = await copied(page, (text) => text.includes("authorize card"));
  assert.ok(text.includes("card declined") && !text.includes("load cart"), text);
  await page.keyboard.press("Y");
  const [spans, logs] = (await copied(page, (text) => text.startsWith("{"))).trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(spans.resourceSpans[0].scopeSpans[0].spans[0].name, "authorize card");
  assert.equal(logs.resourceLogs[0].scopeLogs[0].logRecords[0].body.stringValue, "card declined");
  await done(page);
});

test("rows are collapsed, expanded and walked by keys", async () => {
  const page = await open();
  await page.click(".row.bad");
  const shown = () => page.locator(".trace .row:not([hidden])").count();
  await page.waitForFunction(() => document.querySelectorAll(".trace .row:not([hidden])").length === 11);
  await page.keyboard.press("[");
  assert.ok((await shown()) < 11);
  await page.keyboard.press("]");
  assert.equal(await shown(), 11);
  await page.keyboard.press("j");
  await page.keyboard.press("ArrowLeft");
  assert.equal(await shown(), 1);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("j");
  await page.waitForFunction(() => document.querySelector("aside h2")?.textContent === "load cart");
  await page.fill("#search", "stock");
  await page.waitForFunction(() => document.querySelector(".found")?.textContent === "2 matches");
  await done(page);
});

test("the search narrows the list, keeps its words in the address, and explains what it cannot read", async () => {
  const page = await open("?q=service:payments err");
  const rows = page.locator(".row:not([hidden])");
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 1);
  await page.fill("#search", "order.id=4711");
  await page.waitForFunction(() => location.search === "?q=order.id%3D4711");
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 1);
  assert.match(await rows.first().textContent(), /POST \/checkout/);
  await page.fill("#search", "dur>5");
  await page.waitForSelector("#problem:not([hidden])");
  assert.match(await page.textContent("#problem"), /dur>100ms/);
  page.problems = page.problems.filter((problem) => !problem.includes("400"));
  await page.fill("#search", "no-such-thing");
  await page.waitForFunction(() => document.querySelector(".matches")?.textContent === "no trace matches");
  assert.equal(await page.isHidden("#problem"), true);
  await done(page);
});

test("logs are filtered by level and lead to their span", async () => {
  const page = await open("logs");
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 8);
  await picture(page, "logs");
  await page.selectOption("main select", "error");
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 1);
  await page.click(".row .name");
  await page.waitForSelector("aside pre.body");
  assert.match(await page.textContent("aside"), /card declined/);
  await page.click("aside a[href^='/trace/']");
  await page.waitForFunction(() => document.querySelector(".trace aside h2")?.textContent);
  await done(page);
});

test("metrics are drawn: a counter as a rate, a histogram as a heat map with quantiles", async () => {
  const page = await open("metrics");
  await page.waitForSelector("nav.metrics a");
  const names = await page.locator("nav.metrics b").allTextContents();
  for (const name of ["checkout.time", "orders", "page.render", "stock.left"]) assert.ok(names.includes(name), names);
  const inked = () => page.evaluate(() => {
    const canvas = document.querySelector(".plot canvas");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size;
  });
  for (const name of ["page.views", "page.render"]) {
    await page.click(`nav.metrics a[href="/metrics/${name}"]`);
    await page.waitForFunction((name) => document.querySelector(".chart h1")?.textContent === name, name);
    assert.ok((await inked()) > 10, `${name} is drawn`);
    await picture(page, name);
  }
  assert.match(await page.textContent(".chart .legend"), /p50.*p90.*p99/);
  const box = await page.locator(".plot canvas").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  assert.match(await page.textContent(".tip"), /p99/);
  await done(page);
});

test("services are mapped with their calls, and lead to their traces", async () => {
  const page = await open("services");
  await page.waitForSelector(".node");
  assert.equal(await page.locator(".node").count(), 3);
  assert.equal(await page.locator(".edge path").count(), 2);
  await picture(page, "services");
  await page.click(".node[aria-label=payments]");
  await page.waitForFunction(() => document.getElementById("search").value === 'service:"payments"');
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 2);
  await done(page);
});

test("a refused request is listed with advice", async () => {
  await fetch(`${receiver.http}/v1/trace`, { method: "POST" });
  const page = await open("requests");
  await page.waitForSelector(".requests tr");
  assert.match(await page.textContent(".requests tr"), /404.*OTEL_EXPORTER_OTLP_ENDPOINT/);
  assert.match(await page.textContent("nav a.bad"), /Requests \(1!\)/);
  await picture(page, "requests");
  await done(page);
});

test("what the Python SDK sends is shown", async (context) => {
  const python = `${PAGE_DIR}/python/bin/python`;
  if (!existsSync(python)) return context.diagnostic("SKIPPED: the Python SDK cannot be installed");
  const program = `
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
provider = TracerProvider(resource=Resource.create({"service.name": "python-shop"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter("${receiver.http}/v1/traces")))
tracer = provider.get_tracer("python")
with tracer.start_as_current_span("from python", attributes={"big": 2**53 + 1}) as span:
    span.add_event("half way", {"percent": 50})
    with tracer.start_as_current_span("inner"):
        pass
provider.shutdown()
`;
  execFileSync(python, ["-c", program], { timeout: LONG, env: { PATH: process.env.PATH } });
  const page = await open("?q=service:python-shop");
  await page.click(".row");
  await page.click(".trace .row >> nth=0");
  await page.waitForFunction(() => document.querySelector("aside h2")?.textContent === "from python");
  const details = await page.textContent("aside");
  assert.ok(details.includes("9007199254740993"), "every digit of an integer");
  assert.match(details, /half way.*percent.*50/);
  await done(page);
});

test("commands in a nested shell script are one tree", async () => {
  const script = `"$S" exec --name outer -- sh -c '"$S" exec --name middle -- sh -c "\\"$S\\" exec --name inner -- true"'`;
  const env = { PATH: process.env.PATH, S: STANDPIPE, OTEL_EXPORTER_OTLP_ENDPOINT: receiver.http, OTEL_SERVICE_NAME: "script" };
  execFileSync("sh", ["-c", script], { timeout: LONG, env });
  const page = await open("?q=service:script");
  await page.click(".row");
  await page.waitForFunction(() => document.querySelectorAll(".trace .row:not([hidden])").length === 3);
  assert.deepEqual(await page.locator(".trace .row:not([hidden]) b").allTextContents(), ["outer", "middle", "inner"]);
  assert.deepEqual(await page.locator(".trace .row:not([hidden])").evaluateAll((rows) => rows.map((row) => row.ariaLevel)), ["1", "2", "3"]);
  await done(page);
});

test("what a hostile sender writes is text and nothing else", async () => {
  const traceId = "cc".repeat(16);
  const time = now();
  const attributes = [text("key" + HOSTILE, HOSTILE), text("url", "javascript:window.stolen=1")];
  const span = { traceId, spanId: hex(1, 16), name: HOSTILE, startTimeUnixNano: String(time), endTimeUnixNano: String(time + 5_000_000n),
    attributes, events: [{ name: HOSTILE, timeUnixNano: String(time), attributes }], links: [{ traceId, spanId: hex(1, 16), attributes }],
    traceState: HOSTILE, status: { code: 2, message: HOSTILE } };
  await send("traces", spansOf(HOSTILE, [span]));
  await send("logs", { resourceLogs: [{ resource: { attributes: [text("service.name", HOSTILE)] }, scopeLogs: [{ logRecords: [
    { timeUnixNano: String(time), severityText: HOSTILE, severityNumber: 17, body: { stringValue: HOSTILE }, attributes, traceId, spanId: hex(1, 16) }] }] }] });
  await send("metrics", { resourceMetrics: [{ resource: { attributes: [text("service.name", HOSTILE)] }, scopeMetrics: [{ metrics: [
    { name: HOSTILE, unit: HOSTILE, description: HOSTILE, gauge: { dataPoints: [{ timeUnixNano: String(time), asInt: "1", attributes }] } }] }] }] });
  const page = await open();
  let dialogs = 0;
  page.on("dialog", (dialog) => dialogs++ || dialog.dismiss());
  for (const path of ["", `trace/${traceId}?span=${hex(1, 16)}`, "logs", `metrics/${encodeURIComponent(HOSTILE)}`, "services"]) {
    await page.goto(receiver.url + path);
    await page.waitForFunction((text) => document.querySelector("main").textContent.includes(text), HOSTILE.slice(0, 15));
    if (path === "logs") await page.click(".row");
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    assert.equal(await page.locator("main img, main script, main [onerror]").count(), 0);
    assert.equal(await page.locator("a[href^='javascript']").count(), 0);
  }
  assert.equal(dialogs, 0);
  await done(page);
});

test("the policy stops a script that got into the page", async () => {
  const page = await open();
  await page.waitForSelector(".row");
  const blocked = await page.evaluate(async () => {
    const seen = [];
    document.addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
    const inline = document.createElement("script");
    try {
      inline.textContent = "window.stolen = 1";
    } catch {
      seen.push("trusted-types");
    }
    document.body.append(inline);
    const image = new Image();
    image.src = "http://127.0.0.1:9/leak.png";
    await fetch("http://127.0.0.1:9/leak").catch(() => {});
    try {
      document.body.innerHTML = "<b>x</b>";
    } catch {
      seen.push("innerHTML");
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    return { seen, stolen: window.stolen };
  });
  assert.equal(blocked.stolen, undefined);
  for (const directive of ["connect-src", "img-src", "innerHTML"]) assert.ok(blocked.seen.includes(directive), blocked.seen.join());
  await page.close();
});

test("a name that is rebound to this machine gets nothing", async () => {
  const page = await browser.newPage();
  const port = new URL(receiver.url).port;
  for (const path of ["", "api/traces", "assets/app.js"]) {
    const response = await page.goto(`http://evil.test:${port}/${path}`);
    assert.equal(response.status(), 403);
    assert.ok(!(await page.content()).includes("checkout"));
  }
  await page.close();
});

test("another site cannot read, frame or start anything", async () => {
  const page = await browser.newPage();
  await page.goto("data:text/html,<p>another site");
  const answers = await page.evaluate(async (url) => {
    const read = await fetch(`${url}api/traces`).then(() => "read", () => "blocked");
    const opaque = await fetch(`${url}api/demo`, { method: "POST", mode: "no-cors" }).then(() => "sent", () => "blocked");
    const frame = document.createElement("iframe");
    frame.src = url;
    document.body.append(frame);
    await new Promise((resolve) => frame.addEventListener("load", resolve));
    return { read, opaque };
  }, receiver.url);
  assert.equal(answers.read, "blocked");
  assert.equal(page.frames().at(-1).url().startsWith(receiver.url), false, "it is not framed");
  const { counts } = await (await fetch(`${receiver.url}api/state`)).json();
  await page.close();
  assert.ok(counts.requests < 60, "no shop was opened by another site");
});

test("dark and light have their own colours, and the choice stays", async () => {
  const page = await open("", { colorScheme: "dark" });
  await page.waitForSelector(".row");
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await back();
  await picture(page, "dark");
  await page.click("#menu summary");
  await page.click("#theme");
  assert.notEqual(await back(), dark);
  await page.reload();
  await page.waitForSelector(".row");
  assert.notEqual(await back(), dark);
  await done(page);
});

test("names of services are there after each reload, and Back leads back", async () => {
  const page = await open();
  for (let time = 0; time < 5; time++) {
    await page.reload();
    await page.waitForSelector(".row.bad");
    assert.doesNotMatch(await page.textContent(".rows"), /no service/);
  }
  await page.fill("#search", "err service:payments");
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 1);
  await page.click(".row");
  await page.waitForSelector(".summary h1");
  await page.goBack();
  await page.waitForFunction(() => location.search.includes("payments") && document.querySelectorAll(".traces .row:not([hidden])").length === 1);
  await page.keyboard.press("j");
  await page.focus("nav a[data-view=logs]");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.pathname === "/logs");
  await done(page);
});

test("a link from elsewhere opens a trace", async () => {
  const { rows } = await (await fetch(`${receiver.url}api/traces?q=err`)).json();
  const page = await browser.newPage();
  await page.goto(`data:text/html,<a href="${receiver.url}trace/${rows[0].id}">a trace`);
  await page.click("a");
  await page.waitForSelector(".summary h1");
  await page.close();
});

test("a trace that grows shows its new spans and leaves the reader alone", async () => {
  const traceId = "ab".repeat(16);
  const base = now();
  const span = (number, from, nanos) => ({ traceId, spanId: hex(number, 16), parentSpanId: number > 1 ? hex(1, 16) : "", name: `part ${number}`,
    startTimeUnixNano: String(base + BigInt(from)), endTimeUnixNano: String(base + BigInt(from + nanos)),
    attributes: [text("which", String(number))] });
  await send("traces", spansOf("growing", [span(1, 0, 100e6), span(2, 10e6, 50e6)]));
  const page = await open(`trace/${traceId}?span=${hex(2, 16)}`);
  await page.waitForSelector("aside .attributes");
  await page.click("aside summary:has-text('Resource')");
  await page.evaluate(() => getSelection().selectAllChildren(document.querySelector("aside h2")));
  await page.keyboard.press("c");
  await send("traces", spansOf("growing", [span(3, 1000e6, 500e6)]));
  await page.waitForFunction(() => document.querySelectorAll(".trace .row:not([hidden])").length === 3);
  const bars = await page.locator(".trace .row:not([hidden]) .bar").evaluateAll((all) => all.map((bar) => !bar.hidden && bar.getBoundingClientRect().width > 1));
  assert.deepEqual(bars, [true, true, true]);
  assert.equal(await page.evaluate(() => String(getSelection())), "part 2");
  assert.equal(await page.locator("aside details[open] summary:has-text('Resource')").count(), 1);
  assert.equal(await page.locator(".tools > button.on").textContent(), "critical path");
  await done(page);
});

test("metrics of every kind have their numbers, however odd", async () => {
  const points = (fields) => [0, 1, 2].map((step) => ({ timeUnixNano: String(now() + BigInt(step * 10) * 1_000_000_000n), startTimeUnixNano: "1", ...fields(step) }));
  const resource = (instance, metrics) => ({ resource: { attributes: [text("service.name", "meters"), text("service.instance.id", instance)] }, scopeMetrics: [{ metrics }] });
  const cumulative = 2;
  await send("metrics", { resourceMetrics: [
    resource("one", [
      { name: "m.delta", sum: { isMonotonic: true, aggregationTemporality: 1, dataPoints: points(() => ({ asInt: "50" })) } },
      { name: "m.twice", sum: { isMonotonic: true, aggregationTemporality: cumulative, dataPoints: points((step) => ({ asInt: String(1000 + step * 100) })) } },
      { name: "m.sevens", histogram: { aggregationTemporality: cumulative, dataPoints: points((step) => ({ count: String(10 * (step + 1)), sum: 70 * (step + 1), min: 7, max: 7, explicitBounds: [5, 10], bucketCounts: ["0", String(10 * (step + 1)), "0"] })) } },
      { name: "m.huge", histogram: { aggregationTemporality: cumulative, dataPoints: points(() => ({ count: "3", explicitBounds: [1, 1.7976931348623157e308], bucketCounts: ["1", "2", "0"] })) } },
      { name: "m.summary", summary: { dataPoints: points((step) => ({ count: "9", sum: 9, quantileValues: [{ quantile: 0.5, value: 3 + step }] })) } },
    ]),
    resource("two", [{ name: "m.twice", sum: { isMonotonic: true, aggregationTemporality: cumulative, dataPoints: points((step) => ({ asInt: String(5 + step * 100) })) } }]),
  ] });
  const page = await open("metrics/m.delta");
  const legend = async (name) => {
    await page.goto(`${receiver.url}metrics/${name}`);
    await page.waitForSelector(".legend > *");
    return page.textContent(".legend");
  };
  const tip = async () => {
    const box = await page.locator(".plot canvas").boundingBox();
    await page.mouse.move(box.x + box.width - 20, box.y + 40);
    return page.textContent(".tip");
  };
  await legend("m.delta");
  assert.match(await tip(), /5 \/s {2}meters/);
  assert.match(await legend("m.twice"), /one.*two|two.*one/);
  assert.match(await tip(), /10 \/s {2}one.*10 \/s {2}two/);
  assert.match(await legend("m.sevens"), /30 values.*p50 7p90 7p99 7/);
  assert.match(await legend("m.summary"), /q0\.5/);
  await legend("m.huge");
  await done(page);
});

test("a paused page stands still, and a live one shows what comes", async () => {
  const page = await open("?q=name:late");
  await page.waitForFunction(() => document.querySelector(".matches")?.textContent === "no trace matches");
  await page.keyboard.press("Escape");
  await page.locator("#live").click();
  const time = now();
  const foot = await page.textContent("#foot");
  await send("traces", spansOf("late", [{ traceId: "dd".repeat(16), spanId: hex(1, 16), name: "late", startTimeUnixNano: String(time), endTimeUnixNano: String(time + 1000n) }]));
  await page.waitForFunction((all) => document.getElementById("foot").textContent !== all, foot);
  assert.equal(await page.locator(".row:not([hidden])").count(), 0);
  await page.locator("#live").click();
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 1);
  await done(page);
});

test("100,000 spans in one trace are scrolled, searched and collapsed", async (context) => {
  const traceId = "ee".repeat(16);
  const all = 100_000;
  const base = now();
  for (let from = 0; from < all; from += 5000) {
    const spans = Array.from({ length: 5000 }, (_, index) => {
      const number = from + index;
      const start = base + BigInt(number) * 10_000n;
      return { traceId, spanId: hex(number + 1, 16), parentSpanId: number ? hex(Math.floor((number - 1) / 7) + 1, 16) : "", name: `step ${number % 97}`,
        startTimeUnixNano: String(start), endTimeUnixNano: String(start + BigInt(1_000_000 + (number % 1000) * 5000)),
        attributes: [{ key: "number", value: { intValue: String(number) } }], status: number % 1000 === 999 ? { code: 2 } : {} };
    });
    await send("traces", spansOf(`service-${(from / 5000) % 5}`, spans));
  }
  const begun = performance.now();
  const page = await open(`trace/${traceId}`);
  await page.waitForSelector(".trace .row .bar");
  const interactive = performance.now() - begun;
  assert.match(await page.textContent(".summary"), /100.000 spans.*100 errors/);
  const frames = await page.evaluate(async () => {
    const rows = document.querySelector(".rows");
    const times = [];
    for (let step = 0; step < 100; step++) {
      const from = performance.now();
      rows.scrollTop = step * 5000;
      rows.getBoundingClientRect();
      await new Promise((resolve) => setTimeout(resolve));
      times.push(performance.now() - from);
    }
    return times.sort((a, b) => a - b);
  });
  assert.ok((await page.locator(".row").count()) < 60, "only what is seen has elements");
  await picture(page, "large");
  await page.fill("#search", "step 96");
  await page.waitForFunction(() => /matches/.test(document.querySelector(".found")?.textContent ?? ""));
  await page.locator(".rows").focus();
  await page.keyboard.press("e");
  await page.waitForSelector("aside .status.bad");
  await page.keyboard.press("[");
  await page.waitForFunction(() => Number(document.querySelector(".rows").getAttribute("aria-rowcount")) < 20);
  const heap = await page.evaluate(() => performance.memory?.usedJSHeapSize ?? 0);
  const memory = /VmRSS:\s*(\d+)/.exec(readFileSync(`/proc/${receiver.child.pid}/status`, "utf8"))[1];
  context.diagnostic(`interactive after ${interactive.toFixed(0)} ms; a step of scrolling ${frames[50].toFixed(1)} ms, the slowest ${frames.at(-1).toFixed(1)} ms; ` +
    `heap ${(heap / 1e6).toFixed(0)} MB, the receiver ${(memory / 1024).toFixed(0)} MiB`);
  await done(page);
});
