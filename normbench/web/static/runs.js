// The page of all runs: a table that is drawn where it is seen, and what a reader does with single runs.
"use strict";

(function (nb) {
  const at = (id) => document.getElementById(id);
  const HEIGHT = 30; // px of a row, as the style has it
  const AROUND = 8; // rows drawn before and after those that are seen
  const MOST = 200; // runs that fit into an address
  const EACH = 2000; // ms from one look at what is new to the next, more where a look takes long
  let query = nb.address.read();
  let table = { ids: [], columns: [], metrics: [], rising: [], shown: [], group: "", main: "", of: 0 };
  let by = new Map(); // columns by key
  let rows = []; // what is listed: places of runs, and groups { value, runs, seen: those not hidden, means }
  let best = new Set(); // places of the best run of all, or of each group
  let here = 0; // the row that the keys have reached
  let took = 0; // ms of the last look
  let reached = false; // whether a reader has been in a row
  let anchor = 0; // from where Shift selects
  const selected = new Set(); // ids
  const turned = new Set(); // groups that are not as all are at first

  const collator = new Intl.Collator("en", { numeric: true });
  const value = (key, run) => (by.has(key) ? by.get(key).values[run] : null);
  const group = () => (query.group === "-" ? "" : by.has(query.group) ? query.group : table.group);
  const shown = () => (query.columns ? query.columns.split("|").filter((key) => by.has(key)) : table.shown);
  const first = (key) => (table.rising.includes(key) ? `-${key}` : key); // the order with the best on top
  const sort = () => (by.has((query.sort || "").replace(/^-/, "")) ? query.sort : first(table.main));
  const mixed = () => group() !== table.group && Boolean(table.group); // data sets, across which no metric compares
  const open = (value) => turned.has(value) === Boolean(query.group);

  async function load(outline = false) {
    document.body.setAttribute("aria-busy", "true");
    const start = performance.now();
    try {
      const found = await nb.source.ask("runs", { filter: query.filter || "", ...(outline ? { outline: 1 } : {}) });
      if (outline && found.trouble) return; // a metric that was not read yet
      const id = reached ? table.ids[rows[here]] : "";
      table = found;
      by = new Map(table.columns.map((column) => [column.key, column]));
      const there = new Set(table.ids);
      selected.forEach((one) => there.has(one) || selected.delete(one));
      arrange();
      if (id) here = Math.max(0, rows.findIndex((row) => table.ids[row] === id));
      trouble(table.trouble);
      show();
    } catch (error) {
      trouble(error.message);
    }
    took = performance.now() - start;
    if (!outline) document.body.removeAttribute("aria-busy");
  }

  const trouble = (text) => nb.fill(at("trouble"), text, () => (text ? [text] : []));

  function change(parts, ask = false) {
    query = Object.fromEntries(Object.entries({ ...query, ...parts }).filter(([, word]) => word));
    nb.address.write(query, true);
    if (ask) return load();
    arrange();
    return show();
  }

  // --- order ---------------------------------------------------------------------------------------------------------

  // Missing values last, whichever way; numbers by size, texts by the alphabet. groups: those with a mean are by that.
  function sorted(list, of) {
    const sign = sort().startsWith("-") ? -1 : 1;
    const lacks = (one) => one === null || one === undefined || one === "";
    return list.sort((a, b) => {
      const [x, y] = [of(a), of(b)];
      if (lacks(x) || lacks(y)) return lacks(x) - lacks(y);
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : collator.compare(x, y));
    });
  }

  function arrange() {
    const key = sort().replace(/^-/, "");
    const runs = sorted(table.ids.map((_, run) => run), (run) => value(key, run));
    const groups = new Map();
    for (const run of group() ? runs : []) {
      const word = String(value(group(), run) ?? "–");
      if (!groups.has(word)) groups.set(word, { value: word, runs: [], seen: [], means: new Map() });
      groups.get(word).runs.push(run);
      if (!value("hidden", run)) groups.get(word).seen.push(run);
    }
    const heads = table.metrics.includes(key) ? sorted([...groups.values()], (one) => mean(one, key)) : [...groups.values()];
    rows = group() ? heads.flatMap((one) => [one, ...(open(one.value) ? one.runs : [])]) : runs;
    const top = (own) => own.filter((run) => !value("hidden", run)).slice(0, 1).filter((run) => typeof value(table.main, run) === "number");
    best = new Set(table.main && sort() === first(table.main) && !mixed() ? (group() ? heads.map((one) => one.runs) : [runs]).flatMap(top) : []);
    here = Math.min(here, Math.max(0, rows.length - 1));
  }

  // --- rows ----------------------------------------------------------------------------------------------------------

  function text(key, one) {
    if (one === null || one === undefined) return "";
    if (key === "seconds") return one < 100 ? `${one.toFixed(1)} s` : one < 6000 ? `${Math.round(one / 60)} min` : `${(one / 3600).toFixed(1)} h`;
    if (key === "began") return one.slice(0, 16);
    if (typeof one !== "number" || Number.isInteger(one)) return String(one);
    return Math.abs(one) < 1e-4 ? one.toExponential(2) : String(Number(one.toPrecision(4)));
  }

  function mean(row, key) {
    if (!row.means.has(key)) {
      const numbers = row.seen.map((run) => value(key, run)).filter((one) => typeof one === "number");
      row.means.set(key, numbers.length ? numbers.reduce((sum, one) => sum + one, 0) / numbers.length : null);
    }
    return row.means.get(key);
  }

  function said(row, key) {
    if (typeof row === "number") return text(key, value(key, row));
    return table.metrics.includes(key) ? text(key, mean(row, key)) : "";
  }

  function line(row, place, element, keys) {
    const run = typeof row === "number";
    const [name, ...cells] = element.children;
    element.id = `row-${place}`;
    element.style.top = `${place * HEIGHT}px`;
    element.className = `line${run ? "" : " group"}${place === here ? " here" : ""}${run && value("hidden", row) ? " out" : ""}`;
    element.setAttribute("aria-rowindex", place + 2);
    element.setAttribute("aria-level", run && group() ? 2 : 1);
    element.setAttribute("aria-selected", run ? selected.has(table.ids[row]) : row.runs.every((one) => selected.has(table.ids[one])));
    if (run) element.removeAttribute("aria-expanded");
    else element.setAttribute("aria-expanded", open(row.value));
    nb.say(name.children[0], element.getAttribute("aria-selected") === "true" ? "☑" : "☐");
    nb.say(name.children[1], run ? table.ids[row] : `${open(row.value) ? "▾" : "▸"} ${group()}=${row.value} · mean of ${row.seen.length}`);
    if (run) name.children[1].href = `./?${new URLSearchParams({ filter: table.ids[row], run: table.ids[row] })}`;
    else name.children[1].removeAttribute("href");
    name.children[2].hidden = !best.has(row);
    keys.forEach((key, i) => {
      const words = said(row, key);
      nb.say(cells[i], words);
      cells[i].className = by.get(key).number ? "number" : ["failed", "damaged", "diverged"].includes(words) ? "bad" : "";
      cells[i].title = words.length > 18 ? words : "";
    });
  }

  const blank = (keys) => nb.el("div", { role: "row" },
    nb.el("span", { role: "rowheader" }, nb.el("i", { class: "check", "aria-hidden": "true" }), nb.el("a", { tabIndex: -1 }), nb.el("span", { class: "top" }, "best")),
    ...keys.map(() => nb.el("span", { role: "gridcell" })));

  let drawn = ""; // the columns of the rows that are there

  // Rows are drawn where they are seen: an element is used again for the row that comes into sight.
  // scrolled: then a row that has its element is as it was.
  function draw(scrolled = false) {
    const keys = shown();
    const view = at("table");
    const start = Math.max(0, Math.floor(view.scrollTop / HEIGHT) - AROUND);
    const end = Math.min(rows.length, Math.ceil((view.scrollTop + view.clientHeight) / HEIGHT) + AROUND);
    const into = at("rows");
    if (drawn !== keys.join("|")) into.replaceChildren();
    drawn = keys.join("|");
    while (into.children.length > end - start) into.lastChild.remove();
    while (into.children.length < end - start) into.append(blank(keys));
    for (let place = start; place < end; place++) {
      const element = into.children[place % (end - start)]; // what stays in sight stays in its element
      if (!scrolled || element.id !== `row-${place}`) line(rows[place], place, element, keys);
    }
    if (here >= start && here < end) view.setAttribute("aria-activedescendant", `row-${here}`);
    else view.removeAttribute("aria-activedescendant");
  }

  function show() {
    const keys = shown();
    const wide = (column) => {
      const longest = column.values.reduce((most, one) => Math.max(most, text(column.key, one).length), column.key.length + 2);
      return Math.min(Math.max(longest, 5), 24);
    };
    for (const column of table.columns) column.number = column.key !== "began" && column.values.some((one) => typeof one === "number");
    const widths = keys.map((key) => wide(by.get(key)));
    const style = at("table").style;
    style.setProperty("--columns", `13.5rem ${widths.map((ch, i) => `minmax(calc(${ch}ch + 1.2rem), ${by.get(keys[i]).number ? "auto" : "1fr"})`).join(" ")}`);
    style.setProperty("--width", `calc(13.5rem + ${widths.reduce((sum, ch) => sum + ch, 0)}ch + ${1.2 * keys.length}rem)`);
    at("rows").style.height = `${rows.length * HEIGHT}px`;
    at("table").setAttribute("aria-rowcount", rows.length + 1);
    at("table").setAttribute("aria-colcount", keys.length + 1);
    heads(keys);
    nb.fill(at("group"), table.columns.map(({ key }) => key), () => [["-", "none"], ...table.columns.map(({ key }) => [key, key])].map(([key, label]) => nb.el("option", { value: key }, label)));
    at("group").value = group() || "-";
    nb.keyed(at("columns").lastElementChild, table.columns, ({ key }) => {
      const box = nb.el("input", { type: "checkbox" });
      box.addEventListener("change", () => change({ columns: (box.checked ? [...shown(), key] : shown().filter((one) => one !== key)).join("|") }));
      return nb.el("label", {}, box, key);
    }, (label, { key }) => (label.firstChild.checked = keys.includes(key)));
    if (document.activeElement !== at("filter")) at("filter").value = query.filter || "";
    const of = table.ids.length < table.of ? ` of ${table.of.toLocaleString("en")}` : "";
    nb.say(at("live"), `${table.ids.length.toLocaleString("en")}${of} run${table.of === 1 ? "" : "s"}`);
    at("mixed").hidden = !mixed();
    acts();
    draw();
  }

  function heads(keys) {
    nb.fill(at("head"), [keys, sort()], () => [
      nb.el("span", { role: "columnheader" }, "run"),
      ...keys.map((key) => {
        const now = sort().replace(/^-/, "") === key ? (sort().startsWith("-") ? "descending" : "ascending") : "none";
        const button = nb.el("button", { type: "button", title: `sort by ${key}` }, `${key}${{ ascending: " ▴", descending: " ▾", none: "" }[now]}`);
        button.addEventListener("click", () => change({ sort: now === "none" ? first(key) : sort() === key ? `-${key}` : key }));
        return nb.el("span", { role: "columnheader", class: by.get(key).number ? "number" : "", "aria-sort": now }, button);
      }),
    ]);
  }

  // --- single runs ---------------------------------------------------------------------------------------------------

  const chosen = () => table.ids.map((_, run) => run).filter((run) => selected.has(table.ids[run]));
  const allHidden = () => chosen().every((run) => value("hidden", run));

  function acts() {
    const count = chosen().length;
    nb.say(at("count"), `${count.toLocaleString("en")} selected`);
    at("hidden").disabled = !count;
    nb.say(at("compare"), count ? "Compare" : "Compare all");
    const words = count ? [...selected].join(" ") : query.filter || "";
    at("compare").setAttribute("aria-disabled", count > MOST);
    at("compare").title = count > MOST ? `at most ${MOST} single runs` : "";
    if (count > MOST) at("compare").removeAttribute("href");
    else at("compare").href = words ? `./?${new URLSearchParams({ filter: words })}` : "./";
    nb.say(at("hidden"), count && allHidden() ? "Show" : "Hide");
  }

  const hide = (hidden) => nb.source.ask("mark", {}, { ids: [...selected], hidden }).then(() => load(), (error) => trouble(error.message));

  function select(from, to, on) {
    for (let place = Math.min(from, to); place <= Math.max(from, to); place++) {
      const row = rows[place];
      (typeof row === "number" ? [row] : row.runs).forEach((run) => selected[on ? "add" : "delete"](table.ids[run]));
    }
    anchor = to;
    acts();
    draw();
  }

  const is = (place) => at(`row-${place}`).getAttribute("aria-selected") === "true";

  function turn(row) {
    if (!turned.delete(row.value)) turned.add(row.value);
    arrange();
    show();
  }

  function go(place) {
    const view = at("table");
    reached = true;
    here = Math.max(0, Math.min(rows.length - 1, place));
    const [top, room] = [here * HEIGHT, view.clientHeight - 2 * HEIGHT]; // below the heads
    view.scrollTop = Math.max(top - room, Math.min(top, view.scrollTop));
    draw();
  }

  at("table").addEventListener("keydown", (event) => {
    if (event.target !== at("table") || !rows.length) return;
    const row = rows[here];
    const page = Math.max(1, Math.floor(at("table").clientHeight / HEIGHT) - 2);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[event.key];
    if (step) {
      go(here + step);
      if (event.shiftKey) select(anchor, here, true);
    } else if (event.key === " ") {
      go(here);
      select(here, here, !is(here));
    } else if (event.key === "a" && (event.ctrlKey || event.metaKey)) select(0, rows.length - 1, true);
    else if (event.key === "Escape") select(0, rows.length - 1, false);
    else if (typeof row !== "number" && (event.key === "Enter" || event.key === (open(row.value) ? "ArrowLeft" : "ArrowRight"))) turn(row);
    else if (event.key === "Enter") at(`row-${here}`).querySelector("a").click();
    else return;
    event.preventDefault();
  });

  at("rows").addEventListener("click", (event) => {
    const element = event.target.closest("[role=row]");
    if (!element || event.target.href) return;
    reached = true;
    here = Number(element.id.slice("row-".length));
    if (typeof rows[here] !== "number" && !event.target.closest(".check")) turn(rows[here]);
    else select(event.shiftKey ? anchor : here, here, event.shiftKey || !is(here));
  });

  for (const [target, kind] of [[at("table"), "scroll"], [window, "resize"]]) target.addEventListener(kind, () => requestAnimationFrame(() => draw(true)));
  at("group").addEventListener("change", () => {
    turned.clear();
    change({ group: at("group").value });
  });
  at("filter").addEventListener("change", () => change({ filter: at("filter").value.trim() }, true));
  at("hidden").addEventListener("click", () => hide(!allHidden()));
  document.addEventListener("click", (event) => at("columns").contains(event.target) || (at("columns").open = false));
  document.addEventListener("keydown", (event) => event.key === "Escape" && (at("columns").open = false));
  window.addEventListener("popstate", () => {
    query = nb.address.read();
    load();
  });

  let timer = 0;
  nb.source.events({ all: "1" }, () => {
    timer = timer || setTimeout(() => {
      timer = 0;
      load();
    }, Math.max(EACH, 5 * took));
  }, () => {});
  load(true).then(() => load());
})(window.normbench);
