"""Probes for a kernel ``(q, k, v, keep)`` and for decoding ``(q, k, v, cache)``.

A kernel lets us choose the values, so we can measure its weights: values that are all 1 give the
sum of the weights, and the rows of an identity matrix give the weights themselves.
"""

import numpy as np

from ... import reference
from .case import Case, Finding

WIDTHS = (4, 16, 64)  # of the heads, for which the scale is measured
VARIES = 1e-3  # how far from 1


def row_sums(program, case):
    """Test that values of 1 give a context of 1, so the weights of each query sum to 1."""
    k, v = case.sources
    got = case._replace(sources=(k, np.ones_like(v))).ask(program)
    return case.compare("row sums", got, np.ones_like(got), "The weights of each query sum to 1.",
                        "The weights of a query sum to {got}; expected 1 ({where}).")


def head_independence(program, case):
    """Test that each head of k and v alone, with its queries, gives the output that it gives."""
    k, v = case.sources
    group, alone = case.queries.shape[1] // k.shape[1], []
    for h in range(k.shape[1]):
        q = case.queries[:, group * h:group * (h + 1)]
        alone.append(case._replace(queries=q, sources=(k[:, h:h + 1], v[:, h:h + 1])).ask(program))
    return case.compare(
        "head independence", case.ask(program), np.concatenate(alone, axis=1),
        "Each head gives the same output alone and beside others.",
        "Beside other heads, the output of a head is {got}; alone, it is {expected} ({where}).")


def weights_match(program, case):
    """Test that the weights that a program returns, times v, give its context."""
    out = program(*case.inputs())
    if not isinstance(out, tuple) or out[1] is None:
        return Finding("weights match", True, 0, case.tolerance, "", "It returns no weights.")
    context, returned = (reference.float64(x) for x in out)
    v = reference.repeat_heads(case.sources[1], case.queries.shape[1])
    if returned.shape[-2:] != (context.shape[-2], v.shape[-2]):
        return Finding("weights match", False, np.nan, case.tolerance, "",
                       f"The weights are {returned.shape}; expected (b, h, {context.shape[-2]}, "
                       f"{v.shape[-2]}), one for each query and key.")
    return case.compare(
        "weights match", returned @ v, context,
        "The weights that it returns, times v, give its context.",
        "The weights that it returns, times v, give {got}; its context is {expected} ({where}).")


def variance(program, case):
    """Test that the scale is 1 / sqrt(d), so scores have variance 1 at every head dimension.

    The logarithms of the weights are the scores, up to a constant for each query.
    """
    ratios = [spread(program, case, d) for d in WIDTHS]
    worst = max(ratios, key=lambda ratio: abs(np.log(ratio)) if ratio > 0 else np.inf)
    measured = ", ".join(f"{ratio:.3g} at d = {d}" for ratio, d in zip(ratios, WIDTHS, strict=True))
    ok = all(abs(ratio - 1) <= VARIES for ratio in ratios)
    if ok:
        sentence = "The scores have variance 1 at every d."
    elif np.isfinite(ratios).all():
        sentence = f"The scores have variance {measured}; expected 1: is the scale 1 / sqrt(d)?"
    else:
        sentence = "The scores cannot be measured: some weights are 0 or less."
    return Finding("variance", ok, worst, VARIES, "", sentence)


def spread(program, case, d):
    """Return the variance of the program's scores, divided by that of q · k / sqrt(d).

    ``case`` says how many heads there are, and whether the program is causal. n_q = n_k = d.
    """
    rng = np.random.default_rng(d)
    q, k = (rng.standard_normal((*x.shape[:2], d, d)) for x in (case.queries, case.sources[0]))
    v = np.broadcast_to(np.eye(d), k.shape)
    allowed = np.ones((d, d), bool) if case.allowed.all() else np.tri(d, dtype=bool)
    weights = Case(q, (k, v), None, allowed).ask(program)
    allowed &= allowed.sum(axis=-1, keepdims=True) > 1  # a single weight is always 1
    allowed = np.broadcast_to(allowed, weights.shape)
    with np.errstate(all="ignore"):
        ratio = within(np.log(weights), allowed) / within(reference.attention_scores(q, k), allowed)
    return float(ratio)


def within(scores, allowed):
    """Return the variance of the scores of each query, averaged, where ``allowed`` is True."""
    scores, count = np.where(allowed, scores, 0.0), allowed.sum(axis=-1, keepdims=True)
    mean = scores.sum(axis=-1, keepdims=True) / np.maximum(count, 1)
    return np.mean((scores - mean) ** 2, where=allowed)


def cache(program, case, chunks=(1, 2, 3)):
    """Test that decoding in chunks of 1, 2 and 3 positions gives what one pass gives.

    ``program(q, k, v, cache) -> (context, cache)`` gets new positions only; cache begins as None.
    """
    whole, _ = decoded(program, case, case.queries.shape[2])
    for size in chunks:
        parts, error = decoded(program, case, size)
        if error:
            return Finding("cache", False, np.nan, case.tolerance, f"chunks of {size}",
                           f"In chunks of {size}, it raises {error}")
        found = case.compare(
            "cache", parts, whole, "In chunks of any size, it gives what one pass gives.",
            f"In chunks of {size}, it gives {{got}}; in one pass, {{expected}} ({{where}}).")
        if not found.ok:
            break
    return found


def decoded(program, case, size):
    """Return (context, None) of decoding in chunks of ``size``, or (None, the error in words)."""
    held, parts = None, []
    for start in range(0, case.queries.shape[2], size):
        chunk = (x[:, :, start:start + size].copy() for x in (case.queries, *case.sources))
        try:
            context, held = program(*chunk, held)
        except Exception as error:  # an unknown program may raise anything
            if not start:
                raise
            return None, f"{type(error).__name__}: {str(error).strip()[:200]}"
        parts.append(reference.float64(context))
    return np.concatenate(parts, axis=2), None
