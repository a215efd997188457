"""Change a trained language model so that its heads share keys and values.

Taught in chapter `fewer_heads`. Source: https://arxiv.org/abs/2305.13245.
"""

import copy

import torch
from torch import nn

from ..attention.grouped import GroupedAttention
from .language_model import RotaryAttention


class GroupedRotary(GroupedAttention):
    """``language_model.RotaryAttention`` with fewer heads of k and v, (b, i, e) -> (b, i, e)."""

    def __init__(self, d_model, n_heads, n_kv_heads):
        super().__init__(d_model, n_heads, n_kv_heads, bias=False)
        self.gain = nn.Parameter(torch.full((n_heads, 1, 1), 2.0))

    heads_at = RotaryAttention.heads_at


def regrouped(model, n_kv_heads, pool):
    """Return a copy of a ``LanguageModel`` whose heads share ``n_kv_heads`` heads of k and v.

    ``pool`` maps the matrices of all groups to those of the shared heads, (h_kv, group, d, e) ->
    (h_kv, d, e); all other parameters are copied. Raises ValueError when n_kv_heads does not divide
    the heads.
    """
    model = copy.deepcopy(model)
    for block in model.blocks:
        old, d_model = block.attention, block.attention.W_o.in_features
        q, k, v = old.W_qkv.weight.detach().chunk(3)  # (e, e) each, rows: head by head
        new = GroupedRotary(d_model, old.n_heads, n_kv_heads).to(q)
        shape = (n_kv_heads, old.n_heads // n_kv_heads, d_model // old.n_heads, d_model)
        k, v = (pool(side.view(shape)).flatten(0, 1) for side in (k, v))
        weights = {"W_qkv.weight": torch.cat([q, k, v]), "W_o.weight": old.W_o.weight.detach(),
                   "gain": old.gain.detach()}
        new.load_state_dict(weights)
        block.attention = new.train(model.training)
    return model
