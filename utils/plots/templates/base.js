// Shared by the interactive figures: starting them, following the page's theme, making elements.

// Start every figure of this kind, when it is less than a screen away or the page is printed.
const figures = (kind, start) => {
  for (const host of document.querySelectorAll(`[data-explore="${kind}"]`)) {
    const begin = () => {
      near.disconnect();
      if (host.shadowRoot) return;
      const root = host.attachShadow({mode: "open"});
      root.append(host.querySelector("template").content.cloneNode(true));
      followTheme(root.querySelector(".figure"));
      start(root, JSON.parse(host.dataset.config));
    };
    const near = new IntersectionObserver(([{isIntersecting}]) => isIntersecting && begin(),
      {rootMargin: "100%"});
    near.observe(host);
    addEventListener("beforeprint", begin);
  }
};

// Sphinx says it in html[data-theme], Colab in html[theme], JupyterLab in body[data-jp-theme-light].
const isDark = () => {
  const page = document.documentElement;
  const named = page.dataset.theme || page.getAttribute("theme");
  if (named === "dark" || named === "light") return named === "dark";
  const lab = document.body.dataset.jpThemeLight;
  return lab ? lab === "false" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const followTheme = (figure) => {
  const follow = () => figure.classList.toggle("dark", isDark());
  const watch = new MutationObserver(follow);
  for (const element of [document.documentElement, document.body]) {
    watch.observe(element, {attributes: true});
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", follow);
  follow();
};

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

// Fill a fieldset with radio buttons, [[value, label], …]; `chosen` is called with the value.
const choices = (fieldset, options, value, chosen) => {
  for (const [option, label] of options) {
    const input = make("input", {type: "radio", name: fieldset.id, value: option});
    input.checked = option === value;
    input.addEventListener("change", () => chosen(option));
    fieldset.append(make("label", {}, input, make("span", {}, label)));
  }
};

// A table from rows of text; the first row and the first column are headers.
const fillTable = (table, caption, [head, ...rows]) => {
  const header = (scope) => (text) => make("th", {scope}, text);
  table.replaceChildren(
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head.map(header("col")))),
    make("tbody", {}, ...rows.map(([first, ...rest]) => make("tr", {},
      header("row")(first), ...rest.map((text) => make("td", {}, text))))));
};

const range = (n) => [...Array(n).keys()];
