// Draws a figure: its colours by the page's, what is switched off left out, curves smoothed where that is asked for.
"use strict";

(function (nb) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // element -> figure, as given: drawn anew when the page turns dark
  const CONFIG = { displaylogo: false, responsive: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "toImage", "autoScale2d", "sendChartToCloud"] };

  // A figure is as large as its place, also when something beside it opens.
  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const size = target._fullLayout;
      if (!size || !contentRect.width || !contentRect.height) continue;
      if (Math.abs(size.width - contentRect.width) > 1 || Math.abs(size.height - contentRect.height) > 1) {
        Plotly.relayout(target, { width: contentRect.width, height: contentRect.height });
      }
    }
  });

  function ready() {
    return typeof Plotly !== "undefined";
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function axis(given) {
    const line = colour("--line");
    return { ...given, gridcolor: colour("--grid"), zerolinecolor: colour("--muted"), linecolor: line, tickcolor: line };
  }

  function themed(layout) {
    const { meta, ...rest } = layout;
    return {
      ...rest,
      font: { family: getComputedStyle(document.documentElement).fontFamily, size: 12, color: colour("--text") },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--text") }, namelength: -1, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: colour("--text") },
      ...Object.fromEntries(Object.entries(layout).filter(([key]) => /^[xy]axis\d*$/.test(key)).map(([key, given]) => [key, axis(given)])),
      ...(layout.annotations ? { annotations: layout.annotations.map((note) => ({ ...note, bgcolor: colour("--surface"), font: { ...note.font, color: colour(note.name) } })) } : {}),
    };
  }

  function coloured(trace) {
    const { meta } = trace;
    const shade = meta[dark.matches ? "dark" : "light"];
    if (meta.role === "heat") return { ...trace, colorscale: scale(), textfont: { size: 11, color: colour("--text") } };
    return {
      ...trace,
      line: { ...trace.line, color: shade },
      ...(trace.marker ? { marker: { ...trace.marker, color: shade, line: { ...trace.marker.line, color: shade } } } : {}),
      ...(trace.error_x ? { error_x: { ...trace.error_x, color: shade } } : {}),
      ...(trace.error_y ? { error_y: { ...trace.error_y, color: shade } } : {}),
      ...(trace.fill ? { fillcolor: shade } : {}),
    };
  }

  // Blue below, the page between, orange above: told apart without red and green; text stands on all of it.
  function scale() {
    return [[0, colour("--low")], [0.5, colour("--surface")], [1, colour("--high")]];
  }

  // An exponential mean with weight w of what was before; corrected at the start, where there is little before.
  function smoothed(values, w) {
    let sum = 0;
    let weight = 0;
    return values.map((value) => {
      if (typeof value !== "number") return value;
      sum = w * sum + (1 - w) * value;
      weight = w * weight + (1 - w);
      return sum / weight;
    });
  }

  // 1, 2, 5 and their multiples by ten: of few decades Plotly labels too little, or digits without their power.
  function ticks([low, high]) {
    const tickvals = [];
    for (let power = Math.floor(low); power <= high; power += 1) tickvals.push(...[1, 2, 5].map((digit) => digit * 10 ** power));
    return { tickmode: "array", tickvals, ticktext: tickvals.map((value) => String(Number(value.toPrecision(3)))) };
  }

  // A logarithmic axis over these values; without those that it cannot show.
  function logarithmic(axis, values) {
    const positive = values.filter((value) => typeof value === "number" && value > 0);
    const ends = positive.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, 0]);
    if (ends[0] >= ends[1]) return axis;
    const range = ends.map(Math.log10);
    const { dtick, ...rest } = axis;
    return { ...rest, type: "log", range, autorange: false, ...steps(range) };
  }

  const steps = (range) => (range[1] - range[0] > 2.5 ? { dtick: 1 } : range[1] - range[0] > 0.8 ? ticks(range) : {});

  // What of the curves is to be seen. how: on(cell), band, seeds, references, log, logx, smooth.
  function seen(figure, how) {
    const shown = (meta) => {
      if (meta.role === "reference") return how.references;
      if (meta.role === "level") return true;
      if (!how.on(meta.arm)) return false;
      return meta.role === "band" ? how.band : meta.role === "seed" ? how.seeds : true;
    };
    const { ranges } = figure.layout.meta;
    const floor = ranges.log ? 10 ** (ranges.log[0] - 2) : 1e-12; // a band may end below zero, which no logarithm shows
    const above = (values) => (how.log ? values.map((v) => (typeof v === "number" && v <= 0 ? floor : v)) : values);
    const faint = figure.data.filter((trace) => trace.meta.role === "band" && how.on(trace.meta.arm)).length > 6;
    const many = figure.data.filter((trace) => trace.meta.role === "time" && how.on(trace.meta.arm)).length > 8; // marks alone
    const data = figure.data.filter((trace) => shown(trace.meta)).flatMap((trace) => {
      if (trace.meta.role === "time" && many) return [{ ...trace, error_x: undefined, visible: true }];
      const whole = { ...trace, visible: true, ...(trace.meta.role === "band" ? { y: above(trace.y), opacity: faint ? 0.06 : trace.opacity } : {}) };
      if (trace.meta.role !== "mean" || !how.smooth) return [whole];
      return [{ ...whole, opacity: 0.3, hoverinfo: "skip", hovertemplate: undefined, line: { ...trace.line, width: 1 }, meta: { ...trace.meta, role: "raw" } },
              { ...whole, y: smoothed(trace.y, how.smooth) }];
    });
    const range = how.log ? ranges.log : ranges.linear;
    const { type, dtick, ...yaxis } = figure.layout.yaxis;
    return {
      data,
      layout: {
        ...figure.layout,
        uirevision: `${how.key} ${how.log} ${how.logx}`,
        xaxis: how.logx ? logarithmic(figure.layout.xaxis, data.filter(({ meta }) => meta.role === "mean").flatMap(({ x }) => x)) : figure.layout.xaxis,
        yaxis: { ...yaxis, ...(how.log ? { type: "log", ...(range ? steps(range) : {}) } : {}), ...(range ? { range, autorange: false } : {}) },
      },
    };
  }

  // Plotly reads markup in texts: what a name has of it is shown as it is.
  const text = (name) => name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const SMALLEST = 210; // pixels that a small plot is wide

  // One small plot per value beside each other, all with the same axes. values: key and label; of(cell): its value's key.
  function beside(figure, values, of, width) {
    const columns = Math.max(1, Math.min(values.length, Math.floor(width / SMALLEST)));
    const rows = Math.ceil(values.length / columns);
    const name = (place) => (place ? String(place + 1) : "");
    const part = (place, count, gap) => [(place * (1 + gap)) / (count + (count - 1) * gap), (place * (1 + gap) + 1) / (count + (count - 1) * gap)];
    const layout = { ...figure.layout, annotations: [] };
    values.forEach((value, place) => {
      const [row, column] = [Math.floor(place / columns), place % columns];
      const last = place + columns >= values.length; // of its column
      const [y0, y1] = part(row, rows, 0.22).map((at) => 1 - at).reverse();
      const x = part(column, columns, 0.1);
      const title = (given, on) => (on ? given.title : { text: "" });
      layout[`xaxis${name(place)}`] = { ...figure.layout.xaxis, title: title(figure.layout.xaxis, last), showticklabels: last, domain: x, anchor: `y${name(place)}`, ...(place ? { matches: "x" } : {}) };
      layout[`yaxis${name(place)}`] = { ...figure.layout.yaxis, title: title(figure.layout.yaxis, !column && row === Math.floor((rows - 1) / 2)), showticklabels: !column, domain: [y0, y1], anchor: `x${name(place)}`, ...(place ? { matches: "y" } : {}) };
      layout.annotations.push({ text: text(value.label), showarrow: false, xref: "paper", yref: "paper", x: x[0], y: y1, xanchor: "left", yanchor: "bottom", font: { size: 12 }, name: "--text" });
    });
    const put = (trace, place) => ({ ...trace, xaxis: `x${name(place)}`, yaxis: `y${name(place)}` });
    const data = figure.data.flatMap((trace) => values.map((value, place) => [value, place])
      .filter(([value]) => !trace.meta.arm || of(trace.meta.arm) === value.key) // the level and the papers' curves stand in all
      .map(([, place]) => put(trace, place)));
    return { data, layout: { ...layout, margin: { ...layout.margin, t: 26 }, uirevision: `${layout.uirevision} ${values.length} ${columns}` } };
  }

  nb.seen = seen;
  nb.beside = beside;

  // The one place that draws. Nothing to draw empties the element.
  nb.draw = function draw(element, figure) {
    if (!figure) {
      if (drawn.delete(element) && ready()) Plotly.purge(element);
      return;
    }
    if (!drawn.has(element)) sizes.observe(element);
    drawn.set(element, figure);
    if (!ready()) return; // Plotly is on its way
    const { layout } = figure;
    if (layout.height) element.style.height = `${layout.height}px`;
    const { width, height } = element.getBoundingClientRect();
    Plotly.react(element, figure.data.map(coloured), { ...themed(layout), width, height }, CONFIG);
  };

  // While a reader points at a cell's row the curves of the others are pale; nothing is drawn anew for it.
  nb.point = function point(element, cell) {
    const traces = [...element.querySelectorAll(".scatterlayer > .trace")].map((trace) => [trace, trace.__data__[0].trace.meta.arm]);
    const there = traces.some(([, arm]) => arm === cell);
    for (const [trace, arm] of traces) trace.classList.toggle("aside", Boolean(there && cell && arm && arm !== cell));
  };

  // The figure as a file of its own, on the page's ground.
  nb.svg = async function svg(element) {
    const { data, layout } = element;
    const size = element.getBoundingClientRect();
    const url = await Plotly.toImage({ data, layout: { ...layout, paper_bgcolor: colour("--surface"), showlegend: true, width: undefined, height: undefined } },
                                     { format: "svg", width: Math.round(size.width), height: Math.round(size.height) });
    return decodeURIComponent(url.slice(url.indexOf(",") + 1));
  };

  const late = document.getElementById("late");
  if (late) late.addEventListener("load", () => drawn.forEach((figure, element) => nb.draw(element, figure)));

  nb.dark = () => dark.matches;
  dark.addEventListener("change", () => {
    for (const [element, figure] of drawn) nb.draw(element, figure);
    document.dispatchEvent(new Event("shade"));
  });
})(window.normbench);
