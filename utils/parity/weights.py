"""One weight set into, and out of, the layout of every program and library.

A weight set is the dict of ``sizes.weights``: ``W_q W_k W_v`` (d_in, h * d), ``W_o`` (h * d, d_out)
and their biases, used as ``x @ W + b``. Nothing is computed here: each pair ``to_X``, ``from_X``
gives back the same bits in the same dtype, as new NumPy arrays.

``from_X`` takes arrays or tensors, such as a ``state_dict()``. A gradient has the layout of its
weight, so ``from_X`` reads gradients too. A bias that is not there comes back as zeros. Layouts are
told apart by names and shapes, and a wrong one raises ValueError; where both agree, as in (in, out)
and (out, in) of a square kernel, nothing can tell.
"""

import numpy as np

from utils import checks
from utils.parity import _layouts
from utils.parity._layouts import (
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

NAMES = _layouts.NAMES  # of nn.Linear modules, by chapter
QKV_MODULE = _layouts.linear(("W_qkv", "W_o"))
NEOX = _layouts.linear(("query_key_value", "dense"))


def to_linear(weights, names):
    """Return the state dict of four nn.Linear modules: "….weight" (out, in), "….bias".

    ``names``: what the modules for q, k, v and out are called, such as ``NAMES["einsum"]``. The
    heads of v may be wider than those of q and k.
    """
    return write(read(weights), _layouts.linear(names))


def from_linear(params, names):
    """Return the weight set of ``to_linear``; other modules in ``params`` are passed over."""
    mine = {key: array for key, array in params.items() if key.rpartition(".")[0] in names}
    return weight_set(read(mine or params, _layouts.linear(names)))


def to_qkv_module(weights):
    """Return the state dict of ``torch_attention.MultiHeadAttention``: W_qkv (3 * e, d_in), W_o."""
    return write(pack(read(weights)), QKV_MODULE)


def from_qkv_module(params):
    """Return the weight set of ``to_qkv_module``."""
    return weight_set(unpack(read(params, QKV_MODULE)))


def to_in_proj(weights):
    """Return the state dict of ``nn.MultiheadAttention``: in_proj_weight (3 * e, e), out_proj.

    When keys or values are not e wide (``kdim``, ``vdim``), each of q, k and v has its own weight.
    Raises ValueError when W_q or W_o is not square: the module has but one ``embed_dim``.
    """
    pairs = read(weights)
    square = (pairs[0][0].shape[1],) * 2
    for name, (kernel, _) in zip(("W_q", "W_o"), pairs[::3], strict=True):
        if kernel.shape != square:
            raise ValueError(f"{name} is {kernel.shape}, and nn.MultiheadAttention with "
                             f"embed_dim={square[0]} wants {square}")
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

    They are what ``numpy_attention.mha`` takes, and GPT-2's Conv1D holds.
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
    """Return the weight set of ``to_interleaved``; n_heads cannot be seen in the shapes."""
    return weight_set(unpack(read(params, NEOX), n_heads))


def to_dense(weights):
    """Return [W_q, b_q, W_k, …, b_o], (in, out): ``get_weights()`` of four Keras Dense layers."""
    return list(write(read(weights), LISTED).values())


def from_dense(params):
    """Return the weight set of ``to_dense``, from eight arrays or, without biases, from four."""
    params = _layouts.listed(params, 2, "keras.layers.MultiHeadAttention")
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
    params = _layouts.listed(params, 3, "Keras Dense layers")
    out = params.pop("output kernel")
    for name, array in params.items():
        if name != "output bias" and array.shape[-2:-1] != out.shape[:1]:
            hint = "; it looks like (h, d, d_in)" if array.shape[0] == out.shape[0] else ""
            raise ValueError(f"{name} {array.shape} and output kernel {out.shape} should be "
                             f"(…, h, d) and (h, d, d_out) with one h{hint}")
    flat = {name: array.reshape(*array.shape[:-2], -1) for name, array in params.items()}
    flat["output kernel"] = out.reshape(-1, out.shape[-1])
    return weight_set(read(flat, LISTED))


def load(program, params):
    """Write the params of a ``to_X`` into a torch module or a built Keras layer, and return it.

    Its dtype and device stay. A bias of zeros may be missing in the program; otherwise names and
    shapes must be the same, or ValueError is raised.
    """
    if isinstance(params, list):
        if not program.weights:
            raise ValueError(f"{type(program).__name__} has no weights before it is built: "
                             "call it once, or its build()")
        if len(params) == 2 * len(program.weights) and not any(b.any() for b in params[1::2]):
            params = params[::2]
        own, given = ([tuple(w.shape) for w in side] for side in (program.weights, params))
    else:
        own = {name: tuple(w.shape) for name, w in program.state_dict().items()}
        params = {name: checks.to_numpy(w) for name, w in params.items()}
        params = {name: w for name, w in params.items() if name in own or w.any()}
        given = {name: w.shape for name, w in params.items()}
    if own != given:
        raise ValueError(f"{type(program).__name__} holds {own}, got {given}")
    if isinstance(params, list):
        program.set_weights(params)
    else:
        import torch
        program.load_state_dict({name: torch.tensor(w) for name, w in params.items()})
    return program
