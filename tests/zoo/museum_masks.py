"""Real, published bugs of masks and dropout inside layers, rebuilt: each has its link."""

import torch
import torch.nn.functional as F
from torch import nn

from utils import frameworks
from utils.parity import weights as layouts
from zoo.layer_masks import four_axes, of_keys
from zoo.specimen import specimen

tf = frameworks.tensorflow()


def sides(x, memory, weights, n_heads):
    """Return q, k, v, (b, h, i, d)."""
    projected = (side @ weights[f"W_{name}"] + weights[f"b_{name}"]
                 for side, name in ((x, "q"), (memory, "k"), (memory, "v")))
    return [side.unflatten(2, (n_heads, -1)).transpose(1, 2) for side in projected]


def output(context, weights):
    """(b, h, i, d) -> (b, i, o)."""
    return context.transpose(1, 2).flatten(2) @ weights["W_o"] + weights["b_o"]


@specimen("layer", "causal mask inverted", causal=True, self_attention=True, masks="none",
          source="https://github.com/rasbt/LLMs-from-scratch/issues/1061",
          note="triu is True for what should be hidden, and SDPA attends where the mask is True",
          fixed=("mask.bool()", "~mask.bool()"))
def sdpa_with_the_books_mask(x, memory, weights, n_heads, keep):
    """Reuse the buffer of ones above the diagonal, as a bool mask."""
    queries, keys, values = sides(x, x, weights, n_heads)
    mask = torch.triu(torch.ones(x.shape[1], x.shape[1]), diagonal=1)
    context = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask.bool())
    return output(context, weights)


@specimen("layer", "padding leak", masks="padding", self_attention=True, fully_masked="average",
          source="https://github.com/hyunwoongko/transformer/pull/40",
          note="(b, 1, i, 1): padded queries are masked, and padded keys are not",
          fixed=("[:, None, :, None]", "[:, None, None, :]"))
def padding_of_the_queries(x, memory, weights, n_heads, keep):
    """Hide what is padded: True in the mask is a word."""
    q, k, v = sides(x, x, weights, n_heads)
    score = q @ k.transpose(2, 3) / q.size(-1) ** 0.5
    if keep is not None:
        words = of_keys(keep, len(x), x.shape[1])
        score = score.masked_fill(words[:, None, :, None] == 0, -10000)
    return output(score.softmax(dim=-1) @ v, weights)


@specimen("layer", "dropout in eval", module=True, self_attention=True,
          packed="qkv", roles={"o": "proj"},
          source="https://github.com/huggingface/pytorch-image-models/pull/1978",
          note="SDPA drops whatever the module's mode is",
          call=lambda module, x, memory, keep: module(x, keep),
          fixed=("dropout_p=self.attn_drop.p",
                  "dropout_p=self.attn_drop.p if self.training else 0.0"))
class FusedAttention(nn.Module):
    """Hand the probability over to the fused kernel."""

    def __init__(self, dim, num_heads, attn_drop=0.1):
        super().__init__()
        self.num_heads = num_heads
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(attn_drop)

    def forward(self, x, keep=None):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=keep,
                                           dropout_p=self.attn_drop.p)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


@specimen("layer", "mask added as 0/1", module=True, causal=True, self_attention=True,
          masks="none", packed="in_proj_weight", roles={"o": "out_proj"},
          reads=lambda module: layouts.from_in_proj(module.state_dict()), source="https://github.com/pytorch/pytorch/issues/21518",
          note="a float mask is added: what may be seen gets 1 more, nothing is hidden",
          call=lambda module, x, memory, keep: module(x),
          fixed=("torch.tril(torch.ones(n, n, dtype=x.dtype))",
                  "torch.ones(n, n, dtype=torch.bool).triu(1)"))
class CausalByTril(nn.MultiheadAttention):
    """PyTorch's layer with ones where it may look."""

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, batch_first=True)

    def forward(self, x):
        n = x.size(1)
        mask = torch.tril(torch.ones(n, n, dtype=x.dtype))
        return super().forward(x, x, x, attn_mask=mask)[0]


@specimen("layer", "mask inverted", framework="tensorflow", module=True, tolerance=1e-6,
          source="https://github.com/tensorflow/text/pull/894", fully_masked="average",
          roles={"q": "mha.query_dense", "k": "mha.key_dense", "v": "mha.value_dense",
                 "o": "mha.output_dense"},
          reads=lambda layer: layouts.from_keras(layer.get_weights()),
          fixed=("attention_mask=mask", "attention_mask=None if mask is None else 1 - mask"),
          note="the tutorial's masks are 1 = hide, and this layer's are 1 = attend",
          call=lambda layer, x, memory, keep: layer(
              x, memory, None if keep is None else 1 - tf.cast(four_axes(keep), x.dtype)))
class TutorialMasks(tf.keras.layers.Layer):
    """Take the tutorial's masks and the library's layer."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.mha = tf.keras.layers.MultiHeadAttention(num_heads, d_model // num_heads)

    def call(self, x, context, mask=None):
        return self.mha(query=x, value=context, attention_mask=mask)
