"""Exercises in general: what counts as untouched, as the same, and what an answer is told."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from utils.exercises import _answers, _check
from utils.exercises._check import Check, Exercise


def nothing(x):
    """Return the double of x."""
    ...


def passes(x):
    """Return the double of x."""
    pass


def none(x):
    return None


def not_written(x):
    raise NotImplementedError


def double(x):
    return 2 * x


def one(x):
    return 1


class Stub:
    """A layer."""

    width = 3

    def forward(self, x):
        """Return x."""
        ...


class Begun(Stub):
    def forward(self, x):
        return x


def told(function):
    return "" if function(3) == 6 else f"f(3) is {function(3)}."


CHECK = Check({"double": Exercise(told, ("Twice is once and once again.", "Use 2 * x."),
                                  "Two of them.")})


@pytest.mark.parametrize("answer", [
    None, ..., {"a": None, "b": ...}, [None, None], (), nothing, passes, none, Stub,
    lambda x: None, lambda x: ..., {"a": {"b": None}}])
def test_what_was_left_as_it_stood_is_untouched(answer):
    assert _check.untouched(answer)


@pytest.mark.parametrize("answer", [
    0, False, "", {"a": None, "b": 0}, [None, 1], double, one, Begun, lambda x: 0,
    np.zeros(3), lambda x: x])
def test_whatever_has_been_written_is_not_untouched(answer):
    assert not _check.untouched(answer)


def test_a_closure_that_returns_what_it_was_given_is_not_untouched():
    given = 3
    assert not _check.untouched(lambda: given)


@pytest.mark.parametrize("answer", [None, nothing, not_written])
def test_an_untouched_answer_is_not_attempted_yet(answer):
    said = CHECK("double", answer)
    assert not said
    assert repr(said) == ('double: not attempted yet. check.hint("double") gives a hint.')


def test_a_right_answer_is_true_and_praised():
    said = CHECK("double", double)
    assert said
    assert repr(said) == "double: right. Two of them."


def test_a_wrong_answer_is_false_and_told_why():
    said = CHECK("double", one)
    assert not said
    assert repr(said) == "double: not yet. f(3) is 1."


def test_what_the_readers_code_raises_is_one_sentence_with_the_readers_line():
    def broken(x):
        return x.shape

    assert repr(CHECK("double", broken)) == (
        "double: not yet. It raises AttributeError, at `return x.shape`: 'int' object\n"
        "has no attribute 'shape'")


def test_an_error_below_the_readers_line_is_told_at_that_line():
    def broken(x):
        return torch.ones(3) @ torch.ones(x + 1)

    said = " ".join(repr(CHECK("double", broken)).split())
    assert "It raises RuntimeError, at `return torch.ones(3) @ torch.ones(x + 1)`: " in said


def test_an_answer_that_was_called_is_asked_for_its_name():
    said = " ".join(repr(CHECK("double", double(3))).split())
    assert "give `check` its name, without calling it. Yours is int." in said


def test_what_is_not_callable_inside_an_answer_is_told_as_it_is():
    def broken(x):
        return x(3)

    assert "at `return x(3)`: 'int' object is not callable" in " ".join(
        repr(CHECK("double", broken)).split())


def test_an_unknown_exercise_names_the_nearest():
    for ask in (lambda: CHECK("dble", one), lambda: CHECK.hint("dble")):
        with pytest.raises(ValueError, match=r"no exercise 'dble' here; did you mean 'double'\?"):
            ask()


def test_hints_are_counted_for_each_check():
    check = Check(CHECK.exercises)
    assert repr(check.hint("double")) == "Hint 1 of 2: Twice is once and once again."
    for _ in range(2):
        assert repr(check.hint("double")) == (
            "Hint 2 of 2: Use 2 * x. That was the last; the solution is below.")
    assert repr(Check(CHECK.exercises).hint("double")).startswith("Hint 1 of 2")


JUDGE = _check.predictions(
    {"variance": 4 / 144, "name": "rand", "right": True, "rows": {1, 4}, "count": 3},
    {"variance": {7 / 144: "That is over all pairs.", None: "Look at one row."}, "name": "Which?"})
GOOD = {"variance": 0.0278, "name": "rand", "right": True, "rows": [4, 1], "count": 3}


def test_right_predictions_are_right():
    assert JUDGE(GOOD) == ""
    assert JUDGE(GOOD | {"right": np.True_, "rows": np.array([1, 4]), "count": np.int64(3)}) == ""


@pytest.mark.parametrize(("change", "words"), [
    ({"variance": 0.0486}, "variance: 0.0486 is not it. That is over all pairs."),
    ({"variance": 1.0}, "variance: 1.0 is not it. Look at one row."),
    ({"variance": "4/144"}, "variance: '4/144' is not it. Write one number, without "
                              "quotation marks."),
    ({"name": "randn"}, "name: 'randn' is not it. Which?"),
    ({"name": 3}, "name: 3 is not it. Write a word, in quotation marks."),
    ({"right": 1}, "right: 1 is not it. Answer True or False."),
    ({"right": False}, "right: False is not it."),
    ({"rows": {1}}, "rows: {1} is not it."), ({"rows": "14"}, "rows: '14' is not it."),
    ({"count": 4}, "count: 4 is not it."),
    ({"count": True}, "count: True is not it. Write one number, without quotation marks."),
    ({"variance": [7 / 144, 1]}, f"variance: {[7 / 144, 1]} is not it. Write one number, without "
                                 "quotation marks."),
    ({"count": None}, "Still open: count.")])
def test_each_wrong_prediction_is_told_its_own_mistake(change, words):
    assert JUDGE(GOOD | change) == words


def test_several_wrong_predictions_are_listed():
    assert JUDGE(GOOD | {"name": "randn", "count": None}) == (
        "\n  name: 'randn' is not it. Which?\n  Still open: count.")


def test_a_list_of_sentences_in_a_list_is_one_list():
    assert _answers.listed(["a", "b"]) == "\n  a\n  b"
    assert _answers.listed([_answers.listed(["a", "b"]), "c"]) == "\n  a\n  b\n  c"
    assert _answers.listed([_answers.listed(["a"])]) == "a"
    assert _answers.listed([]) == ""


def test_predictions_need_all_their_keys():
    for given in ({"variance": 1.0}, GOOD | {"more": 1}, 3):
        assert JUDGE(given).startswith("The answer is a dict with the keys 'variance', 'name'")


@pytest.mark.parametrize(("got", "want", "expected"), [
    (1.04, 1.0, True), (1.06, 1.0, False), (-1.0, 1.0, False), (1, 1.0, True), ("1", 1.0, False),
    ([1, 2], [1, 2], True), ((1, 2), [1, 2], True), ([1], [1, 2], False), (3, [1, 2], False),
    (np.array([1.0, 2.0]), [1.0, 2.01], True), ("ab", "ab", True), ({1, 2}, {2, 1}, True),
    (" Ab", "ab", True), ("abc", "ab", False), (3, "ab", False),
    (0.0, 0.0, True), (1e-9, 0.0, False), (True, 1.0, False), (Fraction(7, 144), 7 / 144, True),
    (torch.tensor(1.02), 1.0, True), (torch.tensor([1, 2]), [1, 2], True),
    (torch.tensor(1.0), True, False)])
def test_answers_are_the_same_as_a_teacher_would_say(got, want, expected):
    assert _answers.same(got, want) is expected


def test_the_tolerance_of_floats_is_relative():
    assert _answers.same(102.0, 100.0, 0.03)
    assert not _answers.same(102.0, 100.0, 0.01)


def test_the_doctor_has_nothing_to_say_of_a_healthy_program_and_names_a_sick_one():
    from utils import reference

    def unscaled(q, k, v, keep):
        return reference.attention(q, k, v, keep, scale=1.0)[0]

    assert _check.examined(lambda q, k, v, keep: reference.attention(q, k, v, keep)[0]) == ""
    assert _check.examined(unscaled).startswith("The doctor says:\nunscaled is sick: no scale.")
    assert "no scale" in _check.examined(unscaled)


def test_long_lines_are_folded_under_their_beginning():
    said = _check.Told(False, "a: not yet.\n  " + "word " * 30)
    lines = repr(said).splitlines()
    assert max(map(len, lines)) <= 78
    assert all(line.startswith("  word") for line in lines[1:])
    assert len(lines) == 3


def test_several_sentences_stand_below_each_other_and_one_alone():
    assert _answers.listed(["one."]) == "one."
    assert _answers.listed(["one.", "two."]) == "\n  one.\n  two."
    assert _answers.listed([]) == ""
