"""The level of kernels, ``(q, k, v, keep) -> context or (context, weights)``."""

from dataclasses import dataclass

from ... import sizes
from .. import _search, _subject, faulty
from ..probes import run as probe_run
from . import designs, kernel_cases
from .dropout import WeightDropoutUndone
from .kernel_cases import Form
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

    form: Form
    arguments = ("q", "k", "v", "keep")
    largest = 3

    def search_cases(self):
        """Return the Cases that the search compares."""
        return kernel_cases.search(self.form)

    def confirmation_cases(self):
        """Return Cases of other sizes, on which the result of the search is confirmed."""
        return kernel_cases.confirm(self.form)

    def problem(self, answer, args):
        """Return in words what is wrong with the form of an Answer, or ""."""
        return kernel_cases.problem(answer, args)

    def expected(self, args, settings, fully_masked):
        """Return (context, weights) of the faulty attention with these settings."""
        settings = self.options.settings() | settings
        return faulty.kernel.attention(*args, **settings, fully_masked=fully_masked)

    def switches(self, ask):
        """Return the Switches to try, with the constants that are estimated from the program."""
        two = [kernel_cases.shape(self.form, which) for which in (kernel_cases.SEARCH,
                                                                  kernel_cases.SECOND)]
        mask = kernel_cases.ARBITRARY[self.form.masks]
        found = [*designs.of_kernels(), TRANSPOSED]
        measured = constants(ask, two, self.options, mask, self.form.masks)
        parts = self.options.parts
        return (designs.unpromised(found, parts) + switches(self.form, self.options)
                + designs.unpromised(measured, parts))

    def rare(self):
        """Return the Switches that hardly anybody means."""
        return designs.unpromised(rare(self.form.square), self.options.parts)

    def without_dropout(self, subject):
        """Return a random program as it would be without dropout on its weights."""
        return WeightDropoutUndone(subject)

    def probes(self, subject):
        """Return the Findings of the probes that fit such a kernel."""
        aligned = self.options.causal and not self.form.square
        return probe_run.probe_kernel(
            _subject.answering(subject), causal=self.options.causal,
            align=self.options.align if aligned else None, square=self.form.square,
            grouped=self.form.grouped, masks={"heads alike": "any", "lengths": "padding"}.get(
                self.form.masks, self.form.masks),
            tolerance=_search.TOLERANCES[subject.dtype],
            d_v=sizes.D_HEAD if self.form.equal_features else sizes.D_V)

    def further_probes(self, subject):
        """Return the Finding on overflow."""
        *inputs, _ = self.search_cases()[0].args
        return [probe_run.finite(_subject.answering(subject), *inputs)]

    def limits(self):
        """Return in words the limits on sizes that the kernel has and no option says, or ""."""
        return str(self.form._replace(square=self.form.square and not self.options.square))
