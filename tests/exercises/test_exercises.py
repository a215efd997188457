"""Every exercise, answered as readers might: right, and wrong in at least three ways."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "utils" / "exercises").glob("[!_]*.py"))
MODULES = {name: (import_module(f"utils.exercises.{name}").check,
                  import_module(f"attempts.{name}")) for name in CHAPTERS}
EXERCISES = [(chapter, name) for chapter, (check, _) in MODULES.items()
             for name in check.exercises]
# That train, that the doctor examines, or that run every wrong program.
SLOW = {"training", "heads", "ninth_case"}
SLOW_IF_WRONG = SLOW | {"list_of_heads"}   # of whose wrong answers the doctor searches


def cells(chapter):
    """Return the (source, what it shows) of the code cells of a chapter."""
    path, = (ROOT / "chapters").rglob(f"{chapter}.ipynb")
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            shown = [out.get("text") or out.get("data", {}).get("text/plain", "")
                     for out in cell["outputs"]]
            yield "".join(cell["source"]), "".join(part for text in shown for part in text)


def plain(feedback):
    """Return the text without its line breaks."""
    return " ".join(str(feedback).split())


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_page_has_every_exercise_of_the_module(chapter):
    asked = [name for source, shown in cells(chapter) if "not attempted yet" in shown
             for name in re.findall(r'^check\("(\w+)"', source, re.MULTILINE)]
    assert asked == list(MODULES[chapter][0].exercises)


@pytest.mark.parametrize(("chapter", "name"), [
    pytest.param(*exercise, marks=pytest.mark.slow if exercise[1] in SLOW else ())
    for exercise in EXERCISES])
def test_a_right_answer_is_called_right_with_a_remark(chapter, name):
    check, attempts = MODULES[chapter]
    for answer in attempts.RIGHT[name]:
        feedback = check(name, answer)
        assert feedback, plain(feedback)
        assert len(plain(feedback)) > len(f"{name}: right. ") + 20


@pytest.mark.parametrize(("chapter", "name"), [
    pytest.param(*exercise, marks=pytest.mark.slow if exercise[1] in SLOW_IF_WRONG else ())
    for exercise in EXERCISES])
def test_each_wrong_answer_gets_the_message_of_its_mistake(chapter, name):
    check, attempts = MODULES[chapter]
    replies = [check(name, answer) for answer, _ in attempts.WRONG[name]]
    for feedback, (_, words) in zip(replies, attempts.WRONG[name], strict=True):
        assert not feedback
        assert words in plain(feedback)
        assert "not attempted" not in plain(feedback)
    assert len(set(map(plain, replies))) >= 3


def test_every_exercise_has_at_least_two_hints():
    for check, _ in MODULES.values():
        assert all(len(exercise.hints) >= 2 for exercise in check.exercises.values())
