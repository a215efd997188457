"""Predict the next character by counting, without training.

``SoftLookup`` is the program of chapter `soft_lookup`, for many passages.
"""

import math
from collections import Counter

import numpy as np

from .. import checks


class NGrams:
    """Counts of all strings of up to ``order`` characters in a text.

    ``vocabulary`` holds all characters that may occur; each gets a positive probability.
    """

    def __init__(self, text, order, vocabulary):
        checks.count(order, "order")
        unknown = sorted(set(text) - set(vocabulary))
        if unknown or not text:
            raise ValueError("text must have characters of the vocabulary only, and at least one, "
                             f"got {unknown}")
        self.order, self.characters = order, len(vocabulary)
        self.counts = [Counter(text[n:n + k] for n in range(len(text) - k + 1))
                       for k in range(1, order + 1)]
        # For each string: how many characters followed it, and how many different ones.
        self.after = [Counter() for _ in range(order)]
        self.kinds = [Counter() for _ in range(order)]
        for k, counts in enumerate(self.counts):
            for gram, count in counts.items():
                self.after[k][gram[:-1]] += count
                self.kinds[k][gram[:-1]] += 1

    def chances(self, before, character):
        """Return the probability of a character by orders 0 … ``order``, a list of floats.

        Order 0 is uniform. Each further order mixes the counts after one more character with the
        next lower order, whose weight is the number of different characters that followed
        (interpolated Witten-Bell). ``before`` is the text so far. Chen and Goodman 1996 compare
        such methods, https://arxiv.org/abs/cmp-lg/9606011.
        """
        result = [1 / self.characters]
        for k in range(self.order):
            context = before[max(0, len(before) - k):]  # a shorter one was never counted
            total = self.after[k].get(context, 0)
            if total:
                kinds, count = self.kinds[k][context], self.counts[k].get(context + character, 0)
                result.append((count + kinds * result[-1]) / (total + kinds))
            else:
                result.append(result[-1])
        return result

    def bits(self, passages):
        """Return the mean loss, in bits per character, by orders 0 … ``order``.

        The loss covers each passage from its second character on; no text before it is used.
        """
        surprise, asked = [0.0] * (self.order + 1), 0
        for passage in passages:
            for n in range(1, len(passage)):
                asked += 1
                for k, chance in enumerate(self.chances(passage[:n], passage[n])):
                    surprise[k] -= math.log2(chance)
        return [total / asked for total in surprise]


class SoftLookup:
    """A soft lookup of the next character among all positions of a text.

    The query is the last ``span`` characters. The keys are the ``span`` characters before each
    position; the score is 1 if the first agrees, plus 2 if the second agrees, and so on. The values
    are the characters that followed.
    """

    def __init__(self, text, span=6):
        codes, self.span = _codes(text), checks.count(span, "span")
        if len(codes) <= span:
            raise ValueError(f"text must be longer than span={span}, got {len(codes)} characters")
        self.keys = [codes[n:len(codes) - span + n] for n in range(span)]  # (j,) each
        self.values = codes[span:].astype(np.int64)

    def votes(self, before):
        """Count the positions by score and by the character that followed, (scores, 128).

        ``before`` is the text so far, at least ``span`` characters.
        """
        if len(before) < self.span:
            raise ValueError(f"before must have at least span={self.span} characters, got "
                             f"{len(before)}")
        query, most = _codes(before[-self.span:]), self.span * (self.span + 1) // 2
        small = np.min_scalar_type(most)  # for the speed; up to a span of 21, uint8
        points = np.zeros(len(self.values), dtype=small)
        for n, key in enumerate(self.keys):
            points += small.type(n + 1) * (key == query[n])
        cells = np.bincount(points * np.int64(128) + self.values, minlength=(most + 1) * 128)
        return cells.reshape(most + 1, 128)

    def bits(self, passages, betas, kinds, step=1, hedge=0.01):
        """Return the mean loss, in bits, for each inverse temperature of ``betas``.

        The loss covers every ``step``-th position of the passages, except their first ``span``
        characters. ``hedge`` is the probability that is spread over all ``kinds`` of characters,
        because the lookup can be certain and wrong.
        """
        places = [(passage, n) for passage in passages for n in range(self.span, len(passage))]
        surprise = np.zeros(len(betas))
        for passage, n in places[::step]:
            votes, truth = self.votes(passage[:n]), _codes(passage[n])[0]
            points = np.flatnonzero(votes.any(axis=1))  # only those that occur: exp may overflow
            for b, beta in enumerate(betas):
                shares = np.exp(beta * (points - points[-1])) @ votes[points]  # (128,)
                chance = shares[truth] / shares.sum()
                surprise[b] -= math.log2((1 - hedge) * chance + hedge / kinds)
        return (surprise / len(places[::step])).tolist()


def _codes(text):
    """Return the character codes of a text, integers below 128; "?" for all others."""
    return np.frombuffer(text.encode("ascii", "replace"), dtype=np.uint8)
