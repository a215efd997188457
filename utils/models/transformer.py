"""An encoder-decoder transformer. Taught in `encoder_decoder`.

Sources: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3; for LayerNorm before or
after a sublayer, Xiong et al. 2020, https://arxiv.org/abs/2002.04745. It has no dropout and no
factor sqrt(e) on embeddings, and embedding and unembedding do not share their parameters.
"""

import torch
import torch.nn.functional as F
from torch import nn

from .. import checks
from ..attention.positions import sinusoidal
from ..attention.torch import MultiHeadAttention


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between them, (…, e) -> (…, e)."""

    def __init__(self, d_model, d_hidden):
        super().__init__()
        self.up = nn.Linear(d_model, d_hidden)
        self.down = nn.Linear(d_hidden, d_model)

    def forward(self, x):
        """Return the output for each position separately."""
        return self.down(F.relu(self.up(x)))


class Residual(nn.Module):
    """Add the output of a sublayer to x, with LayerNorm, (b, i, e).

    If ``norm_first``, the result is x + f(norm(x)), else norm(x + f(x)).
    """

    def __init__(self, d_model, norm_first=True):
        super().__init__()
        self.norm, self.norm_first = nn.LayerNorm(d_model), norm_first

    def forward(self, x, sublayer):
        """Return x plus ``sublayer``, a function (b, i, e) -> (b, i, e)."""
        if self.norm_first:
            return x + sublayer(self.norm(x))
        return self.norm(x + sublayer(x))


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward layer, (b, j, e) -> (b, j, e)."""

    def __init__(self, d_model, n_heads, d_hidden, norm_first=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_hidden)
        self.residuals = nn.ModuleList(
            Residual(d_model, norm_first) for _ in range(2))

    def forward(self, x, keep=None):
        """Return x after both; ``keep`` (b, 1, 1, j) masks padding."""
        x = self.residuals[0](x, lambda x: self.self_attention(x, keep=keep))
        return self.residuals[1](x, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention, feed-forward, (b, i, e)."""

    def __init__(self, d_model, n_heads, d_hidden, norm_first=True):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_hidden)
        self.residuals = nn.ModuleList(
            Residual(d_model, norm_first) for _ in range(3))

    def forward(self, x, memory, keep=None):
        """Return x after all three; ``keep`` (b, 1, 1, j) masks memory."""
        x = self.residuals[0](x, lambda x: self.self_attention(x, causal=True))
        x = self.residuals[1](
            x, lambda x: self.cross_attention(x, memory, keep=keep))
        return self.residuals[2](x, self.feed_forward)


class EncoderDecoder(nn.Module):
    """Translate between tokens of one alphabet, (b, j), (b, i)."""

    def __init__(self, n_tokens, d_model, n_heads, d_hidden, n_encoder, n_decoder):
        super().__init__()
        checks.counts(n_encoder=n_encoder, n_decoder=n_decoder)
        self.embedding = nn.Embedding(n_tokens, d_model)
        self.encoder = nn.ModuleList(
            EncoderLayer(d_model, n_heads, d_hidden) for _ in range(n_encoder))
        self.decoder = nn.ModuleList(
            DecoderLayer(d_model, n_heads, d_hidden) for _ in range(n_decoder))
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.unembedding = nn.Linear(d_model, n_tokens)

    def embed(self, tokens):
        """Return the embeddings with positions added, (b, i, e)."""
        x = self.embedding(checks.tokens(tokens, self.embedding))  # (b, i, e)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return x + sinusoidal(places, x.shape[-1]).to(x)

    def encode(self, source, keep=None):
        """Return the memory of the source, (b, j) -> (b, j, e)."""
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, keep)
        return self.norms[0](x)

    def decode(self, target, memory, keep=None):
        """Return the logits of the token after each target, (b, i, n)."""
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, memory, keep)
        return self.unembedding(self.norms[1](x))

    def forward(self, source, target, keep=None):
        """Return the logits; ``keep`` (b, 1, 1, j) masks the *source*."""
        return self.decode(target, self.encode(source, keep), keep)


@torch.no_grad()
def translate(model, source, start, steps, keep=None):
    """Return ``steps`` tokens, each the likeliest next one, (b, steps).

    source is (b, j). ``start`` is the token before the first; ``keep`` as in the model. The source
    is encoded once. Without a cache, each step decodes all earlier tokens again.
    """
    checks.count(steps, "steps", 0)
    memory = model.encode(source, keep)
    written = torch.full_like(source[:, :1], start)  # (b, 1)
    for _ in range(steps):
        logits = model.decode(written, memory, keep)[:, -1]  # (b, n_tokens)
        written = torch.cat([written, logits.argmax(-1, keepdim=True)], 1)
    return written[:, 1:]
