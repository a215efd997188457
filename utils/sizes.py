"""Teaching sizes, pairwise different, and seeded random data at those sizes.

Equal sizes hide bugs: if ``n_q == n_k``, a transposed mask fits; if ``d_in == d_model``, so does a
transposed weight; and if all data is ones, most mistakes change nothing. So no two sizes here are
equal, all data is random, and one example of every batch is padded. All arrays are float64 NumPy
arrays; ``torch.as_tensor`` and TensorFlow accept them unchanged.
"""

import numpy as np

from . import checks

BATCH = 2      # b: examples
N_Q = 5        # i: queries
N_K = 7        # j: keys
HEADS = 3      # h
D_HEAD = 4     # d: dimensions of q and k in one head
D_V = 8        # dimensions of v in one head, where a program lets it differ
D_MODEL = 12   # e = h * d
D_IN = 11      # width of x and memory, where a program lets it differ from d_model
D_OUT = 13     # width of out, likewise
GROUPED_HEADS, KV_HEADS = 6, 2   # heads of q, and of k and v, in grouped attention


def qkv(seed=0, *, batch=BATCH, heads=HEADS, kv_heads=None, n_q=N_Q, n_k=N_K,
        d_head=D_HEAD, d_v=D_V):
    """Return random q, k, v: (b, h, i, d), (b, h, j, d), (b, h, j, d_v), float64, variance 1."""
    kv_heads = heads if kv_heads is None else kv_heads
    checks.counts(batch=batch, heads=heads, kv_heads=kv_heads, n_q=n_q, n_k=n_k, d_head=d_head,
                  d_v=d_v)
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((batch, heads, n_q, d_head)),
            rng.standard_normal((batch, kv_heads, n_k, d_head)),
            rng.standard_normal((batch, kv_heads, n_k, d_v)))


def sides(seed=0, *, batch=BATCH, n_q=N_Q, n_k=N_K, d_in=D_IN):
    """Return random x (b, i, d_in) for the queries and memory (b, j, d_in) for keys and values."""
    checks.counts(batch=batch, n_q=n_q, n_k=n_k, d_in=d_in)
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((batch, n_q, d_in)),
            rng.standard_normal((batch, n_k, d_in)))


def lengths(seed=0, *, batch=BATCH, n_k=N_K):
    """Return the length of each example, (b,), integers: one is n_k, the others 1 .. n_k - 1."""
    checks.counts(batch=batch, n_k=n_k)
    rng = np.random.default_rng(seed)
    result = rng.integers(1, max(n_k, 2), size=batch)
    result[rng.integers(batch)] = n_k
    return result


def weights(seed=0, *, d_in=D_IN, d_model=D_MODEL, d_out=D_OUT, bias=True):
    """Return one weight set for multi-head attention, a dict of float64 arrays.

    ``W_q W_k W_v`` are (d_in, d_model) and ``W_o`` is (d_model, d_out), used as ``x @ W``. They
    are normal with variance 1 / fan-in. ``b_q b_k b_v`` are (d_model,) and ``b_o`` is (d_out,),
    normal with variance 1, or zeros when ``bias`` is False.
    """
    checks.counts(d_in=d_in, d_model=d_model, d_out=d_out)
    rng = np.random.default_rng(seed)
    result = {name: rng.standard_normal((d_in, d_model)) / np.sqrt(d_in)
              for name in ("W_q", "W_k", "W_v")}
    result["W_o"] = rng.standard_normal((d_model, d_out)) / np.sqrt(d_model)
    for name in ("q", "k", "v", "o"):
        size = d_out if name == "o" else d_model
        drawn = rng.standard_normal(size)  # drawn in any case: W_… do not depend on bias
        result[f"b_{name}"] = drawn if bias else np.zeros(size)
    return result
