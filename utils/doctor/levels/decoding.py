"""The level of decoding, ``(q, k, v, cache) -> (context, cache)``, one chunk per call."""

from dataclasses import dataclass

import numpy as np

from ... import checks
from .. import _search, _subject, faulty
from .._search import Switch
from ..probes import run as probe_run
from . import designs, kernel_cases, kernel_constants, kernel_switches
from .kernel_cases import CONFIRM, LARGE, SEARCH, SECOND, Case, Form
from .level import Level

CHUNKS = ((7,), (1,) * 7, (4, 1, 1, 1), (2, 2, 2, 1), (1, 2, 4))
SWITCHES = (
    Switch("cache position", {"align": "top_left"}, "each chunk is masked as if it were the first"),
    Switch("cache position", {"align": "top_left of several"},
           "each chunk of several positions is masked as if it were the first"),
    Switch("cache position", {"masked": "one too late"}, "each query attends to one key too many"),
    Switch("cache position", {"masked": "one too early"}, "each query attends to one key too few"),
    Switch("unmasked prompt", {"masked": "never"}, "no chunk is masked"),
    Switch("unmasked prompt", {"masked": "after the first chunk"}, "the first chunk is not masked"),
    Switch("unmasked prompt", {"masked": "in the first chunk"}, "later chunks are not masked"),
    Switch("cache not appended", {"cache": "first only"}, "the cache keeps the first chunk only"),
    Switch("cache not appended", {"cache": "none"}, "queries do not attend to earlier chunks"),
    Switch("cache not appended", {"cache": "old only"}, "queries do not attend to their own chunk"),
    Switch("cache overwritten", {"cache": "last only"}, "only the previous chunk is kept"),
    Switch("cache overwritten", {"cache": "overwritten"}, "its first positions are overwritten"),
    Switch("cache overwritten", {"cache": "front"}, "new positions are written to its front"),
    Switch("cache overwritten", {"cache": "none"}, "queries do not attend to earlier chunks"),
    Switch("keys cached, values not", {"cache": "keys only"}, "earlier values count as zero"))


class Decoder:
    """A decoding step as a function of all positions and of the sizes of the chunks."""

    def __init__(self, program):
        self.program = program

    def __call__(self, q, k, v, chunks):
        contexts, cache, end = [], None, 0
        for chunk in chunks:
            new = slice(end, end + chunk)
            returned = self.program(q[:, :, new], k[:, :, new], v[:, :, new], cache)
            if not isinstance(returned, (tuple, list)) or len(returned) != 2:
                raise TypeError(f"expected (context, cache), got {type(returned).__name__}")
            context, cache = returned
            contexts.append(checks.to_numpy(context))
            end += chunk
        return np.concatenate(contexts, axis=2)


def levels(options):
    """Return the Decodings to try in turn, the most general first."""
    return [Decoding(Form(True, equal, options.grouped, "none"), options)
            for equal in (False, True)]


@dataclass(frozen=True)
class Decoding(Level):
    """Decoders that take values of this form."""

    form: Form
    arguments = ("q", "k", "v", "chunks")

    def search_cases(self):
        q, k, v = self._tensors(SEARCH, 0)
        found = [Case(f"chunks of {'+'.join(map(str, c))}", (q, k, v, c)) for c in CHUNKS]
        return [*found, Case("large scores", (LARGE * q, k, v, CHUNKS[2])),
                Case("chunks of 5+1+3", (*self._tensors(SECOND, 1), (5, 1, 3)))]

    def confirmation_cases(self):
        return [Case("chunks of 3+2+1", (*self._tensors(CONFIRM, 2), (3, 2, 1))),
                Case("chunks of 1+4+1", (*self._tensors(CONFIRM, 3), (1, 4, 1)))]

    def problem(self, answer, args):
        return kernel_cases.problem(answer, args)

    def expected(self, args, settings, fully_masked):
        settings = self.options.settings() | settings
        return faulty.decoding.decode(*args, **settings, fully_masked=fully_masked), None

    def switches(self, ask):
        """Return the Switches to try, with the constants that are estimated from the program."""
        two = [kernel_cases.shape(self.form, which) for which in (SEARCH, SECOND)]
        estimated = kernel_constants.constants(lambda q, k, v, keep: ask(q, k, v, (q.shape[2],)),
                                               two, self.options, "no mask")
        free = designs.unpromised([*designs.rotations(), *estimated], self.options.parts)
        return [*free, *SWITCHES, *kernel_switches.switches(self.form, self.options)]

    def alone(self):
        """Return the Switches of positions that start again in each chunk."""
        promised, _ = designs.promised(self.options.parts)
        rotations = [{}] if "rotary" in promised else [one.settings for one in designs.rotations()]
        return [Switch("positions restart", settings | {"restarts": letters},
                       f"the positions of {' and '.join(letters)}, by which RoPE rotates")
                for settings in rotations for letters in ("qk", "q", "k")]

    def probes(self, subject):
        step = _subject.Subject(subject.program.program, subject.framework, subject.dtype)
        return probe_run.probe_decoding(
            _subject.answering(step), tolerance=_search.TOLERANCES[subject.dtype],
            d_v=self._tensors(SEARCH, 0)[2].shape[3])

    def further_probes(self, subject):
        q, k, v, _ = self.search_cases()[0].args
        ask = _subject.answering(subject)
        return [probe_run.finite(lambda q, k, v, keep: ask(q, k, v, (q.shape[2],)), q, k, v)]

    def limits(self):
        return "d_v == d" if self.form.equal_features else ""

    def _tensors(self, which, seed):
        return kernel_cases.tensors(kernel_cases.shape(self.form, which), seed)[:3]
