// Draws the panels from the JSON beside them; shows and hides arms, intervals and seeds. No request leaves the page.
"use strict";

(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const plots = Array.from(document.querySelectorAll(".panel:not(.empty)"));
  const controls = document.querySelector(".controls");

  function themed(layout) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--line"), tickcolor: colour("--line") };
    return {
      ...layout,
      font: { family: style.fontFamily, size: 12, color: colour("--text") },
      hoverlabel: { bgcolor: colour("--raised"), bordercolor: colour("--line"), font: { color: colour("--text") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--muted"), activecolor: colour("--text") },
      xaxis: { ...layout.xaxis, ...axis },
      yaxis: { ...layout.yaxis, ...axis, automargin: true, title: { text: "" } }, // the caption names it
      margin: { ...layout.margin, l: 52 },
    };
  }

  function checked(selector) {
    const box = document.querySelector(selector);
    return box ? box.checked : false;
  }

  function wanted() {
    const arms = new Set();
    document.querySelectorAll("[data-arm]").forEach((box) => box.checked && arms.add(box.dataset.arm));
    return { arms, band: checked('[data-role="band"]'), seed: checked('[data-role="seed"]') };
  }

  function draw(element) {
    const want = wanted();
    const figure = element.figure;
    const shade = dark.matches ? "dark" : "light";
    const data = figure.data.map((trace) => {
      const { arm, role } = trace.meta;
      return {
        ...trace,
        line: { ...trace.line, color: trace.meta[shade] },
        ...(trace.fill ? { fillcolor: trace.meta[shade], opacity: (dark.matches ? 2 : 1) * trace.opacity } : {}),
        visible: role === "reference" || (want.arms.has(arm) && (role === "mean" || want[role])),
      };
    });
    const layout = themed(figure.layout);
    if (checked('[data-role="logx"]')) layout.xaxis = { ...layout.xaxis, type: "log", dtick: 1 };
    Plotly.react(element, data, layout, { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "sendChartToCloud"] });
  }

  const folded = (element) => element.closest("details:not([open])"); // has no size to draw in

  function drawAll() {
    plots.filter((element) => !folded(element)).forEach(draw);
    document.querySelectorAll("[data-light]").forEach((line) => {
      line.setAttribute("stroke", dark.matches ? line.dataset.dark : line.dataset.light);
    });
  }

  if (typeof Plotly === "undefined" || !plots.length) return;
  plots.forEach((element) => {
    const source = element.querySelector("script");
    element.figure = JSON.parse(source.textContent);
    source.remove();
  });
  if (controls) {
    controls.hidden = false;
    controls.addEventListener("change", drawAll);
  }
  dark.addEventListener("change", drawAll);
  document.addEventListener("toggle", (event) => {
    if (event.target.open) plots.filter((element) => event.target.contains(element) && !folded(element)).forEach(draw);
  }, true);
  drawAll();
})();
