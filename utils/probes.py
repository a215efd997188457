"""Probes: what must hold for every attention, tested from outside, with no reference needed.

``kernel``, ``layer`` and ``decoding`` put all of them to a program, and return a Finding each.
"""

import torch

from utils import checks, masks
from utils.findings import Finding  # noqa: F401 - one place to find them all
from utils.hearing import causality, empty_row, hearing, padding  # noqa: F401
from utils.invariants import (  # noqa: F401
    batch_independence,
    determinism,
    equivariance,
    finiteness,
    query_independence,
    shape,
    untouched,
)
from utils.kernel_probes import (  # noqa: F401
    cache,
    head_independence,
    row_sums,
    variance,
    weights_match,
)
from utils.layer_probes import (  # noqa: F401
    parameter_count,
    same_words,
    weights_on_off,
    weights_used,
)
from utils.probe_run import decoding, kernel, layer  # noqa: F401


@torch.no_grad()
def leaks(program, x, keep=None):
    """Return the pairs [i, j] at which out[:, i] hears x[:, j] though ``keep`` forbids it.

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
