// The index: claims by a text in them and by their verdict. What is folded opens while something is looked for.
"use strict";

(function () {
  const form = document.querySelector(".filter");
  const search = form.querySelector("input[type=search]");
  const boxes = Array.from(form.querySelectorAll("input[type=checkbox]"));
  const status = form.querySelector(".shown");
  const claims = Array.from(document.querySelectorAll("[data-word]"), (element) => ({
    element,
    word: element.dataset.word,
    text: `${element.textContent} ${element.dataset.text || ""} ${context(element)}`.toLowerCase(),
  }));
  const listed = claims.filter((claim) => claim.element.matches(".finding"));
  const folds = Array.from(document.querySelectorAll(".fold"));
  const counts = document.querySelectorAll(".fold .count");
  const tallies = Array.from(document.querySelectorAll(".tally"), (element) => ({ element, text: element.textContent, block: element.parentElement }));

  // the paper's name finds its claims, too
  function context(element) {
    const heading = element.closest("section").querySelector("h2");
    return `${element.dataset.title || ""} ${heading ? heading.textContent : ""}`;
  }

  function apply() {
    const words = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const looking = words.size > 0 || terms.length > 0;
    claims.forEach(({ element, word, text }) => {
      element.hidden = (words.size > 0 && !words.has(word)) || !terms.every((term) => text.includes(term));
    });
    document.querySelectorAll(".fold, .block, section.paper, .effects figure, .effects").forEach((group) => {
      group.hidden = !group.querySelector("[data-word]:not([hidden])");
    });
    folds.forEach((fold) => {
      if (looking && fold.dataset.was === undefined) fold.dataset.was = fold.open;
      if (looking) fold.open = true;
      else if (fold.dataset.was !== undefined) {
        fold.open = fold.dataset.was === "true";
        delete fold.dataset.was;
      }
    });
    const seen = (group) => group.querySelectorAll(".finding:not([hidden])").length;
    counts.forEach((count) => (count.textContent = seen(count.closest(".fold"))));
    tallies.forEach(({ element, text, block }) => (element.textContent = looking ? `${seen(block)} of ${block.querySelectorAll(".finding").length} claims` : text));
    const left = listed.filter(({ element }) => !element.hidden).length;
    status.hidden = !looking;
    status.textContent = looking ? `${left} of ${listed.length} claims` : "";
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", apply);
  form.querySelectorAll("[hidden]").forEach((element) => element !== status && (element.hidden = false));
  form.classList.add("ready");
  apply(); // a browser may bring back what was filled in
})();
