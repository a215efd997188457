"""What the tiled program asks of its input; raises with a message that says what to pass."""

from utils import checks
from utils.torch_attention import with_causal


def tiled(q, k, v, keep, causal, tile):
    """Return ``keep`` as a bool tensor of at least two axes, or None: what tiles are cut from.

    Raises ValueError unless q is (b, h, i, d), k (b, h, j, d) and v (b, h, j, d_v), the mask fits,
    ``causal`` says which corner (n_q == n_k) and a tile has at least one row; TypeError for a mask
    that is not bool.
    """
    sizes = checks.check_shapes("b h i d, b h j d, b h j e", q, k, v)
    if tile < 1:
        raise ValueError(f"tile={tile}: a tile has at least one row and one column")
    ambiguous = causal and sizes["i"] != sizes["j"]  # the other causal masks need no n × n
    return with_causal(keep, ambiguous, q, k)
