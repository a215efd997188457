"""A feed-forward layer that chooses experts for each token, as in gpt-oss.

Source: https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/gpt_oss/
modeling_gpt_oss.py.
"""

import torch
from torch import nn

from .. import checks


class Experts(nn.Module):
    """Add up the ``chosen`` likeliest of ``number`` gated layers, (…, e) -> (…, e).

    A router scores the experts; softmax over the chosen scores gives their shares. In ``up`` and
    its bias, gate and linear part alternate. The gate is at most ``limit``, the linear part within
    ``limit`` of 0, and an expert returns (linear + 1) * gate * sigmoid(alpha * gate), projected.
    """

    def __init__(self, d_model, d_hidden, number, chosen, alpha=1.702, limit=7.0):
        super().__init__()
        checks.counts(d_model=d_model, d_hidden=d_hidden, number=number, chosen=chosen)
        if chosen > number:
            raise ValueError(f"chosen must be at most number={number}, got {chosen}")
        self.chosen, self.alpha, self.limit = chosen, alpha, limit
        self.router = nn.Linear(d_model, number)
        self.up = nn.Parameter(torch.randn(number, d_model, 2 * d_hidden) / d_model ** 0.5)
        self.up_bias = nn.Parameter(torch.zeros(number, 2 * d_hidden))
        self.down = nn.Parameter(torch.randn(number, d_hidden, d_model) / d_hidden ** 0.5)
        self.down_bias = nn.Parameter(torch.zeros(number, d_model))

    def expert(self, n, x):
        """Return what expert n computes of the tokens x, (n_tokens, e) -> (n_tokens, e)."""
        gate, linear = (x @ self.up[n] + self.up_bias[n]).unflatten(-1, (-1, 2)).unbind(-1)
        gate, linear = gate.clamp(max=self.limit), linear.clamp(-self.limit, self.limit)
        return ((linear + 1) * gate * torch.sigmoid(self.alpha * gate)) @ self.down[n] + (
            self.down_bias[n])

    def forward(self, x):
        """Return the output for each position separately."""
        tokens = x.flatten(0, -2)  # (n_tokens, e)
        scores, which = self.router(tokens).topk(self.chosen, dim=-1)  # (n_tokens, chosen)
        shares = scores.softmax(dim=-1)
        out = torch.zeros_like(tokens)
        for n in which.unique().tolist():
            rows, places = (which == n).nonzero(as_tuple=True)
            share = shares[rows, places, None]
            out = out.index_add(0, rows, share * self.expert(n, tokens[rows]))
        return out.view_as(x)
