"""Counting: how well the last few characters foretell the next one, without any training.

``SoftLookup`` is the program of chapter `soft_lookup`, asked for as many passages as one likes.
"""

import math
from collections import Counter

import numpy as np


class NGrams:
    """Counts of all strings of up to ``order`` characters in a text.

    ``vocabulary``: all characters that may ever come; each has a chance, if a small one.
    """

    def __init__(self, text, order, vocabulary):
        self.order, self.characters = order, len(vocabulary)
        self.counts = [Counter(text[n:n + k] for n in range(len(text) - k + 1))
                       for k in range(1, order + 1)]
        # After each string: how often anything came, and how many different characters.
        self.after = [Counter() for _ in range(order)]
        self.kinds = [Counter() for _ in range(order)]
        for k, counts in enumerate(self.counts):
            for gram, count in counts.items():
                self.after[k][gram[:-1]] += count
                self.kinds[k][gram[:-1]] += 1

    def chances(self, before, character):
        """Return the probability of a character by orders 0 … ``order``, a list of floats.

        Order 0 gives every character the same; each further order mixes what came after one
        character more with the order below, which weighs as much as the number of different
        characters seen there (interpolated Witten-Bell). ``before``: the text so far.
        Compared with others by Chen and Goodman 1996, https://arxiv.org/abs/cmp-lg/9606011.
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
        """Return the mean surprise, in bits per character, by orders 0 … ``order``.

        Each passage is asked from its second character on, and nothing before it is known.
        """
        surprise, asked = [0.0] * (self.order + 1), 0
        for passage in passages:
            for n in range(1, len(passage)):
                asked += 1
                for k, chance in enumerate(self.chances(passage[:n], passage[n])):
                    surprise[k] -= math.log2(chance)
        return [total / asked for total in surprise]


class SoftLookup:
    """A soft lookup of the next character among all places of a text.

    Query: the last ``span`` characters; keys: those before each place, which score a point for the
    first that agrees, two for the second, and so on; values: the characters that followed.
    """

    def __init__(self, text, span=6):
        codes, self.span = _codes(text), span
        self.keys = [codes[n:len(codes) - span + n] for n in range(span)]  # (j,) each
        self.values = codes[span:].astype(np.int64)

    def votes(self, before):
        """Count the places by points and by the character that followed, (points, 128).

        ``before``: the text so far, at least ``span`` characters of it.
        """
        query, most = _codes(before[-self.span:]), self.span * (self.span + 1) // 2
        points = np.zeros(len(self.values), dtype=np.uint8)
        for n, key in enumerate(self.keys):
            points += np.uint8(n + 1) * (key == query[n])
        cells = np.bincount(points * np.int64(128) + self.values, minlength=(most + 1) * 128)
        return cells.reshape(most + 1, 128)

    def bits(self, passages, betas, kinds, step=1, hedge=0.01):
        """Return the mean surprise, in bits, for each inverse temperature of ``betas``.

        Asked is every ``step``-th place of the passages, but not their first ``span`` characters.
        ``hedge``: the share of probability that all ``kinds`` of characters divide, for the lookup
        may be certain and wrong.
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
