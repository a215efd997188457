// Shared by the figures that show the weights of many heads: colours, numbers, characters.

// Weight 0, somewhere between, and 1: towards the ink by day and towards the light by night.
const SCALES = {light: [[242, 244, 247], [0, 114, 178], [0, 32, 66]],
  dark: [[31, 38, 47], [0, 114, 178], [160, 220, 255]]};

// Colours grow faster than weights: among 50 keys, a weight of 0.02 should still be seen.
const colourOf = (weight, scale) => {
  const at = 2 * Math.min(1, weight) ** 0.6, [from, to] = at < 1 ? scale : scale.slice(1);
  return from.map((c, n) => Math.round(c + (to[n] - c) * (at < 1 ? at : at - 1)));
};
const shade = (element, weight, scale) => {
  const colour = colourOf(weight, scale);
  const [r, g, b] = colour.map((c) =>
    (c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  element.style.background = `rgb(${colour})`;
  element.style.color = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
};
const setAll = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) element.removeAttribute(name); else element.setAttribute(name, value);
  }
};
const rounded = (x) => {
  if (x === 0) return "0";
  return Math.abs(x) < 0.0005 ? "< 0.001" : x.toFixed(3).replace("-", "−");
};

// What cannot be seen is drawn, and has a name for those who listen.
const WHITE = {" ": ["␣", "space"], "\n": ["↵", "newline"], "\t": ["⇥", "tab"],
  "\r": ["␍", "return"], "": ["∅", "empty"]};
const visible = (token) => [...token].map((c) => WHITE[c]?.[0] ?? c).join("") || WHITE[""][0];
const spoken = (token) => WHITE[token]?.[1] ?? token;

const bytesOf = (base64) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
const floats = (base64) => {
  const bytes = bytesOf(base64), view = new DataView(bytes.buffer);
  return Float32Array.from(range(bytes.length / 4), (n) => view.getFloat32(4 * n, true));
};
