"""The doctor's score on the zoo, which was written without sight of it."""

from collections import Counter

import pytest
import torch
from zoo.specimen import ZOO

from utils import doctor
from utils.doctor.zoo_scores import COLUMNS, LEVELS, load_scores

# Half a minute: one process examines the zoo for all these tests.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("zoo")]

TOLD = {"kernel": ("grouped",), "layer": ("self_attention", "masks", "pre_norm", "call", "roles",
                                          "packed")}
# Declared as outside the list, and yet what the doctor says of it is exactly what is declared.
EQUIVALENTS = {"einops_layers.sides_innermost": (
    "interleaved packing", "q, k, v: (3, h, d) is read as (h, d, 3)"),
    "museum_projections.CopiedLine": ("wrong projection", "v is made with the projection “k_proj”"),
    "einops_layers.ValuesFromX": ("memory ignored", "v is made from x"),
    "museum_scores.one_letter_wrong": (  # it averages q
        "memory ignored", "v is made from x", "wrong projection",
        "v is made with the projection of q")}


def examined(animal):
    """Return the Report on a specimen, told what its options promise."""
    torch.manual_seed(0)
    if animal.level == "decoding":
        return doctor.examine_decoder(animal.program)
    options = {name: animal.options[name] for name in TOLD[animal.level] if name in animal.options}
    causal = animal.options.get("align") or animal.options.get("causal", False)
    examine = doctor.examine_kernel if animal.level == "kernel" else doctor.examine_layer
    return examine(animal.program, causal=causal, **options)   # in the doctor's own form


@pytest.fixture(scope="module")
def reports():
    return {animal.name: examined(animal) for animal in ZOO}


def outcome(animal, report):
    """Return in which of the COLUMNS a specimen stands.

    "unnamed": its fault is on the list, and was not named; "outside": it is not, and no other was
    named; "missed": it is sick and was called healthy, or not examined.
    """
    if animal.fault is None:
        return "false alarm" if report.verdict != "healthy" else "healthy"
    if report.verdict not in ("sick", "unexplained"):
        return "missed"
    if not report.names:
        return "unnamed" if animal.listed else "outside"
    if animal.name in EQUIVALENTS:
        names, details = EQUIVALENTS[animal.name][::2], EQUIVALENTS[animal.name][1::2]
        return "equivalent" if (report.names, report.details) == (
            [names], dict(zip(names, details, strict=True))) else "misnamed"
    return "named" if (animal.fault,) in report.names else "misnamed"


def counted(reports):
    """Return {level: {column: how many specimens stand there}}."""
    found = Counter((animal.level, outcome(animal, reports[animal.name])) for animal in ZOO)
    return {level: {column: found[level, column] for column in COLUMNS} for level in LEVELS}


@pytest.fixture(scope="module")
def score(reports):
    return counted(reports)


def test_the_score_is_printed_and_is_the_one_that_its_page_shows(score, capsys):
    lines = [("", *COLUMNS), *((level, *(score[level][column] or "·" for column in COLUMNS))
                               for level in LEVELS)]
    with capsys.disabled():
        print("\n" + "\n".join(" ".join(f"{cell!s:>11}" for cell in line) for line in lines))
    assert load_scores()["now"] == score
    assert total(score, *COLUMNS) == len(ZOO) == 169


def total(score, *columns):
    return sum(score[level][column] for level in LEVELS for column in columns)


def test_no_healthy_program_is_called_sick(score):
    assert (total(score, "healthy"), total(score, "false alarm")) == (54, 0)


def test_every_sick_program_is_called_sick(score):
    assert total(score, "missed") == 0


def test_nine_in_ten_listed_faults_are_named_and_none_by_another_name(score):
    assert total(score, "named") >= 0.9 * total(score, "named", "unnamed") > 60
    assert total(score, "misnamed") == 0


def test_every_fault_outside_the_list_has_no_match_or_an_equivalent(score):
    outside = {animal.name for animal in ZOO if animal.fault and not animal.listed}
    assert total(score, "outside", "equivalent") == len(outside) >= 15
    assert set(EQUIVALENTS) <= outside


def test_a_name_stands_for_a_class_of_at_most_three(reports):
    assert {len(report.names) for report in reports.values()} <= {0, 1, 2, 3}


def test_a_guess_of_the_packing_is_a_note(reports):
    packed = reports["torch_modules.PackedByHead"]
    assert (packed.verdict, packed.names) == ("healthy", [])
    assert "interleaved packing" in packed.notes[0]


def test_every_report_can_be_read(reports):
    for report in reports.values():
        assert "Traceback" not in str(report)
        assert "<script" not in report._repr_html_()
        assert report.evidence or report.findings
        assert report.headline.endswith(".")
