"""A decoder assembled from a configuration, as open models publish it. Taught in `todays_decoder`.

``configuration`` reads the configuration, ``hugging_face`` loads the parameters.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .. import checks
from ..attention.cache import Cache
from ..attention.departures import attention_with_sink, qk_norm, soft_capped
from ..attention.grouped import GroupedAttention, grouped_attention
from ..attention.torch import masked_softmax
from ..checks import cache as cache_checks, decoder as decoder_checks
from ..checks.causal import with_causal
from . import configuration
from .experts import Experts
from .shared import Shared, turn_of, turned, unmasked

ACTIVATIONS = {"silu": F.silu, "gelu": F.gelu,
               "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh")}


class RMSNorm(nn.Module):
    """Divide x by the root of its mean square and multiply by a gain, (…, d) -> (…, d).

    With ``plus_one``, the factor is 1 + gain. bfloat16 and float16 are computed in float32. Source:
    https://arxiv.org/abs/1910.07467.
    """

    def __init__(self, d, eps=1e-6, plus_one=False):
        super().__init__()
        self.eps, self.plus_one = eps, plus_one
        self.gain = nn.Parameter(torch.zeros(d) if plus_one else torch.ones(d))

    def forward(self, x):
        """Return the normalised x, in its dtype."""
        if x.dtype == self.gain.dtype == torch.float32:  # no casts
            gain = self.gain + 1 if self.plus_one else self.gain
            return F.rms_norm(x, x.shape[-1:], gain, self.eps)
        wide = _wide(x)
        gain = self.gain.to(wide) + 1 if self.plus_one else self.gain.to(wide)
        return F.rms_norm(wide, x.shape[-1:], gain, self.eps).to(x)


class GatedFeedForward(nn.Module):
    """Multiply one projection of x by the activation of another, (…, e) -> (…, e).

    With SiLU this is SwiGLU. Source: https://arxiv.org/abs/2002.05202.
    """

    def __init__(self, d_model, d_hidden, activation="silu", bias=False):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.gate = nn.Linear(d_model, d_hidden, bias=bias)
        self.up = nn.Linear(d_model, d_hidden, bias=bias)
        self.down = nn.Linear(d_hidden, d_model, bias=bias)

    def forward(self, x):
        """Return the output for each position separately."""
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Attention(GroupedAttention):
    """Grouped attention with all that a ``configuration.Plan`` asks of a layer, (b, i, e)."""

    def __init__(self, plan, layer):
        super().__init__(plan.d_model, plan.n_heads, plan.n_kv_heads, layer.window, plan.qkv_bias,
                         plan.d_head)
        self.W_o = nn.Linear(plan.n_heads * plan.d_head, plan.d_model, bias=plan.out_bias)
        self.plan, self.rotation = plan, layer.rotation
        factor = plan.scale * math.sqrt(plan.d_head)  # of q: scores are divided by sqrt(d)
        self.factor = None if math.isclose(factor, 1, rel_tol=1e-15) else factor
        if plan.qk_norm != "none":
            gain = torch.zeros if plan.plus_one else torch.ones
            whole = plan.qk_norm == "width"
            self.q_gain, self.k_gain = (
                nn.Parameter(gain(plan.d_head * (heads if whole else 1)))
                for heads in (plan.n_heads, plan.n_kv_heads))
        self.sink = nn.Parameter(torch.zeros(plan.n_heads)) if plan.sink else None

    def heads_at(self, x, positions, turns=None):
        """Return q (b, h, i, d), k and v (b, h_kv, i, d); q and k are normalised and rotated.

        ``turns`` are those of ``Shared``; without them, the angles are computed here.
        """
        sides = self.W_qkv(x).unflatten(-1, (-1, self.plan.d_head)).transpose(1, 2)
        heads = self.n_heads, self.n_kv_heads
        q, k, v = sides.split((*heads, self.n_kv_heads), dim=1)
        if self.plan.qk_norm != "none":
            q, k = self._normalised(q, self.q_gain), self._normalised(k, self.k_gain)
        if self.rotation is not None:
            turn = (turns or {}).get(self.rotation) or turn_of(
                q, positions, q.shape[-1], self.rotation)
            q, k = turned(torch.cat((q, k), dim=1), *turn).split(heads, dim=1)
        return (q if self.factor is None else q * self.factor), k, v

    def forward(self, x, positions=None, cache=None, shared=None):
        """Return out; arguments and errors as in ``CausalAttention``.

        ``shared`` is what a ``Decoder`` has checked and computed for all of its layers.
        """
        if shared is None or (cache is not None and cache.window != self.window):
            cache_checks.step(self, x, cache)
        if shared is None:
            shared = Shared(x, positions, [cache])
        q, k, v = self.heads_at(x, shared.positions, shared.turns)
        where = shared.positions
        if cache is not None:
            k, v, where = cache.extend(k, v, where)  # (b, h_kv, j, d)
        plain = shared.fresh and self.window is None and k.shape[-2] == x.shape[1]
        keep = None if plain else shared.keep(where, self.window)
        context = self.attend(q, k, v, keep, causal=plain)
        return self.W_o(context.transpose(1, 2).flatten(2))

    def _normalised(self, x, gain):
        wide = _wide(x)
        return qk_norm(wide, gain.to(wide), self.plan.qk_norm == "width", self.plan.plus_one,
                       self.plan.eps).to(x)

    def attend(self, q, k, v, keep=None, causal=False):
        """Return the context, (b, h, i, d); with a sink or soft-capping, the weights are stored."""
        if self.sink is None and self.plan.softcap is None:
            if keep is not None:
                return grouped_attention(q, k, v, keep)
            return unmasked(q, k, v, causal)
        keep = with_causal(keep, causal, q, k)
        k, v = (side.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for side in (k, v))
        if self.sink is not None:
            return attention_with_sink(q, k, v, self.sink, keep)[0]
        scores = soft_capped(q @ k.mT / math.sqrt(q.shape[-1]), self.plan.softcap)
        return masked_softmax(scores, keep) @ v


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to x, (b, i, e).

    ``norms`` maps places to modules: before_attention, after_attention, before_feed_forward,
    after_feed_forward. Raises ValueError for another place.
    """

    def __init__(self, attention, feed_forward, norms):
        super().__init__()
        decoder_checks.places(norms)
        self.attention, self.feed_forward = attention, feed_forward
        self.norms = nn.ModuleDict(norms)

    def normed(self, place, x):
        """Return x, normalised if there is a norm in this place."""
        return self.norms[place](x) if place in self.norms else x

    def forward(self, x, positions=None, cache=None, shared=None):
        """Return x after both; arguments as in ``Attention``."""
        more = {} if shared is None else {"shared": shared}
        out = self.attention(self.normed("before_attention", x), positions, cache, **more)
        x = x + self.normed("after_attention", out)
        out = self.feed_forward(self.normed("before_feed_forward", x))
        return x + self.normed("after_feed_forward", out)


class Decoder(nn.Module):
    """The model of a configuration or a ``Plan``, (b, i) -> logits.

    ``config`` is a dict as in a config.json, or a ``Plan``. The model can be used like
    ``language_model.LanguageModel``. Raises as ``configuration.read``.
    """

    def __init__(self, config):
        super().__init__()
        is_plan = isinstance(config, configuration.Plan)
        self.plan = plan = config if is_plan else configuration.read(config)
        self.embedding = nn.Embedding(plan.n_tokens, plan.d_model)
        self.blocks = nn.ModuleList(block(plan, layer) for layer in plan.layers)
        self.norm = RMSNorm(plan.d_model, plan.eps, plan.plus_one)
        self.unembedding = None if plan.tied else nn.Linear(
            plan.d_model, plan.n_tokens, bias=False)

    def caches(self):
        """Return an empty cache for each layer."""
        return [Cache(block.attention.window) for block in self.blocks]

    def forward(self, tokens, positions=None, caches=None, last_only=False):
        """Return the logits of each next token, (b, i, vocabulary).

        ``positions`` as in ``CausalAttention``; ``caches``, one per layer, are extended. With
        ``last_only``, the logits are those after the last token, (b, 1, vocabulary).
        """
        x = self.embedding(checks.tokens(tokens, self.embedding))
        if self.plan.scaled_embedding:
            x = x * torch.tensor(math.sqrt(self.plan.d_model)).to(x)  # rounded to the dtype of x
        caches = [None] * len(self.blocks) if caches is None else caches
        turned = {layer.rotation for layer in self.plan.layers} - {None}
        shared = Shared(x, positions, caches, turned, self.plan.d_head)
        for layer, cache in zip(self.blocks, caches, strict=True):
            x = layer(x, positions, cache, shared)
        x = self.norm(x[:, -1:] if last_only else x)
        last = self.embedding if self.unembedding is None else self.unembedding
        logits = F.linear(x, last.weight)
        cap = self.plan.final_softcap
        return logits if cap is None else soft_capped(logits, cap)


def block(plan, layer):
    """Return the ``Block`` of a ``configuration.Plan`` for one of its layers."""
    if plan.experts is None:
        feed_forward = GatedFeedForward(plan.d_model, plan.d_hidden, plan.activation,
                                        plan.hidden_bias)
    else:
        feed_forward = Experts(plan.d_model, plan.d_hidden, *plan.experts)
    norms = {place: RMSNorm(plan.d_model, plan.eps, plan.plus_one) for place in plan.norms}
    return Block(Attention(plan, layer), feed_forward, norms)


def _wide(x):
    """Return x in float32, or in float64 if it is."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
