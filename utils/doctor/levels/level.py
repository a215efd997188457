"""The base class of the levels: what the doctor must know about one kind of program."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from .dropout import FrameworkDropoutOff
from .kernel_switches import Options


@dataclass(frozen=True)
class Level(ABC):
    """Programs of one kind that take the sizes of ``form`` and do what ``options`` promise.

    ``form``: the Form of this level, which says which sizes and masks its programs take.
    """

    form: object
    options: Options
    arguments = ()  # the names of the arguments, as messages print them
    largest = 2     # how many faults the search combines at most

    @abstractmethod
    def search_cases(self):
        """Return the Cases that the search compares."""

    @abstractmethod
    def confirmation_cases(self):
        """Return Cases of other sizes, on which the result of the search is confirmed."""

    @abstractmethod
    def problem(self, answer, args):
        """Return in words what is wrong with the form of an Answer, or ""."""

    @abstractmethod
    def expected(self, args, settings, fully_masked):
        """Return (output, weights) of the faulty program with these settings; weights may be None.

        ``fully_masked``: what a fully masked row gets, one of ``faulty.kernel.FULLY_MASKED``.
        """

    @abstractmethod
    def switches(self, ask):
        """Return the Switches to try. ``ask(*args)`` returns the Answer of the program."""

    def rare(self):
        """Return further Switches, which are tried alone and in pairs, and in no larger sets."""
        return []

    def alone(self):
        """Return further Switches, which are tried one by one, or with one of ``beside``."""
        return []

    def beside(self):
        """Return Switches, each of which is tried together with each of ``alone``."""
        return []

    @abstractmethod
    def probes(self, subject):
        """Return the Findings of the probes that fit such a program."""

    @abstractmethod
    def further_probes(self, subject):
        """Return the Findings on properties that no case compares, such as overflow."""

    @abstractmethod
    def limits(self):
        """Return in words the limits on sizes that the program has and no option says, or ""."""

    def without_dropout(self, subject):
        """Return a random program as it would be without its dropout, with ``dropout``, ``kind``.

        ``dropout`` is False if the program is random in another way, too.
        """
        return FrameworkDropoutOff(subject)

    def not_searched(self):
        """Return a sentence on what the search could not look for, or ""."""
        return ""
