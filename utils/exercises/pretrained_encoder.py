"""The exercises of the chapter on the trained encoder."""

import torch

from .. import checks
from ._check import Check, Exercise
from ._judges import each_prediction, parts, prediction, predictions, recognise

HEADS = each_prediction({"before": (0, 2), "after": (1, 8)}, {
    "before": {(2, 0): "A pair must be (layer, head), in this order.",
               None: "Which (layer, head) has the largest score with offset −1?"},
    "after": {(8, 1): "A pair must be (layer, head), in this order.",
              (0, 2): "This one attends to the token *before*, which has offset −1.",
              None: "Which (layer, head) has the largest score with offset 1?"}})
PADDED = "Shorter sentences have padding beside them, and their tokens attend to it."
FORGOTTEN = predictions(
    {"alone": True, "rows": False, "equal": False, "order": False, "padding": True,
     "right": "longest"},
    {"alone": "Alone, a sentence has no padding to which it could attend. And in a batch?",
     "rows": "Softmax always gives weights that sum to 1, with padding included, too.",
     "equal": "How much padding is there if all sentences have nine tokens?",
     "order": "Each sentence keeps its padding, wherever it is in the batch.",
     "padding": "Real tokens attend to [PAD], so they depend on its embedding.",
     "right": {"shortest": PADDED, "all": PADDED, None: "Answer shortest, longest or all."}})


def _attention(batch=3, layers=2, heads=4, length=7, lengths=(7, 4, 5)):
    """Return (maps, real): random weights (b, layer, h, i, j) and a padding mask (b, i)."""
    draw = torch.Generator().manual_seed(4)
    real = torch.arange(length) < torch.tensor(lengths)[:, None]  # (b, j)
    scores = 2 * torch.randn(batch, layers, heads, length, length, generator=draw)
    return scores.masked_fill(~real[:, None, None, None], -torch.inf).softmax(dim=-1), real


def _compare(got, candidates):
    """Return the message of the candidate that ``got`` equals, or a general one."""
    got, candidates = torch.as_tensor(checks.to_numpy(got)).float(), list(candidates)
    message = recognise(got, candidates, 1e-4)
    wanted = candidates[0][0].shape
    if message is None and got.shape != wanted:
        return f"for this input it must be {tuple(wanted)}, not {tuple(got.shape)}."
    if message is None:
        return "the numbers are wrong; compare with a loop over the definition, on a small example."
    return message


def _score(program):
    maps, real = _attention()
    for offset in (-1, 1, 2):
        message = _compare(program(maps.clone(), real.clone(), offset),
                           _known_scores(maps, real, offset))
        if message:
            return f"with offset {offset}: {message}"
    return ""


def _known_scores(maps, real, offset):
    """Yield (score, message), the right one first."""
    n = real.shape[1]
    pairs = [(i, i + offset) for i in range(n) if 0 <= i + offset < n]

    def mean(allowed, pairs=pairs, over=None):
        terms = [maps[b, :, :, i, j] for b in range(len(real)) for i, j in pairs
                 if allowed(b, i, j)]
        return sum(terms) / (over or len(terms))

    def both(b, i, j):
        return bool(real[b, i] and real[b, j])

    yield mean(both), ""
    back = [(j, i) for i, j in pairs]
    yield mean(both, back), "that is the other direction: row i is the query, column j the key."
    yield (mean(lambda b, i, j: True),
           "padding is counted, but both the query and the key must be real.")
    yield (mean(both, over=len(real) * len(pairs)),
           "the sum leaves padding out, but you divide by the number of all positions.")
    yield (mean(both, over=int(real.sum())),
           "you divide by the number of all tokens, also of those without such a neighbour.")
    yield (mean(lambda b, i, j: real[b, i]),
           "it counts queries whose neighbour is padding, with weight 0.")
    yield (mean(lambda b, i, j: real[b, j]),
           "it counts queries that are padding. The query must be real, too.")
    each = [[maps[b, :, :, i, j] for i, j in pairs if both(b, i, j)] for b in range(len(real))]
    yield (torch.stack([sum(terms) / len(terms) for terms in each]).mean(dim=0),
           "that is the mean of the sentences' means, but every query must count the same.")


def _rollout(program):
    maps, _ = _attention(lengths=(7, 7, 7))
    maps = torch.cat([maps, maps[:, :1].flip(2, 3)], dim=1)  # three layers
    return _compare(program(maps.clone()), _known_rollouts(maps))


def _known_rollouts(maps):
    """Yield (rollout, message), the right one first."""
    mean, eye = maps.mean(dim=2), torch.eye(maps.shape[-1])

    def product(step, left=True):
        made = step[:, 0]
        for n in range(1, step.shape[1]):
            made = step[:, n] @ made if left else made @ step[:, n]
        return made

    half = (mean + eye) / 2
    yield product(half), ""
    yield (product(half, left=False),
           "you multiply the layers in the wrong order: the last layer must be on the left.")
    yield product(mean), "the residual is missing: half of each token stays where it is."
    yield (product(mean + eye),
           "the rows must sum to 1: half stays and half follows the weights.")
    yield product(half).mT, "rows and columns are exchanged: row i says what token i is made of."
    yield (half.prod(dim=1),
           "you multiply element by element; use @ for layers that follow each other.")
    yield half.mean(dim=1), "that is a mean of the layers; use @ for layers that follow each other."
    yield (product(half).mean(dim=1),
           "take the mean over the rows later: return the whole map.")
    yield (product(half[:, 1:]), "the first layer is missing.")
    yield (product((maps.sum(dim=2) + eye) / 2), "you add up the heads; take their mean.")


check = Check({
    "which_head": Exercise(parts({"score": _score} | HEADS), (
        "`maps.diagonal(offset, 3, 4)` is (b, layer, h, …): the weights of query i to key i + "
        "offset. Which queries are these if offset is −1?",
        "A pair counts only if both are real. With offset −1 the neighbour of query i is at i − 1; "
        "`real[:, 1:] & real[:, :-1]` says for which pairs both are real.",
        "Sum over sentences and queries, and divide by the number of pairs. Then `divmod` of the "
        "index of the largest by 12 gives (layer, head)."),
        "Both heads are in the first two layers: later layers can use what these heads say about "
        "neighbouring tokens."),
    "forgotten_mask": Exercise(FORGOTTEN, (
        "The only difference is whether a real token attends to padding. In which of the tests is "
        "there padding at all?",
        "A test that compares the program with itself catches it only if the padding, its amount "
        "or its embedding, changes between the two runs."),
        "A test catches it only if padding changes: alone against batched, or other numbers in "
        "[PAD]. The longest sentence of a batch is always right."),
    "rollout": Exercise(parts({
        "rollout": _rollout,
        "as good": prediction(False, "Measure it: the mean over the rows, without [CLS] and [SEP], "
                                     "against hiding, as in “Among the words”.")}), (
        "For one layer, take half of the mean over the heads and half of `torch.eye`. Do the rows "
        "sum to 1?",
        "Row i of layer 1 mixes the rows of layer 0: `step_1 @ step_0`. Where must layer 5 be?",
        "For the ρ, take the mean over the rows of one sentence without its padding, positions 1 "
        "to n − 2; then `spearman` with the effect of hiding."),
        "If you follow the weights back through six layers, many lead to [CLS], whose value has "
        "little effect. Rollout, too, is only a sum of weights."),
})
