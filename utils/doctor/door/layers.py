"""A torch class as people write it: built and called by the names of its arguments."""

import inspect
import itertools

from utils.doctor import _subject
from utils.doctor.door.entry import KINDS, Entry, Mask
from utils.doctor.door.names import arguments, first, is_mask, placed, roles_of
from utils.doctor.modules import slots

D_MODEL, N_HEADS, BATCH, N_Q, N_K = 12, 3, 2, 5, 7   # of the trials
SHAPES = (("(b, 1, i, j)", lambda keep: keep, "heads alike"),
          ("(b, i, j)", lambda keep: keep[:, 0], "heads alike"),
          ("(b, 1, 1, j)", lambda keep: keep[:, :, :1], "padding"),
          ("(b, j)", lambda keep: keep[:, 0, 0], "padding"))


def layer(program):
    """Return the Entry of a torch class.

    Raises RefusalError with the last thing that went wrong.
    """
    given, built = arguments(program, D_MODEL, N_HEADS)
    with _subject.refusing():
        sample = program(**given)
    if slots.framework(sample) != "torch":
        raise _subject.RefusalError("is not a torch module")
    trial = Trial(sample.eval(), roles_of(sample.forward))
    trial.find_sides()
    trial.find_mask()

    def build(d_model, n_heads):
        return program(**arguments(program, d_model, n_heads)[0])

    build.__name__ = program.__name__
    options = {"call": trial.call, "self_attention": trial.alone, "causal": trial.causal,
               "masks": trial.way.masks if trial.way else "none"}
    return Entry(build, options, f"Built as {program.__name__}({built}), {trial.said()}")


class Trial:
    """The calls of a module with which it is found out what its arguments mean.

    ``alone``: whether memory is always x; ``way``: the Mask that it takes, or None.
    """

    def __init__(self, module, roles):
        self.module, self.roles = module, roles
        self.alone = not ({"k", "v"} <= set(roles.values()) or "memory" in roles.values())
        self.masked = next((name for name, role in roles.items() if is_mask(role)), "")
        self.needed = self.masked and (inspect.signature(module.forward).parameters[self.masked]
                                       .default is inspect.Parameter.empty)
        self.way, self.sure, self.causal = None, True, False

    def find_sides(self):
        """Draw x and memory of different lengths, or of one if the module takes no other."""
        import torch
        rng = torch.Generator().manual_seed(0)
        self.x = torch.randn(BATCH, N_Q, D_MODEL, generator=rng)
        problems = []
        for memory in [self.x] if self.alone else [
                torch.randn(BATCH, n, D_MODEL, generator=rng) for n in (N_K, N_Q)]:
            self.memory = memory
            try:
                with _subject.refusing():
                    self._first_call()
                return
            except _subject.RefusalError as refusal:
                problems.append(refusal)
        raise problems[-1]

    def _first_call(self):
        """Call the module without a mask, or with one that masks nothing in some way."""
        if not self.needed:
            out = self.attended(self.x, self.memory, None)
            self._check(out)
            if self.alone:
                changed = self.x.clone()
                changed[:, -1] += 3.0
                later = self.attended(changed, changed, None)
                self.causal = bool((out - later)[:, :-1].abs().max() < 1e-6)
            return
        problem = None
        for way in self.ways():
            try:
                self._check(self.attended(self.x, self.memory, way.make(self._keep())))
            except Exception as error:
                problem = error
            else:
                return
        raise problem

    def _check(self, out):
        if out.shape != self.x.shape:
            raise _subject.RefusalError(f"returns shape {tuple(out.shape)} for x "
                                        f"{tuple(self.x.shape)}")

    def _keep(self):
        import torch
        return torch.ones(BATCH, 1, N_Q, self.memory.shape[1], dtype=torch.bool)

    def attended(self, x, memory, mask):
        """Return what the module gives, without gradients and warnings."""
        with _subject._quiet():
            return first(self.module(**placed(self.roles, x, memory, mask)), x.shape)

    def ways(self):
        """Yield the Masks to try, the most general shapes first, but padding's for its name."""
        shapes = SHAPES[::-1] if "padding" in self.roles.values() else SHAPES
        for (axes, cut, masks), (words, make) in itertools.product(shapes, KINDS):
            yield Mask(f"{axes}, {words}", lambda keep, cut=cut, make=make: make(cut(keep)), masks)

    def find_mask(self):
        """Find a Mask with which masked tokens do not matter and others do, or one that fits."""
        import torch
        if not self.masked:
            return
        keep = self._keep()
        keep[0, ..., -2:], keep[1, ..., -1:] = False, False
        real = keep[:, 0, 0]                                     # (b, j)
        rows = real if self.alone else torch.ones(BATCH, N_Q, dtype=torch.bool)
        noise = torch.randn(self.memory.shape, generator=torch.Generator().manual_seed(1))
        hidden, shown = torch.where(real[..., None], self.memory, 3 * noise), self.memory.clone()
        shown[:, 0] += 3.0                                       # a token that is not masked
        fits = []
        for way in self.ways():
            try:
                outs = [self.attended(side if self.alone else self.x, side, way.make(keep))
                        for side in (self.memory, hidden, shown)]
            except Exception:  # not in this way
                continue
            if outs[0].shape != self.x.shape:
                continue
            fits.append(way)
            alike = (outs[0] - outs[1])[rows].abs().max() < 1e-5
            told = (outs[0] - outs[2])[:, 1:].abs().max() > 1e-5
            if outs[0][rows].isfinite().all() and alike and told:
                self.way = way
                return
        self.sure, self.way = False, next(iter(fits), None)

    def call(self, module, x, memory, keep):
        """Return ``module`` of x, memory and keep, called as this trial found out."""
        import torch
        mask = None
        if self.way and (keep is not None or self.needed):
            shape = len(x), 1, x.shape[1], memory.shape[1]
            full = torch.ones(shape, dtype=torch.bool) if keep is None else keep
            mask = self.way.make(full.expand(shape))
        return first(module(**placed(self.roles, x, memory, mask)), x.shape)

    def said(self):
        """Return how the module is called, in words."""
        how = ", ".join(name if name == role else f"{name}={role}" for name, role in (
            (name, "mask" if is_mask(role) else role) for name, role in self.roles.items()))
        text = f"called as ({how})"
        if not self.masked:
            return text
        if self.way is None:
            return f"{text} without {self.masked}"
        return f"{text}; {self.masked}: {self.way.words}" + ("" if self.sure else " (assumed)")
