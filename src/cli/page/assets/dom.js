// Creates elements, and formats values. All text is inserted as text nodes, never as HTML, so that text of senders is
// not parsed.

/** Creates an element: with `h("p.warn", …)`, a paragraph of the class "warn". Properties may be left out: `on…` are
 * listeners, `vars` are CSS custom properties. */
export function h(name, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  const properties = children[0]?.constructor === Object ? children.shift() : {};
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars") Object.entries(value).forEach(([key, of]) => element.style.setProperty(key, of));
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Replaces the text if it differs. An unchanged text keeps the user's selection. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const threeDigits = (number) => {
  if (number === 0) return "0";
  if (number < 9.995) return number.toFixed(2);
  return number < 99.95 ? number.toFixed(1) : number.toFixed(0);
};

/** Formats a duration with three digits and a unit, as in the terminal: `1.24 s`, `31.2 ms`, `850 µs`. */
export function duration(nanos) {
  const minutes = Math.floor(nanos / 60e9);
  const two = (number) => String(number).padStart(2, "0");
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  if (minutes >= 1) return `${minutes} min ${two(Math.floor(nanos / 1e9) % 60)} s`;
  if (nanos < 999.5) return `${Math.round(nanos)} ns`;
  let number = nanos / 1e3;
  for (const unit of ["µs", "ms"]) {
    if (number < 999.5) return `${threeDigits(number)} ${unit}`;
    number /= 1e3;
  }
  return `${threeDigits(number)} s`;
}

/** Formats a local time: today with milliseconds, this year with month and day, otherwise only the date. */
export function timeOfDay(millis) {
  const date = new Date(millis);
  if (Number.isNaN(date.getTime())) return "no time";
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  if (date.toDateString() === new Date().toDateString()) return `${time}.${String(date.getMilliseconds()).padStart(3, "0")}`;
  const day = `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return date.getFullYear() === new Date().getFullYear() ? `${day} ${time}` : `${date.getFullYear()}-${day}`;
}

export const offset = (nanos) => (nanos < 0 ? `−${duration(-nanos)}` : `+${duration(nanos)}`);

export const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");

export const count = (number, one) => `${grouped(number)} ${one}${number === 1 ? "" : one.endsWith("match") ? "es" : "s"}`;

/** Formats a number with few digits: 12 300 as 12.3k. */
export function short(number) {
  const size = Math.abs(number);
  if (!Number.isFinite(number)) return String(number);
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return `${Number((number / (unit === "k" ? 1e3 : limit)).toPrecision(3))}${unit}`;
  }
  return size !== 0 && size < 1e-3 ? number.toExponential(1) : String(Number(number.toPrecision(4)));
}

export const bytes = (number) => `${(number / 1048576).toFixed(number < 10485760 ? 1 : 0)} MiB`;

/** Returns the largest number of a list. `Math.max(...list)` fails for long lists. */
export const largest = (list) => list.reduce((most, one) => (one > most ? one : most), -Infinity);
export const smallest = (list) => list.reduce((least, one) => (one < least ? one : least), Infinity);

export const quoted = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;

export const traceAt = (id, span) => `/trace/${id}${span ? `?span=${span}` : ""}`;

/** Returns the CSS class for a service's color. The server assigns the number, so that all tabs use the same color. */
export const hue = (service) => `hue${service % 12}`;

export const dot = (service) => h("i", { class: `dot ${hue(service)}` });

export const back = (list) => h("a.back", { href: list, title: "all traces (Esc)" }, "←");

export const missing = (id, error, list) => h("div.missing", h("h1", `Trace ${id.slice(0, 8)} is not here`), h("p", error.message), h("a", { href: list }, "← all traces"));

export async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    flash(button, "copied");
  } catch {
    flash(button, "not allowed");
  }
}

export function flash(button, text) {
  if (!button || button.dataset.flash) return;
  const before = button.textContent;
  button.dataset.flash = "1";
  button.textContent = text;
  setTimeout(() => {
    button.textContent = before;
    delete button.dataset.flash;
  }, 1200);
}

/** Formats a value with its unit: durations and bytes in readable multiples. */
export function withUnit(value, unit = "") {
  const [base, suffix = ""] = unit.split(/(?=\/)/);
  const nanos = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12 }[base];
  if (!Number.isFinite(value)) return short(value);
  if (nanos) return `${value < 0 ? "−" : ""}${duration(Math.abs(value) * nanos)}${suffix}`;
  if (base === "By") {
    const power = Math.min(4, Math.max(0, Math.floor(Math.log2(Math.abs(value) || 1) / 10)));
    return `${Number((value / 1024 ** power).toPrecision(3))} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}${suffix}`;
  }
  if (base === "%" || base === "1") return base === "%" ? `${short(value)} %` : `${short(value)}${suffix}`;
  return `${short(value)}${base ? ` ${base}` : ""}${suffix}`;
}

/** Returns the answer of the server. Throws its message if the request is refused. */
export async function ask(path) {
  const response = await fetch(path);
  if (!response.ok) throw new Refused(response.status, await response.text());
  return response.headers.get("content-type") === "application/json" ? response.json() : response.text();
}

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}
