// Draws a figure: its colours by the page's, what is switched off left out, curves smoothed where that is asked for.
"use strict";

(function (nb) {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // element -> figure, as given: drawn anew when the page turns dark
  const CONFIG = { displaylogo: false, responsive: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "toImage", "autoScale2d"] };

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
      xaxis: axis(layout.xaxis),
      yaxis: axis(layout.yaxis),
      ...(layout.annotations ? { annotations: layout.annotations.map((note) => ({ ...note, font: { ...note.font, color: colour(note.name) } })) } : {}),
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

  // What of the curves is to be seen. how: on(cell), band, seeds, references, log, smooth.
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
    const decades = how.log && range ? range[1] - range[0] : 0;
    const step = decades > 2.5 ? { dtick: 1 } : decades > 0.8 ? ticks(range) : {};
    return {
      data,
      layout: {
        ...figure.layout,
        uirevision: `${how.key} ${how.log}`,
        yaxis: { ...yaxis, ...(how.log ? { type: "log", ...step } : {}), ...(range ? { range, autorange: false } : {}) },
      },
    };
  }

  nb.seen = seen;

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
