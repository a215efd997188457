"""The doctor's score on the zoo, which was written without sight of it."""

from collections import Counter

import pytest
import torch
from zoo.specimen import ZOO

from utils import doctor

TOLD = {"kernel": ("grouped",), "layer": ("self_attention", "masks", "pre_norm", "call", "roles",
                                          "packed"), "decoding": ()}
# Declared as outside the list, and yet what the doctor says of it is exactly what is declared.
EQUIVALENTS = {"einops_layers.sides_innermost": (
    "interleaved packing", "q, k, v: (n, h, d) is read as (h, d, n)")}


def examined(animal):
    """Return the Report on a specimen, told what its options promise."""
    torch.manual_seed(0)
    options = {name: animal.options[name] for name in TOLD[animal.level] if name in animal.options}
    causal = animal.options.get("align") or animal.options.get("causal", False)
    return doctor.examine(animal.program, animal.level, causal=causal, **options)


@pytest.fixture(scope="module")
def reports():
    return {animal.name: examined(animal) for animal in ZOO}


def outcome(animal, report):
    """Return (kind, what the doctor made of it), kind "healthy", "listed" or "outside"."""
    if animal.fault is None:
        return "healthy", "sick" if report.verdict == "sick" else report.verdict
    kind = "listed" if animal.listed else "outside"
    if report.verdict != "sick":
        return kind, report.verdict
    if not report.names:
        return kind, "no match"
    if animal.name in EQUIVALENTS:
        name, detail = EQUIVALENTS[animal.name]
        return kind, "equivalent" if (report.names, report.details) == (
            [(name,)], {name: detail}) else "misnamed"
    return kind, "named" if (animal.fault,) in report.names else "misnamed"


def test_the_score(reports):
    score = Counter(outcome(animal, reports[animal.name]) for animal in ZOO)
    for (kind, result), count in sorted(score.items()):
        print(f"{kind:8} {result:18} {count:3}")
    totals = Counter(kind for kind, result in score.elements())
    assert score["healthy", "healthy"] + score["healthy", "note"] == totals["healthy"]
    assert score["listed", "named"] >= 0.9 * totals["listed"]
    assert score["listed", "named"] + score["listed", "no match"] == totals["listed"]
    assert score["outside", "no match"] + score["outside", "equivalent"] == totals["outside"]


def test_what_is_an_equivalent_is_declared_outside():
    outside = {animal.name for animal in ZOO if animal.fault and not animal.listed}
    assert set(EQUIVALENTS) <= outside


def test_a_name_stands_for_a_class_of_at_most_three(reports):
    assert {len(report.names) for report in reports.values()} <= {0, 1, 2, 3}


def test_every_report_can_be_read(reports):
    for report in reports.values():
        assert "Traceback" not in str(report)
        assert "<script" not in report._repr_html_()
        assert report.evidence
