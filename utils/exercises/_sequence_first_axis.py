"""Judge of `axis` in the chapter on sequence first: a probe for the axis of the softmax."""

import torch

from ..checks import to_numpy
from ._check import not_attempted
from ._judges import wrong_keys

KEYS = (1,)  # the axis of (i, j, b, h) over which softmax should run
WRONG_AXES = {(0,): "the queries", (2,): "the examples", (3,): "the heads",
              (1, 3): "keys and heads together"}
BUGS = ("inverted", "off by one", "after softmax")


def judge_axis(given):
    """Judge a probe for the axis of the softmax, and the bug that it misses."""
    if not isinstance(given, dict) or set(given) != {"probe", "misses"}:
        return wrong_keys(("probe", "misses"))
    probe, misses = given["probe"], given["misses"]
    if not_attempted(probe):
        return "Still open: probe."
    problem = _judge_probe(probe)
    if problem:
        return problem
    if not_attempted(misses):
        return "The probe is right. Still open: misses."
    misses = misses.strip().lower() if isinstance(misses, str) else misses
    if misses not in BUGS:
        return f"misses: answer one of {', '.join(BUGS)}, not {misses!r}."
    if not _result(probe, _program(KEYS, [], bug=misses)):
        return (f"misses: your probe catches “{misses}”: with that bug the weights do not sum to 1 "
                "over the keys.")
    return ""


def _judge_probe(probe):
    sizes = []
    result = to_numpy(probe(_program(KEYS, sizes)))
    if result.size != 1 or result.dtype == object:
        return "The probe must return True or False."
    alarms = [name for name, scale in (("1/√d", 1 / 2), ("1/d", 1 / 4), ("1", 1.0))
              if not _result(probe, _program(KEYS, sizes, scale))]
    if not sizes:
        return "The probe never calls the program, so it can only guess."
    passed = [f"a softmax over {name}{_equal_sizes(axes, sizes[-1])}"
              for axes, name in WRONG_AXES.items() if _result(probe, _program(axes, sizes))]
    if len(passed) == len(WRONG_AXES) and len(alarms) == 3:
        return "The probe is inverted: True must mean that the softmax runs over the keys."
    if passed:
        return f"These pass your probe, too: {', '.join(passed)}."
    if alarms:
        return ("This is a false alarm: the probe rejects a softmax over the keys if the scores "
                f"are multiplied by {' or '.join(alarms)}. Does it allow for rounding? And does "
                "every average of values have the property that it tests?")
    return ""


def _equal_sizes(axes, sizes):
    """Return which equal sizes of the probe's input hide a wrong axis."""
    n_q, n_k, batch, heads = sizes
    size, name = {(0,): (n_q, "queries"), (2,): (batch, "examples"), (3,): (heads, "heads")}.get(
        axes, (0, ""))
    return f" (your input has as many {name} as keys)" if size == n_k else ""


def _result(probe, program):
    return bool(to_numpy(probe(program)))


def _program(axes, sizes, scale=0.5, bug=None):
    """Return (query, key, value) -> context, with softmax over these axes of (i, j, b, h).

    Each call appends the shape of its scores to ``sizes``.
    """
    def program(query, key, value):
        query, key, value = map(torch.as_tensor, (query, key, value))
        scores = scale * torch.einsum("ibhd,jbhd->ijbh", query, key)
        sizes.append(tuple(scores.shape))
        diagonal = 1 if bug == "off by one" else 0
        keep = torch.ones(scores.shape[:2], dtype=torch.bool).tril(diagonal)[:, :, None, None]
        if bug == "inverted":
            keep = ~keep
        if bug in ("inverted", "off by one"):
            scores = scores.masked_fill(~keep, -1e9)
        weights = (scores - scores.amax(axes, keepdim=True)).exp()
        weights = weights / weights.sum(axes, keepdim=True)
        if bug == "after softmax":
            weights = weights * keep
        return torch.einsum("ijbh,jbhd->ibhd", weights, value)
    return program
