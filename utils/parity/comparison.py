"""Compare the outputs and gradients of programs on one weight set.

Each program is compared with ``utils.reference`` in float64, by ``checks.difference``. To add a
program ``mine(x, memory, weights, n_heads, keep) -> out`` to those of chapter `one_equation`:

    parity.table([*parity.programs(), parity.torch_function("mine", mine)])

The masks leave each query at least one key, because programs differ in fully masked rows.
"""

import itertools
from typing import NamedTuple

import numpy as np
from tabulate import tabulate

from .. import checks, masks, reference, sizes

DTYPES = ("float64", "float32")


class Case(NamedTuple):
    """The inputs of a program: x (b, i, e), memory (b, j, e), a weight set, keep (b, 1, i, j).

    In self-attention, ``memory`` is x, the same object. Without a mask, ``keep`` is None.
    ``grad_out`` (b, i, e) is the upstream gradient: gradients are those of sum(out * grad_out).
    """

    x: np.ndarray
    memory: np.ndarray
    weights: dict
    n_heads: int
    keep: np.ndarray | None
    grad_out: np.ndarray

    def sides(self):
        """Return {"x": x, "memory": memory}, or {"x": x} in self-attention."""
        return {"x": self.x} if self.memory is self.x else {"x": self.x, "memory": self.memory}

    def astype(self, dtype):
        """Return the case in another dtype; in self-attention, memory is still x."""
        sides = {name: side.astype(dtype) for name, side in self.sides().items()}
        return self._replace(
            x=sides["x"], memory=sides.get("memory", sides["x"]),
            weights={name: w.astype(dtype) for name, w in self.weights.items()},
            grad_out=self.grad_out.astype(dtype))


def case(seed=0, *, self_attention=False, causal=False, padding=True, batch=sizes.BATCH,
         n_q=sizes.N_Q, n_k=sizes.N_K, n_heads=sizes.HEADS, d_head=sizes.D_HEAD):
    """Return a random Case with d_in = d_out = h * d, which nn.MultiheadAttention requires.

    In self-attention, x is the memory, of length n_k. ``causal`` adds a causal mask; ``padding``
    masks keys in all examples but one.
    """
    seeds = np.random.default_rng(seed).integers(2**32, size=4)
    e = n_heads * d_head
    x, memory = sizes.sides(seeds[0], batch=batch, n_q=n_q, n_k=n_k, d_in=e)
    x = memory if self_attention else x
    keep = np.ones((batch, 1, x.shape[1], n_k), dtype=bool)
    if causal:  # the alignment that leaves each query a key
        align = "bottom_right" if x.shape[1] <= n_k else "top_left"
        keep &= masks.causal(x.shape[1], n_k, align)
    if padding:
        keep &= masks.padding(sizes.lengths(seeds[1], batch=batch, n_k=n_k), n_k)
    weights = sizes.weights(seeds[2], d_in=e, d_model=e, d_out=e)
    return Case(x, memory, weights, n_heads, keep,
                grad_out=np.random.default_rng(seeds[3]).standard_normal(x.shape))


def eight_cases():
    """Return eight Cases: cross- and self-attention, with and without causal mask and padding."""
    options = itertools.product((False, True), repeat=3)
    return [case(seed, self_attention=self_attention, causal=causal, padding=padding)
            for seed, (self_attention, causal, padding) in enumerate(options)]


def programs():
    """Return the eleven Programs of chapter `one_equation`."""
    from . import ten
    return ten.programs()


def run(program, case, dtype="float64"):
    """Return {"out": …} and the gradients by name, NumPy arrays, computed in this dtype.

    The names of gradients are ``x``, ``memory`` and those of the weight set. In self-attention,
    there is no ``memory``, and the gradient of x is the sum of both. A NumPy program returns
    ``out`` only. An error that the program raises gets a note with its name.
    """
    try:
        found = program.results(case.astype(dtype))
    except Exception as error:
        error.add_note(f"in the program {program.name!r}, {dtype}")
        raise
    return {name: checks.to_numpy(array) for name, array in found.items()}


def expected(case):
    """Return the outputs and gradients of the reference for a case, as ``run`` returns them."""
    out, _ = reference.multi_head_attention(*case[:5])
    found = reference.multi_head_attention_gradient(*case[:4], case.grad_out, case.keep)
    if case.memory is case.x:
        found["x"] = found["x"] + found["memory"]
    return {"out": out} | {name: found[name] for name in (*case.sides(), *case.weights)}


def differences(program, case, dtype="float64"):
    """Return {name: difference from the reference}, floats, for each array of ``run``."""
    want = expected(case)
    return {name: checks.difference(array, want[name])
            for name, array in run(program, case, dtype).items()}


def table(programs, cases=None):
    """Return the Table of programs: the largest differences over the cases (default: eight)."""
    cases = eight_cases() if cases is None else cases
    largest = {}
    for program in programs:
        for dtype in DTYPES:
            found = [differences(program, case, dtype) for case in cases]
            names = dict.fromkeys(itertools.chain(*found))
            largest[program.name, dtype] = {
                name: float(np.max([gaps[name] for gaps in found if name in gaps]))
                for name in names}
    return Table(largest)


class Row(NamedTuple):
    """The largest differences of one program; None for gradients if it has none."""

    program: str
    fp64_outputs: float
    fp64_gradients: float | None
    fp32_outputs: float
    fp32_gradients: float | None


class Table:
    """Differences from the reference, shown as bounds, which are the same on every computer.

    Its text is a Markdown table; a difference that exceeds its tolerance is bold.

    ``differences`` are floats, {(program, dtype): {"out" or name of a gradient: float}}. ``rows``,
    a list of Row, holds the largest of them.
    """

    def __init__(self, differences):
        self.differences, self.rows = differences, []
        for program in dict.fromkeys(program for program, _ in differences):
            cells = []
            for dtype in DTYPES:
                gradients = dict(differences[program, dtype])
                cells.append(gradients.pop("out"))
                cells.append(float(np.max([*gradients.values()])) if gradients else None)
            self.rows.append(Row(program, *cells))

    def check(self):
        """Return the table if all differences are within ``checks.TOLERANCES``.

        Raises AssertionError with each program, dtype and quantity that is not.
        """
        wrong = []
        for (program, dtype), gaps in self.differences.items():
            tolerance = checks.TOLERANCES[dtype]
            over = []
            for name, gap in gaps.items():
                what = name if name == "out" else f"gradient of {name}"
                if not gap <= tolerance:  # NaN is not within any tolerance
                    over.append(f"{what} differs by {gap:.1e}")
            if over:
                wrong.append(f"{program}, {dtype}: {', '.join(over)}; tolerance {tolerance:.0e}")
        if wrong:
            raise AssertionError("\n".join(wrong))
        return self

    def __repr__(self):
        columns = [name.replace("_", " ") for name in Row._fields]
        tolerances = [checks.TOLERANCES[dtype] for dtype in DTYPES for _ in range(2)]
        rows = [[row.program, *map(bound, row[1:], tolerances)] for row in self.rows]
        return tabulate(rows, columns, tablefmt="pipe", disable_numparse=True)

    _repr_markdown_ = __repr__


def bound(gap, tolerance):
    """Return the text of a difference: its bound, or, if it is larger, the difference in ``**``."""
    if gap is None:
        return "—"
    text = f"≤ {tolerance:.0e}" if gap <= tolerance else f"**{gap:.1g}**"
    return text.replace("e-0", "e-").replace("e+0", "e")
