/* A box that scrolls sideways can be reached by keyboard, and one that does not is no stop. */
const boxes = ".pst-scrollable-table-container, .bd-article div.math, .bd-article div.output";

function reachable() {
  document.querySelectorAll(boxes).forEach((box) => {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute("tabindex");
    }
  });
}

// Whenever a box or what it holds grows or shrinks.
window.addEventListener("load", () => {
  const observer = new ResizeObserver(reachable);
  document.querySelectorAll(boxes).forEach((box) => {
    observer.observe(box);
    Array.from(box.children).forEach((content) => observer.observe(content));
  });
});

/* A figure that starts late makes the page longer: a section that was asked for stays in sight, until
   the reader moves. */
let wanted = null;

function want() {
  wanted = document.querySelector(":target");
}

window.addEventListener("hashchange", want);
["wheel", "touchstart", "pointerdown", "keydown"].forEach((moved) => {
  window.addEventListener(moved, () => { wanted = null; }, {passive: true});
});
window.addEventListener("load", () => {
  want();
  const late = new ResizeObserver(() => wanted?.scrollIntoView({behavior: "instant"}));
  document.querySelectorAll("[data-explore]").forEach((figure) => late.observe(figure));
});
