const SIDE = 320, REACH = 4.5, UNIT = SIDE / (2 * REACH), LIMIT = 4;
const svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(svg.space, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};
const across = (x) => SIDE / 2 + x * UNIT, down = (y) => SIDE / 2 - y * UNIT;
const minus = (text) => text.replace("-", "−");
const short = (x) => minus(String(Number(x.toFixed(1))));
const point = (vector, show = short) => `(${vector.map(show).join(", ")})`;
const exact = (digits) => (x) => minus((Math.abs(x) < 0.5 * 10 ** -digits ? 0 : x).toFixed(digits));

figures("three-tokens", (root, {tokens, q, k, v}) => {
  const get = (id) => root.getElementById(id), all = range(tokens.length);
  svg.space = get("match").namespaceURI;
  const start = {q, k, v, at: tokens.length - 1}, state = structuredClone(start);

  const compute = () => {
    const scores = state.k.map((key) => key[0] * state.q[state.at][0]
      + key[1] * state.q[state.at][1]);
    const weights = softmax(scores, "float64");
    return {scores, weights, context: contextOf(weights, state.v, "float64")};
  };

  // An arrow from the origin; `vector` finds the numbers to move, null for one that only shows.
  const arrow = (plane, kind, name, vector) => {
    const parts = {line: svg("line"), head: svg("path"), text: svg("text"),
      knob: svg("circle", {class: "knob", r: 6}), grip: svg("circle", {class: "grip", r: 17})};
    const group = svg("g", {class: `arrow ${kind}`}, parts.line, parts.head, parts.text,
      ...(vector ? [parts.knob, parts.grip] : []));
    get(plane).append(group);
    if (vector) movable(group, plane, name, vector);
    return {group, parts, name, vector};
  };
  const place = ({group, parts, name, vector}, [x, y]) => {
    const far = Math.hypot(x, y), angle = Math.atan2(y, x);
    const tip = [across(x), down(y)];
    parts.line.setAttribute("x1", across(0));
    parts.line.setAttribute("y1", down(0));
    parts.line.setAttribute("x2", tip[0]);
    parts.line.setAttribute("y2", tip[1]);
    const wing = (turn) => `${tip[0] - 11 * Math.cos(angle + turn)},`
      + `${tip[1] + 11 * Math.sin(angle + turn)}`;
    parts.head.setAttribute("d", far < 0.3 || vector ? ""
      : `M${tip} L${wing(0.45)} L${wing(-0.45)} Z`);
    const left = x < -0.3, label = name(), main = group.classList.contains("main");
    parts.text.textContent = main ? label.split(" ")[0] : label.split(" of ")[1];
    parts.text.setAttribute("x", tip[0] + (left ? -11 : 11));
    parts.text.setAttribute("y", tip[1] + (y < 0 || (main && vector) ? 19 : -9));
    parts.text.setAttribute("text-anchor", left || tip[0] > SIDE - 75 ? "end" : "start");
    for (const circle of [parts.knob, parts.grip]) {
      circle.setAttribute("cx", tip[0]);
      circle.setAttribute("cy", tip[1]);
    }
    if (!vector) return;
    group.setAttribute("aria-label", label);
    group.setAttribute("aria-valuenow", Number(x.toFixed(1)));
    group.setAttribute("aria-valuetext", point([x, y]));
  };
  const movable = (group, plane, name, vector) => {
    const put = (x, y) => {
      const kept = (n) => Math.max(-LIMIT, Math.min(LIMIT, Math.round(n * 10) / 10));
      vector().splice(0, 2, kept(x), kept(y));
      draw();
    };
    group.classList.add("movable");
    for (const [key, value] of Object.entries({tabindex: 0, role: "slider",
      "aria-valuemin": -LIMIT, "aria-valuemax": LIMIT})) group.setAttribute(key, value);
    let held = false;
    group.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      held = true;
      group.setPointerCapture(event.pointerId);
      event.preventDefault();
      group.focus({focusVisible: false, preventScroll: true});
    });
    group.addEventListener("pointermove", (event) => {
      if (!held) return;
      const box = get(plane).getBoundingClientRect();
      put((event.clientX - box.left) / box.width * 2 * REACH - REACH,
        REACH - (event.clientY - box.top) / box.height * 2 * REACH);
    });
    // `touch-action` has no effect on parts of an SVG; without this a finger would scroll the page.
    group.addEventListener("touchstart", (event) => event.preventDefault(), {passive: false});
    for (const end of ["pointerup", "pointercancel"]) {
      group.addEventListener(end, () => { held = false; });
    }
    group.addEventListener("keydown", (event) => {
      const step = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1],
        ArrowDown: [0, -1]}[event.key];
      if (!step) return;
      event.preventDefault();
      const size = event.shiftKey ? 1 : 0.1, [x, y] = vector();
      put(x + size * step[0], y + size * step[1]);
    });
  };

  for (const plane of [get("match"), get("mix")]) {
    for (const n of range(9).map((step) => step - 4)) {
      const kind = n === 0 ? "axis" : "grid";
      plane.append(
        svg("line", {class: kind, x1: across(n), x2: across(n), y1: 0, y2: SIDE}),
        svg("line", {class: kind, y1: down(n), y2: down(n), x1: 0, x2: SIDE}));
      if (n && n % 2 === 0) {
        plane.append(svg("text", {class: "tick", x: across(n), y: down(0) + 14}, minus(String(n))),
          svg("text", {class: "tick", x: across(0) - 11, y: down(n) + 4}, minus(String(n))));
      }
    }
  }
  const keyArrows = all.map((j) =>
    arrow("match", `t${j}`, () => `key of ${tokens[j]}`, () => state.k[j]));
  const queryArrow = arrow("match", "t3 main", () => `query of ${tokens[state.at]}`,
    () => state.q[state.at]);
  const valueArrows = all.map((j) =>
    arrow("mix", `t${j}`, () => `value of ${tokens[j]}`, () => state.v[j]));
  const contextArrow = arrow("mix", "t3 main", () => "context", null);

  const draw = () => {
    const {scores, weights, context} = compute();
    all.forEach((j) => {
      place(keyArrows[j], state.k[j]);
      place(valueArrows[j], state.v[j]);
      valueArrows[j].parts.line.style.strokeWidth = 1 + 6 * weights[j];
    });
    place(queryArrow, state.q[state.at]);
    place(contextArrow, context);
    fillTable(get("sums"), `query of ${tokens[state.at]}: ${point(state.q[state.at])}`,
      [["token", "key", "score", "weight", "value"], ...all.map((j) => [tokens[j],
        point(state.k[j]), exact(2)(scores[j]), exact(3)(weights[j]), point(state.v[j])])]);
    [...get("sums").tBodies[0].rows].forEach((row, j) => {
      row.className = `t${j}`;
      row.cells[0].prepend(make("i"));
      row.cells[3].append(make("span", {class: "bar", style: `--share: ${weights[j]}`}));
      row.cells[2].dataset.value = scores[j];
      row.cells[3].dataset.value = weights[j];
    });
    get("verdict").textContent = `context of ${tokens[state.at]} = `
      + weights.map((w, j) => `${exact(3)(w)} · ${point(state.v[j])}`).join(" + ")
      + ` = ${point(context, exact(2))}`;
    get("verdict").dataset.value = JSON.stringify(context);
  };
  choices(get("query"), tokens.map((token, i) => [i, token]), state.at,
    (i) => { state.at = i; draw(); });
  get("reset").addEventListener("click", () => {
    Object.assign(state, structuredClone({...start, at: state.at}));
    draw();
  });
  draw();
});
