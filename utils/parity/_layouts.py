"""Read, write and load parameters in different layouts; used by ``weights``.

A layout consists of names, and of kernels (in, out) or (out, in). q, k and v may be packed along
the axis of outputs, in the order (h, 3, d) or (3, h, d), which are the same for a single head. To
convert, parameters become a list of pairs (kernel (in, out), bias), for q, k, v, out or for
qkv, out.
"""

from typing import NamedTuple

import numpy as np

from .. import checks
from . import _messages


class Layout(NamedTuple):
    """Names of (kernel, bias) for q, k, v, out, or for qkv, out; kernels (in, out) or (out, in)."""

    names: list
    in_out: bool


def linear(names):
    """Return the layout of nn.Linear modules with these names."""
    return Layout([(f"{name}.weight", f"{name}.bias") for name in names], in_out=False)


# The names of the nn.Linear modules for q, k, v and out, by chapter or by model at Hugging Face.
NAMES = {"multi_head_layer": ("q_linear", "k_linear", "v_linear", "out"),
         "einsum": ("w_qs", "w_ks", "w_vs", "fc"),
         "sequence_first": ("query.linear", "key.linear", "value.linear", "output"),
         "llama": ("q_proj", "k_proj", "v_proj", "o_proj"),
         "bart": ("q_proj", "k_proj", "v_proj", "out_proj"),  # also OPT, Whisper and CLIP
         "bert": (*(f"attention.self.{side}" for side in ("query", "key", "value")),
                  "attention.output.dense")}
HOUSE = Layout([(f"W_{n}", f"b_{n}") for n in "qkvo"], in_out=True)
LISTED = Layout([(f"{n} kernel", f"{n} bias") for n in ("query", "key", "value", "output")], True)
GPT2 = Layout([("c_attn w", "c_attn b"), ("c_proj w", "c_proj b")], in_out=True)
OUT_PROJ = ("out_proj.weight", "out_proj.bias")
IN_PROJ = Layout([("in_proj_weight", "in_proj_bias"), OUT_PROJ], in_out=False)
SEPARATE = Layout([*((f"{n}_proj_weight", f"{n}_proj_bias") for n in "qkv"), OUT_PROJ], False)
# A name, or names together, that identify a layout, and the function that reads it.
READERS = {"W_q": "every to_… function", "in_proj_weight": "from_in_proj",
           "q_proj_weight": "from_in_proj", "W_qkv.weight": "from_qkv_module",
           "query_key_value.weight": "from_interleaved", "c_attn w": "from_gpt2",
           "c_attn weight": "from_gpt2 with the keys w and b in place of weight and bias",
           "c_attn.weight": 'from_gpt2(c_attn, c_proj), two dicts {"w": …, "b": …}',
           "qkv_proj.weight": "shared_heads.from_fused",
           **{(f"{first}.weight", f"{last}.weight"): f"from_linear, NAMES[{who!r}]"
              for who, (first, *_, last) in NAMES.items()}}


def read(params, layout=HOUSE):
    """Return [(kernel (in, out), bias)] of a dict in a layout; a missing bias becomes zeros.

    Raises ValueError, with the likely layout, when names or shapes do not fit this one.
    """
    names = [name for pair in layout.names for name in pair]
    if not hasattr(params, "items"):
        raise ValueError(f"expected {', '.join(names)}, got {len(params)} arrays without names; "
                         "to read a list, use from_dense or from_keras")
    if not set(names[::2]) <= set(params) <= set(names):
        raise ValueError(_messages.wrong_names(", ".join(names), names[::2], names, params,
                                               READERS))
    arrays = {name: checks.to_numpy(array) for name, array in params.items()}
    pairs = [(arrays[kernel] if layout.in_out else arrays[kernel].T, arrays.get(bias))
             for kernel, bias in layout.names]
    if not fit(pairs):
        transposed = fit([(kernel.T, bias) for kernel, bias in pairs])
        raise ValueError(_messages.wrong_shapes(arrays, names[::2], layout.in_out, transposed))
    return [(kernel, np.zeros(kernel.shape[1], kernel.dtype) if bias is None else bias)
            for kernel, bias in pairs]


def fit(pairs):
    """Return whether kernels (in, out), packed or not, and biases fit together."""
    *sides, (out, _) = pairs
    if any(kernel.ndim != 2 for kernel, _ in pairs):
        return False
    widths = [kernel.shape[1] for kernel, _ in sides]
    packed = 3 if len(sides) == 1 else 1
    return (widths[-1] == out.shape[0] * packed and len(set(widths[:2])) == 1
            and all(bias is None or bias.shape == kernel.shape[1:] for kernel, bias in pairs))


def write(pairs, layout):
    """Return {name: array} in a layout, new arrays, from [(kernel (in, out), bias)]."""
    params = {}
    for (kernel, bias), names in zip(pairs, layout.names, strict=True):
        params |= zip(names, (kernel if layout.in_out else kernel.T, bias), strict=True)
    return {name: np.array(array, order="C") for name, array in params.items()}


def weight_set(pairs):
    """Return the weight set, the four kernels first, from [(kernel (in, out), bias)]."""
    return dict(sorted(write(pairs, HOUSE).items(), key=lambda item: item[0][0]))


def pack(pairs, n_heads=1):
    """Return [qkv, out] from [q, k, v, out], with the outputs in the order (h, 3, d).

    Raises ValueError when q, k and v differ in shape, or n_heads does not divide their outputs.
    """
    *qkv, out = pairs
    shapes = [kernel.shape for kernel, _ in qkv]
    if len(set(shapes)) > 1:
        raise ValueError("W_q, W_k and W_v must have one shape to be packed, got {}, {} and {}"
                         .format(*shapes))
    d_head = checks.divisible(shapes[0][1], n_heads)
    packed = []
    for part in zip(*qkv, strict=True):  # the kernels, then the biases
        x = np.stack(part, axis=-2)  # (…, 3, h * d)
        heads = x.reshape(*x.shape[:-1], n_heads, d_head).swapaxes(-3, -2)  # (…, h, 3, d)
        packed.append(heads.reshape(*x.shape[:-2], -1))
    return [tuple(packed), out]


def unpack(pairs, n_heads=1):
    """Return [q, k, v, out] from [qkv, out]; the inverse of ``pack``."""
    qkv, out = pairs
    d_head = checks.divisible(out[0].shape[0], n_heads)
    kernel, bias = (x.reshape(*x.shape[:-1], n_heads, 3, d_head) for x in qkv)  # (…, h, 3, d)
    pairs = []
    for side in range(3):  # q, k, v
        pairs.append((kernel[..., side, :].reshape(len(kernel), -1), bias[:, side].ravel()))
    return [*pairs, out]


def listed(arrays, axes, other):
    """Return the arrays of a Keras layer as a dict: query kernel, query bias, … output bias.

    Raises ValueError unless there are eight arrays, or four without biases, and kernels have
    ``axes`` axes. ``other`` is what the message says of arrays with another number of axes.
    """
    arrays = [checks.to_numpy(array) for array in arrays]
    names = {8: [name for pair in LISTED.names for name in pair],
             4: [kernel for kernel, _ in LISTED.names]}.get(len(arrays))
    if names is None:
        raise ValueError(f"expected eight arrays, or four without biases, got {len(arrays)}")
    params = dict(zip(names, arrays, strict=True))
    for kernel, _ in LISTED.names:
        if params[kernel].ndim != axes:
            raise ValueError(f"{kernel} must have {axes} axes, got {params[kernel].shape}; to read "
                             f"{other}")
    return params


def load_list(layer, params):
    """Load a list of arrays into a built Keras layer."""
    if not layer.weights:
        raise ValueError(f"{type(layer).__name__} has no parameters before it is built: call it or "
                         "its build() once")
    without_biases = len(params) == 2 * len(layer.weights)
    if without_biases and not any(bias.any() for bias in params[1::2]):
        params = params[::2]
    same(layer, [tuple(w.shape) for w in layer.weights], [tuple(w.shape) for w in params])
    layer.set_weights(params)


def load_dict(module, params):
    """Load a dict of arrays or tensors into a torch module."""
    import torch
    own = {name: tuple(w.shape) for name, w in module.state_dict().items()}
    params = {name: checks.to_numpy(w) for name, w in params.items()}
    params = {name: w for name, w in params.items() if name in own or w.any()}
    same(module, own, {name: w.shape for name, w in params.items()})
    module.load_state_dict({name: torch.tensor(w) for name, w in params.items()})


def same(program, own, given):
    """Raise ValueError unless the shapes of a program's parameters are those given."""
    if own == given:
        return
    hint = ""
    if isinstance(own, dict) and set(own) == set(given):
        differ = [name for name in own if own[name] != given[name]]
        hint = f"; the shape differs in {_messages.listing(differ)}"
    raise ValueError(f"{type(program).__name__} has parameters {own}, got {given}{hint}")
