"""The judge of a beam search, for the chapter on the language model."""

import torch
from torch import nn

LETTERS, START, LENGTH = "abcdef", "cab", 5
WIDTHS = (1, 2, 3, 5)
SEED = 30  # of the model: with this one, each of the mistakes gives a text of its own


class _Pairs(nn.Module):
    """A model of six letters: the next one depends on the last two, (b, i) -> (b, i, 6)."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(SEED)
        chances = 1.2 * torch.randn(6, 6, 6, generator=generator, dtype=torch.float64)
        # Logits that are no logs of probabilities: each row has a constant of its own.
        self.logits = nn.Parameter(chances + 3 * torch.randn(6, 6, 1, generator=generator))

    def forward(self, tokens):
        """Return the logits of each next letter."""
        before = torch.cat((tokens[:, :1], tokens[:, :-1]), dim=1)
        return self.logits[before, tokens]


def judge_beam(beam):
    """Judge beam(model, vocabulary, start, length, width), which returns a text."""
    model = _Pairs()
    for width in WIDTHS:
        found = beam(model, LETTERS, START, LENGTH, width)
        if not isinstance(found, str):
            return (f"It must return one text, a str that begins with {START!r}, not "
                    f"{type(found).__name__}.")
        message = _wrong_text(model, found, width)
        if message:
            return f"With width {width}: {message}"
    return ""


def _wrong_text(model, found, width):
    """Return what is wrong with a text, "" if it is the right one."""
    right = search(model, width)
    if found == right:
        return ""
    if START + found == right:
        return "the start is missing: return it with what follows."
    if len(found) != len(START) + LENGTH or not found.startswith(START):
        return (f"it returns {len(found)} characters; expected are the {len(START)} of the start "
                f"and {LENGTH} new ones.")
    for options, message in MISTAKES:
        if found == search(model, width, **options):
            return message
    return (f"{found!r} is not the likeliest text that is kept. Extend each beginning by each "
            "character, and add the log of its probability to the sum so far.")


def search(model, width, chance="log", rank="sum", pool="all", pick=0):
    """Return the text that a beam search finds; the options make its mistakes."""
    beams = [(0.0, [LETTERS.index(letter) for letter in START])]
    if rank == "greedy":
        width = 1
    for _ in range(LENGTH):
        families = []
        for total, tokens in beams:
            logits = model(torch.tensor([tokens]))[0, -1].detach()
            scores = {"log": logits.log_softmax(0), "logits": logits,
                      "probability": logits.softmax(0)}[chance]
            before = 0.0 if rank == "last" else total
            families.append(_best([(before + score, [*tokens, letter])
                                   for letter, score in enumerate(scores.tolist())]))
        if pool == "own" and len(beams) == width:
            families = [family[:1] for family in families]
        beams = _best([child for family in families for child in family])[:width]
    return "".join(LETTERS[token] for token in beams[pick][1])


def _best(beams):
    """Return beams with the highest score first."""
    return sorted(beams, key=lambda beam: -beam[0])


MISTAKES = (
    ({"rank": "greedy"},
     "this is the text that always takes the likeliest character. Several beginnings must be kept "
     "from step to step."),
    ({"chance": "logits"},
     "you add logits. They may all be larger after one beginning than after another: first turn "
     "them into logs of probabilities, which log_softmax does."),
    ({"chance": "probability"},
     "you add probabilities. The probability of a text is a product, so add their logs."),
    ({"rank": "last"},
     "beginnings are compared by their last character alone. Keep the sum of each beginning and "
     "add to it."),
    ({"pool": "own"},
     "each beginning keeps its own best character, so none of them can have two children. Compare "
     "all children of all beginnings, and keep the best."),
    ({"pick": -1},
     "this is the least likely of the beginnings that are kept at the end: return the likeliest."),
)
