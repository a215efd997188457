"""The exercises on the constant: hide it, and read it off a black box."""

import numpy as np

from utils.attention.numpy import softmax
from utils.checks import to_numpy
from utils.exercises._watched import Watched

# By which power of d_k start and rates are divided.
START = {0.0: "the start is as before. The first scores are then √d_k times too large, and so the "
              "very first loss differs.",
         1.0: "the start is divided by d_k. A score is linear in q: dividing q by c divides the "
              "score by c.",
         -0.5: "the start has grown. Nobody divides the scores any more, so they must come out "
               "smaller by themselves."}
RATES = {0.0: "the steps are as before. The first loss is right, but then q moves too far: its "
              "gradient is larger without the division, and q itself is shorter.",
         0.5: "the steps are divided by √d_k. You have counted one of two things: the gradient of "
              "q is √d_k times larger, and q itself √d_k times shorter.",
         -0.5: "the steps have grown. Without the division, is the gradient of q larger or "
               "smaller?",
         -1.0: "the steps have grown. Without the division, is the gradient of q larger or "
               "smaller?"}


def hide(answer):
    """Judge (start, rates) with which training undivided repeats training with the root."""
    powers = []
    for d_k in (9, 25):
        rng = np.random.default_rng(d_k)
        given = rng.standard_normal((7, d_k)), 4.0 ** np.arange(-3, 2)
        tensors = _tensors(given)
        got = answer(*tensors, d_k)
        if not isinstance(got, list | tuple) or len(got) != 2:
            return "Return two things: start, rates."
        if any((tensor.numpy() != old).any() for tensor, old in zip(tensors, given, strict=True)):
            return ("It changes the start or the rates that it was given, and whoever gave them "
                    "trains on those. `/` makes a new tensor, `/=` does not.")
        for name, new, old in zip(("start", "rates"), map(to_numpy, got), given, strict=True):
            if new.shape != old.shape or np.ptp(new / old) > 1e-6 or (new / old).min() <= 0:
                return (f"The new {name} should be the old {name}, divided by one positive number; "
                        "return start first, then rates.")
            powers.append(-np.log((new / old).mean()) / np.log(d_k))
    return _powers(np.array(powers).reshape(2, 2))


def _tensors(arrays):
    import torch
    return [torch.tensor(array) for array in arrays]


def _powers(powers):
    """Return what is wrong with the powers of d_k (d_k, start or rates) that were divided by."""
    for name, known, want, (small, large) in zip(("start", "rates"), (START, RATES), (0.5, 1.0),
                                                 powers.T, strict=True):
        if abs(small - large) > 0.01:
            return (f"For d_k = 9 you divide {name} by {9 ** small:.3g}, for d_k = 25 by "
                    f"{25 ** large:.3g}. How should the number depend on d_k?")
        if abs(small - want) > 0.01:
            return next((f"Now {why}" for power, why in known.items() if abs(small - power) < 0.01),
                        f"You divide {name} by d_k to the power {small:.2g}.")
    return ""


def black_box(divisor_of):
    """Judge a function that finds by what a program divides its scores."""
    for d_k in (16, 25):
        for divisor in (d_k ** 0.5, (3 * d_k) ** 0.5, 1.7 * d_k ** 0.5, d_k):
            program = Watched(_dividing(divisor))
            got = divisor_of(program, d_k)
            if got is None:
                return "It gives nothing back: the function ends without a return."
            got = np.asarray(to_numpy(got), dtype=float)
            if not program.calls:
                return ("It never calls the program, so it cannot know: this one need not divide "
                        "by √d_k.")
            if got.size != 1:
                return f"One number is asked for; yours has the shape {got.shape}."
            if not abs(got.item() - divisor) < 1e-3 * divisor:
                return (f"At d_k = {d_k} a program divides by {divisor:.4g}, and yours says "
                        f"{got.item():.4g}. {_misread(got.item(), divisor, program.calls[-1])}")
    return ""


def _dividing(divisor):
    return lambda q, k, v: softmax(q @ np.swapaxes(k, -1, -2) / divisor) @ v


def _misread(got, divisor, call):
    """Return why, by the last call of the program: (q, k, v, context)."""
    for wrong, why in ((1 / divisor, "That is the factor; the divisor is 1 over it."),
                       (-divisor, "The sign is the wrong way round."),
                       (divisor ** 2, "That is the divisor squared."),
                       (call[0].shape[-1] ** 0.5, "That is √d_k, whatever the program does.")):
        if abs(got - wrong) < 1e-3 * abs(wrong):
            return why
    q, k, v, context = call
    if not np.allclose(context.sum(axis=-1), 1) or np.ndim(v) < 2:
        return ("With your v the program returns mixtures. Which v makes it return the weights "
                "themselves?")
    if np.ptp(context, axis=-1).max() < 1e-9:
        return "All your weights are alike, whatever the divisor: take keys that score differently."
    if context.min() < 1e-12:
        return "A weight has rounded to 0, and its log is no number: take shorter queries and keys."
    if abs(got - divisor) < 0.1 * divisor:
        return "Nearly. The logs of the weights tell it without any noise."
    return ("The logs of a row are the scores less one number, the same for the whole row: only "
            "*differences* of logs are differences of scores.")
