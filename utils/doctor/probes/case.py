"""What a probe calls a program with, and what it reports: a Case, a comparison, a Finding.

A Case serves kernels and layers alike. ``queries`` is q (b, h, i, d) for a kernel and x
(b, i, d_in) for a layer. ``sources`` are the arrays with one row for each token j that a query may
attend to: (k, v), (b, h, j, …) each, for a kernel, and (memory,), (b, j, d_in), for a layer. In
self-attention ``sources`` is empty, as the queries are also the sources.
"""

from typing import NamedTuple

import numpy as np

from ... import checks, masks, reference, sizes


class Finding(NamedTuple):
    """What one probe found: ``ok`` is True, False, or None where the probe could not run.

    ``measured`` is a number that may be up to ``bound``. ``where`` is the index with the largest
    difference, and ``sentence`` says for a reader what was found.
    """

    probe: str
    ok: bool | None
    measured: float
    bound: float
    where: str
    sentence: str

    def __str__(self):
        mark = {True: "ok  ", False: "FAIL", None: "?   "}[self.ok]
        return f"{mark} {self.probe:18} {self.sentence}"


class ShapeError(ValueError):
    """An output does not have one row for each query."""


class Case(NamedTuple):
    """The arguments of one call; ``keep`` is the mask that is passed, or None.

    ``allowed``, bool (b, i, j): True where query i may attend to token j, by ``keep`` and by the
    mask that the program applies itself. Differences up to ``tolerance`` count as rounding.
    """

    queries: np.ndarray
    sources: tuple
    keep: np.ndarray | None
    allowed: np.ndarray
    tolerance: float = 1e-9

    def inputs(self):
        """Return fresh copies of the arguments; in self-attention, x is passed twice."""
        queries = self.queries.copy()
        sources = [x.copy() for x in self.sources] or [queries]
        return queries, *sources, None if self.keep is None else self.keep.copy()

    def ask(self, program):
        """Return the program's context (b, h, i, d_v) or out (b, i, d_out) in float64.

        Raises ShapeError if its axes, except the last, are not those of the queries.
        """
        with np.errstate(all="ignore"):
            out = program(*self.inputs())
        out = reference.float64(out[0] if isinstance(out, tuple) else out)
        if out.shape[:-1] != self.queries.shape[:-1]:
            raise ShapeError(f"for queries {self.queries.shape}, expected an output "
                             f"{self.queries.shape[:-1]} and one more axis, got {out.shape}")
        return out

    def tokens(self):
        """Return the arrays with one row for each token: (k, v), (memory,) or (x,)."""
        return self.sources or (self.queries,)

    def with_tokens(self, tokens):
        """Return the case with other tokens, in arrays as of ``tokens()``."""
        if self.sources:
            return self._replace(sources=tuple(tokens))
        return self._replace(queries=tokens[0])

    def with_mask(self, keep, allowed):
        """Return the case with another ``keep`` and ``allowed``."""
        return self._replace(keep=keep, allowed=np.broadcast_to(allowed, self.allowed.shape))

    def compare(self, probe, got, expected, good, bad, chosen=None):
        """Return the Finding on two outputs that should be equal.

        ``good`` and ``bad`` are the sentences. ``bad`` may contain {where}, {got} and {expected},
        for the element that differs most. ``chosen``, bool (b, i): the queries that count, by
        default all that may attend to a token.
        """
        chosen = self.allowed.any(axis=-1) if chosen is None else chosen
        of_kernel = self.queries.ndim == 4
        counted = chosen[:, None, :, None] if of_kernel else chosen[:, :, None]
        expected = np.broadcast_to(expected, got.shape)
        found = np.where(counted, gaps(got, expected), 0.0)
        largest = float(found.max(initial=0.0))
        if largest <= self.tolerance:
            return Finding(probe, True, largest, self.tolerance, "", good)
        index = tuple(int(n) for n in np.unravel_index(np.argmax(found), found.shape))
        axes = ("example", "head", "query") if of_kernel else ("example", "query")
        where = ", ".join(f"{axis} {n}" for axis, n in zip(axes, index, strict=False))
        texts = _different(got[index], expected[index])
        sentence = bad.format(where=where, got=texts[0], expected=texts[1])
        return Finding(probe, False, largest, self.tolerance, where, sentence)


def case_of(queries, sources, keep=None, tolerance=1e-9):
    """Return the Case of these arguments; without ``keep``, nothing is masked."""
    n_k = (sources or (queries,))[0].shape[-2]
    allowed = np.ones((len(queries), queries.shape[-2], n_k), bool)
    case = Case(queries, sources, None, allowed, tolerance)
    return case if keep is None else masked(case, keep)


def kernel_case(seed=0, *, n_q=sizes.N_Q, grouped=False, d_v=sizes.D_V, tolerance=1e-9):
    """Return a Case of random q, k, v with variance 1, without a mask; ``grouped``: 6, 2 heads."""
    heads = {"heads": sizes.GROUPED_HEADS, "kv_heads": sizes.KV_HEADS} if grouped else {}
    q, *sources = sizes.qkv(seed, n_q=n_q, d_v=d_v, **heads)
    return case_of(q, tuple(sources), tolerance=tolerance)


def layer_case(seed=0, *, n_q=sizes.N_Q, d_in=sizes.D_MODEL, self_attention=False,
               tolerance=1e-9):
    """Return a Case of random x and memory with variance 1, without a mask.

    In self-attention, x has as many positions as memory.
    """
    x, memory = sizes.sides(seed, n_q=sizes.N_K if self_attention else n_q, d_in=d_in)
    return case_of(x, () if self_attention else (memory,), tolerance=tolerance)


def padded(case, lengths):
    """Return the case with a mask that also masks the tokens of example b from lengths[b] on."""
    return masked(case, masks.padding(lengths, case.allowed.shape[-1]))


def causal(case, align=None, itself=False):
    """Return the case with a causal mask, which the program applies ``itself`` or is passed."""
    return masked(case, masks.causal(*case.allowed.shape[1:], align)[None, None], itself)


def masked(case, keep, itself=False):
    """Return the case with one more mask (b, 1, i, j); it is not passed if ``itself`` is True."""
    given = case.keep
    if not itself:
        given = keep if case.keep is None else case.keep & keep
    return case.with_mask(given, case.allowed & keep[:, 0])


def gaps(got, expected):
    """Return ``checks.differences``; infinite for a NaN that is not shared."""
    return np.nan_to_num(checks.differences(got, expected), nan=np.inf, posinf=np.inf)


def count(probe, number, good, bad, where=""):
    """Return the Finding on a number of faults, of which there should be none."""
    if not number:
        return Finding(probe, True, 0, 0, "", good)
    return Finding(probe, False, number, 0, where, bad)


def _different(x, y):
    """Return two numbers as text, with as many digits as it takes to see that they differ."""
    for digits in (3, 6, 9):
        texts = f"{x:.{digits}g}", f"{y:.{digits}g}"
        if texts[0] != texts[1]:
            return texts
    return str(x), str(y)
