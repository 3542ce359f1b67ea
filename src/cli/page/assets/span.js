// Side panel with all details of a span or log record. It does not move the rows of the list.

import { ask, copy, count, dot, duration, h, offset, quoted, timeOfDay, traceAt } from "./dom.js";

/** Attributes that are folded, because every record has them and they rarely matter. */
const FOLDED = /^(process|host|os|thread|code|telemetry|network\.protocol)\./;

/** Maximum number of items of a list that are shown at first. */
const MAX_ITEMS = 100;
/** Maximum number of characters of a text that are shown at first. */
const MAX_CHARACTERS = 300;

export class SpanPanel {
  constructor(app, onClose) {
    this.app = app;
    this.onClose = onClose;
    this.element = h("aside", { hidden: true, "aria-label": "details" });
  }

  hide() {
    this.element.hidden = true;
  }

  async show(trace, index, columns, self) {
    const key = `${trace} ${index}`;
    this.wanted = key;
    let span;
    try {
      span = await ask(`/api/trace/${trace}/span/${index}`);
    } catch {
      return;
    }
    if (this.wanted !== key) return;
    // An unchanged panel is not drawn again, so that nothing moves while the user reads.
    const content = JSON.stringify([key, span, self, this.app.services.length]);
    if (content === this.content && !this.element.hidden) return;
    this.content = content;
    const after = columns.start[index];
    const service = columns.service[index];
    this.place(key,
      h("h2", span.name || "(no name)"),
      h("p.facts", dot(service), this.app.service(service),
        ` · ${span.kind} · ${duration(span.nanos)} · self ${duration(self)} · starts at +${duration(after)}`),
      span.status === "error" && h("p.bad.status", `✗ ${span.message || "error"}`),
      span.status === "ok" && h("p.good.status", "✓ ok"),
      ids([["trace", span.trace], ["span", span.id], ["parent", span.parent], ["state", span.state]]),
      attributes(this.app, "Attributes", span.attributes, { dropped: span.dropped_attributes, isOpen: true }),
      section(`Events ${span.events.length || "–"}`, span.events.length > 0, items(span.events, (event) =>
        h("div.item", h("p", h("i.event"), h("b", event.name),
          h("span", offset(event.offset))), table(this.app, event.attributes)))
        .concat(dropped(span.dropped_events))),
      section(`Logs ${span.logs.length || "–"}`, span.logs.length > 0, items(span.logs, (log) => logItem(this.app, log))),
      section(`Links ${span.links.length || "–"}`, span.links.length > 0, items(span.links, (link) =>
        h("div.item", h("p", h("a", { href: traceAt(link.trace, link.span) },
          `↗ span ${link.span} in trace ${link.trace.slice(0, 8)}`)), table(this.app, link.attributes)))
        .concat(dropped(span.dropped_links))),
      attributes(this.app, "Resource", span.resource, {}),
      scope(this.app, span.scope),
    );
  }

  showLog(log) {
    this.wanted = this.content = undefined;
    this.place(`log ${log.number}`,
      h("h2", log.event || log.severity),
      h("p.facts", dot(log.service), this.app.service(log.service),
        ` · ${timeOfDay(log.time)} · `, h("span", { class: level(log.level) }, log.severity)),
      h("pre.body", long(log.body)),
      h("p.links", log.trace && h("a", { href: traceAt(log.trace, log.span) }, "show its span ↗"),
        h("a", { href: `/logs?around=${log.number}` }, "show the lines around it")),
      ids([["trace", log.trace], ["span", log.span]]),
      attributes(this.app, "Attributes", log.attributes, { isOpen: true }),
      attributes(this.app, "Resource", log.resource, {}),
      scope(this.app, log.scope),
    );
  }

  /** Replaces the content. If the record is the same, sections stay open and the scroll position is kept. */
  place(key, ...children) {
    const titles = (element) => [...element.querySelectorAll("details")].map((one) => [one.firstChild.textContent.split(" ")[0], one]);
    const before = key === this.shown ? new Map(titles(this.element).map(([title, one]) => [title, one.open])) : new Map();
    const scrolled = key === this.shown ? this.element.scrollTop : 0;
    this.shown = key;
    this.element.hidden = false;
    const close = h("button.close", { title: "close (Esc)", onclick: () => this.onClose() }, "×");
    this.element.replaceChildren(close, ...children.filter(Boolean));
    titles(this.element).forEach(([title, one]) => before.has(title) && (one.open = before.get(title)));
    this.element.scrollTop = scrolled;
  }
}

/** Draws the first items of a list, and a button for the rest. */
function items(list, draw) {
  const first = list.slice(0, MAX_ITEMS).map(draw);
  if (list.length <= MAX_ITEMS) return first;
  const more = h("button", { onclick: () => more.replaceWith(...list.slice(MAX_ITEMS).map(draw)) }, `show ${count(list.length - MAX_ITEMS, "more").replace("mores", "more")}`);
  return [...first, more];
}

/** Returns the beginning of a long text, with a button that shows the whole text. */
function long(text) {
  if (text.length <= MAX_CHARACTERS) return text;
  const whole = h("span", text.slice(0, MAX_CHARACTERS), "… ", h("button.more", { onclick: () => whole.replaceChildren(text) }, `show all ${count(text.length, "character")}`));
  return whole;
}

export function level(number) {
  if (number >= 17) return "bad";
  if (number >= 13) return "warn";
  return number >= 9 ? "info" : "faint";
}

function logItem(app, log) {
  return h("div.item",
    h("p", h("b", { class: level(log.level) }, log.severity), h("span", timeOfDay(log.time))),
    h("pre", long(log.body)), table(app, log.attributes));
}

function section(title, isOpen, children) {
  return h("details", { open: isOpen, class: children.length ? "" : "none" }, h("summary", title), ...children);
}

function dropped(number) {
  return number ? [h("p.warn", `${number} more were dropped because of the sender's limits`)] : [];
}

function ids(pairs) {
  const rows = pairs.filter(([, value]) => value).map(([name, value]) => {
    const button = h("button.copy", { onclick: () => copy(value, button) }, "copy");
    return h("tr", h("th", name), h("td", h("code", value), button));
  });
  return h("table.ids", ...rows);
}

function attributes(app, title, list, { dropped: lost = 0, isOpen = false }) {
  const folded = title === "Attributes" ? list.filter(([key]) => FOLDED.test(key)) : [];
  const shown = list.filter((entry) => !folded.includes(entry));
  return section(`${title} ${list.length || "–"}`, isOpen && list.length > 0, [
    table(app, shown),
    folded.length > 0 && h("details.folded", h("summary", `+${folded.length} of code, process and host`), table(app, folded)),
    ...dropped(lost),
  ].filter(Boolean).filter((child) => list.length || child.className === "warn"));
}

function scope(app, { name, version, attributes: list }) {
  return section(`Scope ${name || "–"}${version ? ` ${version}` : ""}`, false, list.length ? [table(app, list)] : []);
}

/** Draws keys and values, with a button to copy the value and, if short, a link to search for it. */
function table(app, list) {
  const rows = list.map(([key, kind, value]) => {
    const path = app.view?.isLogs ? "/logs" : "/";
    const button = h("button.copy", { title: "copy the value", onclick: () => copy(value, button) }, "copy");
    const search = value.length < 200 && h("a.copy", { title: "search for this value", href: `${path}?q=${encodeURIComponent(`${key}=${/[\s"\\]/.test(value) ? quoted(value) : value}`)}` }, "=");
    return h("tr", h("th", { title: kind }, key), h("td", { class: kind }, h("span", long(value)), search, button));
  });
  return h("table.attributes", ...rows);
}
