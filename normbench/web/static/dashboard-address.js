// The address holds the view. A file's own address may change behind # alone.
"use strict";

(function (nb) {
  const text = () => (nb.source.shared ? location.hash.slice(1) : location.search.slice(1));

  nb.address = {
    read() {
      const said = Object.fromEntries(new URLSearchParams(text()));
      return Object.keys(said).length ? said : { ...nb.source.begin };
    },

    // push: a step to which "back" returns; otherwise the step that is there now.
    write(query, push) {
      const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined)).toString();
      if (words === text()) return;
      const target = nb.source.shared ? `#${words}` : words ? `?${words}` : location.pathname;
      history[push ? "pushState" : "replaceState"](null, "", target);
    },

    follow(then) {
      window.addEventListener("popstate", () => then(nb.address.read()));
    },
  };
})(window.normbench);
