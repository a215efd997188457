"""Probes that a kernel ``(q, k, v, keep)`` allows, and decoding ``(q, k, v, cache)``.

A kernel lets us choose the values, so its weights can be read off from outside: values that are all
ones give the sum of the weights, the rows of an identity matrix give the weights themselves.
"""

import numpy as np

from utils import reference
from utils.doctor.probes.case import Case, Finding, judge

WIDTHS = (4, 16, 64)
VARIES = 1e-3  # how far from 1


def equals_reference(program, case):
    """Is the context that of ``reference.attention``?"""
    expected, _ = reference.attention(case.queries, *case.read, case.rule[:, None])
    return judge("reference", case.ask(program), expected, case.tolerance,
                 "It equals the reference.",
                 "It is not the reference: {got}, not {expected} ({where}).",
                 case.rows(case.rule.any(axis=-1)))


def row_sums(program, case):
    """Let every value be 1: is the average 1, so that each query's weights sum to 1?"""
    k, v = case.read
    got = case._replace(read=(k, np.ones_like(v))).ask(program)
    return judge("row sums", got, np.ones_like(got), case.tolerance,
                 "The weights of a query sum to 1.",
                 "The weights of a query sum to {got}, not to 1 ({where}).",
                 case.rows(case.rule.any(axis=-1)))


def head_independence(program, case):
    """Ask each head of k and v alone, with its queries: is the answer the one among the others?"""
    k, v = case.read
    group, alone = case.queries.shape[1] // k.shape[1], []
    for h in range(k.shape[1]):
        q = case.queries[:, group * h:group * (h + 1)]
        alone.append(case._replace(queries=q, read=(k[:, h:h + 1], v[:, h:h + 1])).ask(program))
    return judge("head independence", case.ask(program), np.concatenate(alone, axis=1),
                 case.tolerance, "Each head answers as if it were alone.",
                 "Beside other heads the answer is {got}; alone it is {expected} ({where}).",
                 case.rows(case.rule.any(axis=-1)))


def weights_match(program, case):
    """If the program returns weights: are they those with which it has averaged the values?"""
    out = program(*case.inputs())
    if not isinstance(out, tuple) or out[1] is None:
        return Finding("weights match", True, 0, case.tolerance, "", "It returns no weights.")
    context, returned = (reference.float64(x) for x in out)
    v = reference.repeat_heads(case.read[1], case.queries.shape[1])
    if returned.shape[-2:] != (context.shape[-2], v.shape[-2]):
        return Finding("weights match", False, np.nan, case.tolerance, "",
                       f"The weights are {returned.shape}: not one for each query and key.")
    return judge("weights match", returned @ v, context, case.tolerance,
                 "The weights that it returns are those that it uses.",
                 "The weights that it returns give {got}, its context is {expected} ({where}).",
                 case.rows(case.rule.any(axis=-1)))


def variance(program, case):
    """Is the scale 1 / sqrt(d), so that scores vary by 1 whatever the width of a head?

    Asked with q and k drawn anew, for d = 4, 16 and 64; the values are an identity, so that the
    context is the weights. Their logarithms are the scores, up to a constant for each query; how
    much they vary is divided by how much q · k / sqrt(d) varies.
    """
    ratios = [spread(program, case, d) for d in WIDTHS]
    worst = max(ratios, key=lambda ratio: abs(np.log(ratio)) if ratio > 0 else np.inf)
    seen = ", ".join(f"{ratio:.3g} at d = {d}" for ratio, d in zip(ratios, WIDTHS, strict=True))
    ok = all(abs(ratio - 1) <= VARIES for ratio in ratios)
    sentence = ("The scores vary by 1 for every d." if ok else
                f"The scores vary by {seen}, not by 1: is the scale 1 / sqrt(d)?"
                if np.isfinite(ratios).all() else
                "The scores cannot be told from the answers: some weights are 0 or less.")
    return Finding("variance", ok, worst, VARIES, "", sentence)


def spread(program, case, d):
    """Return how much more the program's scores vary, for each query, than q · k / sqrt(d).

    ``case`` says how many heads, and whether the program is causal. There are d keys and queries,
    so that programs that want equal sizes can answer.
    """
    rng = np.random.default_rng(d)
    q, k = (rng.standard_normal((*x.shape[:2], d, d)) for x in (case.queries, case.read[0]))
    v = np.broadcast_to(np.eye(d), k.shape)
    rule = np.ones((len(q), d, d), bool) if case.rule.all() else np.tri(d, dtype=bool)
    rule = np.broadcast_to(rule, (len(q), d, d))
    seen = Case(q, (k, v), None, rule).ask(program)
    rule = np.broadcast_to((rule & (rule.sum(axis=-1, keepdims=True) > 1))[:, None], seen.shape)
    with np.errstate(all="ignore"):
        ratio = within(np.log(seen), rule) / within(reference.attention_scores(q, k), rule)
    return float(ratio)


def within(scores, rule):
    """Return the mean square of scores around the mean of their query, where ``rule`` is True."""
    scores, count = np.where(rule, scores, 0.0), rule.sum(axis=-1, keepdims=True)
    mean = scores.sum(axis=-1, keepdims=True) / np.maximum(count, 1)
    return np.mean((scores - mean) ** 2, where=rule)


def cache(program, case, chunks=(1, 2, 3)):
    """Decode in chunks of 1, 2 and 3 positions: is it what one pass gives?

    ``program(q, k, v, cache) -> (context, cache)`` gets the new positions only, None at first.
    """
    whole, _ = decoded(program, case, case.queries.shape[2])
    for size in chunks:
        parts, error = decoded(program, case, size)
        if error:
            return Finding("cache", False, np.nan, case.tolerance, f"chunks of {size}",
                           f"In chunks of {size} it raises {error}")
        found = judge("cache", parts, whole, case.tolerance,
                      "In chunks of any size it gives what one pass gives.",
                      f"In chunks of {size} it gives {{got}}, in one pass {{expected}} "
                      "({where}).")
        if not found.ok:
            break
    return found


def decoded(program, case, size):
    """Return (context, None) of decoding in chunks of ``size``, or (None, what it raised)."""
    memory, parts = None, []
    for start in range(0, case.queries.shape[2], size):
        new = (x[:, :, start:start + size].copy() for x in (case.queries, *case.read))
        try:
            context, memory = program(*new, memory)
        except Exception as error:  # whatever a stranger's program raises
            if not start:
                raise
            return None, f"{type(error).__name__}: {str(error).strip()[:200]}"
        parts.append(reference.float64(context))
    return np.concatenate(parts, axis=2), None
