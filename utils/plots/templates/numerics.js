// Softmax as NumPy computes it in float64, float32 and float16: every step is rounded.

// Round to the nearest float16, ties to even: 11 significant bits, steps of 2 ** -24 below 2 ** -14.
const float16 = (x) => {
  if (!Number.isFinite(x)) return x;
  if (Math.abs(x) >= 65520) return Math.sign(x) * Infinity;
  const step = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(x))), -14) - 10);
  const shift = 1.5 * 2 ** 52;   // adding this to x / step leaves no room for a fraction
  const rounded = (Math.abs(x) / step + shift - shift) * step;
  return x < 0 || Object.is(x, -0) ? -rounded : rounded;
};

const ROUND = {float64: (x) => x, float32: Math.fround, float16};
const LOWEST = {float64: -Number.MAX_VALUE, float32: -(2 - 2 ** -23) * 2 ** 127, float16: -65504};

// NumPy takes exp and sums of float16 in float32 and rounds the result.
const wide = (dtype) => ROUND[dtype === "float16" ? "float32" : dtype];
const sum = (numbers, dtype) =>
  ROUND[dtype](numbers.reduce((total, x) => wide(dtype)(total + x), 0));

// The plain softmax of one row: largest subtracted, exp, divided by the sum. No case for masks.
const softmax = (row, dtype) => {
  const round = ROUND[dtype];
  const largest = Math.max(...row);   // NaN when any number is
  const exps = row.map((x) => round(wide(dtype)(Math.exp(round(x - largest)))));
  const total = sum(exps, dtype);
  return exps.map((x) => round(x / total));
};

// One row of weights. `fill`: "-inf", "-1e9", "lowest", or "zeros" for the course's contract.
// `add`: the fill is added to the masked scores instead of written over them.
const maskedSoftmax = (scores, keep, fill, add, dtype) => {
  const round = ROUND[dtype];
  const row = scores.map(round);
  if (fill === "zeros") {
    if (!keep.includes(true)) return row.map(() => 0);
    return softmax(row.map((x, j) => (keep[j] ? x : -Infinity)), dtype);
  }
  const number = {"-inf": -Infinity, "-1e9": round(-1e9), lowest: LOWEST[dtype]}[fill];
  return softmax(row.map((x, j) => (keep[j] ? x : add ? round(x + number) : number)), dtype);
};

// weights @ v, (j), (j, d_v) -> (d_v).
const contextOf = (weights, v, dtype) => {
  const round = ROUND[dtype];
  return v[0].map((_, c) => sum(weights.map((w, j) => wide(dtype)(w * round(v[j][c]))), dtype));
};

// What became of a row that may attend to nothing: "zeros", "nan", "uniform", "unmasked", "mixed".
const fateOf = (weights, unmasked) => {
  const near = (other) => weights.every((w, j) => Math.abs(w - other[j]) < 1e-6);
  if (weights.some(Number.isNaN)) return "nan";
  if (weights.every((w) => w === 0)) return "zeros";
  if (near(weights.map(() => weights[0]))) return "uniform";
  return near(unmasked) ? "unmasked" : "mixed";
};
