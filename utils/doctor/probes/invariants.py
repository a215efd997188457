"""Probes for a kernel or a layer: properties of every attention, whatever its parameters are.

Each probe takes a program on NumPy arrays, ``(q, k, v, keep) -> context or (context, weights)`` or
``(x, memory, keep) -> out``, and a ``probes.case.Case``. It returns a ``Finding``.
"""

import numpy as np

from .case import Finding, ShapeError, count


def noise(x, seed=0):
    """Return random normal numbers in the shape of x."""
    return np.random.default_rng([seed, 7]).standard_normal(x.shape)


def shape(program, case):
    """Test that the output has one row for each query, in the layout of the queries."""
    try:
        case.ask(program)
    except ShapeError as error:
        return Finding("shape", False, np.nan, 0, "",
                       f"The output does not have one row for each query: {error}.")
    return Finding("shape", True, 0.0, 0, "", "The output has one row for each query.")


def determinism(program, case):
    """Test that two identical calls give equal outputs, as they must in evaluation."""
    return case.compare("determinism", case.ask(program), case.ask(program),
                        "Identical calls give equal outputs.",
                        "Identical calls give {got} and {expected} ({where}): is dropout still on?")


def untouched(program, case):
    """Test that the program does not write into its arguments."""
    inputs, before = case.inputs(), case.inputs()
    program(*inputs)
    changed = [str(number) for number, (x, was) in enumerate(zip(inputs, before, strict=True), 1)
               if x is not None and not np.array_equal(x, was)]
    where = f"argument {', '.join(changed)}"
    return count("untouched", len(changed), "It leaves its arguments unchanged.",
                 f"It writes into its input: {where} has changed.", where)


def equivariance(program, case):
    """Test that shuffled keys give equal outputs, and shuffled queries equal outputs, shuffled.

    This does not hold for a program that masks by position itself.
    """
    n_q, n_k = case.allowed.shape[1:]
    j = np.random.default_rng(0).permutation(n_k)
    i = np.random.default_rng(1).permutation(n_q) if case.sources else j
    keep = case.keep
    if keep is not None:
        keep = keep[..., j] if keep.shape[-1] == n_k else keep
        keep = keep[..., i, :] if keep.shape[-2] == n_q else keep
    shuffled = case._replace(queries=case.queries[..., i, :], keep=keep,
                             sources=tuple(x[..., j, :] for x in case.sources),
                             allowed=case.allowed[:, i][..., j])
    return shuffled.compare(
        "equivariance", shuffled.ask(program), case.ask(program)[..., i, :],
        "Shuffled tokens give equal outputs, shuffled.",
        "Shuffled tokens give another output: {got}, expected {expected} ({where}).")


def batch_independence(program, case):
    """Test that each example alone gives the output that it gives in a batch."""
    alone = []
    for b in range(case.allowed.shape[0]):
        only = slice(b, b + 1)
        shared = case.keep is None or case.keep.ndim < 4 or len(case.keep) == 1  # one for all
        keep = case.keep if shared else case.keep[only]
        one = case._replace(queries=case.queries[only], allowed=case.allowed[only], keep=keep,
                            sources=tuple(x[only] for x in case.sources))
        alone.append(one.ask(program))
    return case.compare(
        "batch independence", case.ask(program), np.concatenate(alone),
        "Each example gives the same output alone and in a batch.",
        "In a batch, the output of an example is {got}; alone, it is {expected} ({where}).")


def query_independence(program, case):
    """Test that replacing the last query changes no other output."""
    queries = case.queries.copy()
    queries[..., -1, :] = noise(queries)[..., -1, :]
    others = case.allowed.any(axis=-1)
    others[:, -1] = False
    after = case._replace(queries=queries).ask(program)
    return case.compare(
        "query independence", after, case.ask(program), "No output depends on another query.",
        "Replacing another query changes an output from {expected} to {got} ({where}).", others)


def finiteness(program, case):
    """Test that very large scores give finite outputs."""
    out = case._replace(queries=1000 * case.queries).ask(program)
    number = int((~np.isfinite(out)).sum())
    return count("finiteness", number, "Large scores give finite outputs.",
                 f"Large scores give {number} elements that are not finite: subtract the largest "
                 "score before exp.")
