"""The base class of the levels: what the doctor must know about one kind of program."""

from dataclasses import dataclass

from .dropout import FrameworkDropoutOff
from .kernel_switches import Options


@dataclass(frozen=True)
class Level:
    """Programs of one kind that take the sizes of ``form`` and do what ``options`` promise.

    ``form``: the Form of this level, which says which sizes and masks its programs take. A level
    has these methods, beside those below: ``search_cases()`` and ``confirmation_cases()``, Cases to
    compare, the last of other sizes; ``problem(answer, args)``, what is wrong with the form of an
    Answer; ``expected(args, settings, fully_masked)``, what the faulty program with these settings
    gives, as (output, weights or None); ``switches(ask)``, the Switches to try; ``probes(subject)``
    and ``further_probes(subject)``, Findings, the last on what no case compares; and ``limits()``,
    in words, the limits on sizes that no option says.
    """

    form: object
    options: Options
    arguments = ()  # the names of the arguments, as messages print them
    largest = 2     # how many faults the search combines at most

    def rare(self):
        """Return further Switches, which are tried alone and in pairs, and in no larger sets."""
        return []

    def alone(self):
        """Return further Switches, which are tried one by one, or with one of ``beside``."""
        return []

    def beside(self):
        """Return Switches, each of which is tried together with each of ``alone``."""
        return []

    def without_dropout(self, subject):
        """Return a random program as it would be without its dropout, with ``dropout``, ``kind``.

        ``dropout`` is False if the program is random in another way, too.
        """
        return FrameworkDropoutOff(subject)

    def not_searched(self):
        """Return a sentence on what the search could not look for, or ""."""
        return ""
