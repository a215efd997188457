"""Several heads of q that share one head of k and v. Taught in chapter `fewer_heads`.

Head h of q uses head h // group of k and v, which are not repeated in memory. Sources: one shared
head, https://arxiv.org/abs/1911.02150; groups, https://arxiv.org/abs/2305.13245.
"""

from torch import nn

from .. import checks
from ..checks import cache as cache_checks
from .cache import CausalAttention
from .heads import split_heads
from .torch import sdpa_with_zeros


def folded_attention(q, k, v, keep=None):
    """Return the context; heads that share keys become queries of one head.

    (b, h, i, d), (b, h_kv, j, d), (b, h_kv, j, d_v) -> (b, h, i, d_v). k and v are not copied; a
    ``keep`` is repeated for each head of a group. ``keep`` (bool, True = may attend) broadcasts to
    (b, h, i, j). Raises ValueError or TypeError for sizes or a mask that do not fit.
    """
    group, (batch, n_heads, n_q, d) = cache_checks.shared(q, k, v), q.shape
    kv_heads, n_k = k.shape[1:3]
    keep = checks.keep(keep, q, k, v, grouped=True)
    if keep is not None:
        keep = keep.expand(batch, n_heads, n_q, n_k)
        keep = keep.reshape(batch, kv_heads, group * n_q, n_k)
    q = q.reshape(batch, kv_heads, group * n_q, d)
    context = sdpa_with_zeros(q, k, v, keep)  # (b, h_kv, group i, d_v)
    return context.reshape(batch, n_heads, n_q, v.shape[-1])


def grouped_attention(q, k, v, keep=None, causal=False):
    """Return the context; k and v may have fewer heads than q.

    (b, h, i, d), (b, h_kv, j, d), (b, h_kv, j, d_v) -> (b, h, i, d_v). ``folded_attention`` handles
    a single query, as in decoding. Several queries go to PyTorch's kernel, which on a CPU copies k
    and v only if d_v is not d. ``keep`` and ``causal`` as for ``fused_attention``. Raises
    as both do.
    """
    cache_checks.shared(q, k, v)
    if q.shape[-2] == 1 and not causal:
        return folded_attention(q, k, v, keep)
    keep = checks.keep(keep, q, k, v, grouped=True)
    return sdpa_with_zeros(q, k, v, keep, causal, enable_gqa=True)


class GroupedAttention(CausalAttention):
    """Causal attention with fewer heads of k and v, (b, i, e) -> (b, i, e).

    ``W_qkv`` packs the projections as [q | k | v], where k and v have fewer heads. With ``d_head``,
    heads have this dimension in place of d_model / n_heads. Raises ValueError when n_kv_heads does
    not divide n_heads, and as ``CausalAttention`` does.
    """

    attend = staticmethod(grouped_attention)

    def __init__(self, d_model, n_heads, n_kv_heads, window=None, bias=True, d_head=None):
        width = d_model
        if d_head is not None:
            checks.counts(d_model=d_model, n_heads=n_heads, d_head=d_head)
            width = n_heads * d_head
        super().__init__(width, n_heads, window, bias)
        cache_checks.group(n_heads, n_kv_heads)
        kv_width = n_kv_heads * (width // n_heads)
        self.n_kv_heads, self.widths = n_kv_heads, [width, kv_width, kv_width]
        self.W_qkv = nn.Linear(d_model, sum(self.widths), bias=bias)
        if width != d_model:
            self.W_o = nn.Linear(width, d_model, bias=bias)

    def project(self, x):
        """Return q (b, h, i, d), and k and v (b, h_kv, i, d)."""
        checks.inputs(self.W_qkv, x)
        q, k, v = self.W_qkv(x).split(self.widths, dim=-1)
        return (split_heads(q, self.n_heads), split_heads(k, self.n_kv_heads),
                split_heads(v, self.n_kv_heads))
