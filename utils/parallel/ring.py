"""Attention over a text whose words lie on several machines: keys and values go round.

Taught in `many_machines`. Sources: Ring Attention, https://arxiv.org/abs/2310.01889; Striped
Attention, https://arxiv.org/abs/2311.09431.
"""

import torch
import torch.distributed as dist

from utils.attention.cache import visible
from utils.attention.flash import merge, partial


def pass_on(tensors, by=1):
    """Send tensors ``by`` places round the ring, and return those that arrive here, a tuple."""
    rank, p = dist.get_rank(), dist.get_world_size()
    there, back = (rank + by) % p, (rank - by) % p
    arriving = tuple(map(torch.empty_like, tensors))
    calls = [dist.P2POp(dist.isend, mine, there) for mine in tensors]
    calls += [dist.P2POp(dist.irecv, other, back) for other in arriving]
    for call in dist.batch_isend_irecv(calls):
        call.wait()
    return arriving


class Hop(torch.autograd.Function):
    """Pass k and v on round the ring; their gradients come back the other way.

    ``apply(by, k, v) -> (k, v)``, of one shape on all ranks; ``by`` as in ``pass_on``.
    """

    @staticmethod
    def forward(ctx, by, k, v):
        """Return the k and v of the rank ``by`` places before."""
        ctx.by = by
        return pass_on((k.contiguous(), v.contiguous()), by)

    @staticmethod
    def backward(ctx, *grads):
        """Return the gradients that the next rank has found for our k and v."""
        return None, *Hop.apply(-ctx.by, *grads)


def ring_attention(q, k, v, places):
    """Return the context of this rank's queries, causal, over the keys of all ranks.

    q (b, h, i, d), k (b, h, i, d), v (b, h, i, d_v), this rank's own -> (b, h, i, d_v). ``places``
    are the positions of every rank's words, (p, i) or (p, b, i), −1 where there is none. After p
    − 1 hops each rank has met all keys. Autograd keeps what has passed by, so only the forward
    pass saves memory.
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
