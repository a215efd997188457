"""What a probe is graded on: sick programs with every fault of a level, and healthy ones."""

from functools import partial

import numpy as np

from ... import checks, reference
from ...parity import ten
from .. import _subject, faulty
from ..faulty.kernel import FULLY_MASKED, Masking
from . import programs
from .programs import Program

LOWEST = float(np.finfo(float).min)


def panel(level, seed):
    """Return the sick and healthy Programs of a level; ``seed`` draws constants and order."""
    rng = np.random.default_rng([seed, 1])
    sick = programs.sick(level, rng)
    found = [program for mine in sick.values() for program in mine] + healthy(level)
    found = [program._replace(run=partial(_asked, program.run, level)) for program in found]
    return [found[n] for n in rng.permutation(len(found))]


def _asked(run, level, *args):
    """Call a program, if its arguments are those of the contract; the mask may be left out.

    What is refused is refused for all programs: each has its own way with other arguments, and a
    probe could know it by that. Raises TypeError or ValueError.
    """
    count = {"kernel": 4, "layer": 5}[level]
    if len(args) not in (count - 1, count):
        raise TypeError(f"expected {count} arguments, got {len(args)}")
    *sides, keep = [*args, *(None,) * (count - len(args))]
    if level == "kernel":
        q, k, v = sides
    else:
        x, memory, weights, n_heads = sides
        checks.check_shapes("b i e, b j e, e e, e e, e e, e e, e, e, e, e", x, memory, *(
            weights[f"{kind}_{letter}"] for kind in "Wb" for letter in "qkvo"))
        checks.divisible(x.shape[-1], n_heads)
        q, k = (np.zeros((len(side), n_heads, side.shape[1], 1)) for side in (x, memory))
        v = k
    checks.check_shapes("b h i d, b g j d, b g j v", q, k, v)
    keep = checks.keep(keep, q, k, v, grouped=True)
    checks.divisible(q.shape[1], k.shape[1])
    return run(*sides, keep)


def healthy(level):
    """Return the healthy Programs of a level, which differ in framework, precision and more."""
    import torch  # noqa: F401 - now, and not within the time limit of a probe
    if level == "kernel":
        run, right, in_torch = programs.kernel, reference.attention, _torch
        further = {"mask of -1e9 is added": partial(run, masking=Masking("add", "keep", -1e9)),
                   "mask value is the lowest number": partial(
                       run, masking=Masking("fill", "keep", LOWEST)),
                   "SDPA": _computed(partial(_torch, fused=True), "torch")}
    else:
        run, right, in_torch = faulty.layer.layer, reference.multi_head_attention, ten.view
        further = {}
    found = {f"fully masked rows get {name}": partial(run, fully_masked=name)
             for name in FULLY_MASKED}
    found |= further | {"reference": lambda *args: right(*args)[0],
                        "PyTorch": _computed(in_torch, "torch"),
                        "PyTorch in float32": _computed(in_torch, "torch", "float32"),
                        "float32": _computed(run, "numpy", "float32")}
    return [Program("", name, run) for name, run in found.items()]


def _computed(program, framework, dtype="float64"):
    """Return a program of a framework as one of NumPy arrays, computed in this dtype."""
    ask = _subject.answering(_subject.Subject(program, framework, dtype))
    return lambda *args: ask(*args).astype(dtype)


def _torch(q, k, v, keep=None, fused=False):
    from ...attention.torch import attention, fused_attention
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    return fused_attention(q, k, v, keep) if fused else attention(q, k, v, keep)[0]
