"""The exercise "A second head" of the chapter on self-attention.

The columns of a token vector are person, animal, action, time, article, owning and many.
"""

import numpy as np

from .. import reference
from ..checks import to_numpy
from ._judges import incomplete

SECOND = {"W_q": 1, "W_k": 1, "W_v": 1}
WORDS = ["the", "students", "lost", "their", "dog", "yesterday"]
THEIR, DOG = 3, 4


def _tokens():
    """Return the token vectors of the page, and what its first head makes of them, (i, d_in)."""
    sentence, eye = np.zeros((6, 7)), np.eye(7)
    sentence[range(6), [4, 0, 2, 5, 1, 3]] = 2
    sentence[[1, 3], 6] = 1
    W_q, W_k, W_v = 2 * eye[:, [5, 2]], eye[:, [0, 1]], eye[:, [0, 1, 2]]
    context, _ = reference.attention(sentence @ W_q, sentence @ W_k, sentence @ W_v)
    return sentence, sentence + context @ W_v.T


def _head(x, matrices):
    """Return context (i, 1) and weights (i, j) of a head with {name: matrix}."""
    return reference.attention(*(x @ matrices[name] for name in ("W_q", "W_k", "W_v")))


def second_head(given):
    """Judge the matrices of a head by which "dog" learns who owns it."""
    if message := incomplete(given, SECOND):
        return message
    matrices = {name: np.asarray(to_numpy(given[name]), dtype=float) for name in SECOND}
    for name, matrix in matrices.items():
        if matrix.shape != (7, 1):
            return (f"{name} is {matrix.shape}, not (7, 1): it has one column, and a row for each "
                    "column of out.")
    sentence, out = _tokens()
    context, weights = _head(out, matrices)
    seen, best = weights[DOG], WORDS[int(weights[DOG].argmax())]
    if np.ptp(seen) < 1e-9:
        return "dog attends to all six tokens equally: its query, or every key, is 0."
    if best != "their" and np.isclose(seen.max(), seen[THEIR]):
        return f"dog attends to {best} and to their equally. Which column tells these two apart?"
    if best == "students":
        return ("dog attends to students. But there could be students who own nothing. Which word "
                "says that something is owned, and has received by whom?")
    if best != "their":
        return (f"dog attends most to {best}. Which word owns? Which column tells it from the "
                "others?")
    if seen[THEIR] <= 0.95:
        return (f"dog attends most to their, but with a weight of {seen[THEIR]:.2f} only. How can "
                "the score be made larger?")
    if message := _who_else_asks(weights[:, THEIR], out):
        return message
    return _received(context[DOG, 0], _head(sentence, matrices)[0][DOG, 0])


def _who_else_asks(given, out):
    """Return which other token gives "their" half of its weight, given (i,), and why, or ""."""
    others = [n for n in range(6) if n != DOG and given[n] >= 0.5]
    if len(others) == 5:
        return "All tokens attend to their, but only dog should ask."
    if not others:
        return ""
    n = max(others, key=lambda token: given[token])
    why = (f"The first head has brought it {out[n, 1]:.2f} of animal. Which other column tells it "
           "from dog?" if out[n, 1] > 0.1 else "Which columns does W_q read?")
    return f"{WORDS[n]} gives their {given[n]:.2f} of its weight, too. {why}"


def _received(context, before):
    """Judge the context of "dog", after the first head and before it."""
    if abs(before) > 0.2:
        return (f"dog attends to their, and receives {context:.2f}. But without the first head it "
                f"would receive {before:.2f}, too: W_v must hand over what their has received, "
                "not what it is.")
    if abs(context) < 0.2:
        return "dog attends to their, but receives next to nothing. What does W_v read?"
    if abs(context - 1.97) > 0.1:
        return (f"dog attends to their, but receives {context:.2f}, not about 1.97. W_v should "
                "hand over the column person as it is.")
    return ""
