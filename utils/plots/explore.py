"""Six interactive figures: HTML with inline script, without requests or widget state.

Each figure is a fragment with its own style, script and data. It is in a shadow root, so the styles
of the page and other figures do not affect it. Equal arguments give equal bytes. The live model
alone makes a request, to its own site and only if its HTML lacks the parameters.
"""

import base64
import html
import json
import re
from pathlib import Path

import numpy as np

from .. import checks, sizes
from . import _head_data, _model_data

TEMPLATES = Path(__file__).parent / "templates"
# Limits for a small screen: cells of 24 pixels, one colour for each token.
WIDEST, LONGEST = 16, 8
# The choices in the figure of costs.
COST_WIDTHS, COST_HEADS = (128, 256, 512, 768, 1024, 2048, 4096, 8192), (1, 2, 4, 8, 16, 32)


class Figure:
    """A figure as a notebook shows it: HTML, or a short name where HTML is not shown.

    ``about`` is what a reader sees where scripts do not run. ``shared`` are the names of templates
    that stand before the figure's own, and ``weights`` the bytes of an attribute of its own.
    """

    def __init__(self, name, about, config, shared=(), weights=None):
        self.name = name.replace("_", " ")
        parts = {"kind": name.replace("_", "-"), "title": self.name.capitalize(),
                 "about": f"{self.name.capitalize()}: {about}", "config": _attribute(config),
                 "base.css": _read("base.css"), "base.js": _read("base.js"),
                 "weights": "" if weights is None else
                 f' data-weights="{base64.b64encode(weights).decode("ascii")}"',
                 "figure.html": _read(f"{name}.html")}
        for kind in ("css", "js"):
            parts[f"figure.{kind}"] = "".join(
                _read(file) for file in (*shared, f"{name}.css", f"{name}.js")
                if file.endswith(f".{kind}"))
        self.html = re.sub(r"\{\{([\w.]+)\}\}", lambda part: parts[part[1]], _read("frame.html"))

    def __repr__(self):
        return f"<{self.name}>"

    def _repr_html_(self):
        return self.html


def _read(name):
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _attribute(config):
    """Return ``config`` as JSON that may stand between quotation marks in HTML."""
    return html.escape(json.dumps(config, default=lambda number: number.item()))


def three_tokens(tokens, q, k, v):
    """Return a figure in which the reader moves the queries, keys and values of three tokens.

    ``tokens`` are three str; q, k and v are (3, 2), with elements in -4 .. 4. The figure computes
    softmax(q k^T) v, without a scale. Raises ValueError for other shapes or elements.
    """
    config = {"tokens": list(tokens)}
    for name, side in (("q", q), ("k", k), ("v", v)):
        side = checks.to_numpy(side).astype(np.float64)
        if len(config["tokens"]) != 3 or side.shape != (3, 2):
            raise ValueError(f"this figure draws three tokens with vectors of two dimensions: got "
                             f"{len(config['tokens'])} tokens and {name} {side.shape}")
        if not (np.abs(side) <= 4).all():  # NaN is not
            raise ValueError(f"the elements of {name} must be in -4 .. 4 to be drawn")
        config[name] = side.tolist()
    return Figure("three_tokens", "queries, keys and values as arrows that can be moved, with "
                  "scores, weights and context.", config, ["numerics.js"])


def reshape_microscope(batch=sizes.BATCH, length=sizes.N_Q, heads=sizes.HEADS,
                       d_head=sizes.D_HEAD):
    """Return a figure that follows one element of x (b, i, h * d) through view and transpose.

    Raises TypeError unless the sizes are integers, ValueError for one below 1 or too large to draw.
    """
    config = {"batch": batch, "length": length, "heads": heads, "d_head": d_head}
    for name, size in config.items():
        _fits(name, size, LONGEST if name in ("batch", "length") else WIDEST)
    _fits("heads * d_head", heads * d_head, WIDEST)
    return Figure("reshape_microscope", "one element of a tensor followed through view and "
                  "transpose.", config)


def mask_painter(q=None, k=None, v=None, lengths=None, empty_query=3):
    """Return a figure with the attention weights of one head, whose mask the reader edits.

    q is (b, i, d), k is (b, j, d), one head of each example. If v (b, j, d_v) is given, the figure
    shows the context. ``lengths`` (b,) are the numbers of keys without padding. ``empty_query``, a
    query of example 0, or None, starts fully masked. Without q, k and v, the data is from
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
        raise ValueError(f"lengths must be ({batch},) integers in 0 .. n_k={n_k}, got "
                         f"{lengths.tolist()}")
    if empty_query is not None and not 0 <= empty_query < n_q:
        raise ValueError(f"empty_query must be None or in 0 .. {n_q - 1}, got {empty_query}")
    config = {name: side.tolist() for name, side in data.items()}
    config |= {"lengths": lengths.tolist(), "empty": empty_query}
    return Figure("mask_painter", "the attention weights of one head, whose mask is painted by "
                  "hand.", config, ["numerics.js"])


def head_browser(tokens, weights, keys=None, scores=None, start=(0, 0)):
    """Return a figure to browse the attention weights of all heads, by head and token.

    ``weights`` are (layer, h, i, j); rows sum to 1, or to 0 if fully masked. ``tokens``, n_q str,
    label the queries and, unless ``keys`` has n_k other labels, the keys. ``scores``,
    {name: (layer, h)}, can be shown in the overview; ``start`` is the (layer, head) shown first.
    Raises ValueError for invalid weights, for shapes that do not fit together, and for data that is
    too large; TypeError for tokens that are not str.
    """
    return Figure("head_browser", "the attention weights of every head, to be read token by token.",
                  _head_data.packed(tokens, weights, keys, scores, start),
                  ["weights.css", "weights.js"])


def live_model(model, vocabulary, text="print(len(items", start=(0, 0)):
    """Return a figure in which the reader types a text for a trained model, which runs there.

    ``model`` is a ``LanguageModel``, or its state dict; its parameters are rounded to float16.
    ``vocabulary`` is a str with a character for each token, ``text`` the initial text, of at most
    128 characters, and ``start`` the (layer, head) chosen first. The HTML holds the parameters, 2.7
    bytes for each; a Jupyter server lets 3 MB pass at once. Without them, as in the stored
    notebooks, the figure fetches them from the site. Raises ValueError for the parameters of
    another model, and for a text or a head that the model does not have.
    """
    state = model.state_dict() if hasattr(model, "state_dict") else model
    data = _model_data.packed(state, vocabulary)
    return Figure("live_model", "a trained model that reads what you type.",
                  _model_data.configuration(data, text, start),
                  ["weights.css", "weights.js", "live_worker.js"], data)


def cost_crossing(d_model=512, n_heads=8, n=256):
    """Return a figure with the share of attention matrices in operations and memory, over n tokens.

    d_model, n_heads and n are the initial values; n is in 8 .. 131072. The formulas are those of
    ``utils.measure.costs``. Raises ValueError for a value that the figure does not offer.
    """
    for name, value, there in (("d_model", d_model, COST_WIDTHS), ("n_heads", n_heads, COST_HEADS)):
        if value not in there:
            raise ValueError(f"{name} must be one of {', '.join(map(str, there))}, got {value}")
    if not 8 <= checks.count(n, "n") <= 2**17:
        raise ValueError(f"n must be in 8 .. {2**17}, got {n}")
    return Figure("cost_crossing", "at which length the attention matrices take over, of the "
                  "operations and of the memory.", {"d_model": d_model, "n_heads": n_heads, "n": n})


def _arrays(q, k, v):
    """Return q, k and, unless it is None, v as a dict of float64 arrays; check them."""
    if q is None or k is None:
        raise ValueError("q and k must be given together: pass both, or none of q, k and v")
    data = {name: checks.to_numpy(side).astype(np.float64)
            for name, side in (("q", q), ("k", k), ("v", v)) if side is not None}
    pattern = "b i d, b j d, b j c" if "v" in data else "b i d, b j d"
    found = checks.check_shapes(pattern, *data.values())
    for letter, name, most in (("b", "batch", LONGEST), ("i", "n_q", LONGEST),
                               ("j", "n_k", LONGEST), ("c", "d_v", WIDEST)):
        _fits(name, found.get(letter, 1), most)
    for name, side in data.items():
        if not np.isfinite(side).all():
            raise ValueError(f"{name} has elements that are not finite")
    return data


def _fits(name, size, most):
    """Raise an error unless ``size`` is an integer in 1 .. ``most``, which the figure can draw."""
    if checks.count(size, name) > most:
        raise ValueError(f"{name} must be at most {most} to be drawn, got {size}")
