"""Plans are tried: what a program answers to them, and which of them it fits."""

import traceback
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import _subject
from ..levels import dropout
from . import names
from .call import Target, each
from .plan import KERNEL, KINDS, TABLES, CallPlan, calls, masks

N_Q, N_K = 5, 7
SAME, HIDDEN = 1e-5, 1e-4   # largest differences of outputs that do not depend on what was changed
MEANINGS = 4                # of a mask, to be examined where none is certain


class Trial(NamedTuple):
    """A program, and the plan that it fits best.

    ``fits``: plans with the further meanings that its mask may have, where none is certain.
    ``both``: plans of further calls, with a flag, that must be right as well. ``raises``: the error
    of a program that no mask could avoid. ``sides``: what it was tried with. ``mixed``: likelier
    axes, with which one head changes another.
    """

    target: Target
    plan: CallPlan
    reading: names.Reading
    sides: tuple
    fits: tuple = ()
    both: tuple = ()
    raises: str = ""
    mixed: str = ""

    def of(self, plan):
        """Return this Trial with another plan, and with sides of its sizes."""
        return self._replace(plan=plan, sides=_sides(plan, self.sides[0].shape[-1]))

    def meanings(self):
        """Return the plan, and those with another meaning of its mask, and then without a mask."""
        found = {self.plan.mask and self.plan.mask.words(): self.plan}
        for plan in self.fits:
            if len(found) <= (1 if self.plan.sure else MEANINGS):
                found.setdefault(plan.mask.words(), replace(plan, sure=False))
        rest = self.fits and not (self.plan.always or self.plan.sure)
        return [*found.values(), *([replace(self.plan, mask=None)] if rest else [])]

    def either(self):
        """Return whether the names leave open which side gives keys and values."""
        words = [names.plain(name) for name, role in self.plan.roles if role == "memory"]
        return any(names.EITHER.fullmatch(word) or names.X.fullmatch(word) for word in words)

    def further(self):
        """Return the plans with other tables of angles, and with the sides exchanged.

        Some write a decoder as (x, y), where x gives keys and values and y the queries.
        """
        plan = self.plan
        found = [replace(plan, angles=plan.angles._replace(table=one))
                 for one in TABLES[1:] if plan.turned]
        sides = {"x": "memory", "memory": "x"}
        if sides.keys() <= {role for _, role in plan.roles}:
            other = replace(plan, square=True, mask=None, sure=True, masked="", roles=tuple(
                (name, sides.get(role, role)) for name, role in plan.roles))
            found.append(_with_mask(_with_order(self.of(other))).plan)
        return found


def tried(target, function, base, width=0, aside=(), program=None):
    """Return the Trial of a program with the arguments of ``function``.

    ``width``: of x, for a layer. ``program``: what may hold dropout. Raises RefusalError with what
    went wrong first if no plan can be carried out.
    """
    problem = None
    for reading in names.readings(function, aside):
        found, refusal = _callable(target, reading, base, width)
        problem = problem or refusal
        if found:
            if changed(found, np.s_[:0]).any():  # nothing was, so it is random
                quiet = found.target._replace(ask=dropout.without(found.target.ask, program))
                found = _callable(quiet, reading, base, width)[0] or found
            return _with_flags(_with_mask(_with_order(found)), function)
    raise problem


def _callable(target, reading, base, width):
    """Return (Trial, first error): the first in which examples and heads stay apart, or any."""
    usable, problem = None, None
    for plan in calls(reading, base):
        one = Trial(target, plan, reading, _sides(plan, width))
        try:
            target.answer(plan, one.sides)
            apart = _apart(one)
        except _subject.RefusalError as refusal:
            problem = problem or refusal
            continue
        if apart:
            return one._replace(mixed=usable.plan.axes if usable else ""), None
        usable = usable or one
    return usable, problem


def _sides(plan, width):
    """Return random q, k and v, or x and twice memory, of different sizes as far as it can be."""
    rng = np.random.default_rng(0)
    n_k = N_Q if plan.square else N_K
    if plan.base == KERNEL:
        return tuple(rng.standard_normal((2, 3, n, d)) for n, d in (
            (N_Q, 4), (n_k, 4), (n_k, 4 if plan.square else 6)))
    return plan.sides(*(rng.standard_normal((2, n, width)) for n in (N_Q, n_k)))


def changed(trial, index, keep=None, least=SAME):
    """Return where an output differs, (b, …, i), after tokens of k and v have been changed.

    ``index``: of these tokens, in arrays (b, j, …, d). ``keep``: a mask that the program gets.
    """
    copies = each(np.copy, trial.sides)
    for side in {id(side): side for side in copies[1:]}.values():
        np.moveaxis(side, -2, 1)[index] *= -2.0  # no shift, which a LayerNorm would undo
    before, after = (trial.target.answer(trial.plan, sides, keep) for sides in (
        trial.sides, copies))
    with np.errstate(invalid="ignore"):
        return np.abs(after - before).max(axis=-1) > least


def _apart(trial):
    """Return whether no token of an example, or of a head, changes another one."""
    if changed(trial, np.s_[0, -1])[1:].any() or changed(trial, np.s_[-1, 0])[:-1].any():
        return False
    return trial.plan.base != KERNEL or not changed(trial, np.s_[:, :, 0])[:, 1:].any()


def _with_order(trial):
    """Return a Trial that knows whether later tokens are hidden, where n_q is n_k."""
    one = trial.of(replace(trial.plan, square=True))
    try:
        end, start = (changed(one, np.s_[0, n])[0].reshape(-1, N_Q).any(axis=0) for n in (-1, 0))
    except _subject.RefusalError:
        return trial
    the_wrong_way_round = end[0] and not start[1:-1].any()
    too_far_by_one = start[-1] and not end[1:-2].any()
    causal = start.any() and (the_wrong_way_round or not end[1:-1].any() or too_far_by_one)
    return trial._replace(plan=replace(trial.plan, causal=bool(causal)))


def _with_mask(trial):
    """Return a Trial with a mask that hides what it should, and no more; or one that just fits."""
    fits, raises, named = [], "", trial.reading.named
    for square in dict.fromkeys((trial.plan.square, True)):
        one = trial.of(replace(trial.plan, square=square))
        for name, role in trial.reading.masks:
            for mask in masks(one.plan, role):
                other = one._replace(plan=replace(one.plan, masked=name, mask=mask))
                try:
                    right = _masks(other)
                except _subject.RefusalError as refusal:
                    raises = raises or (_own(refusal.__cause__) if name in named else "")
                    continue
                if right:
                    return _with_replaced(other._replace(fits=tuple(fits)))
                fits += [other.plan] if name in named else []
    return _unsure(trial, fits, raises)


def _unsure(trial, fits, raises):
    """Return a Trial whose mask was not seen to mask in any way."""
    fits = [replace(plan, sure=False, square=trial.plan.square) for plan in fits]
    named = trial.reading.named
    if not named:
        return trial
    switched = _switched(trial, fits)
    if switched:
        return trial._replace(plan=replace(trial.plan, masked="", mask=None), both=(switched,))
    first = fits[0] if fits else replace(trial.plan, masked=named[0], mask=None)
    return trial._replace(plan=replace(first, sure=False), fits=tuple(fits), raises=raises)


def _switched(trial, fits):
    """Return the plan of a mask that only turns a causal mask on, whatever it holds, or None."""
    if trial.plan.always or not fits or trial.plan.causal:
        return None
    plan = fits[0]
    q, k, _ = trial.sides
    keep = np.ones((2, 1, q.shape[-2], k.shape[-2]), bool)
    some = keep.copy()
    some[..., 1] = False
    outs = [trial.target.answer(plan, trial.sides, mask) for mask in (None, keep, some)]
    same, other = (np.abs(outs[1] - out).max() for out in (outs[2], outs[0]))
    switched = replace(plan, mask=plan.mask._replace(kind=KINDS[0]), always=True, sure=True,
                       switch=True)
    found = _with_order(trial._replace(plan=switched)).plan
    return found if same < SAME < other and found.causal else None


def _with_replaced(trial):
    """Return a Trial that always gets a mask if one takes the place of a causal one."""
    plan = trial.plan
    if not plan.causal or plan.always:
        return trial
    open_plan = replace(plan, always=True, causal=False)
    other = _with_order(trial._replace(plan=open_plan)).plan
    return trial if other.causal else trial._replace(plan=replace(open_plan, replaced=True))


def _masks(trial):
    """Return whether a mask hides what it should, and no more. Raises RefusalError."""
    keep = _keep(trial.plan, trial.sides)
    real = keep[:, 0, 0]                            # (b, j)
    counted = real if trial.plan.alone else ...     # of the outputs (b, …, i)
    if not np.isfinite(trial.target.answer(trial.plan, trial.sides, keep))[counted].all():
        return False
    hides = not changed(trial, ~real, keep, HIDDEN)[counted].any()
    return hides and changed(trial, np.s_[:, 0], keep)[..., 1:].any()


def _keep(plan, sides):
    """Return the mask (b, 1, i, j) with which a meaning is tried; no key that is hidden is last."""
    q, k, _ = sides
    keep = np.ones((2, 1, q.shape[-2], k.shape[-2]), bool)
    if not plan.mask.kind.made:
        keep[0, ..., -2:], keep[1, ..., -1] = False, False
    else:
        keep[0, ..., 1:3], keep[1, ..., 1] = False, False
    one = "b" not in plan.mask.axes and "b" not in plan.pieces
    return keep[:1].repeat(2, 0) if one else keep


def _with_flags(trial, function):
    """Return a Trial with a further plan for each flag that turns a causal mask on, or off."""
    given, both = names.parameters(function), []
    for name in trial.reading.flags:
        value = given[name].default is not True
        plan = replace(trial.plan, flags=((name, value),), causal=value)
        without = replace(plan, mask=None, masked="")
        tries = [plan, replace(plan, square=True), without, replace(without, square=True)]
        both += [plan for plan in tries if _can(trial.of(plan))][:1]
    return trial._replace(both=(*trial.both, *both))


def _can(trial):
    """Return whether a program can be called by a plan, with a mask, if it gets one."""
    plan, sides = trial.plan, trial.sides
    try:
        trial.target.answer(plan, sides, plan.mask and _keep(plan, sides))
    except _subject.RefusalError:
        return False
    return True


def _own(error):
    """Return an error in words, with its line, if no mask could avoid it, or ""."""
    if not isinstance(error, AttributeError | NameError) or getattr(error, "of_mask", False):
        return ""
    step = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(step.filename).name}, line {step.lineno})"
