"""What a few steps of ``train`` show: their number, their order, and what their gradients ask for.

``train`` gets a text that counts 0, 1, 2, …: its gradient then says which token it wants at each
position.
"""

import contextlib
import copy

import torch
import torch.nn.functional as F
from torch.optim.optimizer import register_optimizer_step_pre_hook

V = 23           # tokens of the text that counts; the model has twice as many
WANTS = {0: "the token that the model has just been given: the targets are not shifted. Position i "
            "must predict token i + 1",
         -1: "the token *before* the one that it is given: the shift goes the wrong way",
         2: "the token two places ahead: the targets are shifted twice"}


def watched(answer, build):
    """Return what the gradients of a few steps show to be wrong."""
    model = build(2 * V, 24, 3, 1)
    tokens = torch.arange(20 * V + 3 * model.context) % V
    before, steps = copy.deepcopy(model.state_dict()), []
    hook = model.register_forward_hook(lambda _, given, logits: _watch(
        model, given[0], logits, steps))
    with _optimiser_steps(model) as gradients:
        message = _too_long(answer, model, tokens.clone())
    hook.remove()
    if message:
        return message
    if len(steps) < 6:
        return (f"Asked for 6 steps, it makes {len(steps)}: each step calls model(pieces), and "
                "loss.backward() on the loss of its logits.")
    changed = any(not torch.equal(value, before[name])
                  for name, value in model.state_dict().items())
    if gradients and not any(gradients):
        return ("optimiser.step() is called, but all gradients are gone by then, so nothing is "
                "learned. The order must be: zero_grad, backward, step; nothing may clear the "
                "gradients between loss.backward() and optimiser.step() → chapter language_model.")
    if not changed:
        return ("After 6 steps, no parameter has changed: call optimiser.step(), with an "
                "optimiser of model.parameters().")
    if all(left for *_, left in steps[1:]):
        return ("Each gradient is added to those of the steps before: call "
                "optimiser.zero_grad() before loss.backward() → chapter language_model.")
    if all(torch.equal(given, steps[0][0]) for given, *_ in steps):
        return ("All steps see the same pieces of the text, so the model learns these by heart: "
                "draw new starts in each step.")
    return _wrong_targets(steps)


@contextlib.contextmanager
def _optimiser_steps(model):
    """Yield a list that gets, at each step of the model's optimiser, whether a gradient exists."""
    gradients = []
    own = {id(parameter) for parameter in model.parameters()}

    def before_step(optimiser, *_):
        trained = [parameter for group in optimiser.param_groups for parameter in group["params"]
                   if id(parameter) in own]
        if trained:
            gradients.append(any(parameter.grad is not None and bool(parameter.grad.any())
                                 for parameter in trained))

    hook = register_optimizer_step_pre_hook(before_step)
    try:
        yield gradients
    finally:
        hook.remove()


def _too_long(answer, model, tokens):
    """Train for 6 steps; return what is wrong if the model fails at more tokens than it takes."""
    lengths = []
    hook = model.register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[1]))
    try:
        answer(model, tokens, 6)
    except Exception:
        if max(lengths, default=0) <= model.context:
            raise
        return (f"train gives the model {max(lengths)} tokens at once, and its context is "
                f"{model.context}. A piece has model.context + 1 tokens: all but the last are "
                "given, and all but the first are the targets → chapter language_model.")
    finally:
        hook.remove()
    return ""


def _watch(model, given, logits, steps):
    """Record a step when its backward pass begins: tokens, logits, gradient, gradients left."""
    def begin(gradient):
        left = any(parameter.grad is not None and bool(parameter.grad.any())
                   for parameter in model.parameters())
        steps.append((given, logits.detach(), gradient, left))

    if logits.requires_grad:
        logits.register_hook(begin)


def _wrong_targets(steps):
    """Return what is wrong with the tokens that the gradients want, or with the loss."""
    given, logits, gradient, _ = steps[0]
    asked = gradient.abs().sum(dim=-1) > 0  # (b, n)
    if asked.float().mean() < 0.5:
        return (f"Only {asked.float().mean():.0%} of the positions have a loss. Every position "
                "predicts its next token: use all logits → chapter decoder_mask.")
    # Cross-entropy raises the target's logit alone, so there the gradient is lowest.
    wanted = (gradient.argmin(dim=-1) - given)[asked] % V
    common = wanted.mode().values.item()
    offset = common - V if common > V // 2 else common
    if (wanted == common).float().mean() < 0.9:
        if ((gradient.argmax(dim=-1) - given)[asked] % V == 1).float().mean() > 0.9:
            return ("The loss has the wrong sign: each step makes the next token less likely. "
                    "F.cross_entropy has its minus already.")
        return ("The gradients do not ask for one token at each position: logits and targets do "
                "not belong together. Flatten (b, n, n_tokens) to (b · n, n_tokens), so that the "
                "last axis of the logits stays that of the tokens → chapter language_model.")
    if offset != 1:
        return f"The loss asks for {WANTS.get(offset, f'the token {offset} places ahead')}."
    if _of_probabilities(logits, gradient, (given + 1) % V):
        return ("There is a softmax in front of F.cross_entropy, which has one itself: give it the "
                "logits as they are. With two, the gradients are tiny → chapter language_model.")
    if gradient[..., V:].sum() < 0.02 * gradient.abs().sum():  # of tokens that never occur
        return ("The loss does not push down the logits of tokens that never occur, as a softmax "
                "over the tokens does: over which axis does your softmax or cross-entropy run "
                "→ chapter language_model?")
    return ""


def _of_probabilities(logits, gradient, targets):
    """Return whether this is the gradient of the cross-entropy of probabilities."""
    logits = logits.clone().requires_grad_()
    with torch.enable_grad():
        loss = F.cross_entropy(logits.softmax(dim=-1).flatten(0, 1), targets.flatten())
    wrong, = torch.autograd.grad(loss, logits)
    return bool((gradient - wrong).norm() < 0.01 * wrong.norm())
