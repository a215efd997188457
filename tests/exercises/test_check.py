"""All exercises: what counts as not attempted, which answers are the same, and the messages."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from utils.exercises import _check, _judges
from utils.exercises._check import Check, Exercise


def dots(x):
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


def judge(function):
    return "" if function(3) == 6 else f"f(3) is {function(3)}."


CHECK = Check({"double": Exercise(judge, ("Twice is once and once again.", "Use 2 * x."),
                                  "Two of them.")})


@pytest.mark.parametrize("answer", [
    None, ..., {"a": None, "b": ...}, [None, None], (), dots, passes, none, Stub,
    lambda x: None, lambda x: ..., {"a": {"b": None}}])
def test_what_is_as_the_page_left_it_is_not_attempted(answer):
    assert _check.not_attempted(answer)


@pytest.mark.parametrize("answer", [
    0, False, "", {"a": None, "b": 0}, [None, 1], double, one, Begun, lambda x: 0,
    np.zeros(3), lambda x: x])
def test_what_has_been_written_is_attempted(answer):
    assert not _check.not_attempted(answer)


def test_a_closure_that_returns_what_it_was_given_is_attempted():
    given = 3
    assert not _check.not_attempted(lambda: given)


@pytest.mark.parametrize("answer", [None, dots, not_written])
def test_the_feedback_on_an_answer_that_is_not_attempted(answer):
    said = CHECK("double", answer)
    assert not said
    assert repr(said) == ('double: not attempted yet. check.hint("double") gives a hint.')


def test_the_feedback_on_a_right_answer_is_true():
    said = CHECK("double", double)
    assert said
    assert repr(said) == "double: right. Two of them."


def test_the_feedback_on_a_wrong_answer_is_false_and_says_why():
    said = CHECK("double", one)
    assert not said
    assert repr(said) == "double: not yet. f(3) is 1."


def test_an_error_in_the_readers_code_becomes_a_sentence_with_that_line():
    def broken(x):
        return x.shape

    assert repr(CHECK("double", broken)) == (
        "double: not yet. It raises AttributeError, at `return x.shape`: 'int' object\n"
        "has no attribute 'shape'")


def test_an_error_in_a_library_names_the_readers_line():
    def broken(x):
        return torch.ones(3) @ torch.ones(x + 1)

    said = " ".join(repr(CHECK("double", broken)).split())
    assert "It raises RuntimeError, at `return torch.ones(3) @ torch.ones(x + 1)`: " in said


def test_a_result_in_place_of_a_function_gets_a_message():
    said = " ".join(repr(CHECK("double", double(3))).split())
    assert "give `check` its name, without calling it. Yours is of type int." in said


def test_another_object_that_is_not_callable_gets_the_usual_message():
    def broken(x):
        return x(3)

    assert "at `return x(3)`: 'int' object is not callable" in " ".join(
        repr(CHECK("double", broken)).split())


def test_an_unknown_exercise_names_the_nearest():
    for ask in (lambda: CHECK("dble", one), lambda: CHECK.hint("dble")):
        with pytest.raises(ValueError, match=r"no exercise 'dble' in .*; did you mean 'double'\?"):
            ask()


def test_hints_are_counted_for_each_check():
    check = Check(CHECK.exercises)
    assert repr(check.hint("double")) == "Hint 1 of 2: Twice is once and once again."
    for _ in range(2):
        assert repr(check.hint("double")) == (
            "Hint 2 of 2: Use 2 * x. That was the last hint; the solution is below.")
    assert repr(Check(CHECK.exercises).hint("double")).startswith("Hint 1 of 2")


JUDGE = _judges.predictions(
    {"variance": 4 / 144, "name": "rand", "right": True, "rows": {1, 4}, "count": 3},
    {"variance": {7 / 144: "That is over all pairs.", None: "Look at one row."}, "name": "Which?"})
GOOD = {"variance": 0.0278, "name": "rand", "right": True, "rows": [4, 1], "count": 3}


def test_right_predictions_are_right():
    assert JUDGE(GOOD) == ""
    assert JUDGE(GOOD | {"right": np.True_, "rows": np.array([1, 4]), "count": np.int64(3)}) == ""


@pytest.mark.parametrize(("change", "words"), [
    ({"variance": 0.0486}, "variance: 0.0486 is not correct. That is over all pairs."),
    ({"variance": 1.0}, "variance: 1.0 is not correct. Look at one row."),
    ({"variance": "4/144"}, "variance: '4/144' is not correct. Write one number, without "
                              "quotation marks."),
    ({"name": "randn"}, "name: 'randn' is not correct. Which?"),
    ({"name": 3}, "name: 3 is not correct. Write a string, in quotation marks."),
    ({"right": 1}, "right: 1 is not correct. Answer True or False."),
    ({"right": False}, "right: False is not correct."),
    ({"rows": {1}}, "rows: {1} is not correct."), ({"rows": "14"}, "rows: '14' is not correct."),
    ({"count": 4}, "count: 4 is not correct."),
    ({"count": True}, "count: True is not correct. Write one number, without quotation marks."),
    ({"variance": [7 / 144, 1]}, f"variance: {[7 / 144, 1]} is not correct. Write one number, "
                                 "without quotation marks."),
    ({"count": None}, "Still open: count.")])
def test_each_wrong_prediction_has_its_own_message(change, words):
    assert JUDGE(GOOD | change) == words


def test_several_wrong_predictions_are_listed():
    assert JUDGE(GOOD | {"name": "randn", "count": None}) == (
        "\n  name: 'randn' is not correct. Which?\n  Still open: count.")


def test_messages_are_joined_into_one_list():
    assert _judges.join_messages(["a"]) == "a"
    assert _judges.join_messages(["a", "", "b"]) == "\n  a\n  b"
    assert _judges.join_messages([_judges.join_messages(["a", "b"]), "c"]) == "\n  a\n  b\n  c"
    assert _judges.join_messages([_judges.join_messages(["a"])]) == "a"
    assert _judges.join_messages([]) == ""


def test_predictions_need_all_their_keys():
    for given in ({"variance": 1.0}, GOOD | {"more": 1}, 3):
        assert JUDGE(given).startswith("The answer must be a dict with the keys 'variance', 'name'")


@pytest.mark.parametrize(("got", "want", "expected"), [
    (1.04, 1.0, True), (1.06, 1.0, False), (-1.0, 1.0, False), (1, 1.0, True), ("1", 1.0, False),
    ([1, 2], [1, 2], True), ((1, 2), [1, 2], True), ([1], [1, 2], False), (3, [1, 2], False),
    (np.array([1.0, 2.0]), [1.0, 2.01], True), ("ab", "ab", True), ({1, 2}, {2, 1}, True),
    (" Ab", "ab", True), ("abc", "ab", False), (3, "ab", False),
    (0.0, 0.0, True), (1e-9, 0.0, False), (True, 1.0, False), (Fraction(7, 144), 7 / 144, True),
    (torch.tensor(1.02), 1.0, True), (torch.tensor([1, 2]), [1, 2], True),
    (torch.tensor(1.0), True, False)])
def test_which_answers_are_the_same(got, want, expected):
    assert _judges.same_answer(got, want) is expected


def test_the_tolerance_of_floats_is_relative():
    assert _judges.same_answer(102.0, 100.0, 0.03)
    assert not _judges.same_answer(102.0, 100.0, 0.01)


def test_the_doctors_report_is_empty_for_a_healthy_program_and_names_a_fault():
    from utils import reference

    def unscaled(q, k, v, keep):
        return reference.attention(q, k, v, keep, scale=1.0)[0]

    assert _judges.doctor_report(lambda q, k, v, keep: reference.attention(q, k, v, keep)[0]) == ""
    said = _judges.doctor_report(unscaled)
    assert said.startswith("The doctor says:\nunscaled is sick: no scale.")


def test_long_lines_are_wrapped_and_keep_their_indent():
    said = _check.Feedback(False, "a: not yet.\n  " + "word " * 30)
    lines = repr(said).splitlines()
    assert max(map(len, lines)) <= 78
    assert all(line.startswith("  word") for line in lines[1:])
    assert len(lines) == 3


PARTS = _judges.parts({"program": judge, "number": _judges.prediction(3)})


@pytest.mark.parametrize(("given", "words"), [
    ({"program": double, "number": 3}, ""),
    ({"program": one, "number": 3}, "program: f(3) is 1."),
    ({"program": one, "number": 4}, "\n  program: f(3) is 1.\n  number: 4 is not correct."),
    ({"program": not_written, "number": 3}, "Still open: program."),
    ({"program": one, "number": None}, "\n  program: f(3) is 1.\n  Still open: number."),
    ({"program": double}, "The answer must be a dict with the keys 'program', 'number'.")])
def test_each_part_of_an_answer_has_its_own_judge(given, words):
    assert PARTS(given) == words


def test_a_known_wrong_result_is_recognised_by_its_values_and_its_shape():
    known = [(np.ones(3), ""), (np.zeros(3), "all zeros"), (np.zeros((1, 3)), "one axis too many")]
    assert _judges.recognise(torch.ones(3), known) == ""
    assert _judges.recognise(np.zeros(3) + 1e-12, known) == "all zeros"
    assert _judges.recognise(np.zeros((1, 3)), known) == "one axis too many"
    assert _judges.recognise(np.full(3, 0.5), known) is None


def test_a_recorded_program_keeps_its_calls_and_the_kind_of_array():
    program = _judges.Recorded(np.sqrt)
    assert isinstance(program(np.array([4.0])), np.ndarray)
    assert program(torch.tensor([9.0])).equal(torch.tensor([3.0]))
    assert [call[0].tolist() for call in program.calls] == [[4.0], [9.0]]
