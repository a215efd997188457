"""Attention with a state of fixed size instead of a cache: linear attention, gated delta rule.

Each token decays the state, (d, d_v), and writes its value there under its key; a query multiplies
the state. ``recurrent`` does this token by token, ``one_matrix`` for all tokens at once with a
masked matrix, ``chunked`` in pieces. All three return the same numbers.

The gated delta rule is that of Yang, Kautz, Hatamizadeh (2024), https://arxiv.org/abs/2412.06464,
and of Qwen3-Next: https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/
qwen3_next/modeling_qwen3_next.py. Taught in chapter `state_not_cache`.
"""

import torch

from .. import checks
from ..checks import state as state_checks


def recurrent(q, k, v, log_decay=None, beta=None, state=None):
    """Return (context, state), computed token by token.

    (b, h, i, d), (b, h, i, d), (b, h, i, d_v) -> (b, h, i, d_v), (b, h, d, d_v). In each step, the
    state is multiplied by exp(``log_decay``), then the token's value is added under its key, then
    its query reads. With ``beta``, it is not the value that is added, but ``beta`` times the
    difference between the value and what the decayed state returns for the key: the delta rule.

    ``log_decay`` and ``beta`` are (b, h, i); None = no decay, no delta rule. ``state`` is that
    after the tokens before; None = zeros. Queries are not scaled and keys not normalised: see
    ``unit``. There may be any number of axes in the place of b and h. Raises ValueError for shapes
    that do not fit and for a log decay above 0 or not finite, TypeError for what is not a tensor of
    the same dtype.
    """
    log_decay, state = state_checks.inputs(q, k, v, log_decay, beta, state)
    contexts = []
    for i in range(k.shape[-2]):
        key, write = k[..., i, :, None], v[..., i, None, :]  # (…, d, 1), (…, 1, d_v)
        state = state * log_decay[..., i, None, None].exp()
        if beta is not None:
            found = key.mT @ state  # (…, 1, d_v)
            write = beta[..., i, None, None] * (write - found)
        state = state + key * write
        contexts.append(q[..., i, None, :] @ state)
    return torch.cat(contexts, dim=-2), state


def decays(log_decay):
    """Return the decay between two tokens, (…, i) -> (…, i, j).

    Element i, j is what is left at token i of what token j wrote: the product of the decays of the
    tokens j + 1 to i, or 0 if j comes after i. It is exp of a difference, which is at most 0, and
    not a quotient of two products, which may both be 0. Raises TypeError for what is not a tensor,
    ValueError for numbers above 0 or not finite.
    """
    state_checks.logarithms(log_decay)
    total = log_decay.cumsum(dim=-1)
    between = total[..., :, None] - total[..., None, :]  # (…, i, j)
    later = torch.ones_like(between, dtype=torch.bool).triu(1)
    return between.masked_fill(later, -torch.inf).exp()


def one_matrix(q, k, v, log_decay=None, beta=None, state=None):
    """Return (context, state), computed for all tokens at once.

    Arguments, shapes, result and errors are those of ``recurrent``. Without beta and state, the
    context is (q kᵀ ⊙ decays) v. With beta, the differences that the tokens write depend on each
    other: they solve a system of equations with a triangular matrix.
    """
    log_decay, state = state_checks.inputs(q, k, v, log_decay, beta, state)
    kept = decays(log_decay)  # (…, i, j)
    since = log_decay.cumsum(dim=-1).exp()[..., None]  # (…, i, 1)
    write = v
    if beta is not None:
        overlap = (beta[..., None] * (k @ k.mT) * kept).tril(-1)  # (…, i, j)
        write = beta[..., None] * (v - since * (k @ state))
        write = torch.linalg.solve_triangular(
            overlap, write, upper=False, unitriangular=True)
    context = since * (q @ state) + (q @ k.mT * kept) @ write
    left = kept[..., -1, :, None] * k  # (…, j, d)
    return context, since[..., -1:, :] * state + left.mT @ write


def chunked(q, k, v, log_decay=None, beta=None, state=None, size=64):
    """Return (context, state), in chunks of ``size`` tokens.

    Arguments, shapes, result and errors are those of ``recurrent``; ``size`` is at least 1, and the
    last chunk may be shorter. Each chunk begins with the state that the chunk before it has left.
    """
    log_decay, state = state_checks.inputs(q, k, v, log_decay, beta, state)
    size, contexts = checks.count(size, "size"), []
    for start in range(0, k.shape[-2], size):
        part = slice(start, start + size)
        context, state = one_matrix(
            q[..., part, :], k[..., part, :], v[..., part, :],
            log_decay[..., part], None if beta is None else beta[..., part],
            state)
        contexts.append(context)
    return torch.cat(contexts, dim=-2), state


def unit(x, eps=1e-6):
    """Return q or k divided by the length of each vector, (…, d).

    The length is the root of the sum of squares plus ``eps``, as in Qwen3-Next. With a key of
    length 1 and a beta of 1, the delta rule replaces what stands under the key; with a key longer
    than the root of 2, old content would grow. Raises TypeError for what is not a tensor.
    """
    state_checks.tensor(x, "x")
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + eps)


def without_padding(k, log_decay, real):
    """Return (k, log_decay), set to 0 where a token is padding.

    (b, h, i, d), (b, h, i) -> (b, h, i, d), (b, h, i). ``real`` is (b, i), bool, True = no padding.
    A key of zeros writes nothing, and the logarithm 0 is a decay of 1, so padding leaves the state
    as it was. Raises ValueError or TypeError for shapes or a mask that do not fit.
    """
    real = state_checks.real(real, k)  # (b, 1, i)
    state_checks.gates(k, log_decay=log_decay)
    return k * real[..., None], log_decay * real


def state_bytes(layers, heads, d, d_v, width=4):
    """Return the bytes of the states of all layers, for one sequence of any length.

    A state is (heads, d, d_v), with ``width`` bytes per element. Raises TypeError or ValueError
    unless all are integers of at least 1.
    """
    checks.counts(layers=layers, heads=heads, d=d, d_v=d_v, width=width)
    return layers * heads * d * d_v * width
