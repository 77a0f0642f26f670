// Several panels beside each other: the menu that chooses them, one cursor for all, and what is zoomed in on.
"use strict";

(function (nb) {
  // Which metrics of which splits have a panel. known: key, split, label; first: the key of the question's own, which stays.
  nb.panelMenu = function panelMenu(into, known, open, first, toggle) {
    nb.fill(into, known, () => {
      const title = ({ split, label }) => label.slice(split.length + 1);
      const splits = [...new Set(known.map((one) => one.split))];
      const box = (one) => {
        const field = nb.el("input", { type: "checkbox", "aria-label": one.label, "data-panel": one.key });
        field.addEventListener("change", () => toggle(one.key, field.checked));
        return field;
      };
      return [nb.grid(["", ...splits], [...new Set(known.map(title))].map((name) => [
        name, ...splits.map((split) => known.filter((one) => one.split === split && title(one) === name).map(box)),
      ]))];
    });
    for (const field of into.querySelectorAll("input")) {
      field.disabled = field.dataset.panel === first;
      field.checked = field.disabled || open.includes(field.dataset.panel);
    }
  };

  // Another panel shows the place of x that a reader points at; where hovering tells one curve, the same curve's.
  function follow(plot, { x, data }) {
    if (!plot.layout || !plot.layout.xaxis) return;
    if (plot.layout.hovermode === "x unified") {
      Plotly.Fx.hover(plot, { xval: x }, "xy", true);
      return aside(plot);
    }
    const curve = plot.data.findIndex(({ meta }) => meta.arm === data.meta.arm && meta.role === data.meta.role);
    if (curve < 0) return;
    const far = (place) => Math.abs(plot.data[curve].x[place] - x);
    const nearest = plot.data[curve].x.reduce((best, _, place) => (far(place) < far(best) ? place : best), 0);
    Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: nearest }], "xy", true);
  }

  // The box of all curves lies on the side where the pointer is not: above or below, where they leave more room there.
  function aside(plot) {
    const box = plot.querySelector(".hoverlayer > .legend");
    if (!box) return;
    const { l, t, w, h } = plot._fullLayout._size;
    const { width, height } = box.getBBox();
    const [{ xaxis, x }] = plot._hoverdata;
    const left = xaxis._offset + xaxis.d2p(x) > l + w / 2;
    const low = ({ yaxis, data }) => yaxis._offset + yaxis.d2p(data.y[Math.floor((left ? 0.25 : 0.75) * data.y.length)]) > t + h / 2;
    const top = 2 * plot._hoverdata.filter(low).length > plot._hoverdata.length;
    plot.style.setProperty("--box", `translate(${left ? l + 4 : l + w - width - 4}px, ${top ? t + 28 : t + h - height - 4}px)`);
  }

  const linked = new WeakMap(); // plot -> its "on": Plotly makes another where it draws after a purge

  // others(): the other plots; zoomed(ranges): called with the ends of what is shown of x and y where a reader has
  // changed them, null for all of an axis.
  nb.link = function link(plot, others, zoomed) {
    if (!plot.on || linked.get(plot) === plot.on) return;
    linked.set(plot, plot.on);
    plot.on("plotly_hover", ({ points }) => {
      aside(plot);
      others().forEach((other) => follow(other, points[0]));
    });
    plot.on("plotly_unhover", () => others().forEach((other) => other.layout && Plotly.Fx.unhover(other)));
    plot.on("plotly_doubleclick", () => zoomed({ x: null, y: null }));
    plot.on("plotly_relayout", (event) => {
      const moved = ["x", "y"].filter((letter) => Object.keys(event).some((key) => key.startsWith(`${letter}axis`)));
      if (!moved.length) return;
      zoomed(Object.fromEntries(moved.map((letter) => {
        const axis = plot._fullLayout[`${letter}axis`];
        return [letter, axis.range.map((end) => (axis.type === "log" ? 10 ** end : end))];
      })));
    });
  };
})(window.normbench);
