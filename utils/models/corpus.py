"""A text that comes with Python, split into training text and held-out passages.

``pydoc_data.topics`` is the manual behind ``help("for")``, under the licence of Python. It differs
between versions of Python, so compare results only if they were measured with the same version.
"""

from typing import NamedTuple

import torch


class Corpus(NamedTuple):
    """A text to train on, held-out passages, and the vocabulary: all characters of both.

    ``dropped`` is the number of passages that were dropped because they repeat the training text.
    """

    train: str
    passages: list
    dropped: int
    vocabulary: str


def manual():
    """Return the topics of Python's manual as one text."""
    from pydoc_data.topics import topics  # half a megabyte, and missing in some distributions
    return "\n\n".join(topics.values())


def split(text, length=129, share=0.1, gram=50):
    """Return a Corpus: the last ``share`` of a text is held out, in passages of ``length``.

    A passage is dropped if it shares ``gram`` consecutive characters with the training text.
    """
    cut = round(len(text) * (1 - share))
    train, rest = text[:cut], text[cut:]
    known = {train[n:n + gram] for n in range(len(train) - gram + 1)}
    passages = [rest[n:n + length] for n in range(0, len(rest) - length + 1, length)]
    new = [passage for passage in passages
           if not any(passage[n:n + gram] in known for n in range(length - gram + 1))]
    return Corpus(train, new, len(passages) - len(new), "".join(sorted(set(text))))


def encode(text, vocabulary):
    """Return the index in the vocabulary of each character of a text, integers (n,).

    Raises ValueError for a character that is not in the vocabulary.
    """
    indices = {character: index for index, character in enumerate(vocabulary)}
    unknown = set(text) - set(indices)
    if unknown:
        raise ValueError(f"not in the vocabulary of {len(indices)} characters: "
                         f"{', '.join(map(repr, sorted(unknown)))}")
    return torch.tensor([indices[character] for character in text], dtype=torch.long)


def rows(texts, vocabulary):
    """Return texts of equal length as integers, (b, n)."""
    return torch.stack([encode(text, vocabulary) for text in texts])


def decode(tokens, vocabulary):
    """Return the text of integers (n,)."""
    return "".join(vocabulary[token] for token in tokens)


def draw(tokens, batch, length, generator):
    """Return random pieces of a text, integers (n,) -> (batch, length)."""
    starts = torch.randint(len(tokens) - length + 1, (batch,), generator=generator)
    return tokens[starts[:, None] + torch.arange(length)]


def say_again(pieces, generator, shortest=8, longest=60):
    """Make each piece repeat its first tokens, (b, n) -> (b, n).

    The number of tokens that are repeated is drawn for each piece, from ``shortest`` to
    ``longest``. So a model can predict the next token from earlier tokens, but not from a fixed
    distance.
    """
    periods = torch.randint(shortest, longest + 1, (len(pieces), 1), generator=generator)
    return pieces.gather(1, torch.arange(pieces.shape[1]) % periods)
