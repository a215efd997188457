"""The calls of a module with which it is found out what its arguments mean.

What is found out first is needed by what follows, so it is one class, of over 200 lines.
"""

import copy
import inspect
import itertools
import traceback
from pathlib import Path

import numpy as np

from ... import checks
from .. import _subject
from .constructors import heads_of
from .entry import NOT_PASSED, REPLACED, full, like, ways
from .layouts import LAYOUTS, SHAPES, TABLES, laid_out, positions, swapped
from .names import first, is_mask, left_out, looks_back, placed, roles_of

BATCH, N_Q, N_K = 2, 5, 7
SAME = 1e-5
MEANINGS = 4    # of a mask, to be examined where none is certain
SEQUENCE_FIRST = "with the sequence first, x (i, b, d)"


class Trial:
    """What the arguments of a module mean.

    ``ask(module, **arguments)`` calls it. ``alone``: whether memory is always x. ``way``: the Mask
    that it takes, or None; ``sure``: whether it masks in this way. ``causal``: whether it hides
    later tokens. ``batch_first``: whether x is (b, i, d_model). ``layout``: one of LAYOUTS.
    ``replaced``: whether a mask takes the place of a causal one. ``table``: one of TABLES.
    ``raises``: an error that no mask could avoid.
    """

    def __init__(self, module, function, ask, d_model, sample, aside=()):
        self.module, self.ask, self.sample = module, ask, sample
        self.roles = roles_of(function, aside)
        known = set(self.roles.values())
        self.alone = not ({"k", "v"} <= known or "memory" in known)
        self.masked = next((name for name, role in self.roles.items() if is_mask(role)), "")
        parameter = inspect.signature(function).parameters.get(self.masked)
        self.needed = bool(self.masked) and parameter.default is inspect.Parameter.empty
        self.way, self.sure, self.causal, self.batch_first = None, True, False, True
        self.layout, self.turn, self.open = "", 0, None
        self.turned = [name for name, role in self.roles.items() if role == "turn"]
        self.fits, self.square, self.replaced = [], False, False
        self.table, self.raises = TABLES[0], ""
        self.width = d_model
        self._find_sides(d_model)
        self._find_order()
        if not self.masked:
            self._find_unnamed_mask(function)
        self._find_mask()
        if self.masked and not (self.way or self.alone) and self.memory.shape[1] != N_Q:
            self.memory = self.memory[:, :N_Q]  # it may have meant the other axis
            self._find_mask()
            self.square = bool(self.way)
        if self.causal and self.way and self.sure and not self.needed:
            self._find_replaced()
        self.left_out = left_out(function, self.roles)

    def exchanged(self):
        """Return this trial where x gives keys and values and the other side the queries, or None.

        So some write it, as in a decoder: (x, y), with the queries from y.
        """
        if not {"x", "memory"} <= set(self.roles.values()) or self.memory.shape[1] != N_Q:
            return None
        other = copy.copy(self)
        sides = {"x": "memory", "memory": "x"}
        other.roles = {name: sides.get(role, role) for name, role in self.roles.items()}
        other.fits, other.way, other.sure, other.square = [], None, True, True
        other._find_order()
        other._find_mask()
        return other

    def further(self):
        """Return this trial with the sides exchanged, and with other tables of angles."""
        tables = [copy.copy(self) for _ in TABLES[1:] if any("pos" not in name or "emb" in name
                                                             for name in self.turned)]
        for one, table in zip(tables, TABLES[1:], strict=False):
            one.table = table
        other = self.exchanged()
        return [*tables, *([other] if other else [])]

    def attended(self, x, memory=None, mask=None):
        """Return what the module gives for NumPy arrays, as NumPy."""
        x, memory = like(x, self.sample), like(x if memory is None else memory, self.sample)
        self.mask = like(mask, self.sample)
        with _subject.quiet():
            return checks.to_numpy(self._asked(self.module, x, memory, self.mask))

    def _asked(self, module, x, memory, mask):
        """Return what a module gives, in the layout that it takes."""
        x, memory = laid_out(x, self.layout), laid_out(memory, self.layout)
        shape = (*x.shape[:-1], self.width) if not self.layout else tuple(x.shape)
        given = placed(self.roles, x, memory, mask) | positions(
            self.turned, x, x.shape[1 if self.batch_first else 0], heads_of(module) or 1, self.turn,
            self.table)
        out = first(self.ask(module, **given), shape)
        return laid_out(out, self.layout, back=True)

    def call(self, module, x, memory, keep):
        """Return ``module`` of x, memory and keep, called as this trial found out."""
        mask = None
        if self.way and (keep is not None or self.needed):
            mask = like(self.way.make(full(keep, len(x), 1, x.shape[1], memory.shape[1])), x)
        if not self.batch_first:
            x, memory = swapped(x), swapped(memory)
        out = self._asked(module, x, memory, mask)
        return out if self.batch_first else swapped(out)

    def said(self):
        """Return how the module is called, in words."""
        words = {"turn": "positions from 0", "list": "[q, k, v]", "off": "0", "none": "None"}
        how = ", ".join(name if name == role else f"{name}={role}" for name, role in (
            (name, "mask" if is_mask(role) else words.get(role, role))
            for name, role in self.roles.items()))
        text = f"called as ({how})"
        if not self.batch_first:
            text += f" {SEQUENCE_FIRST}"
        if self.layout:
            text += f" with x as {self.layout}"
        if not self.masked:
            return text
        if self.way is None:
            return f"{text} without {self.masked}, which was not examined"
        text = f"{text}; {self.masked}: {self.way.words}" + ("" if self.sure else " (assumed)")
        if self.masked == "key_padding_mask" and self.way.words.endswith("= may attend"):
            text += "; in PyTorch's own layers, a key_padding_mask is True where keys are masked"
        return text

    def unasked(self):
        """Return what of the attention is not examined, in words."""
        parts = ["its mask"] if self.masked and self.way is None else []
        return " and ".join([*parts, *(["its RoPE"] if self._rope_of_position_0() else [])])

    def _rope_of_position_0(self):
        return self.table == TABLES[-1] and any("pos" not in name for name in self.turned)

    def notes(self):
        """Return sentences on what was assumed, and on what is not examined."""
        found = []
        if self.replaced:
            found.append(REPLACED)
        if self.left_out:
            found.append(NOT_PASSED.format(" and ".join(self.left_out)))
        words = self.way.words if self.way and self.masked == "attention_mask" else ""
        if words.startswith("(b, j)") and words.endswith("= masked"):
            found.append("The attention_mask (b, j) of a tokenizer is 1 for real tokens; here, 1 "
                         "masks them.")
        if self._rope_of_position_0():
            found.append("The table of angles that it got was that of position 0, so its RoPE is "
                         "not examined.")
        return tuple(found)

    def _find_sides(self, d_model):
        """Draw x and memory of different lengths, or of one if the module takes no other."""
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((BATCH, N_Q, d_model))
        problems = []
        lengths = (N_Q,) if self.alone else (N_K, N_Q)
        ways = itertools.product(LAYOUTS, range(SHAPES if self.turned else 1), lengths)
        for layout, turn, n in ways:
            self.layout, self.turn = layout, turn
            self.memory = self.x if self.alone else rng.standard_normal((BATCH, n, d_model))
            try:
                with _subject.refusing():
                    self._first_call()
                return
            except _subject.RefusalError as refusal:
                problems.append(refusal)
        if self.alone and "x" in self.roles.values():  # a list of q, k and v, as in Keras
            before = dict(vars(self))
            self.roles = {name: "list" if role == "x" else role
                          for name, role in self.roles.items()}
            self.alone = False
            try:
                return self._find_sides(d_model)
            except _subject.RefusalError:
                vars(self).update(before)
        if self.needed:  # of no kind that is known; many programs take None
            self.roles[self.masked], self.masked, self.needed = "none", "", False
            return self._find_sides(d_model)
        raise problems[len(lengths) - 1]

    def _first_call(self):
        """Call the module without a mask, or with one that masks nothing in some way."""
        if not self.needed:
            return self._check(self.attended(self.x, self.memory))
        problem = None
        for way in ways(self.roles[self.masked]):
            try:
                self.open = self.opened(way)
                return self._check(self.attended(self.x, self.memory, self.open))
            except Exception as error:
                problem = error
        raise problem

    def opened(self, way):
        """Return a mask in this way that masks nothing."""
        return way.make(np.ones((BATCH, 1, N_Q, self.memory.shape[1]), dtype=bool))

    def _check(self, out):
        if out.shape[:2] != self.x.shape[:2] or out.ndim != 3:
            raise _subject.RefusalError(f"returns shape {out.shape} for x {self.x.shape}")
        self.width = out.shape[-1]

    def _find_order(self):
        """Find whether the batch comes first, and whether later tokens are hidden."""
        before, memory = self.attended(self.x, self.memory, self.open), self.memory.copy()
        changed = []
        for index in ((0, -1), (-1, 0), (0, 0)):  # another token, another example
            memory[:] = self.memory
            memory[index] *= -2.0                      # no shift: a LayerNorm would undo it
            x = memory if self.alone else self.x
            after = self.attended(x, memory, self.open)
            changed.append(np.abs(after - before).max(axis=-1) > SAME)
        token, example, start = changed
        self.batch_first = not (token[1:].any() and not token[0, :-1].any())
        if self.batch_first:
            square = self.memory.shape[1] == N_Q
            self.causal = square and looks_back(token[0], start[0])
        else:
            self.causal = self.alone and not example[:-1].any()

    def _find_mask(self):
        """Find a Mask with which masked tokens do not matter and others do, or one that fits."""
        if not self.masked:
            return
        keep = np.ones((BATCH, 1, N_Q, self.memory.shape[1]), dtype=bool)
        if self.causal and self.roles[self.masked] != "lengths":
            keep[0, ..., 1:3], keep[1, ..., 1] = False, False  # a causal mask hides the last ones
        else:
            keep[0, ..., -2:], keep[1, ..., -1:] = False, False
        for way in ways(self.roles[self.masked]):
            try:
                fit, right = self._masks(way, keep[:1].repeat(BATCH, 0) if way.masks ==
                                         "one for all" else keep)
            except Exception as error:  # not in this way
                self.raises = self.raises or own(error, self.mask)
                continue
            if fit and right:
                self.way = way
                return
            self.fits += [way] if fit else []
        self.sure, self.way = False, next(iter(self.fits), None)

    def _find_unnamed_mask(self, function):
        """Take an optional argument for the mask if it masks, whatever its name is."""
        for name in left_out(function, self.roles):
            self.roles[name], self.masked = "mask", name
            self._find_mask()
            if self.way and self.sure:
                return
            del self.roles[name]
            self.masked, self.way, self.sure, self.fits = "", None, True, []

    def _find_replaced(self):
        """Find whether the mask takes the place of a causal one; then it is always passed."""
        other = copy.copy(self)
        other.open = self.opened(self.way)
        other._find_order()
        if not other.causal:
            self.causal, self.needed, self.replaced, self.open = False, True, True, other.open

    def leaks(self, module):
        """Return whether outputs of another module depend on later tokens, and those of this not.

        Such a module is this one with all its norms.
        """
        if not self.causal:
            return False
        other = copy.copy(self)
        other.module = module
        before = other.attended(self.x, self.memory, self.open)
        memory = self.memory.copy()
        index = (slice(None), -1) if self.batch_first else -1
        memory[index] *= -2.0
        after = other.attended(memory if self.alone else self.x, memory, self.open)
        moved = np.abs(after - before) > SAME
        return bool((moved if self.batch_first else moved.swapaxes(0, 1))[:, 0].any())

    def meanings(self):
        """Yield this trial with each meaning that its mask may have, and then without a mask."""
        yield self
        if not self.sure:
            words = {self.way.words} if self.way else set()
            for way in self.fits:
                if way.words not in words and len(words) < MEANINGS:
                    words.add(way.words)
                    yield self._with(way)
            if self.fits and not self.needed:
                yield self._with(None)

    def _with(self, way):
        other = copy.copy(self)
        other.way = way
        return other

    def _masks(self, way, keep):
        """Return whether a Mask can be passed, and whether it hides what it should, and no more."""
        real = keep[:, 0, 0]                                     # (b, j)
        rows = real if self.alone else np.ones((BATCH, N_Q), dtype=bool)
        noise = np.random.default_rng(1).standard_normal(self.memory.shape)
        hidden, shown = np.where(real[..., None], self.memory, 3 * noise), self.memory.copy()
        shown[:, 0] *= -2.0                                      # a token that is not masked
        outs = []
        for memory in (self.memory, hidden, shown):
            sides = (memory if self.alone else self.x), memory
            if not self.batch_first:
                sides = [side.swapaxes(0, 1) for side in sides]
            out = self.attended(*sides, way.make(keep))
            outs.append(out if self.batch_first else out.swapaxes(0, 1))
        if outs[0].shape != (*self.x.shape[:2], self.width):
            return False, False
        alike = np.abs(outs[0] - outs[1])[rows].max() < SAME
        told = np.abs(outs[0] - outs[2])[:, 1:].max() > SAME
        return True, bool(np.isfinite(outs[0][rows]).all() and alike and told)


def own(error, mask):
    """Return an error in words, with its line, if no mask could avoid it, or ""."""
    if not isinstance(error, AttributeError | NameError) or getattr(error, "obj", None) is mask:
        return ""
    step = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(step.filename).name}, line {step.lineno})"
