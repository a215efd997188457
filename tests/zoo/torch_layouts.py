"""PyTorch kernels from other layouts: folded heads, the sequence first, one head under vmap."""

import torch
import torch.nn.functional as F
from einops import einsum, rearrange
from torch.func import vmap

from zoo.specimen import specimen


def folded(keep, q, k):
    """Return what is added to the scores of folded heads, (b * h, i, j): 0 or -inf."""
    bias = torch.zeros(*q.shape[:3], k.size(2), dtype=q.dtype)
    if keep is not None:
        bias = bias.masked_fill(~keep, -torch.inf)
    return bias.flatten(0, 1)


@specimen("kernel", fully_masked="nan")
def heads_in_the_batch(q, k, v, keep):
    """Fold the heads into the batch and let one call scale, multiply and add."""
    b, h, _, d = q.shape
    bias = folded(keep, q, k)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    scores = torch.baddbmm(bias, q, k.transpose(1, 2), beta=1, alpha=d ** -0.5)
    return torch.bmm(F.softmax(scores, dim=-1), v).unflatten(0, (b, h))


@specimen("kernel", fully_masked="average")
def sequence_first(q, k, v, keep):
    """Keep positions in front, (i, b, h, d); the keys are axis 1 of the scores."""
    query, key, value = (x.permute(2, 0, 1, 3) for x in (q, k, v))
    scores = torch.einsum("ibhd,jbhd->ijbh", query, key) * q.size(-1) ** -0.5
    if keep is not None:
        keep = keep.expand(*q.shape[:3], k.size(2)).permute(2, 3, 0, 1)
        scores = scores.masked_fill(keep == 0, -1e9)
    attn = scores.softmax(dim=1)
    return torch.einsum("ijbh,jbhd->ibhd", attn, value).permute(1, 2, 0, 3)


@specimen("kernel")
def one_head_mapped(q, k, v, keep):
    """Write one head, map it over examples and heads."""
    def head(q, k, v, keep):
        scores = torch.where(keep, q @ k.T * q.shape[-1] ** -0.5, -torch.inf)
        return torch.nan_to_num(scores.softmax(dim=-1)) @ v

    seen = torch.ones(*q.shape[:3], k.size(2), dtype=torch.bool)
    return vmap(vmap(head))(q, k, v, seen if keep is None else seen & keep)


@specimen("kernel", fully_masked="nan")
def heads_in_front(q, k, v, keep):
    """Let einops name the axes, the heads in front; True in this mask means: drop."""
    scale = q.shape[-1] ** 0.5
    q, k, v = (rearrange(x, "b h l d -> h b l d") for x in (q, k, v))
    attn = einsum(q, k, "h b l d, h b t d -> h b l t") / scale
    if keep is not None:
        drop = ~keep.expand(attn.size(1), attn.size(0), -1, -1)
        attn = attn.masked_fill(rearrange(drop, "b h l t -> h b l t"), -torch.inf)
    attn = attn.softmax(dim=3)
    return rearrange(einsum(attn, v, "h b l t, h b t d -> h b l d"), "h b l d -> b h l d")


@specimen("kernel", fault="softmax over queries", fully_masked="average",
          source="https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
          note="in (b, i, j, h) axis 1 is the queries", fixed=("dim=1", "dim=2"))
def pixels_attend(q, k, v, keep):
    """Attend with the heads last, as image models do."""
    q, k, v = (x.permute(0, 2, 1, 3) for x in (q, k, v))
    attn = torch.einsum("bihd,bjhd->bijh", q, k) * q.shape[-1] ** -0.5
    if keep is not None:
        keep = keep.expand(q.size(0), q.size(2), q.size(1), k.size(1)).permute(0, 2, 3, 1)
        attn = attn.masked_fill(~keep, -1e9)
    attn = attn.softmax(dim=1)
    return torch.einsum("bijh,bjhd->bihd", attn, v).permute(0, 2, 1, 3)


@specimen("kernel", fault="softmax over batch", fully_masked="average",
          note="in (i, j, b, h) axis 2 is the examples", fixed=("dim=2", "dim=1"))
def third_axis(q, k, v, keep):
    """Normalise over the third axis, which was the right one before the axes were moved."""
    q, k, v = (rearrange(x, "b h n d -> n b h d") for x in (q, k, v))
    scores = torch.einsum("ibhd,jbhd->ijbh", q, k) / q.shape[-1] ** 0.5
    if keep is not None:
        keep = keep.expand(q.size(1), q.size(2), q.size(0), k.size(0))
        scores = scores.masked_fill(~rearrange(keep, "b h i j -> i j b h"), -1e9)
    attn = scores.softmax(dim=2)
    return rearrange(torch.einsum("ijbh,jbhd->ibhd", attn, v), "n b h d -> b h n d")


@specimen("kernel", fault="softmax over examples and heads together", listed=False,
          note="axis 0 of folded heads is (b * h)", fully_masked="unmasked",
          fixed=("dim=0", "dim=2"))
def first_axis_of_three(q, k, v, keep):
    """Write out the axis that softmax once took by itself for three axes."""
    b, h, i, d = q.shape
    bias = folded(keep, q, k).clamp(min=-1e9)
    scores = torch.baddbmm(bias, q.reshape(b * h, i, d), k.flatten(0, 1).mT, alpha=d ** -0.5)
    attn = F.softmax(scores, dim=0)
    return torch.bmm(attn, v.flatten(0, 1)).view(b, h, i, -1)
