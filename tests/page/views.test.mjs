// Tests the views of the page with the data set of data.mjs: eight services, 500 traces, one trace of 2,000 spans.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { after, afterEach, before, test } from "node:test";
import { lines } from "./data.mjs";

const { STANDPIPE, CHROMIUM, PAGE_DIR, PICTURES } = process.env;
const { chromium } = createRequire(`${PAGE_DIR}/`)("playwright-core");
const PATIENCE = 60_000;
const SHOWN = ":not([hidden])";

let shop;
let receiver;
let browser;
let folder;

/** Runs a command with the page. Returns the process, and the addresses that it prints. */
async function start(...options) {
  const child = spawn(STANDPIPE, [...options, "--page-address", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "ignore"], env: { PATH: process.env.PATH } });
  let printed = "";
  return new Promise((resolve, reject) => {
    child.stdout.on("data", (text) => {
      printed += text;
      const urls = [...printed.matchAll(/http:\/\/\S+/g)].map(([url]) => url);
      if (urls.at(-1)?.endsWith("/")) resolve({ child, http: urls[0], url: urls.at(-1) });
    });
    child.on("exit", () => reject(new Error(`it ended: ${printed}`)));
  });
}

before(async () => {
  folder = mkdtempSync(`${tmpdir()}/page-`);
  const all = lines();
  // Two files: the second one has the last services and the metrics.
  writeFileSync(`${folder}/one.jsonl`, all.slice(0, 5).join("\n"));
  writeFileSync(`${folder}/two.jsonl`, all.slice(5).join("\n"));
  shop = await start("show", `${folder}/one.jsonl`, `${folder}/two.jsonl`);
  receiver = await start("receive", "--address", "127.0.0.1:0", "--allow-origin", "https://shop.example");
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"], timeout: PATIENCE });
});

after(async () => {
  await browser?.close();
  shop?.child.kill("SIGINT");
  receiver?.child.kill("SIGINT");
  rmSync(folder, { recursive: true });
});

afterEach(() => Promise.all(browser.contexts().flatMap((context) => context.pages().map((page) => page.close()))));

async function open(path = "", { of = shop, ...options } = {}) {
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, ...options });
  page.setDefaultTimeout(PATIENCE);
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(error.message));
  await page.goto(of.url + path);
  return page;
}

const api = async (path, of = shop) => (await fetch(`${of.url}api/${path}`)).json();
const text = (page, selector) => page.textContent(selector);
const has = (page, selector, expected) => page.waitForFunction(([selector, expected]) =>
  document.querySelector(selector)?.textContent.includes(expected), [selector, expected]);
const rowsOf = (page) => page.locator(`.row${SHOWN}`).evaluateAll((rows) => rows.sort((a, b) => a.dataset.index - b.dataset.index).map((row) => row.getAttribute("href") ?? row.textContent));

async function drag(page, selector, [fromX, fromY], [toX, toY]) {
  const box = await page.locator(selector).boundingBox();
  await page.mouse.move(box.x + box.width * fromX, box.y + box.height * fromY);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * toX, box.y + box.height * toY, { steps: 4 });
  await page.mouse.up();
}

const hex = (number, digits) => number.toString(16).padStart(digits, "0");

/** Sends traces of one span to `receive`. */
async function send(numbers, { at = Date.now(), name = "live" } = {}) {
  const spans = numbers.map((number) => ({ traceId: hex(number + 1, 32), spanId: hex(number + 1, 16), name: `${name} ${number}`,
    startTimeUnixNano: String(BigInt(at + number) * 1000000n), endTimeUnixNano: String(BigInt(at + number + 5) * 1000000n) }));
  const body = JSON.stringify({ resourceSpans: [{ resource: { attributes: [{ key: "service.name", value: { stringValue: "live" } }] }, scopeSpans: [{ spans }] }] });
  const answer = await fetch(`${receiver.http}/v1/traces`, { method: "POST", headers: { "content-type": "application/json" }, body });
  assert.equal(answer.status, 200);
}

test("several files are shown, and a list is sorted by each measure, with the number of matches", async () => {
  const page = await open();
  await has(page, ".matches", "501 traces");
  assert.equal(await page.isHidden("nav a[data-view=requests]"), true, "files have no requests");
  for (const [sort, of] of [["duration", (row) => row.nanos], ["spans", (row) => row.spans], ["errors", (row) => row.errors], ["time", (row) => row.start]]) {
    const { rows } = await api(`traces?sort=${sort}`);
    assert.ok(rows.every((row, at) => !at || of(rows[at - 1]) >= of(row)), sort);
    await page.click(`[data-sort=${sort}]`);
    await page.waitForFunction(([path]) => [...document.querySelectorAll(".row:not([hidden])")].find((row) => row.dataset.index === "0")?.getAttribute("href") === path, [`/trace/${rows[0].id}`]);
    await page.click(`[data-sort=${sort}]`);
    await page.waitForFunction((sort) => document.querySelector(`[data-sort=${sort}]`).textContent.endsWith("↑"), sort);
  }
  await page.fill("#search", "err service:payments");
  const { matched } = await api("traces?q=err service:payments");
  await has(page, ".matches", `${matched} matches`);
  assert.deepEqual(page.problems, []);
});

test("bars are logarithmic, so that one long trace does not flatten all others", async () => {
  const page = await open();
  await page.waitForSelector(".row .lane i");
  const widths = await page.locator(`.row${SHOWN} .lane i`).evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width / bar.parentElement.clientWidth));
  assert.ok(Math.max(...widths) > 0.99);
  const usual = widths.filter((width) => width < 0.99).sort((a, b) => a - b);
  assert.ok(usual[usual.length >> 1] > 0.08 && usual.at(-1) - usual[0] > 0.15, usual.join());
});

test("a point of the scatter plot opens its trace, and a selection filters", async () => {
  const page = await open();
  await page.waitForSelector(".scatter:not([hidden]) canvas");
  await has(page, ".matches", "501 traces");
  await drag(page, ".scatter canvas", [0.4, 0.05], [0.7, 0.5]);
  await page.waitForFunction(() => /dur>=.*dur<=/.test(document.getElementById("search").value) && location.search.includes("time="));
  await page.waitForFunction(() => /^\d+ matches/.test(document.querySelector(".matches").textContent));
  const { points } = await api(`traces?points=1&${new URLSearchParams({ q: await page.inputValue("#search"), from: new URL(page.url()).searchParams.get("time").split("-")[0], to: new URL(page.url()).searchParams.get("time").split("-")[1] })}`);
  assert.ok(points.length > 0 && points.length < 100, points.length);
  // A search for one trace shows only the point of this trace, at the left of the plot.
  const slowest = (await api("traces?sort=duration")).rows[1];
  await page.goto(`${shop.url}?q=trace:${slowest.id}`);
  await has(page, ".matches", "1 match");
  const box = await page.locator(".scatter canvas").boundingBox();
  // The points arrive later than the number of matches, so the column is clicked until there is a point.
  const deadline = Date.now() + 60_000;
  for (let y = 10; Date.now() < deadline && !page.url().includes("/trace/"); y = y < box.height - 26 ? y + 6 : 10) await page.mouse.click(box.x + 77, box.y + y);
  await page.waitForURL(`**/trace/${slowest.id}`);
});

test("rows do not move under the pointer, and a click on the announcement shows new ones", async () => {
  await send(Array.from({ length: 5 }, (_, number) => number));
  const page = await open("", { of: receiver });
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 5);
  await page.mouse.move(400, 380);
  await page.mouse.move(401, (await page.locator(".rows").boundingBox()).y + 40);
  const under = () => page.evaluate(() => {
    const { left, top } = document.querySelector(".rows").getBoundingClientRect();
    return document.elementFromPoint(left + 300, top + 40).closest(".row")?.getAttribute("href");
  });
  const before = await under();
  await send([5, 6, 7]);
  await has(page, ".newer:not([hidden])", "3 new traces");
  assert.equal(await under(), before);
  await page.click(".newer");
  await page.waitForFunction((path) => [...document.querySelectorAll(".row:not([hidden])")].some((row) => row.dataset.index === "0" && row.getAttribute("href") === path), `/trace/${hex(8, 32)}`);
});

test("a pause outlasts a change of view and a reload, and clear removes everything", async () => {
  const page = await open("", { of: receiver });
  const rows = () => page.locator(`.row${SHOWN}`).count();
  await page.waitForSelector(".row");
  const known = await rows();
  await page.click("#live");
  await send([20, 21]);
  await page.click("nav a[data-view=logs]");
  await page.click("nav a[data-view=traces]");
  await page.waitForSelector(".row");
  assert.equal(await rows(), known);
  await page.reload();
  await page.waitForSelector(".row");
  assert.deepEqual([await text(page, "#live"), await rows()], ["❚❚ paused", known]);
  await page.click("#live");
  await page.waitForFunction((all) => document.querySelectorAll(".row:not([hidden])").length === all, known + 2);
  await page.click("#menu summary");
  await page.click("#clear");
  await page.waitForSelector(".welcome");
  assert.equal((await api("traces", receiver)).matched, 0);
});

test("the help has every condition of the search, and an invalid search shows no rows", async () => {
  const page = await open();
  await page.waitForSelector(".row");
  await page.keyboard.press("?");
  await page.click("dialog .example:text('dur>100ms')");
  await page.waitForFunction(() => document.getElementById("search").value === "dur>100ms");
  await has(page, ".matches", "match");
  await page.fill("#search", "dur>5");
  await page.waitForSelector("#problem:not([hidden])");
  assert.equal(await page.locator(`.row${SHOWN}`).count(), 0);
  assert.deepEqual(page.problems, []);
});

const declined = async () => (await api("traces?q=err name:authorize")).rows[0].id;
const open1 = async (path = "") => open(`trace/${await declined()}${path}`);

test("the critical path is made of parts that do not overlap and last as long as the trace", async () => {
  const page = await open1();
  await page.waitForSelector(".trace .row");
  await page.keyboard.press("]");
  await page.keyboard.press("c");
  await page.waitForSelector(".segments i");
  const parts = await page.locator(`.row${SHOWN} .segments i`).evaluateAll((all) => all.map((part) => [parseFloat(part.style.left), parseFloat(/([\d.e-]+)%/.exec(part.style.width)[1])]));
  parts.sort((a, b) => a[0] - b[0]);
  parts.slice(1).forEach(([left], at) => assert.ok(left >= parts[at][0] + parts[at][1] - 1e-4, `${left} after ${parts[at]}`));
  assert.ok(Math.abs(parts.reduce((sum, [, wide]) => sum + wide, 0) - 100) < 0.1);
  assert.match(await text(page, ".summary"), /critical path: .+ in \d+ spans/);
});

test("a trace is shown as a flame graph, a table and JSON, which can be downloaded", async () => {
  const page = await open1();
  await page.click(".modes button:text('flame graph')");
  await page.waitForSelector(".blocks button");
  const wide = await page.locator(".blocks button").evaluateAll((all) => all.map((one) => [one.textContent, one.getBoundingClientRect().width]));
  assert.ok(wide.find(([name]) => name === "authorize card")[1] < wide.find(([name]) => name === "POST /checkout")[1]);
  await page.click(".blocks button:text('authorize card')");
  assert.match(await text(page, ".profile .bar-of-tools"), /payments · authorize card: .*self.*1 span/);
  await page.click(".modes button:text('table')");
  const stock = await page.locator(".operations tr:has-text('SELECT stock') td").allTextContents();
  assert.match(stock.join("|"), /SELECT stock.*\|.*\|.*\|.*\|6\|.*\|.*\|–/);
  await page.click(".operations button:text('self')");
  await page.click(".operations tr:has-text('SELECT stock')");
  await has(page, ".found", "6 matches");
  await page.click(".modes button:text-is('JSON')");
  await has(page, ".profile pre", '"resourceSpans"');
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(".profile a[download]")]);
  const saved = readFileSync(await download.path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  assert.ok(saved.some((line) => line.resourceSpans) && saved.some((line) => line.resourceLogs));
  assert.deepEqual(page.problems, []);
});

test("a bar outside of the zoomed range is announced at its side", async () => {
  const page = await open1();
  await page.click(".row:has(b:text-is('authorize card'))");
  await page.keyboard.press("z");
  await page.waitForFunction(() => [...document.querySelectorAll(".row em")].some((label) => label.textContent.endsWith(" ←")));
  assert.match(await page.textContent(".row:has(b:text-is('call inventory')) em"), / ←$/);
  await page.keyboard.press("0");
  assert.equal(await page.textContent(".ticks span"), "0");
});

test("a trace is searched by attribute, and its groups open by a click and by a key", async () => {
  const page = await open1();
  await has(page, ".rows", "SELECT stock ×6");
  const count = () => page.locator(`.trace .row${SHOWN}`).count();
  const folded = await count();
  // The text of a group is beside its striped bar, not on it.
  const overlaps = await page.locator(`.row.like${SHOWN}`).evaluateAll((rows) => rows.map((row) => {
    const [bar, label] = [row.querySelector(".bar"), row.querySelector("em")].map((one) => one.getBoundingClientRect());
    return bar.left < label.right - 5 && label.left + 5 < bar.right && bar.top < label.bottom - 6 && label.top < bar.bottom;
  }));
  assert.deepEqual(overlaps, overlaps.map(() => false));
  await page.click(".row.like");
  await page.waitForFunction((all) => document.querySelectorAll(".trace .row:not([hidden])").length === all, folded + 5);
  await page.keyboard.press("[");
  await page.keyboard.press("]");
  assert.equal(await count(), folded + 5);
  await page.fill("#search", "payment.currency~e");
  await has(page, ".found", "match");
  await has(page, "aside h2", "authorize card");
  await page.fill("#search", "dur>5");
  await page.waitForSelector("#problem:not([hidden])");
  assert.equal(await page.locator("aside .more").count(), 1, "the stack trace is collapsed");
  await page.click("aside .more");
  assert.match(await text(page, "aside"), /Gateway.java:129/);
});

test("events that share a place on the bar are counted", async () => {
  const id = (await api("traces?q=name:rank -err")).rows[0].id;
  const page = await open(`trace/${id}`);
  await has(page, ".rows", "rank");
  const [marks, label] = await page.locator(".row:has(b:text-is('rank'))").evaluate((row) => [row.querySelectorAll(".marks .event").length, row.querySelector("em").textContent]);
  assert.equal(marks + Number(/\+(\d+)/.exec(label)?.[1] ?? 0), 30, label);
});

test("two traces are compared by operation", async () => {
  const [a, b] = [await declined(), (await api("traces?q=name:schedule -err")).rows[0].id];
  const page = await open(`?q=trace:${a} or trace:${b}`);
  await page.waitForFunction(() => document.querySelectorAll(".row:not([hidden])").length === 2);
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await has(page, ".compared", "compare");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.waitForURL("**/compare/*/*");
  await page.waitForSelector(".operations");
  assert.match((await page.locator(".operations tr:has-text('schedule')").first().textContent()), /[+−][\d.]+ /);
  assert.match(await text(page, ".summary"), /B − A: [+−]/);
  assert.deepEqual(page.problems, []);
});

test("a missing trace says so and links back", async () => {
  const page = await open(`trace/${"ab".repeat(16)}`);
  await has(page, ".missing", "not received, or is no longer kept");
  assert.equal(await page.isHidden(".waterfall"), true);
  await page.click(".missing a");
  await page.waitForSelector(".traces .row");
});

test("all log records are scrolled to, a range is dragged, and a line is shown among its neighbors", async () => {
  const page = await open("logs");
  const { matched } = await api("logs");
  assert.ok(matched > 1000);
  await page.waitForSelector(".row");
  await page.evaluate(() => document.querySelector(".rows").scrollTo(0, 1e9));
  await page.waitForFunction((last) => [...document.querySelectorAll(".row:not([hidden])")].some((row) => Number(row.dataset.index) === last && !row.classList.contains("waiting")), matched - 1);
  await drag(page, ".histogram canvas", [0.3, 0.5], [0.5, 0.5]);
  await page.waitForFunction(() => /^\d+ matches/.test(document.querySelector(".matches").textContent));
  const part = Number(/\d+/.exec(await text(page, ".matches"))[0]);
  assert.ok(part > matched * 0.1 && part < matched * 0.3, part);
  // The time range applies to all views.
  await page.click("nav a[data-view=traces]");
  await page.waitForFunction(() => /^\d+ matches/.test(document.querySelector(".traces .matches")?.textContent));
  await page.click("nav a[data-view=logs]");
  await page.selectOption("#time", "");
  await page.fill("#search", "declined");
  await has(page, ".matches", "match");
  await page.waitForFunction(() => document.querySelector(".row:not([hidden]) .name")?.textContent.includes("declined"));
  await page.locator(".row").nth(3).click();
  await page.click("aside a:text('lines around')");
  await page.waitForFunction(() => location.search.includes("around="));
  await page.waitForFunction(() => document.querySelector(".row[aria-selected=true] .name")?.textContent.includes("declined"));
  await has(page, ".matches", "records");
  assert.deepEqual(page.problems, []);
});

test("metrics are grouped by service, with units, toggled series, totals, and exemplars that open traces", async () => {
  const page = await open("metrics/http.server.requests");
  await page.waitForSelector(".legend button");
  assert.deepEqual((await page.locator("nav.metrics h2").allTextContents()).sort(), ["catalog", "inventory", "payments", "storefront"]);
  assert.equal(await page.locator(".legend button").count(), 4);
  await page.click(".legend button >> nth=1");
  assert.equal(await page.locator(".legend .off").count(), 1);
  await page.click("nav.metrics a[href='/metrics/process.memory.usage']");
  await has(page, ".legend", "MiB");
  const { points } = (await api("series?name=payments.authorized")).find((series) => series.attributes.includes("EUR"));
  await page.click("nav.metrics a[href='/metrics/payments.authorized']");
  await has(page, ".legend", `total ${points.reduce((sum, point) => sum + point.value, 0)}`);
  // One exemplar at a known place, instead of those of the data set.
  const { id } = (await api("traces")).rows[0];
  await page.route("**/api/series?*", async (route) => {
    const series = await (await route.fetch()).json();
    for (const point of series.flatMap((one) => one.points)) delete point.exemplars;
    for (const one of series) one.exemplars = [{ time: one.points[30].time, value: 60, trace: id, span: "" }];
    await route.fulfill({ json: series });
  });
  await page.click("nav.metrics a[href='/metrics/http.server.request.duration']");
  await has(page, ".legend", "exemplars: 60.0 ms");
  await page.selectOption(".chart select", "p90");
  await page.waitForFunction(() => document.querySelectorAll(".legend button em").length === 3);
  await page.selectOption(".chart select", "heat map");
  const box = await page.locator(".plot canvas").boundingBox();
  // The mouse cursor changes over the exemplar, which is near the middle of the chart.
  const places = [];
  for (let x = 0.4; x < 0.62 && !places.length; x += 0.008) {
    for (let y = 0.1; y < 0.6 && !places.length; y += 0.03) {
      await page.mouse.move(box.x + box.width * x, box.y + box.height * y);
      if (await page.evaluate(() => document.querySelector(".plot canvas").style.cursor === "pointer")) places.push([x, y]);
    }
  }
  assert.match(await text(page, ".tip"), /exemplar 60.0 ms/);
  await page.mouse.click(box.x + box.width * places[0][0], box.y + box.height * places[0][1]);
  await page.waitForURL(`**/trace/${id}`);
  assert.deepEqual(page.problems, []);
});

test("no line of the map of services is behind a box, labels are apart, and a click filters", async () => {
  const page = await open("services");
  await page.waitForSelector(".node");
  const crossed = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll(".node")].map((node) => [node.getAttribute("aria-label"), node.querySelector("rect").getBBox()]);
    const inside = [];
    for (const path of document.querySelectorAll(".edge path")) {
      const length = path.getTotalLength();
      for (let at = 2; at < length - 2; at += 2) {
        const { x, y } = path.getPointAtLength(at);
        for (const [name, box] of boxes) if (x > box.x + 1 && x < box.x + box.width - 1 && y > box.y + 1 && y < box.y + box.height - 1) inside.push(`${path.parentNode.textContent} in ${name}`);
      }
    }
    const labels = [...document.querySelectorAll(".edge.label")].map((label) => label.getBBox());
    const together = labels.flatMap((a, at) => labels.slice(at + 1).filter((b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y + 2 < b.y + b.height && b.y + 2 < a.y + a.height));
    const [svg, view] = [document.querySelector(".map svg").getBBox(), document.querySelector(".map")];
    return { inside: [...new Set(inside)], together: together.length, used: svg.width / view.clientWidth };
  });
  assert.deepEqual(crossed.inside, []);
  assert.equal(crossed.together, 0, "labels do not overlap");
  assert.ok(crossed.used > 0.85, `${crossed.used} of the width`);
  assert.equal(await page.locator(".node").count(), 8);
  assert.match(await text(page, ".edge.label.bad"), /× p95 .*✗ \d+ \(\d+ %\)/);
  await page.locator(".edge.label.bad text").first().click();
  await page.waitForFunction(() => /service:.*service:.*err/.test(document.getElementById("search").value));
  await has(page, ".matches", "match");
});

test("on a phone, details are a sheet, log bodies are visible, metrics are stacked and the map is scrolled", async () => {
  const viewport = { width: 420, height: 800 };
  const page = await open(`trace/${await declined()}`, { viewport });
  await page.waitForSelector(".trace .row");
  await page.keyboard.press("e");
  await page.waitForSelector("aside:not([hidden])");
  const sheet = await page.locator("aside").boundingBox();
  assert.ok(sheet.width === 420 && sheet.y > 200 && sheet.y + sheet.height === 800, JSON.stringify(sheet));
  await page.keyboard.press("E");
  await page.waitForFunction((top) => document.querySelector(".row[aria-selected=true]").getBoundingClientRect().bottom <= top, sheet.y);
  await page.click("aside .close");
  assert.equal(await page.isHidden("aside"), true);
  await page.goto(`${shop.url}logs`);
  await page.waitForSelector(".row .name");
  assert.ok((await page.locator(".row .name").first().boundingBox()).width > 380);
  await page.goto(`${shop.url}metrics`);
  await page.waitForSelector(".plot canvas");
  const [list, chart] = [await page.locator("nav.metrics").boundingBox(), await page.locator(".chart").boundingBox()];
  assert.ok(chart.y >= list.y + list.height && chart.width === 420);
  await page.goto(`${shop.url}services`);
  await page.waitForSelector(".node");
  assert.ok(await page.evaluate(() => document.querySelector(".map").scrollWidth > 420 && document.documentElement.scrollWidth <= 420));
  for (const path of ["", "logs", "metrics"]) {
    await page.goto(shop.url + path);
    await page.waitForSelector("main *");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 420), path);
  }
});

/** Drops a file on the page. */
const drop = (page, name, content) => page.evaluate(([name, content]) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File([content], name));
  dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
}, [name, content]);

test("dropped files of OTLP, Jaeger and Zipkin are loaded, and the current selection is exported", async () => {
  const page = await open("", { of: receiver });
  await page.waitForSelector("main *");
  await drop(page, "bad.jsonl", '{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"77777777777777777777777777777777","spanId":"7777777777777777","name":"from otlp"}]}]}]}\nnot JSON\n');
  await has(page, "#note", "1 record loaded, 1 line cannot be read (line 2: ");
  const jaeger = { data: [{ traceID: "abc1", processes: { p1: { serviceName: "old-shop", tags: [{ key: "host", type: "string", value: "a" }] } }, spans: [
    { traceID: "abc1", spanID: "1", operationName: "from jaeger", references: [], startTime: 1700000000000001, duration: 5000, processID: "p1", tags: [{ key: "span.kind", type: "string", value: "server" }, { key: "big", type: "int64", value: 7 }], logs: [{ timestamp: 1700000000000900, fields: [{ key: "event", value: "half" }] }] },
    { traceID: "abc1", spanID: "2", operationName: "inner", references: [{ refType: "CHILD_OF", traceID: "abc1", spanID: "1" }], startTime: 1700000000001000, duration: 1000, processID: "p1", tags: [{ key: "error", type: "bool", value: true }], logs: [] }] }] };
  await drop(page, "jaeger.json", JSON.stringify(jaeger, null, 2));
  await has(page, "#note", "2 records loaded");
  const zipkin = [{ traceId: "def2", id: "a", name: "from zipkin", kind: "CLIENT", timestamp: 1700000000000000, duration: 900, localEndpoint: { serviceName: "front" }, tags: { error: "boom" } },
    { traceId: "def2", id: "a", shared: true, name: "from zipkin", kind: "SERVER", timestamp: 1700000000000100, duration: 700, localEndpoint: { serviceName: "back" } },
    { traceId: "def2", id: "b", parentId: "a", name: "query", timestamp: 1700000000000200, duration: 100, localEndpoint: { serviceName: "back" }, annotations: [{ timestamp: 1700000000000250, value: "row" }] }];
  await drop(page, "zipkin.json", JSON.stringify(zipkin));
  await has(page, "#note", "3 records loaded");
  const of = async (name) => {
    const { rows } = await api(`traces?q=name:"${name}"`, receiver);
    return api(`trace/${rows[0].id}`, receiver);
  };
  const [first, second] = [await of("from jaeger"), await of("from zipkin")];
  assert.deepEqual([first.parent, first.flags, first.nanos], [[-1, 0], [0, 1], 5_000_000]);
  assert.equal(first.events.length, 1);
  assert.deepEqual([second.parent, second.nanos], [[-1, 0, 1], 900_000]);
  await page.fill("#search", "service:front");
  await has(page, ".matches", "1 match");
  await page.click("#menu summary");
  await has(page, "#export", "Export these traces");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  const saved = readFileSync(await download.path(), "utf8");
  assert.equal([...saved.matchAll(/"traceId":"([0-9a-f]+)"/g)].every(([, id]) => id === hex(0xdef2, 32)), true);
  assert.match(saved, /from zipkin/);
});

test("web pages of this machine and of allowed origins may send, and no others", async () => {
  const preflight = async (origin) => {
    const answer = await fetch(`${receiver.http}/v1/traces`, { method: "OPTIONS", headers: { origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type,x-a" } });
    return [answer.status, answer.headers.get("access-control-allow-origin"), answer.headers.get("access-control-allow-headers")];
  };
  for (const origin of ["http://localhost:3000", "http://127.0.0.1:8080", "https://shop.example"]) assert.deepEqual(await preflight(origin), [204, origin, "content-type,x-a"]);
  for (const origin of ["https://evil.example", "https://shop.example.evil.test", "http://localhost.evil.test", "null"]) assert.deepEqual(await preflight(origin), [405, null, null]);
  // In a real browser, a page of another port of this machine sends like an SDK.
  const site = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<p>a shop")).listen(0, "127.0.0.1");
  await once(site, "listening");
  const page = await open();
  await page.goto(`http://localhost:${site.address().port}/`);
  const status = await page.evaluate((url) => fetch(`${url}/v1/traces`, { method: "POST", headers: { "content-type": "application/json" }, body: '{"resourceSpans":[]}' }).then((answer) => answer.status), receiver.http);
  assert.equal(status, 200);
  await page.close();
  site.close();
});

test("pictures of every view are taken", async (context) => {
  const id = await declined();
  const big = "1a2b".repeat(8);
  const other = (await api("traces?q=name:schedule -err")).rows[0].id;
  const views = { traces: "", trace: `trace/${id}`, flame: `trace/${id}?view=flame`, table: `trace/${id}?view=table`, json: `trace/${id}?view=json`, large: `trace/${big}`,
    compare: `compare/${other}/${id}`, logs: "logs", metrics: "metrics/http.server.request.duration", counters: "metrics/http.server.requests", services: "services", requests: "requests" };
  let taken = 0;
  for (const [size, viewport] of [["wide", { width: 1400, height: 900 }], ["phone", { width: 420, height: 800 }]]) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open("", { viewport, colorScheme });
      for (const [name, path] of Object.entries(views)) {
        await page.goto(shop.url + path);
        await page.waitForFunction(() => document.querySelector("main").textContent.length > 20);
        if (name === "trace") {
          await page.waitForSelector(".trace .row");
          await page.keyboard.press("E");
          await page.waitForSelector("aside h2");
        }
        await page.waitForTimeout(150);
        await page.screenshot({ path: `${PICTURES}/${name}-${size}-${colorScheme}.png` });
        taken++;
      }
      assert.deepEqual(page.problems, []);
      await page.close();
    }
  }
  context.diagnostic(`${taken} pictures in ${PICTURES}`);
});
