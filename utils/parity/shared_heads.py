"""Convert parameters in Hugging Face's names, with shared heads of k and v, to other layouts.

A parameter set here is a dict such as the part of a state dict for one layer: ``q_proj.weight``
(h * d, e), ``k_proj.weight`` and ``v_proj.weight`` (h_kv * d, e), ``o_proj.weight`` (d_out, h * d),
and biases, ``q_proj.bias`` and so on, where the layer has them. All functions return new NumPy
arrays of the same dtype and bits, and raise ValueError for names or shapes that do not fit.
"""

import numpy as np

from .. import checks
from ..checks import cache as cache_checks
from . import _messages, weights

SIDES = _messages.SIDES  # q_proj, k_proj, v_proj, o_proj
FUSED = "from_fused, with query_key_value renamed to qkv_proj and dense to o_proj"
READERS = {("q_proj.weight", "out_proj.weight"): "weights.from_linear, NAMES['bart']",
           "q_proj.weight": "to_grouped, to_fused or to_weight_set",
           "W_qkv.weight": "from_grouped", "qkv_proj.weight": "from_fused",
           "query_key_value.weight": f"{FUSED}, and for Falcon with by_group=True",
           "W_q": "weights.to_linear and its NAMES['llama']"}


def to_grouped(params, n_heads, n_kv_heads):
    """Return the state dict of ``attention.grouped.GroupedAttention``: W_qkv, W_o.

    Biases that are missing stay so.
    """
    return _packed(_read(params, n_heads, n_kv_heads), "W_qkv", "W_o")


def from_grouped(params, n_heads, n_kv_heads):
    """Return the parameter set of ``to_grouped``."""
    return _unpacked(params, "W_qkv", "W_o", n_heads, n_kv_heads)


def to_fused(params, n_heads, n_kv_heads, by_group=False):
    """Return a dict with one ``qkv_proj`` in place of three, and ``o_proj``.

    Its rows are those of all heads of q, then of k, then of v, as in Phi-3. If ``by_group``, each
    head of k and of v follows the heads of q that share it, as in Falcon's ``query_key_value``.
    """
    packed = _packed(_read(params, n_heads, n_kv_heads), "qkv_proj", "o_proj")
    if by_group:
        order = _by_group(n_heads, n_kv_heads, _d_head(packed, "qkv_proj", n_heads, n_kv_heads))
        _sort(packed, "qkv_proj", order)
    return packed


def from_fused(params, n_heads, n_kv_heads, by_group=False):
    """Return the parameter set of ``to_fused``."""
    cache_checks.group(n_heads, n_kv_heads)
    params = _arrays(params, ("qkv_proj.weight", "o_proj.weight"))
    if by_group and "qkv_proj.weight" in params:
        order = _by_group(n_heads, n_kv_heads, _d_head(params, "qkv_proj", n_heads, n_kv_heads))
        _sort(params, "qkv_proj", np.argsort(order))
    return _unpacked(params, "qkv_proj", "o_proj", n_heads, n_kv_heads)


def to_weight_set(params, n_heads, n_kv_heads):
    """Return the weight set, as of ``sizes.weights``, with the heads of k and v repeated.

    Missing biases become zeros.
    """
    params = _read(params, n_heads, n_kv_heads)
    group = n_heads // n_kv_heads
    for side in SIDES[1:3]:
        for kind in ("weight", "bias"):
            if (name := f"{side}.{kind}") in params:
                heads = params[name].reshape(n_kv_heads, -1, *params[name].shape[1:])
                params[name] = heads.repeat(group, axis=0).reshape(-1, *heads.shape[2:])
    return weights.from_linear(params, SIDES)


def _read(params, n_heads, n_kv_heads):
    """Return the parameter set as NumPy arrays, after checking names and shapes."""
    cache_checks.group(n_heads, n_kv_heads)
    needed = [f"{side}.weight" for side in SIDES]
    found = _arrays(params, needed)
    known = {*needed, *(f"{side}.bias" for side in SIDES)}
    biased = {f"{side}.bias" in found for side in SIDES[:3]}
    if not {*needed} <= {*found} <= known or len(biased) > 1:
        raise ValueError(_messages.wrong_names(
            f"{', '.join(needed)}, and biases of q, k and v or of none of them", needed, known,
            found, READERS))
    for name in needed:
        if found[name].ndim != 2:
            raise ValueError(f"{name} must be (out, in), got {found[name].shape}")
    shapes = _shapes(found, n_heads, n_kv_heads)
    for name, array in found.items():
        if array.shape != shapes[name]:
            hint = _cause(found, name, shapes[name], n_heads)
            raise ValueError(f"{name} must be {shapes[name]} for n_heads={n_heads} and n_kv_heads="
                             f"{n_kv_heads}, got {array.shape}{hint}")
    return found


def _arrays(params, needed):
    """Return a dict of NumPy arrays. Raises ValueError unless a dict is given."""
    if not hasattr(params, "items"):
        raise ValueError(f"expected a dict with {', '.join(needed)}, got {type(params).__name__}")
    return {name: checks.to_numpy(array) for name, array in params.items()}


def _shapes(found, n_heads, n_kv_heads):
    """Return {name: shape} as they must be beside q_proj.weight and the outputs of o_proj."""
    rows, d_in = found["q_proj.weight"].shape
    d_head = _per_head("q_proj.weight", rows, n_heads, f"n_heads={n_heads}")
    wide = {"q_proj": rows, **dict.fromkeys(SIDES[1:3], n_kv_heads * d_head)}
    shapes = {f"{side}.weight": (width, d_in) for side, width in wide.items()}
    shapes |= {f"{side}.bias": (width,) for side, width in wide.items()}
    d_out = found["o_proj.weight"].shape[0]
    return shapes | {"o_proj.weight": (d_out, rows), "o_proj.bias": (d_out,)}


def _per_head(name, rows, heads, written):
    """Return the rows of each head. Raises ValueError when the heads do not divide the rows."""
    if rows % heads:
        raise ValueError(f"{name} has {rows} rows, and {written} does not divide them: check the "
                         "numbers of heads in the model's configuration")
    return rows // heads


def _cause(found, name, wanted, n_heads):
    """Return a hint for a parameter of the wrong shape: another number of heads, or (in, out)."""
    shape, (rows, d_in) = found[name].shape, found["q_proj.weight"].shape
    d_head = rows // n_heads
    if name[0] in "kv" and shape[1:] == wanted[1:] and shape[0] % d_head == 0:
        return f"; it has {shape[0] // d_head} heads of {d_head} dimensions"
    same_inputs = {found[f"{side}.weight"].shape[0] for side in SIDES[:3]} == {rows}
    if shape[::-1] == wanted or (same_inputs and found["o_proj.weight"].shape[0] == d_in != rows):
        return "; as (in, out) it may fit: is it transposed?"
    return ""


def _packed(params, qkv, out):
    """Return a dict in which q, k and v are packed into ``qkv``, and ``o_proj`` is ``out``."""
    packed = {}
    for kind in ("weight", "bias"):
        if f"q_proj.{kind}" in params:
            packed[f"{qkv}.{kind}"] = np.concatenate(
                [params[f"{side}.{kind}"] for side in SIDES[:3]])
        if f"o_proj.{kind}" in params:
            packed[f"{out}.{kind}"] = params[f"o_proj.{kind}"].copy()
    return packed


def _unpacked(params, qkv, out, n_heads, n_kv_heads):
    """Return the parameter set of which ``_packed`` made ``params``."""
    cache_checks.group(n_heads, n_kv_heads)
    needed = [f"{qkv}.weight", f"{out}.weight"]
    params = _arrays(params, needed)
    names = {*needed, f"{qkv}.bias", f"{out}.bias"}
    if not {*needed} <= {*params} <= names:
        raise ValueError(_messages.wrong_names(
            f"{', '.join(needed)} and perhaps their biases", needed, names, params, READERS))
    d_head = _d_head(params, qkv, n_heads, n_kv_heads)
    cuts = np.array([n_heads, n_heads + n_kv_heads]) * d_head
    found = {}
    for kind in ("weight", "bias"):
        if f"{qkv}.{kind}" in params:
            parts = np.split(params[f"{qkv}.{kind}"], cuts)
            found |= {f"{side}.{kind}": part.copy()
                      for side, part in zip(SIDES[:3], parts, strict=True)}
        if f"{out}.{kind}" in params:
            found[f"o_proj.{kind}"] = params[f"{out}.{kind}"].copy()
    return _read(found, n_heads, n_kv_heads)


def _d_head(params, qkv, n_heads, n_kv_heads):
    """Return the rows of each head in a packed parameter."""
    heads = n_heads + 2 * n_kv_heads
    return _per_head(f"{qkv}.weight", params[f"{qkv}.weight"].shape[0], heads,
                     f"n_heads + 2 * n_kv_heads = {heads}")


def _by_group(n_heads, n_kv_heads, d_head):
    """Return for each row, group by group, its row where all heads of q come first, (rows,)."""
    q, k, v = np.split(np.arange(n_heads + 2 * n_kv_heads), [n_heads, n_heads + n_kv_heads])
    heads = np.concatenate([q.reshape(n_kv_heads, -1), k[:, None], v[:, None]], axis=1).ravel()
    return (heads[:, None] * d_head + np.arange(d_head)).ravel()


def _sort(params, name, order):
    """Sort the rows of the weight and the bias of one module, in place of the dict only."""
    for kind in ("weight", "bias"):
        if f"{name}.{kind}" in params:
            params[f"{name}.{kind}"] = params[f"{name}.{kind}"][order]
