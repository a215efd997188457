"""Split the last axis into heads, and merge them. Taught in chapter `view_and_transpose`."""

from .. import checks


def split_heads(x, n_heads):
    """Split a tensor into heads, (b, i, h * d) -> (b, h, i, d).

    The result is a view: no element is copied. Raises ValueError when n_heads does not divide the
    last axis.
    """
    d_head = checks.heads(x, n_heads)
    batch, length, d_model = x.shape
    return x.view(batch, length, n_heads, d_head).transpose(1, 2)  # (b, h, i, d)


def merge_heads(x):
    """Merge the heads of a tensor, (b, h, i, d) -> (b, i, h * d).

    The result is a copy, unless ``x`` is stored in memory as (b, i, h, d).
    """
    checks.check_shapes("b h i d", x)
    batch, n_heads, length, d_head = x.shape
    return x.transpose(1, 2).reshape(batch, length, n_heads * d_head)  # (b, i, e)
