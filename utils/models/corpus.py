"""Text that every Python brings along, cut into what a model reads and what it is asked.

``pydoc_data.topics`` is the manual behind ``help("for")``, under the licence of Python; it differs
between versions of Python, so numbers measured on it are only compared with each other.
"""

from typing import NamedTuple

import torch


class Corpus(NamedTuple):
    """A text to train on, passages to be asked, and all characters of both.

    ``dropped`` passages were left out because they repeat the training text.
    """

    train: str
    passages: list
    dropped: int
    vocabulary: str


def manual():
    """Return the topics of Python's manual as one text."""
    from pydoc_data.topics import topics  # half a megabyte, and not there in every distribution
    return "\n\n".join(topics.values())


def split(text, length=129, share=0.1, gram=50):
    """Return a Corpus: the last ``share`` of a text is held out, in passages of ``length``.

    A passage that has ``gram`` characters in a row in common with the training text is dropped.
    """
    cut = round(len(text) * (1 - share))
    train, rest = text[:cut], text[cut:]
    known = {train[n:n + gram] for n in range(len(train) - gram + 1)}
    passages = [rest[n:n + length] for n in range(0, len(rest) - length + 1, length)]
    new = [passage for passage in passages
           if not any(passage[n:n + gram] in known for n in range(length - gram + 1))]
    return Corpus(train, new, len(passages) - len(new), "".join(sorted(set(text))))


def encode(text, vocabulary):
    """Return the places of characters in the vocabulary, a text of n -> integers (n,).

    Raises ValueError for a character that is not in it.
    """
    places = {character: place for place, character in enumerate(vocabulary)}
    unknown = set(text) - set(places)
    if unknown:
        raise ValueError(f"not in the vocabulary of {len(places)} characters: "
                         f"{', '.join(map(repr, sorted(unknown)))}")
    return torch.tensor([places[character] for character in text], dtype=torch.long)


def rows(texts, vocabulary):
    """Return texts of one length as integers, (b, n)."""
    return torch.stack([encode(text, vocabulary) for text in texts])


def decode(tokens, vocabulary):
    """Return the text of integers (n,)."""
    return "".join(vocabulary[token] for token in tokens)


def draw(tokens, batch, length, generator):
    """Return random pieces of a text, integers (n,) -> (batch, length)."""
    starts = torch.randint(len(tokens) - length + 1, (batch,), generator=generator)
    return tokens[starts[:, None] + torch.arange(length)]


def say_again(pieces, generator, shortest=8, longest=60):
    """Begin each piece anew after a random number of tokens, over and over, (b, n) -> (b, n).

    The number is drawn for each piece, from ``shortest`` to ``longest``, so that what follows next
    can be told from what was said, and not from how long ago.
    """
    periods = torch.randint(shortest, longest + 1, (len(pieces), 1), generator=generator)
    return pieces.gather(1, torch.arange(pieces.shape[1]) % periods)
