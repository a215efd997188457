"""Parts of today's models that are no faults: they are recognised, named, and set aside."""

import math

from utils.doctor._search import Switch

BASES = (10_000.0, 500_000.0, 1_000_000.0)
CAPS = (20.0, 30.0, 50.0)
SENTENCES = {
    "rotary positions": "It rotates q and k by their positions (RoPE)",
    "normalised queries and keys": "It normalises q and k in each head (QK-norm)",
    "soft-capped scores": "It bounds the scores by a tanh (soft-capping)",
    "sink": "Every row has one more score, whose weight is dropped (a sink)",
    "distance": "It subtracts the distance of query and key from the scores (ALiBi)",
    "linear attention": "It has no softmax, but features of q and k (linear attention)"}


def of_kernels():
    """Return the Switches of the designs that a kernel may have by itself."""
    found = [Switch("soft-capped scores", {"cap": cap}, f"at {cap:g}") for cap in CAPS]
    found += [Switch("distance", {"slopes": True}, "with the slopes of the paper")]
    return found + [Switch("linear attention", {"feature": name} | (
        {"sink": math.log(epsilon)} if epsilon else {}), words)
        for name, words in (("elu", "elu(x) + 1"), ("relu", "relu(x)"))
        for epsilon in (0.0, 1e-6, 1e-8, 1e-12)]


def of_layers():
    """Return the further Switches of designs that a layer may have."""
    found = [Switch("sink", {"sink": 0.0}, "of 0")]
    found += [Switch("normalised queries and keys", {"unit": unit}, how) for unit, how in (
        ("rms", "by their root mean square"), ("layer", "as a LayerNorm does"))]
    return found + [Switch("rotary positions", {"rotary": (pairing, base)},
                           f"{words}, base {base:,.0f}") for base in BASES for pairing, words in (
        ("halves", "dimensions n and n + d/2 together"),
        ("pairs", "dimensions 2n and 2n + 1 together"))]


def recognised(found):
    """Return (found, notes) without the designs; ``found`` are sets of Switches that explain all.

    Each note says which design it is.
    """
    mine = [switch for switch in found[0] if switch.fault in SENTENCES] if found else []
    if not mine:
        return found, []
    notes = [f"{SENTENCES[switch.fault]}: {switch.detail}." for switch in mine]
    rest = [tuple(switch for switch in some if switch.fault not in SENTENCES) for some in found]
    return [()] if not all(rest) else rest, notes
