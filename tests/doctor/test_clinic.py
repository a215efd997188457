"""Repairs in the text of a function, and the table of what catches what."""

import math

import numpy as np

from utils.doctor import clinic

OFFSET = 5


def sloped(x, factor=2):
    """Return a line at x."""
    return factor * x + OFFSET


def inner(x):
    def rooted(y):
        return math.sqrt(y) + math.sqrt(y)
    return rooted(x)


def test_a_piece_of_the_text_is_replaced_and_the_original_stays():
    steeper = clinic.rewritten(sloped, ("factor * x", "factor * x * x"))
    assert (steeper(3), sloped(3)) == (2 * 9 + 5, 2 * 3 + 5)
    assert steeper.__name__ == "sloped"


def test_pairs_apply_in_turn_and_wherever_they_occur():
    assert clinic.rewritten(sloped, ("+ OFFSET", "- OFFSET"), ("- OFFSET", "- 1"))(3) == 5
    assert clinic.rewritten(inner, ("math.sqrt", "abs"))(-4) == 8


def test_defaults_may_be_replaced_too():
    assert clinic.rewritten(sloped, ("factor=2", "factor=7"))(3) == 26


def test_a_function_without_any_of_the_pieces_is_returned_itself():
    assert clinic.rewritten(sloped, ("no such text", "")) is sloped
    assert clinic.rewritten(sloped) is sloped


def test_a_function_inside_another_can_be_rewritten():
    def double(x):
        return 2 * x
    assert clinic.rewritten(double, ("2 *", "3 *"))(5) == 15


def test_the_table_has_a_row_for_each_bug_and_counts_below():
    found = np.array([[True, False], [True, True], [False, False]])
    assert clinic.table(found, ["a", "b", "c"], ["shape", "sums"], "bug").splitlines() == [
        "| bug          |  shape  |  sums  |",
        "|:-------------|:-------:|:------:|",
        "| a            |    ●    |   ·    |",
        "| b            |    ●    |   ●    |",
        "| c            |    ·    |   ·    |",
        "| **together** |  **2**  | **1**  |"]
