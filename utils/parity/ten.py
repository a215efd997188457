"""The eleven programs of chapter `one_equation`, to be compared by ``utils.parity``.

Each is the program that a chapter teaches, with its own layout of parameters and masks. A framework
is imported when a program that needs it runs: TensorFlow by two of them, JAX by one.
"""

import math

import numpy as np

from .. import frameworks, masks
from ..attention import numpy as numpy_attention
from . import adapters, weights


def programs():
    """Return the eleven Programs."""
    return [adapters.numpy_function("loops", loops),
            adapters.torch_function("per head", per_head),
            adapters.torch_function("view", view),
            einsum(),
            adapters.numpy_function("packed", packed, weights.to_gpt2),
            folded(), sequence_first(), jax(), sdpa(), torch_mha(), keras_mha()]


def loops(x, memory, W, n_heads, keep):
    """Return out (b, i, e), computed element by element.

    x is (b, i, e), memory (b, j, e), W a weight set, keep (b, 1, i, j).
    """
    if keep is None:
        keep = np.ones((len(x), 1, x.shape[1], memory.shape[1]), dtype=bool)
    q, k, v = (linear(side, W[f"W_{n}"], W[f"b_{n}"])
               for side, n in ((x, "q"), (memory, "k"), (memory, "v")))
    d = q.shape[-1] // n_heads
    context = np.zeros_like(q)
    for b, h, i in np.ndindex(len(x), n_heads, x.shape[1]):
        features = range(h * d, (h + 1) * d)
        keys = [j for j in range(memory.shape[1]) if keep[b, 0, i, j]]
        scores = [sum(q[b, i, c] * k[b, j, c] for c in features) / math.sqrt(d) for j in keys]
        exps = [np.exp(score - max(scores)) for score in scores]
        for c in features:
            context[b, i, c] = sum(exp / sum(exps) * v[b, j, c]
                                   for exp, j in zip(exps, keys, strict=True))
    return linear(context, W["W_o"], W["b_o"])


def linear(x, W, b):
    """Return x W + b, element by element, (b, i, in), (in, out), (out,) -> (b, i, out)."""
    out = np.zeros((*x.shape[:2], len(b)), x.dtype)
    for n, i, c in np.ndindex(out.shape):
        out[n, i, c] = b[c] + sum(x[n, i, a] * W[a, c] for a in range(len(W)))
    return out


def per_head(x, memory, W, n_heads, keep):
    """Return out by ``attention.torch.attention_per_head``; arguments of ``loops``, as tensors."""
    from ..attention.torch import attention_per_head
    context, _ = attention_per_head(*project(x, memory, W), n_heads, keep)
    return context @ W["W_o"] + W["b_o"]


def view(x, memory, W, n_heads, keep):
    """Return out by ``split_heads``, ``attention.torch.attention`` and ``merge_heads``."""
    from ..attention.heads import merge_heads, split_heads
    from ..attention.torch import attention
    context, _ = attention(*(split_heads(side, n_heads) for side in project(x, memory, W)), keep)
    return merge_heads(context) @ W["W_o"] + W["b_o"]


def project(x, memory, W):
    """Return q, k, v: (b, i, e), (b, j, e), (b, j, e)."""
    return (x @ W["W_q"] + W["b_q"], memory @ W["W_k"] + W["b_k"], memory @ W["W_v"] + W["b_v"])


def einsum():
    """Return the Program of ``attention.einsum``, without residual and LayerNorm."""
    names = weights.NAMES["einsum"]

    def build(case):
        from ..attention.einsum import MultiHeadAttentionNew
        e, d = case.x.shape[-1], case.x.shape[-1] // case.n_heads
        module = MultiHeadAttentionNew(case.n_heads, e, d, d, residual=False, layer_norm=False)
        return module, weights.to_linear(case.weights, names)

    def call(module, x, memory, case):
        drop = None if case.keep is None else masks.to_drop(case.keep)
        return module(x, memory, memory, drop)[0]

    return adapters.torch_module("einsum", build, call,
                                 lambda params: weights.from_linear(params, names))


def packed(x, memory, params, n_heads, keep):
    """Return out by ``attention.numpy.mha``, which computes self-attention only.

    ``params`` is its (c_attn, c_proj), from ``weights.to_gpt2``. For cross-attention, x and memory
    are concatenated, and a mask lets the tokens of x attend to those of memory only.
    """
    keep = None if keep is None else keep[:, 0]
    if memory is x:
        return numpy_attention.mha(x, *params, n_heads, keep)
    batch, n_q, _ = x.shape
    n = n_q + memory.shape[1]
    both = np.broadcast_to(np.eye(n, dtype=bool), (batch, n, n)).copy()
    both[:, :n_q, :n_q] = False
    both[:, :n_q, n_q:] = True if keep is None else keep
    out = numpy_attention.mha(np.concatenate([x, memory], axis=1), *params, n_heads, both)
    return out[:, :n_q]


def folded():
    """Return the Program of ``attention.tensorflow``: masks are lengths, heads are in the batch."""
    def build(case):
        from ..attention.tensorflow import MultiHeadAttention
        e = case.x.shape[-1]
        layer = MultiHeadAttention(e, e, e, e, case.n_heads, 0.0, True, dtype=case.x.dtype.name)
        return layer, weights.to_dense(case.weights)

    def call(layer, x, memory, case):
        lens = None if case.keep is None else masks.to_valid_lens(case.keep, len(case.x))
        return layer(x, memory, memory, lens)

    return adapters.keras_layer("folded (TensorFlow)", build, call, weights.from_dense)


def sequence_first():
    """Return the Program of ``attention.sequence_first``: inputs and outputs are (i, b, e)."""
    names = weights.NAMES["sequence_first"]

    def build(case):
        from ..attention.sequence_first import MultiHeadAttention
        module = MultiHeadAttention(case.n_heads, case.x.shape[-1])
        return module, weights.to_linear(case.weights, names)

    def call(module, x, memory, case):
        query, key = x.transpose(0, 1), memory.transpose(0, 1)
        mask = None if case.keep is None else masks.to_sequence_first(case.keep)
        return module(query=query, key=key, value=key, mask=mask).transpose(0, 1)

    return adapters.torch_module("sequence first", build, call,
                                 lambda params: weights.from_linear(params, names))


def jax():
    """Return the Program of ``attention.jax``, whose parameters have an axis for the heads."""
    def function(params, x, memory, keep):
        from ..attention.jax import multi_head_attention
        return multi_head_attention(params, x, memory, keep)

    return adapters.jax_function("JAX", function, weights.to_jax, weights.from_jax)


def sdpa():
    """Return the Program of ``attention.torch.MultiHeadAttention``, which calls SDPA."""
    def build(case):
        from ..attention.torch import MultiHeadAttention
        module = MultiHeadAttention(case.x.shape[-1], case.n_heads)
        return module, weights.to_qkv_module(case.weights)

    def call(module, x, memory, case):
        return module(x, None if memory is x else memory, keep=case.keep)

    return adapters.torch_module("SDPA", build, call, weights.from_qkv_module)


def torch_mha():
    """Return the Program of PyTorch's layer, in whose mask True = drop."""
    def build(case):
        from torch import nn
        module = nn.MultiheadAttention(case.x.shape[-1], case.n_heads, batch_first=True)
        return module, weights.to_in_proj(case.weights)

    def call(module, x, memory, case):
        drop = None if case.keep is None else masks.to_torch_mha(case.keep, case.n_heads)
        return module(x, memory, memory, attn_mask=drop, need_weights=False)[0]

    return adapters.torch_module("nn.MultiheadAttention", build, call, weights.from_in_proj)


def keras_mha():
    """Return the Program of Keras' layer.

    Keras 3.15 rounds 1 / sqrt(d) to float32 even in float64, which is exact for d = 1, 4, 16. With
    d = 1 and as many keys as heads, it adds the biases along the wrong axis.
    """
    def build(case):
        keras = frameworks.tensorflow().keras
        layer = keras.layers.MultiHeadAttention(
            case.n_heads, case.x.shape[-1] // case.n_heads, dtype=case.x.dtype.name)
        layer.build(case.x.shape, case.memory.shape)
        return layer, weights.to_keras(case.weights, case.n_heads)

    def call(layer, x, memory, case):
        mask = None if case.keep is None else masks.to_keras(case.keep, *case.x.shape[:2])
        return layer(x, memory, attention_mask=mask)

    return adapters.keras_layer("Keras", build, call, weights.from_keras)
