// What is wrong with how a page looks: each function lists the elements at fault.
window.looks = (() => {
  const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
  const opaque = ([, , , alpha = 1]) => alpha === 1;
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => sum + part * linear(colour[i] / 255), 0);

  function ground(element) {
    for (let e = element; e; e = e.parentElement) {
      const found = parse(getComputedStyle(e).backgroundColor);
      if (opaque(found)) return found;
    }
    return [255, 255, 255];
  }

  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const label = (element) => `${element.id || element.className} ${element.textContent.trim().slice(0, 40)}`;
  const visible = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());

  return {
    // text with a contrast below 4.5 : 1 (WCAG 2.2, 1.4.3)
    pale() {
      return visible("body *").filter((e) => own(e) && !e.closest("script, style, noscript, option, .modebar, .hoverlayer"))
        .filter((e) => {
          const style = getComputedStyle(e);
          const [a, b] = [parse(e.closest("svg") ? style.fill : style.color), ground(e)].map(luminance);
          return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
        }).map(label);
    },

    // text that its place has no room for
    cut() {
      return visible(".choices *, .toggle, .row .name b, .row .number, h1, h2, summary, td, th, .sentence")
        .filter((e) => getComputedStyle(e).display !== "inline" && e.scrollWidth > e.clientWidth + 1).map(label);
    },

    // neighbours that lie on each other
    crossed() {
      const boxes = visible(".what > *, .answer > *, .curves > *, .bar > *").map((e) => [e, e.getBoundingClientRect()]);
      const meet = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
        && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1;
      return boxes.flatMap(([a, p], i) => boxes.slice(i + 1)
        .filter(([b, q]) => a.parentNode === b.parentNode && meet(p, q)).map(([b]) => `${label(a)} x ${label(b)}`));
    },

    // texts of a figure that reach beyond it
    outside(id) {
      const box = document.getElementById(id).getBoundingClientRect();
      return [...document.querySelectorAll(`#${id} text`)].filter((e) => {
        const r = e.getBoundingClientRect();
        return r.width && (r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1 || r.top < box.top - 1);
      }).map((e) => e.textContent);
    },
  };
})();
