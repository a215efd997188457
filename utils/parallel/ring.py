"""Attention over a sequence split between processes, which pass keys and values in a ring.

Taught in `ring_attention`. Sources: Ring Attention, https://arxiv.org/abs/2310.01889; Striped
Attention, https://arxiv.org/abs/2311.09431.
"""

import torch
import torch.distributed as dist

from ..attention.cache import visible
from ..attention.flash import merge, partial


def pass_on(tensors, by=1):
    """Send tensors ``by`` ranks along the ring; return those received."""
    rank, p = dist.get_rank(), dist.get_world_size()
    there, back = (rank + by) % p, (rank - by) % p
    arriving = tuple(map(torch.empty_like, tensors))
    calls = [dist.P2POp(dist.isend, mine, there) for mine in tensors]
    calls += [dist.P2POp(dist.irecv, other, back) for other in arriving]
    for call in dist.batch_isend_irecv(calls):
        call.wait()
    return arriving


class Hop(torch.autograd.Function):
    """Pass k and v along the ring, and their gradients back.

    ``apply(by, k, v) -> (k, v)``, with the same shapes on all ranks; ``by`` as in ``pass_on``.
    """

    @staticmethod
    def forward(ctx, by, k, v):
        """Return k and v of the rank ``by`` ranks before this one."""
        ctx.by = by
        return pass_on((k.contiguous(), v.contiguous()), by)

    @staticmethod
    def backward(ctx, *grads):
        """Return the gradients of k and v, which come from later ranks."""
        return None, *Hop.apply(-ctx.by, *grads)


def ring_attention(q, k, v, places):
    """Return the causal context of this rank's queries over all keys.

    q (b, h, i, d), k (b, h, i, d), v (b, h, i, d_v), all of this rank -> (b, h, i, d_v). ``places``
    are the positions of the tokens of all ranks, (p, i) or (p, b, i), −1 at padding. After p − 1
    hops, each rank has used all keys. Autograd stores the keys and values received, so only the
    forward pass saves memory.
    """
    rank, p = dist.get_rank(), dist.get_world_size()
    state = None
    for step in range(p):
        source = (rank - step) % p  # whose k and v are here
        new = partial(q, k, v, visible(places[rank], places[source]))
        state = new if state is None else merge(state, new)
        if step < p - 1:
            k, v = Hop.apply(1, k, v)
    return state[0]
