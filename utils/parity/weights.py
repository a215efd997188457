"""Convert a weight set to and from the layout of each program and library.

A weight set is the dict of ``sizes.weights``: ``W_q W_k W_v`` (d_in, h * d), ``W_o`` (h * d, d_out)
and their biases, used as ``x @ W + b``. ``to_X`` converts to a layout, ``from_X`` back, to new
NumPy arrays with the same bits and dtype.

``from_X`` takes arrays or tensors, such as a ``state_dict()``. A gradient has the layout of its
parameter, so ``from_X`` reads gradients, too. A missing bias becomes zeros. A layout with wrong
names or shapes raises ValueError. If names and shapes agree, as for a square kernel (in, out) or
(out, in), a wrong layout cannot be detected. ``shared_heads`` reads layers in which k and v have
fewer heads than q.
"""

import numpy as np

from .. import checks
from . import _layouts
from ._layouts import (
    GPT2,
    IN_PROJ,
    LISTED,
    SEPARATE,
    pack,
    read,
    unpack,
    weight_set,
    write,
)

NAMES = _layouts.NAMES  # of nn.Linear modules, by chapter or model
QKV_MODULE = _layouts.linear(("W_qkv", "W_o"))
NEOX = _layouts.linear(("query_key_value", "dense"))


def to_linear(weights, names):
    """Return the state dict of four nn.Linear modules: "….weight" (out, in), "….bias".

    ``names`` are those of the modules for q, k, v and out, such as ``NAMES["einsum"]``. The head
    dimension of v may differ from that of q and k.
    """
    return write(read(weights), _layouts.linear(names))


def from_linear(params, names):
    """Return the weight set of ``to_linear``; other modules in ``params`` are ignored."""
    named = getattr(params, "items", dict)()
    mine = {key: array for key, array in named if key.rpartition(".")[0] in names}
    complete = all(f"{name}.weight" in mine for name in names)
    return weight_set(read(mine if complete else params, _layouts.linear(names)))


def to_qkv_module(weights):
    """Return the state dict of ``attention.torch.MultiHeadAttention``: W_qkv (3 * e, d_in), W_o."""
    return write(pack(read(weights)), QKV_MODULE)


def from_qkv_module(params):
    """Return the weight set of ``to_qkv_module``."""
    return weight_set(unpack(read(params, QKV_MODULE)))


def to_in_proj(weights):
    """Return the state dict of ``nn.MultiheadAttention``: in_proj_weight (3 * e, e), out_proj.

    If keys or values do not have e dimensions (``kdim``, ``vdim``), q, k and v have separate
    weights. Raises ValueError unless W_q and W_o are square, because the module has one
    ``embed_dim``.
    """
    pairs = read(weights)
    square = (pairs[0][0].shape[1],) * 2
    for name, (kernel, _) in zip(("W_q", "W_o"), pairs[::3], strict=True):
        if kernel.shape != square:
            raise ValueError(f"{name} must be {square} for nn.MultiheadAttention with "
                             f"embed_dim={square[0]}, got {kernel.shape}")
    if all(kernel.shape == square for kernel, _ in pairs):
        return write(pack(pairs), IN_PROJ)
    params = write(pairs, SEPARATE)
    biases = [params.pop(bias) for _, bias in SEPARATE.names[:3]]
    return params | {"in_proj_bias": np.concatenate(biases)}


def from_in_proj(params):
    """Return the weight set of ``to_in_proj``, from either form."""
    if "q_proj_weight" not in params:
        return weight_set(unpack(read(params, IN_PROJ)))
    params = dict(params)
    if "in_proj_bias" in params:
        biases = np.split(checks.to_numpy(params.pop("in_proj_bias")), 3)
        params |= {f"{n}_proj_bias": bias for n, bias in zip("qkv", biases, strict=True)}
    return weight_set(read(params, SEPARATE))


def to_gpt2(weights):
    """Return (c_attn, c_proj), dicts of ``w`` (in, out), (d_in, 3 * e) and (e, d_out), and ``b``.

    ``attention.numpy.mha`` takes them, and GPT-2's Conv1D stores them.
    """
    params = write(pack(read(weights)), GPT2)
    return tuple({"w": params[w], "b": params[b]} for w, b in GPT2.names)


def from_gpt2(c_attn, c_proj):
    """Return the weight set of ``to_gpt2``."""
    params = {f"{part} {key}": array for part, arrays in (("c_attn", c_attn), ("c_proj", c_proj))
              for key, array in arrays.items()}
    return weight_set(unpack(read(params, GPT2)))


def to_interleaved(weights, n_heads):
    """Return the state dict of GPT-NeoX: query_key_value (h * 3 * d, d_in), head by head; dense.

    Raises ValueError when n_heads does not divide h * d.
    """
    return write(pack(read(weights), n_heads), NEOX)


def from_interleaved(params, n_heads):
    """Return the weight set of ``to_interleaved``; the shapes do not tell n_heads."""
    return weight_set(unpack(read(params, NEOX), n_heads))


def to_dense(weights):
    """Return [W_q, b_q, W_k, …, b_o], (in, out): ``get_weights()`` of four Keras Dense layers."""
    return list(write(read(weights), LISTED).values())


def from_dense(params):
    """Return the weight set of ``to_dense``, from eight arrays or, without biases, from four."""
    params = _layouts.listed(params, 2, "keras.layers.MultiHeadAttention, use from_keras")
    return weight_set(read(params, LISTED))


def to_keras(weights, n_heads):
    """Return ``keras.layers.MultiHeadAttention.get_weights()``, a list of eight arrays.

    Query, key, value: kernel (d_in, h, d), bias (h, d); output: kernel (h, d, d_out), bias. Raises
    ValueError when n_heads does not divide h * d.
    """
    *qkv, W_o, b_o = to_dense(weights)
    for width in (qkv[0].shape[1], W_o.shape[0]):
        checks.divisible(width, n_heads)
    return [*(array.reshape(*array.shape[:-1], n_heads, -1) for array in qkv),
            W_o.reshape(n_heads, -1, W_o.shape[1]), b_o]


def from_keras(params):
    """Return the weight set of ``to_keras``, from eight arrays or, without biases, from four."""
    params = _layouts.listed(params, 3, "Keras Dense layers, use from_dense")
    out = params.pop("output kernel")
    for name, array in params.items():
        if name != "output bias" and array.shape[-2:-1] != out.shape[:1]:
            hint = "; it may be (h, d, d_in)" if array.shape[0] == out.shape[0] else ""
            raise ValueError(f"{name} must be (…, h, d) and output kernel (h, d, d_out) with the "
                             f"same h, got {array.shape} and {out.shape}{hint}")
    flat = {name: array.reshape(*array.shape[:-2], -1) for name, array in params.items()}
    flat["output kernel"] = out.reshape(-1, out.shape[-1])
    return weight_set(read(flat, LISTED))


def to_jax(weights, n_heads):
    """Return the dict of ``attention.jax``: the names of the weight set, with an axis for heads.

    W_q, W_k, W_v (d_in, h, d), b_q, b_k, b_v (h, d), W_o (h, d, d_out), b_o (d_out,). Raises
    ValueError when n_heads does not divide h * d.
    """
    names = [name for pair in _layouts.HOUSE.names for name in pair]
    return dict(zip(names, to_keras(weights, n_heads), strict=True))


def from_jax(params):
    """Return the weight set of ``to_jax``."""
    names = [name for pair in _layouts.HOUSE.names for name in pair]
    if missing := [name for name in names if name not in params]:
        raise ValueError(f"expected {', '.join(names)}, got {', '.join(params)}; "
                         f"{', '.join(missing)} is missing")
    return from_keras([params[name] for name in names])


def load(program, params):
    """Load the params of a ``to_X`` into a torch module or a built Keras layer, and return it.

    Its dtype and device stay. Raises ValueError unless names and shapes are the same; only a bias
    of zeros may be missing in the program.
    """
    if isinstance(params, list):
        _layouts.load_list(program, params)
    else:
        _layouts.load_dict(program, params)
    return program
