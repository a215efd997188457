"""The level of layers, ``(x, memory, weights, n_heads, keep) -> out``."""

from dataclasses import dataclass

import numpy as np

from utils import sizes
from utils.doctor import _search, _subject, faulty
from utils.doctor.levels import (
    kernel_cases,
    kernel_constants,
    layer_cases,
    layer_constants,
    layer_switches,
)
from utils.doctor.levels.layer_cases import Form
from utils.doctor.levels.level import Level
from utils.doctor.modules import Module
from utils.doctor.probes import layer as layer_probes, run as probe_run

MASKS = {"any": "a mask per head", "heads alike": "one mask for all", "padding": "padding",
         "none": "no mask"}


def levels(form, options, heads=None):
    """Return the Layers to try in turn, the most general first."""
    return [Layer(wider, options, heads, form) for wider in layer_cases.ladder(form)]


@dataclass(frozen=True)
class Layer(Level):
    """Layers that take sizes of this form, ``heads`` = (h, d) where they are built already."""

    form: Form
    heads: tuple | None
    told: Form           # what the reader has said
    arguments = ("x", "memory", "the weights", "n_heads", "keep")

    def cases(self):
        """Return the Cases that the search runs on."""
        return layer_cases.search(self.form, self.heads)

    def others(self):
        """Return the Cases that an explanation is confirmed on."""
        return layer_cases.confirm(self.form, self.heads)

    def trouble(self, answer, args):
        """Return what is wrong with the form of an answer, or nothing."""
        return layer_cases.trouble(answer, args)

    def expected(self, args, settings, empty):
        """Return (out, None) of the faulty layer with these settings; NaN where it has no out."""
        norm = {"norm": -1, "epsilon": self.form.epsilon} if self.form.pre_norm else {}
        settings = self.options.settings() | norm | settings
        try:
            return faulty.layer.layer(*args, **settings, empty=empty), None
        except ValueError:  # such as a transposed weight that does not fit
            return np.inf, None

    def switches(self, ask):
        """Return the Switches to try, those of constants read off the program included."""
        found = layer_switches.switches(self.form, self.options)
        if self._closed():
            return found + layer_constants.constants(ask, self)
        return found + kernel_constants.constants(
            layer_cases.as_kernel(ask, self.form, self.heads and self.heads[1]), self._sizes(),
            self.options, MASKS[self.form.masks])

    def _closed(self):
        """Return whether the kernel inside cannot be asked alone, by weights that only copy."""
        return self.form.pre_norm or bool(self.heads and self.heads[1] < 3)

    def unsought(self):
        """Return a sentence on what the search could not look for, or ""."""
        if not self._closed():
            return ""
        return ("A window was not looked for: behind a LayerNorm, or in heads of one or two "
                "features, it cannot be seen.")

    def _sizes(self):
        """Return two sizes of the kernel inside that can be seen from outside."""
        heads, d_head = self.heads or (None, None)
        two = ({"batch": 2, "heads": 3, "n_q": 5, "n_k": 7, "d_head": 2},
               {"batch": 3, "heads": 2, "n_q": 4, "n_k": 9, "d_head": 3})
        return [kernel_cases.shape(kernel_cases.Form(self.form.kernel().square), size | {
            "heads": heads or size["heads"], "d_head": d_head // 3 if heads else size["d_head"],
            "d_v": d_head // 3 if heads else size["d_head"]}) for size in two]

    def probes(self, subject):
        """Return the Findings of the probes that fit such a layer."""
        n_heads, d_head = self.heads or (sizes.HEADS, sizes.D_HEAD)
        e = n_heads * d_head
        held = sizes.weights(d_in=e, d_model=e, d_out=e)
        held |= {f"b_{letter}": 0 * held[f"b_{letter}"] for letter in self.form.unbiased}
        return probe_run.probe_layer(
            _subject.answering(subject), causal=self.options.causal, square=self.form.square,
            masks=self.form.masks.replace("heads alike", "any"), d_in=e, weights=held,
            n_heads=n_heads, self_attention=self.form.self_attention,
            tolerance=_search.TOLERANCES[subject.dtype]) + self.besides(subject)[1:]

    def besides(self, subject):
        """Return the Findings on what is no fault by itself; of a module there is more to ask."""
        (x, memory, weights, *_), (*_, keep) = (case.args for case in self.cases()[:2])
        sides = (x,) if self.form.self_attention else (x, memory)
        ask, module = self._asking(subject), subject.program
        found = [probe_run.finite(ask, *sides)]
        if not isinstance(module, Module):
            return found
        if module.wanted:
            more = _subject.Subject(module.asking, subject.framework, subject.dtype)
            found.append(probe_run.on_off(ask, self._asking(more), sides, keep,
                                          _search.TOLERANCES[subject.dtype]))
        e, biased = len(weights["W_o"]), set("qkvo") - set(module.unbiased)
        found.append(layer_probes.parameter_count(module.parameters(), e, e, biased=biased))
        return found

    def _asking(self, subject):
        """Return the layer as ``program(x, memory, keep)``, with the weights of the first case."""
        _, _, weights, n_heads, _ = self.cases()[0].args
        answer = _subject.answering(subject)
        return lambda x, memory, keep: answer(x, memory, weights, n_heads, keep)

    def limits(self):
        """Return in words which sizes it does not take although nobody has said so."""
        return str(self.form._replace(
            square=self.form.square and not self.told.square,
            equal_widths=self.form.equal_widths and not self.told.equal_widths))
