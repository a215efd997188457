"""How a kernel is asked, and how an explanation is tried on what the search has not seen."""

import numpy as np
import pytest

from utils import doctor, reference
from utils.doctor import _exam, faulty
from utils.doctor._subject import Subject
from utils.doctor.faulty.kernel import Masking
from utils.doctor.levels import kernel as kernel_level, kernel_cases, kernel_switches
from utils.doctor.levels.kernel_cases import Form
from utils.doctor.levels.kernel_switches import Options


def test_cases_have_three_sizes_and_no_two_numbers_of_one_size_are_equal():
    for size in (kernel_cases.SEARCH, kernel_cases.SECOND):
        assert len({size[n] for n in ("heads", "n_q", "n_k", "d_head", "d_v")}) == 5
    assert {len(case.args[0][0]) for case in kernel_cases.search(Form())} == {3, 2}
    assert {len(case.args[0][0]) for case in kernel_cases.confirm(Form())} == {5}


def test_what_holds_only_where_the_search_looked_is_no_explanation():
    def program(q, k, v, keep):
        context, _ = faulty.kernel.attention(q, k, v, keep, scale="none")
        return context if q.shape[1] < 5 else context + 1
    assert (doctor.examine(program).verdict, doctor.examine(program).names) == (
        "unexplained", [])

    def right_when_small(q, k, v, keep):
        return reference.attention(q, k, v, keep)[0] + (q.shape[1] == 5)
    assert doctor.examine(right_when_small).verdict == "unexplained"


def test_answers_can_be_tried_apart():
    def program(q, k, v, keep):
        return reference.attention(q, k, v)[0]
    mine = _exam.Exam(Subject(program, "numpy"), kernel_level.Kernel(Form(), Options()))
    assert mine.agrees({"masking": Masking("ignore", "keep")})
    assert not mine.agrees({})
    assert mine.agrees({}, mine.answers[:1])  # without a mask it is right


def test_weights_that_are_not_those_used_are_an_answer_like_any_other():
    def program(q, k, v, keep):
        context, weights = reference.attention(q, k, v, keep)
        return context, weights / 2
    assert doctor.examine(program).verdict == "unexplained"
    assert doctor.examine(reference.attention).verdict == "healthy"


def test_differences_are_told_with_the_worst_and_what_is_right():
    def program(q, k, v, keep):
        context, _ = reference.attention(q, k, v, keep)
        if keep is None or keep.ndim != 2:
            return context
        context[0, 0, 0, 0] = 9 if q.shape[2] == 5 else 99
        return context
    mine = _exam.Exam(Subject(program, "numpy"), kernel_level.Kernel(Form(), Options()))
    assert mine.differences().startswith("It differs from the reference in 1 of 9 cases, by up to ")
    assert ("(in the case “one mask for all”). It equals the reference in these cases: no mask, "
            in mine.differences())
    worst = next(mine.gap(case, answer, {}) for case, answer in mine.answers
                 if case.name == "one mask for all")
    assert mine.largest({}) == worst > 1
    assert mine.agreement({}).startswith("8 of 9 cases, ")

    def twice(q, k, v, keep):
        return reference.attention(q, k, v, keep)[0] * (1.5 if keep is None else 3.0)
    mine = _exam.Exam(Subject(twice, "numpy"), kernel_level.Kernel(Form(), Options()))
    assert "(no mask" not in mine.differences()
    assert mine.differences().endswith(").")


def test_what_the_reader_has_said_is_no_limit():
    assert kernel_level.Kernel(Form(square=True), Options()).limits() == "n_q == n_k"
    assert kernel_level.Kernel(Form(True, True), Options(True, square=True)).limits() == "d_v == d"
    assert {level.form.square for level in kernel_level.levels(Options(square=True))} == {True}
    assert {form.square for form in kernel_cases.ladder(square=True)} == {True}
    assert [form.square for form in kernel_cases.ladder()] == [False, True, False, True]


def test_no_weights_are_seen_of_a_program_that_refuses():
    def program(q, k, v, keep):
        raise ValueError
    args = kernel_cases.search(Form())[0].args
    assert kernel_cases.weights_of(Subject(program, "numpy"), args) is None


def test_the_first_problem_is_returned():
    def program(q, k, v, keep):
        raise ValueError(f"{q.shape[2]} queries")
    subject, _, problem = _exam.choose(program, kernel_level.levels(Options()))
    assert (subject, problem) == (None, "raises ValueError: 5 queries")


@pytest.mark.parametrize(("form", "options", "there", "absent"), [
    (Form(), Options(), "mask ignored", "tile for repeat"),
    (Form(grouped=True), Options(), "tile for repeat", "other causal alignment"),
    (Form(square=True), Options(True), "q and k swapped", "other causal alignment"),
    (Form(), Options(True), "other causal alignment", "k and v swapped"),
    (Form(equal_features=True), Options(), "k and v swapped", "no causal mask")])
def test_only_faults_that_can_show_are_tried(form, options, there, absent):
    names = {switch.fault for switch in kernel_switches.switches(form, options)}
    assert (there in names, absent in names) == (True, False)


def test_weights_are_seen_through_one_hot_values():
    q, k, v, keep = kernel_cases.search(Form())[2].args
    got = kernel_cases.weights_of(Subject(reference.attention, "numpy"), (q, k, v, keep))
    assert np.abs(got - reference.attention(q, k, v, keep)[1]).max() < 1e-15
