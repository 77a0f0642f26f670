// Elements of the page, changed where they differ alone, and the table of cells that open to their seeds.
"use strict";

(function (nb) {
  nb.el = function el(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      if (name in made && typeof value !== "string") made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  };

  // Changes what differs and nothing else: what a reader has selected or focused stays.
  nb.say = function say(element, text) {
    if (element.textContent !== text) element.textContent = text;
  };

  const shown = new WeakMap(); // element -> what it shows, as text

  // Makes the content of an element anew where what it shows has changed; without content it is hidden.
  nb.fill = function fill(element, shows, make) {
    const now = JSON.stringify(shows);
    if (shown.get(element) === now) return;
    shown.set(element, now);
    const fold = element.querySelector("details");
    const parts = make();
    element.replaceChildren(...parts);
    element.hidden = !parts.length;
    if (fold) element.querySelectorAll("details").forEach((one) => (one.open = fold.open));
  };

  // Children by the keys of items, in their order: those that are there stay, and are filled again.
  nb.keyed = function keyed(into, items, make, fill) {
    const keys = new Set(items.map((item) => item.key));
    for (const child of [...into.children]) if (!keys.has(child.dataset.key)) child.remove();
    const there = new Map([...into.children].map((child) => [child.dataset.key, child]));
    items.forEach((item, place) => {
      const child = there.get(item.key) || make(item);
      child.dataset.key = item.key;
      if (into.children[place] !== child) into.insertBefore(child, into.children[place] || null);
      fill(child, item, place);
    });
  };

  // Of a dash alone the line has the text's colour.
  nb.swatch = function swatch({ colour = "currentColor", dark = "currentColor", dash }) {
    const make = (tag, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      return made;
    };
    const lengths = { dash: "6 3", dot: "2 3", dashdot: "6 2 2 2", longdash: "9 3", longdashdot: "8 2 2 2" };
    const svg = make("svg", { class: "swatch", viewBox: "0 0 18 10", "aria-hidden": "true" });
    svg.append(make("line", { x1: 0, y1: 5, x2: 18, y2: 5, "stroke-width": 3, stroke: nb.dark() ? dark : colour, "stroke-dasharray": lengths[dash] || "none" }));
    return svg;
  };

  nb.grid = function grid(head, body) {
    const row = (tag, words) => nb.el("tr", {}, ...words.map((word) => nb.el(tag, {}, ...[word].flat())));
    return nb.el("table", {}, nb.el("thead", {}, row("th", head)), nb.el("tbody", {}, ...body.map((words) => row("td", words))));
  };

  nb.mark = function mark(element, look) {
    nb.fill(element, [look.colour, look.dash, nb.dark()], () => (look.dash ? [nb.swatch(look)] : []));
  };

  // A button that puts a text, or what a function gives, on the clipboard and says so.
  nb.copy = function copy(text, label = "Copy") {
    const button = nb.el("button", { type: "button", class: "plain", "aria-live": "polite" }, label);
    button.addEventListener("click", async () => {
      const copied = await Promise.resolve(typeof text === "function" ? text() : text).then((now) => navigator.clipboard.writeText(now)).then(() => true, () => false);
      nb.say(button, copied ? "Copied" : "Not copied: select it");
      setTimeout(() => nb.say(button, label), 2000);
    });
    return button;
  };

  // Keys: up, down, Home, End, Page Up and Down move; right or Enter opens, left closes; space chooses a cell; H hides it.
  // on: { choose(cell), hide(cell), run(seed row), open(keys), sort(), point(cell's key, or "" for none) }
  nb.Table = class Table {
    constructor(element, on) {
      this.on = on;
      this.element = element;
      this.here = ""; // the row that the tab key reaches
      this.reached = false; // whether a reader has been in a row
      this.sort = nb.el("button", { type: "button" });
      this.sort.addEventListener("click", () => on.sort());
      const column = (name, content) => nb.el("span", { class: name, role: "columnheader" }, content);
      this.view = nb.el("div", { class: "view", role: "rowgroup" });
      element.setAttribute("role", "treegrid");
      element.setAttribute("aria-label", "cells and their seeds");
      element.replaceChildren(nb.el("div", { class: "row head", role: "row" }, column("name", "cell"), column("n", "n"), column("number", this.sort)), this.view);
      this.view.addEventListener("focusin", () => (this.reached = true));
      const point = (target) => on.point((this.row(target) || { cell: { key: "" } }).cell.key);
      for (const kind of ["pointerover", "focusin"]) this.view.addEventListener(kind, (event) => point(event.target));
      for (const kind of ["pointerleave", "focusout"]) this.view.addEventListener(kind, () => point(null));
      this.view.addEventListener("keydown", (event) => this.key(event));
      this.view.addEventListener("click", (event) => this.click(event));
    }

    // cells: as the view has them; muted(cell): switched off, listed all the same; unread: no curve is read yet.
    show(cells, { unit, chosen, opened, muted, sorted, unread }) {
      Object.assign(this, { cells, chosen, muted, unread, opened: new Set(opened) });
      this.sort.parentNode.setAttribute("aria-sort", sorted || "none");
      nb.say(this.sort, `${sorted ? (sorted === "ascending" ? "▴ " : "▾ ") : ""}mean, 95 % interval${unit ? `, ${unit}` : ""}`);
      const longest = (text) => Math.max(0, ...cells.map((cell) => text(cell).length));
      this.two = longest((cell) => cell.label) > 15 || longest((cell) => this.number(cell)) > 20;
      this.element.classList.toggle("two-lines", this.two);
      this.list();
    }

    list() {
      this.rows = this.cells.flatMap((cell) => [
        { key: cell.key, cell },
        ...(this.opened.has(cell.key) ? cell.seeds.map((seed) => ({ key: `${cell.key} ${seed.id}`, cell, seed })) : []),
      ]);
      const stays = this.reached && this.rows.some((row) => row.key === this.here);
      if (!stays) this.here = this.rows.length ? this.rows[0].key : "";
      this.element.setAttribute("aria-rowcount", this.rows.length + 1);
      nb.keyed(this.view, this.rows, (row) => this.blank(row), (element, row, place) => {
        element.tabIndex = row.key === this.here ? 0 : -1;
        element.setAttribute("aria-rowindex", place + 2);
        element.classList.toggle("muted", this.muted(row.cell));
        const [name, n, number] = element.children;
        const said = row.seed ? this.seed(element, row.seed) : this.cell(element, row.cell);
        [name.lastChild, n, number].forEach((part, i) => nb.say(part, said[i]));
      });
    }

    blank(row) {
      return nb.el("div", { class: row.seed ? "row seed" : "row cell", role: "row", "data-row": row.key, "aria-level": row.seed ? "2" : "1" },
        nb.el("span", { class: "name", role: "gridcell" }, nb.el("i", { class: "mark", "aria-hidden": "true" }), nb.el("b")),
        nb.el("span", { class: "n", role: "gridcell" }),
        nb.el("span", { class: "number", role: "gridcell" }));
    }

    seed(element, seed) {
      const state = seed.state === "done" ? "" : seed.state;
      const share = seed.state === "running" && seed.steps ? `${Math.floor((100 * seed.step) / seed.steps)} %` : "";
      element.title = seed.reason || seed.id;
      element.classList.toggle("bad", !["done", "running"].includes(seed.state));
      return [`seed ${seed.seed}`, this.two ? element.title : "", [seed.text, state, share].filter(Boolean).join(" · ")];
    }

    cell(element, cell) {
      nb.mark(element.firstChild.firstChild, cell);
      element.setAttribute("aria-expanded", this.opened.has(cell.key));
      element.setAttribute("aria-selected", this.chosen.includes(cell.key));
      element.title = [cell.label, ...this.states(cell), "Alt-click or H: hide or show this one"].join("\n");
      const open = cell.states.running || 0;
      const n = open ? `${cell.n}/${cell.n + open}` : String(cell.n);
      return [cell.short, this.unread ? "–" : n, this.number(cell)];
    }

    states(cell, but = []) {
      return Object.entries(cell.states).filter(([state]) => !but.includes(state)).map(([state, count]) => `${count} ${state}`);
    }

    // Its mean; runs under way are counted beside n, so that nothing moves when they end.
    number(cell) {
      const states = cell.text.includes("diverged") ? [] : this.states(cell, ["running"]);
      return [cell.text, states.join(", ")].filter(Boolean).join(" · ");
    }

    // The row of an element in it.
    row(target) {
      const element = target && target.closest("[data-row]");
      return element && this.rows.find((row) => row.key === element.dataset.row);
    }

    click(event) {
      const row = this.row(event.target);
      const selected = window.getSelection();
      if (!row || (!event.shiftKey && !selected.isCollapsed && this.element.contains(selected.anchorNode))) return; // to copy it
      this.go(row);
      if (row.seed) this.on.run(row);
      else if (event.altKey) this.on.hide(row.cell);
      else if (event.target.closest(".mark") || event.shiftKey || event.ctrlKey || event.metaKey) this.on.choose(row.cell);
      else this.open(row, !this.opened.has(row.cell.key));
    }

    key(event) {
      const place = this.rows.findIndex((row) => row.key === this.here);
      if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const row = this.rows[place];
      const page = Math.max(1, Math.floor(this.view.clientHeight / this.view.firstChild.offsetHeight) - 1);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
      if (step) this.go(this.rows[Math.max(0, Math.min(this.rows.length - 1, place + step))]);
      else if (event.key === "ArrowRight" && !row.seed) this.open(row, true);
      else if (event.key === "ArrowLeft") row.seed ? this.go(this.rows.find((one) => one.key === row.cell.key)) : this.open(row, false);
      else if (event.key === "Enter") row.seed ? this.on.run(row) : this.open(row, !this.opened.has(row.cell.key));
      else if (event.key === " ") this.on.choose(row.cell);
      else if (event.key.toLowerCase() === "h") this.on.hide(row.cell);
      else return;
      event.preventDefault();
    }

    open(row, open) {
      if (open === this.opened.has(row.cell.key)) return;
      this.opened[open ? "add" : "delete"](row.cell.key);
      this.list();
      this.on.open([...this.opened]);
    }

    go({ key }) {
      const element = (here) => [...this.view.children].find((child) => child.dataset.row === here);
      element(this.here).tabIndex = -1;
      this.here = key;
      element(key).tabIndex = 0;
      element(key).focus();
    }
  };
})(window.normbench);
