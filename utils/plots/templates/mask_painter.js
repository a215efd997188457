const FILLS = [["-inf", "−inf"], ["-1e9", "−1e9"], ["lowest", "dtype's min"],
  ["zeros", "our contract"]];
const PYTHON = {"-inf": "-np.inf", "-1e9": "-1e9", lowest: "np.finfo(scores.dtype).min"};
const BLUE = [0, 114, 178], ORANGE = [213, 94, 0];

// A background between paper and a colour, strength 0..1, and the ink with more contrast on it.
const shade = (cell, strength, colour, dark) => {
  const paper = dark ? [31, 38, 47] : [242, 244, 247];
  const mixed = colour.map((c, n) => Math.round(paper[n] + (c - paper[n]) * strength));
  const [r, g, b] = mixed.map((c) =>
    (c <= 10 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  cell.style.background = `rgb(${mixed})`;
  cell.style.color = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
};
const round2 = (x) => (Number.isNaN(x) ? "NaN" : x === 0 ? "0" : x.toFixed(2).replace("-", "−"));

figures("mask-painter", (root, {q, k, v, lengths, empty}) => {
  const get = (id) => root.getElementById(id);
  const figure = root.querySelector(".figure"), map = get("weights");
  const nQ = q[0].length, nK = k[0].length, queries = range(nQ), keys = range(nK);
  const state = {example: 0, causal: "off", fill: "-1e9", add: false, dtype: "float32",
    lengths, at: [empty ?? 0, 0],   // `at`: the cell that has, or would get, the focus
    hand: q.map(() => queries.map(() => keys.map(() => null)))};
  if (empty !== null) state.hand[0][empty].fill(false);

  // What length and causal say; a cell painted by hand overrules them.
  const rule = (i, j) => j < state.lengths[state.example]
    && (state.causal === "off" || j <= i + (state.causal === "bottom_right" ? nK - nQ : 0));
  const keeps = (i, j) => state.hand[state.example][i][j] ?? rule(i, j);
  const set = (i, j, keep) => {
    state.hand[state.example][i][j] = keep === rule(i, j) ? null : keep;
  };
  const scoresOf = (i) => keys.map((j) => q[state.example][i].reduce(
    (total, x, d) => total + x * k[state.example][j][d], 0) / Math.sqrt(q[0][0].length));

  // Two maps with the same rows; `build` fills a table and returns its cells.
  const heading = (text) => make("th", {scope: "col"}, text);
  const build = (table, name, note, columns, rowHead, rowEnd, cellKind) => {
    const cells = queries.map(() => range(columns).map(() =>
      make("td", cellKind, make("span"))));
    table.append(make("caption", {}, make("b", {}, name), note),
      make("thead", {}, make("tr", {}, make("th", {scope: "col", class: "corner"}, "i"),
        ...range(columns).map((n) => heading(String(n))), ...(rowEnd ? [heading("sum")] : []))),
      make("tbody", {}, ...queries.map((i) => make("tr", {},
        make("th", {scope: "row"}, rowHead(i)), ...cells[i], ...(rowEnd ? [rowEnd[i]] : [])))));
    return cells;
  };
  const buttons = queries.map((i) => make("button", {type: "button"}, String(i)));
  const sumCells = queries.map(() => make("td", {class: "sum"}));
  const weightCells = build(map, "weights", " queries i down, keys j across", nK,
    (i) => buttons[i], sumCells, {class: "cell paint", role: "gridcell"});
  const contextCells = v && build(get("context"), "context", " what comes out, weights @ v",
    v[0][0].length, String, null, {class: "cell"});
  if (!v) get("context").remove();
  map.setAttribute("role", "grid");
  map.setAttribute("aria-multiselectable", "true");

  const compute = () => {
    const keep = queries.map((i) => keys.map((j) => keeps(i, j)));
    const weights = queries.map((i) =>
      maskedSoftmax(scoresOf(i), keep[i], state.fill, state.add, state.dtype));
    return {keep, weights, sums: weights.map((row) => sum(row, "float64")),
      empty: queries.filter((i) => !keep[i].includes(true)),
      context: v ? weights.map((row) => contextOf(row, v[state.example], state.dtype)) : []};
  };

  const drawCell = (cell, value, strength, colour) => {
    const isNaN = Number.isNaN(value);
    cell.firstChild.textContent = round2(value);
    cell.dataset.value = value;
    cell.classList.toggle("nan", isNaN);
    shade(cell, isNaN ? 0 : Math.min(1, strength), colour, figure.classList.contains("dark"));
  };

  const drawMaps = ({keep, weights, sums, empty, context}) => {
    for (const i of queries) {
      const isEmpty = empty.includes(i);
      map.tBodies[0].rows[i].classList.toggle("empty", isEmpty);
      buttons[i].setAttribute("aria-label",
        `query ${i}: ${isEmpty ? "unmask all its keys" : "mask all its keys"}`);
      sumCells[i].textContent = Number.isNaN(sums[i]) ? "NaN" : sums[i].toFixed(3);
      sumCells[i].dataset.value = sums[i];
      for (const j of keys) {
        const cell = weightCells[i][j], kept = keep[i][j];
        drawCell(cell, weights[i][j], weights[i][j] ** 0.7, BLUE);
        cell.classList.toggle("masked", !kept);
        cell.classList.toggle("by-hand", state.hand[state.example][i][j] !== null);
        cell.tabIndex = i === state.at[0] && j === state.at[1] ? 0 : -1;
        cell.setAttribute("aria-selected", kept);
        cell.setAttribute("aria-label",
          `query ${i}, key ${j}: ${kept ? "" : "masked, "}weight ${round2(weights[i][j])}`);
      }
      context[i]?.forEach((x, c) =>
        drawCell(contextCells[i][c], x, Math.abs(x) / 2, x < 0 ? ORANGE : BLUE));
      if (v) get("context").tBodies[0].rows[i].classList.toggle("empty", isEmpty);
    }
    keys.forEach((j) => map.tHead.rows[0].cells[j + 1].classList.toggle(
      "padding", j >= state.lengths[state.example]));
  };

  const FATES = {
    zeros: ["zeros", ": the context is zero, and so is the gradient."],
    nan: ["NaN", ". The largest score is −inf, and −inf − (−inf) is not a number."],
    uniform: [`uniform weights, 1/${nK} on every key`, ", although all of them are masked."],
    unmasked: ["the row without a mask", ". The same number was added to all scores, so their "
      + "differences are the same, and softmax depends on nothing else."],
    mixed: ["a mixture", ". Rounding made some of the scores equal, and others not."],
  };
  const drawVerdict = ({weights, empty}) => {
    const i = empty.includes(state.at[0]) ? state.at[0] : empty[0], verdict = get("verdict");
    const fate = i === undefined ? "none" : fateOf(weights[i], softmax(scoresOf(i), "float64"));
    const parts = ["No row is fully masked, so the mask value makes no difference."];
    if (fate !== "none") {
      const fill = Object.fromEntries(FILLS)[state.fill];
      const how = {zeros: "Our contract gives"}[state.fill]
        ?? `If ${fill} ${state.add ? "is added to" : "replaces"} its scores, ${state.dtype} gives`;
      parts.splice(0, 1, `The row of query ${i} is fully masked. ${how} `,
        make("b", {}, FATES[fate][0]), FATES[fate][1]);
      if (state.fill === "-1e9" && state.dtype === "float16") {
        parts.push(" The lowest number of float16 is −65504, so −1e9 has become −inf.");
      }
    }
    const before = verdict.textContent, text = make("p", {}, ...parts);
    if (before !== text.textContent) verdict.replaceChildren(...text.childNodes);
    verdict.classList.toggle("bad", !["none", "zeros"].includes(fate));
    verdict.dataset.fate = fate;
  };

  const drawCode = () => {
    const painted = state.hand.flat(2).filter((cell) => cell !== null).length;
    const keep = [`masks.padding([${state.lengths.join(", ")}], n_k=${nK})`];
    if (state.causal !== "off") keep.push(`masks.causal(${nQ}, ${nK}, align="${state.causal}")`);
    const lines = [`keep = ${keep.join(" & ")}`];
    if (painted) lines.push(`# … and ${painted} cell${painted > 1 ? "s" : ""} painted by hand`);
    const fill = PYTHON[state.fill];
    if (state.fill === "zeros") lines.push("weights = masked_softmax(scores, keep)");
    else if (state.add) lines.push(`fill = np.where(keep, 0, ${fill}).astype(np.${state.dtype})`,
      "weights = softmax(scores + fill)");
    else lines.push(`weights = softmax(np.where(keep, scores, ${fill}))  # ${state.dtype}`);
    get("code").textContent = lines.join("\n");
    get("clear").disabled = painted === 0;
  };

  const drawTable = ({keep, weights, sums, context}) => {
    const digits = (x) => (Number.isNaN(x) ? "NaN" : String(Number(x.toPrecision(6))));
    fillTable(get("numbers"),
      `Weights of example ${state.example} in ${state.dtype}; [masked] keys in brackets`,
      [["query", ...keys.map((j) => `key ${j}`), "sum",
        ...(context[0] ?? []).map((_, c) => `context ${c}`)],
      ...queries.map((i) => [String(i),
        ...weights[i].map((w, j) => (keep[i][j] ? digits(w) : `[${digits(w)}]`)),
        digits(sums[i]), ...(context[i] ?? []).map(digits)])]);
  };

  const draw = () => {
    const now = compute();
    get("length").value = state.lengths[state.example];
    get("length-is").textContent = `${state.lengths[state.example]} of ${nK}`;
    get("add").disabled = state.fill === "zeros";
    drawMaps(now);
    drawVerdict(now);
    drawCode();
    drawTable(now);
  };

  // Painting: the first cell decides whether this stroke masks or unmasks.
  let stroke = null;
  const placeOf = (element) => {
    const cell = element?.closest(".paint");
    const i = weightCells.findIndex((row) => row.includes(cell));
    return i < 0 ? null : [i, weightCells[i].indexOf(cell)];
  };
  const paint = (place) => {
    set(...place, stroke.keep);
    state.at = place;
    draw();
  };
  map.addEventListener("pointerdown", (event) => {
    const place = placeOf(event.target);
    if (!place || event.button) return;
    stroke = {keep: !keeps(...place), before: structuredClone(state.hand)};
    map.setPointerCapture(event.pointerId);
    paint(place);
  });
  map.addEventListener("pointermove", (event) => {
    const place = stroke && placeOf(root.elementFromPoint(event.clientX, event.clientY));
    if (place && keeps(...place) !== stroke.keep) paint(place);
  });
  map.addEventListener("pointerup", () => { stroke = null; });
  map.addEventListener("pointercancel", () => {   // the finger was scrolling the page
    if (stroke) state.hand = stroke.before;
    stroke = null;
    draw();
  });
  map.addEventListener("keydown", (event) => {
    const place = placeOf(event.target);
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      " ": [0, 0], Enter: [0, 0]}[event.key];
    if (!place || !step) return;
    event.preventDefault();
    if (!step[0] && !step[1]) set(...place, !keeps(...place));
    state.at = place.map((n, axis) => Math.max(0, Math.min([nQ, nK][axis] - 1, n + step[axis])));
    draw();
    weightCells[state.at[0]][state.at[1]].focus();
  });
  buttons.forEach((button, i) => button.addEventListener("click", () => {
    const show = keys.every((j) => !keeps(i, j));
    keys.forEach((j) => set(i, j, show));
    state.at = [i, 0];
    draw();
  }));
  get("clear").addEventListener("click", () => {
    state.hand.flat().forEach((row) => row.fill(null));
    draw();
  });
  get("length").max = nK;
  get("length").addEventListener("input", (event) => {
    state.lengths[state.example] = Number(event.target.value);
    draw();
  });

  const switches = {
    example: q.map((_, b) => [b, String(b)]),
    causal: [["off", "off"], ["top_left", "upper left"], ["bottom_right", "lower right"]],
    fill: FILLS,
    add: [[false, "replaces"], [true, "is added"]],
    dtype: Object.keys(ROUND).map((name) => [name, name]),
  };
  for (const [name, options] of Object.entries(switches)) {
    choices(get(name), options, state[name], (value) => { state[name] = value; draw(); });
  }
  new MutationObserver(draw).observe(figure, {attributeFilter: ["class"]});
  draw();
});
