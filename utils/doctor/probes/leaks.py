"""Which outputs depend on inputs that come later: read from the Jacobian of a PyTorch program."""

import torch

from utils import checks, masks


@torch.no_grad()
def leaks(program, x, keep=None):
    """Return the pairs [i, j] where out[:, i] depends on a masked x[:, j].

    ``program`` maps a PyTorch tensor x (b, i, d_in) to (b, i, d_out). Each place in turn is filled
    with normal noise; every bit that moves counts, and so does NaN. ``keep`` is bool (i, j), True =
    may be heard (default: causal); a place may always hear itself, since it asks. An empty list is
    evidence, not proof: a change smaller than rounding stays unheard. Taught in `decoder_mask`.
    """
    n = x.shape[1]
    keep = torch.as_tensor(checks.boolean(masks.causal(n) if keep is None else keep))
    before, heard = program(x), torch.zeros(n, n, dtype=torch.bool)
    for j in range(n):
        noisy = x.clone()
        noisy[:, j] = torch.randn_like(x[:, j])
        heard[:, j] = (program(noisy) != before).any(dim=2).any(dim=0)
    return (heard & ~keep & ~torch.eye(n, dtype=torch.bool)).nonzero().tolist()
