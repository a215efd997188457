"""The judge of the sixth milestone: does ``train`` teach a model the next token?

First, ``steps`` looks at a few steps. Then ``train`` trains a model on the manual of Python, and
the bits on held-out passages must be below a bound.
"""

import functools
import math

import torch
import torch.nn.functional as F

from ...models import corpus, ngrams
from . import probes, steps
from .solution import Model as OurModel, train as our_train

STEPS, SIZE = 150, (64, 4, 2)  # d_model, n_heads, n_layers
MARGIN = 0.5     # bits by which counting single characters must be beaten
TOO_GOOD = 1.5   # bits that no right model reaches in so few steps


def training(answer, build=OurModel):
    """Judge train(model, tokens, steps), which trains in place; ``build`` makes the model."""
    with probes.seeded():
        message = steps.watched(answer, build)
        if message:
            return message
    _, reached, pieces = _trained(answer, build)
    counted = _counted()
    if TOO_GOOD < reached < counted - MARGIN:
        return ""
    if reached <= TOO_GOOD:
        return (f"Held-out passages cost {reached:.2f} bits per character after {STEPS} steps. "
                "That is too good: no right model gets there so soon. Somewhere the model sees "
                "the token that it must predict → chapter decoder_mask.")
    message = _part_of_the_text(pieces)
    if message:
        return message
    said = (f"After {STEPS} steps, held-out passages cost {reached:.2f} bits per character; "
            f"counting single characters needs {counted:.2f}, and {counted - MARGIN:.2f} is the "
            "bound. ")
    if build is not OurModel:
        ours = _trained(answer, OurModel)[1]
        if ours < counted - MARGIN:
            theirs = _trained(our_train, build)[1]
            if theirs < counted - MARGIN:
                return (f"{said}Your `train` brings our model to {ours:.2f}, and our `train` "
                        f"brings your model to {theirs:.2f}: both are right, but your steps are "
                        "too small for your model. Try a learning rate of 3e-3 to 1e-2.")
            return (f"{said}Your `train` brings our model to {ours:.2f}, so it is right, and the "
                    "fault is in your model, or in how its parameters start.")
    return (f"{said}The targets are right. Is the learning rate of AdamW between 3e-3 and 1e-2, "
            "and does a step see 16 pieces or so → chapter language_model?")


def written(train, build, write, start="The ", n=100):
    """Return a sentence on what a right file has learned in 150 steps, and what it writes."""
    model, reached, _ = _trained(train, build)
    vocabulary = text()[2].vocabulary
    with probes.seeded():
        tokens = write(model, corpus.rows([start], vocabulary), n, 0.7)[0]
    return (f"After {STEPS} steps, your model needs {reached:.2f} bits per character on 64 "
            f"passages that it has not seen; counting single characters needs {_counted():.2f}. "
            f"It writes:\n\n{corpus.decode(tokens, vocabulary)}")


def text():
    """Return (tokens to train on (n,), held-out passages (b, 129), Corpus)."""
    found = corpus.split(corpus.manual())
    return (corpus.encode(found.train, found.vocabulary),
            corpus.rows(found.passages[:64], found.vocabulary), found)


def _part_of_the_text(pieces):
    """Return what is wrong if all pieces that the model was given are from one part of the text."""
    whole = "".join(map(chr, text()[0].tolist()))
    starts = [whole.find("".join(map(chr, row))) for row in pieces]
    first, last = min(starts, default=0), max(starts, default=0)
    if first < 0 or last - first > 0.5 * len(whole):
        return ""
    return (f"All pieces start between characters {first:,} and {last:,} of a text of "
            f"{len(whole):,}, so the model sees a small part of it again and again. Draw the "
            "starts from the whole text.")


@functools.lru_cache(maxsize=3)
def _trained(answer, build):
    """Return (a new model that ``answer`` has trained, its bits, the pieces that it was given).

    The bits are those per held-out character, and the pieces are rows of tokens.
    """
    tokens, passages, found = text()
    pieces = []
    with probes.seeded():
        model = build(len(found.vocabulary), *SIZE)
        hook = model.register_forward_pre_hook(lambda _, given: pieces.extend(given[0].tolist()))
        answer(model, tokens, STEPS)
        hook.remove()
    with torch.no_grad():
        logits = model.cpu().eval()(passages[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, passages[:, 1:].flatten()).item() / math.log(2)
    return model, loss if math.isfinite(loss) else math.inf, pieces


def _counted():
    """Return the bits that counting single characters needs on the same passages."""
    found = text()[2]
    return ngrams.NGrams(found.train, 1, found.vocabulary).bits(found.passages[:64])[1]
