"""Probes for who hears whom in a kernel or a layer: masks, padding, and queries without words.

Arguments and results are those of ``utils.doctor.probes.invariants``.
"""

import numpy as np

from utils.doctor.probes.case import Finding, gaps, judge
from utils.doctor.probes.invariants import noise

LOUD = 30  # times larger scores: beside them a small constant is no mask


def heard(program, case, threshold=0.0):
    """Return bool, (b, h, i, j) or (b, i, j): whose answer moves when word j is another?"""
    before, moved = case.ask(program), []
    for j in range(case.rule.shape[-1]):
        words = [x.copy() for x in case.words()]
        for seed, x in enumerate(words):
            x[..., j, :] = noise(x, seed)[..., j, :]
        after = case.with_words(words).ask(program)
        moved.append((gaps(after, before) > threshold).any(axis=-1))
    return np.stack(moved, axis=-1)


def pairs(found, case):
    """Return ``found`` for (b, i, j) of any head, without the queries that read themselves."""
    found = found.any(axis=1) if found.ndim == 4 else found
    return found if case.read else found & ~np.eye(found.shape[-1], dtype=bool)


def causality(program, case):
    """Change one word: may those answers stay as they are that ``rule`` forbids to hear it?"""
    leaks = np.argwhere(pairs(heard(program, case, case.tolerance), case) & ~case.rule)
    if not len(leaks):
        return Finding("causality", True, 0, 0, "", "No query hears a word that it may not hear.")
    example, i, j = leaks[0].tolist()
    where = f"example {example}, query {i}, key {j}"
    return Finding("causality", False, len(leaks), 0, where,
                   f"Query {i} hears key {j}, which it may not (pairs of this kind: {len(leaks)}).")


def hearing(program, case):
    """Change one word: does every answer move that ``rule`` allows to hear it, in every head?"""
    found = heard(program, case)
    rule = case.rule[:, None] if found.ndim == 4 else case.rule
    deaf = np.argwhere(rule & ~found)
    if not len(deaf):
        return Finding("hearing", True, 0, 0, "", "Every query hears all words that it may hear.")
    example, *_, i, j = deaf[0].tolist()
    where = f"example {example}, query {i}, key {j}"
    return Finding("hearing", False, len(deaf), 0, where,
                   f"Query {i} does not hear key {j}, which it may "
                   f"(pairs of this kind: {len(deaf)}).")


def padding(program, case):
    """Fill the words that nobody may hear with rubbish: do all answers stay as they are?

    Asked with small scores and with large: a hidden score that is not -inf may be too high.
    """
    hidden = ~case.rule.any(axis=1)  # (b, j)
    asks = case.rows(case.rule.any(axis=-1) & (True if case.read else ~hidden))
    for voice, size in voices(case):
        words = rubbish(voice.words(), hidden, size)
        found = judge("padding", voice.with_words(words).ask(program), voice.ask(program),
                      case.tolerance, "Whatever stands in the padding, no answer changes.",
                      "Rubbish in the padding moves an answer from {expected} to {got} ({where}).",
                      asks)
        if not found.ok:
            break
    return found


def voices(case):
    """Yield (case, how large rubbish may be): as it is, with large scores, with scores far below 0.

    Values may be as large as they like. The words of a layer are keys too: if they were, a mask of
    -1e9, or even of -1e4, would be too small for them; and scores below 0 cannot be had there.
    """
    loud = case._replace(queries=LOUD * case.queries)
    if len(case.read) < 2:
        yield from ((case, 100.0), (loud, 1.0))
        return
    k, v = case.read
    low = case._replace(queries=-LOUD * abs(case.queries), read=(3 * abs(k), v))
    yield from ((case, 1e6), (loud, 1e6), (low, 1e6))


def rubbish(words, hidden, size):
    """Return words with normal noise at ``hidden`` (b, j), ``size`` times as much in the last."""
    *keys, values = ((x, noise(x)) for x in words)
    return [np.where(hidden.reshape(len(x), *(1,) * (x.ndim - 3), -1, 1), new, x)
            for x, new in (*keys, (values[0], size * values[1]))]


def empty_row(program, case):
    """Let one example have no words at all: is its answer finite, and do the others stay?"""
    rule = case.rule & (np.arange(len(case.rule)) > 0)[:, None, None]
    empty = case.with_mask(rule.any(axis=1)[:, None, None, :], rule)
    with np.errstate(all="ignore"):
        before, after = case.ask(program), empty.ask(program)
    if not np.isfinite(after[0]).all():
        return Finding("empty row", False, np.nan, 0, "example 0",
                       "A query that may attend to nothing gets NaN.")
    return judge("empty row", after, before, case.tolerance,
                 "A query that may attend to nothing gets numbers, and disturbs nobody.",
                 "An example without words disturbs another: {got}, not {expected} ({where}).",
                 case.rows(rule.any(axis=-1)))
