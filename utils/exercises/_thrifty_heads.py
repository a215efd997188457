"""Judge of the checks for thrifty_heads, in the chapter on loops over heads."""

import torch

from utils.attention.torch import attention_per_head
from utils.exercises._check import untouched

HONEST, CUT, SHARED, THRIFTY = ("the program of this page", "the first bug alone",
                                "the second bug alone", "thrifty_heads")


def _program(matrices):
    def program(x):
        q, k, v = (torch.as_tensor(x, dtype=torch.float64) @ W for W in matrices)
        return attention_per_head(q, k, v, 3)[0]
    return program


def _programs(seed):
    """Return {name: program}: the honest one, each bug alone, and both; (b, i, 12) to itself."""
    full = torch.randn(3, 12, 12, generator=torch.Generator().manual_seed(seed),
                       dtype=torch.float64) / 12 ** 0.5
    blocks = torch.block_diag(*torch.ones(3, 4, 4, dtype=torch.float64))
    return {HONEST: _program(full), CUT: _program(full * blocks),
            SHARED: _program(full[..., :4].repeat(1, 1, 3)),
            THRIFTY: _program(full[:, :4, :4].repeat(1, 3, 3) * blocks)}


def _passes(check, program):
    """Return what a check says of a program; an assert that fails is a no, None one that held."""
    try:
        said = check(program)
    except AssertionError:
        return False
    return said is None or bool(said)


def judge(given):
    """Judge two checks: each finds one of the two bugs of thrifty_heads, and nothing else."""
    if not isinstance(given, list | tuple) or len(given) != 2 or not all(map(callable, given)):
        return "The answer is a list of two functions."
    caught = []
    for check in given:
        if untouched(check):
            return f"{check.__name__} is still open."
        rows = [{name: _passes(check, program) for name, program in _programs(seed).items()}
                for seed in range(3)]
        found = {name for name in rows[0] if not any(row[name] for row in rows)}
        if problem := _about_one(found, [row[HONEST] for row in rows]):
            return f"{check.__name__}: {problem}"
        caught.append(found & {CUT, SHARED})
    if len(caught[0] | caught[1]) < 2:
        return ("Both checks see the same bug. Repair that one in thrifty_heads and ask again: "
                "what can the heads of this page do that these still cannot?")
    return ""


def _about_one(found, honest):
    """Return what is wrong with one check, from the programs it refuses whatever the weights."""
    if HONEST in found and THRIFTY not in found:
        return "upside down: True is to mean that the program passes."
    if not all(honest):
        return ("a false alarm: the program of this page fails it, with "
                f"{honest.count(False)} of 3 draws of weights. What holds for each draw?")
    if THRIFTY not in found:
        return ("thrifty_heads passes. Which input would make a difference, if the program did "
                "what this page's does?")
    if not found & {CUT, SHARED}:
        return "it is silent once either of the two bugs is repaired. Ask about one at a time."
    return ""
