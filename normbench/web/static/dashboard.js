// The page of a comparison: what the address asks for, shown; each change goes to the address and is shown again.
"use strict";

(function (nb) {
  const at = (id) => document.getElementById(id);
  const CHOICES = [["split", "Split"], ["metric", "Metric"], ["at", "When"], ["against", "Baseline"], ["x", "x axis"], ["level", "Level"]];
  const OF_TASK = ["split", "metric", "at", "by", "against", "level", "x", "a", "b", "off", "open", "run", "beside", "rate"]; // another task has others
  const PARTS = ["filter", "split", "metric", "at", "against", "level"]; // of a question that may fit nothing
  const SMOOTH = [0, 0.5, 0.7, 0.8, 0.9, 0.95];
  let query = nb.address.read();
  let view = null;
  let stop = () => {};
  let pointed = ""; // the cell at whose row a reader points
  let answered = null; // when the server last did
  let asking = 0; // questions that are on their way
  let heard = null; // the question whose news are listened to

  const list = (key) => (query[key] ? query[key].split("|") : []);
  const off = () => new Set(list("off"));

  const MANY = 12; // cells: of more, curves of other learning rates and bands are only shown if somebody asks for them

  // Whether each arm is shown at its best learning rate alone.
  const tuned = () => (query.rate ? query.rate === "best" : view.cells.length > MANY) && view.cells.some((cell) => cell.other_rate);

  function seen(cell, hidden = off()) {
    return !hidden.has(cell.arm) && !cell.place.some((key) => hidden.has(key)) && !(cell.other_rate && tuned());
  }

  const bands = () => (query.band ? query.band === "1" : view.cells.filter((cell) => seen(cell)).length <= MANY);

  // --- changes -------------------------------------------------------------------------------------------------------

  // ask: whether another view is needed for it; push: whether "back" undoes it
  async function change(parts, { ask = false, push = false } = {}) {
    query = { ...query, ...parts };
    for (const [key, value] of Object.entries(query)) if (value === "" || value === undefined) delete query[key];
    nb.address.write(query, push);
    if (ask) await load();
    else show();
  }

  // Gives whether there was an answer.
  async function load() {
    asking += 1;
    document.body.setAttribute("aria-busy", "true");
    try {
      if (!view && !nb.source.shared) {
        const outline = await nb.source.view(query, true); // at once what there is; curves and numbers follow
        if (!outline) return true;
        view = outline;
        show();
      }
      const answer = await nb.source.view(query);
      if (!answer) return true;
      view = answer;
      answered = new Date();
      trouble(refused());
      show();
      listen();
      return true;
    } catch (error) {
      trouble(answered ? `${error.message.trim()} What is shown is of ${answered.toLocaleTimeString()}.` : error.message);
      at("live").classList.remove("on");
      return false;
    } finally {
      asking -= 1;
      if (!asking) document.body.removeAttribute("aria-busy"); // one that another overtook ends no waiting
    }
  }

  function listen() {
    const asked = new URLSearchParams(nb.source.asked(query)).toString();
    if (asked === heard) return;
    stop();
    heard = asked;
    let waiting = false;
    stop = nb.source.events(query, () => {
      if (waiting) return;
      waiting = true; // several runs at once are one look
      setTimeout(() => {
        waiting = false;
        load();
        if (query.run) details(query.run, true);
      }, 300);
    }, async (ended) => {
      if ((await load()) && ended) trouble("There is no more news on this page: many are open. Load it again to see what is new.");
    });
  }

  // What went wrong, above everything; nothing where all is well.
  function trouble(text) {
    nb.say(at("trouble"), text);
    at("trouble").hidden = !text;
  }

  // Why a part of what is asked was left out, if one was.
  function refused() {
    const left = PARTS.some((key) => query[key] && !view.query[key]);
    return left && !nb.source.shared ? view.notes[0] || "" : "";
  }

  // --- what ----------------------------------------------------------------------------------------------------------

  // Fills a list of options without closing it under the reader's hand.
  function options(select, known, now) {
    const told = JSON.stringify(known);
    if (select.dataset.known !== told) {
      select.replaceChildren(...known.map((one) => nb.el("option", { value: one.key }, one.label)));
      select.dataset.known = told;
    }
    select.value = now;
  }

  const chosen = () => Object.fromEntries(CHOICES.filter(([key]) => view.choices[key] && key !== "level").map(([key]) => [key, view.choices[key].now]));

  // Another split has other metrics, another metric other levels.
  function choose(key, value) {
    if (nb.source.shared) return change(nb.source.choose(key, value, chosen()), { ask: true, push: true });
    return change({ [key]: value, ...(key === "split" ? { metric: "", level: "" } : key === "metric" ? { level: "" } : {}) }, { ask: true, push: true });
  }

  function choices() {
    for (const [key, label] of CHOICES) {
      const choice = view.choices[key];
      let field = at(`choice-${key}`);
      if (!field) {
        field = key === "level" ? nb.el("input", { id: `choice-${key}`, type: "text", inputmode: "decimal", size: "6" }) : nb.el("select", { id: `choice-${key}` });
        field.addEventListener("change", () => choose(key, field.value));
        const unit = nb.el("span", { class: "unit" });
        at("choices").append(nb.el("label", { id: `label-${key}` }, nb.el("span", {}, label), field, ...(key === "level" ? [unit] : [])));
      }
      const known = choice && choice.options && choice.options.filter((one) => nb.source.choose(key, one.key, chosen()));
      at(`label-${key}`).hidden = !choice || (nb.source.shared && key === "level") || (known && known.length < 2);
      if (!choice) continue;
      if (known) options(field, known, choice.now);
      else {
        if (document.activeElement !== field) field.value = choice.now;
        nb.say(field.nextSibling, choice.unit || "");
      }
    }
  }

  function toggle(into, key, label, look) {
    let button = [...into.children].find((one) => one.dataset.key === key);
    if (!button) {
      button = nb.el("button", { type: "button", class: "toggle", "data-key": key }, nb.el("i", { class: "mark" }), nb.el("span", {}, label));
      button.title = "On or off. Twice, or with Shift: this one alone.";
      button.addEventListener("click", (event) => {
        if (event.shiftKey) return only(into, key);
        const hidden = off();
        if (!hidden.delete(key)) hidden.add(key);
        return change({ off: [...hidden].join("|") });
      });
      button.addEventListener("dblclick", (event) => event.shiftKey || only(into, key));
      into.append(button);
    }
    if (look) {
      const shade = nb.dark() ? look.dark : look.colour;
      if (button.dataset.shade !== shade) {
        button.dataset.shade = shade;
        button.firstChild.replaceChildren(nb.swatch(shade, look.dash));
      }
    }
    button.setAttribute("aria-pressed", String(!off().has(key)));
    return button;
  }

  // Twice on one: that one alone, or all again.
  function only(into, key) {
    const keys = [...into.children].map((one) => one.dataset.key);
    const hidden = off();
    const alone = keys.every((one) => one === key || hidden.has(one));
    keys.forEach((one) => (alone || one === key ? hidden.delete(one) : hidden.add(one)));
    change({ off: [...hidden].join("|") });
  }

  // Of these keys, and in their order; what stands where it belongs is not touched.
  function arrange(into, keys) {
    for (const one of [...into.children]) if (!keys.includes(one.dataset.key)) one.remove();
    const made = new Map([...into.children].map((one) => [one.dataset.key, one]));
    keys.forEach((key, place) => into.children[place] !== made.get(key) && into.insertBefore(made.get(key), into.children[place]));
  }

  function toggles() {
    view.arms.forEach((arm) => toggle(at("arms"), arm.key, arm.label, arm));
    arrange(at("arms"), view.arms.map((arm) => arm.key));
    for (const facet of view.facets) {
      let row = [...at("facets").children].find((one) => one.dataset.key === facet.key);
      if (!row) {
        row = nb.el("div", { class: "facet", "data-key": facet.key }, nb.el("span", { class: "facet-name" }, facet.key), nb.el("div", { class: "toggles", role: "group", "aria-label": facet.key }));
        at("facets").append(row);
      }
      facet.values.forEach((value) => toggle(row.lastChild, value.key, value.label));
      arrange(row.lastChild, facet.values.map((value) => value.key));
    }
    arrange(at("facets"), view.facets.map((facet) => facet.key));
  }

  const table = new nb.Table(at("table"), {
    choose(cell) {
      const now = [query.a, query.b].filter(Boolean);
      const next = now.includes(cell.key) ? now.filter((key) => key !== cell.key) : [...now, cell.key].slice(-2);
      change({ a: next[0] || "", b: next[1] || "" }, { ask: next.length === 2 || now.length === 2 });
    },
    open: (keys) => change({ open: keys.join("|") }),
    run: (row) => change({ run: row.seed.id }),
    sort: () => change({ sort: query.sort ? "" : "mean" }),
    point(cell) {
      pointed = cell;
      nb.point(at("plot-curves"), pointed);
    },
  });

  // As they come, or the best first; those without a number last.
  function sorted() {
    if (query.sort !== "mean") return view.cells;
    const sign = view.choices.better === "higher" ? -1 : 1;
    const worth = (cell) => (typeof cell.mean === "number" ? sign * cell.mean : Infinity);
    return [...view.cells].sort((a, b) => worth(a) - worth(b) || 0);
  }

  // --- curves --------------------------------------------------------------------------------------------------------

  const logarithmic = () => (query.log ? query.log === "1" : Boolean(view.choices.log));

  function box(key, label, now, then) {
    let input = at(`switch-${key}`);
    if (!input) {
      input = nb.el("input", { type: "checkbox", id: `switch-${key}` });
      input.addEventListener("change", () => then(input.checked));
      at("switches").append(nb.el("label", {}, input, label));
    }
    input.checked = now;
    return input;
  }

  const FEW = 30; // runs whose own curves are shown unless somebody says otherwise

  const faint = () => (query.seeds ? query.seeds === "1" : view.cells.reduce((sum, cell) => sum + cell.seeds.length, 0) <= FEW);

  function switches() {
    box("log", "log y", logarithmic(), (on) => change({ log: on === Boolean(view.choices.log) ? "" : on ? "1" : "0" }));
    box("logx", "log x", query.logx === "1", (on) => change({ logx: on ? "1" : "" }));
    box("band", "95 % band", bands(), (on) => change({ band: on ? "1" : "0" }));
    box("seeds", "seeds", faint(), (on) => change({ seeds: on ? "1" : "0" }));
    const rates = box("rate", "best rate", tuned(), (on) => change({ rate: on ? "best" : "all" })).parentNode;
    rates.title = "Each arm at its best learning rate alone";
    rates.hidden = !view.cells.some((cell) => cell.other_rate);
    const has = view.figures.curves && view.figures.curves.data.some((trace) => trace.meta.role === "reference");
    box("paper", "paper", query.paper !== "0", (on) => change({ paper: on ? "" : "0" })).parentNode.hidden = !has;
    let smooth = at("switch-smooth");
    if (!smooth) {
      smooth = nb.el("select", { id: "switch-smooth" }, ...SMOOTH.map((w) => nb.el("option", { value: String(w) }, w ? String(w) : "off")));
      smooth.addEventListener("change", () => change({ smooth: smooth.value === "0" ? "" : smooth.value }));
      at("switches").append(nb.el("label", {}, "smoothing ", smooth));
    }
    smooth.value = query.smooth || "0";
    let small = at("switch-beside");
    if (!small) {
      small = nb.el("select", { id: "switch-beside" });
      small.addEventListener("change", () => change({ beside: small.value }));
      at("switches").append(nb.el("label", {}, "a plot per ", small));
    }
    const known = view.facets.filter((facet) => facet.values.length <= MOST_BESIDE);
    small.parentNode.hidden = !known.length;
    options(small, [{ key: "", label: "–" }, ...known.map((facet) => ({ key: facet.key, label: facet.key }))], split() ? query.beside : "");
  }

  const MOST_BESIDE = 9;

  // The facet of which each value has a plot of its own.
  const split = () => view.facets.find((facet) => facet.key === query.beside && facet.values.length <= MOST_BESIDE);

  function curves() {
    const figure = view.figures.curves;
    at("switches").hidden = !figure;
    if (!figure || !figure.data.length) return nb.draw(at("plot-curves"), null);
    const hidden = off();
    const on = new Set(view.cells.filter((cell) => seen(cell, hidden)).map((cell) => cell.key));
    const whole = nb.seen(figure, {
      on: (cell) => on.has(cell), band: bands(), seeds: faint(), references: query.paper !== "0",
      log: logarithmic(), logx: query.logx === "1", smooth: Number(query.smooth || 0),
      key: JSON.stringify([view.query.task, figure.layout.yaxis.title, figure.layout.xaxis.title]),
    });
    const facet = split();
    if (!facet) return nb.draw(at("plot-curves"), whole);
    const values = facet.values.filter((value) => !hidden.has(value.key)).map((value) => ({ ...value, label: `${facet.key}=${value.label}` }));
    if (!values.length) return nb.draw(at("plot-curves"), whole);
    const of = new Map(view.cells.map((cell) => [cell.key, cell.place[view.facets.indexOf(facet)]]));
    return nb.draw(at("plot-curves"), nb.beside(whole, values, (cell) => of.get(cell), at("plot-curves").clientWidth));
  }

  function pair() {
    const told = view.pair;
    if (!told) return nb.draw(at("plot-difference"), null);
    nb.say(at("pair-heading"), `${told.names[0]} less ${told.names[1]}${told.n ? `, ${told.n} pairs of seeds` : ": no seed in common"}`);
    const row = (tag, words) => nb.el("tr", {}, ...words.map((word) => nb.el(tag, {}, word)));
    at("pair-diff").replaceChildren(told.diff.length
      ? nb.el("table", {}, nb.el("thead", {}, row("th", ["differs", ...told.names])), nb.el("tbody", {}, ...told.diff.map((one) => row("td", [one.key, one.a, one.b]))))
      : nb.el("p", { class: "caption" }, "Their configurations are the same."));
    return nb.draw(at("plot-difference"), view.figures.difference);
  }

  // --- answer --------------------------------------------------------------------------------------------------------

  function answer() {
    const groups = view.answer ? [...view.answer.groups].sort((a, b) => b.tuned - a.tuned).filter((group) => group.size > 1) : [];
    const first = groups[0] || { place: "", sentence: view.answer ? view.answer.heading : "", rest: "" };
    if (at("sentence").dataset.told !== told(first)) {
      at("sentence").dataset.told = told(first);
      at("sentence").replaceChildren(...(first.place ? [nb.el("small", {}, first.place)] : []), first.sentence, ...(first.rest ? [rest(first.rest)] : []));
    }
    const others = groups.slice(1).map((group) => nb.el("li", {}, told(group)));
    at("reported").hidden = !others.length;
    const open = at("reported").querySelector("details[open]") !== null;
    const all = JSON.stringify(groups.slice(1).map(told));
    if (at("reported").dataset.told !== all) at("reported").replaceChildren(nb.el("details", { open }, nb.el("summary", {}, `${others.length} other setting${others.length > 1 ? "s" : ""}`), nb.el("ul", {}, ...others)));
    at("reported").dataset.told = all;
    const hidden = off();
    const on = new Set(view.cells.filter((cell) => seen(cell, hidden)).map((cell) => cell.key));
    const { forest, sensitivity, heat } = view.figures;
    nb.draw(at("plot-forest"), forest && dimmed(forest, on));
    at("sensitivity").hidden = !sensitivity;
    nb.draw(at("plot-sensitivity"), sensitivity && { ...sensitivity, data: sensitivity.data.filter((trace) => !hidden.has(trace.meta.arm)) });
    at("heat").hidden = !heat;
    nb.say(at("heat-caption"), heat ? heat.layout.meta.caption : "");
    nb.draw(at("plot-heat"), heat);
    speed();
    decide();
  }

  // A few clauses stand there; many are folded: the plot below has the same.
  function rest(text) {
    if (text.length < 420) return nb.el("span", {}, text);
    return nb.el("details", {}, nb.el("summary", {}, "Each arm in words"), nb.el("span", {}, text));
  }

  // When each cell is at the level, and what an update costs.
  function speed() {
    const rows = view.cells.filter((cell) => cell.time || cell.pace);
    at("speed").hidden = !rows.length;
    const told = JSON.stringify([rows.map((cell) => [cell.label, cell.time, cell.pace]), view.choices.level, nb.dark()]);
    if (!rows.length || at("speed").dataset.told === told) return;
    at("speed").dataset.told = told;
    const { now, unit, clock } = view.choices.level;
    const head = nb.el("tr", {}, nb.el("th", {}, "cell"), nb.el("th", {}, now ? `${clock} to ${now}${unit ? ` ${unit}` : ""}` : ""), nb.el("th", {}, "an update"));
    const open = at("speed").querySelector("details") ? at("speed").querySelector("details").open : rows.length <= 6;
    at("speed").replaceChildren(nb.el("details", { open }, nb.el("summary", {}, "Speed"), nb.el("table", {}, nb.el("thead", {}, head), nb.el("tbody", {}, ...rows.map((cell) => nb.el("tr", {},
      nb.el("td", {}, nb.swatch(nb.dark() ? cell.dark : cell.colour, cell.dash), cell.label), nb.el("td", {}, cell.time), nb.el("td", {}, cell.pace ? pace(cell.pace) : "")))))));
  }

  const pace = (seconds) => (seconds < 0.1 ? `${(1000 * seconds).toPrecision(2)} ms` : `${seconds.toPrecision(2)} s`);

  const told = (group) => [group.place && `${group.place}:`, group.sentence, group.rest].filter(Boolean).join(" ");

  // An arm that is switched off stays in its row, pale: the rows do not jump.
  function dimmed(figure, on) {
    return { ...figure, data: figure.data.map((trace) => ({ ...trace, opacity: on.has(trace.meta.arm) ? 1 : 0.25 })) };
  }

  function decide() {
    const command = ((view.answer && view.answer.commands) || []).join("\n");
    at("decide").hidden = !command;
    if (!command || at("decide").dataset.command === command) return;
    at("decide").dataset.command = command;
    at("decide").replaceChildren(nb.el("div", { class: "head" }, nb.el("h2", {}, "What would decide"), nb.copy(command)), nb.el("pre", {}, nb.el("code", {}, ...command.split(/(\s+)/).map((word) => (word.trim() ? nb.el("span", {}, word) : word)))));
  }

  // --- one run -------------------------------------------------------------------------------------------------------

  const PICTURE = /\.(png|jpe?g|webp|svg)$/i;
  const PAGE = /\.html?$/i;

  // {model: {name: "lenet5"}} as model.name=lenet5, a line each
  function lines(node, name = "") {
    if (node === null || typeof node !== "object" || Array.isArray(node)) return [`${name}=${typeof node === "string" ? node : JSON.stringify(node)}`];
    return Object.entries(node).flatMap(([key, value]) => lines(value, name ? `${name}.${key}` : key));
  }

  function configuration(place, { config, source }) {
    const open = place.querySelector("details[open]") !== null;
    const text = lines(config).join("\n");
    return nb.el("details", { open }, nb.el("summary", {}, "Configuration"),
      nb.el("p", { class: "caption" }, source, " ", nb.copy(source, "Copy the place"), nb.copy(text, "Copy the configuration")),
      nb.el("pre", { class: "options" }, text));
  }

  async function details(id, again = false) {
    const place = at("run");
    if (!again && place.dataset.run === id) return;
    place.dataset.run = id;
    place.hidden = !id;
    if (!id) return;
    const seed = view.cells.flatMap((cell) => cell.seeds.map((one) => ({ ...one, cell: cell.label }))).find((one) => one.id === id);
    const said = await nb.source.run(id);
    if (place.dataset.run !== id) return;
    const close = nb.el("button", { type: "button", class: "plain" }, "Close");
    close.addEventListener("click", () => change({ run: "" }));
    const parts = [nb.el("div", { class: "head" }, nb.el("h2", {}, seed ? `${seed.cell}, seed ${seed.seed}` : "Run"), close),
                   nb.el("p", { class: "caption" }, [`run ${id}`, seed && seed.state, seed && seed.steps && `update ${seed.step} of ${seed.steps}`].filter(Boolean).join(" · "))];
    const reason = (said && said.reason) || (seed && seed.reason);
    if (reason) parts.push(nb.el("p", {}, reason));
    if (said && said.output.length) parts.push(nb.el("pre", { class: "log" }, said.output.join("\n")));
    if (said) parts.push(configuration(place, said));
    for (const name of (said && said.samples) || []) {
      const url = nb.source.sample(id, name);
      if (PICTURE.test(name)) parts.push(nb.el("img", { src: url, alt: name, loading: "lazy" }));
      else if (PAGE.test(name)) parts.push(nb.el("iframe", { src: url, title: name, sandbox: "", loading: "lazy" }));
      else parts.push(nb.el("p", {}, nb.el("a", { href: url }, name)));
    }
    place.replaceChildren(...parts);
    if (!again) place.scrollIntoView({ block: "nearest" });
  }

  // --- all of it -----------------------------------------------------------------------------------------------------

  function live() {
    const { states, left } = view.runs;
    const order = ["running", "queued", "done", "diverged", "failed", "interrupted", "damaged"];
    const counts = order.filter((state) => states[state]).map((state) => `${states[state]} ${state}`);
    const minutes = left === null || left === undefined ? "" : left < 90 ? `about ${Math.max(1, left)} s left` : left < 5400 ? `about ${Math.round(left / 60)} min left` : `about ${(left / 3600).toFixed(1)} h left`;
    nb.say(at("live"), counts.join(" · "));
    nb.say(at("left"), minutes && ` · ${minutes}`);
    at("live").classList.toggle("on", Boolean(states.running));
  }

  function notes() {
    const told = JSON.stringify(view.notes);
    if (at("notes").dataset.told === told) return;
    at("notes").dataset.told = told;
    at("notes").hidden = !view.notes.length;
    at("notes").replaceChildren(...view.notes.map((note) => nb.el("li", {}, note)));
  }

  function share() {
    for (const what of ["share", "csv"]) {
      const link = at(what === "share" ? "share-html" : "share-csv");
      if (link) link.href = nb.source.file(what, query);
    }
  }

  // What is asked, but for what a reader is just writing.
  function filtered() {
    const field = at("filter");
    if (!field || (document.activeElement === field && field.value.trim() !== field.dataset.now)) return;
    field.value = field.dataset.now = query.filter || "";
  }

  function show() {
    if (!view) return;
    document.title = view.title ? `${view.title} · normbench` : "normbench";
    const tasks = view.tasks.map((task) => ({ key: task.key, label: `${task.title} · ${task.runs} runs` }));
    options(at("task"), tasks, view.query.task || (tasks[0] && tasks[0].key) || "");
    at("task").hidden = !tasks.length;
    filtered();
    nb.say(at("heading"), view.heading.split(" · ")[0] || "No curve yet");
    nb.say(at("caption"), view.caption);
    live();
    choices();
    toggles();
    const hidden = off();
    table.show(sorted(), { sorted: query.sort === "mean" && (view.choices.better === "higher" ? "descending" : "ascending"), unit: view.choices.level && view.choices.level.unit, chosen: [query.a, query.b].filter(Boolean), opened: list("open"), muted: (cell) => !seen(cell, hidden) });
    switches();
    at("pair").hidden = !view.pair; // first of all: it takes room from the curves
    curves();
    nb.point(at("plot-curves"), pointed); // what was drawn anew knows nothing of it
    pair();
    answer();
    notes();
    share();
    details(query.run || "");
  }

  // Clearing the field is no change of it until it is left: then it is a search for nothing.
  for (const kind of ["change", "search"]) {
    if (at("filter")) at("filter").addEventListener(kind, () => {
      const filter = at("filter").value.trim();
      if (filter === (query.filter || "")) return;
      at("filter").dataset.now = filter;
      change({ filter }, { ask: true, push: true });
    });
  }
  at("task").addEventListener("change", () => {
    const parts = Object.fromEntries(OF_TASK.map((key) => [key, ""]));
    change({ ...parts, task: at("task").value }, { ask: true, push: true });
  });
  at("pair-close").addEventListener("click", () => change({ a: "", b: "" }, { ask: true }));
  at("share-svg").addEventListener("click", async () => {
    const url = URL.createObjectURL(new Blob([await nb.svg(at("plot-curves"))], { type: "image/svg+xml" }));
    const link = nb.el("a", { href: url, download: "curves.svg" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
  document.addEventListener("click", (event) => {
    if (!at("share").contains(event.target)) at("share").open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    if (at("share").open) at("share").open = false;
    else if (query.run) change({ run: "" });
    else if (query.a || query.b) change({ a: "", b: "" }, { ask: true });
  });
  document.addEventListener("shade", show);
  nb.address.follow((asked) => {
    query = asked;
    load();
  });
  load();
})(window.normbench);
