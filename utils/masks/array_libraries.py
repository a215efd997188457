"""Convert masks for the attention functions of JAX and MLX; in both, True = may attend."""

from .. import checks
from .conventions import _four_axes


def to_jax(keep):
    """Return ``mask`` for ``jax.nn.dot_product_attention``: bool (b, h, i, j), axes may be 1.

    It is a NumPy array, which JAX accepts. JAX has other orders for its sides, (b, i, h, d), but
    not for its mask.
    """
    return _four_axes(keep)


def from_jax(mask):
    """Return keep with four axes from a bool ``mask`` of JAX; three axes are (h, i, j)."""
    return _with_four(mask)


def to_mlx(keep):
    """Return ``mask`` for ``mx.fast.scaled_dot_product_attention``: bool (b, h, i, j) of MLX.

    Axes may be 1. Raises ImportError where MLX is not installed.
    """
    import mlx.core
    return mlx.core.array(_four_axes(keep))


def from_mlx(mask):
    """Return keep with four axes from a bool ``mask`` of MLX; three axes are (h, i, j)."""
    return _with_four(mask)


def _with_four(mask):
    """Return a bool mask as a NumPy array with four axes, the missing ones in front, of size 1."""
    keep = checks.to_numpy(checks.boolean(mask))
    return keep.reshape((1,) * (4 - keep.ndim) + keep.shape)
