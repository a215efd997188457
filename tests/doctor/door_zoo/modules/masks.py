import torch


def padding_mask(lengths, max_len=None):
    """True on the padded positions."""
    lengths = torch.as_tensor(lengths)
    max_len = max_len or int(lengths.max())
    return torch.arange(max_len)[None, :] >= lengths[:, None]


def future_mask(n):
    """True on the positions that must not be seen."""
    return torch.ones(n, n, dtype=torch.bool).triu(1)
