"""What comes in by the door: a program in the doctor's form, and what was assumed of it."""

import re
from typing import NamedTuple

from .plan import ATTENDING, AXES, KERNEL, LAYER, MASKING, TABLES

REPLACED = ("Without a mask it is causal, and a mask that is passed takes the place of the causal "
            "one; it was always passed.")
NOT_PASSED = "It was called without {}, so that is not examined."
CACHE = (" If it is a cache, examine a function step(q, k, v, cache) of the new positions, which "
         "returns (context, cache), with `level=\"decoding\"`.")
OF_TOKENIZER = ("But a tokenizer's attention_mask is 1 for real tokens, and here 1 masks: pass "
                "tokenizer_mask == 0.")
SWITCH = "But its argument {} only turns a causal mask on: its content is not used."
TO_EXAMINE = ("No mask that was tried fits {}. Write a function {}, where keep is None or "
              "(b, h, i, j), True = may attend. In it, call the program with a mask of its own "
              "kind, and {}.")
HOW = {KERNEL: ("kernel(q, k, v, keep) with q (b, h, i, d)", "examine that function"),
       LAYER: ("call(module, x, memory, keep)", "examine the program with `call=call`")}
MIXED = "It also runs{}, without an error, but then it mixes the heads: call it{}."
POSITION_0 = ("The table of angles that it got was that of position 0, so its RoPE is not "
              "examined.")


class Entry(NamedTuple):
    """A program in the doctor's form, its level, options and Form, and what was assumed of it.

    ``form``: what no option says of a layer, as replacements in ``levels.layer_cases.Form``.
    ``others``: Entries for what may be meant as well; ``likely``: whether this one counts beside
    others, or only if no other explains the program. ``both``: Entries of further calls, which must
    be right, too. ``notes``: sentences, on what was assumed or not examined. ``leak``: a norm
    through which outputs depend on later tokens. ``raises``: the error that the program raises with
    any mask. ``unasked``: what of the attention was not examined.
    """

    program: object
    level: str
    options: dict
    said: str
    form: dict = {}  # noqa: RUF012
    others: tuple = ()
    likely: bool = True
    both: tuple = ()
    sure: bool = True   # whether its mask masks
    notes: tuple = ()
    leak: str = ""
    raises: str = ""
    unasked: str = ""
    warning: str = ""   # a sentence, to follow "it equals the reference"
    call: str = ""      # how it is called, without how it was built


def entries(trial, made):
    """Return the Entry of a Trial, with those of what else may be meant, and of further calls.

    ``made(plan)`` makes one that does not yet say what was assumed.
    """
    def one(plan, **more):
        found = made(plan)
        options = found.options | {"causal": plan.causal, "masks": plan.masks}
        options |= {"self_attention": plan.alone} if plan.base == LAYER else {}
        missing = unasked(plan)
        return found._replace(
            options=options, sure=plan.sure, call=plan.said(), warning=warning(plan),
            raises="" if plan.mask else trial.raises, notes=notes(plan, trial, missing),
            unasked=" and ".join(missing), **more)

    first, *others = trial.meanings()
    others = [one(plan, likely=bool(plan.mask)) for plan in others]
    others += [one(plan, likely=trial.either() and not plan.angles) for plan in trial.further()]
    return one(first, others=tuple(others), both=tuple(map(one, trial.both)),
               likely=bool(first.mask) or not first.masked)


def unasked(plan):
    """Return the parts of the attention that are not examined by a plan, in words."""
    parts = []
    if _unmasked(plan):
        parts.append(f"its mask ({_unmasked(plan)})")
    if plan.turned and plan.angles.table == TABLES[-1]:  # all angles are 0
        parts.append("its RoPE")
    return parts


def _unmasked(plan):
    """Return the argument for a mask that got none that fits, or ""."""
    got_none = [name for name, role in plan.roles if role == "none"]
    return next(iter(got_none), "" if plan.mask else plan.masked)


def notes(plan, trial, missing):
    """Return sentences on what was assumed of a call, and on what is not examined."""
    absent = [name for name in trial.reading.absent if name != plan.masked]
    found = [REPLACED] if plan.replaced else []
    cache = CACHE if re.search("past|cache", " ".join(absent)) else ""
    found += [NOT_PASSED.format(" and ".join(absent)) + cache] if absent else []
    found += [POSITION_0] if "its RoPE" in missing else []
    if _unmasked(plan) and not trial.raises:
        alone = " and `self_attention=True`" if plan.base == LAYER and plan.alone else ""
        found.append(TO_EXAMINE.format(_unmasked(plan), *HOW[plan.base]).removesuffix(".")
                     + f"{alone}.")
    if trial.mixed and plan.base == KERNEL:
        found.append(MIXED.format(*(AXES[KERNEL][axes].removeprefix(",") for axes in (
            trial.mixed, plan.axes))))
    return tuple(found)


def warning(plan):
    """Return a sentence on what a reader may not expect of a program that is right, or ""."""
    if plan.switch:
        return SWITCH.format(plan.masked)
    against = plan.masked == "attention_mask" and plan.mask and plan.mask.axes == "b j" and (
        plan.mask.kind in MASKING)
    return OF_TOKENIZER if against else ""


def remark(plan):
    """Return a remark on a mask against the convention of its name, to follow what was said."""
    if plan.masked == "key_padding_mask" and plan.mask and plan.mask.kind in ATTENDING:
        return "; in PyTorch's own layers, a key_padding_mask is True where keys are masked"
    return ""
