"""What the tests of the interactive figures share: the figures, and readings off them."""

import re

import numpy as np
import torch

from utils import masks, sizes
from utils.attention import numpy as numpy_attention
from utils.plots import explore

PAGE = """<!doctype html><html lang="en" {html}><head><meta charset="utf-8"><title>Figures</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><style>{css}</style></head>
<body><main><h1>Figures</h1>{body}</main></body></html>"""
HOSTILE = "* { color: red; font: 30px serif; letter-spacing: 9px } span, td { padding: 50px }"


def choose(page, name, value):
    """Press the segment of a switch that has this value."""
    page.locator(f"#{name} input[value='{value}']").check()


def head_maps(layers, heads, n_q, n_k, keep=None, seed=0):
    """Return weights (layer, h, i, j) of random scores, float32: some heads sharp, some flat."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((layers, heads, n_q, n_k)) * rng.uniform(
        0.5, 5, size=(layers, heads, 1, 1))
    keep = np.ones((n_q, n_k), dtype=bool) if keep is None else keep
    return numpy_attention.masked_softmax(scores, keep).astype(np.float32)


TEXT = list("to be,\nor")
SCORES = {"first token": head_maps(3, 4, 9, 9, masks.causal(9))[..., 0].mean(axis=-1),
          "change of loss": np.random.default_rng(1).standard_normal((3, 4))}


def head_browser():
    """Return a head browser of three layers, four heads each, and nine letters, causal."""
    return explore.head_browser(TEXT, head_maps(3, 4, 9, 9, masks.causal(9)), scores=SCORES,
                                start=(1, 2))


def three_tokens():
    """Return the figure of three tokens, with small numbers."""
    q, k, v = np.random.default_rng(2).integers(-4, 5, size=(3, 3, 2))
    return explore.three_tokens(("the", "river", "bank"), q, k, v)


Q, K, V = (side[:, 0] for side in sizes.qkv())


def tensors(mode, batch=2, length=5, heads=3, d_head=4):
    """Return PyTorch's own x, x.view and the heads, each holding its offsets in memory."""
    x = torch.arange(batch * length * heads * d_head).view(batch, length, heads * d_head)
    view = x.view(batch, length, heads, d_head)
    split = view.transpose(1, 2)
    return (x, view, split) if mode == "false" else (x, x.view(split.shape))


READ_PAINTER = """() => {
  const root = document.querySelector('[data-explore=mask-painter]').shadowRoot;
  const rows = (table, what) => [...root.querySelectorAll(`#${table} tbody tr`)].map(what);
  const values = kind => row => [...row.querySelectorAll(kind)].map(
    cell => Number(cell.dataset.value));
  return {weights: rows('weights', values('.cell')), context: rows('context', values('.cell')),
    sums: rows('weights', values('.sum')).flat(),
    keep: rows('weights', row => [...row.querySelectorAll('.cell')].map(
      cell => cell.getAttribute('aria-selected') === 'true')),
    shown: rows('weights', row => [...row.querySelectorAll('.cell')].map(
      cell => cell.textContent)),
    empty: rows('weights', row => row.classList.contains('empty')),
    numbers: rows('numbers', row => [...row.cells].slice(1).map(cell => cell.textContent)),
    fate: root.getElementById('verdict').dataset.fate,
    verdict: root.getElementById('verdict').textContent,
    code: root.getElementById('code').textContent};
}"""


def read(page):
    """Return what the painter shows, numbers as arrays."""
    seen = page.evaluate(READ_PAINTER)
    for name in ("weights", "context", "sums", "keep", "empty"):
        seen[name] = np.array(seen[name])
    return seen


def plain_softmax(scores):
    """Return the softmax that everyone writes, in the dtype of the scores, NaN and all."""
    with np.errstate(invalid="ignore"):
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return exps / exps.sum(axis=-1, keepdims=True)


CHANCES = {"float64": 1e-12, "float32": 1e-6, "float16": 1e-3}  # a rounding or two of exp


def drag_a_finger(page, cell, right=0, down=0):
    """Touch the middle of a cell, move in twelve steps, let go: touch events, as a screen's."""
    box = cell.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    send = page.context.new_cdp_session(page).send
    send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for n in range(1, 13):
        at = {"x": x + right * n / 12, "y": y + down * n / 12}
        send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [at]})
    send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def place(n):
    """Return where a length is on the axis of the chart, 0 .. 1."""
    return (np.log2(n) - 3) / 14


def luminance(colour):
    """Return the relative luminance, 0 .. 1, of a colour such as "rgb(0, 114, 178)" (WCAG 2)."""
    parts = np.array([int(n) / 255 for n in re.findall(r"\d+", colour)[:3]])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]
