"""Attention as PyTorch users write it, heads on axis 1."""

import math

import torch
import torch.nn.functional as F

from zoo.specimen import specimen


@specimen("kernel")
def fused(q, k, v, keep):
    """Leave it to PyTorch."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@specimen("kernel", fully_masked="nan")
def textbook(query, key, value, mask=None):
    """Matmul, scale, mask, softmax, matmul."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


@specimen("kernel", grouped=True)
def grouped_and_fused(q, k, v, keep):
    """Let PyTorch share the heads of k and v."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, enable_gqa=True)


@specimen("kernel", fault="scale by sqrt(d_model)",
          source="https://github.com/lucidrains/vit-pytorch/issues/65",
          note="dim is heads * d, not the size of a head", fully_masked="average",
          fixed=("dim ** -0.5", "dim_head ** -0.5"))
def scale_of_the_model(q, k, v, keep):
    """Scale by the square root of the dimension, as in the paper."""
    heads, dim_head = q.size(1), q.size(3)
    dim = heads * dim_head
    dots = torch.einsum("b h i d, b h j d -> b h i j", q, k) * dim ** -0.5
    if keep is not None:
        dots = dots.masked_fill(~keep, -torch.finfo(dots.dtype).max)
    return torch.einsum("b h i j, b h j d -> b h i d", dots.softmax(dim=-1), v)


@specimen("kernel", fault="constant scale", note="1/8 is right for heads of 64 features",
          fully_masked="nan", fixed=("0.125", "q.size(-1) ** -0.5"))
def scale_of_another_model(q, k, v, keep):
    """Precompute the scale: it is always the same."""
    att = (q @ k.transpose(-2, -1)) * 0.125
    if keep is not None:
        att = att.masked_fill(keep == 0, float("-inf"))
    return F.softmax(att, dim=-1) @ v


@specimen("kernel", fault="scaled twice", note="SDPA scales q once more",
          fixed=("attn_mask=keep", "attn_mask=keep, scale=1.0"))
def scaled_before_the_call(q, k, v, keep):
    """Scale the queries, as the projection of the original code did, and call the fused kernel."""
    q = q * q.shape[-1] ** -0.5
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@specimen("kernel", fault="softmax over heads and keys", fully_masked="average",
          source="https://github.com/facebookresearch/detr/issues/247",
          note="flatten(2) joins heads and keys before softmax",
          fixed=("weights.flatten(2)", "weights"))
def one_softmax_for_all_heads(q, k, v, keep):
    """Flatten, normalise, and give the weights their shape back."""
    weights = torch.einsum("bnqc,bnkc->bqnk", q * q.shape[-1] ** -0.5, k)
    if keep is not None:
        keep = keep.expand(*q.shape[:3], k.size(2)).transpose(1, 2)
        weights = weights.masked_fill(~keep, -1e9)
    weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
    return torch.einsum("bqnk,bnkc->bnqc", weights, v)


@specimen("kernel", fault="mask inverted",
          source="https://github.com/lucidrains/halonet-pytorch/issues/4",
          note="masked_fill fills where the mask is True", fully_masked="average",
          fixed=("masked_fill(keep,", "masked_fill(~keep,"))
def filled_where_true(q, k, v, keep):
    """Fill with the mask."""
    sim = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1])
    if keep is not None:
        sim = sim.masked_fill(keep, -1e9)
    attn = sim.softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", attn, v)


@specimen("kernel", fault="mask added as 0/1",
          source="https://github.com/pytorch/pytorch/issues/21518",
          note="a float mask is added: 0 and 1 mask nothing", fixed=("keep.to(q.dtype)", "keep"))
def mask_in_the_dtype_of_q(q, k, v, keep):
    """Convert the mask, so that all inputs have one dtype."""
    if keep is not None:
        keep = keep.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


@specimen("kernel", fault="mask value too high",
          source="https://github.com/Shujun-He/RibonanzaNet/issues/5",
          note="-1e-9 for -1e9: a masked key gets the score 0", fully_masked="average",
          fixed=("-1e-9", "-1e9"))
def a_tiny_number(q, k, v, keep):
    """Fill what is masked with a very small number."""
    attn = torch.matmul(q / q.size(-1) ** 0.5, k.transpose(2, 3))
    if keep is not None:
        attn = attn.masked_fill(keep == 0, -1e-9)
    attn = F.softmax(attn, dim=-1)
    return torch.matmul(attn, v), attn


@specimen("kernel", fault="mask ignored", fully_masked="average",
          note="masked_fill returns a new tensor, which nobody takes",
          fixed=("scores.masked_fill(", "scores = scores.masked_fill("))
def filled_and_forgotten(q, k, v, keep):
    """Fill the scores, then normalise."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
    if keep is not None:
        scores.masked_fill(keep.logical_not(), -1e9)
    return F.softmax(scores, dim=3) @ v


@specimen("kernel", fault="dropout in eval", note="SDPA drops whenever dropout_p is not 0",
          source="https://github.com/pytorch/pytorch/issues/124464",
          fixed=("dropout_p=0.1", "dropout_p=0.0"))
def fused_with_dropout(q, k, v, keep):
    """Regularise the weights as the paper does."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=0.1)


@specimen("kernel", fault="dropout in eval", note="F.dropout has training=True by default",
          fully_masked="nan", fixed=("p=0.2", "p=0.2, training=False"))
def functional_dropout(q, k, v, keep):
    """Drop some of the weights; the functional knows when."""
    scores = q @ k.transpose(-1, -2) / math.sqrt(k.size(-1))
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    weights = F.dropout(scores.softmax(-1), p=0.2)
    return weights @ v
