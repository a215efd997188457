"""The level of kernels, ``(q, k, v, keep) -> context or (context, weights)``."""

from typing import NamedTuple

import numpy as np

from utils import sizes
from utils.doctor import _search, _subject, faulty
from utils.doctor.levels import kernel_cases
from utils.doctor.levels.kernel_cases import Form, trouble, weights_of
from utils.doctor.levels.kernel_constants import constants
from utils.doctor.levels.kernel_switches import Options, switches
from utils.doctor.probes import run as probe_run

RUNS = 64  # of a program with dropout: at p = 0.8 a weight is dropped in all with chance 1e-6


def levels(options, unmasked=False):
    """Return the Kernels to try in turn, the most general first; ``unmasked``: they get no keep."""
    forms = kernel_cases.ladder(options.square, options.grouped, unmasked)
    return [Kernel(form, options) for form in forms]


class Kernel(NamedTuple):
    """Kernels that take sizes of this form and do what the options promise."""

    form: Form
    options: Options
    arguments = ("q", "k", "v", "keep")
    largest = 3

    def cases(self):
        """Return the Cases that the search runs on."""
        return kernel_cases.search(self.form)

    def others(self):
        """Return the Cases that an explanation is confirmed on."""
        return kernel_cases.confirm(self.form)

    def trouble(self, answer, args):
        """Return what is wrong with the form of an answer, or nothing."""
        return trouble(answer, args)

    def expected(self, args, settings, empty):
        """Return (context, weights) of the faulty attention with these settings."""
        return faulty.kernel.attention(*args, **(self.options.settings() | settings), empty=empty)

    def switches(self, ask):
        """Return the Switches to try, those of constants read off the program included."""
        two = [kernel_cases.shape(self.form, which) for which in (kernel_cases.SEARCH,
                                                                  kernel_cases.SECOND)]
        return switches(self.form, self.options) + constants(
            ask, two, self.options, "no mask" if self.form.unmasked else "a mask per head")

    def steady(self, subject):
        """Return a random program as it would be without its dropout."""
        return Steady(subject)

    def probes(self, subject):
        """Return the Findings of the probes that fit such a kernel."""
        aligned = self.options.causal and not self.form.square
        return probe_run.probe_kernel(
            _subject.answering(subject), causal=self.options.causal,
            align=self.options.corner if aligned else None, square=self.form.square,
            grouped=self.form.grouped, masks="none" if self.form.unmasked else "any",
            tolerance=_search.TOLERANCES[subject.dtype],
            d_v=sizes.D_HEAD if self.form.equal_features else sizes.D_V)

    def besides(self, subject):
        """Return the Findings on what is no fault by itself."""
        *inputs, _ = self.cases()[0].args
        return [probe_run.finite(_subject.answering(subject), *inputs)]

    def limits(self):
        """Return in words which sizes it does not take although nobody has said so."""
        return str(self.form._replace(square=self.form.square and not self.options.square))


class Steady:
    """A program with dropout on its weights, as it would be without, from many runs of it.

    A dropped weight is 0, a kept one is always the same; ``dropout`` tells whether that was so.
    """

    def __init__(self, subject):
        self.subject, self.dropout = subject, True

    def __call__(self, q, k, v, keep):
        args = (q, k, v, keep)
        runs = [weights_of(self.subject, args) for _ in range(RUNS)]
        if any(run is None for run in runs):
            return self.subject(*args)
        runs = np.stack(runs)
        kept = runs.max(axis=0)
        dropped = (runs == 0) & (kept > 0)
        self.dropout &= bool((dropped | np.isnan(runs) | (np.abs(runs - kept) < 1e-6)).all())
        weights = kept * self._share(kept, dropped)
        return _subject.Answer(weights @ np.repeat(v, q.shape[1] // v.shape[1], axis=1),
                               None, "float32")

    @staticmethod
    def _share(kept, dropped):
        """Return 1 - p: from the sums of weights if they are all equal, or else by counting."""
        sums = kept.sum(axis=-1)
        sums = sums[sums > 0]
        if sums.size and np.ptp(sums) < 1e-6:
            return 1 / sums.mean()
        return 1 - round(20 * dropped.sum() / max(RUNS * (kept > 0).sum(), 1)) / 20
