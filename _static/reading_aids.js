/* What a reader has read and solved, and the road they take: remembered in this browser alone.
   _ext/reading_aids.py makes the controls, and sees to a browser without localStorage. */
{
  const prefix = "one-equation/"; // other sites of the same host have other names
  const root = document.documentElement;

  const get = (name) => localStorage.getItem(prefix + name);

  function set(name, value) {
    try {
      if (value) localStorage.setItem(prefix + name, value);
      else localStorage.removeItem(prefix + name);
    } catch {
      // The browser keeps nothing more: the page shows what it has.
    }
    show();
  }

  function show() {
    root.dataset.road = get("road") || "all";
    document.querySelectorAll("[name=road]").forEach((choice) => {
      choice.checked = choice.value === root.dataset.road;
    });
    document.querySelectorAll("[data-done]").forEach((control) => {
      const done = Boolean(get(control.dataset.done));
      if (control.type === "checkbox") {
        control.checked = done;
      } else {
        control.setAttribute("aria-pressed", done);
        control.textContent = done ? "Marked as read" : "Mark as read";
      }
    });
    document.querySelectorAll("[data-page]").forEach((entry) => {
      const done = Boolean(get(entry.dataset.page));
      entry.classList.toggle("read", done);
      entry.querySelector(".if-read").hidden = !done;
    });
  }

  addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("[name=road]").forEach((choice) => {
      choice.addEventListener("change", () => set("road", choice.value === "main" && "main"));
    });
    document.querySelectorAll("[data-done]").forEach((control) => {
      control.addEventListener("click", () => {
        set(control.dataset.done, !get(control.dataset.done) && "done");
      });
    });
    document.querySelector(".forget button")?.addEventListener("click", () => {
      if (!confirm("Forget which pages you have read and which exercises you have solved?")) return;
      Object.keys(localStorage).filter((key) => key.startsWith(prefix))
        .forEach((key) => localStorage.removeItem(key));
      document.querySelector(".forget [role=status]").textContent = "Forgotten.";
      show();
    });
  });
  // Another tab has changed something; the reader comes back to this page.
  addEventListener("storage", show);
  addEventListener("pageshow", show);
}
