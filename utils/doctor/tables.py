"""Which probe sees which fault: every probe put to every faulty program, in one table.

The reference is not among them: probes find faults without a second program to compare with.
"""

import html as escaping
import json
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from utils import sizes
from utils.doctor import faulty
from utils.doctor._search import Switch
from utils.doctor.faults import FAULTS
from utils.doctor.faulty.kernel import Band, Hiding
from utils.doctor.levels import (
    decoding as decoding_level,
    kernel_cases,
    kernel_switches,
    layer_cases,
    layer_switches,
)
from utils.doctor.levels.kernel_switches import Options
from utils.doctor.probes import run as probe_run

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
    """Yield (fault, program, options of ``probe_kernel``) for all faults of a kernel."""
    for form, options, told in KERNELS:
        for switch in kernel_switches.switches(form, options):
            settings = options.settings() | switch.settings
            yield switch.fault, partial(faulty.kernel.attention, **settings), told
    for fault, settings in CONSTANTS:
        yield fault, partial(faulty.kernel.attention, **settings), {}
    yield "dropout in eval", _dropping(np.random.default_rng(0)), {}


def _dropping(rng):
    def program(q, k, v, keep):
        _, weights = faulty.kernel.attention(q, k, v, keep)
        return 2 * (rng.random(weights.shape) < 0.5) * weights @ v
    return program


def layers(level="layer"):
    """Yield (fault, program, options of ``probe_layer``) for the faults of a layer itself.

    With ``level="kernel"``, for those of the kernel inside; it may be causal, too.
    """
    weights = sizes.weights(d_in=sizes.D_MODEL, d_out=sizes.D_MODEL)
    for alone, options, told in LAYERS if level == "layer" else (*LAYERS, CAUSAL):
        form = layer_cases.Form(equal_widths=True, self_attention=alone, square=options.causal)
        for switch in (*layer_switches.switches(form, options), OVER_TIME):
            if FAULTS[switch.fault].level == level:
                settings = options.settings() | switch.settings
                yield (switch.fault, partial(faulty.layer.layer, **settings),
                       told | {"weights": weights})


def decoders():
    """Yield (fault, program, options of ``probe_decoding``) for all faults of decoding."""
    for switch in decoding_level.SWITCHES:
        yield switch.fault, partial(_step, switch.settings), {}


def _step(settings, q, k, v, cache):
    """Return (context, cache) of one chunk more, with the settings of ``faulty_decoding.decode``.

    The cache holds all that has come so far, and in what chunks.
    """
    sides, chunks = cache or ([x[:, :, :0] for x in (q, k, v)], ())
    sides = [np.concatenate(pair, axis=2) for pair in zip(sides, (q, k, v), strict=True)]
    chunks = *chunks, q.shape[2]
    context = faulty.decoding.decode(*sides, chunks, **settings)
    return context[:, :, -chunks[-1]:], (sides, chunks)


def rows(ask, programs):
    """Return the Rows of (fault, program, options) that ``ask(program, **options)`` is put to."""
    found = {}
    for fault, program, told in programs:
        found.setdefault(fault, []).append(ask(program, **told))
    return [_row(fault, runs) for fault, runs in found.items()]


def table():
    """Return the Rows of all faults, those of a kernel in a kernel, each with its own switches."""
    return (rows(probe_run.probe_kernel, kernels()) + rows(probe_run.probe_layer, layers())
            + rows(probe_run.probe_decoding, decoders()))


def _row(fault, runs):
    """Return the Row of a fault, from the Findings on each of its programs."""
    fails = [{f.probe: f.ok is False for f in run} for run in runs]
    names = dict.fromkeys(name for each in fails for name in each)
    seen = {name: float(np.mean([each[name] for each in fails if name in each])) for name in names}
    return Row(fault, seen, sum(not any(each.values()) for each in fails), len(runs))


UPWARDS = "writing-mode: vertical-rl; transform: rotate(180deg); text-align: left"
LINE = '<tr><th scope="row" style="text-align: left">{}</th>{}</tr>'


def silent(rows):
    """Return the names of the probes that saw none of these faults."""
    names = dict.fromkeys(name for row in rows for name in row.seen)
    return [name for name in names if not any(row.seen.get(name) for row in rows)]


def markdown(rows):
    """Return the table as text: ● seen in every program, ○ in some, · in none, blank not asked.

    Without the columns of those that are ``silent``.
    """
    hushed = silent(rows)
    names = dict.fromkeys(name for row in rows for name in row.seen if name not in hushed)
    lines = [["fault", *names], ["---"] * (len(names) + 1)]
    for row in rows:
        marks = [_mark(row.seen.get(name)) for name in names]
        lines.append([row.fault, *marks])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html(rows):
    """Return the table of Rows as HTML: ● seen in every program, ○ in some, · in none.

    Blank where a probe could not be asked; without the columns of those that are ``silent``.
    """
    hushed = silent(rows)
    names = dict.fromkeys(name for row in rows for name in row.seen if name not in hushed)
    head = "".join(f'<th scope="col"><span style="{UPWARDS}">{escaping.escape(name)}</span></th>'
                   for name in names)
    body = "".join(LINE.format(escaping.escape(row.fault), "".join(
        f'<td style="text-align: center">{_mark(row.seen.get(name))}</td>' for name in names))
        for row in rows)
    return ('<table class="dataframe"><thead><tr style="vertical-align: bottom">'
            f'<th scope="col" style="text-align: left">fault</th>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>")


def _mark(share):
    return " " if share is None else "●" if share == 1 else "○" if share else "·"


FILE = Path(__file__).with_name("zoo_scores.json")
COLUMNS = {"healthy": "healthy, called so", "false alarm": "healthy, called sick",
           "named": "listed fault, named", "unnamed": "listed fault, no match",
           "outside": "other fault, no match", "equivalent": "other fault, an equivalent named",
           "misnamed": "named wrongly", "missed": "sick, not noticed"}
LEVELS = ("kernel", "layer", "decoding")


def load_scores():
    """Return the scores: {"now": {level: {column: count}}, "held out": {level: [right, of]}}."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def scores():
    """Return the scores of the doctor as it is now, a Markdown table."""
    now = load_scores()["now"]
    lines = [["of the zoo's programs", *LEVELS, "all"], ["---", *["--:"] * (len(LEVELS) + 1)]]
    for column, words in COLUMNS.items():
        counts = [now[level][column] for level in LEVELS]
        lines.append([words, *map(str, counts), str(sum(counts))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def held_out():
    """Return one sentence: what the first edition got right of the half kept from it."""
    first = load_scores()["held out"]
    parts = [f"{right} of {of} {level}{'s' * (level != 'decoding')}"
             for level, (right, of) in first.items()]
    return f"The first edition, on the half that it had not seen: right on {', '.join(parts)}."
