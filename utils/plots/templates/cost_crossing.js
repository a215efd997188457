const WIDTHS = [128, 256, 512, 768, 1024, 2048, 4096, 8192], HEADS = [1, 2, 4, 8, 16, 32];
const FIRST = 3, LAST = 17, FINE = 8;   // n from 2 ** 3 to 2 ** 17, in eighths of a doubling

// As utils.measure.costs has them: operations of the matrix products, elements held at the peak.
const costs = (n, width, heads) => ({
  arithmetic: {rows: 8 * n * width ** 2, matrices: 4 * n ** 2 * width},
  memory: {rows: 6 * n * width, matrices: 2 * heads * n ** 2},
});
const shareOf = ({rows, matrices}) => matrices / (rows + matrices);
const across = (n) => 100 * (Math.log2(n) - FIRST) / (LAST - FIRST);
const lengthAt = (step) => Math.round(2 ** (step / FINE));

// Three digits and a prefix: 8.05 G.
const short = (x) => {
  const at = Math.max(0, Math.floor(Math.log10(x) / 3 + 1e-12)), shown = x / 1000 ** at;
  if (at === 0) return String(x);
  const text = shown.toPrecision(3);
  return text === "1.00e+3" ? `1.00 ${"kMGTP"[at]}` : `${text} ${"kMGTP"[at - 1]}`;
};
const plain = (x) => (x < 10000 ? String(x) : String(x).replace(/\B(?=(\d{3})+$)/g, "\u2009"));
const percent = (share) => `${(100 * share).toFixed(share > 0.995 || share < 0.005 ? 1 : 0)} %`;

figures("cost-crossing", (root, config) => {
  const get = (id) => root.getElementById(id);
  const state = {width: config.d_model, heads: config.n_heads,
    step: Math.round(Math.log2(config.n) * FINE)};
  const kinds = ["arithmetic", "memory"];
  const crossing = {arithmetic: () => 2 * state.width, memory: () => 3 * state.width / state.heads};
  const names = {arithmetic: "2 · d_model", memory: "3 · d_head"};

  const drawCurve = (kind) => {
    const points = range((LAST - FIRST) * FINE + 1).map((k) => {
      const n = 2 ** (FIRST + k / FINE);
      const down = 100 * (1 - shareOf(costs(n, state.width, state.heads)[kind]));
      return `${across(n).toFixed(2)} ${down.toFixed(2)}`;
    });
    get(`curve-${kind}`).setAttribute("d", `M${points.join("L")}`);
    const at = crossing[kind](), mark = get(`mark-${kind}`), line = get(`cross-${kind}`);
    mark.textContent = `${names[kind]} = ${plain(at)}`;
    mark.dataset.n = at;
    mark.style.setProperty("--at", `${across(at)}%`);
    line.setAttribute("x1", across(at));
    line.setAttribute("x2", across(at));
  };

  const draw = () => {
    const n = lengthAt(state.step), found = costs(n, state.width, state.heads);
    const shares = {arithmetic: shareOf(found.arithmetic), memory: shareOf(found.memory)};
    kinds.forEach(drawCurve);
    get("cursor").style.setProperty("--at", `${across(n)}%`);
    kinds.forEach((kind) => {
      get(`dot-${kind}`).style.setProperty("--down", `${100 * (1 - shares[kind])}%`);
    });
    const said = `n = ${plain(n)}: the attention matrices have ${percent(shares.arithmetic)} of `
      + `the operations and ${percent(shares.memory)} of the memory`;
    get("verdict").textContent = `${said}.`;
    get("status").textContent = `${said}.`;
    const plane = get("plane");
    plane.setAttribute("aria-valuemin", lengthAt(FIRST * FINE));
    plane.setAttribute("aria-valuemax", lengthAt(LAST * FINE));
    plane.setAttribute("aria-valuenow", n);
    plane.setAttribute("aria-valuetext", said);
    const {arithmetic, memory} = found, bytes = 4 * (memory.rows + memory.matrices);
    fillTable(get("numbers"), `${plain(n)} tokens, d_model ${state.width}, ${state.heads} head`
      + `${state.heads > 1 ? "s" : ""} of ${state.width / state.heads}; in float32 `
      + `${short(bytes)}B at the peak`, [
      ["", "rows", "matrices", "share"],
      ["operations", short(arithmetic.rows), short(arithmetic.matrices), percent(shares.arithmetic)],
      ["elements held", short(memory.rows), short(memory.matrices), percent(shares.memory)]]);
    [...get("numbers").tBodies[0].rows].forEach((row, k) => {
      const {rows, matrices} = found[kinds[k]];
      [rows, matrices, shares[kinds[k]]].forEach((x, c) => { row.cells[c + 1].dataset.value = x; });
    });
    get("width").textContent = plain(state.width);
    get("model").setAttribute("aria-valuetext", String(state.width));
  };

  const move = (step) => {
    state.step = Math.max(FIRST * FINE, Math.min(LAST * FINE, step));
    draw();
  };
  const plane = get("plane");
  const scrub = (event) => {
    const box = plane.getBoundingClientRect();
    move(Math.round(FINE * (FIRST + (LAST - FIRST) * (event.clientX - box.left) / box.width)));
  };
  plane.addEventListener("pointerdown", (event) => {
    plane.setPointerCapture(event.pointerId);
    scrub(event);
  });
  plane.addEventListener("pointermove", (event) => event.buttons && scrub(event));
  plane.addEventListener("keydown", (event) => {
    const to = {ArrowLeft: state.step - 1, ArrowDown: state.step - 1, ArrowRight: state.step + 1,
      ArrowUp: state.step + 1, PageDown: state.step - FINE, PageUp: state.step + FINE,
      Home: FIRST * FINE, End: LAST * FINE}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(to);
  });

  const label = (text, at, odd) => {
    const span = make("span", odd ? {class: "odd"} : {}, text);
    span.style.setProperty("--at", `${at}%`);
    return span;
  };
  get("across").append(...range(LAST - FIRST).filter((k) => k % 2 === 0).map((k) => {
    const n = 2 ** (FIRST + 1 + k);
    return label(plain(n), across(n), k % 4 === 0);
  }));
  get("up").append(...[0, 25, 50, 75, 100].map((share) => {
    const span = make("span", {}, `${share} %`);
    span.style.top = `${100 - share}%`;
    return span;
  }));
  get("grid").setAttribute("d", [0, 25, 50, 75].map((down) => `M0 ${down}H100`).join("")
    + range(LAST - FIRST).map((k) => `M${across(2 ** (FIRST + 1 + k))} 0V100`).join(""));
  const model = get("model");
  model.max = WIDTHS.length - 1;
  model.value = WIDTHS.indexOf(state.width);
  model.addEventListener("input", () => { state.width = WIDTHS[model.value]; draw(); });
  choices(get("heads"), HEADS.map((h) => [h, String(h)]), state.heads,
    (heads) => { state.heads = heads; draw(); });
  draw();
});
