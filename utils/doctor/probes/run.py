"""Run all probes that fit a program."""

import numpy as np

from ... import sizes
from ...masks import padding
from . import invariants, kernel as kernel_probes, layer as layer_probes, visibility
from .case import Finding, case_of, causal as causally, kernel_case, layer_case, masked

# Each probe and the kind of case that it runs with; see ``kinds``.
SHARED = (
    (invariants.shape, "usual"), (invariants.determinism, "usual"),
    (invariants.untouched, "usual"), (visibility.causality, "causal"),
    (visibility.dependence, "plain"), (visibility.padding, "padded"),
    (invariants.equivariance, "set"), (invariants.batch_independence, "usual"),
    (invariants.query_independence, "cross"), (invariants.finiteness, "plain"),
    (visibility.fully_masked_row, "padded"))
KERNEL = ((kernel_probes.row_sums, "usual"), (kernel_probes.head_independence, "usual"),
          (kernel_probes.weights_match, "usual"), (kernel_probes.variance, "plain"))
LAYER = ((layer_probes.same_tokens, "average"),)


def probe_kernel(program, *, causal=False, align=None, masks="any", square=False, grouped=False,
                 d_v=sizes.D_V, seed=0, tolerance=1e-9):
    """Return the Findings of ``program(q, k, v, keep) -> context or (context, weights)``, a list.

    ``causal``: True if the program applies a causal mask by itself, with alignment ``align`` if it
    takes n_q != n_k. ``masks``: the program takes "any" keep, only "padding", or "none".
    ``square``: True if n_q must be n_k. ``grouped``: True if k and v have fewer heads. ``d_v``: the
    number of dimensions of a value.
    """
    n_q = sizes.N_K if square or (causal and not align) else sizes.N_Q
    case = kernel_case(seed, n_q=n_q, grouped=grouped, d_v=d_v, tolerance=tolerance)
    return findings(program, SHARED + KERNEL, kinds(case, causal, align, masks, seed))


def probe_layer(program, *, causal=False, masks="any", square=False, self_attention=False,
                d_in=sizes.D_MODEL, weights=None, n_heads=sizes.HEADS, seed=0, tolerance=1e-9):
    """Return the Findings of ``program(x, memory, keep) -> out``, a list.

    ``self_attention``: True if memory is always x. ``d_in``: the last axis of x and memory. The
    other options are those of ``probe_kernel``. With ``weights``, a weight set, the program is
    called as ``program(x, memory, weights, n_heads, keep)``, and one more probe tests that it uses
    all of them.
    """
    n_q = sizes.N_K if square or causal else sizes.N_Q
    case = layer_case(seed, n_q=n_q, d_in=d_in, self_attention=self_attention, tolerance=tolerance)
    cases = kinds(case, causal, None, masks, seed)
    ask = program if weights is None else lambda x, memory, keep: program(
        x, memory, weights, n_heads, keep)
    found = findings(ask, SHARED + LAYER, cases)
    if weights is not None:
        found.append(run(layer_probes.weights_used, program, cases["usual"], weights, n_heads))
    return found


def probe_decoding(program, *, d_v=sizes.D_V, seed=0, tolerance=1e-9):
    """Return the Findings of ``program(q, k, v, cache) -> (context, cache)``, a list.

    Its first call is tested as a causal kernel. The last Finding is that of the cache.
    """
    case = kernel_case(seed, n_q=sizes.N_K, d_v=d_v, tolerance=tolerance)
    found = probe_kernel(lambda q, k, v, keep: program(q, k, v, None)[0], causal=True, masks="none",
                         d_v=d_v, seed=seed, tolerance=tolerance)
    return [*found, run(kernel_probes.cache, program, case)]


def finite(program, queries, *sources):
    """Return the Finding of finiteness of ``program(queries, *sources, keep)``, without a mask."""
    return run(invariants.finiteness, program, case_of(queries, sources))


def on_off(program, asking, sides, keep, tolerance):
    """Return the Finding of ``weights_on_off`` for x, or (x, memory), and ``keep``."""
    case = case_of(sides[0], sides[1:], keep, tolerance)
    return run(layer_probes.weights_on_off, program, asking, case)


def findings(program, probes, cases):
    """Return the Findings of the probes for which there is a case."""
    return [run(probe, program, cases[kind]) for probe, kind in probes if kind in cases]


def kinds(case, causal, align, masks, seed):
    """Return {kind: Case}, the kinds of cases that the options of a program allow."""
    plain = causally(case, align, itself=True) if causal else case
    found = {"plain": plain, "usual": plain}
    if masks != "none":
        n_k = case.allowed.shape[-1]
        lengths = np.where(sizes.lengths(seed, n_k=n_k) == n_k, n_k - 2, 2 + seed % 2)
        keep = padding(lengths, n_k)
        if masks == "any":  # make the last token real: a causal mask alone masks the others
            keep = np.roll(keep, -1, axis=-1)
        found["padded"] = found["usual"] = masked(plain, keep)
    if causal:
        found["causal"] = plain
    else:
        # Shuffled padding is no padding any more.
        found["set"] = found["usual"] if masks == "any" else plain
        found["average"] = found["usual"]
        if masks == "any":
            found["causal"] = causally(case, "bottom_right")
    if case.sources:
        found["cross"] = found["usual"]
    return found


def run(probe, *args):
    """Return the probe's Finding, or a Finding that says why the probe could not run."""
    try:
        with np.errstate(all="ignore"):
            return probe(*args)
    except Exception as error:  # an unknown program may raise anything
        name = probe.__name__.replace("_", " ")
        return Finding(name, None, np.nan, 0, "", "The probe could not run: the program raised "
                       f"{type(error).__name__}: {str(error).strip()[:200]}")
