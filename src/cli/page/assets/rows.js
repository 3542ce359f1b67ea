// Virtual list: shows 100,000 rows with only as many elements as fit on the screen. Scrolling reuses the elements.

import { h } from "./dom.js";

export const ROW = 26;

export class Rows {
  /**
   * `make()` returns an empty row, and `fill(row, index)` draws into it. `choose(index, how)` is called when the user clicks a row
   * ("click"), presses Enter ("enter") or moves the selection ("move").
   */
  constructor({ make, fill, choose, role = "grid", label }) {
    this.make = make;
    this.fill = fill;
    this.choose = choose;
    this.count = 0;
    this.selected = -1;
    this.pool = [];
    this.space = h("div", { class: "space" });
    this.element = h("div", { class: "rows", role, tabindex: "0", "aria-label": label }, this.space);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.element.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
      this.select(Number(row.dataset.index));
      this.choose?.(this.selected, "click", event);
    });
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.element);
  }

  setCount(count) {
    this.count = count;
    this.space.style.height = `${count * ROW}px`;
    this.element.setAttribute("aria-rowcount", count);
    if (this.selected >= count) this.selected = count - 1;
    this.draw();
  }

  /**
   * Replaces the list. `keys` identify the rows. The selected row stays selected, and the row at the top of the screen stays there,
   * unless it is the first row. Returns the number of new rows above the screen.
   */
  replace(keys) {
    const { scrollTop } = this.element;
    const topIndex = Math.floor(scrollTop / ROW);
    const [top, selected] = [topIndex > 0 ? this.keys?.[topIndex] : undefined, this.keys?.[this.selected]];
    this.keys = keys;
    this.selected = selected === undefined ? -1 : keys.indexOf(selected);
    this.setCount(keys.length);
    const now = top === undefined ? -1 : keys.indexOf(top);
    if (now < 0 || now === topIndex) return 0;
    this.element.scrollTop = scrollTop + (now - topIndex) * ROW;
    this.draw();
    return Math.max(0, now - topIndex);
  }

  draw() {
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - 3);
    const room = Math.ceil(this.element.clientHeight / ROW) + 6;
    const shown = Math.min(room, this.count - first);
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
      row.style.transform = `translateY(${index * ROW}px)`;
      row.setAttribute("aria-rowindex", index + 1);
      row.setAttribute("aria-selected", index === this.selected);
      if (index === this.selected) this.element.setAttribute("aria-activedescendant", row.id);
      this.fill(row, index);
    });
  }

  select(index) {
    this.selected = Math.max(-1, Math.min(index, this.count - 1));
    this.reveal(this.selected);
    this.draw();
  }

  reveal(index) {
    if (index < 0) return;
    const top = index * ROW;
    const { scrollTop, clientHeight } = this.element;
    if (top < scrollTop) this.element.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight) this.element.scrollTop = top + ROW - clientHeight;
  }

  /** Moves the selection. Returns whether the key was handled. */
  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 1);
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
