"""A translation task: dates as people write them, "Thu 3 May 1979", and in ISO, "1979-05-03".

The pairs are generated, and their lengths differ. In dates with slashes, the month comes first, as
in the United States; in dates with points or hyphens, the day does.
"""

from datetime import date

import numpy as np
import torch

FORMS = (
    "{d} {month} {y}", "{d} {mon} {y}", "{month} {d}, {y}", "{mon} {nth}, {y}",
    "{nth} of {month} {y}", "{weekday}, {d} {month} {y}", "{wd} {mon} {d} {y}",
    "{weekday}, {month} the {nth}, {y}", "{y}, {month} {d}", "{y} {mon} {d}", "{D}-{MON}-{y}",
    "{d}.{m}.{y}", "{M}/{D}/{y}", "{d}.{roman}.{y}")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ORDINAL = {1: "st", 2: "nd", 3: "rd"}  # codespell:ignore nd
# A character's number is its index. "_" is padding, "^" precedes the first character of a target.
ALPHABET = ("_^ ,-./0123456789"
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
PAD, START = 0, 1
_NUMBER = {character: number for number, character in enumerate(ALPHABET)}


def split_days(held_out=0.1, seed=4):
    """Return (train, test), two lists of dates that share none: all days from 1900 to 2099.

    ``held_out`` is the fraction in the second list. Raises ValueError if either list is empty.
    """
    first, last = date(1900, 1, 1).toordinal(), date(2099, 12, 31).toordinal()
    days = np.random.default_rng(seed).permutation(np.arange(first, last + 1))
    n_test = round(held_out * len(days))
    if not 0 < n_test < len(days):
        raise ValueError("held_out must be a fraction that leaves dates for both lists, such as "
                         f"0.1, got {held_out}, which holds out {n_test} of {len(days)} days")
    dates = [date.fromordinal(day) for day in days.tolist()]
    return dates[n_test:], dates[:n_test]


def write_date(day, form):
    """Return a date written in one of the FORMS, in English whatever the locale."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    last = 0 if day.day in (11, 12, 13) else day.day % 10
    return form.format(
        d=day.day, D=f"{day.day:02}", nth=f"{day.day}{ORDINAL.get(last, 'th')}", m=day.month,
        M=f"{day.month:02}", month=month, mon=month[:3], MON=month[:3].upper(),
        roman=ROMAN[day.month - 1], weekday=weekday, wd=weekday[:3], y=day.year)


def draw_dates(days, n, generator):
    """Return n (written, iso) pairs as two lists of str, drawn from ``days`` and the FORMS.

    ``generator`` is a torch.Generator.
    """
    which = torch.randint(len(days), (n,), generator=generator).tolist()
    how = torch.randint(len(FORMS), (n,), generator=generator).tolist()
    chosen = [days[index] for index in which]
    return ([write_date(day, FORMS[form]) for day, form in zip(chosen, how, strict=True)],
            [day.isoformat() for day in chosen])


def to_tokens(texts):
    """Return (tokens, lengths): int64 (b, n), padded on the right, and the lengths (b,).

    Raises ValueError for a character that is not in the ALPHABET.
    """
    strange = sorted(set("".join(texts)) - set(ALPHABET))
    if strange:
        raise ValueError(f"not in the alphabet: {', '.join(map(repr, strange))}")
    lengths = np.array([len(text) for text in texts])
    longest = max(lengths, default=0)
    rows = [[_NUMBER[character] for character in text.ljust(longest, ALPHABET[PAD])]
            for text in texts]
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), longest), lengths


def to_texts(tokens):
    """Return the texts of tokens (b, n), a list of str, including padding."""
    return ["".join(ALPHABET[number] for number in row) for row in tokens.tolist()]
