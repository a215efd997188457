"""The base class of the levels: what the doctor must know about one kind of program."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from utils.doctor.levels.dropout import FrameworkDropoutOff
from utils.doctor.levels.kernel_switches import Options


@dataclass(frozen=True)
class Level(ABC):
    """Programs of one kind that take the sizes of ``form`` and do what ``options`` promise.

    ``form`` is the Form of the level: which sizes and masks its programs take.
    """

    form: object
    options: Options
    arguments = ()  # the names of the arguments, as messages print them
    largest = 2     # how many faults the search combines at most

    @abstractmethod
    def cases(self):
        """Return the Cases that the search compares."""

    @abstractmethod
    def others(self):
        """Return further Cases, of other sizes, which confirm what the search has found."""

    @abstractmethod
    def trouble(self, answer, args):
        """Return in words what is wrong with the form of an answer, or ""."""

    @abstractmethod
    def expected(self, args, settings, empty):
        """Return (output, weights) of the faulty program with these settings; weights may be None.

        ``empty``: what a fully masked row gets, one of ``_exam.EMPTY``.
        """

    @abstractmethod
    def switches(self, ask):
        """Return the Switches to try. ``ask(*args)`` returns the program's Answer."""

    @abstractmethod
    def probes(self, subject):
        """Return the Findings of the probes that fit such a program."""

    @abstractmethod
    def besides(self, subject):
        """Return the Findings of further probes; one that fails is a note, not a fault."""

    @abstractmethod
    def limits(self):
        """Return in words the limits on sizes that nobody has announced, or ""."""

    def steady(self, subject):
        """Return a random program as it would be without its dropout."""
        return FrameworkDropoutOff(subject)

    def unsought(self):
        """Return a sentence on what the search could not look for, or ""."""
        return ""
