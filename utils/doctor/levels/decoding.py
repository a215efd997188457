"""The level of decoding, ``(q, k, v, cache) -> (context, cache)``, a chunk at a time."""

from dataclasses import dataclass

import numpy as np

from utils import checks
from utils.doctor import _search, _subject, faulty
from utils.doctor._search import Switch
from utils.doctor.levels import kernel_cases, kernel_constants, kernel_switches
from utils.doctor.levels.kernel_cases import CONFIRM, LARGE, SEARCH, SECOND, Case, Form
from utils.doctor.levels.level import Level
from utils.doctor.probes import run as probe_run

CHUNKS = ((7,), (1,) * 7, (4, 1, 1, 1), (2, 2, 2, 1), (1, 2, 4))
SWITCHES = (
    Switch("cache position", {"corner": "top_left"}, "each chunk is masked as if it came first"),
    Switch("cache position", {"corner": "top_left of several"},
           "each chunk of several is masked as if it came first"),
    Switch("cache position", {"masked": "one too late"}, "each query stands one key too late"),
    Switch("cache position", {"masked": "one too early"}, "each query stands one key too early"),
    Switch("unmasked prompt", {"masked": "never"}, "there is no mask"),
    Switch("unmasked prompt", {"masked": "after the first chunk"}, "the first chunk has no mask"),
    Switch("unmasked prompt", {"masked": "in the first chunk"}, "a chunk after the first has none"),
    Switch("cache not appended", {"cache": "first only"}, "the first chunk stays alone in it"),
    Switch("cache not appended", {"cache": "none"}, "nothing earlier is seen"),
    Switch("cache not appended", {"cache": "old only"}, "a chunk does not see itself"),
    Switch("cache overwritten", {"cache": "last only"}, "only the chunk before is seen"),
    Switch("cache overwritten", {"cache": "overwritten"}, "its first positions are"),
    Switch("cache overwritten", {"cache": "front"}, "new positions are written to its front"),
    Switch("cache overwritten", {"cache": "none"}, "nothing earlier is seen"),
    Switch("keys cached, values not", {"cache": "keys only"}, "earlier values count as zero"))


class Decoder:
    """A decoder as a function of all positions and of the chunks that they come in."""

    def __init__(self, program):
        self.program = program

    def __call__(self, q, k, v, chunks):
        contexts, cache, end = [], None, 0
        for chunk in chunks:
            new = slice(end, end + chunk)
            returned = self.program(q[:, :, new], k[:, :, new], v[:, :, new], cache)
            if not isinstance(returned, (tuple, list)) or len(returned) != 2:
                raise TypeError(f"(context, cache) expected, got a {type(returned).__name__}")
            context, cache = returned
            contexts.append(checks.to_numpy(context))
            end += chunk
        return np.concatenate(contexts, axis=2)


def levels(options):
    """Return the Decodings to try in turn, the most general first."""
    return [Decoding(Form(True, equal, options.grouped, unmasked=True), options)
            for equal in (False, True)]


@dataclass(frozen=True)
class Decoding(Level):
    """Decoders that take values of this form."""

    form: Form
    arguments = ("q", "k", "v", "chunks")

    def cases(self):
        """Return the Cases that the search runs on."""
        q, k, v = self._tensors(SEARCH, 0)
        found = [Case(f"chunks of {'+'.join(map(str, c))}", (q, k, v, c)) for c in CHUNKS]
        return [*found, Case("large scores", (LARGE * q, k, v, CHUNKS[2])),
                Case("chunks of 5+1+3", (*self._tensors(SECOND, 1), (5, 1, 3)))]

    def others(self):
        """Return the Cases that an explanation is confirmed on."""
        return [Case("chunks of 3+2+1", (*self._tensors(CONFIRM, 2), (3, 2, 1))),
                Case("chunks of 1+4+1", (*self._tensors(CONFIRM, 3), (1, 4, 1)))]

    def trouble(self, answer, args):
        """Return what is wrong with the form of an answer, or nothing."""
        return kernel_cases.trouble(answer, args)

    def expected(self, args, settings, empty):
        """Return (context, None) of the faulty decoder with these settings."""
        return faulty.decoding.decode(*args, **settings, empty=empty), None

    def switches(self, ask):
        """Return the Switches to try, those of constants read off the program included."""
        two = [kernel_cases.shape(self.form, which) for which in (SEARCH, SECOND)]
        known = kernel_constants.constants(lambda q, k, v, keep: ask(q, k, v, (q.shape[2],)), two,
                                           self.options, "no mask")
        return [*SWITCHES, *known, *kernel_switches.switches(self.form, self.options)]

    def probes(self, subject):
        """Return the Findings of the probes that fit such a decoder."""
        step = _subject.Subject(subject.program.program, subject.framework, subject.dtype)
        return probe_run.probe_decoding(
            _subject.answering(step), tolerance=_search.TOLERANCES[subject.dtype],
            d_v=self._tensors(SEARCH, 0)[2].shape[3])

    def besides(self, subject):
        """Return the Findings on what is no fault by itself."""
        q, k, v, _ = self.cases()[0].args
        ask = _subject.answering(subject)
        return [probe_run.finite(lambda q, k, v, keep: ask(q, k, v, (q.shape[2],)), q, k, v)]

    def limits(self):
        """Return in words which sizes it does not take although nobody has said so."""
        return "d_v == d" if self.form.equal_features else ""

    def _tensors(self, which, seed):
        return kernel_cases.tensors(kernel_cases.shape(self.form, which), seed)[:3]
