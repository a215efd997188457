"""Counting by the book: probabilities that sum to one, and the numbers of a text done by hand."""

import math
import random

import pytest

from utils.models.ngrams import NGrams, SoftLookup

TEXT = "abracadabra"


def test_order_0_is_uniform_and_order_1_mixes_it_with_the_counts():
    model = NGrams(TEXT, 1, "abcdr!")
    uniform, counted = model.chances("", "a")
    assert uniform == pytest.approx(1 / 6)
    assert counted == pytest.approx((5 + 5 * uniform) / (11 + 5))     # five a, five kinds
    assert model.chances("", "!")[1] == pytest.approx(5 / 6 / 16)


def test_each_order_mixes_what_came_after_with_the_order_below():
    model = NGrams(TEXT, 3, "abcdr!")
    lower = model.chances("", "b")[1]
    # After a came b twice, c once, d once: four times, three kinds. After ra came c, once.
    assert model.chances("xa", "b")[2] == pytest.approx((2 + 3 * lower) / (4 + 3))
    two = model.chances("ra", "c")[2]
    assert model.chances("ra", "c")[3] == pytest.approx((1 + 1 * two) / (1 + 1))


def test_a_context_never_seen_leaves_the_chances_of_the_order_below():
    model = NGrams(TEXT, 4, "abcdr!")
    assert model.chances("!a", "b")[3:] == [model.chances("a", "b")[2]] * 2
    assert model.chances("", "b")[2:] == [model.chances("", "b")[1]] * 3  # nothing before it


def test_chances_of_all_characters_sum_to_one():
    rng, letters = random.Random(0), "abcdefg"
    text = "".join(rng.choices(letters, k=400))
    model = NGrams(text, 4, letters + "xyz")
    for _ in range(50):
        before = "".join(rng.choices(letters + "x", k=rng.randrange(7)))
        for k in range(5):
            total = sum(model.chances(before, c)[k] for c in letters + "xyz")
            assert total == pytest.approx(1, abs=1e-12)


def test_bits_are_the_mean_surprise_after_the_first_character():
    model = NGrams(TEXT, 2, "abcdr!")
    passages = ["abr", "da"]
    asked = [("a", "b"), ("ab", "r"), ("d", "a")]
    for k, found in enumerate(model.bits(passages)):
        expected = [-math.log2(model.chances(*pair)[k]) for pair in asked]
        assert found == pytest.approx(sum(expected) / 3)


def soft(text, before, beta, span):
    """Return the chances of all codes by the definition: a loop over the places of a text."""
    scores = [sum(n + 1 for n in range(span) if text[place + n] == before[n - span])
              for place in range(len(text) - span)]
    shares = [math.exp(beta * score) for score in scores]
    chances = [0.0] * 128
    for place, share in enumerate(shares):
        chances[ord(text[place + span])] += share / sum(shares)
    return chances


@pytest.mark.parametrize("beta", [0, 0.7, 2])
def test_a_soft_lookup_is_softmax_over_all_places_of_the_text(beta):
    rng = random.Random(1)
    text = "".join(rng.choices("abcde", k=90))
    lookup = SoftLookup(text, span=4)
    passages = ["".join(rng.choices("abcde", k=9)) for _ in range(3)]
    asked = [(p[:n], p[n]) for p in passages for n in range(4, 9)][::2]
    expected = [-math.log2(0.99 * soft(text, before, beta, 4)[ord(truth)] + 0.01 / 5)
                for before, truth in asked]
    found = lookup.bits(passages, [99, beta], kinds=5, step=2)
    assert len(found) == 2
    assert found[1] == pytest.approx(sum(expected) / len(expected), abs=1e-9)


def test_votes_count_every_place_once_by_points_and_character():
    votes = SoftLookup("abcabd", span=2).votes("xxab")
    assert votes.shape == (4, 128)
    assert votes.sum() == 4
    assert votes[3, ord("c")] == votes[3, ord("d")] == 1      # after each ab: 1 + 2 points
    assert votes[0, ord("a")] == votes[0, ord("b")] == 1      # after bc and ca: none
