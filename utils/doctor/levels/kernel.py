"""The level of kernels, ``(q, k, v, keep) -> context or (context, weights)``."""

from dataclasses import dataclass

from ... import sizes
from .. import _search, _subject, faulty
from ..probes import run as probe_run
from . import designs, kernel_cases
from .dropout import WeightDropoutUndone
from .kernel_cases import ARBITRARY, SEARCH, SECOND
from .kernel_constants import constants
from .kernel_switches import TRANSPOSED, rare, switches
from .level import Level


def levels(options, masks="any"):
    """Return the Kernels to try in turn, the most general first."""
    forms = kernel_cases.ladder(options.square, options.grouped, masks)
    return [Kernel(form, options) for form in forms]


@dataclass(frozen=True)
class Kernel(Level):
    """Kernels that take sizes of this form and do what the options promise."""

    arguments = ("q", "k", "v", "keep")
    largest = 3

    def search_cases(self):
        return kernel_cases.search(self.form)

    def confirmation_cases(self):
        return kernel_cases.confirm(self.form)

    def problem(self, answer, args):
        return kernel_cases.problem(answer, args)

    def expected(self, args, settings, fully_masked):
        settings = self.options.settings() | settings
        return faulty.kernel.attention(*args, **settings, fully_masked=fully_masked)

    def switches(self, ask):
        two = [kernel_cases.shape(self.form, which) for which in (SEARCH, SECOND)]
        measured = constants(ask, two, self.options, ARBITRARY[self.form.masks], self.form.masks)
        parts = self.options.parts
        return (designs.unpromised([*designs.of_kernels(), TRANSPOSED], parts)
                + switches(self.form, self.options) + designs.unpromised(measured, parts))

    def rare(self):
        return designs.unpromised(rare(self.form.square), self.options.parts)

    def without_dropout(self, subject):
        return WeightDropoutUndone(subject)

    def probes(self, subject):
        aligned = self.options.causal and not self.form.square
        return probe_run.probe_kernel(
            _subject.answering(subject), causal=self.options.causal,
            align=self.options.align if aligned else None, square=self.form.square,
            grouped=self.form.grouped, masks={"heads alike": "any", "lengths": "padding"}.get(
                self.form.masks, self.form.masks),
            tolerance=_search.TOLERANCES[subject.dtype],
            d_v=sizes.D_HEAD if self.form.equal_features else sizes.D_V)

    def further_probes(self, subject):
        *inputs, _ = self.search_cases()[0].args
        return [probe_run.finite(_subject.answering(subject), *inputs)]

    def limits(self):
        return str(self.form._replace(square=self.form.square and not self.options.square))
