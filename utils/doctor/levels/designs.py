"""Parts of today's models: recognised and set aside, or examined where they are promised."""

import itertools
import math

import numpy as np

from .._search import Switch
from ..faulty.designs import Rotary
from ..faulty.kernel import Band, Masking

BASES = (10_000.0, 500_000.0, 1_000_000.0)
SHARES = (1.0, 0.5, 0.25)  # of the dimensions of a head
CAPS = (20.0, 30.0, 50.0)
PAIRINGS = {"halves": "dimensions n and n + d/2 are rotated together",
            "pairs": "dimensions 2n and 2n + 1 are rotated together"}
SENTENCES = {
    "rotary positions": "It rotates q and k by their positions (RoPE)",
    "normalised queries and keys": "It normalises q and k in each head (QK-norm)",
    "soft-capped scores": "It bounds the scores by a tanh (soft-capping)",
    "sink": "Every row has one more score, whose weight is dropped (a sink)",
    "distance": "It subtracts the distance of query and key from the scores (ALiBi)",
    "opposite rotation": "It uses RoPE with the opposite sign of most models (x1·cos + x2·sin), "
                         "which matters only to weights from elsewhere",
    "activated projections": "It has a ReLU on its projections",
    "linear attention": "It has no softmax, but features of q and k (linear attention)"}


def of_kernels():
    """Return the Switches of the designs that a kernel may have by itself."""
    found = [Switch("soft-capped scores", {"cap": cap}, f"at {cap:g}") for cap in CAPS]
    found.append(Switch("distance", {"slopes": True}, "with the slopes of the paper"))
    for name, words in (("elu", "elu(x) + 1"), ("relu", "relu(x)")):
        found.append(Switch("linear attention", {"feature": name}, words))
        found += [Switch("linear attention", {"feature": name, "sink": math.log(epsilon)}, words)
                  for epsilon in (1e-6, 1e-8, 1e-12)]  # added to the sum of the features
    return found


def of_layers():
    """Return the further Switches of designs that a layer may have."""
    return [Switch("sink", {"sink": 0.0}, "of 0"), *norms(), *rotations()]


def rotations():
    """Return the Switches of rotary positions."""
    return [_rotation(Rotary(pairing, base)) for base in BASES for pairing in PAIRINGS]


def activated(*choices):
    """Return the Switches of a ReLU on the projections, for each of these choices of letters."""
    return [Switch("activated projections", {"relu": letters}, f"of {', '.join(letters)}")
            for letters in choices]


def turned():
    """Return the Switches of a mistake in rotary positions, which no option has promised."""
    found = []
    for sign, base, pairing in itertools.product((1, -1), BASES, PAIRINGS):
        _, faults = _rope((pairing, base))
        found += [Switch(one.fault, {"rotary": Rotary(pairing, base, sign)} | one.settings,
                         one.detail) for one in faults if "rotary" not in one.settings]
    return found


def other_rotations():
    """Return the Switches of rotations the other way, or of a part of each head."""
    ways = itertools.product(PAIRINGS, BASES, (1, -1), SHARES)
    return [_rotation(Rotary(*way)) for way in ways if way[2:] != (1, 1.0)]


def _rotation(rotary):
    """Return the Switch of a design, RoPE in this way."""
    part = "" if rotary.share == 1.0 else f", the first {rotary.share:g} of each head"
    fault = "rotary positions" if rotary.sign == 1 else "opposite rotation"
    return Switch(fault, {"rotary": rotary},
                  f"{PAIRINGS[rotary.pairing]}, base {rotary.base:,.0f}{part}")


def norms():
    """Return the Switches of a norm of q and k."""
    return [Switch("normalised queries and keys", {"unit": unit}, how) for unit, how in (
        ("rms", "by their root mean square"), ("layer", "as a LayerNorm does"))]


def promised(parts):
    """Return (settings, Switches) of parts that a program is to have; ``parts`` as for the doctor.

    The settings are right for it, and the Switches are the faults that it can have in them. Raises
    ValueError for a part or a value that is not known.
    """
    settings, switches = {}, []
    for name, value in parts.items():
        if name not in PARTS:
            raise ValueError(f"parts has {name!r}; the known ones are {', '.join(PARTS)}")
        mine, faults = PARTS[name](value)
        settings |= mine
        switches += faults
    return settings, switches


def unpromised(switches, parts):
    """Return the Switches that set nothing that is set by a part that is promised."""
    settings, _ = promised(parts)
    return [switch for switch in switches if not switch.settings.keys() & settings.keys()]


def _rope(value):
    pairing, base = (value, BASES[0]) if isinstance(value, str) else value
    other = {"halves": "pairs", "pairs": "halves"}.get(pairing)
    if not other:
        raise ValueError(f'rope must be "halves" or "pairs", or (one of them, base), got {value!r}')
    late = [Switch("RoPE off by one", {"shift": n}, f"a query is one position too {when}")
            for n, when in ((1, "late"), (-1, "early"))]
    bases = [Switch("other RoPE base", {"rotary": (pairing, one)}, f"the base is {one:,.0f}")
             for one in BASES if one != base]
    return {"rotary": (pairing, base)}, [
        Switch("no RoPE", {"rotary": None}), *late, *bases, _rotation(Rotary(pairing, base, -1)),
        Switch("other RoPE pairing", {"rotary": (other, base)}, PAIRINGS[other]),
        Switch("RoPE not on both", {"turned": "q"}, "only q is rotated"),
        Switch("RoPE not on both", {"turned": "k"}, "only k is rotated"),
        Switch("RoPE on values", {"turned": "qkv"})]


def _qk_norm(value):
    units = {"rms": "rms", "layer": "layer", "l2": "l2", "width": "rms of all heads"}
    if value not in units:
        raise ValueError(f'qk_norm must be "rms", "layer", "l2" or "width", got {value!r}')
    other = (Switch("QK-norm of each head", {"unit": "rms"}) if value == "width" else
             Switch("QK-norm over all heads", {"unit": "rms of all heads"}))
    return {"unit": units[value]}, [
        Switch("no QK-norm", {"unit": ""}), other,
        Switch("other gain", {"gain": 2.0}, "it multiplies by 1 + γ, where the weights hold γ"),
        Switch("other gain", {"gain": 0.0}, "it multiplies by γ, where the weights hold γ − 1")]


def _window(value):
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"window must be how many keys a query sees, itself included, got {value}")
    return {"band": Band(value - 1, 0)}, [
        Switch("window off by one", {"band": Band(value, 0)}, f"a query sees {value + 1} keys"),
        Switch("window off by one", {"band": Band(value - 2, 0)}, f"a query sees {value - 1} keys"),
        Switch("no window", {"band": Band(None, 0)}, "it sees all keys before it"),
        Switch("no window", {"band": Band()}, "it sees all keys, later ones, too")]


def _cap(value):
    others = [Switch("other soft-capping", {"cap": one}, f"they are bounded by {one:g}")
              for one in CAPS if one != value]
    return {"cap": float(value)}, [
        Switch("other soft-capping", {"cap": None}, "they are not bounded"), *others,
        Switch("soft-capping after the mask", {"masking": Masking("fill", "both", -float(value))},
               f"masked scores become {-value:g}")]


def _sink(value):
    return {"sink": np.asarray(value, dtype=float)}, [
        Switch("no sink", {"sink": None}), Switch("other column dropped", {"dropped": "last"}),
        Switch("sink scaled", {"sink_scaled": True})]


def _yarn(value):
    once = (0.1 * math.log(value) + 1) ** 2
    return {"factor": once}, [Switch("YaRN's factor twice", {"factor": once ** 2}),
                              Switch("no YaRN factor", {"factor": 1.0})]


PARTS = {"rope": _rope, "qk_norm": _qk_norm, "window": _window, "cap": _cap, "sink": _sink,
         "yarn": _yarn}


def recognised(found):
    """Return (found, notes) without the designs; ``found`` are sets of Switches that explain all.

    The sets with the fewest faults are left. Each note says which design the first of them has.
    """
    apart = [(some, tuple(switch for switch in some if switch.fault not in SENTENCES))
             for some in found]
    least = min((len(faults) for _, faults in apart), default=0)
    apart = [(some, faults) for some, faults in apart if len(faults) == least]
    first = apart[0][0] if apart else ()
    notes = [f"{SENTENCES[switch.fault]}: {switch.detail}." for switch in first
             if switch.fault in SENTENCES]
    return [faults for _, faults in apart], notes
