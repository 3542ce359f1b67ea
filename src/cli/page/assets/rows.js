// Virtual list: shows 100,000 rows with only as many elements as fit on the screen. Scrolling reuses the elements.

import { h, setText } from "./dom.js";

export const ROW = 26;
/** Height of a row of two lines, on narrow screens. */
const TALL_ROW = 46;
/** Number of rows that are requested above the first visible row. */
const ROWS_BEFORE = 300;

export const isNarrow = () => matchMedia("(max-width: 700px)").matches;

export class Rows {
  /**
   * `make()` returns an empty row, and `fill(row, index)` draws into it. `choose(index, how)` is called when the user
   * clicks a row ("click"), presses Enter ("enter") or moves the selection ("move"). `isTall` gives rows two lines on
   * narrow screens.
   */
  constructor({ make, fill, choose, role = "grid", label, isTall = false }) {
    this.make = make;
    this.fill = fill;
    this.choose = choose;
    this.height = isTall && isNarrow() ? TALL_ROW : ROW;
    this.count = 0;
    this.selected = -1;
    this.pool = [];
    this.space = h("div.space");
    this.element = h("div.rows", { role, tabindex: "0", "aria-label": label, vars: { "--row": `${this.height}px` } }, this.space);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("pointermove", (event) => (this.pointer = event.pointerType === "touch" ? undefined : event.clientY));
    this.element.addEventListener("pointerleave", () => (this.pointer = undefined));
    this.element.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
      this.select(Number(row.dataset.index));
      this.choose?.(this.selected, "click", event);
    });
    this.observer = new ResizeObserver(() => {
      // On a narrow screen, the sheet with the details may cover the selected row.
      if (isNarrow()) this.reveal(this.selected);
      this.draw();
    });
    this.observer.observe(this.element);
  }

  /** Sets the number of rows. The list stays high enough to be scrolled to `scrollTop`, even if it has few rows. */
  setCount(count, scrollTop = 0) {
    this.count = count;
    this.space.style.height = `${Math.max(count * this.height, scrollTop && scrollTop + this.element.clientHeight)}px`;
    this.element.setAttribute("aria-rowcount", count);
    if (this.selected >= count) this.selected = count - 1;
    this.draw();
  }

  /** Returns the index of the row that must not move: the one under the pointer, else the first visible one if the list
   * is scrolled; −1 for none. */
  fixed() {
    const { scrollTop } = this.element;
    const y = this.pointer === undefined ? 0 : this.pointer - this.element.getBoundingClientRect().top;
    const index = Math.floor((scrollTop + y) / this.height);
    return (this.pointer !== undefined || scrollTop >= this.height) && index < this.count ? index : -1;
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.height) - 3);
    const room = Math.ceil(this.element.clientHeight / this.height) + 6;
    const shown = Math.max(0, Math.min(room, this.count - first));
    while (this.pool.length < shown) {
      const row = this.make();
      row.classList.add("row");
      row.setAttribute("role", "row");
      row.tabIndex = -1;
      row.id = `row-${this.pool.length}`;
      this.pool.push(row);
      this.space.append(row);
    }
    this.pool.forEach((row, place) => {
      row.hidden = place >= shown;
      if (row.hidden) return;
      const index = first + place;
      row.dataset.index = index;
      row.style.transform = `translateY(${index * this.height}px)`;
      row.setAttribute("aria-rowindex", index + 1);
      row.setAttribute("aria-selected", index === this.selected);
      if (index === this.selected) this.element.setAttribute("aria-activedescendant", row.id);
      this.fill(row, index);
    });
    this.drawn?.(first, first + shown);
  }

  select(index) {
    this.selected = Math.max(-1, Math.min(index, this.count - 1));
    this.reveal(this.selected);
    this.draw();
  }

  reveal(index) {
    if (index < 0) return;
    const top = index * this.height;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + this.height > scrollTop + clientHeight) this.element.scrollTop = top + this.height - clientHeight;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.count, End: this.count };
    if (event.key === "Enter" && this.selected >= 0) {
      this.choose?.(this.selected, "enter", event);
      return true;
    }
    if (!(event.key in steps)) return false;
    this.select(Math.max(0, this.selected + steps[event.key]));
    this.choose?.(this.selected, "move", event);
    return true;
  }

  close() {
    this.observer.disconnect();
  }
}

/** A list that is loaded in parts: the server sends only the rows on the screen, and those around them. A button
 * announces new rows above the visible ones. */
export class Listing {
  /** `ask(parameters)` requests a part, `taken(answer)` is called with each new part, and `key(row)` identifies a
   * row. */
  constructor(rows, { ask, taken, key }) {
    Object.assign(this, { rows, ask, taken, key });
    this.button = h("button.newer", { hidden: true, onclick: () => {
      this.toTop();
      this.update();
    } });
    this.clear();
    rows.drawn = (first, end) => this.demand(first, end);
    rows.element.addEventListener("scroll", () => rows.element.scrollTop < rows.height && this.announce(this.newer = 0));
  }

  clear() {
    this.loaded = [];
    this.offset = this.matched = this.newer = 0;
    this.selectedKey = undefined;
    this.rows.selected = -1;
    this.rows.setCount(0);
  }

  announce(number, text) {
    this.button.hidden = !number;
    if (number) setText(this.button, `↑ ${text}`);
  }

  toTop() {
    this.rows.element.scrollTop = 0;
    this.rows.pointer = undefined;
    this.announce(this.newer = 0);
  }

  /** Returns a row, or undefined if it has not been loaded. */
  row(index) {
    return this.loaded[index - this.offset];
  }

  keyAt(index) {
    const row = this.row(index);
    return row && this.key(row);
  }

  /** Requests the current rows. The row that must not move keeps its place, unless `around` is the key of a row to show
   * in the middle. */
  async update(around) {
    const { element, height } = this.rows;
    const fixed = this.rows.fixed();
    const anchor = around ?? this.keyAt(fixed);
    const first = Math.max(0, Math.floor(element.scrollTop / height) - ROWS_BEFORE);
    const answer = await this.ask({ offset: first, ...(anchor === undefined ? {} : { around: anchor }) });
    if (!answer) return;
    const y = around === undefined ? fixed * height - element.scrollTop : (element.clientHeight - height) / 2;
    const selected = this.keyAt(this.rows.selected) ?? this.selectedKey;
    this.place(answer);
    const scrollTop = answer.at === null || anchor === undefined
      ? Math.max(0, Math.min(element.scrollTop, answer.matched * height - element.clientHeight)) : Math.max(0, answer.at * height - y);
    if (answer.at !== null && around === undefined && fixed >= 0) this.newer += Math.max(0, answer.at - fixed);
    this.selectedKey = around ?? selected;
    this.rows.selected = this.indexOf(this.selectedKey);
    this.rows.setCount(this.matched, scrollTop);
    if (scrollTop !== element.scrollTop) {
      element.scrollTop = scrollTop;
      this.rows.draw();
    }
    this.taken(answer);
  }

  indexOf(key) {
    const at = key === undefined ? -1 : this.loaded.findIndex((row) => this.key(row) === key);
    return at < 0 ? -1 : at + this.offset;
  }

  place({ rows, offset, matched }) {
    [this.loaded, this.offset, this.matched] = [rows, offset, matched];
  }

  /** If a visible row is not loaded, requests the rows around it. */
  async demand(first, end) {
    if (this.isAsking || !this.loaded.length) return;
    if (first >= this.offset && Math.min(end, this.matched) <= this.offset + this.loaded.length) return;
    this.isAsking = true;
    try {
      const answer = await this.ask({ offset: Math.max(0, first - ROWS_BEFORE) });
      if (!answer) return;
      this.selectedKey = this.keyAt(this.rows.selected) ?? this.selectedKey;
      this.place(answer);
      this.rows.selected = this.indexOf(this.selectedKey);
    } finally {
      this.isAsking = false;
    }
    this.rows.setCount(this.matched, this.rows.element.scrollTop);
  }
}
