"""The exercises of the chapter on the trained encoder."""

import torch

from utils import checks
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, predictions, untouched

HEADS = predictions({"before": (0, 2), "after": (1, 8)}, {
    "before": {(2, 0): "A pair is (layer, head), in this order.",
               None: "Which (layer, head) has the largest score with offset −1?"},
    "after": {(8, 1): "A pair is (layer, head), in this order.",
              (0, 2): "That one looks back: the token *before* has offset −1.",
              None: "Which (layer, head) has the largest score with offset 1?"}})
FORGOTTEN = predictions(
    {"alone": True, "rows": False, "equal": False, "order": False, "padding": True,
     "suffers": "shortest"},
    {"alone": "Alone it has no padding to look at. And in a batch?",
     "rows": "Softmax hands out a whole 1, to padding too.",
     "equal": "How much padding is there, if all sentences have nine tokens?",
     "order": "Each sentence keeps its padding, wherever in the batch it stands.",
     "padding": "Real tokens look at [PAD], and receive what stands there.",
     "suffers": {"longest": "The longest of a batch has no padding at all.",
                 "all": "The longest of a batch has no padding at all.",
                 None: "One of shortest, longest, all."}})
GOOD = predictions({"as good": False}, {
    "as good": "Measure: the mean over the rows, without [CLS] and [SEP], against hiding, as in "
               "“Among the words”."})


def _which_head(given):
    return _with_program(given, "score", ("before", "after"), HEADS, _score)


def _rolled(given):
    return _with_program(given, "rollout", ("as good",), GOOD, _rollout)


def _with_program(given, name, others, judge, examine):
    """Return what is wrong with a dict of one program, under ``name``, and predictions."""
    if not isinstance(given, dict) or set(given) != {name, *others}:
        return f"The answer is a dict with the keys {', '.join(map(repr, (name, *others)))}."
    rest = dict(given)
    program = rest.pop(name)
    told = f"Still open: {name}." if untouched(program) else examine(program)
    return listed([part for part in (told, judge(rest)) if part])


def _attention(batch=3, layers=2, heads=4, length=7, lengths=(7, 4, 5)):
    """Return (maps, real), random weights (b, layer, h, i, j) with padding, from a fixed seed."""
    draw = torch.Generator().manual_seed(4)
    real = torch.arange(length) < torch.tensor(lengths)[:, None]  # (b, j)
    scores = 2 * torch.randn(batch, layers, heads, length, length, generator=draw)
    return scores.masked_fill(~real[:, None, None, None], -torch.inf).softmax(dim=-1), real


def _like(got, want, *others):
    """Return "" if ``got`` is ``want``, else the sentence of the one of ``others`` that it is."""
    got = torch.as_tensor(checks.to_numpy(got)).float()
    for value, sentence in ((want, ""), *others):
        if got.shape == value.shape and torch.allclose(got, value, atol=1e-4):
            return sentence
    if got.shape != want.shape:
        return f"For this input it is {tuple(want.shape)}, not {tuple(got.shape)}."
    return "The numbers are others; compare with a loop over the definition, on one small example."


def _score(program):
    maps, real = _attention()
    for offset in (-1, 1, 2):
        told = _like(program(maps.clone(), real.clone(), offset), *_scores(maps, real, offset))
        if told:
            return f"score: with offset {offset}: {told}"
    return ""


def _scores(maps, real, offset):
    """Yield the right score, and wrong ones with what is wrong."""
    n = real.shape[1]
    pairs = [(i, i + offset) for i in range(n) if 0 <= i + offset < n]

    def mean(allowed, pairs=pairs, over=None):
        terms = [maps[b, :, :, i, j] for b in range(len(real)) for i, j in pairs
                 if allowed(b, i, j)]
        return sum(terms) / (over or len(terms))

    def both(b, i, j):
        return bool(real[b, i] and real[b, j])

    yield mean(both)
    back = [(j, i) for i, j in pairs]
    yield mean(both, back), "that is the other direction: row i is the query, column j the key."
    yield mean(lambda b, i, j: True), "padding is counted. Both the query and the key must be real."
    yield (mean(both, over=len(real) * len(pairs)),
           "the sum leaves padding out, but you divide by all places.")
    yield (mean(both, over=int(real.sum())),
           "you divide by all tokens, also by those that have no such neighbour.")
    yield (mean(lambda b, i, j: real[b, i]),
           "there are queries in it whose neighbour is padding; their weight is 0.")
    yield (mean(lambda b, i, j: real[b, j]),
           "padding asks in it. The query must be real, too.")
    each = [[maps[b, :, :, i, j] for i, j in pairs if both(b, i, j)] for b in range(len(real))]
    yield (torch.stack([sum(terms) / len(terms) for terms in each]).mean(dim=0),
           "that is the mean of the sentences' means. Every query counts the same.")


def _rollout(program):
    maps, _ = _attention(lengths=(7, 7, 7))
    maps = torch.cat([maps, maps[:, :1].flip(2, 3)], dim=1)  # three layers
    told = _like(program(maps.clone()), *_rollouts(maps))
    return f"rollout: {told}" if told else ""


def _rollouts(maps):
    """Yield the right rollout, and wrong ones with what is wrong."""
    mean, eye = maps.mean(dim=2), torch.eye(maps.shape[-1])

    def product(step, left=True):
        made = step[:, 0]
        for n in range(1, step.shape[1]):
            made = step[:, n] @ made if left else made @ step[:, n]
        return made

    half = (mean + eye) / 2
    yield product(half)
    yield (product(half, left=False),
           "the layers are multiplied in the wrong order: row i of the last layer comes first.")
    yield product(mean), "nothing stays: half of each token is its own, by the residual."
    yield (product(mean + eye),
           "rows should sum to 1. Half stays and half follows: what is missing?")
    yield product(half).mT, "rows and columns are swapped: row i says what token i is made of."
    yield half.prod(dim=1), "that multiplies number by number; layers follow each other by @."
    yield half.mean(dim=1), "that is a mean of the layers; they follow each other by @."
    yield (product(half).mean(dim=1),
           "the mean over the rows comes later: return the whole map.")
    yield (product(half[:, 1:]), "the first layer is missing.")
    yield (product((maps.sum(dim=2) + eye) / 2), "the heads are added up; take their mean.")


check = Check({
    "which_head": Exercise(_which_head, (
        "`maps.diagonal(offset, 3, 4)` is (b, layer, h, …): the weights of query i to key i + "
        "offset. For which queries do they stand there, if offset is −1?",
        "A neighbour counts only if both are real. With offset −1 the query i has its neighbour at "
        "i − 1; `real[:, 1:] & real[:, :-1]` says for which.",
        "Sum over sentences and queries, divide by how many pairs there were. Then `divmod` of the "
        "position of the largest by 12 gives (layer, head)."),
        "Both are there in the first two layers: before a head can look for meaning, somebody has "
        "to say what stands next to what."),
    "forgotten_mask": Exercise(FORGOTTEN, (
        "What differs is only whether a real token looks at padding. In which of the tests is "
        "there padding at all?",
        "A test that compares the program with itself notices only if the amount of padding, or "
        "what stands in it, changes between the two."),
        "The mask shows only where padding changes: alone against batched, or other numbers in "
        "[PAD]. The longest sentence, which one looks at first, is always right."),
    "rollout": Exercise(_rolled, (
        "For one layer: half of the mean over the heads, half of `torch.eye`. Do the rows sum to "
        "1?",
        "Row i of layer 1 mixes the rows of layer 0: `step_1 @ step_0`. Where does layer 5 stand?",
        "For the ρ: the mean over the rows of one sentence without its padding, places 1 to n − 2; "
        "then `spearman` with what hiding does."),
        "Following the weights back through six layers follows them to [CLS], where nothing is "
        "said. A refined sum of weights is still a sum of weights."),
})
