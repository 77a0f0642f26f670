// Where the page has its views from: the server it came from, or a shared file, which has one. The address holds the view.
"use strict";

window.normbench = window.normbench || {};

(function (nb) {
  const own = document.getElementById("shared");
  const shared = own && JSON.parse(own.textContent);
  const ASKED = ["filter", "task", "metric", "split", "at", "against", "level", "x", "dash", "plot", "by", "a", "b", "all", "panels"];

  // The part of a query that changes the view; the rest is how it is drawn.
  function asked(query) {
    return Object.fromEntries(ASKED.filter((key) => query[key]).map((key) => [key, query[key]]));
  }

  // --- the server ----------------------------------------------------------------------------------------------------

  let latest = 0;

  // body: what is sent, where the question changes something
  async function ask(path, query, body) {
    const how = body ? { method: "POST", body: JSON.stringify(body) } : {};
    const answer = await fetch(`api/${path}?${new URLSearchParams(query)}`, how).catch(() => {
      throw new Error("The server does not answer. Where it has ended: start normbench dashboard again and open the link that it prints.");
    });
    if (!answer.ok) throw new Error((await answer.text()).trim() || `the server says ${answer.status}`);
    return answer.json();
  }

  nb.source = {
    ask,
    asked,
    shared: Boolean(shared),

    // The view, or null where a later question was asked meanwhile. outline: what is known without any curve.
    async view(query, outline = false) {
      const turn = ++latest;
      if (shared) return shared.view;
      try {
        const view = await ask("view", { ...asked(query), ...(outline ? { outline: 1 } : {}) });
        return turn === latest ? view : null;
      } catch (error) {
        if (turn === latest) throw error;
        return null; // what was wrong with it is of no interest either
      }
    },

    run: (id) => (shared ? null : ask("run", { id }).catch(() => null)), // where there is none, the view says so

    sample: (id, name) => `api/sample?${new URLSearchParams({ id, name })}`,
    file: (query) => `api/share?${new URLSearchParams(query)}`,
    figure: (query, columns) => `api/figure?${new URLSearchParams({ ...query, columns })}`,
    table: (query, form) => `api/table?${new URLSearchParams({ ...query, form })}`,

    // Calls back when a run in view has something new, and when there is no news any more; returns what ends it.
    // A browser has six connections for all pages of a server: a page that nobody sees gives its own back.
    events(query, changed, lost) {
      let stream = null;
      let missed = false; // whether there may have been news that were not heard
      const listen = () => {
        if (stream) stream.close();
        missed = missed || document.hidden;
        if (shared || document.hidden) return;
        stream = new EventSource(`api/events?${new URLSearchParams(asked(query))}`);
        stream.addEventListener("changed", changed);
        stream.addEventListener("open", () => {
          if (missed) changed();
          missed = false;
        });
        stream.addEventListener("error", () => {
          missed = true;
          lost(stream.readyState === EventSource.CLOSED); // otherwise the browser tries again
        });
      };
      listen();
      document.addEventListener("visibilitychange", listen);
      return () => {
        document.removeEventListener("visibilitychange", listen);
        if (stream) stream.close();
      };
    },
  };

  // A file's own address may change behind # alone.
  const text = () => (shared ? location.hash : location.search).slice(1);

  nb.address = {
    read() {
      const said = Object.fromEntries(new URLSearchParams(text()));
      return Object.keys(said).length || !shared ? said : { ...shared.query };
    },

    // push: a step to which "back" returns; otherwise the step that is there now.
    write(query, push) {
      const words = new URLSearchParams(query).toString();
      if (words === text()) return;
      history[push ? "pushState" : "replaceState"](null, "", shared ? `#${words}` : words ? `?${words}` : location.pathname);
    },
  };
})(window.normbench);
