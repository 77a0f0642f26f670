// The page of a comparison: what the address asks for, shown; each change goes to the address and is shown again.
"use strict";

(function (nb) {
  const at = (id) => document.getElementById(id);
  const QUESTION = { split: "Split", metric: "Metric", at: "When", against: "Baseline", level: "Level" };
  const VIEW = { plot: "plot", x: "x axis", dash: "dashes by" };
  const OF_TASK = ["split", "metric", "at", "by", "against", "level", "x", "dash", "plot", "a", "b", "off", "open", "run", "beside", "rate", "zoom"]; // another task has others
  const PARTS = ["filter", "split", "metric", "at", "against", "level"]; // of a question that may fit nothing
  const SMOOTH = [0, 0.5, 0.7, 0.8, 0.9, 0.95];
  const MANY = 12; // cells: of more, curves of other learning rates and bands are only shown if somebody asks for them
  const FEW = 30; // runs whose own curves are shown unless somebody says otherwise
  const MOST_BESIDE = 9; // small plots
  const LONG = 420; // characters of clauses, or of notes, that are folded: the plot below has the same
  const TITLE = 80; // characters that fit into two lines
  let query = nb.address.read();
  let view = null;
  let stop = () => {}; // ends the news
  let pointed = ""; // the cell at whose row a reader points
  let answered = null; // when the server last did
  let asking = 0; // questions that are on their way
  let heard = null; // the question whose news are listened to

  const list = (key) => (query[key] ? query[key].split("|") : []);
  const off = () => new Set(list("off"));
  const chosen = () => [query.a, query.b].filter(Boolean);

  // What is switched on: as the address has it, else by how much there is.
  const on = {
    log: (log) => (query.log ? query.log === "1" : Boolean(log)),
    logx: () => query.logx === "1",
    band: () => (query.band ? query.band === "1" : shown().length <= MANY),
    seeds: () => (query.seeds ? query.seeds === "1" : view.cells.reduce((sum, cell) => sum + cell.seeds.length, 0) <= FEW),
    rate: () => (query.rate ? query.rate === "best" : view.cells.length > MANY && !view.swept) && view.cells.some((cell) => cell.other_rate),
    paper: () => query.paper !== "0",
  };

  function seen(cell, hidden = off()) {
    return ![cell.key, cell.arm, ...cell.place].some((key) => hidden.has(key)) && !(cell.other_rate && on.rate());
  }

  function shown() {
    const hidden = off();
    return view.cells.filter((cell) => seen(cell, hidden));
  }

  // --- changes -------------------------------------------------------------------------------------------------------

  // ask: whether another view is needed for it; push: whether "back" undoes it
  async function change(parts, { ask = false, push = false } = {}) {
    query = Object.fromEntries(Object.entries({ ...query, ...parts }).filter(([, value]) => value !== ""));
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
        if (!outline) return true; // a later question has its own, which may be there already
        view = outline;
        show();
        requestAnimationFrame(() => setTimeout(nb.plotly, 0, show)); // once that is to be seen, while the server reads curves
      }
      const answer = await nb.source.view(query);
      if (!answer) return true;
      view = answer;
      answered = new Date();
      // the address has the task: where another one begins, this page stays with its own
      if (!nb.source.shared && query.task !== view.query.task) query = { ...query, task: view.query.task || "" };
      if (!query.task) delete query.task;
      nb.address.write(query);
      const refused = !nb.source.shared && PARTS.some((key) => query[key] && !view.query[key]);
      trouble(refused ? `Not applied: ${view.notes[0]}` : "");
      show();
      listen();
      return true;
    } catch (error) {
      trouble(answered ? `${error.message} What is shown is of ${answered.toLocaleTimeString()}.` : error.message);
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
    let timer = 0;
    stop = nb.source.events(query, () => {
      clearTimeout(timer); // several news at once are one look
      timer = setTimeout(() => {
        load();
        if (query.run) details(query.run, true);
      }, 300);
    }, async (ended) => {
      if ((await load()) && ended) trouble("There is no more news on this page: many are open. Load it again to see what is new.");
    });
  }

  // What went wrong, above everything; nothing where all is well.
  const trouble = (text) => nb.fill(at("trouble"), text, () => (text ? [text] : []));

  // --- what ----------------------------------------------------------------------------------------------------------

  // Fills a list of options without closing it under the reader's hand.
  function options(select, known, now) {
    nb.fill(select, known, () => known.map((one) => nb.el("option", { value: one.key }, one.label)));
    select.value = now;
  }

  // Another split has other metrics, another metric other levels.
  const AFTER = { split: { metric: "", level: "" }, metric: { level: "" } };

  function choices(into, labels) {
    nb.keyed(into, Object.keys(labels).map((key) => ({ key })), ({ key }) => {
      const field = key === "level" ? nb.el("input", { type: "text", inputmode: "decimal", size: "6" }) : nb.el("select");
      field.id = `choice-${key}`;
      field.addEventListener("change", () => {
        const zoom = key === "x" ? { zoom: "" } : {}; // it was of another clock
        change({ ...AFTER[key], ...zoom, [key]: field.value }, { ask: true, push: true });
      });
      return nb.el("label", {}, nb.el("span", {}, labels[key]), field, nb.el("span", { class: "unit" }));
    }, (label, { key }) => {
      const [, field, unit] = label.children;
      const choice = view.choices[key];
      const known = (choice && choice.options) || [];
      label.hidden = nb.source.shared || !choice || (key !== "level" && known.length < 2) || (key === "x" && Boolean(view.swept));
      if (label.hidden) return;
      if (key !== "level") return options(field, known, choice.now);
      if (document.activeElement !== field) field.value = choice.now;
      field.placeholder = choice.suggested ? `e.g. ${choice.suggested}` : "";
      return nb.say(unit, `${choice.unit || ""} · when does each arm reach it?`);
    });
  }

  // Off, or on again: an arm, a facet's value, or a cell alone.
  function turn(key) {
    const hidden = off();
    if (!hidden.delete(key)) hidden.add(key);
    change({ off: [...hidden].join("|") });
  }

  // A switch of an arm or of a facet's value.
  function toggles(into, items) {
    nb.keyed(into, items, ({ key, label, whole }) => {
      const button = nb.el("button", { type: "button", class: "toggle", title: `${whole || label}\nOn or off. Twice, or with Shift: this one alone.` }, nb.el("i", { class: "mark" }), nb.el("span", { class: "two" }, label));
      button.addEventListener("click", (event) => (event.shiftKey ? only(into, key) : turn(key)));
      button.addEventListener("dblclick", (event) => event.shiftKey || only(into, key));
      return button;
    }, (button, item) => {
      nb.mark(button.firstChild, item);
      button.setAttribute("aria-pressed", String(!off().has(item.key)));
    });
  }

  // Twice on one: that one alone, or all again.
  function only(into, key) {
    const keys = [...into.children].map((one) => one.dataset.key);
    const hidden = off();
    const alone = keys.every((one) => one === key || hidden.has(one));
    keys.forEach((one) => (alone || one === key ? hidden.delete(one) : hidden.add(one)));
    change({ off: [...hidden].join("|") });
  }

  function facets() {
    nb.keyed(at("facets"), view.facets, ({ key }) => nb.el("div", { class: "facet" },
      nb.el("span", { class: "facet-name" }, key), nb.el("div", { class: "toggles", role: "group", "aria-label": key })),
    (row, facet) => toggles(row.lastChild, facet.values));
  }

  const table = new nb.Table(at("table"), {
    choose(cell) {
      if (nb.source.shared) return; // a file has the pair that was on show
      const before = chosen();
      const next = before.includes(cell.key) ? before.filter((key) => key !== cell.key) : [...before, cell.key].slice(-2);
      change({ a: next[0] || "", b: next[1] || "" }, { ask: next.length === 2 || before.length === 2 });
    },
    open: (keys) => change({ open: keys.join("|") }),
    run: (row) => change({ run: row.seed.id }),
    hide: (cell) => turn(cell.key),
    sort: () => change({ sort: query.sort ? "" : "mean" }),
    point(cell) {
      pointed = cell;
      plots().forEach(lit);
    },
  });

  // Cells as they come, or the best first; those without a number last.
  function rows() {
    const hidden = off();
    const sign = view.choices.better === "higher" ? -1 : 1;
    const worth = (cell) => (typeof cell.mean === "number" ? sign * cell.mean : Infinity);
    const sorted = query.sort === "mean" && (sign < 0 ? "descending" : "ascending");
    table.show(sorted ? [...view.cells].sort((a, b) => worth(a) - worth(b) || 0) : view.cells, {
      sorted, unread: !answered, unit: view.choices.level && view.choices.level.unit, chosen: chosen(), opened: list("open"), muted: (cell) => !seen(cell, hidden),
    });
  }

  // --- curves --------------------------------------------------------------------------------------------------------

  // Each switch: its label, and what the address says of it where it is turned.
  const SWITCHES = [
    { key: "smooth", label: "smoothing", options: () => SMOOTH.map((w) => ({ key: w ? String(w) : "", label: w ? String(w) : "off" })) },
    { key: "beside", label: "a plot per", options: () => [{ key: "", label: "–" }, ...few().map(({ key }) => ({ key, label: key }))] },
    { key: "log", label: "log y", turn: (is) => (is === Boolean(view.choices.log) ? "" : is ? "1" : "0") },
    { key: "logx", label: "log x", turn: (is) => (is ? "1" : "") },
    { key: "band", label: "95 % band", turn: (is) => (is ? "1" : "0") },
    { key: "seeds", label: "seeds", turn: (is) => (is ? "1" : "0") },
    { key: "rate", label: "best rate", turn: (is) => (is ? "best" : "all") },
    { key: "paper", label: "paper", turn: (is) => (is ? "" : "0") },
  ];
  const few = () => view.facets.filter((facet) => facet.values.length <= MOST_BESIDE);
  const beside = () => few().find((facet) => facet.key === query.beside); // each value of it has a plot of its own

  function switches() {
    const useless = {
      rate: !view.cells.some((cell) => cell.other_rate),
      paper: !view.curves || !view.curves.data.some((trace) => trace.meta.role === "reference"),
      beside: !few().length,
    };
    at("view").hidden = !view.curves;
    nb.keyed(at("switches"), SWITCHES, ({ key, label, turn }) => {
      const field = turn ? nb.el("input", { type: "checkbox" }) : nb.el("select");
      field.id = `switch-${key}`;
      field.addEventListener("change", () => change({ [key]: turn ? turn(field.checked) : field.value }));
      return nb.el("label", {}, ...(turn ? [field, label] : [label, field]));
    }, (label, one) => {
      if (one.key === "rate") label.title = `Each arm at its best learning rate by ${view.chosen_by} alone`;
      label.hidden = Boolean(useless[one.key]) || (one.key !== "rate" && Boolean(view.swept));
      if (one.turn) label.querySelector("input").checked = on[one.key](view.choices.log);
      else options(label.querySelector("select"), one.options(), one.key === "beside" ? (beside() || { key: "" }).key : query.smooth || "");
    });
  }

  // The curves of the row that is pointed at, and of two cells that are compared, stand out.
  const lit = (plot) => nb.point(plot, [pointed, ...(view.pair ? chosen() : [])].filter(Boolean));
  const plots = () => [...at("panels").querySelectorAll(".plot")];

  // The stretches that are zoomed in on, by "x" or a panel's key: "x,2,9|valid:nll,0.1,0.4".
  const zooms = () => Object.fromEntries(list("zoom").map((one) => one.split(",")).map((parts) => [parts.slice(0, -2).join(","), parts.slice(-2).map(Number)]));

  function zoomed(key, { x, y }) {
    const ends = (range) => range && range.map((end) => Number(end.toPrecision(7)));
    const all = { ...zooms(), ...(x === undefined ? {} : { x: ends(x) }), ...(y === undefined ? {} : { [key]: ends(y) }) };
    query.zoom = Object.entries(all).filter(([, range]) => range).map((one) => one.join()).join("|");
    if (!query.zoom) delete query.zoom;
    nb.address.write(query);
    panels();
  }

  // The question's own curves, then those of other metrics of the same cells; all have one x axis.
  function panels() {
    const known = view.choices.panels || [];
    const now = (key) => view.choices[key] && view.choices[key].now;
    const first = known.find((one) => one.split === now("split") && one.metric === now("metric")) || { key: "", label: "" };
    const items = [{ ...first, main: true, log: view.choices.log, curves: view.swept || view.curves }, ...view.panels.map((one) => ({ ...known.find(({ key }) => key === one.key), ...one }))];
    nb.panelMenu(at("panels-choice"), known, list("panels"), first.key, (key, add) => {
      change({ panels: [...list("panels").filter((one) => one !== key), ...(add ? [key] : [])].join("|") }, { ask: true, push: true });
    });
    at("panels-menu").hidden = nb.source.shared || known.length < 2 || Boolean(view.swept);
    at("unzoom").hidden = !query.zoom || Boolean(view.swept);
    for (const format of ["png", "svg"]) at(`share-${format}`).hidden = items.length > 1; // each panel has its own
    nb.keyed(at("panels"), items.map((one) => ({ ...one, key: one.main ? "" : one.key })), ({ main, key, label }) => {
      const close = nb.el("button", { type: "button", class: "plain", hidden: main || nb.source.shared }, "Close");
      close.addEventListener("click", () => change({ panels: list("panels").filter((one) => one !== key).join("|") }, { ask: true, push: true }));
      const plot = main ? { id: "plot-curves", "aria-labelledby": "heading", "aria-describedby": "caption" } : { "aria-label": label };
      const pictures = ["png", "svg"].map((format) => {
        const button = nb.el("button", { type: "button", class: "plain" }, format.toUpperCase());
        button.addEventListener("click", () => nb.picture(button.closest(".head").nextSibling, format));
        return button;
      });
      return nb.el("div", {}, nb.el("div", { class: "head" }, nb.el("h2"), nb.el("span", {}, ...pictures, close)), nb.el("div", { class: "plot", role: "figure", ...plot }));
    }, (panel, { label }) => {
      panel.firstChild.hidden = items.length < 2;
      nb.say(panel.firstChild.firstChild, label);
      for (const button of panel.querySelectorAll(".head button")) button.setAttribute("aria-label", `${button.textContent} ${label}`);
    });
    plots().forEach((plot, place) => {
      plot.dataset.panel = items[place].key;
      curves(plot, items[place]);
      nb.link(plot, () => plots().filter((other) => other !== plot), (ranges) => zoomed(plot.dataset.panel, ranges));
      lit(plot); // what was drawn anew knows nothing of it
    });
  }

  // Of how many seeds the means are that are shown, and what the bands are, where any is drawn.
  function counted() {
    const cells = new Map(shown().map((cell) => [cell.key, cell.n]));
    const n = [...cells.values()].sort((a, b) => a - b);
    const seeds = view.caption && n.length ? `n = ${n[0]}${n[0] < n[n.length - 1] ? ` to ${n[n.length - 1]}` : ""}. ` : "";
    const drawn = view.curves && !view.swept && on.band() ? view.curves.data.filter(({ meta }) => meta.role === "band" && cells.has(meta.arm)).length : 0;
    return seeds + (drawn ? `Bands: 95 % intervals${drawn < cells.size ? " of 3 seeds or more" : ""}.` : "");
  }

  function curves(plot, { key, main, log, curves: figure }) {
    if (!figure || !figure.data.length) return nb.draw(plot, null);
    const hidden = off();
    const zoom = zooms();
    const cells = new Set(shown().map((cell) => cell.key));
    if (figure === view.swept) return nb.draw(plot, { ...figure, data: figure.data.filter(({ meta }) => cells.has(meta.arm)) });
    const whole = nb.seen(figure, {
      on: (cell) => cells.has(cell), band: on.band(), seeds: on.seeds(), references: on.paper(), level: Boolean(main), log: on.log(log), logx: on.logx(), zoom: { x: zoom.x, y: zoom[key] }, brief: view.panels.length > 0 || plot.clientWidth < 500,
      smooth: Number(query.smooth || 0), key: JSON.stringify([view.query.task, figure.layout.yaxis.title, figure.layout.xaxis.title]),
    });
    const facet = beside();
    const values = facet ? facet.values.filter((value) => !hidden.has(value.key)).map((value) => ({ ...value, label: `${facet.key}=${value.label}` })) : [];
    if (!values.length) return nb.draw(plot, whole);
    const of = new Map(view.cells.map((cell) => [cell.key, cell.place[view.facets.indexOf(facet)]]));
    return nb.draw(plot, nb.beside(whole, values, (cell) => of.get(cell), plot.clientWidth));
  }

  function pair() {
    const { pair: found } = view;
    if (!found) return nb.draw(at("plot-difference"), null);
    nb.say(at("pair-heading"), found.text);
    nb.fill(at("pair-diff"), [found.names, found.diff], () => [found.diff.length
      ? nb.grid(["differs", ...found.names], found.diff.map((one) => [one.key, one.a, one.b]))
      : nb.el("p", { class: "caption" }, "Their configurations are the same.")]);
    return nb.draw(at("plot-difference"), found.figure);
  }

  // --- answer --------------------------------------------------------------------------------------------------------

  function answer() {
    const groups = view.answer ? view.answer.groups.filter((group) => group.size > 1) : [];
    const first = groups[0] || { place: "", sentence: view.heading, rest: "" };
    const said = (group) => [group.place && `${group.place}:`, group.sentence, group.rest].filter(Boolean).join(" ");
    const others = groups.slice(1).map(said);
    const long = first.sentence.length > TITLE || first.rest.length >= LONG; // then there is more than the title shows
    const all = off().size ? "Verdict, differences and commands count what is switched off too. A filter leaves runs out." : "";
    nb.fill(at("sentence"), [first, all], () => [
      ...(all ? [nb.el("span", { class: "caption" }, all)] : []),
      ...(first.place ? [nb.el("small", { title: first.whole }, first.place)] : []), nb.el("strong", { class: "two", title: first.sentence }, first.sentence),
      ...(long ? [folded("In words", nb.el("span", {}, `${first.sentence} ${first.rest}`))] : []),
      ...(view.answer ? [nb.el("span", {}, ...(long || !first.rest ? [] : [first.rest, " "]), nb.copy(said(first)))] : []),
    ]);
    nb.fill(at("reported"), others, () => (others.length ? [folded(`${others.length} other setting${others.length > 1 ? "s" : ""}`, nb.el("ul", {}, ...bullets(others)))] : []));
    const cells = new Set(shown().map((cell) => cell.key));
    const hidden = off();
    const { forest, sensitivity, heat } = view;
    // an arm that is switched off stays in its row, pale: the rows do not jump
    nb.draw(at("plot-forest"), forest && { ...forest, data: forest.data.map((trace) => ({ ...trace, opacity: cells.has(trace.meta.arm) ? 1 : nb.dark() ? 0.5 : 0.25 })) });
    at("sensitivity").hidden = !sensitivity;
    nb.draw(at("plot-sensitivity"), sensitivity && { ...sensitivity, data: sensitivity.data.filter((trace) => !hidden.has(trace.meta.arm)) });
    at("heat").hidden = !heat;
    for (const [id, figure] of Object.entries({ heat, sensitivity })) nb.say(at(`${id}-caption`), figure ? figure.layout.meta.caption : "");
    nb.draw(at("plot-heat"), heat);
    speed();
    const { commands = [], under_way: coming = 0 } = view.answer || {};
    const command = commands.join("\n");
    const words = () => command.split(/(\s+)/).map((word) => (word.trim() ? nb.el("span", {}, word) : word));
    const counted = coming ? `${coming} ${coming > 1 ? "runs" : "run"} under way${command ? ", and then:" : ": no more are needed for a verdict."}` : "";
    nb.fill(at("decide"), [command, counted], () => (command || counted
      ? [nb.el("div", { class: "head" }, nb.el("h2", {}, "What would decide"), ...(command ? [nb.copy(command)] : [])),
         ...(counted ? [nb.el("p", { class: "caption" }, counted)] : []), ...(command ? [nb.el("pre", {}, nb.el("code", {}, ...words()))] : [])]
      : []));
  }

  const folded = (title, ...content) => nb.el("details", {}, nb.el("summary", {}, title), ...content);
  const bullets = (lines) => lines.map((line) => nb.el("li", {}, line));

  // When each cell is at the level, and what an update costs.
  function speed() {
    const timed = view.cells.filter((cell) => cell.time || cell.pace);
    const { now: level, unit, clock } = view.choices.level || {};
    nb.fill(at("speed"), [timed.map((cell) => [cell.label, cell.time, cell.pace]), level, nb.dark()], () => {
      if (!timed.length) return [];
      const body = timed.map((cell) => [[nb.swatch(cell), cell.label], ...(level ? [cell.time] : []), cell.pace]);
      const found = folded("Speed", nb.grid(["cell", ...(level ? [`${clock} to ${level}${unit ? ` ${unit}` : ""}`] : []), "ms an update"], body));
      found.open = timed.length <= 6;
      return [found];
    });
  }

  // --- one run -------------------------------------------------------------------------------------------------------

  // {model: {name: "lenet5"}} as model.name=lenet5, a line each
  function lines(node, name = "") {
    if (node === null || typeof node !== "object" || Array.isArray(node)) return [`${name}=${typeof node === "string" ? node : JSON.stringify(node)}`];
    return Object.entries(node).flatMap(([key, value]) => lines(value, name ? `${name}.${key}` : key));
  }

  function sample(id, name) {
    const url = nb.source.sample(id, name);
    if (/\.(png|svg)$/.test(name)) return nb.el("img", { src: url, alt: name, loading: "lazy" });
    if (/\.html$/.test(name)) return nb.el("iframe", { src: url, title: name, sandbox: "", loading: "lazy" });
    return nb.el("p", {}, nb.el("a", { href: url }, name));
  }

  async function details(id, again = false) {
    const place = at("run");
    const now = id && `${id} ${Boolean(answered)}`; // an outline knows no step
    if (!again && place.dataset.run === now) return;
    place.dataset.run = now;
    const found = id ? await nb.source.run(id) : null;
    if (place.dataset.run !== now) return;
    const seed = view.cells.flatMap((cell) => cell.seeds.map((one) => ({ ...one, cell: cell.label }))).find((one) => one.id === id);
    nb.fill(place, [id, found, seed], () => (id ? run(id, found, seed) : []));
    if (id && !again) place.scrollIntoView({ block: "nearest" });
  }

  function run(id, found, seed) {
    const close = nb.el("button", { type: "button", class: "plain" }, "Close");
    close.addEventListener("click", () => change({ run: "" }));
    const reason = (found || seed || {}).reason;
    const length = seed && seed.steps && (seed.state === "done" ? `${seed.steps} updates` : answered && `update ${seed.step} of ${seed.steps}`);
    const parts = [
      nb.el("div", { class: "head" }, nb.el("h2", {}, seed ? `${seed.cell}, seed ${seed.seed}` : "Run"), close),
      nb.el("p", { class: "caption" }, [`run ${id}`, seed && seed.state, length].filter(Boolean).join(" · ")),
      ...(reason ? [nb.el("p", {}, reason)] : []),
    ];
    if (!found) return parts;
    const { output, config, source, samples } = found;
    const text = lines(config).join("\n");
    const copies = [nb.copy(source, "Copy the place"), nb.copy(text, "Copy the configuration")];
    return [...parts, ...(output.length ? [nb.el("pre", { class: "log" }, output.join("\n"))] : []),
      folded("Configuration", nb.el("p", { class: "caption" }, source, " ", ...copies), nb.el("pre", { class: "options" }, text)),
      ...samples.map((name) => sample(id, name))];
  }

  // --- all of it -----------------------------------------------------------------------------------------------------

  const STATES = ["running", "done", "diverged", "failed", "interrupted", "damaged"];

  function live() {
    const { states, elsewhere, hidden, left } = view.runs;
    const all = Object.values(states).reduce((sum, count) => sum + count, 0);
    const coming = states.running || 0;
    const words = STATES.filter((state) => states[state] && !(coming && state === "done")).map((state) => `${states[state]} ${state}`);
    nb.say(at("live"), [...(coming ? [`${states.done || 0} of ${all} done`] : []), ...words, ...(hidden ? [`${hidden} hidden`] : []), ...(elsewhere ? [`${elsewhere} under way in other tasks`] : [])].join(" · "));
    at("live").classList.toggle("on", Boolean(states.running));
    Object.assign(at("progress"), { hidden: !coming, max: Math.max(1, all), value: all - coming });
    const time = left < 90 ? `${Math.max(1, left)} s` : left < 5400 ? `${Math.round(left / 60)} min` : `${(left / 3600).toFixed(1)} h`;
    nb.say(at("left"), left === null ? "" : ` · about ${time} left`);
    at("live").parentNode.title = at("live").parentNode.textContent;
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
    const tasks = view.tasks.map((task) => ({ key: task.key, label: [task.title, `${task.runs} run${task.runs === 1 ? "" : "s"}`, task.of].filter(Boolean).join(" · ") }));
    options(at("task"), tasks, view.query.task || (tasks[0] && tasks[0].key) || "");
    const task = view.tasks.find((one) => one.key === view.query.task) || view.tasks[0];
    at("task").title = at("task").selectedOptions.length ? at("task").selectedOptions[0].label : "";
    if (task && !nb.source.shared) at("to-runs").href = `runs?${new URLSearchParams({ filter: [...new Set(`${query.filter || ""} ${task.filter}`.trim().split(/\s+/))].join(" ") })}`;
    filtered();
    nb.say(at("heading"), view.heading.split(" · ")[0] || (answered || !view.cells.length ? "No curve yet" : "Loading the curves…"));
    nb.say(at("caption"), `${view.caption} ${counted()}`.trim());
    live();
    choices(at("choices"), QUESTION);
    choices(at("view-choices"), VIEW);
    toggles(at("arms"), view.arms);
    facets();
    rows();
    switches();
    at("pair").hidden = !view.pair; // first of all: it takes room from the curves
    panels();
    pair();
    answer();
    nb.fill(at("notes"), view.notes, () => {
      const all = nb.el("ul", {}, ...bullets(view.notes));
      return view.notes.join("").length > LONG ? [folded(`${view.notes.length} notes`, all)] : view.notes.length ? [all] : [];
    });
    if (!nb.source.shared) {
      at("share-html").href = nb.source.file(query);
      for (const form of ["latex", "markdown", "csv"]) at(`share-${form}`).href = nb.source.table(query, form);
      for (const columns of at("share-pdf-1") ? [1, 2] : []) {
        at(`share-pdf-${columns}`).href = nb.source.figure(query, columns);
        at(`share-pdf-${columns}`).hidden = Boolean(view.swept) || !view.curves;
      }
    }
    details(query.run || "");
  }

  // Clearing the field is no change of it until it is left: then it is a search for nothing.
  for (const kind of at("filter") ? ["change", "search"] : []) {
    at("filter").addEventListener(kind, () => {
      const filter = at("filter").value.trim();
      if (filter === (query.filter || "")) return;
      at("filter").dataset.now = filter;
      change({ filter }, { ask: true, push: true });
    });
  }
  at("task").addEventListener("change", () => {
    change({ ...Object.fromEntries(OF_TASK.map((key) => [key, ""])), task: at("task").value }, { ask: true, push: true });
  });
  const link = async () => `${location.origin}/?${new URLSearchParams({ ...(await nb.source.ask("link", {})), ...query })}`;
  if (!nb.source.shared) at("share").lastElementChild.prepend(nb.copy(link, "Copy link"));
  const MENUS = [at("share"), at("panels-menu")];
  at("unzoom").addEventListener("click", () => change({ zoom: "" }));
  at("pair-close").addEventListener("click", () => change({ a: "", b: "" }, { ask: true }));
  for (const format of ["png", "svg"]) at(`share-${format}`).addEventListener("click", () => nb.picture(at("plot-curves"), format));
  document.addEventListener("click", (event) => {
    for (const menu of MENUS) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = MENUS.find((menu) => menu.open);
    if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
    else if (query.run) change({ run: "" });
    else if (!nb.source.shared && (query.a || query.b)) change({ a: "", b: "" }, { ask: true });
  });
  nb.redraw(show);
  window.addEventListener("popstate", () => {
    query = nb.address.read();
    load();
  });
  load();
})(window.normbench);
