"""All probes that fit a program, asked in turn."""

import numpy as np

from utils import sizes
from utils.doctor.probes import (
    invariants,
    kernel as kernel_probes,
    layer as layer_probes,
    visibility,
)
from utils.doctor.probes.case import (
    Case,
    Finding,
    causal as causally,
    kernel_case,
    layer_case,
    masked,
)
from utils.masks import padding

# Each probe and the case that it is asked with, if there is one: see ``kinds``.
SHARED = (
    (invariants.shape, "usual"), (invariants.determinism, "usual"),
    (invariants.untouched, "usual"), (visibility.causality, "causal"),
    (visibility.hearing, "plain"), (visibility.padding, "padded"),
    (invariants.equivariance, "set"), (invariants.batch_independence, "usual"),
    (invariants.query_independence, "cross"), (invariants.finiteness, "plain"),
    (visibility.empty_row, "padded"))
KERNEL = ((kernel_probes.row_sums, "usual"), (kernel_probes.head_independence, "usual"),
          (kernel_probes.weights_match, "usual"), (kernel_probes.variance, "plain"))
LAYER = ((layer_probes.same_words, "average"),)


def probe_kernel(program, *, causal=False, align=None, masks="any", square=False, grouped=False,
           d_v=sizes.D_V, seed=0, tolerance=1e-9):
    """Return the Findings of ``program(q, k, v, keep) -> context or (context, weights)``, a list.

    ``causal``: it applies the causal mask by itself, hung from the corner ``align`` if n_q and n_k
    may differ; ``masks``: the keep it takes is "any", of "padding" only, or "none"; ``square``: n_q
    must be n_k; ``grouped``: k and v have fewer heads; ``d_v``: features of a value.
    """
    n_q = sizes.N_K if square or (causal and not align) else sizes.N_Q
    case = kernel_case(seed, n_q=n_q, grouped=grouped, d_v=d_v, tolerance=tolerance)
    return answers(program, SHARED + KERNEL, kinds(case, causal, align, masks, seed))


def probe_layer(program, *, causal=False, masks="any", square=False, self_attention=False,
          d_in=sizes.D_MODEL, weights=None, n_heads=sizes.HEADS, seed=0, tolerance=1e-9):
    """Return the Findings of ``program(x, memory, keep) -> out``, a list.

    ``self_attention``: memory is always x; ``d_in``: their width; the rest as in ``probe_kernel``.
    With ``weights``, a weight set, it is ``program(x, memory, weights, n_heads, keep)``, and is
    asked whether it uses all of them.
    """
    n_q = sizes.N_K if square or causal else sizes.N_Q
    case = layer_case(seed, n_q=n_q, d_in=d_in, self_attention=self_attention,
                               tolerance=tolerance)
    cases = kinds(case, causal, None, masks, seed)
    ask = program if weights is None else lambda x, memory, keep: program(
        x, memory, weights, n_heads, keep)
    found = answers(ask, SHARED + LAYER, cases)
    if weights is not None:
        found.append(asked(layer_probes.weights_used, program, cases["usual"], weights, n_heads))
    return found


def probe_decoding(program, *, d_v=sizes.D_V, seed=0, tolerance=1e-9):
    """Return the Findings of ``program(q, k, v, cache) -> (context, cache)``, a list.

    Its first pass is a causal kernel; the last Finding is that of its cache.
    """
    case = kernel_case(seed, n_q=sizes.N_K, d_v=d_v, tolerance=tolerance)
    found = probe_kernel(lambda q, k, v, keep: program(q, k, v, None)[0], causal=True, masks="none",
                   d_v=d_v, seed=seed, tolerance=tolerance)
    return [*found, asked(kernel_probes.cache, program, case)]


def finite(program, queries, *read):
    """Return the Finding of finiteness of ``program(queries, *read, keep)``, asked without mask."""
    return asked(invariants.finiteness, program, _case(queries, read, None))


def on_off(program, asking, sides, keep, tolerance):
    """Return the Finding on whether asking for the weights leaves the answer be, with ``keep``."""
    case = _case(sides[0], sides[1:], keep)._replace(tolerance=tolerance)
    return asked(layer_probes.weights_on_off, program, asking, case)


def _case(queries, read, keep):
    """Return the Case of these inputs; without keep, every query may hear every word."""
    n_k = (read or (queries,))[0].shape[-2]
    rule = np.ones((len(queries), queries.shape[-2], n_k), bool)
    return Case(queries, read, keep, rule if keep is None else rule & keep[:, 0])


def answers(program, probes, cases):
    """Return the Findings of the probes for which there is a case."""
    return [asked(probe, program, cases[kind]) for probe, kind in probes if kind in cases]


def kinds(case, causal, align, masks, seed):
    """Return the cases that the program's promises allow, a dict by the names in the tables."""
    plain = causally(case, align, itself=True) if causal else case
    found = {"plain": plain, "usual": plain}
    if masks != "none":
        n_k = case.rule.shape[-1]
        lengths = np.where(sizes.lengths(seed, n_k=n_k) == n_k, n_k - 2, 2 + seed % 2)
        keep = padding(lengths, n_k)
        if masks == "any":  # a word behind the padding: a causal mask alone would hide the others
            keep = np.roll(keep, -1, axis=-1)
        found["padded"] = found["usual"] = masked(plain, keep)
    if causal:
        found["causal"] = plain
    else:
        # Padding that has been shuffled is no padding any more.
        found["set"] = found["usual"] if masks == "any" else plain
        found["average"] = found["usual"]
        if masks == "any":
            n_q, n_k = case.rule.shape[1:]
            found["causal"] = causally(case, None if n_q == n_k else "bottom_right")
    if case.read:
        found["cross"] = found["usual"]
    return found


def asked(probe, *args):
    """Return the probe's Finding, or one that says that the program could not be asked."""
    try:
        with np.errstate(all="ignore"):
            return probe(*args)
    except Exception as error:  # whatever a stranger's program raises
        name = probe.__name__.replace("_", " ")
        return Finding(name, None, np.nan, 0, "", f"Could not be asked: "
                                f"{type(error).__name__}: {str(error).strip()[:200]}")

