"""Which probe sees which fault: every probe put to every faulty program, in one table.

The reference is not among them: probes find faults without a second program to compare with.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from utils import (
    decoding_level,
    faulty,
    faulty_decoding,
    faulty_layer,
    kernel_cases,
    kernel_switches,
    layer_cases,
    layer_switches,
    probe_run,
    sizes,
)
from utils.diagnosis import Switch
from utils.faults import FAULTS
from utils.faulty import Band, Hiding
from utils.kernel_switches import Options

Form = kernel_cases.Form
# What kinds of programs there are to be wrong, and what the probes must be told about each.
KERNELS = ((Form(), Options(), {}), (Form(grouped=True), Options(grouped=True), {"grouped": True}),
           (Form(square=True), Options(), {"square": True}),
           (Form(equal_features=True), Options(), {"d_v": 4}),
           (Form(square=True), Options(causal=True, square=True), {"causal": True}),
           (Form(), Options(causal=True), {"causal": True, "align": "top_left"}),
           (Form(), Options(causal=True, corner="bottom_right"),
            {"causal": True, "align": "bottom_right"}))
LAYERS = ((False, Options(), {}), (True, Options(), {"self_attention": True}))
CAUSAL = (True, Options(causal=True, square=True), {"self_attention": True, "causal": True})
OVER_TIME = Switch("LayerNorm over time", {"norm": 1})
CONSTANTS = (("constant scale", {"scale": 0.25}), ("constant scale", {"scale": 1 / 3}),
             ("sentinel wins", {"hiding": Hiding("fill", "keep", -1.0)}),
             ("sentinel wins", {"hiding": Hiding("fill", "keep", -100.0)}),
             ("sentinel wins", {"hiding": Hiding("add", "keep", -10.0)}),
             ("window", {"band": Band(2, 2)}))


class Row(NamedTuple):
    """A fault and, for each probe that could ask, the share of its programs that the probe saw."""

    fault: str
    seen: dict
    missed: int    # how many of its programs no probe saw
    programs: int


def kernels():
    """Yield (fault, program, options of ``probe_run.kernel``) for all faults of a kernel."""
    for form, options, told in KERNELS:
        for switch in kernel_switches.switches(form, options):
            settings = options.settings() | switch.settings
            yield switch.fault, partial(faulty.attention, **settings), told
    for fault, settings in CONSTANTS:
        yield fault, partial(faulty.attention, **settings), {}
    yield "dropout in eval", _dropping(np.random.default_rng(0)), {}


def _dropping(rng):
    def program(q, k, v, keep):
        _, weights = faulty.attention(q, k, v, keep)
        return 2 * (rng.random(weights.shape) < 0.5) * weights @ v
    return program


def layers(level="layer"):
    """Yield (fault, program, options of ``probe_run.layer``) for the faults of a layer itself.

    With ``level="kernel"``, for those of the kernel inside; it may be causal, too.
    """
    weights = sizes.weights(d_in=sizes.D_MODEL, d_out=sizes.D_MODEL)
    for alone, options, told in LAYERS if level == "layer" else (*LAYERS, CAUSAL):
        form = layer_cases.Form(equal_widths=True, self_attention=alone, square=options.causal)
        for switch in (*layer_switches.switches(form, options), OVER_TIME):
            if FAULTS[switch.fault].level == level:
                settings = options.settings() | switch.settings
                yield (switch.fault, partial(faulty_layer.layer, **settings),
                       told | {"weights": weights})


def decoders():
    """Yield (fault, program, options of ``probe_run.decoding``) for all faults of decoding."""
    for switch in decoding_level.SWITCHES:
        yield switch.fault, partial(_step, switch.settings), {}


def _step(settings, q, k, v, cache):
    """Return (context, cache) of one chunk more, with the settings of ``faulty_decoding.decode``.

    The cache holds all that has come so far, and in what chunks.
    """
    sides, chunks = cache or ([x[:, :, :0] for x in (q, k, v)], ())
    sides = [np.concatenate(pair, axis=2) for pair in zip(sides, (q, k, v), strict=True)]
    chunks = *chunks, q.shape[2]
    context = faulty_decoding.decode(*sides, chunks, **settings)
    return context[:, :, -chunks[-1]:], (sides, chunks)


def rows(ask, programs):
    """Return the Rows of (fault, program, options) that ``ask(program, **options)`` is put to."""
    found = {}
    for fault, program, told in programs:
        found.setdefault(fault, []).append(ask(program, **told))
    return [_row(fault, runs) for fault, runs in found.items()]


def table():
    """Return the Rows of all faults, those of a kernel in a kernel, each with its own switches."""
    return (rows(probe_run.kernel, kernels()) + rows(probe_run.layer, layers())
            + rows(probe_run.decoding, decoders()))


def _row(fault, runs):
    """Return the Row of a fault, from the Findings on each of its programs."""
    fails = [{f.probe: f.ok is False for f in run} for run in runs]
    names = dict.fromkeys(name for each in fails for name in each)
    seen = {name: float(np.mean([each[name] for each in fails if name in each])) for name in names}
    return Row(fault, seen, sum(not any(each.values()) for each in fails), len(runs))
