"""The exercises of the chapter on the scaled dot product."""

import numpy as np

from ..attention.numpy import softmax
from ..checks import to_numpy
from ._check import Check, Exercise
from ._judges import Recorded
from ._scaled_dot_product_attention import own_attention

# {power of d_k by which start or rates were divided: message}
GROWN_STEPS = "the steps are larger. Without the division, is the gradient of q larger or smaller?"
START_POWERS = {
    0.0: "the start is unchanged. So the first scores are √d_k times too large, and the very first "
         "loss differs.",
    1.0: "the start is divided by d_k. A score is linear in q: if you divide q by c, the score is "
         "divided by c.",
    -0.5: "the start is larger. But the scores are no longer divided, so q must make them smaller."}
RATE_POWERS = {
    0.0: "the steps are unchanged. The first loss is right, but then q moves too far: its gradient "
         "is larger without the division, and q itself is shorter.",
    0.5: "the steps are divided by √d_k. That accounts for only one of two changes: the gradient "
         "of q is √d_k times larger, and q itself is √d_k times shorter.",
    -0.5: GROWN_STEPS,
    -1.0: GROWN_STEPS}


def _hide(answer):
    """Judge a function that returns (start, rates) for a training without the division."""
    import torch
    powers = []
    for d_k in (9, 25):
        rng = np.random.default_rng(d_k)
        given = rng.standard_normal((7, d_k)), 4.0 ** np.arange(-3, 2)
        tensors = [torch.tensor(array) for array in given]
        got = answer(*tensors, d_k)
        if not isinstance(got, list | tuple) or len(got) != 2:
            return "The function must return two things: start, rates."
        if any((tensor.numpy() != old).any() for tensor, old in zip(tensors, given, strict=True)):
            return ("It changes the start or the rates in place, but the caller still needs them. "
                    "`/` makes a new tensor, `/=` does not.")
        for name, new, old in zip(("start", "rates"), map(to_numpy, got), given, strict=True):
            if new.shape != old.shape or np.ptp(new / old) > 1e-6 or (new / old).min() <= 0:
                return (f"The new {name} should be the old {name} divided by one positive number; "
                        "return start first, then rates.")
            powers.append(-np.log((new / old).mean()) / np.log(d_k))
    start, rates = np.array(powers).reshape(2, 2).T
    return (_wrong_power("start", start, 0.5, START_POWERS)
            or _wrong_power("rates", rates, 1.0, RATE_POWERS))


def _wrong_power(name, powers, want, known):
    """Return the message for the powers of d_k = 9 and of 25 by which ``name`` was divided."""
    small, large = powers
    if abs(small - large) > 0.01:
        return (f"For d_k = 9 you divide {name} by {9 ** small:.3g}, for d_k = 25 by "
                f"{25 ** large:.3g}. How should the number depend on d_k?")
    if abs(small - want) < 0.01:
        return ""
    for power, message in known.items():
        if abs(small - power) < 0.01:
            return f"In your version {message}"
    return f"You divide {name} by d_k to the power {small:.2g}."


def _black_box(divisor_of):
    """Judge a function that finds out by what a program divides its scores."""
    for d_k in (16, 25):
        for divisor in (d_k ** 0.5, (3 * d_k) ** 0.5, 1.7 * d_k ** 0.5, d_k):
            program = Recorded(_dividing_by(divisor))
            got = divisor_of(program, d_k)
            if got is None:
                return "The function returns None: is a return missing?"
            got = np.asarray(to_numpy(got), dtype=float)
            if not program.calls:
                return ("It never calls the program, so it cannot know: this program need not "
                        "divide by √d_k.")
            if got.size != 1:
                return f"The function must return one number; yours has the shape {got.shape}."
            if not abs(got.item() - divisor) < 1e-3 * divisor:
                return (f"At d_k = {d_k} a program divides by {divisor:.4g}, and yours returns "
                        f"{got.item():.4g}. {_why_wrong(got.item(), divisor, program.calls[-1])}")
    return ""


def _dividing_by(divisor):
    return lambda q, k, v: softmax(q @ np.swapaxes(k, -1, -2) / divisor) @ v


def _why_wrong(got, divisor, last_call):
    """Return the message for a wrong divisor, by the last call (q, k, v, context)."""
    q, _, v, context = last_call
    for wrong, message in ((1 / divisor, "That is the factor; the divisor is 1 over it."),
                           (-divisor, "Only the sign is wrong."),
                           (divisor ** 2, "That is the divisor squared."),
                           (q.shape[-1] ** 0.5, "That is √d_k, whatever the program does.")):
        if abs(got - wrong) < 1e-3 * abs(wrong):
            return message
    if not np.allclose(context.sum(axis=-1), 1) or np.ndim(v) < 2:
        return ("With your v the program returns mixtures. Which v makes it return the weights "
                "themselves?")
    if np.ptp(context, axis=-1).max() < 1e-9:
        return ("All your weights are equal, whatever the divisor: choose keys that have different "
                "scores.")
    if context.min() < 1e-12:
        return ("One of your weights is rounded to 0, and log(0) is −∞: choose shorter queries and "
                "keys.")
    if abs(got - divisor) < 0.1 * divisor:
        return "That is close, but the logs of the weights give the divisor without any noise."
    return ("The logs of a row are the scores minus one number, the same for the whole row: only "
            "*differences* of logs are differences of scores.")


check = Check({
    "own_attention": Exercise(own_attention, (
        "Four steps: scores, softmax, weights times values, and the return of two arrays. Which "
        "axis of the scores belongs to the keys?",
        "Softmax works on each row: `scores.max(axis=-1, keepdims=True)` is the largest score of "
        "each. What does the subtraction of it change?",
        "`scale` is None or a number, and 0 is a number. Begin with: if scale is None."),
        "This is the equation as a program, and it is yours. Masks and heads come later, and they "
        "add lines to it without changing these."),
    "black_box": Exercise(_black_box, (
        "If v is the identity matrix, the context *is* the weights.",
        "The log of a weight is its score minus the log of the row's sum, which all keys of a row "
        "share. Take differences between keys, or subtract the mean.",
        "Subtract the mean from q · k too. Then the logs are a multiple of it: by which factor, if "
        "the program divides by c?"),
        "The logs of the weights are the scores, up to one number per row, so softmax hides almost "
        "nothing. `utils.doctor` finds a scale in this way."),
    "hide": Exercise(_hide, (
        "The program without the division must start with the scores of the one with it: how much "
        "shorter must q be?",
        "Write p = q / √d_k for the queries of the program without the division. If the other "
        "program moves q by rate times dL/dq, how far should p move?",
        "A step of p is a step of q times a factor, and dL/dq is dL/dp times a factor. Both "
        "factors are the same."),
        "The shorter start makes the first scores equal; the smaller steps are needed because the "
        "constant counts twice in an update. Together, start and step size can absorb any "
        "constant."),
})
