"""What a specimen of the zoo is: an attention program as people write it, and its declared fault.

    @specimen(level="kernel", fault="softmax over queries", fixed=("dim=-2", "dim=-1"))
    def some_name(q, k, v, keep): ...

``ZOO`` holds every program so decorated, in the order of import; ``import zoo`` imports all.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field

FRAMEWORKS = ("numpy", "torch", "tensorflow")

# The faults with a name, per level; any other fault is declared with listed=False.
VOCABULARY = {
    "kernel": (
        "no scale", "scale by sqrt(d_model)", "constant scale", "scaled twice",
        "softmax over queries", "softmax over heads", "softmax over heads and keys",
        "softmax over batch", "mask inverted", "mask added as 0/1", "mask ignored",
        "mask after softmax", "causal off by one", "causal mask inverted", "no causal mask",
        "other causal alignment", "window", "mask value too high", "q and k swapped",
        "k and v swapped", "tile for repeat", "dropout in eval"),
    "layer": (
        "split without transpose", "merge without transpose",
        "split and merge without transpose", "shared head", "input split before projection",
        "missing W_o", "missing bias", "transposed weight", "padding leak",
        "batch and sequence swapped", "LayerNorm over time", "packed order",
        "interleaved packing", "other example's mask", "new layer in every call",
        "scaled after softmax"),  # of a kernel, but no specimen is one
    "decoding": (
        "cache position", "unmasked prompt", "cache not appended", "cache overwritten",
        "keys cached, values not"),
}
# A layer or a decoder contains a kernel, with all that can be wrong in it.
VOCABULARY["layer"] += VOCABULARY["kernel"]
VOCABULARY["decoding"] += VOCABULARY["kernel"]

ZOO = []


@dataclass(frozen=True)
class Specimen:
    """One program: its fault is None (healthy), in the vocabulary (listed) or a sentence."""

    name: str                 # module.function
    level: str                # kernel | layer | decoding
    fault: str | None
    listed: bool
    framework: str            # what the program takes and returns
    program: Callable
    options: dict = field(default_factory=dict)
    source: str | None = None  # where the real case is told, if this rebuilds one
    note: str = ""            # where the fault is
    fixed: Callable | tuple = ()

    def repaired(self):
        """Return the program without its fault, or None where nobody wrote a repair."""
        if callable(self.fixed) or not self.fixed:
            return self.fixed or None
        return rewritten(self.program, self.fixed)


def specimen(level, fault=None, *, listed=None, framework="torch", source=None, note="",
             fixed=(), **options):
    """Return a decorator that adds a function or class to the ZOO and returns it unchanged.

    ``fixed`` is the program without its fault: a callable, or the fix as text, ("old", "new") or
    several such pairs; each old text occurs in the program exactly once. Options of a kernel:
    ``causal=True``, with ``align="top_left"`` or ``"bottom_right"`` if n_q may differ from n_k;
    ``grouped=True`` (k and v may have fewer heads); ``square=True`` (only n_q == n_k);
    ``equal_features=True`` (only d_v == d); ``fully_masked``, what a fully masked row gets:
    "zeros" (default), "nan", "average" or "unmasked" (as without a mask; with -1e9 this is so in
    float64 only, as float32 gives the average).

    Options of a layer: ``causal``, ``square`` and ``fully_masked`` as above;
    ``self_attention=True`` (memory is x); ``masks``: "any" (default), "heads alike", "padding"
    (keep is (b, 1, 1, j)) or "none" (keep is None); ``equal_widths=True`` (d_in, d_model and d_out
    are equal); ``pre_norm=True`` (LayerNorm, eps 1e-5 or ``epsilon``, without gain or bias, comes
    first); ``tolerance``, if its own rounding is coarser than float64's. ``module=True``:
    ``program(d_model, n_heads)`` builds a module, ``call(module, x, memory, keep)`` adapts to its
    signature, ``roles`` names the submodules for q, k, v, o (None: they are guessed), ``packed``
    the one, or the parameter, that holds [q | k | v]; ``reads(module)`` returns its weight set, for
    the tests only.

    Raises ValueError for an unknown level, framework or fault.
    """
    if level not in VOCABULARY or framework not in FRAMEWORKS:
        raise ValueError(f"no such level or framework: {level!r}, {framework!r}")
    listed = fault is not None if listed is None else listed
    if listed != (fault in VOCABULARY[level]):
        raise ValueError(f"{fault!r} is {'not ' if listed else ''}in the vocabulary of {level}s")
    if isinstance(fixed, tuple) and fixed and isinstance(fixed[0], str):
        fixed = (fixed,)

    def register(program):
        name = f"{program.__module__.rpartition('.')[2]}.{program.__name__}"
        ZOO.append(Specimen(name, level, fault, listed, framework, program, options, source, note,
                            fixed))
        return program

    return register


def rewritten(program, pairs):
    """Return a function or class with some of its text replaced, its decorators left off."""
    source = textwrap.dedent(inspect.getsource(program))
    text = "\n".join(source.splitlines()[ast.parse(source).body[0].lineno - 1:])
    for old, new in pairs:
        if text.count(old) != 1:
            raise ValueError(f"{program.__name__} has {old!r} {text.count(old)} times, not once")
        text = text.replace(old, new)
    scope = dict(vars(inspect.getmodule(program)))
    exec(compile(text, f"<fixed {program.__name__}>", "exec"), scope)
    return scope[program.__name__]
