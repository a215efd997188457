"""The level of layers, ``(x, memory, weights, n_heads, keep) -> out``."""

from dataclasses import dataclass

import numpy as np

from ... import sizes
from .. import _search, _subject, faulty
from ..modules import Module
from ..probes import layer as layer_probes, run as probe_run
from . import designs, kernel_cases, kernel_constants, layer_cases, layer_constants, layer_switches
from .fit import row_sums
from .layer_cases import Form
from .level import Level

MASKS = {"any": "a mask per head", "heads alike": "one mask for all", "padding": "padding",
         "one for all": "one mask for all", "none": "no mask"}


def levels(form, options, heads=None):
    """Return the Layers to try in turn, the most general first."""
    return [Layer(wider, options, heads, form) for wider in layer_cases.ladder(form)]


@dataclass(frozen=True)
class Layer(Level):
    """Layers that take sizes of this form; ``heads`` is (h, d) for an instance, and else None."""

    heads: tuple | None
    promised: Form       # what the options say of the layer
    arguments = ("x", "memory", "the weights", "n_heads", "keep")

    def search_cases(self):
        return layer_cases.search(self.form, self.heads)

    def confirmation_cases(self):
        return layer_cases.confirm(self.form, self.heads)

    def problem(self, answer, args):
        return layer_cases.problem(answer, args)

    def expected(self, args, settings, fully_masked):
        """Return (out, None) of the faulty layer with these settings; inf if they do not fit."""
        settings = self.options.settings() | self.form.settings() | settings
        try:
            return faulty.layer.layer(*args, **settings, fully_masked=fully_masked), None
        except ValueError:  # for example, a transposed weight does not fit
            return np.inf, None

    def switches(self, ask):
        found = designs.of_kernels() if self.form.own else []
        found += designs.activated("qk", "qkv") if self.form.own else []
        found += designs.of_layers() if self._in_itself() else []
        found += layer_switches.rare(self.form, self.one_head())
        parts = self.options.parts
        return (designs.unpromised(found, parts) + layer_switches.switches(self.form, self.options)
                + designs.unpromised(self._constants(ask), parts))

    def alone(self):
        """Return, for a module, Switches of rotary positions and of a ReLU on some projections."""
        found = designs.activated("q", "k", "v", "qv", "kv") if self.form.own else []
        if self._in_itself():
            found += designs.turned() + designs.other_rotations()
        return designs.unpromised(found, self.options.parts)

    def beside(self):
        """Return, for a module, the Switches of a norm of q and k."""
        return designs.unpromised(designs.norms() if self._in_itself() else [], self.options.parts)

    def _in_itself(self):
        return self.form.own and self.form.self_attention

    def one_head(self):
        """Return whether the layer is an instance with one head."""
        return bool(self.heads) and self.heads[0] == 1

    def _constants(self, ask):
        """Return the Switches of constants that are estimated from the program."""
        if self._closed():
            return layer_constants.constants(ask, self)
        kernel = layer_cases.as_kernel(ask, self.form, self.heads and self.heads[1])
        return kernel_constants.constants(kernel, self._kernel_sizes(), self.options,
                                          MASKS[self.form.masks], sinks=self.form.own)

    def _closed(self):
        """Return whether weights that only copy cannot give access to the kernel inside."""
        form = self.form
        around = form.pre_norm or form.post_norm or form.residual or form.wide
        return around or (self.heads is not None and (self.heads[1] or 3) < 3)

    def not_searched(self):
        if not self._closed():
            return ""
        return ("The search did not look for a window: it cannot measure one behind a LayerNorm "
                "or a residual connection, or in heads of one or two dimensions.")

    def _kernel_sizes(self):
        """Return two sizes for the kernel inside; a third of each head holds q, k or v."""
        form = kernel_cases.Form(self.form.kernel().square)
        found = []
        for size in ({"batch": 2, "heads": 3, "n_q": 5, "n_k": 7, "d_head": 2},
                     {"batch": 3, "heads": 2, "n_q": 4, "n_k": 9, "d_head": 3}):
            if self.heads:
                size["heads"] = self.heads[0]
                size["d_head"] = self.heads[1] // 3 if self.heads[1] else size["d_head"]
            found.append(kernel_cases.shape(form, size | {"d_v": size["d_head"]}))
        return found

    def probes(self, subject):
        n_heads, d_head = self.heads or (sizes.HEADS, sizes.D_HEAD)
        d_head = d_head or sizes.D_MODEL // n_heads
        d_in = n_heads * d_head
        e = d_in * n_heads if self.form.wide else d_in
        held = sizes.weights(d_in=d_in, d_model=e, d_out=d_in)
        held |= {f"b_{letter}": 0 * held[f"b_{letter}"] for letter in self.form.unbiased}
        return probe_run.probe_layer(
            _subject.answering(subject), causal=self.options.causal, square=self.form.square,
            masks=self.form.masks.replace("heads alike", "any"), d_in=d_in, weights=held,
            n_heads=n_heads, self_attention=self.form.self_attention,
            tolerance=_search.TOLERANCES[subject.dtype]) + self._row_sums(subject) + (
                self.further_probes(subject)[1:])

    def _row_sums(self, subject):
        """Return the Finding on what the weights of each query sum to, if they can be seen."""
        if self._closed():
            return []
        kernel = layer_cases.as_kernel(subject, self.form, self.heads and self.heads[1])
        q, k, v, _ = kernel_cases.tensors(self._kernel_sizes()[0], 3)
        weights, answer = kernel_cases.weights_of(kernel, (q, k, v, None)), kernel(q, k, v, None)
        tolerance = _search.TOLERANCES[subject.dtype]
        if weights is None or answer.error or _search.gap(answer.out, weights @ v) > tolerance:
            return []
        return row_sums(weights, tolerance)

    def further_probes(self, subject):
        """Return the Findings on overflow and, of a module, on its weights and parameters."""
        (x, memory, weights, *_), (*_, keep) = (case.args for case in self.search_cases()[:2])
        sides = (x,) if self.form.self_attention else (x, memory)
        ask, module = self._with_weights(subject), subject.program
        found = [probe_run.finite(ask, *sides)]
        if not isinstance(module, Module):
            return found
        if module.weights_argument:
            asking = self._with_weights(_subject.Subject(
                module.with_returned_weights, subject.framework, subject.dtype))
            tolerance = _search.TOLERANCES[subject.dtype]
            found.append(probe_run.on_off(ask, asking, sides, keep, tolerance))
        biased = set("qkvo") - set(module.unbiased)
        if not (self.form.no_output or self.form.one_of):
            found.append(layer_probes.parameter_count(module.parameters(), *weights["W_q"].shape,
                                                      biased=biased))
        return found

    def _with_weights(self, subject):
        """Return the layer as ``program(x, memory, keep)`` with the weights of the first case."""
        _, _, weights, n_heads, _ = self.search_cases()[0].args
        answer = _subject.answering(subject)
        return lambda x, memory, keep: answer(x, memory, weights, n_heads, keep)

    def limits(self):
        return str(self.form._replace(
            square=self.form.square and not self.promised.square,
            equal_widths=self.form.equal_widths and not self.promised.equal_widths))
