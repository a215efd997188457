"""LayerNorm's backward, right and wrong."""

import numpy as np

from utils.exercises._gradients import told


def norm_backward(program):
    """Judge layer_norm_backward(x, gain, g, eps) -> (g_x, g_gain, g_bias)."""
    rng = np.random.default_rng(3)
    x, g = rng.standard_normal((2, 2, 5, 11))
    gain = rng.standard_normal(11)
    x[1] *= 0.02                                           # a variance that eps matters to
    for eps in (1e-5, 1e-3):
        given = (x.copy(), gain.copy(), g.copy())
        got = program(*given) if eps == 1e-5 else program(*given, eps)
        why = told(got, {"g_x": x.shape, "g_gain": gain.shape, "g_bias": gain.shape},
                   _known(x, gain, g, eps), _about)
        if why:
            return why if eps == 1e-5 else f"With eps=1e-5 it is right, with eps={eps} not: {why}"
    return ""


def _about(name, got, shape):
    return ("; it serves every word of every example, so its gradient is a sum over both"
            if name != "g_x" and len(got) > 1 else "")


def _mean(array):
    return array.mean(axis=-1, keepdims=True)


def _known(x, gain, g, eps):
    """Return {name: [(gradient, what is wrong with it), …]}, the right ones first."""
    centred, both, n = x - _mean(x), (0, 1), x.shape[-1]
    root = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    hat, wish = centred / root, g * gain
    averaged = "words are added up, not averaged."
    return {
        "g_x": [*_of_x(wish, hat, root), *_of_x_elsewhere(x, wish, centred, root, eps, n),
                *_without_gain(g, gain, hat, root)],
        "g_gain": [
            ((g * hat).sum(both), ""),
            ((g * hat).mean(both), averaged),
            ((g * x).sum(both), "the gain multiplies x̂, not x."),
            ((g * centred).sum(both), "the gain multiplies x̂, not x less its mean."),
            ((wish * hat).sum(both), "the gain itself is not in its gradient."),
            (g.sum(both), "that is the gradient of the bias.")],
        "g_bias": [
            (g.sum(both), ""),
            (g.mean(both), averaged),
            (wish.sum(both), "the bias is added after the gain, and never meets it."),
            ((g * hat).sum(both), "that is the gradient of the gain.")]}


def _of_x(wish, hat, root):
    """Yield the right gradient of x, and those with a term too few."""
    alike, along = _mean(wish), hat * _mean(wish * hat)
    yield (wish - alike - along) / root, ""
    yield wish / root, ("the mean and the variance are taken for constants. But they are made of "
                        "x, too: two more ways for x to move the output.")
    yield (wish - alike) / root, "the way through the variance is missing."
    yield (wish - along) / root, "the way through the mean is missing."
    yield wish - alike - along, "x is divided by the root, so the gradient is, too."
    yield (wish + alike + along) / root, "both ways have the wrong sign."


def _of_x_elsewhere(x, wish, centred, root, eps, n):
    """Yield gradients of x with another mean, another variance, another x̂."""
    alike, hat = _mean(wish), centred / root

    def normed_by(other, middle=centred, alike=alike):
        return (wish - alike - middle / other * _mean(wish * middle / other)) / other
    yield ((wish - n * alike - n * hat * _mean(wish * hat)) / root,
           "sums over the features stand where means belong.")
    yield ((wish - alike - centred * _mean(wish * centred)) / root,
           "the way through the variance has x less its mean where x̂ belongs.")
    yield (normed_by(np.sqrt(root ** 2 - eps)),
           "eps is forgotten. Under a small variance it counts: example 1 has one of 0.0004.")
    yield (normed_by(np.sqrt((root ** 2 - eps) * n / (n - 1) + eps)),
           "the variance is divided by n − 1; LayerNorm divides by n.")
    yield (normed_by(np.sqrt(_mean(x ** 2) + eps), x, 0), "that is the gradient of RMSNorm.")


def _without_gain(g, gain, hat, root):
    """Yield gradients of x that meet the gain never, or too late."""
    bare = (g - _mean(g) - hat * _mean(g * hat)) / root
    yield bare, "the gain is forgotten. What is x̂'s cotangent, if y = x̂ * gain + bias?"
    yield gain * bare, ("the gain comes too late. It is the last step but one forward, so it "
                        "comes before any mean backward.")
