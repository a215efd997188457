"""Checks of the arguments of ``utils.attention.paged`` and ``eight_bit``."""

from . import cache as cache_checks
from .numbers import count, counts
from .sides import array, framework


def sizes(n_layers, n_heads, d, d_v):
    """Return the four as ints, d_v None = d. Raises ValueError or TypeError unless counts."""
    return counts(n_layers=n_layers, n_heads=n_heads, d=d, d_v=d if d_v is None else d_v)


def known(tables, name, new=False):
    """Raise ValueError unless ``name`` is a sequence of the cache or, if ``new``, is not."""
    if (name in tables) == new:
        what = "is a sequence of this cache already" if new else "is no sequence of this cache"
        raise ValueError(f"{name!r} {what}; it has {', '.join(map(repr, tables)) or 'none'}")


def free_blocks(needed, free):
    """Raise ValueError when more blocks are needed than are free."""
    if needed > free:
        raise ValueError(f"new blocks needed: {needed}, free blocks: {free}; release a sequence, "
                         "or create the cache with more blocks")


def prefix(cache, name, source, n):
    """Return how many tokens of ``source`` the new sequence ``name`` shares; n None = all.

    Raises ValueError when ``name`` exists already or ``source`` does not, and unless n is a count
    and at most the length of ``source``.
    """
    known(cache.tables, source)
    known(cache.tables, name, new=True)
    length = cache.lengths[source]
    n = length if n is None else count(n, "n")
    if n > length:
        raise ValueError(f"{source!r} holds {length} tokens, so its first {n} cannot be shared")
    return n


def held(cache, layer, name):
    """Return (table, length) of a sequence. Raises ValueError for an unknown one, or layer."""
    known(cache.tables, name)
    n_layers = len(cache.sides[0])
    if count(layer, "layer", 0) >= n_layers:
        raise ValueError(f"layer must be in 0 .. {n_layers - 1}, got {layer}")
    return cache.tables[name], cache.lengths[name]


def written(cache, layer, name, k, v):
    """Return the length of a sequence whose last tokens have keys k (h, n, d), v (h, n, d_v).

    Raises as ``held`` does, ValueError for other shapes or when a gradient would flow, and
    TypeError for another dtype.
    """
    _, length = held(cache, layer, name)
    heads = cache.sides[0].shape[1]
    for side_name, side, width in zip("kv", (k, v), cache.widths, strict=True):
        array(side, side_name)
        if len(side.shape) != 3 or (side.shape[0], side.shape[2]) != (heads, width):
            raise ValueError(f"{side_name} must be (h, n, d) = ({heads}, n, {width}), got "
                             f"{tuple(side.shape)}")
        if side.dtype != cache.dtype:
            raise TypeError(f"the cache holds {cache.dtype}, but {side_name} is {side.dtype}: "
                            "convert it, or create the cache with its dtype")
    cache_checks.not_recorded(k, v)
    if k.shape[1] != v.shape[1] or k.shape[1] > length:
        raise ValueError(f"k and v have {k.shape[1]} and {v.shape[1]} tokens, and the sequence has "
                         f"{length}: call reserve(name, n) first")
    return length


def finite(x):
    """Raise unless x is a tensor of finite floating-point numbers, at least (d,)."""
    array(x, "x")
    if framework(x) != "torch":
        raise TypeError(f"x must be a PyTorch tensor, got {type(x).__name__}")
    if not x.isfinite().all():
        raise ValueError("x must be finite: NaN and infinity have no code of 8 bits")


def scales(q, k_scale, v_scale):
    """Raise unless q is (…, i, d), and k_scale and v_scale are (…, j, 1): tensors, else TypeError.

    The error is ValueError for other axes.
    """
    for name, side in (("q", q), ("k_scale", k_scale), ("v_scale", v_scale)):
        array(side, name, 2)
        if framework(side) != "torch":
            raise TypeError(f"{name} must be a PyTorch tensor, got {type(side).__name__}")
    shapes = [tuple(side.shape) for side in (q, k_scale, v_scale)]
    if shapes[1] != shapes[2] or shapes[1][:-2] != shapes[0][:-2] or shapes[1][-1] != 1:
        raise ValueError("q must be (…, i, d), k_scale and v_scale (…, j, 1), got "
                         f"{', '.join(map(str, shapes))}; heads of k and v that several heads of "
                         "q share must be repeated")


def requests(names, lengths):
    """Return ``lengths`` (b,), how many new tokens each sequence has, as a list of ints.

    Raises ValueError for a name that stands twice, or for another number of names.
    """
    if len(names) != len(lengths) or len({*names}) != len(names):
        raise ValueError(f"names must be {len(lengths)} different ones, one for each length, got "
                         f"{list(names)}")
    return lengths.tolist()


def unshared(users, blocks):
    """Raise ValueError when another sequence uses one of these blocks."""
    shared = sorted({block for block in blocks if users[block] > 1})
    if shared:
        raise ValueError(f"block {shared[0]} has {users[shared[0]]} users: writing would change "
                         "the other sequences; call reserve(name, n) first, which copies it")
