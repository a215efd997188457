"""Real, published bugs of scale and softmax inside layers, rebuilt: each has its link."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from zoo.layer_masks import of_keys
from zoo.specimen import specimen


def heads(side, weights, name, n_heads):
    """(b, i, e) -> (b, i, h, d)."""
    return (side @ weights[f"W_{name}"] + weights[f"b_{name}"]).unflatten(2, (n_heads, -1))


def sides(x, memory, weights, n_heads):
    """Return q, k, v, (b, h, i, d)."""
    return [heads(side, weights, name, n_heads).transpose(1, 2)
            for side, name in ((x, "q"), (memory, "k"), (memory, "v"))]


def output(context, weights):
    """(b, h, i, d) -> (b, i, o)."""
    return context.transpose(1, 2).flatten(2) @ weights["W_o"] + weights["b_o"]


@specimen("layer", "softmax over queries", masks="none",
          source="https://github.com/labmlai/annotated_deep_learning_paper_implementations/"
                 "issues/146", note="attn is (b, i, j, h): axis 1 is the queries, 2 the keys",
          fixed=("softmax(dim=1)", "softmax(dim=2)"))
def diffusion_unet(x, memory, weights, n_heads, keep):
    """Attend from pixel to pixel; heads come last."""
    q, k = heads(x, weights, "q", n_heads), heads(memory, weights, "k", n_heads)
    v = heads(memory, weights, "v", n_heads)
    attn = torch.einsum("bihd,bjhd->bijh", q, k) * q.shape[-1] ** -0.5
    attn = attn.softmax(dim=1)
    res = torch.einsum("bijh,bjhd->bihd", attn, v)
    return res.flatten(2) @ weights["W_o"] + weights["b_o"]


@specimen("layer", "softmax over heads and keys", fully_masked="average", masks="padding",
          source="https://github.com/facebookresearch/detr/issues/247",
          note="flatten(2) of (b, i, h, j) joins heads and keys",
          fixed=("flatten(2), dim=-1", "flatten(3), dim=-1"))
def mask_head(x, memory, weights, n_heads, keep):
    """Flatten the positions of the image and normalise over them."""
    q, k = heads(x, weights, "q", n_heads), heads(memory, weights, "k", n_heads)
    w = torch.einsum("bqnc,bknc->bqnk", q * q.shape[-1] ** -0.5, k)
    if keep is not None:
        keep = of_keys(keep, len(x), memory.shape[1])
        w = w.masked_fill(~keep[:, None, None], -1e9)
    w = F.softmax(w.flatten(2), dim=-1).view(w.size())
    out = torch.einsum("bqnk,bknc->bqnc", w, heads(memory, weights, "v", n_heads))
    return out.flatten(2) @ weights["W_o"] + weights["b_o"]


@specimen("layer", "scale by sqrt(d_model)", module=True, self_attention=True,
          packed="to_qkv", roles={"o": "to_out"}, fully_masked="average",
          source="https://github.com/lucidrains/vit-pytorch/issues/65",
          note="dim is the width of the model, not that of a head",
          call=lambda module, x, memory, keep: module(x, keep),
          fixed=("dim ** -0.5", "(dim // heads) ** -0.5"))
class VisionTransformerAttention(nn.Module):
    """Scale by the width, one projection for all three sides."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, dim ** -0.5
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        qkv = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in qkv)
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        if mask is not None:
            dots = dots.masked_fill(~mask, -torch.finfo(dots.dtype).max)
        out = torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
        return self.to_out(rearrange(out, "b h n d -> b n (h d)"))


@specimen("layer", "constant scale", fully_masked="average",
          source="https://github.com/esceptico/perceiver-io/issues/9",
          note="divided by d ** -0.5, which multiplies by sqrt(d)",
          fixed=("(-2, -1) / scale", "(-2, -1) * scale"))
def divided_by_the_inverse(x, memory, weights, n_heads, keep):
    """Divide the scores by the scale."""
    q, k, v = sides(x, memory, weights, n_heads)
    scale = q.shape[-1] ** -0.5
    attention = (q @ k.transpose(-2, -1) / scale)
    if keep is not None:
        attention = attention.masked_fill(~keep, torch.finfo(attention.dtype).min)
    return output(attention.softmax(dim=-1) @ v, weights)


@specimen("layer", "no scale", module=True, fully_masked="average",
          source="https://github.com/ethen8181/machine-learning/issues/13",
          roles={"q": "query", "k": "key", "v": "value", "o": "linear_proj"},
          note="the product of queries and keys goes into softmax as it is",
          call=lambda module, x, memory, keep: module(x, memory, keep),
          fixed=('"bihd,bjhd->bhij", q, k)', '"bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5'))
class NotebookAttention(nn.Module):
    """Compare, normalise, mix, project."""

    def __init__(self, hid_dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)
        self.value, self.linear_proj = nn.Linear(hid_dim, hid_dim), nn.Linear(hid_dim, hid_dim)

    def forward(self, x, memory, mask=None):
        q, k, v = (layer(side).unflatten(2, (self.n_heads, -1)) for layer, side in
                   ((self.query, x), (self.key, memory), (self.value, memory)))
        energy = torch.einsum("bihd,bjhd->bhij", q, k)
        if mask is not None:
            energy = energy.masked_fill(mask == 0, -1e10)
        out = torch.einsum("bhij,bjhd->bihd", torch.softmax(energy, dim=-1), v)
        return self.linear_proj(out.flatten(2))


@specimen("layer", "softmax is taken twice", listed=False, fully_masked="unmasked",
          source="https://github.com/huggingface/transformers/pull/31322",
          note="the probabilities go through softmax again",
          fixed=("probs = probs.softmax(dim=-1)", "pass"))
def twice_normalised(x, memory, weights, n_heads, keep):
    """Normalise the scores to probabilities."""
    q, k, v = sides(x, memory, weights, n_heads)
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    if keep is not None:
        scores = scores + (1.0 - keep.to(scores.dtype)) * -1e9
    probs = F.softmax(scores, dim=-1)
    probs = probs.softmax(dim=-1)
    return output(torch.matmul(probs, v), weights)


@specimen("layer", "scaled after softmax", fully_masked="average",
          source="https://github.com/FrancescoSaverioZuppichini/ViT/issues/5",
          note="the brackets close too early: the weights are scaled, not the scores",
          fixed=("F.softmax(energy, dim=-1) / scaling", "F.softmax(energy / scaling, dim=-1)"))
def scaled_too_late(x, memory, weights, n_heads, keep):
    """Scale and normalise in one line."""
    queries, keys, values = sides(x, memory, weights, n_heads)
    energy = torch.einsum("bhqd, bhkd -> bhqk", queries, keys)
    if keep is not None:
        energy = energy.masked_fill(~keep, torch.finfo(torch.float32).min)
    scaling = queries.shape[-1] ** 0.5
    att = F.softmax(energy, dim=-1) / scaling
    return output(torch.einsum("bhal, bhlv -> bhav", att, values), weights)


@specimen("layer", "the queries are mixed instead of the values", listed=False, square=True,
          fully_masked="average", source="https://github.com/kvfrans/notes/issues/4",
          note="q where v belongs: with as many keys as queries the shapes agree",
          fixed=("bhqk,bkhc->bqhc\", w, q", "bhqk,bkhc->bqhc\", w, v"))
def one_letter_wrong(x, memory, weights, n_heads, keep):
    """Two einsums, eight letters."""
    q, k, v = (heads(side, weights, n, n_heads)
               for side, n in ((x, "q"), (memory, "k"), (memory, "v")))
    w = torch.einsum("bqhc,bkhc->bhqk", q / q.shape[-1] ** 0.5, k)
    w = (w if keep is None else w.masked_fill(~keep, -1e9)).softmax(dim=-1)
    y = torch.einsum("bhqk,bkhc->bqhc", w, q)
    return y.flatten(2) @ weights["W_o"] + weights["b_o"]
