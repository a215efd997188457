"""Arguments of a call of each public function of the chapter on flash attention."""

import torch

from utils import flash, sizes

Q, K, V = (torch.as_tensor(side).float() for side in sizes.qkv(n_q=5, n_k=5))
KEEP = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])[:, None, None]
A, B = flash.partial(Q, K, V, KEEP), flash.partial(Q, K, V)
CONTEXT, LSE = flash.forward_tiles(Q, K, V, KEEP, tile=2)

CALLS = {
    "dispatch.operations": (lambda: Q + 1,),
    "dispatch.peak_bytes": (lambda: Q + 1, Q),
    "flash.backward_tiles": (torch.randn(2, 3, 5, 8), Q, K, V, KEEP,
                             False, 2, CONTEXT, LSE),
    "flash.cut": (KEEP, False, slice(0, 2), slice(2, 4)),
    "flash.forward_tiles": (Q, K, V, KEEP, False, 2),
    "flash.merge": (A, B),
    "flash.partial": (Q, K, V, KEEP),
    "flash.tiled_attention": (Q, K, V, KEEP),
    "flash.tiles": (5, 7, 2),
    "flash_checks.tiled": (Q, K, V, KEEP, False, 2),
}
