"""Four figures to move: self-contained HTML, inline script, no other host, no widget state.

Each figure is a fragment with its own style, script and data; it lives in a shadow root, so neither
a page's styles nor a second figure can touch it. The same arguments give the same bytes.
"""

import html
import json
import re
from pathlib import Path

import numpy as np

from utils import checks, sizes
from utils.plots import _head_data

TEMPLATES = Path(__file__).parent / "templates"
# What still fits a telephone: cells of 24 pixels, as many colours as words.
WIDEST, LONGEST = 16, 8
# What can be chosen in the figure of costs.
COST_WIDTHS, COST_HEADS = (128, 256, 512, 768, 1024, 2048, 4096, 8192), (1, 2, 4, 8, 16, 32)


class Figure:
    """What a notebook shows for a figure: HTML, and a short name where there is none."""

    def __init__(self, template, config):
        self.name, self.html = template.replace("_", " "), _fill(template, config)

    def __repr__(self):
        return f"<{self.name}>"

    def _repr_html_(self):
        return self.html


def _fill(template, config):
    """Return a template with its {{parts}} put in: other files, and ``config`` as JSON."""
    def part(match):
        if match[1] == "config":
            return html.escape(json.dumps(config))
        return (TEMPLATES / match[1]).read_text(encoding="utf-8")

    return re.sub(r"\{\{([\w.]+)\}\}", part,
                  (TEMPLATES / f"{template}.html").read_text(encoding="utf-8"))


def reshape_microscope(batch=sizes.BATCH, length=sizes.N_Q, heads=sizes.HEADS,
                       d_head=sizes.D_HEAD):
    """Return a figure that follows one element of x (b, i, h * d) through view and transpose.

    Raises ValueError for a size below 1, or one too large to draw.
    """
    config = {"batch": batch, "length": length, "heads": heads, "d_head": d_head}
    for name, size in config.items():
        _fits(name, size, LONGEST if name in ("batch", "length") else WIDEST)
    _fits("heads * d_head", heads * d_head, WIDEST)
    return Figure("reshape_microscope", config)


def mask_painter(q=None, k=None, v=None, lengths=None, empty_query=3):
    """Return a figure with the weights of one head, whose mask the reader paints.

    q (b, i, d), k (b, j, d): one head of every example; v (b, j, d_v), when given, shows the
    context. ``lengths`` (b,) are the keys that are no padding. ``empty_query`` of example 0 starts
    with nothing to attend to (None: no query does). Without q, k and v, the data is that of
    ``sizes``. Raises ValueError for shapes that do not fit together or are too large to draw.
    """
    if q is None and k is None and v is None:
        q, k, v = (side[:, 0] for side in sizes.qkv())
        lengths = sizes.lengths() if lengths is None else lengths
    data = _arrays(q, k, v)
    batch, n_q, n_k = *data["q"].shape[:2], data["k"].shape[1]
    lengths = np.full(batch, n_k) if lengths is None else np.asarray(lengths)
    if (lengths.shape != (batch,) or lengths.dtype.kind not in "iu"
            or ((lengths < 0) | (lengths > n_k)).any()):
        raise ValueError(f"lengths must be {batch} integers in 0 .. n_k={n_k}, got "
                         f"{lengths.tolist()}")
    if empty_query is not None and not 0 <= empty_query < n_q:
        raise ValueError(f"empty_query={empty_query} is not one of the n_q={n_q} queries")
    config = {name: side.tolist() for name, side in data.items()}
    return Figure("mask_painter", {**config, "lengths": lengths.tolist(), "empty": empty_query})


def head_browser(tokens, weights, keys=None, scores=None, start=(0, 0)):
    """Return a figure with the weights of all heads: choose a head, choose a token, read.

    ``weights`` (layer, h, i, j), rows that sum to 1, or to 0 where nothing may be attended to;
    ``tokens``, n_q str, are the queries and, unless ``keys`` names n_k others, the keys. ``scores``
    {name: (layer, h)} can be laid over the overview; ``start`` is the (layer, head) shown first.
    Raises ValueError for weights that are none (naming layer, head and row), shapes that do not fit
    together, and what is too large to draw or to ship; TypeError for tokens that are no str.
    """
    return Figure("head_browser", _head_data.packed(tokens, weights, keys, scores, start))


def cost_crossing(d_model=512, n_heads=8, n=256):
    """Return a figure with the share that tables have of operations and memory, over n words.

    d_model, n_heads and n are what it starts with; n from 8 to 131072. The formulas are those of
    ``utils.measure.costs``. Raises ValueError for a start that the figure does not have.
    """
    for name, value, there in (("d_model", d_model, COST_WIDTHS), ("n_heads", n_heads, COST_HEADS)):
        if value not in there:
            raise ValueError(f"{name}={value} is not one of {', '.join(map(str, there))}")
    if not 8 <= n <= 2**17:
        raise ValueError(f"n={n} is not in 8 .. {2**17}")
    return Figure("cost_crossing", {"d_model": d_model, "n_heads": n_heads, "n": n})


def _arrays(q, k, v):
    """Return q, k and, unless it is None, v as a dict of float64 arrays that can be drawn."""
    if q is None or k is None:
        raise ValueError("q and k come together: pass both, or none of q, k and v")
    data = {name: checks.to_numpy(side).astype(np.float64)
            for name, side in (("q", q), ("k", k), ("v", v)) if side is not None}
    found = checks.check_shapes("b i d, b j d" + ", b j c" * ("v" in data), *data.values())
    for letter, name, most in (("b", "batch", LONGEST), ("i", "n_q", LONGEST),
                               ("j", "n_k", LONGEST), ("c", "d_v", WIDEST)):
        _fits(name, found.get(letter, 1), most)
    for name, side in data.items():
        if not np.isfinite(side).all():
            raise ValueError(f"{name} holds numbers that are not finite")
    return data


def _fits(name, size, most):
    """Raise ValueError when ``size`` is none, or more than the figure can draw readably."""
    if size < 1:
        raise ValueError(f"{name} must be at least 1, got {size}")
    if size > most:
        raise ValueError(f"{name}={size} is too large to draw, at most {most}")
