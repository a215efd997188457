"""What is held out is not in the training text, and nothing else is lost."""

import random
import subprocess
import sys

import pytest
import torch

from utils.models import corpus

ALPHABET = "abcdefgh \n"


def random_text(n, seed=0):
    return "".join(random.Random(seed).choices(ALPHABET, k=n))


def test_passages_are_the_last_share_of_the_text_in_order():
    text = random_text(2000)
    found = corpus.split(text, length=30, share=0.25, gram=12)
    assert found.train == text[:1500]
    assert found.dropped == 0
    assert found.passages == [text[n:n + 30] for n in range(1500, 1980, 30)]
    assert "".join(found.passages) == text[1500:1980]
    assert found.vocabulary == "".join(sorted(set(text)))


@pytest.mark.parametrize(("common", "dropped"), [(12, 1), (11, 0)])
@pytest.mark.parametrize("place", [0, 7, 18])
def test_a_passage_that_repeats_the_training_text_is_dropped(common, dropped, place):
    text = random_text(2000)
    start = 1500 + 5 * 30 + place
    # The characters around what is repeated are new ones, so that no more is repeated by chance.
    text = (text[:start - 1] + "X" + text[700:700 + common] + "Y" + text[start + common + 1:])
    found = corpus.split(text, length=30, share=0.25, gram=12)
    inside = place + common <= 30
    assert found.dropped == (dropped if inside else 0)
    assert len(found.passages) + found.dropped == 16
    known = {found.train[n:n + 12] for n in range(len(found.train))}
    assert not any(p[n:n + 12] in known for p in found.passages for n in range(19))


def test_the_last_characters_of_the_training_text_count_too():
    text = random_text(1500) + "Y" + random_text(499, seed=1)
    end = text[1488:1500]
    text = text[:1600] + "X" + end + "X" + text[1614:]
    assert corpus.split(text, length=25, share=0.25, gram=12).dropped == 1


def test_encode_and_decode_are_inverse_and_unknown_characters_are_named():
    text = random_text(50)
    vocabulary = "".join(sorted(set(text)))
    tokens = corpus.encode(text, vocabulary)
    assert tokens.dtype == torch.long
    assert tokens.shape == (50,)
    assert [vocabulary[n] for n in tokens] == list(text)
    assert corpus.decode(tokens, vocabulary) == text
    with pytest.raises(ValueError, match=r"not in the vocabulary of 2 characters: '\\n', 'é'"):
        corpus.encode("abé\n", "ab")


def test_rows_are_the_texts_one_below_the_other():
    found = corpus.rows(["abca", "ccab"], "abc")
    assert found.tolist() == [[0, 1, 2, 0], [2, 2, 0, 1]]


def test_draws_are_pieces_of_the_text_and_reach_both_ends():
    tokens, generator = torch.arange(40), torch.Generator().manual_seed(0)
    pieces = corpus.draw(tokens, 500, 7, generator)
    assert pieces.shape == (500, 7)
    assert torch.equal(pieces, pieces[:, :1] + torch.arange(7))
    assert set(pieces[:, 0].tolist()) == set(range(34))
    again = corpus.draw(tokens, 500, 7, torch.Generator().manual_seed(0))
    assert torch.equal(pieces, again)


def test_the_manual_is_that_of_python_and_is_read_only_when_asked():
    text = corpus.manual()
    assert len(text) > 300_000
    assert "The \"with\" statement\n***" in text
    code = "import sys, utils.models.corpus; print('pydoc_data.topics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout == "False\n"


def test_a_piece_that_is_said_again_begins_anew_after_a_random_number_of_tokens():
    pieces = torch.arange(400 * 129).view(400, 129)
    copied = pieces.clone()
    again, same = (corpus.say_again(pieces, torch.Generator().manual_seed(0), 8, 60)
                   for _ in range(2))
    assert torch.equal(again, same)  # the generator decides
    assert torch.equal(pieces, copied)  # the argument is left alone
    periods = []
    for before, after in zip(pieces.tolist(), again.tolist(), strict=True):
        period = next(n for n in range(1, 130) if after[n] == before[0])
        assert after == (before[:period] * 17)[:129]
        periods.append(period)
    assert set(periods) == set(range(8, 61))
