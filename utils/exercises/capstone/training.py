"""The judge of the sixth milestone: does ``train`` teach a model the next token?

First, ``train`` gets a text that counts 0, 1, 2, …: its gradient then says which token it wants at
each position. Then it trains a model on the manual of Python, and the bits on held-out passages
must be below a bound.
"""

import copy
import math

import torch
import torch.nn.functional as F

from utils.exercises.capstone import probes
from utils.exercises.capstone.solution import Model as OurModel
from utils.models import corpus, ngrams

STEPS, SIZE = 150, (64, 4, 2)  # d_model, n_heads, n_layers
MARGIN = 0.5     # bits by which counting single characters must be beaten
TOO_GOOD = 1.5   # bits that no right model reaches in so few steps
V = 23           # tokens of the text that counts; the model has twice as many
WANTS = {0: "the token that the model has just been given: the targets are not shifted. Position i "
            "must predict token i + 1",
         -1: "the token *before* the one that it is given: the shift goes the wrong way",
         2: "the token two places ahead: the targets are shifted twice"}


def training(answer, build=OurModel):
    """Judge train(model, tokens, steps), which trains in place; ``build`` makes the model."""
    with probes.seeded():
        message = _watched(answer, build)
        if message:
            return message
        reached, counted = _bits(answer, build), _counted()
    if TOO_GOOD < reached < counted - MARGIN:
        return ""
    if reached <= TOO_GOOD:
        return (f"Held-out passages cost {reached:.2f} bits per character after {STEPS} steps. "
                "That is too good: no right model gets there so soon. Somewhere the model sees "
                "the token that it must predict → chapter decoder_mask.")
    said = (f"After {STEPS} steps, held-out passages cost {reached:.2f} bits per character; "
            f"counting single characters needs {counted:.2f}, and {counted - MARGIN:.2f} is the "
            "bound. ")
    if build is not OurModel:
        with probes.seeded():
            ours = _bits(answer, OurModel)
        if ours < counted - MARGIN:
            return (f"{said}Your `train` brings our model to {ours:.2f}, so it is right, and the "
                    "fault is in your model, or in how its parameters start.")
    return (f"{said}The targets are right. Is the learning rate of AdamW between 3e-4 and 1e-2, "
            "and does a step see 16 pieces or so → chapter language_model?")


def _watched(answer, build):
    """Return what the gradients of a few steps show to be wrong."""
    model = build(2 * V, 24, 3, 1)
    tokens = torch.arange(20 * V + 3 * model.context) % V
    before, steps = copy.deepcopy(model.state_dict()), []
    hook = model.register_forward_hook(lambda _, given, logits: _watch(
        model, given[0], logits, steps))
    answer(model, tokens.clone(), 6)
    hook.remove()
    if len(steps) < 6:
        return (f"Asked for 6 steps, it makes {len(steps)}: each step calls model(pieces), and "
                "loss.backward() on the loss of its logits.")
    changed = any(not torch.equal(value, before[name])
                  for name, value in model.state_dict().items())
    if not changed:
        return ("After 6 steps, no parameter has changed: call optimiser.step(), with an "
                "optimiser of model.parameters().")
    if all(left for _, _, left in steps[1:]):
        return ("Each gradient is added to those of the steps before: call "
                "optimiser.zero_grad() before loss.backward() → chapter language_model.")
    if all(torch.equal(given, steps[0][0]) for given, _, _ in steps):
        return ("All steps see the same pieces of the text, so the model learns these by heart: "
                "draw new starts in each step.")
    return _wrong_targets(steps)


def _watch(model, given, logits, steps):
    """Record a step when its backward pass begins: the tokens, the gradient, gradients left."""
    def begin(gradient):
        left = any(parameter.grad is not None and bool(parameter.grad.any())
                   for parameter in model.parameters())
        steps.append((given, gradient, left))

    if logits.requires_grad:
        logits.register_hook(begin)


def _wrong_targets(steps):
    """Return what is wrong with the tokens that the gradients want, or with the loss."""
    given, gradient, _ = steps[0]
    asked = gradient.abs().sum(dim=-1) > 0  # (b, n)
    if asked.float().mean() < 0.5:
        return (f"Only {asked.float().mean():.0%} of the positions have a loss. Every position "
                "predicts its next token: use all logits → chapter decoder_mask.")
    # Cross-entropy raises the target's logit alone, so there the gradient is lowest.
    wanted = (gradient.argmin(dim=-1) - given)[asked] % V
    common = wanted.mode().values.item()
    offset = common - V if common > V // 2 else common
    if (wanted == common).float().mean() < 0.9:
        return ("The gradients do not ask for one token at each position: logits and targets do "
                "not belong together. Flatten (b, n, n_tokens) to (b · n, n_tokens), so that the "
                "last axis of the logits stays that of the tokens → chapter language_model.")
    if offset != 1:
        return f"The loss asks for {WANTS.get(offset, f'the token {offset} places ahead')}."
    if gradient[..., V:].sum() < 0.02 * gradient.abs().sum():  # of tokens that never occur
        return ("The loss does not push down the logits of tokens that never occur, as a softmax "
                "over the tokens does: over which axis does your softmax or cross-entropy run "
                "→ chapter language_model?")
    return ""


def text():
    """Return (tokens to train on (n,), held-out passages (b, 129), Corpus)."""
    found = corpus.split(corpus.manual())
    return (corpus.encode(found.train, found.vocabulary),
            corpus.rows(found.passages[:64], found.vocabulary), found)


def _bits(answer, build):
    """Return the bits per held-out character of a new model that ``answer`` has trained."""
    tokens, passages, found = text()
    model = build(len(found.vocabulary), *SIZE)
    answer(model, tokens, STEPS)
    with torch.no_grad():
        logits = model.cpu().eval()(passages[:, :-1]).flatten(0, 1)
        loss = F.cross_entropy(logits, passages[:, 1:].flatten()).item() / math.log(2)
    return loss if math.isfinite(loss) else math.inf


def _counted():
    """Return the bits that counting single characters needs on the same passages."""
    found = text()[2]
    return ngrams.NGrams(found.train, 1, found.vocabulary).bits(found.passages[:64])[1]
