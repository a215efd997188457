"""Judge of `who_bites` in the chapter on loops over heads: three matrices written by hand."""

import torch

from ..attention.torch import attention_per_head

WORDS = ["dog", "bites", "man"]
WANTED = {"dog bites man": [0, 2], "man bites dog": [2, 0]}  # who bites, who is bitten
POSITIONS = ("first", "middle", "last")


def shapes(W):
    """Return what is wrong with the form of {name: matrix}, "" if nothing is."""
    for name, matrix in W.items():
        if matrix.shape != (6, 6):
            return f"{name}: its shape is {tuple(matrix.shape)}, not (6, 6)."
        if not matrix.isfinite().all():
            return (f"{name}: infinity times the 0 of a one-hot vector is NaN. A large number is "
                    "enough.")
    return ""


def verb(W, sentence, n_heads):
    """Return the verb's context (6,) and its weights (h, j)."""
    rows = [WORDS.index(word) for word in sentence.split()]
    eye = torch.eye(3, dtype=torch.float64)
    x = torch.cat([eye[rows], eye], dim=-1)[None]  # (1, j, 6)
    context, weights = attention_per_head(*(x @ W[f"W_{side}"] for side in "qkv"), n_heads)
    return context[0, 1], weights[0, :, 1]


def two_heads(W):
    """Return what is wrong with the contexts of the two heads, "" if nothing is."""
    if _right(W):
        return ""
    if _right({name: matrix.T for name, matrix in W.items()}):
        return ("It would be right with every matrix transposed. The page computes x @ W, so row 3 "
                "multiplies “first position”.")
    if all(not W[name][:3, 3:].any() and not W[name][3:, :3].any() for name in W):
        return ("Each head gets only a slice of x: head 0 the words without their positions, head "
                "1 only the positions. One of W_q, W_k, W_v must connect the two.")
    return _wrong_weights(W, 0) or _wrong_weights(W, 1) or _wrong_values(W)


def _right(W):
    for sentence, words in WANTED.items():
        wanted = torch.eye(3, dtype=torch.float64)[words].flatten()
        if not torch.allclose(verb(W, sentence, 2)[0], wanted, atol=0.01):
            return False
    return True


def _wrong_weights(W, head):
    """Return where the verb attends in one head, if that is wrong in one of the sentences."""
    weights_of = {sentence: verb(W, sentence, 2)[1][head] for sentence in WANTED}
    for sentence, weights in weights_of.items():
        if weights.max() < 0.99:
            shown = " ".join(f"{weight:.2f}" for weight in weights)
            why = "softmax is not hard until one score is much larger than the others."
            if weights.max() - weights.min() < 0.01:
                why = ("all keys have the same score. What do the verb's query and the three keys "
                       "have in common?")
            return f"In “{sentence}” the verb's weights in head {head} are {shown}: {why}"
    one, other = (int(weights.argmax()) for weights in weights_of.values())
    if one != other:
        return (f"Head {head} follows the word {WORDS[one]}: it attends to the {POSITIONS[one]} "
                f"position in one sentence and to the {POSITIONS[other]} in the other. But the "
                "position tells who bites.")
    if one != 2 * head:
        return (f"Head {head} attends to the {POSITIONS[one]} position. Head 0 should find who "
                "bites, head 1 who is bitten.")
    return ""


def _wrong_values(W):
    """Return what the heads return from the right positions, if that is not the word."""
    for sentence, words in WANTED.items():
        context = verb(W, sentence, 2)[0].view(2, 3)
        for head, word in enumerate(words):
            wanted, position = torch.eye(3, dtype=torch.float64)[[word, 2 * head]]
            if torch.allclose(context[head], wanted, atol=0.01):
                continue
            shown = " ".join(f"{number:.2f}" for number in context[head])
            what = f"{shown} where {WORDS[word]} is wanted"
            if torch.allclose(context[head], position, atol=0.01):
                what = "the position to which it attends, and not the word"
            return (f"Both heads attend to the right position. But in “{sentence}” head {head} "
                    f"returns {what}. Only W_v decides that.")
    return ""
