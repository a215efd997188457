const LISTED = 5, RANKED = 3;   // keys whose weights are listed, heads with the highest scores
const hundredths = (x) => x.toFixed(2).replace("-", "−");

const PLURAL = {query: "queries", key: "keys"}, OTHER = {query: "key", key: "query"};

figures("head-browser", (root, {tokens, keys, shape, causal, weights, scores, start}) => {
  const get = (id) => root.getElementById(id);
  const figure = root.querySelector(".figure"), panes = root.querySelector(".panes");
  const map = get("map"), cursor = get("cursor");
  const [nLayers, nHeads, nQ, nK] = shape, numbers = floats(weights);
  const names = {query: tokens, key: keys ?? tokens};
  const state = {layer: start[0], head: start[1], by: "query", score: "", at: [0, 0]};
  let preview = null, cell = 0;   // `preview`: the place [i, j] under a pointer; pixels of a cell

  // Of causal weights, row i holds i + 1 numbers.
  const weightOf = (layer, head, i, j) => {
    const before = layer * nHeads + head;
    if (!causal) return numbers[(before * nQ + i) * nK + j];
    return j > i ? 0 : numbers[(before * nQ * (nQ + 1) + i * (i + 1)) / 2 + j];
  };
  const weight = (i, j) => weightOf(state.layer, state.head, i, j);
  const place = () => preview ?? state.at;
  // What a token sees, or who sees it: the row of a query, the column of a key.
  const lineOf = (n) => (state.by === "query" ? range(nK).map((j) => weight(n, j))
    : range(nQ).map((i) => weight(i, n)));
  const chosen = () => place()[state.by === "query" ? 0 : 1];
  const order = (values) => range(values.length).sort((a, b) => values[b] - values[a] || a - b);
  const strongest = (n) => {
    const most = order(lineOf(n))[0];
    return state.by === "query" ? [n, most] : [most, n];
  };
  const within = (n, end) => Math.max(0, Math.min(end - 1, n));
  const scale = () => SCALES[figure.classList.contains("dark") ? "dark" : "light"];
  const quoted = (side, n) => `${side} ${n} “${visible(names[side][n])}”`;
  const headName = () => `layer ${state.layer}, head ${state.head}`;

  const settle = (at) => {
    preview = null;
    state.at = at;
    draw();
    announce();
  };
  const goTo = (layer, head) => {
    Object.assign(state, {layer, head});
    settle(strongest(chosen()));
  };

  // The overview: a canvas for every head, one pixel for every weight.
  const thumbs = range(nLayers).map(() => range(nHeads).map(() => {
    const canvas = make("canvas", {width: nK, height: nQ, "aria-hidden": "true"});
    if (Math.max(nQ, nK) <= 24) canvas.style.imageRendering = "pixelated";
    return make("div", {class: "head", role: "gridcell"}, canvas,
      make("div", {class: "bar"}, make("i")), make("div", {class: "score"}));
  }));
  get("overview").append(
    make("div", {class: "row", role: "row"}, make("span", {role: "columnheader"},
      make("span", {class: "silent"}, "layer")), ...range(nHeads).map((head) => make("span",
      {role: "columnheader"}, make("span", {class: "silent"}, "head "), String(head)))),
    ...thumbs.map((row, layer) => make("div", {class: "row", role: "row"}, make("span",
      {role: "rowheader"}, make("span", {class: "silent"}, "layer "), String(layer)), ...row)));
  const everyHead = range(nLayers).flatMap((layer) => range(nHeads).map((head) => [layer, head]));

  const paintThumbs = () => everyHead.forEach(([layer, head]) => {
    const context = thumbs[layer][head].firstChild.getContext("2d");
    const image = context.createImageData(nK, nQ);
    for (const i of range(nQ)) {
      for (const j of range(causal ? i + 1 : nK)) {
        image.data.set([...colourOf(weightOf(layer, head, i, j), scale()), 255], 4 * (i * nK + j));
      }
    }
    context.putImageData(image, 0, 0);
  });

  const drawOverview = () => {
    const score = scores[state.score], flat = score?.flat() ?? [];
    const largest = Math.max(...flat, 0) || 1, top = order(flat)[0];
    panes.classList.toggle("scored", Boolean(score));
    everyHead.forEach(([layer, head], n) => {
      const thumb = thumbs[layer][head], here = layer === state.layer && head === state.head;
      thumb.classList.toggle("chosen", here);
      thumb.classList.toggle("top", n === top);
      thumb.tabIndex = here ? 0 : -1;
      thumb.setAttribute("aria-selected", here);
      thumb.setAttribute("aria-label", `layer ${layer}, head ${head}`
        + (score ? `, ${state.score} ${rounded(flat[n])}` : ""));
      thumb.dataset.score = score ? flat[n] : "";
      thumb.style.setProperty("--part", score ? Math.max(0, flat[n]) / largest : 0);
      thumb.lastChild.textContent = score ? hundredths(flat[n]) : "";
    });
  };
  const drawRanks = () => {
    const flat = scores[state.score]?.flat() ?? [];
    const buttons = order(flat).slice(0, RANKED).map((n) => {
      const [layer, head] = everyHead[n];
      const button = make("button", {type: "button", "data-head": everyHead[n],
        "aria-label": `layer ${layer}, head ${head}, ${state.score} ${rounded(flat[n])}`},
      `L${layer} H${head} `, make("b", {}, hundredths(flat[n])));
      button.addEventListener("click", () => goTo(layer, head));
      return button;
    });
    get("ranks").replaceChildren(...(buttons.length ? ["highest", ...buttons] : []));
  };

  get("overview").addEventListener("click", (event) => {
    const found = event.target.closest(".head");
    if (found) goTo(...everyHead[thumbs.flat().indexOf(found)]);
  });
  get("overview").addEventListener("keydown", (event) => {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      Home: [0, -nHeads], End: [0, nHeads]}[event.key];
    if (!step) return;
    event.preventDefault();
    goTo(within(state.layer + step[0], nLayers), within(state.head + step[1], nHeads));
    thumbs[state.layer][state.head].focus();
  });

  // The large map: one canvas, and one cell over it for the place that was chosen.
  const longest = (side) => Math.max(...names[side].map((token) => visible(token).length));
  const labels = {};
  for (const side of ["query", "key"]) {
    labels[side] = names[side].map((token) => make("span", {}, visible(token)));
    get(side === "query" ? "queries" : "keys").append(...labels[side]);
  }
  get("keys").classList.toggle("long", longest("key") > 1);
  get("queries").classList.toggle("long", longest("query") > 1);
  const labelWidth = 8 * Math.min(9, longest("query")) + 6;
  for (const [name, value] of Object.entries({"--heads": nHeads, "--n-q": nQ, "--n-k": nK,
    "--label": `${labelWidth}px`,
    "--left": `${Math.max(330, Math.min(470, 20 + 38 * nHeads))}px`})) {
    panes.style.setProperty(name, value);
  }
  panes.classList.toggle("many", nHeads > 8);
  panes.classList.toggle("short", nQ <= 24);
  map.setAttribute("aria-rowcount", nQ);
  map.setAttribute("aria-colcount", nK);

  const fit = () => {
    const room = get("map-pane").clientWidth - labelWidth - 4;
    const size = Math.max(3, Math.min(38, Math.floor(room / nK)));
    if (size === cell) return;
    cell = size;
    panes.style.setProperty("--cell", `${cell}px`);
    panes.classList.toggle("small", cell < 9);
    paintMap();
  };
  const paintMap = () => {
    const canvas = map.querySelector("canvas"), context = canvas.getContext("2d");
    const sharp = Math.max(1, Math.round(devicePixelRatio)), gap = cell < 7 ? 0 : 1;
    canvas.width = nK * cell * sharp;
    canvas.height = nQ * cell * sharp;
    context.scale(sharp, sharp);
    for (const i of range(nQ)) {
      for (const j of range(causal ? i + 1 : nK)) {
        context.fillStyle = `rgb(${colourOf(weight(i, j), scale())})`;
        context.fillRect(j * cell, i * cell, cell - gap, cell - gap);
      }
    }
  };
  const drawMap = () => {
    const [i, j] = place(), byQuery = state.by === "query";
    const box = (element, top, left, down, across) => Object.assign(element.style, {
      top: `calc(var(--cell) * ${top} - 2px)`, left: `calc(var(--cell) * ${left} - 2px)`,
      height: `calc(var(--cell) * ${down} + 3px)`, width: `calc(var(--cell) * ${across} + 3px)`});
    box(get("band"), byQuery ? i : 0, byQuery ? 0 : j, byQuery ? 1 : nQ, byQuery ? nK : 1);
    box(cursor, i, j, 1, 1);
    labels.query.forEach((label, n) => label.classList.toggle("on", n === i));
    labels.key.forEach((label, n) => label.classList.toggle("on", n === j));
    get("name").textContent = `Layer ${state.layer}, head ${state.head}`;
    map.setAttribute("aria-label", `weights of ${headName()}, queries down, keys across`);
    get("cursor-row").setAttribute("aria-rowindex", i + 1);
    cursor.setAttribute("aria-colindex", j + 1);
    cursor.setAttribute("aria-label", `query ${i}: ${spoken(names.query[i])}, key ${j}: `
      + `${spoken(names.key[j])}, weight ${rounded(weight(i, j))}`);
    Object.assign(cursor.dataset, {i, j, value: weight(i, j)});
    get("cell").textContent =
      `${quoted("query", i)}, ${quoted("key", j)}: ${rounded(weight(i, j))}`;
  };

  // The text: tokens to choose from, and tokens shaded by weight; the same ones without `keys`.
  const strips = {};
  for (const side of keys ? ["query", "key"] : ["query"]) {
    const items = names[side].map((token) => make("span", {}, visible(token)));
    const strip = make("div", {class: longest(side) > 1 ? "strip" : "strip letters"}, ...items);
    strips[side] = {strip, items};
    if (keys) get("strips").append(make("p", {class: "caption"}, PLURAL[side]));
    get("strips").append(strip);
  }
  strips.key ??= strips.query;

  const drawText = () => {
    const line = lineOf(chosen());
    for (const side of keys ? ["query", "key"] : [state.by]) {
      const {strip, items} = strips[side], chooses = side === state.by;
      const shown = !keys || !chooses;
      setAll(strip, {role: chooses ? "listbox" : "list",
        "aria-orientation": chooses ? "horizontal" : null,
        "aria-label": chooses ? `choose a ${side}` : PLURAL[side]});
      items.forEach((item, n) => {
        const here = chooses && n === chosen();
        item.classList.toggle("chosen", here);
        setAll(item, {role: chooses ? "option" : "listitem", "aria-selected": chooses ? here : null,
          tabindex: chooses ? (here ? 0 : -1) : null});
        item.setAttribute("aria-label", `${n}: ${spoken(names[side][n])}`
          + (shown ? `, weight ${rounded(line[n])}` : ""));
        item.dataset.value = shown ? line[n] : "";
        item.classList.toggle("later", shown && causal
          && (state.by === "query" ? n > chosen() : n < chosen()));
        if (shown) shade(item, line[n], scale()); else item.removeAttribute("style");
      });
    }
  };

  const drawNumbers = () => {
    const line = lineOf(chosen()), total = line.reduce((a, x) => a + x, 0), side = OTHER[state.by];
    const most = order(line).slice(0, LISTED).filter((n) => line[n] > 0);
    const rest = line.filter((x) => x > 0).length - most.length;
    const left = Math.max(0, total - most.reduce((a, n) => a + line[n], 0));
    const rows = most.map((n) => {
      const row = make("tr", {"data-n": n, "data-value": line[n]},
        make("th", {scope: "row"}, String(n)),
        make("td", {class: "token"}, visible(names[side][n])),
        make("td", {class: "length"}, make("i")), make("td", {}, rounded(line[n])));
      row.style.setProperty("--part", Math.min(1, line[n]));
      return row;
    });
    const what = state.by === "query" ? " looks at" : " is looked at by";
    const foot = state.by === "key" ? ["all queries together", total]
      : [rest > 1 ? `${rest} more keys together` : "1 more key", left];
    get("numbers").replaceChildren(
      make("caption", {}, make("b", {}, quoted(state.by, chosen())), what
        + (most.length ? "" : " nothing: every weight is 0")),
      make("tbody", {}, ...rows),
      make("tfoot", {}, ...(state.by === "query" && !rest ? [] : [make("tr", {},
        make("td", {colspan: 3}, foot[0]), make("td", {}, rounded(foot[1])))])));
  };

  const announce = () => {
    const [i, j] = state.at;
    get("status").textContent = `Layer ${state.layer}, head ${state.head}. Query ${i}: `
      + `${spoken(names.query[i])}, key ${j}: ${spoken(names.key[j])}, weight `
      + `${rounded(weight(i, j))}.`;
  };

  let painted = "";
  const draw = () => {
    if (painted !== headName()) paintMap();
    painted = headName();
    drawOverview();
    drawMap();
    drawText();
    drawNumbers();
  };

  // A pointer over the text or the map shows; letting go of it there chooses.
  const follow = (element, placeAt, choose) => {
    const look = (event) => {
      const before = String(preview);
      preview = placeAt(event);
      if (String(preview) !== before) draw();
    };
    const leave = () => { if (preview) { preview = null; draw(); } };
    element.addEventListener("pointerdown", look);
    element.addEventListener("pointermove", look);
    element.addEventListener("pointerup", (event) => {
      const at = placeAt(event);
      if (at && event.button === 0) choose(at);
    });
    element.addEventListener("pointerleave", leave);
    element.addEventListener("pointercancel", leave);   // the finger was scrolling the page
  };
  follow(map, (event) => {
    const box = map.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top) / cell);
    const j = Math.floor((event.clientX - box.left) / cell);
    return i >= 0 && i < nQ && j >= 0 && j < nK ? [i, j] : null;
  }, (at) => {
    settle(at);
    cursor.focus({preventScroll: true});
  });
  cursor.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      Home: [0, -nK], End: [0, nK], PageUp: [-nQ, 0], PageDown: [nQ, 0]}[event.key];
    if (!step) return;
    event.preventDefault();
    settle([within(state.at[0] + step[0], nQ), within(state.at[1] + step[1], nK)]);
  });
  for (const {strip, items} of new Set(Object.values(strips))) {
    const chooses = () => strip === strips[state.by].strip;
    follow(strip, (event) => {
      const n = items.indexOf(root.elementFromPoint(event.clientX, event.clientY));
      return n < 0 || !chooses() ? null : strongest(n);
    }, settle);
    strip.addEventListener("keydown", (event) => {
      const n = state.at[state.by === "query" ? 0 : 1];
      const to = {ArrowLeft: n - 1, ArrowUp: n - 1, ArrowRight: n + 1, ArrowDown: n + 1, Home: 0,
        End: items.length - 1}[event.key];
      if (to === undefined || !chooses()) return;
      event.preventDefault();
      settle(strongest(within(to, items.length)));
      items[chosen()].focus();
    });
  }

  const scored = Object.keys(scores);
  if (scored.length) {
    choices(get("score"), [["", "nothing"], ...scored.map((name) => [name, name])], "",
      (name) => {
        state.score = name;
        draw();
        drawRanks();
      });
  } else get("score-control").remove();
  choices(get("by"), [["query", "query: where it looks"], ["key", "key: who looks at it"]], "query",
    (side) => { state.by = side; settle(strongest(chosen())); });
  const paintAll = () => {
    paintThumbs();
    paintMap();
    get("scale").replaceChildren("weight ", ...[0, 0.1, 0.25, 0.5, 1].map((w) => {
      const patch = make("i", {}, String(w));
      shade(patch, w, scale());
      return patch;
    }));
    draw();
  };
  state.at = strongest(Math.floor(nQ * 0.6));
  fit();
  paintAll();
  new MutationObserver(paintAll).observe(figure, {attributeFilter: ["class"]});
  new ResizeObserver(fit).observe(get("map-pane"));
});
