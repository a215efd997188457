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
