"""Say what is wrong with parameters that do not fit a layout, and what they may be.

``_layouts`` and ``shared_heads`` raise ValueError with these texts. A hint begins with "; ", or it
is "" where nothing is recognised.
"""

MOST = 12  # names in one message
SIDES = ("q_proj", "k_proj", "v_proj", "o_proj")  # at Hugging Face


def listing(names):
    """Return names as text, no more than ``MOST`` of them."""
    names = list(names)
    more = f", … ({len(names)} names)" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more


def wrong_names(expected, needed, known, params, readers):
    """Return the message for a dict that lacks a ``needed`` name or has one that is not known.

    ``expected`` says what is wanted. ``readers`` is {name of another layout: what reads it}, or
    {names together: …}.
    """
    hint = _prefix(needed, params)
    if not hint and set(needed) <= set(params):
        more = [name for name in params if name not in known]
        hint = f"; there is no place for {listing(more)}" if more else ""
    elif not hint:
        hint = _reader(known, params, readers)
    return f"expected {expected}, got {listing(params)}{hint}"


def _prefix(needed, params):
    """Return the hint for the state dict of a whole model."""
    first = needed[0]
    found = [name.removesuffix(first) for name in params if name.endswith(f".{first}")]
    found = [prefix for prefix in found if all(prefix + name in params for name in needed)]
    if not found:
        return ""
    told = f"{len(found)} prefixes, the first is" if len(found) > 1 else "the prefix"
    return (f"; these names follow {told} {found[0]!r}: pass the parameters of one layer, without "
            "its prefix")


def _reader(known, params, readers):
    """Return the hint for the names of another layout."""
    for names, reader in readers.items():
        together = {names} if isinstance(names, str) else {*names}
        if together <= {*params} and not together <= {*known}:
            if "o_proj.weight" in together and _rows(params, "k_proj.weight") < _rows(
                    params, "q_proj.weight"):
                reader = "shared_heads.to_weight_set, because k and v have fewer heads than q"
            return f"; to read those, use {reader}"
    return ""


def _rows(params, name):
    """Return the number of rows of a parameter, 0 if it is missing or has no shape."""
    return (*getattr(params.get(name), "shape", ()), 0)[0]


def wrong_shapes(arrays, names, in_out, transposed):
    """Return the message for kernels and biases that do not fit each other.

    ``names`` are those of the kernels, which should be (in, out) if ``in_out``, else (out, in), and
    ``transposed`` says whether they fit as the other.
    """
    wanted, other = ("(in, out)", "(out, in)") if in_out else ("(out, in)", "(in, out)")
    shapes = listing(f"{name} {array.shape}" for name, array in arrays.items())
    hint = _grouped(arrays, names, in_out) or (f"; they fit as {other}" if transposed else "")
    return f"kernels must be {wanted}, got {shapes}, which do not fit together{hint}"


def _grouped(arrays, names, in_out):
    """Return the hint for kernels in which heads of q share heads of k and v."""
    shapes = [arrays[name].shape[::1 if in_out else -1] for name in names]  # (in, out)
    if {len(shape) for shape in shapes} != {2}:
        return ""
    *sides, (width, _) = shapes
    kv = sides[1][1] if len(sides) == 3 else (sides[0][1] - width) // 2
    wide = [width, kv, kv] if len(sides) == 3 else [width + 2 * kv]
    if [out for _, out in sides] != wide or not 0 < kv < width or width % kv:
        return ""
    told = (f"; {names[1]} has {kv} outputs and {names[0]} has {width}" if len(sides) == 3 else
            f"; {names[0]} has {width} + 2 * {kv} outputs, not 3 * {width}")
    return (f"{told}: {width // kv} heads of q share each head of k and v, so "
            f"{_where(names, in_out)}")


def _where(names, in_out):
    """Return what reads parameters with shared heads, for kernels with these names."""
    if names[0] == "q_proj.weight":
        return ("read them by shared_heads.to_weight_set, which repeats the heads of k and v, or "
                "by to_grouped")
    if names[0] == "W_qkv.weight":
        return "read them by shared_heads.from_grouped"
    steps = "transpose them, " if in_out else ""
    if len(names) == 4:
        return f"{steps}name them {', '.join(SIDES)}, and use shared_heads.to_weight_set"
    by_group = " with by_group=True" if names[0] == "query_key_value.weight" else ""
    return f"{steps}name them qkv_proj and o_proj, and use shared_heads.from_fused{by_group}"
