// The index: claims by their verdict and by words in their sentences, in the paper's, and in the titles of their pages.
// What is folded opens while something is looked for.
"use strict";

(function () {
  const form = document.querySelector(".filter");
  const search = form.querySelector("input[type=search]");
  const boxes = Array.from(form.querySelectorAll("input[type=checkbox]"));
  const status = form.querySelector(".shown");
  const link = (element) => element.querySelector("a").getAttribute("href");
  const listed = Array.from(document.querySelectorAll(".finding"), (element) => ({
    element,
    word: element.dataset.word,
    text: `${element.textContent} ${element.dataset.text} ${paper(element)}`.toLowerCase(),
  }));
  const texts = new Map(listed.map(({ element, text }) => [link(element), text]));
  const effects = Array.from(document.querySelectorAll(".effects [data-word]"), (element) => ({
    element,
    word: element.dataset.word,
    text: texts.get(link(element)) || "",
  }));
  const claims = [...listed, ...effects];
  const folds = Array.from(document.querySelectorAll(".fold"));
  const counts = document.querySelectorAll(".fold .count");
  const tallies = Array.from(document.querySelectorAll(".tally"), (element) => ({ element, text: element.textContent, block: element.parentElement }));

  // the paper's name finds its claims, too
  function paper(element) {
    const heading = element.closest("section").querySelector("h2");
    return heading ? heading.textContent : "";
  }

  // A number at an end of a term is a whole one: 16 finds neither 2016 nor 0.16.
  function pattern(term) {
    const text = term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return new RegExp(`${/^\d/.test(term) ? "(?<![\\d.])" : ""}${text}${/\d$/.test(term) ? "(?!\\d|\\.\\d)" : ""}`);
  }

  function apply() {
    const words = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean).map(pattern);
    const looking = words.size > 0 || terms.length > 0;
    claims.forEach(({ element, word, text }) => {
      element.hidden = (words.size > 0 && !words.has(word)) || !terms.every((term) => term.test(text));
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
