"""Two figures to move: self-contained HTML, inline script, no other host, no widget state.

Each figure is a fragment with its own style, script and data; it lives in a shadow root, so neither
a page's styles nor a second figure can touch it. The same arguments give the same bytes.
"""

import html
import json
import re
from pathlib import Path

import numpy as np

from utils import checks, sizes

TEMPLATES = Path(__file__).parent / "templates"
# What still fits a telephone: cells of 24 pixels, as many colours as words.
WIDEST, LONGEST = 16, 8


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
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    _fits("batch", batch, LONGEST)
    _fits("length", length, LONGEST)
    _fits("heads * d_head", heads * d_head, WIDEST)
    return Figure("reshape_microscope", config)


def mask_painter(q=None, k=None, v=None, lengths=None, empty_query=3):
    """Return a figure with the weights of one head, whose mask the reader paints.

    q (b, i, d), k (b, j, d): one head of every example; v (b, j, d_v), when given, shows the
    context. ``lengths`` (b,) are the keys that are no padding. ``empty_query`` of example 0 starts
    with nothing to attend to (None: no query does). Without q, the data is that of ``sizes``.
    Raises ValueError for shapes that do not fit together, or are too large to draw.
    """
    if q is None:
        q, k, v = (side[:, 0] for side in sizes.qkv())
        lengths = sizes.lengths() if lengths is None else lengths
    data = {name: checks.to_numpy(side).astype(np.float64)
            for name, side in (("q", q), ("k", k), ("v", v)) if side is not None}
    checks.check_shapes("b i d, b j d" + ", b j c" * (v is not None), *data.values())
    batch, n_q, n_k = *data["q"].shape[:2], data["k"].shape[1]
    for name, size in (("n_q", n_q), ("n_k", n_k)):
        _fits(name, size, LONGEST)
    if v is not None:
        _fits("d_v", data["v"].shape[2], WIDEST)
    lengths = [n_k] * batch if lengths is None else [int(n) for n in lengths]
    if len(lengths) != batch or not all(0 <= n <= n_k for n in lengths):
        raise ValueError(f"lengths must be {batch} integers in 0 .. n_k={n_k}, got {lengths}")
    if empty_query is not None and not 0 <= empty_query < n_q:
        raise ValueError(f"empty_query={empty_query} is not one of the n_q={n_q} queries")
    config = {name: side.tolist() for name, side in data.items()}
    return Figure("mask_painter", {**config, "lengths": lengths, "empty": empty_query})


def _fits(name, size, most):
    """Raise ValueError when ``size`` is more than the figure can draw readably."""
    if size > most:
        raise ValueError(f"{name}={size} is too large to draw, at most {most}")
