import numpy as np
import torch
import torch.nn.functional as F
from typing import Optional, Tuple

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def pad_mask(lengths: torch.Tensor, max_len: int) -> torch.Tensor:
    """True on the padded steps, (batch, 1, max_len)."""
    steps = torch.arange(max_len, device=lengths.device)
    return (steps[None, :] >= lengths[:, None]).unsqueeze(1)


def dot_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: Optional[torch.Tensor] = None,
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Attention for speech frames.

    Args:
        queries: (batch, n_q, d)
        keys: (batch, n_k, d)
        values: (batch, n_k, d_v)
        mask: bool tensor, True = do not attend

    Returns:
        attn: (batch, n_q, n_k)
        context: (batch, n_q, d_v)
    """
    dim = keys.shape[2]
    energy = torch.bmm(queries, keys.transpose(1, 2))
    energy = energy / np.sqrt(dim)

    if mask is not None:
        energy = energy.masked_fill(mask.bool(), -np.inf)

    attn = F.softmax(energy, dim=2)
    context = torch.bmm(attn, values)
    return attn, context


def summarize(frames, lengths):
    """Mean of the attended frames, as a clip embedding."""
    mask = pad_mask(lengths, frames.size(1))
    _, context = dot_attention(frames, frames, frames, mask)
    keep = (~mask).transpose(1, 2).float()
    return (context * keep).sum(1) / keep.sum(1)


if __name__ == '__main__':
    frames = torch.randn(4, 50, 80).to(device)
    lengths = torch.tensor([50, 42, 30, 8]).to(device)
    print(summarize(frames, lengths).size())
