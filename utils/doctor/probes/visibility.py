"""Probes for which tokens an output depends on: causal masks, padding, fully masked rows.

Arguments and results are those of ``utils.doctor.probes.invariants``.
"""

import numpy as np

from .case import Finding, count, gaps
from .invariants import noise

LARGE = 30  # how much larger scores become, so that a small constant is no longer a mask


def depends(program, case, threshold=0.0):
    """Return bool, (b, h, i, j) or (b, i, j): True where replacing token j changes output i."""
    before, changed = case.ask(program), []
    for j in range(case.allowed.shape[-1]):
        tokens = [x.copy() for x in case.tokens()]
        for seed, x in enumerate(tokens):
            x[..., j, :] = noise(x, seed)[..., j, :]
        after = case.with_tokens(tokens).ask(program)
        changed.append((gaps(after, before) > threshold).any(axis=-1))
    return np.stack(changed, axis=-1)


def causality(program, case):
    """Test that replacing a token changes no output whose query must not attend to it."""
    found = depends(program, case, case.tolerance)
    leaks = (found.any(axis=1) if found.ndim == 4 else found) & ~case.allowed
    if not case.sources:  # in self-attention, the token is the query itself where i = j
        leaks &= ~np.eye(leaks.shape[-1], dtype=bool)
    return _none("causality", leaks, "No output depends on a masked token.",
                 "Output {i} depends on masked token {j} (pairs like this: {number}).")


def dependence(program, case):
    """Test that replacing a token changes, in every head, all outputs that may attend to it."""
    found = depends(program, case)
    allowed = case.allowed[:, None] if found.ndim == 4 else case.allowed
    return _none("dependence", allowed & ~found,
                 "Each output depends on all tokens that its query may attend to.",
                 "Output {i} does not depend on token {j}, to which its query may attend (pairs "
                 "like this: {number}).")


def _none(probe, wrong, good, bad):
    """Return the Finding on bool (b, i, j) or (b, h, i, j), which should nowhere be True."""
    places = np.argwhere(wrong)
    if not len(places):
        return count(probe, 0, good, bad)
    example, *_, i, j = places[0].tolist()
    return count(probe, len(places), good, bad.format(i=i, j=j, number=len(places)),
                 f"example {example}, query {i}, key {j}")


def padding(program, case):
    """Test that noise in the tokens that are masked for every query changes no output.

    This is tested with small and with large scores, as a finite mask value may be too high.
    """
    masked = ~case.allowed.any(axis=1)  # (b, j)
    chosen = case.allowed.any(axis=-1)
    if not case.sources:
        chosen = chosen & ~masked  # in self-attention, a masked token is a query, too
    for scaled, size in scaled_cases(case):
        tokens = with_noise(scaled.tokens(), masked, size)
        found = case.compare(
            "padding", scaled.with_tokens(tokens).ask(program), scaled.ask(program),
            "Noise in the padding changes no output.",
            "Noise in the padding changes an output from {expected} to {got} ({where}).", chosen)
        if not found.ok:
            break
    return found


def scaled_cases(case):
    """Return pairs (case, size of the noise): as it is, with large scores, with scores far below 0.

    The noise in values may have any size. The tokens of a layer are also its keys: large noise
    there would exceed a mask value of -1e9, or even of -1e4. Scores far below 0 cannot be made in
    a layer.
    """
    large = case._replace(queries=LARGE * case.queries)
    if len(case.sources) < 2:
        return (case, 100.0), (large, 1.0)
    k, v = case.sources
    low = case._replace(queries=-LARGE * abs(case.queries), sources=(3 * abs(k), v))
    return (case, 1e6), (large, 1e6), (low, 1e6)


def with_noise(tokens, masked, size):
    """Return the tokens with normal noise where ``masked`` (b, j) is True.

    In the last array, which holds the values, the noise is ``size`` times as large.
    """
    *keys, values = ((x, noise(x)) for x in tokens)
    return [np.where(masked.reshape(len(x), *(1,) * (x.ndim - 3), -1, 1), new, x)
            for x, new in (*keys, (values[0], size * values[1]))]


def fully_masked_row(program, case):
    """Test that an example whose rows are fully masked gets numbers and changes no other."""
    allowed = case.allowed & (np.arange(len(case.allowed)) > 0)[:, None, None]
    fully_masked = case.with_mask(allowed.any(axis=1)[:, None, None, :], allowed)
    before, after = case.ask(program), fully_masked.ask(program)
    if not np.isfinite(after[0]).all():
        return Finding("fully masked row", False, np.nan, 0, "example 0",
                       "A fully masked row gets NaN or infinity.")
    return fully_masked.compare(
        "fully masked row", after, before,
        "A fully masked row gets finite numbers and changes no other example.",
        "A fully masked example changes another one: its output is {got}, expected {expected} "
        "({where}).")
