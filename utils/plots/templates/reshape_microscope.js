// Okabe and Ito's colours, and the ink that is readable on each.
const COLOURS = [["#0072b2", "#fff"], ["#e69f00", "#000"], ["#009e73", "#000"], ["#d55e00", "#000"],
  ["#cc79a7", "#000"], ["#56b4e9", "#000"], ["#f0e442", "#000"], ["#50555c", "#fff"]];

const rowMajor = (shape) => shape.map((_, axis) => shape.slice(axis + 1).reduce((a, n) => a * n, 1));
const tuple = (numbers) => `(${numbers.join(", ")})`;
const place = (tensor, index) => index.reduce((at, n, axis) => at + n * tensor.strides[axis], 0);
const indexOf = (tensor, offset) =>
  tensor.shape.map((n, axis) => Math.floor(offset / tensor.strides[axis]) % n);
// Contiguous as PyTorch means it: strides of an axis of size 1 do not count.
const contiguous = (tensor) => rowMajor(tensor.shape).every(
  (stride, axis) => tensor.shape[axis] === 1 || stride === tensor.strides[axis]);

figures("reshape-microscope", (root, {batch, length, heads, d_head: dHead}) => {
  const get = (id) => root.getElementById(id);
  const dimensions = heads * dHead, size = length * dimensions;
  const state = {torn: false, offset: Math.min(3, length - 1) * dimensions + (dimensions >> 1)};
  const dense = (code, axes, shape) => ({code, axes, shape, strides: rowMajor(shape)});
  const x = dense("x", "(b, i, e)", [batch, length, dimensions]);
  const view = dense(`x.view${tuple([batch, length, heads, dHead])}`, "(b, i, h, d)",
    [batch, length, heads, dHead]);
  const swap = ([b, i, h, d]) => [b, h, i, d];
  const split = {code: ".transpose(1, 2)", axes: "(b, h, i, d)", shape: swap(view.shape),
    strides: swap(view.strides)};
  const torn = dense(`x.view${tuple(split.shape)}`, "(b, h, i, d)", split.shape);
  const tokenOf = (offset) => Math.floor(offset / dimensions) % length;
  const result = () => (state.torn ? torn : split);
  const example = () => Math.floor(state.offset / size);

  const select = (offset) => { state.offset = offset; draw(); };
  const paint = (cell, offset) => {
    const [colour, ink] = COLOURS[tokenOf(offset) % COLOURS.length];
    cell.style.background = colour;
    cell.style.color = ink;
    cell.dataset.offset = offset;
    cell.dataset.token = tokenOf(offset);
    cell.classList.toggle("chosen", offset === state.offset);
  };

  // A grid of length × dimensions cells; `at(i, h, d)` is the offset that row i, head h, d shows.
  const grid = (id, label, at) => {
    const cells = range(length).map(() => range(dimensions).map(() =>
      make("div", {class: "cell", role: "gridcell"})));
    const rows = cells.map((row, i) => make("div", {class: "row", role: "row"},
      make("span", {class: "label", role: "rowheader"}, String(i)),
      ...range(heads).map((h) => make("div", {class: "group", role: "presentation"},
        ...row.slice(h * dHead, (h + 1) * dHead)))));
    const body = make("div", {role: "grid", "aria-label": label}, ...rows);
    const foot = make("div", {class: "row"},
      ...range(heads).map(() => make("span", {class: "head"})));
    get(id).append(body, foot);
    const offsetAt = (i, c) => at(Math.floor(c / dHead), i, c % dHead);
    const everywhere = range(length).flatMap((i) => range(dimensions).map((c) => [i, c]));
    const find = () => everywhere.find(([i, c]) => offsetAt(i, c) === state.offset);
    body.addEventListener("pointerdown", (event) => {
      const cell = event.target.closest(".cell");
      if (cell) select(Number(cell.dataset.offset));
    });
    body.addEventListener("keydown", (event) => {
      const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
        Home: [0, -dimensions], End: [0, dimensions]}[event.key];
      if (!step) return;
      event.preventDefault();
      const [i, c] = find();
      const within = (n, end) => Math.max(0, Math.min(end - 1, n));
      select(offsetAt(within(i + step[0], length), within(c + step[1], dimensions)));
      body.querySelector(".chosen").focus();
    });
    const drawGrid = () => everywhere.forEach(([i, c]) => {
      const cell = cells[i][c], offset = offsetAt(i, c);
      paint(cell, offset);
      cell.textContent = offset;
      cell.tabIndex = offset === state.offset ? 0 : -1;
      cell.setAttribute("aria-selected", offset === state.offset);
      cell.setAttribute("aria-label", `offset ${offset}, token ${tokenOf(offset)}`);
    });
    return {drawGrid, foot: [...foot.children], offsetAt};
  };
  const grids = [
    grid("x", "x, one token a row", (h, i, d) => place(x, [example(), i, h * dHead + d])),
    grid("view", "x viewed as (b, i, h, d)", (h, i, d) => place(view, [example(), i, h, d])),
    grid("panels", "the heads, (b, h, i, d)", (h, i, d) => place(result(), [example(), h, i, d])),
  ];

  const strip = get("strip");
  strip.append(...range(size).map(() => make("i")));
  const scrub = (event) => {
    const box = strip.getBoundingClientRect();
    const n = Math.floor((event.clientX - box.left) / box.width * size);
    select(example() * size + Math.max(0, Math.min(size - 1, n)));
  };
  strip.addEventListener("pointerdown", (event) => {
    strip.setPointerCapture(event.pointerId);
    scrub(event);
  });
  strip.addEventListener("pointermove", (event) => event.buttons && scrub(event));
  strip.addEventListener("keydown", (event) => {
    const n = state.offset % size;
    const to = {ArrowLeft: n - 1, ArrowDown: n - 1, ArrowRight: n + 1, ArrowUp: n + 1,
      PageDown: n - dimensions, PageUp: n + dimensions, Home: 0, End: size - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(example() * size + Math.max(0, Math.min(size - 1, to)));
  });

  // Equal neighbours along the memory of the example, as labelled runs.
  const drawRuns = (id, value, label) => {
    const runs = [];
    for (const n of range(size)) {
      const v = value(example() * size + n);
      if (runs.at(-1)?.v === v) runs.at(-1).n += 1; else runs.push({v, n: 1});
    }
    get(id).replaceChildren(...runs.map(({v, n}) =>
      make("span", {style: `--n: ${n}`}, n >= size / 10 ? `${label} ${v}` : String(v))));
  };

  const drawHeads = (headOf) => {
    const everyPlace = range(size).map((n) => example() * size + n);
    const held = range(heads).map((h) =>
      new Set(everyPlace.filter((offset) => headOf(offset) === h).map(tokenOf)).size);
    grids[1].foot.forEach((foot, h) => { foot.textContent = `head ${h}`; });
    grids[2].foot.forEach((foot, h) => {
      foot.replaceChildren(`head ${h}`, make("br"), `${held[h]} of ${length} tokens`);
      foot.classList.toggle("bad", held[h] < length);
      foot.dataset.tokens = held[h];
    });
    const inPlace = everyPlace.filter(
      (offset) => tuple(indexOf(split, offset)) === tuple(indexOf(result(), offset))).length / size;
    const verdict = get("verdict"), percent = `${Math.round(inPlace * 100)} %`;
    verdict.classList.toggle("bad", inPlace < 1);
    verdict.dataset.inPlace = inPlace;
    verdict.textContent = inPlace < 1
      ? `Same shape ${tuple(torn.shape)}, torn heads: head 0 holds ${held[0]} of ${length} tokens, `
        + `and ${percent} of the numbers are in place.`
      : `Every head holds all ${length} tokens, row i is token i: ${percent} of the numbers in place.`;
  };

  const drawFacts = () => {
    const [b, i, e] = indexOf(x, state.offset), [, h, , d] = indexOf(split, state.offset);
    const [, toHead, toRow] = indexOf(result(), state.offset);
    const lost = toHead !== h || toRow !== i;
    const sentence = lost
      ? `It belongs to head ${h}, row ${i}. The torn view puts it into head ${toHead}, row ${toRow}.`
      : `It is in head ${toHead}, row ${toRow}, where it belongs.`;
    const terms = x.strides.map((stride, axis) => `${[b, i, e][axis]}·${stride}`).join(" + ");
    get("facts").replaceChildren(
      make("b", {}, `token ${i}, dimension ${e}`), ` of example ${b}`, make("br"),
      `dimension ${e} = ${h}·${dHead} + ${d}: head ${h}, d = ${d}`, make("br"),
      `offset ${state.offset} = ${terms}`, make("br"), sentence);
    get("status").textContent = `Offset ${state.offset}: token ${i}, dimension ${e}. ${sentence}`;
    strip.setAttribute("aria-valuemin", b * size);
    strip.setAttribute("aria-valuemax", (b + 1) * size - 1);
    strip.setAttribute("aria-valuenow", state.offset);
    strip.setAttribute("aria-valuetext", `offset ${state.offset}, token ${i}, dimension ${e}`);
  };

  const drawTables = () => {
    const tensors = state.torn ? [x, torn] : [x, view, split];
    const describe = (t) => [t.code, tuple(t.shape), tuple(t.strides),
      contiguous(t) ? "yes" : "no", `[${indexOf(t, state.offset).join(", ")}]`,
      `${indexOf(t, state.offset).map((n, axis) => `${n}·${t.strides[axis]}`).join(" + ")} = `
        + place(t, indexOf(t, state.offset))];
    fillTable(get("index"), "The same number in every shape: index times strides is its offset",
      [["tensor", "shape", "strides", "contiguous", "index", "offset"],
        ...tensors.map(describe)]);
    const row = ([h, i]) => {
      const offsets = range(dHead).map((d) => place(result(), [example(), h, i, d]));
      return [`head ${h}, row ${i}`, offsets.join(" "),
        [...new Set(offsets.map(tokenOf))].join(" and ")];
    };
    fillTable(get("rows"), `Example ${example()}: which tokens each row of a head holds`,
      [["row", "offsets", "tokens"],
        ...range(heads).flatMap((h) => range(length).map((i) => row([h, i])))]);
  };

  const draw = () => {
    root.querySelector(".figure").classList.toggle("torn", state.torn);
    grids.forEach((g) => g.drawGrid());
    [...strip.children].forEach((cell, n) => paint(cell, example() * size + n));
    const headOf = (offset) => indexOf(result(), offset)[1];
    drawRuns("tokens", tokenOf, "token");
    drawRuns("heads", headOf, "head");
    get("code").textContent = state.torn ? `torn = ${torn.code}` : `split = ${view.code}${split.code}`;
    drawHeads(headOf);
    drawFacts();
    drawTables();
  };

  get("x-code").textContent = `x ${x.axes} ${tuple(x.shape)}`;
  get("view-code").textContent = `${view.axes} ${tuple(view.shape)}`;
  get("panels-code").textContent = `${split.axes} ${tuple(split.shape)}`;
  get("dealt").textContent = `${dHead} to a row, ${length} rows to a head`;
  choices(get("example"), range(batch).map((b) => [b, String(b)]), 0,
    (b) => select(b * size + state.offset % size));
  choices(get("mode"), [[false, "view, then transpose"], [true, "torn: view alone"]], false,
    (value) => { state.torn = value; draw(); });
  draw();
});
