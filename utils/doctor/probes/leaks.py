"""Which outputs of a PyTorch program depend on inputs that they must not depend on."""

import torch

from ... import checks, masks


@torch.no_grad()
def leaks(program, x, keep=None):
    """Return the pairs [i, j] where out[:, i] depends on a masked x[:, j].

    ``program`` maps a PyTorch tensor x (b, i, d_in) to (b, i, d_out). Each position in turn is
    filled with normal noise. Every change of an output counts, however small, and so does NaN.
    ``keep`` is bool (i, j), True = may depend on (default: causal); position i may depend on
    itself, since it is the query. An empty list is evidence and not a proof, as a change smaller
    than rounding is not measured. Taught in `decoder_mask`.
    """
    n = x.shape[1]
    if keep is None:
        keep = masks.causal(n)
    keep = torch.as_tensor(checks.boolean(keep))
    before, depends = program(x), torch.zeros(n, n, dtype=torch.bool)
    for j in range(n):
        noisy = x.clone()
        noisy[:, j] = torch.randn_like(x[:, j])
        depends[:, j] = (program(noisy) != before).any(dim=2).any(dim=0)
    itself = torch.eye(n, dtype=torch.bool)
    return (depends & ~keep & ~itself).nonzero().tolist()
