// The list of pages closes with Escape, and gives the focus back to what opened it. What a link leads to is unfolded.
"use strict";

document.addEventListener("keydown", (event) => {
  const menu = document.querySelector(".menu[open]");
  if (event.key !== "Escape" || !menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const fold = target && (target.querySelector("details") || target.closest("details"));
  for (let outer = fold; outer; outer = outer.parentElement.closest("details")) outer.open = true;
  if (fold) target.scrollIntoView();
}
window.addEventListener("hashchange", unfold);
document.addEventListener("DOMContentLoaded", unfold);
