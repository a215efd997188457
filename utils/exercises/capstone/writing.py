"""The judge of the seventh milestone: does ``write`` append what the model predicts?"""

import torch
from torch import nn

from . import probes
from .solution import Model as OurModel

V, SIZE = 23, (24, 3, 2)
START, NEW = 5, 12
DRAWS = 4000


def writing(answer, build=OurModel):
    """Judge write(model, tokens, n, temperature), (b, i) -> (b, i + n); ``build`` makes a model."""
    with probes.seeded():
        model = _sensitive(build(V, *SIZE))
        for batch in (1, 2):
            message = _greedy(answer, model, torch.randint(V, (batch, START)))
            if message:
                return message
        return (_long(answer, model) or _drawn(answer, model)
                or _dropout(answer, _sensitive(build(V, *SIZE))))


@torch.no_grad()
def _sensitive(model):
    """Give a model large random matrices, so that every token matters; return it in eval mode."""
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.4)
    return model.eval()


@torch.no_grad()
def _written(model, tokens, n, choose):
    """Return tokens with n more, of which ``choose(model, tokens)`` gives one after another."""
    for _ in range(n):
        tokens = torch.cat((tokens, choose(model, tokens)[:, None]), dim=1)
    return tokens


def _greedy(answer, model, tokens):
    """Return what is wrong with the text at temperature 0."""
    given = tokens.clone()
    try:
        got = answer(model, tokens, NEW, 0)
    except (RuntimeError, ValueError, ZeroDivisionError) as error:
        if not isinstance(error, ZeroDivisionError) and "probability" not in str(error):
            raise
        answer(model, tokens, NEW, 1.0)
        return ("At temperature 0 it raises an error, and at 1 it does not: instead of dividing "
                "the logits by 0, take the likeliest token.")
    said = f"For tokens {tuple(tokens.shape)} and n={NEW}, write"
    if not torch.equal(given, tokens):
        return "write changes the tokens that it is given; append to a new tensor, with torch.cat."
    if isinstance(got, torch.Tensor) and tuple(got.shape) == (len(tokens), NEW):
        if torch.equal(got[:, :START], tokens):
            return f"{said} returns {NEW} tokens in all; n counts the new ones."
        return f"{said} returns the {NEW} new tokens alone; the prompt must come first."
    message = probes.wrong_tensor(got, (len(tokens), START + NEW), said)
    if message:
        return message
    if not torch.equal(got[:, :START], tokens):
        return f"{said} must return a text that begins with the prompt."
    for known, message in _known_texts(model, tokens):
        if torch.equal(got, known):
            return message
    if not torch.equal(got, answer(model, tokens, NEW, 0)):
        return "At temperature 0, two calls differ: take the likeliest token, without a draw."
    step = int((got != next(_known_texts(model, tokens))[0]).any(dim=0).nonzero()[0]) - START
    return (f"At temperature 0, new token {step} is not the likeliest one of model(tokens so "
            "far)[:, -1] → chapter language_model.")


def _known_texts(model, tokens):
    """Yield (text, message), the right text first."""
    def text(choose):
        return _written(model, tokens, NEW, choose)

    yield text(lambda model, tokens: model(tokens)[:, -1].argmax(dim=-1)), ""
    yield text(lambda model, tokens: model(tokens)[:, 0].argmax(dim=-1)), (
        "It reads the logits at position 0, which predict token 1. The next token of the text is "
        "predicted at the last position: [:, -1].")
    yield text(lambda model, tokens: model(tokens[:, -1:])[:, -1].argmax(dim=-1)), (
        "It gives the model the last token alone. Without a cache, each step needs all tokens so "
        "far → chapter kv_cache.")
    yield text(lambda model, _: model(tokens)[:, -1].argmax(dim=-1)), (
        "It gives the model the prompt in each step, without the tokens that it has written.")
    yield text(lambda model, tokens: model(tokens)[:, -1].argmin(dim=-1)), (
        "At temperature 0, it takes the least likely token.")
    yield text(lambda model, tokens: tokens[:, -1]), "It repeats the last token."


def _long(answer, model):
    """Return what is wrong when the text grows longer than the model's context."""
    lengths = []
    context = model.context
    hook = model.register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[1]))
    tokens = torch.randint(V, (8, context - 3))
    too_long = (f"When a text grows beyond {context} tokens, the model is given more than "
                "`model.context`. Give it the last tokens only: tokens[:, -model.context:].")
    try:
        got = answer(model, tokens, 8, 0)
    except Exception:
        if max(lengths, default=0) > context:
            return too_long
        raise
    finally:
        hook.remove()
    if max(lengths, default=0) > context:
        return too_long
    if 0 < max(lengths, default=0) < context:
        return (f"With a text of {context} tokens and more, it gives the model the last "
                f"{max(lengths)} only. The model takes {context} at once: "
                "tokens[:, -model.context:].")
    want = _written(model, tokens, 8, lambda model, tokens: model(
        tokens[:, -context:])[:, -1].argmax(dim=-1))
    if torch.equal(got, want):
        return ""
    if got.shape == want.shape and not torch.equal(got[:, :context], want[:, :context]):
        return (f"After a prompt of {context - 3} tokens, which the model takes at once, the first "
                "new tokens are wrong: does it leave out a part of the prompt?")
    return (f"The text is right up to {context} tokens, and wrong beyond: the model must then see "
            f"its last {context} tokens, and the result must keep all of them.")


@torch.no_grad()
def _drawn(answer, model):
    """Return what is wrong with the frequencies of drawn tokens."""
    tokens = torch.randint(V, (1, START))
    logits = model(tokens)[0, -1]
    logits = 2 * (logits - logits.mean()) / logits.std()
    try:
        fixed = _Fixed(logits, model.context)
        answer(fixed, tokens, 1, 1.0)
        model = fixed
    except AttributeError:  # write uses the parts of the model, for a cache
        logits = model(tokens)[0, -1]
    for temperature in (1.0, 0.5, 2.0):
        got = answer(model, tokens.expand(DRAWS, -1), 1, temperature)[:, -1]
        found = torch.bincount(got, minlength=V) / DRAWS
        known = [((logits / temperature).softmax(-1), ""),
                 ((logits * temperature).softmax(-1),
                  "The logits must be *divided* by the temperature; yours are multiplied."),
                 (logits.softmax(-1), "The temperature has no effect: divide the logits by it."),
                 (nn.functional.one_hot(logits.argmax(), V),
                  f"At temperature {temperature:g} it takes the likeliest token always; it must "
                  "be drawn, with torch.multinomial."),
                 (torch.full((V,), 1 / V), "All tokens are drawn alike, whatever the model says.")]
        distances = [(found - chances).abs().sum().item() / 2 for chances, _ in known]
        nearest = min(range(len(known)), key=distances.__getitem__)
        if distances[0] < 0.1:
            continue
        return known[nearest][1] if distances[nearest] < 0.1 else (
            f"At temperature {temperature:g}, the tokens are not drawn with the probabilities "
            "softmax(logits / temperature) of the last position.")
    return ""


def _dropout(answer, model):
    """Return what is wrong if dropout, which a model in training has, stays on in writing."""
    tokens = torch.randint(V, (8, START))
    right = answer(model, tokens, NEW, 0)
    model.train()
    if torch.equal(answer(model, tokens, NEW, 0), right):
        return ""
    return ("Your model has dropout, and write leaves it on after training, so a part of the "
            "numbers is set to 0 at random: call model.eval() first in write → chapter "
            "pytorch_in_one_page.")


class _Fixed(nn.Module):
    """A model that gives the same logits everywhere, but others at all positions but the last."""

    def __init__(self, logits, context):
        super().__init__()
        self.logits, self.context = logits, context

    def forward(self, tokens):
        """Return logits (b, n, V)."""
        out = self.logits.flip(0).expand(*tokens.shape, -1).clone()
        out[:, -1] = self.logits
        return out
