"""The judges of two exercises on sequence first: biases without effect, and the softmax's axis."""


import numpy as np
import torch

from utils import sizes
from utils.checks import difference, to_numpy
from utils.exercises._answers import listed
from utils.exercises._check import predictions, untouched

WHICH = predictions({"nothing": "key", "moved": "value", "fails": 5}, {
    "nothing": {"query": "(q + b) · k = q · k + b · k, and that differs from key to key.",
                "value": "It arrives in every context, and so in the output.",
                "output": "It is added to every output.",
                None: "One of query, key, value, output."},
    "moved": {"query": "What it adds to a score differs from key to key; no other bias does that.",
              "key": "That one does nothing, so there is nothing to move.",
              "output": "It would need the inverse of a matrix that may have none; the other way "
                        "round needs none.",
              None: "One of query, key, value, output."},
    "fails": {0: "The argument needs weights that sum to 1. What do those of an empty row sum to?",
              10: "In example 0 every query has seven keys, and its weights sum to 1.",
              1: "A whole example is empty: count its queries.",
              7: "Count queries, not keys.", None: "Which rows of weights do not sum to 1?"}})
OVER = {(0,): "the queries", (2,): "the examples", (3,): "the heads",
        (1, 3): "keys and heads together"}


def biases(given):
    """Judge which biases are idle, and where the one that can be moved goes."""
    if not isinstance(given, dict) or "receive" not in given:
        return "The answer is a dict with the keys 'nothing', 'moved', 'fails', 'receive'."
    rest = dict(given)
    receive = rest.pop("receive")
    told = WHICH(rest)
    if untouched(receive):
        return listed([part for part in (told, "Still open: receive.") if part])
    moved, other, W = map(torch.as_tensor, _bias_case())
    got = receive(moved.clone(), other.clone(), W.clone())
    return listed([part for part in (told, _received(got, moved, other, W)) if part])


def _bias_case():
    rng, e = np.random.default_rng(3), sizes.D_MODEL
    return rng.standard_normal(e), rng.standard_normal(e), rng.standard_normal((e, e))


def _received(got, moved, other, W):
    """Return what is wrong with a receiver's new bias, "" if nothing is."""
    for bias, why in (
            (other + W @ moved, ""),
            (other + moved, "between the two stands a matrix: the bias passes through it."),
            (other + W.T @ moved, "nn.Linear holds its matrix as (out, in). Yours is turned over; "
                                  "it is square, so nothing raised."),
            (other - W @ moved, "that way it is subtracted: what is lost there must be gained "
                                "here."),
            (W @ moved, "the receiver had a bias of its own."),
            (W @ (moved + other), "the receiver's own bias does not pass through W."),
            (other, "nothing was received.")):
        if np.shape(got) == tuple(bias.shape) and difference(got, bias) < 1e-9:
            return why and f"receive: {why}"
    return (f"receive: it should return one bias, {tuple(other.shape)}: what else the output gets "
            "when every context is shifted by `moved`.")


def axis(given):
    """Judge a probe for the axis of the softmax, and what it is said to miss."""
    if not isinstance(given, dict) or set(given) != {"probe", "misses"}:
        return "The answer is a dict with the keys 'probe', 'misses'."
    probe, misses, asked = given["probe"], given["misses"], []
    if untouched(probe):
        return "Still open: probe."
    said = to_numpy(probe(_program((1,), asked)))
    if said.size != 1 or said.dtype == object:
        return f"The probe should return True or False, not {None if said.size == 1 else 'many'}."
    alarms = [name for name, scale in (("1/√d", 1 / 2), ("1/d", 1 / 4), ("1", 1.0))
              if not _said(probe, _program((1,), asked, scale))]
    if not asked:
        return "The probe never asks the program: it can only guess."
    lives = [f"the softmax over {name}" + _excuse(axes, asked[-1]) for axes, name in OVER.items()
             if _said(probe, _program(axes, asked))]
    if len(lives) == len(OVER) and len(alarms) == 3:
        return "The probe is upside down: True means that the softmax runs over the keys."
    if lives:
        return f"Your probe takes for a softmax over the keys: {', '.join(lives)}."
    if alarms:
        return ("A false alarm: it calls a softmax over the keys wrong, with the scores times "
                f"{' or '.join(alarms)}. Does it forgive rounding? And does it ask for more than "
                "what every average of values does?")
    return _missed(probe, misses)


def _excuse(axes, size):
    """Return which equal sizes of the probe's input have hidden a wrong axis."""
    n_q, n_k, batch, heads = size
    same = {(0,): (n_q, "queries"), (2,): (batch, "examples"), (3,): (heads, "heads")}.get(axes)
    return f" (your input has as many {same[1]} as keys)" if same and same[0] == n_k else ""


def _missed(probe, misses):
    """Return why a bug of masks is not what the probe misses, "" if it is."""
    if misses is None or misses is ...:
        return "The probe is right. Still open: misses."
    misses = misses.strip().lower() if isinstance(misses, str) else misses
    if misses not in ("inverted", "off by one", "after softmax"):
        return f"misses: one of inverted, off by one, after softmax, not {misses!r}."
    return "" if _said(probe, _program((1,), [], bug=misses)) else (
        f"misses: your probe sees a mask {misses}: those weights no longer sum to 1 over the keys.")


def _said(probe, program):
    return bool(to_numpy(probe(program)))


def _program(axes, asked, scale=0.5, bug=None):
    """Return (query, key, value) -> context, softmax over these axes of (i, j, b, h)."""
    def program(query, key, value):
        query, key, value = map(torch.as_tensor, (query, key, value))
        scores = scale * torch.einsum("ibhd,jbhd->ijbh", query, key)
        asked.append(tuple(scores.shape))
        keep = torch.ones(scores.shape[:2], dtype=torch.bool).tril(int(bug == "off by one"))
        keep = (~keep if bug == "inverted" else keep)[:, :, None, None]
        if bug in ("inverted", "off by one"):
            scores = scores.masked_fill(~keep, -1e9)
        weights = (scores - scores.amax(axes, keepdim=True)).exp()
        weights = weights / weights.sum(axes, keepdim=True)
        weights = weights * keep if bug == "after softmax" else weights
        return torch.einsum("ijbh,jbhd->ibhd", weights, value)
    return program
