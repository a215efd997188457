"""Splitting features into heads, and putting them back. Taught in chapter `view_and_transpose`."""

from utils import checks


def split_heads(x, n_heads):
    """Split the features of a PyTorch tensor into heads, (b, i, h * d) -> (b, h, i, d).

    A view: no number moves. Raises ValueError when n_heads does not divide the features.
    """
    batch, length, d_model = x.shape
    d_head = checks.heads(x, n_heads)
    return x.view(batch, length, n_heads, d_head).transpose(1, 2)  # (b, h, i, d)


def merge_heads(x):
    """Put the heads of a PyTorch tensor side by side again, (b, h, i, d) -> (b, i, h * d).

    A copy, unless ``x`` already lies in memory as (b, i, h, d).
    """
    batch, n_heads, length, d_head = x.shape
    return x.transpose(1, 2).reshape(batch, length, n_heads * d_head)  # (b, i, e)
