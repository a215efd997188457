"""The exercises of the chapter on eleven programs and one equation."""

import math

import torch
from torch.overrides import TorchFunctionMode

from .. import parity
from ..attention.heads import merge_heads, split_heads
from ..checks import TOLERANCES
from ..parity.ten import project
from ._check import Check, Exercise
from ._judges import doctor_report


class _CalledFunctions(TorchFunctionMode):
    """Records the names of the PyTorch functions that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", ""))
        return function(*args, **kwargs or {})


def _twelfth(program):
    row = parity.torch_function("yours", program)
    try:
        with _CalledFunctions() as called:
            gaps = [parity.differences(row, case) for case in parity.eight_cases()]
    except RuntimeError as error:
        if "not require grad" not in str(error):
            raise
        return "Its result has no gradient: is something detached, or computed under no_grad?"
    wrong = [not gap["out"] <= TOLERANCES["float64"] for gap in gaps]
    if any(wrong):
        outputs = max(gap["out"] for gap in gaps)
        gradients = max(max(gap.values()) for gap in gaps)
        report = doctor_report(_with_mask(program), "layer", masks="heads alike", framework="torch")
        return (f"Its row in float64: outputs {outputs:.1g}, gradients {gradients:.1g}."
                f"{_which_cases(wrong)} {report}").strip()
    message = _wrong_gradients(row, gaps)
    if message or {"bmm", "baddbmm"} & called.names:
        return message
    return "It computes the right equation, but it never calls torch.bmm."


def _which_cases(wrong):
    """Return a sentence about what the wrong ones of the eight cases share, "" for nothing."""
    for cases, name in ((wrong[1::2], "padding"), (wrong[4:], "self-attention"),
                        (wrong[2:4] + wrong[6:], "the causal mask")):
        if sum(cases) == sum(wrong) == 4:
            return f" The four cases with {name} are wrong, the other four right."
    return ""


def _with_mask(program):
    """Return the program for the doctor: keep is always bool, (b, 1, i, j), as in the table."""
    def masked(x, memory, W, n_heads, keep):
        full = x.new_ones(len(x), 1, x.shape[1], memory.shape[1]).bool()
        return program(x, memory, W, n_heads, full if keep is None else full & keep)
    masked.__name__ = getattr(program, "__name__", "your program")
    return masked


def _wrong_gradients(row, gaps):
    """Return what is wrong with the gradients, or the float32, of a program with right outputs."""
    wrong = [name for name in gaps[0]
             if any(gap.get(name, 0) > TOLERANCES["float64"] for gap in gaps)]
    if wrong:
        found = parity.run(row, parity.case())
        zero = [name for name in found if name in wrong and not found[name].any()]
        message = f"All outputs are right, but these gradients are wrong: {', '.join(wrong)}."
        if zero:
            message += f" Those of {', '.join(zero)} are zero."
        return f"{message} Is part of the backward pass cut off, or counted twice?"
    try:
        parity.table([row]).check()
    except AssertionError as error:
        return f"It is right in float64, but {error}. Is a part computed in half precision?"
    return ""


SIZES = ("batch", "n_q", "n_k", "n_heads", "d_head")
OPTIONS = (*SIZES, "causal", "padding", "self_attention")


def _ninth_case(options):
    """Judge the options of a case: it must catch all wrong programs, and no right one."""
    if not isinstance(options, dict) or not set(options) <= {*OPTIONS, "seed"}:
        return f"The answer must be a dict of options of parity.case: {', '.join(OPTIONS)}."
    options = {name: value for name, value in options.items() if value not in (None, ...)}
    odd = [name for name in SIZES if options.get(name, 1) not in range(1, 41)]
    if odd:
        return f"{', '.join(odd)} must be a whole number from 1 to 40; a good case is small."
    case = parity.case(**{name: int(value) for name, value in options.items()})
    missed = [name for name, change in WRONG.items() if not _caught(change, case)]
    if not missed:
        return _right_programs(case)
    return (f"Your case catches {len(WRONG) - len(missed)} of {len(WRONG)}. In it, these still "
            f"equal the reference: {'; '.join(missed)}.")


def _right_programs(case):
    """Return which of the eleven right programs fail a case, "" if all pass."""
    over = {program.name: max(parity.differences(program, case).values())
            for program in parity.programs()}
    over = {name: gap for name, gap in over.items() if not gap <= TOLERANCES["float64"]}
    if not over:
        return ""
    d = case.x.shape[-1] // case.n_heads
    found = ", ".join(f"{name} by {gap:.0e}" for name, gap in over.items())
    return (f"All five wrong programs fail your case. But a right one fails it, too: {found}. "
            f"Keras rounds 1/√{d} to float32. For which d_head does this rounding change nothing?")


def _caught(change, case):
    """Return whether a wrong program raises an error or differs from the reference."""
    try:
        gap = parity.differences(parity.torch_function("", _program(change)), case)["out"]
    except Exception:  # a size that does not fit
        return True
    return not gap <= TOLERANCES["float64"]


def _program(change):
    """Return attention with parts changed: {name of a part: its replacement}."""
    scale = change.get("scale", lambda d: 1 / math.sqrt(d))
    heads = change.get("heads", lambda n: n)
    hide = change.get("hide", lambda keep: keep)
    axis = change.get("axis", lambda n_q, n_k: -1)

    def program(x, memory, W, n_heads, keep):
        q, k, v = (split_heads(side, heads(n_heads)) for side in project(x, memory, W))
        scores = scale(W["W_q"].shape[1] // n_heads) * q @ k.mT
        weights = scores.masked_fill(~hide(keep), -math.inf).softmax(axis(*scores.shape[-2:]))
        return merge_heads(weights.nan_to_num() @ v) @ W["W_o"] + W["b_o"]
    return program


WRONG = {
    "the program that multiplies all scores by 1/2": {"scale": lambda d: 0.5},
    "the program that has three heads, whatever n_heads is": {
        "heads": lambda n: 3, "scale": lambda d: 1 / math.sqrt(d)},
    "the program that attends only to the first eight keys": {
        "hide": lambda keep: keep & (torch.arange(keep.shape[-1]) < 8)},
    "the program that gives all examples after the second the mask of the second": {
        "hide": lambda keep: keep[torch.arange(len(keep)).clamp(max=1)]},
    "the program that takes the longer side for the keys": {
        "axis": lambda n_q, n_k: -2 if n_q > n_k else -1}}


check = Check({
    "twelfth": Exercise(_twelfth, (
        "split_heads returns (b, h, i, d). Which two axes become one, and in which order are the "
        "numbers in the new axis?",
        "keep is (b, 1, i, j), and the folded scores are (b h, i, j). The mask of each example is "
        "needed once for every head, and these copies are neighbours.",
        "After the attention, unfold first, (b h, i, d) to (b, h, i, d); then merge the heads as "
        "usual."),
        "Its row is ≤ 1e-12 in float64 and ≤ 1e-5 in float32, for outputs and gradients. Whether "
        "the heads have an axis of their own is only a matter of layout."),
    "ninth_case": Exercise(_ninth_case, (
        "What do all eight cases have in common? Print the shapes of parity.case() and of "
        "parity.case(self_attention=True).",
        "A program may contain any of their sizes as a fixed number. Change them all.",
        "In all eight there are at least as many keys as queries, and never more than seven keys.",
        "One right program, Keras, rounds 1/√d_head to float32. Powers of 2 stay as they are."),
        "A test only catches what its sizes reveal: change every size, and also which is larger. "
        "And it must let right programs pass."),
})
