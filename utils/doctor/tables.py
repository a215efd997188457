"""Which probe catches which fault: all probes run on all faulty programs, as a table.

The comparison with the reference is left out, as probes need no reference implementation.
"""

import html as escaping
from functools import partial
from typing import NamedTuple

import numpy as np

from .. import sizes
from . import faulty
from ._search import Switch
from .faults import FAULTS
from .faulty.kernel import Band, Masking
from .levels import kernel_switches, layer_cases, layer_switches
from .levels.decoding import SWITCHES
from .levels.kernel_cases import Form
from .levels.kernel_switches import Options
from .probes import run as probe_run

# The kinds of programs that can be faulty: (form, options, options of the probes).
KERNELS = ((Form(), Options(), {}), (Form(grouped=True), Options(grouped=True), {"grouped": True}),
           (Form(square=True), Options(), {"square": True}),
           (Form(equal_features=True), Options(), {"d_v": 4}),
           (Form(square=True), Options(causal=True, square=True), {"causal": True}),
           (Form(), Options(causal=True), {"causal": True, "align": "top_left"}),
           (Form(), Options(causal=True, align="bottom_right"),
            {"causal": True, "align": "bottom_right"}))
LAYERS = ((False, Options(), {}), (True, Options(), {"self_attention": True}))
CAUSAL = (True, Options(causal=True, square=True), {"self_attention": True, "causal": True})
OVER_TIME = Switch("LayerNorm over time", {"norm": 1})
CONSTANTS = (("constant scale", {"scale": 0.25}), ("constant scale", {"scale": 1 / 3}),
             ("mask value too high", {"masking": Masking("fill", "keep", -1.0)}),
             ("mask value too high", {"masking": Masking("fill", "keep", -100.0)}),
             ("mask value too high", {"masking": Masking("add", "keep", -10.0)}),
             ("window", {"band": Band(2, 2)}))


class Row(NamedTuple):
    """A fault and, for each probe that could run, the share of its programs that it catches."""

    fault: str
    caught: dict   # {probe: share}
    missed: int    # how many of its programs no probe catches
    programs: int


def kernels():
    """Yield (fault, program, options of ``probe_kernel``) for all faults of a kernel."""
    for form, options, probe_options in KERNELS:
        for switch in kernel_switches.switches(form, options):
            settings = options.settings() | switch.settings
            yield switch.fault, partial(faulty.kernel.attention, **settings), probe_options
    for fault, settings in CONSTANTS:
        yield fault, partial(faulty.kernel.attention, **settings), {}
    yield "dropout in eval", partial(_dropping, np.random.default_rng(0)), {}


def _dropping(rng, q, k, v, keep):
    _, weights = faulty.kernel.attention(q, k, v, keep)
    return 2 * (rng.random(weights.shape) < 0.5) * weights @ v


def layers(level="layer"):
    """Yield (fault, program, options of ``probe_layer``) for the faults of a layer itself.

    With ``level="kernel"``, for the faults of the kernel inside, which may be causal, too.
    """
    weights = sizes.weights(d_in=sizes.D_MODEL, d_out=sizes.D_MODEL)
    for alone, options, probe_options in LAYERS if level == "layer" else (*LAYERS, CAUSAL):
        form = layer_cases.Form(equal_widths=True, self_attention=alone, square=options.causal)
        for switch in (*layer_switches.switches(form, options), OVER_TIME):
            if FAULTS[switch.fault].level == level:
                settings = options.settings() | switch.settings
                yield (switch.fault, partial(faulty.layer.layer, **settings),
                       probe_options | {"weights": weights})


def decoders():
    """Yield (fault, program, options of ``probe_decoding``) for all faults of decoding."""
    for switch in SWITCHES:
        yield switch.fault, partial(_step, switch.settings), {}


def _step(settings, q, k, v, cache):
    """Return (context, cache) of one more chunk, with settings of ``faulty.decoding.decode``.

    The cache holds all positions so far and the sizes of their chunks.
    """
    sides, chunks = cache or ([x[:, :, :0] for x in (q, k, v)], ())
    sides = [np.concatenate(pair, axis=2) for pair in zip(sides, (q, k, v), strict=True)]
    chunks = *chunks, q.shape[2]
    context = faulty.decoding.decode(*sides, chunks, **settings)
    return context[:, :, -chunks[-1]:], (sides, chunks)


def rows(ask, programs):
    """Return the Rows of ``programs``, (fault, program, options), probed by ``ask``."""
    found = {}
    for fault, program, probe_options in programs:
        found.setdefault(fault, []).append(ask(program, **probe_options))
    return [_row(fault, runs) for fault, runs in found.items()]


def table():
    """Return the Rows of all faults, each in the smallest program that can have it."""
    return (rows(probe_run.probe_kernel, kernels()) + rows(probe_run.probe_layer, layers())
            + rows(probe_run.probe_decoding, decoders()))


def _row(fault, runs):
    """Return the Row of a fault, from the Findings on each of its programs."""
    fails = [{f.probe: f.ok is False for f in run} for run in runs]
    caught = {name: float(np.mean([each[name] for each in fails if name in each]))
              for name in dict.fromkeys(name for each in fails for name in each)}
    return Row(fault, caught, sum(not any(each.values()) for each in fails), len(runs))


MARKS = {1.0: "●", 0.0: "·", None: ""}
UPWARDS = "writing-mode: vertical-rl; transform: rotate(180deg); text-align: left"
LINE = '<tr><th scope="row" style="text-align: left">{}</th>{}</tr>'


def silent(rows):
    """Return the names of the probes that catch none of these faults."""
    return [name for name in _probes(rows) if not any(row.caught.get(name) for row in rows)]


def _probes(rows):
    return dict.fromkeys(name for row in rows for name in row.caught)


def html(rows):
    """Return the Rows as an HTML table.

    ● means that the probe catches all programs with the fault, ○ some and · none; it could not run
    where the cell is empty. Probes that are ``silent`` have no column.
    """
    quiet = silent(rows)
    names = [name for name in _probes(rows) if name not in quiet]
    head = "".join(f'<th scope="col"><span style="{UPWARDS}">{escaping.escape(name)}</span></th>'
                   for name in names)
    body = ""
    for row in rows:
        marks = [MARKS.get(row.caught.get(name), "○") for name in names]
        cells = "".join(f'<td style="text-align: center">{mark}</td>' for mark in marks)
        body += LINE.format(escaping.escape(row.fault), cells)
    return ('<table class="dataframe"><thead><tr style="vertical-align: bottom">'
            f'<th scope="col" style="text-align: left">fault</th>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>")
