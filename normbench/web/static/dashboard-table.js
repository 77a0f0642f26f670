// A table of cells that open to their seeds: rows of one height, of which only those in sight are in the page.
// Keys: up, down, Home, End, Page Up and Down move; right or Enter opens, left closes; space chooses a cell.
"use strict";

(function (nb) {
  const AROUND = 8; // rows kept above and below those in sight

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

  nb.swatch = function swatch(colour, dash) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("viewBox", "0 0 18 10");
    svg.setAttribute("aria-hidden", "true");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const lengths = { dash: "6 3", dot: "2 3", dashdot: "6 2 2 2", longdash: "9 3", longdashdot: "8 2 2 2" };
    for (const [name, value] of Object.entries({ x1: 0, y1: 5, x2: 18, y2: 5, "stroke-width": 3 })) line.setAttribute(name, value);
    if (lengths[dash]) line.setAttribute("stroke-dasharray", lengths[dash]);
    line.setAttribute("stroke", colour);
    svg.append(line);
    return svg;
  };

  // A button that puts a text on the clipboard and says so.
  nb.copy = function copy(text, label = "Copy") {
    const button = nb.el("button", { type: "button", class: "plain", "aria-live": "polite" }, label);
    const say = (word) => {
      nb.say(button, word);
      setTimeout(() => nb.say(button, label), 2000);
    };
    const write = () => (navigator.clipboard ? navigator.clipboard.writeText(text) : Promise.reject(new Error("no clipboard")));
    button.addEventListener("click", () => write().then(() => say("Copied"), () => say("Not copied: select it")));
    return button;
  };

  // on: { choose(cell), run(seed row), open(keys), sort(), point(cell's key, or "" for none) }
  nb.Table = class Table {
    constructor(element, on) {
      this.on = on;
      this.rows = [];
      this.opened = new Set();
      this.chosen = [];
      this.here = ""; // the row that the tab key reaches
      this.reached = false; // whether a reader has been in a row
      this.made = new Map(); // row id -> element
      this.head = nb.el("div", { class: "row head", role: "row" },
        nb.el("span", { class: "name", role: "columnheader" }, "cell"),
        nb.el("span", { class: "n", role: "columnheader" }, "n"),
        nb.el("span", { class: "number", role: "columnheader" }, nb.el("button", { type: "button" }, "")));
      this.head.querySelector("button").addEventListener("click", () => on.sort());
      this.space = nb.el("div", { class: "space", role: "rowgroup" });
      this.view = nb.el("div", { class: "view", role: "rowgroup" }, this.space);
      element.setAttribute("role", "treegrid");
      element.setAttribute("aria-label", "cells and their seeds");
      element.replaceChildren(this.head, this.view);
      this.element = element;
      this.view.addEventListener("scroll", () => this.paint(), { passive: true });
      this.view.addEventListener("focusin", () => (this.reached = true));
      for (const kind of ["pointerover", "focusin"]) this.view.addEventListener(kind, (event) => this.point(event.target));
      for (const kind of ["pointerleave", "focusout"]) this.view.addEventListener(kind, () => this.point(null));
      this.view.addEventListener("keydown", (event) => this.key(event));
      this.view.addEventListener("click", (event) => this.click(event));
      new ResizeObserver(() => this.paint()).observe(this.view);
    }

    // cells: as the view has them; muted(cell): switched off, listed all the same.
    show(cells, { unit, chosen, opened, muted, sorted }) {
      this.cells = cells;
      this.head.lastChild.setAttribute("aria-sort", sorted || "none");
      this.chosen = chosen;
      this.opened = new Set(opened);
      this.muted = muted;
      nb.say(this.head.querySelector("button"), `${sorted ? (sorted === "ascending" ? "▴ " : "▾ ") : ""}mean, 95 % interval${unit ? `, ${unit}` : ""}`);
      const longest = (text) => Math.max(0, ...cells.map((cell) => text(cell).length));
      this.two = longest((cell) => cell.label) > 15 || longest((cell) => cell.text) > 20;
      this.element.classList.toggle("two-lines", this.two);
      this.list();
    }

    list() {
      this.rows = this.cells.flatMap((cell) => [
        { id: cell.key, cell },
        ...(this.opened.has(cell.key) ? cell.seeds.map((seed) => ({ id: `${cell.key} ${seed.id}`, cell, seed })) : []),
      ]);
      const kept = this.reached && this.rows.some((row) => row.id === this.here);
      if (!kept) this.here = this.rows.length ? this.rows[0].id : "";
      this.element.setAttribute("aria-rowcount", this.rows.length + 1);
      this.paint();
    }

    get height() {
      return this.two ? 46 : 28;
    }

    // As in sight, so in the page: rows are read, and reached by keys, in their order.
    order(wanted) {
      let next = this.space.firstChild;
      for (const id of wanted) {
        const element = this.made.get(id);
        if (element === next) next = next.nextSibling;
        else this.space.insertBefore(element, next);
      }
    }

    paint() {
      const { height, view, rows } = this;
      this.space.style.height = `${rows.length * height}px`;
      const first = Math.max(0, Math.floor(view.scrollTop / height) - AROUND);
      const last = Math.min(rows.length, Math.ceil((view.scrollTop + view.clientHeight) / height) + AROUND);
      const wanted = new Set();
      rows.forEach((row, place) => {
        if ((place < first || place >= last) && row.id !== this.here) return;
        wanted.add(row.id);
        let element = this.made.get(row.id);
        if (!element) {
          element = this.blank(row);
          this.made.set(row.id, element);
        }
        this.fill(element, row, place);
        if (!element.parentNode) this.space.append(element);
      });
      for (const [id, element] of this.made) {
        if (wanted.has(id)) continue;
        element.remove();
        this.made.delete(id);
      }
      this.order(wanted);
    }

    blank(row) {
      return nb.el("div", { class: row.seed ? "row seed" : "row cell", role: "row", "data-row": row.id },
        nb.el("span", { class: "name", role: "gridcell" }, nb.el("i", { class: "mark", "aria-hidden": "true" }), nb.el("b")),
        nb.el("span", { class: "n", role: "gridcell" }),
        nb.el("span", { class: "number", role: "gridcell" }));
    }

    fill(element, row, place) {
      const { cell, seed } = row;
      const [name, n, number] = element.children;
      const [mark, text] = [name.firstChild, name.lastChild];
      element.style.top = `${place * this.height}px`;
      element.tabIndex = row.id === this.here ? 0 : -1;
      element.setAttribute("aria-rowindex", place + 2);
      element.setAttribute("aria-level", seed ? 2 : 1);
      element.classList.toggle("muted", this.muted(cell));
      if (seed) {
        const states = { done: "", diverged: "diverged", running: "running", queued: "queued" };
        const said = states[seed.state] ?? seed.state;
        nb.say(text, `seed ${seed.seed}`);
        nb.say(n, this.two ? seed.reason || seed.id : "");
        nb.say(number, [seed.text, said, seed.state === "running" && seed.steps ? `${Math.floor((100 * seed.step) / seed.steps)} %` : ""].filter(Boolean).join(" · "));
        element.title = seed.reason || seed.id;
        element.classList.toggle("bad", !["done", "running", "queued"].includes(seed.state));
        return;
      }
      const shade = nb.dark() ? cell.dark : cell.colour;
      const look = `${shade} ${cell.dash}`;
      if (mark.dataset.look !== look) {
        mark.dataset.look = look;
        mark.replaceChildren(nb.swatch(shade, cell.dash));
      }
      const open = this.opened.has(cell.key);
      element.setAttribute("aria-expanded", open);
      element.setAttribute("aria-selected", this.chosen.includes(cell.key));
      element.title = cell.label;
      nb.say(text, cell.label);
      nb.say(n, String(cell.n));
      const states = Object.entries(cell.states).map(([state, count]) => `${count} ${state}`).join(", ");
      nb.say(number, [cell.text, cell.text.includes("diverged") ? "" : states].filter(Boolean).join(" · "));
    }

    point(target) {
      const element = target && target.closest("[data-row]");
      const row = element && this.rows.find((r) => r.id === element.dataset.row);
      this.on.point(row ? row.cell.key : "");
    }

    click(event) {
      const element = event.target.closest("[data-row]");
      const row = element && this.rows.find((r) => r.id === element.dataset.row);
      const selected = window.getSelection();
      if (!row || (!event.shiftKey && !selected.isCollapsed && this.element.contains(selected.anchorNode))) return; // to copy it
      this.go(row);
      if (row.seed) this.on.run(row);
      else if (event.target.closest(".mark") || event.shiftKey || event.ctrlKey || event.metaKey) this.on.choose(row.cell);
      else this.open(row, !this.opened.has(row.cell.key));
    }

    key(event) {
      const place = this.rows.findIndex((row) => row.id === this.here);
      if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
      const row = this.rows[place];
      const page = Math.max(1, Math.floor(this.view.clientHeight / this.height) - 1);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
      if (step) this.go(this.rows[Math.max(0, Math.min(this.rows.length - 1, place + step))]);
      else if (event.key === "ArrowRight" && !row.seed) this.open(row, true);
      else if (event.key === "ArrowLeft") row.seed ? this.go(this.rows.find((r) => r.id === row.cell.key)) : this.open(row, false);
      else if (event.key === "Enter") row.seed ? this.on.run(row) : this.open(row, !this.opened.has(row.cell.key));
      else if (event.key === " ") this.on.choose(row.cell);
      else return;
      event.preventDefault();
    }

    open(row, open) {
      if (open === this.opened.has(row.cell.key)) return;
      this.opened[open ? "add" : "delete"](row.cell.key);
      this.list();
      this.on.open([...this.opened]);
    }

    go(row) {
      this.here = row.id;
      const top = this.rows.indexOf(row) * this.height;
      if (top < this.view.scrollTop) this.view.scrollTop = top;
      else if (top + this.height > this.view.scrollTop + this.view.clientHeight) this.view.scrollTop = top + this.height - this.view.clientHeight;
      this.paint();
      this.made.get(row.id).focus({ preventScroll: true });
    }
  };
})(window.normbench);
