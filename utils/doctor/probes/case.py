"""What a probe asks with, and what it reports: a case, the difference of two answers, a Finding.

A case serves kernels and layers alike. ``queries`` ask: q (b, h, i, d), or x (b, i, d_in). ``read``
is what they read, word by word: (k, v), (b, h, j, …) each, or (memory,), (b, j, d_in); in
self-attention it is (), the queries read themselves.
"""

from typing import NamedTuple

import numpy as np

from utils import masks, reference, sizes


class Finding(NamedTuple):
    """What one probe found: ``ok`` is True, False, or None when it could not ask.

    ``saw`` is the number measured, fine up to ``bound``; ``where`` is the place of the worst,
    ``sentence`` what it means, for a reader.
    """

    probe: str
    ok: bool | None
    saw: float
    bound: float
    where: str
    sentence: str

    def __str__(self):
        mark = {True: "ok  ", False: "FAIL", None: "?   "}[self.ok]
        return f"{mark} {self.probe:18} {self.sentence}"


class ShapeError(ValueError):
    """An answer is not laid out as the queries are."""


class Case(NamedTuple):
    """A question to a program; ``keep`` is the mask that goes with it, or None.

    ``rule``, bool (b, i, j), says which query may hear which word: by ``keep`` and by what the
    program masks itself. Differences up to ``tolerance`` are rounding.
    """

    queries: np.ndarray
    read: tuple
    keep: np.ndarray | None
    rule: np.ndarray
    tolerance: float = 1e-9

    def inputs(self):
        """Return fresh copies of what the program is given; x twice the same in self-attention."""
        queries = self.queries.copy()
        read = [x.copy() for x in self.read] or [queries]
        return queries, *read, None if self.keep is None else self.keep.copy()

    def ask(self, program):
        """Return the program's context or out, (b, h, i, d) or (b, i, d), float64.

        Raises ShapeError when its shape is not that of the queries, the features aside.
        """
        out = program(*self.inputs())
        out = reference.float64(out[0] if isinstance(out, tuple) else out)
        if out.shape[:-1] != self.queries.shape[:-1]:
            raise ShapeError(f"the queries are {self.queries.shape}, so the answers should be "
                             f"{self.queries.shape[:-1]} and features, got {out.shape}")
        return out

    def words(self):
        """Return what the words are read from, (k, v), (memory,) or (x,)."""
        return self.read or (self.queries,)

    def with_words(self, words):
        """Return the case with other words to read."""
        words = tuple(words)
        return self._replace(read=words) if self.read else self._replace(queries=words[0])

    def rows(self, chosen):
        """Return ``chosen``, bool (b, i), in axes that broadcast to the answers."""
        heads = (1,) * (self.queries.ndim - 3)
        return chosen.reshape(chosen.shape[0], *heads, chosen.shape[1], 1)

    def with_mask(self, keep, rule):
        """Return the case with another mask and rule."""
        return self._replace(keep=keep, rule=np.broadcast_to(rule, self.rule.shape))


def kernel_case(seed=0, *, n_q=sizes.N_Q, n_k=sizes.N_K, grouped=False, d_v=sizes.D_V,
                tolerance=1e-9):
    """Return a Case of random q, k, v, variance 1, without a mask; ``grouped``: 6 and 2 heads."""
    heads = {"heads": sizes.GROUPED_HEADS, "kv_heads": sizes.KV_HEADS} if grouped else {}
    q, *read = sizes.qkv(seed, n_q=n_q, n_k=n_k, d_v=d_v, **heads)
    return Case(q, tuple(read), None, np.ones((sizes.BATCH, n_q, n_k), bool), tolerance)


def layer_case(seed=0, *, n_q=sizes.N_Q, n_k=sizes.N_K, d_in=sizes.D_MODEL, self_attention=False,
               tolerance=1e-9):
    """Return a Case of random x and memory, variance 1, no mask; self-attention has length n_k."""
    x, memory = sizes.sides(seed, n_q=n_k if self_attention else n_q, n_k=n_k, d_in=d_in)
    read = () if self_attention else (memory,)
    return Case(x, read, None, np.ones((sizes.BATCH, x.shape[1], n_k), bool), tolerance)


def padded(case, lengths):
    """Return the case with a mask that also hides each example's words from lengths[b] on."""
    return masked(case, masks.padding(lengths, case.rule.shape[-1]))


def causal(case, align=None, itself=False):
    """Return the case with a causal rule, and keep for it unless the program masks ``itself``."""
    return masked(case, masks.causal(*case.rule.shape[1:], align)[None, None], itself)


def masked(case, keep, itself=False):
    """Return the case with one mask more, (b, 1, i, j), given or, if ``itself``, only demanded."""
    given = keep if case.keep is None else case.keep & keep
    return case.with_mask(case.keep if itself else given, case.rule & keep[:, 0])


def gaps(got, expected):
    """Return |got - expected| / max(1, max|expected|); infinite for a NaN that is not shared."""
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    finite = np.abs(expected[np.isfinite(expected)])
    with np.errstate(invalid="ignore"):
        found = np.where(same, 0.0, np.abs(got - expected))
    return np.nan_to_num(found, nan=np.inf, posinf=np.inf) / max(1.0, finite.max(initial=0.0))


def place(index):
    """Return an index (b, h, i, …) or (b, i, …) in words."""
    names = {1: ("example",), 2: ("example", "query"), 3: ("example", "query", "feature"),
             4: ("example", "head", "query", "feature")}[len(index)]
    return ", ".join(f"{name} {number}" for name, number in zip(names, index, strict=True)
                     if name != "feature")


def judge(probe, got, expected, bound, good, bad, counted=True):
    """Return the Finding of two answers that should be equal; ``counted`` (…) are the places.

    ``bad`` may contain {where}, {got} and {expected}, the place that differs most.
    """
    found = np.where(counted, gaps(got, np.broadcast_to(expected, got.shape)), 0.0)
    if found.max(initial=0.0) <= bound:
        return Finding(probe, True, float(found.max(initial=0.0)), bound, "", good)
    index = tuple(int(n) for n in np.unravel_index(np.argmax(found), found.shape))
    pair = got[index], np.broadcast_to(expected, got.shape)[index]
    texts = next(([f"{x:.{n}g}" for x in pair] for n in (3, 6, 9) if f"{pair[0]:.{n}g}" !=
                  f"{pair[1]:.{n}g}"), pair)  # with the digits that it takes to see a difference
    sentence = bad.format(where=place(index), got=texts[0], expected=texts[1])
    return Finding(probe, False, float(found[index]), bound, place(index), sentence)

