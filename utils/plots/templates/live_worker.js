// The model of the live figure, in a worker: utils/models/language_model.py, one token at a time.
// It keeps the keys and values of each text, so that a new character costs one token.
const liveWorker = () => {
  const EPSILON = 2 ** -23;   // of float32, as torch's rms_norm adds it
  const range = (n) => [...Array(n).keys()];
  let model = null;
  const runs = {};            // by name: what has been computed of one text with some heads off

  // All 65536 numbers of float16.
  const halves = () => Float32Array.from(range(65536), (bits) => {
    const exponent = bits >> 10 & 31, fraction = bits & 1023;
    const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
    return bits >> 15 ? -size : size;
  });

  // safetensors: the length of the header, the header as JSON, the numbers of all tensors.
  const read = (file) => {
    const length = Number(new DataView(file).getBigUint64(0, true));
    const {__metadata__: said, ...tensors} = JSON.parse(
      new TextDecoder().decode(new Uint8Array(file, 8, length)));
    const {vocabulary, sizes} = JSON.parse(said.about), half = halves();
    const part = (name) => {
      const {dtype, data_offsets: [from, to]} = tensors[name];
      if (dtype !== "F16") throw new Error(`${name} is ${dtype}, not F16`);
      const bytes = new DataView(file, 8 + length + from, to - from);
      return Float32Array.from({length: (to - from) / 2},
        (_, n) => half[bytes.getUint16(2 * n, true)]);
    };
    const blocks = range(sizes.n_layers).map((n) => Object.fromEntries(
      ["attention.W_qkv.weight", "attention.W_o.weight", "attention.gain", "up.weight",
        "down.weight"].map((name) => [/(\w+)(\.weight)?$/.exec(name)[1],
        part(`blocks.${n}.${name}`)])));
    return {...sizes, vocabulary: [...vocabulary], blocks, embedding: part("embedding.weight"),
      unembedding: part("unembedding.weight")};
  };

  // W x, (rows, columns), (columns) -> (rows).
  const times = (W, x) => {
    const columns = x.length, out = new Float32Array(W.length / columns);
    for (let row = 0, at = 0; row < out.length; row++) {
      let a = 0, b = 0, c = 0, d = 0;
      for (let n = 0; n < columns; n += 4, at += 4) {
        a += W[at] * x[n];
        b += W[at + 1] * x[n + 1];
        c += W[at + 2] * x[n + 2];
        d += W[at + 3] * x[n + 3];
      }
      out[row] = a + b + c + d;
    }
    return out;
  };
  const rmsNorm = (x) => {
    let squares = 0;
    for (const number of x) squares += number * number;
    const scale = 1 / Math.sqrt(squares / x.length + EPSILON);
    return x.map((number) => number * scale);
  };
  // RoPE: the pair of dimensions n and n + d / 2 is rotated by position / 10000^(2n / d).
  const rotate = (x, position) => {
    const half = x.length / 2, out = new Float32Array(x.length);
    for (let n = 0; n < half; n++) {
      const angle = position * 10000 ** (-n / half), cos = Math.cos(angle), sin = Math.sin(angle);
      out[n] = x[n] * cos - x[n + half] * sin;
      out[n + half] = x[n + half] * cos + x[n] * sin;
    }
    return out;
  };

  // The context of one token in one layer, (e); its keys, values and weights are added to the run.
  const attend = (run, layer, x, i) => {
    const {n_heads: heads, d_model: e, blocks} = model, d = e / heads;
    const {W_qkv, gain} = blocks[layer], projected = times(W_qkv, x), context = new Float32Array(e);
    const keys = run.keys[layer], values = run.values[layer];
    values.set(projected.subarray(2 * e), i * e);
    for (let head = 0; head < heads; head++) {
      const from = head * d, side = (start) => rotate(
        rmsNorm(projected.subarray(start + from, start + from + d)), i);
      const q = side(0);
      keys.set(side(e), i * e + from);
      const row = run.weights[layer * heads + head].subarray(i * (i + 1) / 2).subarray(0, i + 1);
      let largest = -Infinity, total = 0;
      for (let j = 0; j <= i; j++) {
        let score = 0;
        for (let n = 0; n < d; n++) score += q[n] * keys[j * e + from + n];
        row[j] = score * gain[head] / Math.sqrt(d);
        largest = Math.max(largest, row[j]);
      }
      for (let j = 0; j <= i; j++) total += row[j] = Math.exp(row[j] - largest);
      for (let j = 0; j <= i; j++) row[j] /= total;
      if (run.off.includes(layer * heads + head)) continue;   // the context stays zero
      for (let j = 0; j <= i; j++) {
        for (let n = from; n < from + d; n++) context[n] += row[j] * values[j * e + n];
      }
    }
    return context;
  };

  const step = (run, token, i) => {
    const {d_model: e, n_tokens: tokens, blocks, embedding, unembedding} = model;
    const x = rmsNorm(embedding.subarray(token * e, (token + 1) * e));
    const add = (y) => { for (let n = 0; n < e; n++) x[n] += y[n]; };
    blocks.forEach(({W_o, up, down}, layer) => {
      add(times(W_o, attend(run, layer, rmsNorm(x), i)));
      add(times(down, times(up, rmsNorm(x)).map((number) => Math.max(0, number) ** 2)));
    });
    run.logits.set(times(unembedding, rmsNorm(x)), i * tokens);
  };

  const newRun = (longest) => {
    const {n_layers: layers, n_heads: heads, d_model: e, n_tokens: tokens} = model;
    const arrays = (count, size) => range(count).map(() => new Float32Array(size));
    return {tokens: [], off: [], keys: arrays(layers, longest * e),
      values: arrays(layers, longest * e), logits: new Float32Array(longest * tokens),
      weights: arrays(layers * heads, longest * (longest + 1) / 2)};
  };

  // A request is {id, file}, or {id, name, tokens, off, longest}: `name` of the run, heads by
  // layer * n_heads + head. Of each head, row i of the weights holds i + 1 numbers.
  onmessage = ({data: {id, file, name, tokens, off, longest}}) => {
    if (file) {
      model = read(file);
      postMessage({id, vocabulary: model.vocabulary});
      return;
    }
    const run = runs[name] ??= newRun(longest);
    let same = 0;
    if (String(run.off) === String(off)) {
      while (same < tokens.length && tokens[same] === run.tokens[same]) same++;
    }
    Object.assign(run, {tokens, off});
    for (let i = same; i < tokens.length; i++) step(run, tokens[i], i);
    const n = tokens.length;
    postMessage({id, steps: n - same, logits: run.logits.slice(0, n * model.n_tokens),
      weights: run.weights.map((rows) => rows.slice(0, n * (n + 1) / 2))});
  };
};
