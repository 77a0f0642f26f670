// Draws a figure: its colours by the page's, what is switched off left out, curves smoothed where that is asked for.
"use strict";

(function (nb) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const UNUSED = ["select2d", "lasso2d", "toImage", "autoScale2d", "sendChartToCloud"];
  const CONFIG = { displaylogo: false, displayNotifier: false, responsive: false, modeBarButtonsToRemove: UNUSED };
  const OF_PANEL = { ...CONFIG, doubleClick: false, modeBarButtonsToRemove: [...UNUSED, "resetScale2d"] }; // the address has its zoom
  const BRIEF = { mean: { hovertemplate: "%{y:.4~g}", hoverlabel: { namelength: 30 } }, reference: { hoverinfo: "skip", hovertemplate: undefined } };

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

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function themed({ meta, ...layout }) {
    const line = colour("--line");
    const axis = { gridcolor: colour("--grid"), zerolinecolor: colour("--muted"), showline: true, linecolor: line, ticks: "outside", tickcolor: line };
    const page = {
      xaxis: axis,
      yaxis: axis,
      font: { family: getComputedStyle(document.documentElement).fontFamily, size: 12, color: colour("--text") },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--text") }, namelength: -1, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: colour("--text") },
    };
    const note = (one) => ({ ...one, bgcolor: `${colour("--surface")}b0`, font: { ...one.font, color: colour(one.name) } });
    const shape = (one) => ({ ...one, line: { ...one.line, color: colour(one.name) } });
    return { ...layout, paper_bgcolor: colour("--surface"), template: { layout: page }, ...(layout.annotations ? { annotations: layout.annotations.map(note) } : {}), ...(layout.shapes ? { shapes: layout.shapes.map(shape) } : {}) };
  }

  // Marks, bands and intervals take the colour of the line.
  function coloured(trace) {
    const shade = trace.meta[dark.matches ? "dark" : "light"];
    // blue below, the page between, orange above: told apart without red and green; text stands on all of it
    const colorscale = [[0, colour("--low")], [0.5, colour("--surface")], [1, colour("--high")]];
    if (trace.meta.role === "heat") return { ...trace, colorscale, textfont: { size: 11, color: colour("--text") } };
    return { ...trace, line: { ...trace.line, color: shade }, ...(trace.fill ? { fillcolor: shade, opacity: (dark.matches ? 2 : 1) * trace.opacity } : {}) };
  }

  // An exponential mean with weight w of what was before; corrected at the start, where there is little before. Up to
  // `begin` there is none: the model is as good as untrained.
  function smoothed({ x, y }, w, begin) {
    let sum = 0;
    let weight = 0;
    const from = x[x.length - 1] > begin ? begin : -1;
    return y.map((value, place) => {
      if (typeof value !== "number") return value;
      if (x[place] <= from) return null;
      sum = w * sum + (1 - w) * value;
      weight = w * weight + (1 - w);
      return sum / weight;
    });
  }

  // These ends of an axis, where it has room for them.
  const ends = (zoom, log) => (zoom && !(log && zoom[0] <= 0) ? { range: log ? zoom.map(Math.log10) : zoom, autorange: false } : {});

  // A format is given where Plotly would label 20 as 2. y is over the means that are shown, without those that diverged and without the untrained model.
  function over(traces, { whole, begin }, log) {
    const means = traces.filter(({ meta }) => whole.includes(meta.arm));
    const late = ({ x, y }) => y.filter((one, place) => typeof one === "number" && (x[place] > begin || x[x.length - 1] <= begin));
    const values = (means.length ? means : traces).flatMap(late).filter((one) => !log || one > 0).map((one) => (log ? Math.log10(one) : one));
    const [low, high] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
    const room = 0.06 * (high - low) || 0.05 * (log ? 1 : Math.abs(high)) || 1;
    return { ...(log ? { type: "log", tickformat: "~g" } : {}), ...(values.length ? { range: [low - room, high + room], autorange: false } : {}) };
  }

  // What of the curves is to be seen. how: on(cell), band, seeds, references, level, log, logx, smooth, zoom, brief: with other
  // panels beside it, where hovering has little room.
  nb.seen = function seen(figure, how) {
    const shown = (meta) => {
      if (meta.role === "reference") return how.references;
      if (meta.role === "level" || (meta.role === "time" && !how.level)) return how.level;
      if (!how.on(meta.arm)) return false;
      return meta.role === "band" ? how.band : meta.role === "seed" ? how.seeds : true;
    };
    const { axes, clock } = figure.layout.meta;
    const place = `${clock} %{x:,~f}`;
    const one = figure.layout.hovermode === "closest"; // of many curves
    const y = over(figure.data.filter(({ meta }) => meta.role === "mean" && how.on(meta.arm)), axes, how.log);
    const floor = how.log && y.range ? 10 ** (y.range[0] - 2) : 1e-12; // a band may end below zero, which no logarithm shows
    const above = (values) => (how.log ? values.map((v) => (typeof v === "number" && v <= 0 ? floor : v)) : values);
    const faint = figure.data.filter((trace) => trace.meta.role === "band" && how.on(trace.meta.arm)).length > 6;
    const many = figure.data.filter((trace) => trace.meta.role === "time" && how.on(trace.meta.arm)).length > 8; // marks alone
    const data = figure.data.filter((trace) => shown(trace.meta)).flatMap((trace) => {
      if (trace.meta.role === "time" && many) return [{ ...trace, error_x: undefined, visible: true }];
      const whole = { ...trace, visible: true, ...(trace.meta.role === "band" ? { y: above(trace.y), opacity: faint ? 0.06 : trace.opacity } : {}), ...(how.brief && !one ? BRIEF[trace.meta.role] : {}) };
      if (trace.meta.role !== "mean" || !how.smooth) return [whole];
      return [{ ...whole, opacity: 0.3, hoverinfo: "skip", hovertemplate: undefined, line: { ...trace.line, width: 1 }, meta: { ...trace.meta, role: "raw" } },
              { ...whole, y: smoothed(trace, how.smooth, axes.begin), hovertemplate: whole.hovertemplate.replace(/%{(customdata|y:[^}]*)}/, "%{y:.3~g} smoothed") }];
    });
    return {
      data,
      layout: {
        ...figure.layout,
        ...(how.brief ? { hoverlabel: { font: { size: 10 } } } : {}),
        uirevision: `${how.key} ${how.log} ${how.logx}`,
        xaxis: { ...figure.layout.xaxis, ...(how.logx ? { type: "log", nticks: 4, tickformat: "~s" } : {}), ...ends(how.zoom.x, how.logx), uirevision: String(how.zoom.x), unifiedhovertitle: { text: place }, showspikes: how.brief, spikemode: "across", spikethickness: 1, spikedash: "dot", spikesnap: "hovered data" },
        yaxis: { ...figure.layout.yaxis, ...y, ...(how.log ? { nticks: how.brief ? 4 : 6 } : {}), ...ends(how.zoom.y, how.log), uirevision: String(how.zoom.y) },
      },
    };
  };

  // Plotly reads markup in texts: what a name has of it is shown as it is.
  const text = (name) => name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

  const SMALLEST = 210; // pixels that a small plot is wide

  // One small plot per value beside each other, all with the same axes. values: key and label; of(cell): its value's key.
  nb.beside = function beside({ data, layout }, values, of, width) {
    const columns = Math.max(1, Math.min(values.length, Math.floor(width / SMALLEST)));
    const rows = Math.ceil(values.length / columns);
    const name = (place) => (place ? String(place + 1) : "");
    const axes = values.map((value, place) => {
      const last = place + columns >= values.length; // of its column
      const middle = place === columns * Math.floor((rows - 1) / 2); // of the first column
      const axis = (given, labelled, titled, first) => ({ ...given, showticklabels: labelled, ...(titled ? {} : { title: { text: "" } }), ...(place ? { matches: first } : {}) });
      return {
        [`xaxis${name(place)}`]: axis(layout.xaxis, last, last, "x"),
        [`yaxis${name(place)}`]: axis(layout.yaxis, !(place % columns), middle, "y"),
      };
    });
    const titles = values.map(({ label }, place) => ({
      text: text(label), showarrow: false, xref: `x${name(place)} domain`, yref: `y${name(place)} domain`, x: 0, y: 1,
      xanchor: "left", yanchor: "bottom", font: { size: 12 }, name: "--text",
    }));
    return {
      data: values.flatMap((value, place) => data
        .filter(({ meta }) => ["level", "reference"].includes(meta.role) || of(meta.arm) === value.key)
        .map((trace) => ({ ...trace, xaxis: `x${name(place)}`, yaxis: `y${name(place)}` }))),
      layout: Object.assign({}, layout, ...axes, {
        annotations: titles, margin: { ...layout.margin, t: 26 }, uirevision: `${layout.uirevision} ${values.length} ${columns}`,
        grid: { rows, columns, pattern: "independent", xgap: 0.1, ygap: 0.22 },
      }),
    };
  };

  // The one place that draws. Nothing to draw empties the element; before Plotly is there, nothing is drawn.
  nb.draw = function draw(element, figure) {
    if (typeof Plotly === "undefined") return;
    if (!figure) {
      Plotly.purge(element);
      return;
    }
    sizes.observe(element);
    if (figure.layout.height) element.style.height = `${figure.layout.height}px`;
    const { width, height } = element.getBoundingClientRect();
    Plotly.react(element, figure.data.map(coloured), { ...themed(figure.layout), width, height }, "panel" in element.dataset ? OF_PANEL : CONFIG);
  };

  // While these cells stand out the curves of the others are pale; nothing is drawn anew for it.
  nb.point = function point(element, cells) {
    const traces = [...element.querySelectorAll(".scatterlayer > .trace")].map((trace) => [trace, trace.__data__[0].trace.meta.arm]);
    const there = traces.some(([, arm]) => cells.includes(arm));
    for (const [trace, arm] of traces) trace.classList.toggle("aside", Boolean(there && arm && !cells.includes(arm)));
  };

  const PICTURE = { width: 900, height: 560, scale: 2 }; // pixels of a panel as a file, whatever the page's size; a PNG has more

  // Saves a plot as a file of its own, on the page's ground, with a legend of its lines.
  nb.picture = function picture({ data, layout, dataset }, format) {
    const lines = data.map((trace) => ({ ...trace, showlegend: ["mean", "reference", "point"].includes(trace.meta.role) }));
    const filename = `curves ${dataset.panel}`.trim().replace(/[^\w.-]+/g, "-");
    Plotly.downloadImage({ data: lines, layout: { ...layout, showlegend: true, legend: { orientation: "h", y: -0.18 } } }, { format, filename, ...PICTURE });
  };

  nb.dark = () => dark.matches;

  // Calls back when all has to be drawn again: the page has turned dark or light.
  nb.redraw = (show) => dark.addEventListener("change", show);

  // Asks for Plotly, which takes a second, and calls back when it is there.
  nb.plotly = (show) => document.body.append(nb.el("script", { src: "static/plotly.min.js", onload: show }));
})(window.normbench);
