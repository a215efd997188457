"""Judges for the chapter on the gradient by hand: three gradients at once, and LayerNorm's."""

import numpy as np

from ..checks import difference, to_numpy
from ._judges import join_messages


def judge_gradients(got, shapes, known, about_shape):
    """Return what is wrong with three gradients, "" if nothing is.

    ``shapes`` is {name: shape}; ``known`` is {name: [(gradient, message), …]}, the right one
    first; ``about_shape(name, got, shape)`` is what to add to the message about a wrong shape.
    """
    if got is None:
        return "The function returns None: is a return missing?"
    if not isinstance(got, tuple | list) or len(got) != 3:
        return f"The function must return three arrays, {', '.join(shapes)}."
    arrays = {name: to_numpy(part) for name, part in zip(shapes, got, strict=True)}
    wrong_shapes = [f"{name}: it must have the shape {shapes[name]}, not {array.shape}"
                    f"{about_shape(name, array.shape, shapes[name])}."
                    for name, array in arrays.items() if array.shape != shapes[name]]
    return join_messages(wrong_shapes) or join_messages(
        [_one_gradient(name, array, known[name]) for name, array in arrays.items()])


def _one_gradient(name, got, known):
    """Return what is wrong with one gradient, "" if it is right."""
    if not np.isfinite(got).all():
        return f"{name}: some of its elements are not finite."
    for candidate, message in known:
        if difference(got, candidate) < 1e-9:
            return f"{name}: {message}" if message else ""
    right = known[0][0]
    factor = float(np.sum(got * right) / np.sum(right * right))
    if abs(factor) > 1e-9 and difference(got, factor * right) < 1e-9:
        return f"{name}: its direction is right, but it is {factor:.3g} times too long."
    where = np.unravel_index(np.argmax(abs(got - right)), right.shape)
    return (f"{name}: at {tuple(map(int, where))} it is {got[where]:.3g}, but central differences "
            f"give {right[where]:.3g}.")


def norm_backward(program):
    """Judge layer_norm_backward(x, gain, grad_out, eps) -> (g_x, g_gain, g_bias)."""
    rng = np.random.default_rng(3)
    x, grad_out = rng.standard_normal((2, 2, 5, 11))
    gain = rng.standard_normal(11)
    x[1] *= 0.02                                 # its variance is so small that eps matters
    for eps in (1e-5, 1e-3):
        options = () if eps == 1e-5 else (eps,)
        got = program(x.copy(), gain.copy(), grad_out.copy(), *options)
        shapes = {"g_x": x.shape, "g_gain": gain.shape, "g_bias": gain.shape}
        message = judge_gradients(got, shapes, _known(x, gain, grad_out, eps), _about_shape)
        if message and options:
            return f"It is right with eps=1e-5, but with eps={eps} it is wrong: {message}"
        if message:
            return message
    return ""


def _about_shape(name, got, shape):
    if name == "g_x" or len(got) < 2:
        return ""
    return "; all tokens of all examples share it, so its gradient is a sum over both axes"


def _mean(array):
    return array.mean(axis=-1, keepdims=True)


def _known(x, gain, grad_out, eps):
    """Return {name: [(gradient, message), …]}, the right ones first."""
    centred, tokens = x - _mean(x), (0, 1)
    root = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    hat, grad_hat = centred / root, grad_out * gain
    averaged = "it must be the sum over tokens, not the mean."
    return {
        "g_x": [*_known_g_x(grad_hat, hat, root), *_other_norms(x, grad_hat, root, eps),
                *_wrong_gain(grad_out, gain, hat, root)],
        "g_gain": [
            ((grad_out * hat).sum(tokens), ""),
            ((grad_out * hat).mean(tokens), averaged),
            ((grad_out * x).sum(tokens), "the gain multiplies x̂, not x."),
            ((grad_out * centred).sum(tokens), "the gain multiplies x̂, not x − mean."),
            ((grad_hat * hat).sum(tokens), "its gradient must not contain the gain itself."),
            (grad_out.sum(tokens), "that is the gradient of the bias.")],
        "g_bias": [
            (grad_out.sum(tokens), ""),
            (grad_out.mean(tokens), averaged),
            (grad_hat.sum(tokens), "the bias is added after the gain, so it does not depend on "
                                   "it."),
            ((grad_out * hat).sum(tokens), "that is the gradient of the gain.")]}


def _known_g_x(grad_hat, hat, root):
    """Yield the right gradient of x, and those with wrong terms."""
    through_mean, through_variance = _mean(grad_hat), hat * _mean(grad_hat * hat)
    yield (grad_hat - through_mean - through_variance) / root, ""
    yield grad_hat / root, ("you treat the mean and the variance as constants. But both depend on "
                            "x, so there are two more ways from x to the output.")
    yield (grad_hat - through_mean) / root, "the term for the variance is missing."
    yield (grad_hat - through_variance) / root, "the term for the mean is missing."
    yield (grad_hat - through_mean - through_variance,
           "x is divided by the root, so its gradient is, too.")
    yield (grad_hat + through_mean + through_variance) / root, "both terms have the wrong sign."


def _other_norms(x, grad_hat, root, eps):
    """Yield gradients of x for another mean or variance, or with sums for means."""
    centred, n = x - _mean(x), x.shape[-1]
    hat, mean_grad = centred / root, _mean(grad_hat)
    variance = root ** 2 - eps

    def with_root(root, centred=centred, mean_grad=mean_grad):
        hat = centred / root
        return (grad_hat - mean_grad - hat * _mean(grad_hat * hat)) / root
    yield ((grad_hat - n * mean_grad - n * hat * _mean(grad_hat * hat)) / root,
           "you take sums over the dimensions instead of means.")
    yield ((grad_hat - mean_grad - centred * _mean(grad_hat * centred)) / root,
           "the term for the variance contains x − mean instead of x̂.")
    yield (with_root(np.sqrt(variance)),
           "eps is missing. It matters if the variance is small: example 1 has one of 0.0004.")
    yield (with_root(np.sqrt(variance * n / (n - 1) + eps)),
           "you divide the variance by n − 1; LayerNorm divides by n.")
    yield (with_root(np.sqrt(_mean(x ** 2) + eps), x, 0), "that is the gradient of RMSNorm.")


def _wrong_gain(grad_out, gain, hat, root):
    """Yield gradients of x without the gain, or with the gain in the wrong place."""
    bare = (grad_out - _mean(grad_out) - hat * _mean(grad_out * hat)) / root
    yield bare, "the gain is missing. What is the gradient of x̂, if y = x̂ * gain + bias?"
    yield gain * bare, ("you multiply by the gain too late. It follows x̂ in the forward pass, so "
                        "it comes before the means in the backward pass.")
