"""The programs that a probe is graded on: sick ones with every fault of a level, and healthy ones.

``utils.doctor.homework.programs`` says how they are called.
"""

from functools import partial

import numpy as np

from ... import checks, reference
from ...parity import ten
from .. import faulty
from ..faulty.kernel import FULLY_MASKED, Masking
from . import programs as homework_programs
from .programs import Program

LOWEST = float(np.finfo(float).min)


def panel(level, seed):
    """Return the sick and healthy Programs of a level; ``seed`` draws constants and order."""
    rng = np.random.default_rng([seed, 1])
    found = homework_programs.sick(level, rng) + healthy(level)
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
        found = {f"fully masked rows get {name}": partial(_kernel, fully_masked=name)
                 for name in FULLY_MASKED}
        found |= {"reference": lambda *args: reference.attention(*args)[0],
                  "mask of -1e9 is added": partial(_kernel, masking=Masking("add", "keep", -1e9)),
                  "mask value is the lowest number": partial(
                      _kernel, masking=Masking("fill", "keep", LOWEST)),
                  "PyTorch": _torch, "SDPA": partial(_torch, fused=True),
                  "PyTorch in float32": _rounded(_torch)}
    else:
        found = {f"fully masked rows get {name}": partial(faulty.layer.layer, fully_masked=name)
                 for name in FULLY_MASKED}
        found |= {"reference": lambda *args: reference.multi_head_attention(*args)[0],
                  "PyTorch": _torch_layer, "PyTorch in float32": _rounded(_torch_layer)}
    found["float32"] = _rounded(found["fully masked rows get zeros"])
    return [Program("", name, run) for name, run in found.items()]


def _kernel(*args, **settings):
    return faulty.kernel.attention(*args, **settings)[0]


def _torch(q, k, v, keep=None, fused=False):
    import torch

    from ...attention import torch as torch_attention
    k, v = (reference.repeat_heads(x, q.shape[1]) for x in (k, v))
    q, k, v, keep = (None if x is None else torch.as_tensor(x) for x in (q, k, v, keep))
    if fused:
        return torch_attention.fused_attention(q, k, v, keep).numpy()
    return torch_attention.attention(q, k, v, keep)[0].numpy()


def _torch_layer(x, memory, weights, n_heads, keep=None):
    import torch
    x, memory = torch.as_tensor(x), torch.as_tensor(memory)
    weights = {name: torch.as_tensor(w) for name, w in weights.items()}
    return ten.view(x, memory, weights, n_heads, keep).numpy()


def _rounded(program):
    """Return a program that computes in float32 and returns float32."""
    def rounded(*args):
        return program(*(_single(arg) for arg in args)).astype(np.float32)
    return rounded


def _single(value):
    if isinstance(value, dict):
        return {name: _single(item) for name, item in value.items()}
    floats = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(np.float32) if floats else value
