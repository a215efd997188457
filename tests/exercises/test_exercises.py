"""Every exercise, tried as a new reader would: untouched, wrong in three ways or more, right."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from utils.exercises._check import Told

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "utils" / "exercises").glob("[!_]*.py"))
MODULES = {name: (import_module(f"utils.exercises.{name}").check,
                  import_module(f"attempts.{name}")) for name in CHAPTERS}
EXERCISES = [(chapter, name) for chapter, (check, _) in MODULES.items()
             for name in check.exercises]


def cells(chapter):
    """Return the (source, what it shows) of the code cells of a chapter."""
    path, = (ROOT / "chapters").glob(f"*/{chapter}.ipynb")
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            shown = [out.get("text") or out.get("data", {}).get("text/plain", "")
                     for out in cell["outputs"]]
            yield "".join(cell["source"]), "".join(part for text in shown for part in text)


def plain(told):
    """Return the text without its line breaks."""
    return " ".join(str(told).split())


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_page_asks_what_can_be_checked(chapter):
    asked = [name for source, shown in cells(chapter) if "not attempted yet" in shown
             for name in re.findall(r'^check\("(\w+)"', source, re.MULTILINE)]
    assert asked == list(MODULES[chapter][0].exercises)


@pytest.mark.parametrize(("chapter", "name"), EXERCISES)
@pytest.mark.parametrize("untouched", [None, ...])
def test_an_untouched_exercise_is_not_called_wrong(chapter, name, untouched):
    told = MODULES[chapter][0](name, untouched)
    assert not told
    assert "not attempted yet" in plain(told)


@pytest.mark.parametrize(("chapter", "name"), EXERCISES)
def test_a_right_answer_is_called_right_and_told_why(chapter, name):
    check, attempts = MODULES[chapter]
    for answer in attempts.RIGHT[name]:
        told = check(name, answer)
        assert told, plain(told)
        assert len(plain(told)) > len(f"{name}: right. ") + 20


@pytest.mark.parametrize(("chapter", "name"), EXERCISES)
def test_each_wrong_answer_is_told_its_own_mistake(chapter, name):
    check, attempts = MODULES[chapter]
    said = [check(name, answer) for answer, _ in attempts.WRONG[name]]
    for told, (_, words) in zip(said, attempts.WRONG[name], strict=True):
        assert not told
        assert words in plain(told)
        assert "not attempted" not in plain(told)
    assert len(set(map(plain, said))) >= 3


@pytest.mark.parametrize(("chapter", "name"), EXERCISES)
def test_hints_come_one_at_a_time_and_stay_at_the_last(chapter, name):
    check = type(MODULES[chapter][0])(MODULES[chapter][0].exercises)  # no hint given so far
    hints = check.exercises[name].hints
    given = [plain(check.hint(name)) for _ in range(len(hints) + 1)]
    assert len(hints) >= 2
    for number, (hint, text) in enumerate(zip(hints, given, strict=False), start=1):
        assert text.startswith(f"Hint {number} of {len(hints)}: {' '.join(hint.split())}")
    assert given[-1] == given[-2]
    assert "the solution is below" in given[-1]
    assert isinstance(check.hint(name), Told)
