"""Probes for a kernel or a layer: what holds for every attention, whatever its weights are.

Each takes a program on NumPy arrays, ``(q, k, v, keep) -> context or (context, weights)`` or
``(x, memory, keep) -> out``, and a ``findings.Case``, and returns a ``Finding``. None of them needs
a second program to compare with.
"""

import numpy as np

from utils.doctor.probes.case import Finding, ShapeError, judge


def noise(x, seed=0):
    """Return normal numbers shaped like x."""
    return np.random.default_rng([seed, 7]).standard_normal(x.shape)


def shape(program, case):
    """Does the program answer each query, in the layout in which it was asked?"""
    try:
        case.ask(program)
    except ShapeError as error:
        return Finding("shape", False, np.nan, 0, "",
                       f"There is not one answer for each query: {error}.")
    return Finding("shape", True, 0.0, 0, "", "One answer for each query.")


def determinism(program, case):
    """Does the program answer the same question twice in the same way, as in evaluation?"""
    return judge("determinism", case.ask(program), case.ask(program), case.tolerance,
                 "Asked twice, it answers the same.",
                 "Asked twice, it answers {got} and {expected} ({where}): is dropout still on?")


def untouched(program, case):
    """Does the program leave what it is given as it was?"""
    inputs, before = case.inputs(), case.inputs()
    program(*inputs)
    changed = [str(number) for number, (x, was) in enumerate(zip(inputs, before, strict=True), 1)
               if x is not None and not np.array_equal(x, was)]
    if not changed:
        return Finding("untouched", True, 0, 0, "", "Its arguments are as they were.")
    where = f"argument {', '.join(changed)}"
    return Finding("untouched", False, len(changed), 0, where,
                   f"It writes into its input: {where} has changed.")


def equivariance(program, case):
    """Shuffle the words, and the queries: do the answers stay, and follow, as a set demands?

    Not for a program that masks by position itself.
    """
    n_q, n_k = case.rule.shape[1:]
    j = np.random.default_rng(0).permutation(n_k)
    i = np.random.default_rng(1).permutation(n_q) if case.read else j
    keep = case.keep
    if keep is not None:
        keep = keep[..., j] if keep.shape[-1] == n_k else keep
        keep = keep[..., i, :] if keep.shape[-2] == n_q else keep
    shuffled = case._replace(queries=case.queries[..., i, :], keep=keep,
                             read=tuple(x[..., j, :] for x in case.read))
    asks = case.rows(case.rule.any(axis=-1)[:, i])
    return judge("equivariance", shuffled.ask(program), case.ask(program)[..., i, :],
                 case.tolerance, "Shuffled words give the same answers, shuffled.",
                 "Words in another order give another answer: {got}, not {expected} ({where}).",
                 asks)


def batch_independence(program, case):
    """Ask about each example alone: is the answer the one it got among the others?"""
    alone = []
    for b in range(case.rule.shape[0]):
        only = slice(b, b + 1)
        shared = case.keep is None or case.keep.ndim < 4 or len(case.keep) == 1  # by all examples
        keep = case.keep if shared else case.keep[only]
        alone.append(case._replace(queries=case.queries[only], rule=case.rule[only], keep=keep,
                                   read=tuple(x[only] for x in case.read)).ask(program))
    return judge("batch independence", case.ask(program), np.concatenate(alone), case.tolerance,
                 "Each example is answered as if it were alone.",
                 "With another example beside it, the answer is {got}; alone it is {expected} "
                 "({where}).", case.rows(case.rule.any(axis=-1)))


def query_independence(program, case):
    """Put another question: do the answers to all others stay as they are?"""
    asked = case.queries.copy()
    asked[..., -1, :] = noise(asked)[..., -1, :]
    others = case.rule.any(axis=-1) & (np.arange(case.rule.shape[1]) < case.rule.shape[1] - 1)
    return judge("query independence", case._replace(queries=asked).ask(program), case.ask(program),
                 case.tolerance, "No query minds what the others ask.",
                 "When another query changes, the answer goes from {expected} to {got} ({where}).",
                 case.rows(others))


def finiteness(program, case):
    """Are the answers to very large scores finite?"""
    with np.errstate(all="ignore"):
        out = case._replace(queries=1000 * case.queries).ask(program)
    count = int((~np.isfinite(out)).sum())
    sentence = (f"Large scores give {count} numbers that are not finite: subtract the largest "
                "score before exp." if count else "Large scores give finite answers.")
    return Finding("finiteness", not count, count, 0, "", sentence)
