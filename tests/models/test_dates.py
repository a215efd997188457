"""Dates in fourteen spellings: right, unambiguous, split by day, to numbers and back."""

from collections import Counter
from datetime import date

import numpy as np
import pytest
import torch
from exact import raises

from utils.models import dates

DAY = date(1979, 5, 3)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_third_of_may_in_all_spellings():
    assert [dates.write_date(DAY, form) for form in dates.FORMS] == [
        "3 May 1979", "3 May 1979", "May 3, 1979", "May 3rd, 1979", "3rd of May 1979",
        "Thursday, 3 May 1979", "Thu May 3 1979", "Thursday, May the 3rd, 1979", "1979, May 3",
        "1979 May 3", "03-MAY-1979", "3.5.1979", "05/03/1979", "3.V.1979"]


@pytest.mark.parametrize(("day", "form", "text"), [
    (date(2001, 9, 30), "{d} {mon} {y}", "30 Sep 2001"),
    (date(2001, 9, 30), "{wd} {D}-{MON}-{y}", "Sun 30-SEP-2001"),
    (date(2000, 12, 1), "{M}/{D} {m} {roman} {month}", "12/01 12 XII December"),
    (date(1999, 4, 8), "{roman} {weekday} {m} {M}", "IV Thursday 4 04")])
def test_each_part_of_a_date(day, form, text):
    assert dates.write_date(day, form) == text


def test_ordinals():
    written = [dates.write_date(date(2000, 1, day), "{nth}") for day in range(1, 32)]
    special = {1: "1st", 2: "2nd", 3: "3rd", 21: "21st", 22: "22nd", 23: "23rd", 31: "31st"}
    assert written == [special.get(day, f"{day}th") for day in range(1, 32)]


def test_no_text_means_two_days():
    meant = {}
    for number in range(date(1996, 1, 1).toordinal(), date(2004, 12, 31).toordinal() + 1):
        day = date.fromordinal(number)
        for form in dates.FORMS:
            assert meant.setdefault(dates.write_date(day, form), day) == day


def test_the_year_stands_in_the_text_once_and_whole():
    for number in range(date(1900, 1, 1).toordinal(), date(2099, 12, 31).toordinal(), 97):
        day = date.fromordinal(number)
        for form in dates.FORMS:
            assert dates.write_date(day, form).count(str(day.year)) == 1


def test_the_split_deals_every_day_once_and_the_same_way_each_time():
    train, test = dates.split_days()
    days = sorted(train + test)
    assert (days[0], days[-1], len(days)) == (date(1900, 1, 1), date(2099, 12, 31), 73049)
    assert len(set(days)) == 73049
    assert len(test) == 7305
    assert dates.split_days() == (train, test)
    assert dates.split_days(seed=1)[1] != test
    assert len(dates.split_days(held_out=0.25)[1]) == 18262


def test_both_sides_of_the_split_have_all_months_and_years():
    for days in dates.split_days():
        assert {day.month for day in days} == set(range(1, 13))
        assert {day.year for day in days} == set(range(1900, 2100))


@pytest.mark.parametrize(("held_out", "n"), [(0, "0"), (1.0, "73049"), (-0.1, "-7305")])
def test_a_split_needs_two_sides(held_out, n):
    with raises(ValueError, "held_out must be a fraction that leaves dates for both lists, such as "
                            f"0.1, got {held_out}, which holds out {n} of 73049 days"):
        dates.split_days(held_out)


def test_draws_are_of_these_days_in_all_forms_alike_and_repeat():
    days = [date(1979, 5, 3), date(2031, 12, 24), date(1903, 7, 14)]
    written, iso = dates.draw_dates(days, 4200, generator())
    assert set(iso) == {day.isoformat() for day in days}
    by_iso = {day.isoformat(): day for day in days}
    for text, meant in zip(written, iso, strict=True):
        assert text in {dates.write_date(by_iso[meant], form) for form in dates.FORMS}
    assert len(set(written)) == 3 * 14 - 1  # "3 May 1979" is in two forms, May being short
    counts = Counter(iso)
    assert min(counts.values()) > 1250
    assert (written, iso) == dates.draw_dates(days, 4200, generator())
    assert written != dates.draw_dates(days, 4200, generator(1))[0]


def test_tokens_are_places_in_the_alphabet_padded_on_the_right():
    tokens, lengths = dates.to_tokens(["9,", "", "^Mz"])
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == [[16, 3, 0], [0, 0, 0], [1, 29, 68]]
    assert lengths.tolist() == [2, 0, 3]
    assert (dates.ALPHABET[dates.PAD], dates.ALPHABET[dates.START]) == ("_", "^")
    assert len(set(dates.ALPHABET)) == len(dates.ALPHABET) == 69
    assert dates.to_tokens([])[0].shape == (0, 0)


def test_tokens_and_back():
    written, iso = dates.draw_dates(dates.split_days()[1], 200, generator())
    for texts in (written, iso):
        tokens, lengths = dates.to_tokens(texts)
        assert [text[:n] for text, n in zip(dates.to_texts(tokens), lengths, strict=True)] == texts
        assert all(set(text[n:]) <= {"_"} for text, n in zip(dates.to_texts(tokens), lengths,
                                                             strict=True))
    assert len(np.unique(dates.to_tokens(written)[1])) > 10


def test_a_strange_character_is_named():
    with raises(ValueError, "not in the alphabet: 'ä', 'é'"):
        dates.to_tokens(["3 May", "Märzé"])
