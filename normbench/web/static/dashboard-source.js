// Where the page has its views from: the server it came from, or, in a shared file, what stands in the file.
"use strict";

window.normbench = window.normbench || {};

(function (nb) {
  const own = document.getElementById("shared");
  const shared = own ? JSON.parse(own.textContent) : null;
  const ASKED = ["filter", "task", "metric", "split", "at", "against", "level", "share", "x", "by", "a", "b"];

  // The part of a query that changes the view; the rest is how it is drawn.
  function asked(query) {
    return Object.fromEntries(ASKED.filter((key) => query[key]).map((key) => [key, query[key]]));
  }

  // A value in the file is a place in its pool where it is large: most of them are the same in every view.
  function unpacked(content) {
    const found = { figures: {} };
    for (const [key, value] of Object.entries(content)) {
      const whole = value && typeof value.$pool === "number" ? shared.pool[value.$pool] : value;
      if (key.startsWith("figures.")) found.figures[key.slice(8)] = whole;
      else found[key] = whole;
    }
    return found;
  }

  // What may be chosen in a file, with what is kept first where it has not all of a choice together.
  const WORTH = { split: 16, metric: 8, against: 4, at: 2, x: 1 };

  function nearest(query, views) {
    const worth = ({ chosen }) => Object.keys(WORTH).reduce((sum, key) => sum + (!query[key] || chosen[key] === query[key] ? WORTH[key] : 0), 0);
    return views.reduce((best, one) => (worth(one) > worth(best) ? one : best));
  }

  function fromFile(query) {
    const found = nearest(query, shared.views);
    const view = unpacked(found.view);
    const same = (p) => p.chosen.split === found.chosen.split && p.chosen.metric === found.chosen.metric;
    const pair = shared.pairs.find((p) => same(p) && [[p.a, p.b], [p.b, p.a]].some(([a, b]) => a === query.a && b === query.b));
    view.pair = pair ? unpacked(pair.pair) : null;
    view.figures.difference = view.pair && view.pair.figure;
    return view;
  }

  let latest = 0;

  function asking(address) {
    return fetch(address).catch(() => {
      throw new Error("The server does not answer. Where it has ended: start normbench dashboard again and open the link that it prints.");
    });
  }

  nb.source = {
    shared: Boolean(shared),
    begin: shared ? shared.query : {},

    // The view, or null where a later question was asked meanwhile. outline: what is known without any curve.
    async view(query, outline = false) {
      const turn = ++latest;
      if (shared) return fromFile(query);
      const answer = await asking(`api/view?${new URLSearchParams({ ...asked(query), ...(outline ? { outline: 1 } : {}) })}`);
      if (turn !== latest) return null; // what was wrong with it is of no interest either
      if (!answer.ok) throw new Error((await answer.text()) || `the server says ${answer.status}`);
      const view = await answer.json();
      return turn === latest ? view : null;
    },

    async run(id) {
      if (shared) return null;
      const answer = await asking(`api/run?${new URLSearchParams({ id })}`).catch(() => null); // the view says so
      return answer && answer.ok ? answer.json() : null;
    },

    // What is chosen after this choice: in a file what it has that is next to the rest of it, or null.
    choose(key, value, now) {
      if (!shared) return { [key]: value };
      const fits = ({ chosen }) => chosen[key] === value && (key === "split" || chosen.split === now.split);
      const views = shared.views.filter(fits);
      return views.length ? { ...nearest({ ...now, [key]: value }, views).chosen } : null;
    },

    sample: (id, name) => `api/sample?${new URLSearchParams({ id, name })}`,
    file: (what, query) => `api/${what}?${new URLSearchParams(query)}`,

    // Calls back when a run in view has something new, and when there is no news any more; returns what ends it.
    // A browser has six connections for all pages of a server: a page that nobody sees gives its own back.
    events(query, changed, lost) {
      if (shared || typeof EventSource === "undefined") return () => {};
      let stream = null;
      let broken = false;
      const listen = () => {
        stream = new EventSource(`api/events?${new URLSearchParams(asked(query))}`);
        stream.addEventListener("changed", changed);
        stream.addEventListener("open", () => broken && changed());
        stream.addEventListener("open", () => (broken = false));
        stream.addEventListener("error", () => {
          broken = true;
          lost(stream.readyState === EventSource.CLOSED); // otherwise the browser tries again
        });
      };
      const turned = () => {
        stream.close();
        if (document.hidden) return;
        listen();
        changed();
      };
      listen();
      if (document.hidden) stream.close();
      document.addEventListener("visibilitychange", turned);
      return () => {
        document.removeEventListener("visibilitychange", turned);
        stream.close();
      };
    },

    asked,
  };
})(window.normbench);
