const SHOWN = 8, STRONGEST = 3;      // characters listed as next ones, keys listed of a head
const MOST_BITS = 10;                // at which the shading by surprise ends
const SURPRISES = {light: [[242, 244, 247], [226, 120, 50], [88, 24, 0]],
  dark: [[31, 38, 47], [190, 90, 20], [255, 214, 170]]};

// Where a file of the site is; null on a page that is not the site's, such as a notebook.
const onSite = (file) => {
  const top = document.documentElement.dataset.content_root;
  return top === undefined ? null : new URL(top + file, document.baseURI);
};

const startWorker = () => {
  const source = new Blob([`(${liveWorker})()`], {type: "text/javascript"});
  const worker = new Worker(URL.createObjectURL(source)), waiting = new Map();
  let last = 0;
  worker.onmessage = ({data}) => {
    waiting.get(data.id)[0](data);
    waiting.delete(data.id);
  };
  worker.onerror = (event) => {
    for (const [, failed] of waiting.values()) failed(new Error(event.message));
  };
  return (request) => new Promise((...ends) => {
    waiting.set(++last, ends);
    worker.postMessage({...request, id: last});
  });
};

const sum = (numbers) => numbers.reduce((a, x) => a + x, 0);
const softmaxOf = (logits, temperature = 1) => {
  const largest = Math.max(...logits);
  const exps = Array.from(logits, (x) => Math.exp((x - largest) / temperature));
  const total = sum(exps);
  return exps.map((x) => x / total);
};
const falling = (values) => range(values.length).sort((a, b) => values[b] - values[a] || a - b);

figures("live-model", (root, {text, layers, heads, start, longest, bytes, file}) => {
  const get = (id) => root.getElementById(id), figure = root.querySelector(".figure");
  const scale = (scales) => scales[figure.classList.contains("dark") ? "dark" : "light"];
  const everyHead = range(layers * heads), nameOf = (n) => `${Math.floor(n / heads)}.${n % heads}`;
  const state = {head: start[0] * heads + start[1], off: new Set(), shading: "surprise"};
  const held = root.host.dataset.weights;
  let ask = null, vocabulary = [], indices = new Map(), loading = null;

  // --- the model

  const download = async () => {
    if (!onSite(file)) throw new Error("The model is not in this output: run the cell.");
    const answer = await fetch(onSite(file)).catch(() => ({}));
    if (!answer.ok) {
      throw new Error(location.protocol === "file:"
        ? "A page that is opened as a file cannot load the model: `make serve` serves the site."
        : "The model could not be loaded.");
    }
    return answer.arrayBuffer();
  };
  // While something is pending, the figure is busy.
  let pending = 0;
  const busy = async (work) => {
    figure.setAttribute("aria-busy", ++pending > 0);
    try { return await work(); } finally { figure.setAttribute("aria-busy", --pending > 0); }
  };
  const load = () => loading ??= busy(async () => {
    get("said").textContent = "The model is being loaded.";
    const buffer = held ? bytesOf(held).buffer : await download();
    const request = startWorker();
    ({vocabulary} = await request({file: buffer}));
    indices = new Map(vocabulary.map((character, n) => [character, n]));
    ask = (name, tokens, off) => request({name, tokens, off, longest});
    get("run").hidden = true;
    get("said").textContent = "";
  }).catch((error) => {
    loading = null;
    get("said").textContent = error.message;
    throw error;
  });

  // --- the texts: one, or two that are compared

  const sides = ["A", "B"].map((letter) => {
    const box = get("side").content.firstElementChild.cloneNode(true);
    const find = (name) => box.querySelector(name);
    return {letter, box, find, field: find("textarea"), table: make("table", {class: "numbers"}),
      reading: make("p"), tables: range(2).map(() => make("table", {class: "numbers"})),
      tokens: [], past: [], at: null, turn: 0, all: null, now: null};
  });
  const shown = () => (get("compare").checked ? sides : sides.slice(0, 1));
  const titleOf = (side) => (get("compare").checked ? `text ${side.letter}` : "the text");
  const place = (side) => Math.min(side.at ?? Infinity, side.tokens.length - 1);
  const character = (side, n) => vocabulary[side.tokens[n]];
  const quoted = (side, n) => `${n} “${visible(character(side, n))}”`;

  const readText = (side) => {
    const characters = [...side.field.value], known = characters.filter((c) => indices.has(c));
    const unknown = [...new Set(characters.filter((c) => !indices.has(c)))];
    const said = [];
    if (unknown.length) {
      said.push(`The model does not know ${unknown.map((c) => `“${c}”`).join(", ")} and reads the `
        + `text without ${unknown.length > 1 ? "them" : "it"}.`);
    }
    if (known.length > longest) {
      said.push(`The model was trained on short texts: it reads the first ${longest} characters, `
        + `and not the other ${known.length - longest}.`);
    }
    if (!known.length) said.push("Type a character: the model predicts what follows it.");
    side.find(".notice").textContent = said.join(" ");
    side.find(".one").disabled = side.find(".ten").disabled = !known.length
      || known.length >= longest;
    return known.slice(0, longest).map((c) => indices.get(c));
  };

  // The model with all heads, and without those that are off. False if the reader has gone on.
  const compute = async (side) => {
    const turn = ++side.turn, tokens = readText(side), off = [...state.off].sort((a, b) => a - b);
    const results = {tokens, all: null, now: null};
    if (tokens.length) {
      await busy(async () => {
        results.all = await ask(`${side.letter} all`, tokens, []);
        results.now = off.length ? await ask(`${side.letter} off`, tokens, off) : results.all;
      });
    }
    if (turn !== side.turn) return false;
    Object.assign(side, results);
    draw(side);
    return true;
  };
  const refresh = () => load().then(() => Promise.all(shown().map(compute)), () => {});

  const logitsAt = ({logits}, n) => logits.subarray(n * vocabulary.length,
    (n + 1) * vocabulary.length);
  const chancesOf = (result, n) => softmaxOf(logitsAt(result, n));
  const bitsOf = (side, result) => range(side.tokens.length).map((n) => (n
    ? -Math.log2(chancesOf(result, n - 1)[side.tokens[n]]) : NaN));
  const meanOf = (bits) => (sum(bits.slice(1)) / (bits.length - 1)).toFixed(2);
  // The weights that the query n gives to the keys 0 .. n.
  const rowOf = (side, head, n) => side.now.weights[head].subarray(n * (n + 1) / 2)
    .subarray(0, n + 1);

  const write = (side, count) => busy(async () => {
    await load();
    const start = side.field.value;
    for (let on = await compute(side); on && side.now && side.tokens.length < longest && count > 0;
      count--) {
      const temperature = Number(get("temperature").value), before = side.field.value;
      const logits = logitsAt(side.now, side.tokens.length - 1);
      let next = falling(logits)[0];
      if (temperature) {
        let left = Math.random();
        const chances = softmaxOf(logits, temperature);
        next = chances.findIndex((chance) => (left -= chance) < 0);
        if (next < 0) next = falling(chances)[0];   // rounding left nothing
      }
      side.field.value = before + vocabulary[next];
      side.at = null;
      on = await compute(side);
    }
    if (side.field.value !== start) side.past.push(start);
    drawUndo(side);
  }).catch(() => {});
  const drawUndo = (side) => { side.find(".undo").disabled = !side.past.length; };

  // --- drawing

  const drawStrip = (side) => {
    const {tokens} = side, strip = side.find(".strip"), chosen = place(side);
    const byHead = state.shading === "head", bits = side.now ? bitsOf(side, side.now) : [];
    const row = byHead && side.now ? rowOf(side, state.head, chosen) : [];
    while (strip.children.length > tokens.length) strip.lastChild.remove();
    while (strip.children.length < tokens.length) strip.append(make("span", {role: "option"}));
    tokens.forEach((_, n) => {
      const item = strip.children[n], value = byHead ? row[n] ?? NaN : bits[n];
      const none = Number.isNaN(value);
      item.textContent = visible(character(side, n));
      setAll(item, {"aria-selected": n === chosen, tabindex: n === chosen ? 0 : -1,
        "aria-label": `${n}: ${spoken(character(side, n))}` + (none ? ""
          : byHead ? `, weight ${rounded(value)}` : `, ${value.toFixed(1)} bits`)});
      item.dataset.value = none ? "" : value;
      item.classList.toggle("chosen", n === chosen);
      item.classList.toggle("later", none);
      if (none) item.removeAttribute("style");
      else shade(item, byHead ? value : value / MOST_BITS, scale(byHead ? SCALES : SURPRISES));
    });
    if (!side.now) { side.find(".told").textContent = ""; return; }
    const mean = bits.length < 2 ? "" : `Mean ${meanOf(bits)} bits per character`
      + (state.off.size ? `, with all heads ${meanOf(bitsOf(side, side.all))}` : "") + ". ";
    side.find(".told").textContent = mean + `Character ${quoted(side, chosen)}: ` + (chosen
      ? `probability ${rounded(2 ** -bits[chosen])}, ${bits[chosen].toFixed(1)} bits.`
      : "the first, which nothing predicts.");
  };

  const drawNext = (side) => {
    const {table, tokens} = side, off = state.off.size > 0;
    if (!side.now) { table.replaceChildren(); return; }
    const [all, now] = [side.all, side.now].map((result) => chancesOf(result, tokens.length - 1));
    const most = falling(now.map((chance, n) => Math.max(chance, all[n]))).slice(0, SHOWN);
    const line = (chance) => {
      const bar = make("i");
      bar.style.setProperty("--part", chance);
      return bar;
    };
    const head = make("tr", {}, make("th", {scope: "col"}, "next"), make("td"),
      make("th", {scope: "col", class: "number"}, off ? "all on" : "probability"));
    if (off) head.append(make("th", {scope: "col", class: "number without"}, "some off"));
    const rows = most.map((n) => {
      const row = make("tr", {"data-character": vocabulary[n], "data-all": all[n],
        "data-now": now[n]}, make("th", {scope: "row"}, visible(vocabulary[n])),
      make("td", {class: "length", "aria-hidden": "true"}, line(all[n]), ...(off ? [line(now[n])]
        : [])), make("td", {class: "number"}, all[n].toFixed(3)));
      if (off) row.append(make("td", {class: "number without"}, now[n].toFixed(3)));
      return row;
    });
    table.replaceChildren(make("caption", {}, `after ${titleOf(side)}`),
      make("thead", {}, head), make("tbody", {}, ...rows));
    drawTables(side, most, all, now);
    get("status").textContent = `After ${titleOf(side)}: ${spoken(vocabulary[falling(now)[0]])}, `
      + `probability ${rounded(Math.max(...now))}.`;
  };

  const drawTables = (side, most, all, now) => {
    const off = state.off.size > 0, chosen = place(side);
    fillTable(side.tables[0], `next character after ${titleOf(side)}`,
      [["character", "all heads on", ...(off ? ["some off"] : [])], ...most.map((n) =>
        [spoken(vocabulary[n]), rounded(all[n]), ...(off ? [rounded(now[n])] : [])])]);
    fillTable(side.tables[1], `the strongest key of ${quoted(side, chosen)} in ${titleOf(side)}`,
      [["head", "is", "key", "weight"], ...everyHead.map((head) => {
        const row = rowOf(side, head, chosen), [key] = falling(row);
        return [nameOf(head), state.off.has(head) ? "off" : "on",
          `${key} ${spoken(character(side, key))}`, rounded(row[key])];
      })]);
  };

  const drawReading = (side) => {
    if (!side.now) { side.reading.replaceChildren(); return; }
    const chosen = place(side), row = rowOf(side, state.head, chosen);
    const keys = falling(row).slice(0, STRONGEST).flatMap((key, n) => [n ? ", " : " ",
      make("b", {class: "token"}, quoted(side, key)), ` ${rounded(row[key])}`]);
    side.reading.replaceChildren(`Head ${nameOf(state.head)} at ${quoted(side, chosen)}`
      + `${get("compare").checked ? ` of ${titleOf(side)}` : ""} attends to`, ...keys, ".");
  };

  const cells = everyHead.map((head) => {
    const maps = ["a", "b"].map((name) => make("canvas", {class: name, width: 8, height: 8}));
    const power = make("button", {type: "button", class: "power", tabindex: -1}, nameOf(head));
    const cell = make("div", {class: "head", role: "gridcell"},
      make("div", {class: "maps", "aria-hidden": "true"}, ...maps), power);
    return {cell, maps, power};
  });
  get("overview").append(...range(layers).map((layer) => make("div", {class: "row", role: "row"},
    make("span", {role: "rowheader"}, make("span", {class: "silent"}, "layer "), String(layer)),
    ...cells.slice(layer * heads, (layer + 1) * heads).map(({cell}) => cell))));
  get("overview").style.setProperty("--heads", heads);

  const paintMaps = (side) => {
    const n = Math.max(1, ...shown().map(({tokens}) => tokens.length));
    const colours = range(256).map((shade) => colourOf(shade / 255, scale(SCALES)));
    everyHead.forEach((head) => {
      const canvas = cells[head].maps[sides.indexOf(side)], context = canvas.getContext("2d");
      canvas.width = canvas.height = n;
      canvas.style.imageRendering = n <= 40 ? "pixelated" : "";
      if (!side.now) return;
      const image = context.createImageData(n, n), rows = side.now.weights[head];
      for (let i = 0, at = 0; i < side.tokens.length; i++) {
        for (let j = 0; j <= i; j++, at++) {
          const [r, g, b] = colours[Math.round(255 * rows[at])], pixel = 4 * (i * n + j);
          image.data[pixel] = r;
          image.data[pixel + 1] = g;
          image.data[pixel + 2] = b;
          image.data[pixel + 3] = 255;
        }
      }
      context.putImageData(image, 0, 0);
    });
  };
  const drawHeads = () => {
    everyHead.forEach((head) => {
      const {cell, power} = cells[head], off = state.off.has(head), here = head === state.head;
      cell.classList.toggle("chosen", here);
      cell.classList.toggle("off", off);
      setAll(cell, {tabindex: here ? 0 : -1, "aria-selected": here,
        "aria-label": `layer ${Math.floor(head / heads)}, head ${head % heads}, `
          + (off ? "off" : "on")});
      power.textContent = nameOf(head) + (off ? " off" : "");
      power.setAttribute("aria-label", `${power.textContent}, switch ${off ? "on" : "off"}`);
    });
    get("all-on").disabled = !state.off.size;
  };
  const drawScale = () => {
    const byHead = state.shading === "head";
    get("scale").replaceChildren(byHead ? "weight " : "bits ", ...(byHead ? [0, 0.1, 0.25, 0.5, 1]
      : [0, 1, 2, 5, MOST_BITS]).map((x) => {
      const patch = make("i", {}, String(x));
      shade(patch, byHead ? x : x / MOST_BITS, scale(byHead ? SCALES : SURPRISES));
      return patch;
    }));
  };
  const drawTexts = (side) => {
    drawStrip(side);
    drawReading(side);
    drawNext(side);
  };
  const draw = (side) => {
    drawTexts(side);
    for (const one of shown()) paintMaps(one);   // the maps of both have one size
  };
  const drawAll = () => {
    drawHeads();
    drawScale();
    if (ask) shown().forEach(draw);
  };

  // --- what the reader does

  const shadeBy = (shading) => {
    get("shading").querySelector(`[value=${shading}]`).checked = true;
    state.shading = shading;
  };
  const choose = (head) => {
    state.head = head;
    shadeBy("head");
    drawAll();
    if (!ask) refresh();
  };
  const toggle = (head) => {
    state.off.delete(head) || state.off.add(head);
    drawHeads();
    refresh();
  };
  get("overview").addEventListener("click", ({target}) => {
    const head = cells.findIndex(({cell}) => cell.contains(target));
    if (head >= 0) (target.closest(".power") ? toggle : choose)(head);
  });
  get("overview").addEventListener("keydown", (event) => {
    const layer = Math.floor(state.head / heads), first = layer * heads, last = first + heads - 1;
    const to = {ArrowLeft: Math.max(first, state.head - 1), ArrowRight: Math.min(last,
      state.head + 1), ArrowUp: layer ? state.head - heads : state.head,
    ArrowDown: layer < layers - 1 ? state.head + heads : state.head, Home: first,
    End: last}[event.key];
    if (to === undefined && event.key !== " ") return;
    event.preventDefault();
    if (event.key === " ") toggle(state.head); else choose(to);
    cells[state.head].cell.focus();
  });
  get("all-on").addEventListener("click", () => {
    state.off.clear();
    drawHeads();
    refresh();
  });

  for (const side of sides) {
    side.field.addEventListener("input", () => {
      Object.assign(side, {at: null, past: []});
      drawUndo(side);
      load().then(() => compute(side), () => {});
    });
    side.find(".one").addEventListener("click", () => write(side, 1));
    side.find(".ten").addEventListener("click", () => write(side, 10));
    side.find(".undo").addEventListener("click", () => {
      side.field.value = side.past.pop();
      side.at = null;
      drawUndo(side);
      compute(side);
    });
    const strip = side.find(".strip");
    const pick = (n) => {
      side.at = n;
      drawTexts(side);
      strip.children[n].focus({preventScroll: true});
    };
    strip.addEventListener("click", ({target}) => {
      const n = [...strip.children].indexOf(target);
      if (n >= 0) pick(n);
    });
    strip.addEventListener("keydown", (event) => {
      const n = place(side), last = side.tokens.length - 1;
      const to = {ArrowLeft: n - 1, ArrowUp: n - 1, ArrowRight: n + 1, ArrowDown: n + 1, Home: 0,
        End: last}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      pick(Math.max(0, Math.min(last, to)));
    });
  }

  const arrange = () => {
    const two = get("compare").checked;
    get("texts").replaceChildren(...shown().map(({box}) => box));
    get("next").replaceChildren(...shown().map(({table}) => table));
    get("reading").replaceChildren(...shown().map(({reading}) => reading));
    get("tables").replaceChildren(...shown().flatMap(({tables}) => tables));
    get("divider-row").hidden = !two;
    get("overview").classList.toggle("two", two);
    for (const {maps: [, second]} of cells) second.hidden = !two;
    for (const side of shown()) {
      side.find(".name").textContent = two ? `text ${side.letter}` : "your text";
      side.box.setAttribute("aria-label", titleOf(side));
      side.find(".strip").setAttribute("aria-label", `characters of ${titleOf(side)}`);
    }
  };
  get("compare").addEventListener("change", () => {
    sides[1].field.value ||= sides[0].field.value;
    arrange();
    refresh();
  });
  const divide = () => get("overview").style.setProperty("--split", `${get("divider").value}%`);
  get("divider").addEventListener("input", divide);
  const warm = () => {
    const temperature = Number(get("temperature").value);
    get("warmth").textContent = temperature ? temperature.toFixed(1) : "0: always the likeliest";
  };
  get("temperature").addEventListener("input", warm);
  get("run").addEventListener("click", refresh);
  choices(get("shading"), [["surprise", "surprise, in bits"],
    ["head", "the chosen head"]], state.shading, (shading) => {
    state.shading = shading;
    drawAll();
  });
  sides[0].field.value = text;
  get("said").textContent = held ? "" : `loads ${(bytes / 1e6).toFixed(1)} MB; so does typing.`;
  arrange();
  divide();
  warm();
  drawAll();
  new MutationObserver(drawAll).observe(figure, {attributeFilter: ["class"]});
  if (held) refresh();
});
