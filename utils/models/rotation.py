"""How a configuration asks that q and k be rotated: RoPE, and how its frequencies are scaled."""

from typing import NamedTuple

from ..attention import long_context

# For each rope_type, the options that it must have, and others that it may have.
SCALINGS = {
    "default": ((), ()),
    "linear": (("factor",), ()),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor",
                "original_max_position_embeddings"), ()),
    "yarn": (("factor", "original_max_position_embeddings"),
             ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
              "truncate")),
}


class Rotation(NamedTuple):
    """RoPE's ``base``, the ``kind`` of scaling, one of SCALINGS, and its options.

    ``options`` are pairs (name, value), with the names of a config.json.
    """

    base: float
    kind: str = "default"
    options: tuple = ()


def frequencies(rotation, d):
    """Return RoPE's angle per position of each pair, (d / 2,), and the attention factor.

    Raises ValueError or TypeError for options that ``attention.long_context`` refuses.
    """
    told = dict(rotation.options)
    if rotation.kind == "yarn":
        freqs, factor = long_context.yarn(
            d, rotation.base, told["factor"], told["original_max_position_embeddings"],
            told.get("beta_fast") or 32, told.get("beta_slow") or 1, told.get("truncate", True))
        return freqs, _attention_factor(told, factor)
    freqs = long_context.frequencies(d, rotation.base)
    if rotation.kind == "linear":
        freqs = long_context.interpolated(freqs, told["factor"])
    elif rotation.kind == "llama3":
        freqs = long_context.llama3(freqs, *(told[name] for name in SCALINGS["llama3"][0]))
    return freqs, 1.0


def _attention_factor(told, usual):
    """Return the factor of cos and sin in YaRN: the one told, or that of two mscales, or usual."""
    if "attention_factor" in told:
        return told["attention_factor"]
    if told.get("mscale") and told.get("mscale_all_dim"):
        over, under = (long_context.temperature(told["factor"], told[name])
                       for name in ("mscale", "mscale_all_dim"))
        return over / under
    return usual


def angles(positions, d, rotation):
    """Return cos and sin for ``positions.rotate``, (…, i) -> (…, i, d / 2), in float64.

    Both are multiplied by YaRN's attention factor. Raises as ``frequencies`` does.
    """
    return long_context.scaled_rotary(positions.double(), *frequencies(rotation, d))
