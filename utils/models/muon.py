"""Muon, an optimiser for matrices, in the dtype of the parameters.

PyTorch's own computes in bfloat16. On processors without bfloat16, as in most laptops, it then
takes ten times as long as the rest of a training step. Source:
https://kellerjordan.github.io/posts/muon/.
"""

import torch

COEFFICIENTS, STEPS = (3.4445, -4.7750, 2.0315), 5


def orthogonal(matrix):
    """Return a matrix with the same singular vectors, and singular values near 1, (…, m, n).

    They come out between about 0.7 and 1.2, except those far smaller than the largest. Five steps
    of Newton and Schulz: each replaces a singular value s by a s + b s^3 + c s^5.
    """
    a, b, c = COEFFICIENTS
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(STEPS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Muon):
    """``torch.optim.Muon`` without bfloat16; arguments and stored state are its own.

    Weight decay, Nesterov momentum and the factor for tall matrices are as there by default.
    """

    @torch.no_grad()
    def step(self):
        """Change every parameter (m, n) that has a gradient."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, momentum = self.state[p], group["momentum"]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(p)
                average = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
                change = orthogonal(p.grad.lerp(average, momentum))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * max(1, p.shape[0] / p.shape[1]) ** 0.5 * change)
