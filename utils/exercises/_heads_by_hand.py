"""Judges for the chapter on loops over heads: matrices written by hand."""

import numpy as np
import torch

from utils.attention.torch import attention_per_head

WORDS = ["dog", "bites", "man"]
WANTED = {"dog bites man": [0, 2], "man bites dog": [2, 0]}  # who bites, who is bitten
PLACES = ("first", "middle", "last")


def matrices(given):
    """Return (W, problem): {name: (6, 6)} of the three matrices, or what is wrong with them."""
    W = {name: torch.as_tensor(np.asarray(given[name], dtype=float))
         for name in ("W_q", "W_k", "W_v")}
    for name, matrix in W.items():
        if matrix.shape != (6, 6):
            return W, f"{name}: its shape is {tuple(matrix.shape)}, not (6, 6)."
        if not matrix.isfinite().all():
            return W, f"{name}: infinity times the 0 of a one-hot is NaN. A large number will do."
    return W, ""


def verb(W, sentence, n_heads):
    """Return the verb's context (6,) and its weights (h, j)."""
    rows = [WORDS.index(word) for word in sentence.split()]
    eye = torch.eye(3, dtype=torch.float64)
    x = torch.cat([eye[rows], eye], dim=-1)[None]  # (1, j, 6)
    context, weights = attention_per_head(*(x @ W[f"W_{side}"] for side in "qkv"), n_heads)
    return context[0, 1], weights[0, :, 1]


def two_heads(W):
    """Return what is wrong with the two contexts, "" if nothing is."""
    if _right(W):
        return ""
    if _right({name: matrix.T for name, matrix in W.items()}):
        return ("It would be right with every matrix transposed. A word goes in from the left, "
                "x @ W: row 3 is what “first place” becomes.")
    if all(not W[name][:3, 3:].any() and not W[name][3:, :3].any() for name in W):
        return ("Each head gets a slice: head 0 knows the words and not where they stand, head 1 "
                "only the places. One of W_q, W_k, W_v has to lead across.")
    return next((said for head in (0, 1) if (said := _looks(W, head))), "") or _brings(W)


def _right(W):
    for sentence, words in WANTED.items():
        wanted = torch.eye(3, dtype=torch.float64)[words].flatten()
        if not torch.allclose(verb(W, sentence, 2)[0], wanted, atol=0.01):
            return False
    return True


def _looks(W, head):
    """Return where a head looks, if that is not where it should, in both sentences."""
    seen = {sentence: verb(W, sentence, 2)[1][head] for sentence in WANTED}
    for sentence, weights in seen.items():
        if weights.max() < 0.99:
            shown = " ".join(f"{weight:.2f}" for weight in weights)
            why = ("no key answers louder than another. What do the verb's query and the three "
                   "keys have in common?" if weights.max() - weights.min() < 0.01 else
                   "softmax is not hard until one score leads by a good margin.")
            return f"In “{sentence}” the verb's weights in head {head} are {shown}: {why}"
    one, other = (int(weights.argmax()) for weights in seen.values())
    if one != other:
        return (f"Head {head} follows the word {WORDS[one]}: it looks at the {PLACES[one]} place "
                f"in one sentence, at the {PLACES[other]} in the other. Who bites is a matter of "
                "place.")
    if one != 2 * head:
        return (f"Head {head} looks at the {PLACES[one]} place. Head 0 is to find who bites, "
                "head 1 who is bitten.")
    return ""


def _brings(W):
    """Return what the heads bring home from the right places, if that is not the word."""
    for sentence, words in WANTED.items():
        context = verb(W, sentence, 2)[0].view(2, 3)
        for head, word in enumerate(words):
            wanted = torch.eye(3, dtype=torch.float64)[[word, 2 * head]]
            if torch.allclose(context[head], wanted[0], atol=0.01):
                continue
            shown = " ".join(f"{number:.2f}" for number in context[head])
            what = ("the place where it looked, and not the word"
                    if torch.allclose(context[head], wanted[1], atol=0.01)
                    else f"{shown} where {WORDS[word]} is wanted")
            return (f"Both heads look where they should. But in “{sentence}” head {head} brings "
                    f"home {what}. That is W_v's doing.")
    return ""
