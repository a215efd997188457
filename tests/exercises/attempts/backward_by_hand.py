"""Attempts at the exercises on the gradient by hand."""

import math

import numpy as np
import torch

from utils import reference
from utils.attention import backward, numpy as numpy_attention

# --- LayerNorm

def parts(x, eps=1e-5, ddof=0):
    root = np.sqrt(x.var(axis=-1, keepdims=True, ddof=ddof) + eps)
    return (x - x.mean(axis=-1, keepdims=True)) / root, root


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def norm_backward(x, gain, g, eps=1e-5):
    hat, root = parts(x, eps)
    grad_hat = g * gain
    g_x = (grad_hat - mean(grad_hat) - hat * mean(grad_hat * hat)) / root
    return g_x, (g * hat).sum(axis=(0, 1)), g.sum(axis=(0, 1))


def term_by_term(x, gain, g, eps=1e-5):
    centred = x - mean(x)
    variance = mean(centred ** 2)
    g_hat, n = g * gain, x.shape[-1]
    g_variance = (g_hat * centred).sum(-1, keepdims=True) * -0.5 * (variance + eps) ** -1.5
    g_centred = g_hat / np.sqrt(variance + eps) + g_variance * 2 * centred / n
    return [g_centred - mean(g_centred), np.einsum("bie,bie->e", g, centred / np.sqrt(
        variance + eps)), np.einsum("bie->e", g)]


def by_autograd(x, gain, g, eps=1e-5):
    leaves = [torch.tensor(side, requires_grad=True) for side in (x, gain, np.zeros_like(gain))]
    out = torch.nn.functional.layer_norm(leaves[0], gain.shape, *leaves[1:], eps)
    return torch.autograd.grad(out, leaves, torch.as_tensor(g))


def of_x(change):
    """Return norm_backward with g_x made by change(hat, root, g, gain)."""
    def program(x, gain, g, eps=1e-5):
        _, g_gain, g_bias = norm_backward(x, gain, g, eps)
        return change(*parts(x, eps), g, gain), g_gain, g_bias
    return program


def of_the_rest(g_gain=None, g_bias=None):
    """Return norm_backward with other gradients, functions of (x, gain, g)."""
    def program(x, gain, g, eps=1e-5):
        right = norm_backward(x, gain, g, eps)
        return (right[0], g_gain(x, gain, g) if g_gain else right[1],
                g_bias(x, gain, g) if g_bias else right[2])
    return program


def without_eps(x, gain, g, eps=1e-5):
    return norm_backward(x, gain, g, 0)[0], *norm_backward(x, gain, g, eps)[1:]


def fixed_eps(x, gain, g, eps=1e-5):
    return norm_backward(x, gain, g, 1e-5)


def unbiased(x, gain, g, eps=1e-5):
    hat, root = parts(x, eps, ddof=1)
    grad_hat = g * gain
    return ((grad_hat - mean(grad_hat) - hat * mean(grad_hat * hat)) / root,
            *norm_backward(x, gain, g, eps)[1:])


def rms(x, gain, g, eps=1e-5):
    root = np.sqrt(mean(x ** 2) + eps)
    grad_hat = g * gain
    hat = x / root
    return (grad_hat - hat * mean(grad_hat * hat)) / root, *norm_backward(x, gain, g, eps)[1:]


# --- grouped heads

def grouped_backward(q, k, v, g):
    group = q.shape[1] // k.shape[1]
    k_all, v_all = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    g_q, g_k, g_v = reference.attention_gradient(q, k_all, v_all, g)
    return (g_q, *(side.reshape(len(side), -1, group, *side.shape[2:]).sum(axis=2)
                   for side in (g_k, g_v)))


def head_by_head(q, k, v, g):
    g_q, g_k, g_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    group = q.shape[1] // k.shape[1]
    for h in range(q.shape[1]):
        weights = numpy_attention.softmax(q[:, h] @ k[:, h // group].mT / math.sqrt(q.shape[-1]))
        of_q, of_k, of_v = backward.attention_backward(q[:, h], k[:, h // group],
                                                       v[:, h // group], weights, g[:, h])
        g_q[:, h] = of_q
        g_k[:, h // group] += of_k
        g_v[:, h // group] += of_v
    return [g_q, g_k, g_v]


def grouped(change, copies=np.repeat):
    """Return the program that makes change(gradient of all copies, h_kv, group) of k's and v's."""
    def program(q, k, v, g):
        kv, group = k.shape[1], q.shape[1] // k.shape[1]
        if copies is np.repeat:
            sides = [side.repeat(group, axis=1) for side in (k, v)]
        else:
            sides = [np.tile(side, (1, group, 1, 1)) for side in (k, v)]
        g_q, g_k, g_v = reference.attention_gradient(q, *sides, g)
        return g_q, change(g_k, kv, group), change(g_v, kv, group)
    return program


def neighbours(side, kv, group):
    return side.reshape(len(side), kv, group, *side.shape[2:]).sum(axis=2)


def every_nth(side, kv, group):
    return side.reshape(len(side), group, kv, *side.shape[2:]).sum(axis=1)


def no_scale(q, k, v, g):
    g_q, g_k, g_v = grouped_backward(q, k, v, g)
    return g_q * math.sqrt(q.shape[-1]), g_k * math.sqrt(q.shape[-1]), g_v


# --- it passed

def random(shape):
    return np.random.default_rng(7).standard_normal(shape)


PASSED = {"line": 3, "right": "v", "grad_out": random}

RIGHT = {
    "norm_backward": [norm_backward, term_by_term, by_autograd],
    "grouped_backward": [grouped_backward, head_by_head, grouped(neighbours)],
    "it_passed": [PASSED, PASSED | {"grad_out": lambda shape: torch.randn(shape)},
                  PASSED | {"right": "V", "grad_out": lambda shape: np.arange(
                      np.prod(shape)).reshape(shape) % 7}],
}

WRONG = {
    "norm_backward": [
        (of_x(lambda hat, root, g, gain: g * gain / root), "as constants"),
        (of_x(lambda hat, root, g, gain: (g * gain - mean(g * gain)) / root),
         "the term for the variance is missing"),
        (of_x(lambda hat, root, g, gain: (g * gain - hat * mean(g * gain * hat)) / root),
         "the term for the mean is missing"),
        (of_x(lambda hat, root, g, gain: g * gain - mean(g * gain) - hat * mean(g * gain * hat)),
         "divided by the root, so its gradient is"),
        (of_x(lambda hat, root, g, gain: (g - mean(g) - hat * mean(g * hat)) / root),
         "the gain is missing"),
        (of_x(lambda hat, root, g, gain: gain * (g - mean(g) - hat * mean(g * hat)) / root),
         "multiply by the gain too late"),
        (of_x(lambda hat, root, g, gain: (g * gain - (g * gain).sum(-1, keepdims=True)
                                          - hat * (g * gain * hat).sum(-1, keepdims=True)) / root),
         "sums over the dimensions instead of means"),
        (of_x(lambda hat, root, g, gain: (g * gain - mean(g * gain) - hat * root * mean(
            g * gain * hat * root)) / root), "x − mean instead of x̂"),
        (of_x(lambda hat, root, g, gain: (g * gain + mean(g * gain) + hat * mean(
            g * gain * hat)) / root), "wrong sign"),
        (of_x(lambda hat, root, g, gain: (g * gain - mean(g * gain)) * 0), "central differences"),
        (of_x(lambda hat, root, g, gain: 2 * norm_backward(hat * root, gain, g)[0]),
         "its direction is right, but it is 2 times"),
        (of_x(lambda hat, root, g, gain: np.full_like(g, np.nan)),
         "some of its elements are not finite"),
        (without_eps, "eps is missing"),
        (fixed_eps, "right with eps=1e-5, but with eps=0.001 it is wrong"),
        (unbiased, "LayerNorm divides by n"),
        (rms, "that is the gradient of RMSNorm"),
        (of_the_rest(lambda x, gain, g: g * parts(x)[0]), "a sum over both"),
        (of_the_rest(lambda x, gain, g: (g * parts(x)[0]).mean((0, 1))),
         "the sum over tokens, not the mean"),
        (of_the_rest(lambda x, gain, g: (g * x).sum((0, 1))), "multiplies x̂, not x."),
        (of_the_rest(lambda x, gain, g: (g * (x - mean(x))).sum((0, 1))),
         "multiplies x̂, not x − mean"),
        (of_the_rest(lambda x, gain, g: (g * gain * parts(x)[0]).sum((0, 1))),
         "must not contain the gain itself"),
        (of_the_rest(g_bias=lambda x, gain, g: (g * gain).sum((0, 1))),
         "so it does not depend on it"),
        (of_the_rest(g_bias=lambda x, gain, g: g), "a sum over both"),
        (of_the_rest(lambda x, gain, g: g.sum((0, 1)),
                     lambda x, gain, g: (g * parts(x)[0]).sum((0, 1))), "gradient of the bias"),
        (lambda x, gain, g, eps=1e-5: norm_backward(x, gain, g, eps)[0],
         "must return three arrays"),
        (lambda x, gain, g, eps=1e-5: print(end=""), "The function returns None"),
        (lambda x, gain, g: norm_backward(x, gain, g), "raises TypeError"),
    ],
    "grouped_backward": [
        (grouped(lambda side, kv, group: side), "still has one gradient"),
        (grouped(lambda side, kv, group: neighbours(side, kv, group) / group), "not their mean"),
        (grouped(lambda side, kv, group: side[:, ::group]), "only the first head of each group"),
        (grouped(lambda side, kv, group: side[:, :kv]), "only the first heads of q"),
        (grouped(every_nth), "heads of different groups"),
        (grouped(every_nth, np.tile), "as with np.tile"),
        (grouped(neighbours, np.tile), "as with np.tile"),
        (no_scale, "the scale 1/√d is missing"),
        (lambda q, k, v, g: reference.attention_gradient(q, k, v, g), "raises ValueError"),
        (lambda q, k, v, g: grouped_backward(q, k, v, g)[0], "must return three arrays"),
        (lambda q, k, v, g: (g, k, v), "g_q: it must have the shape"),
        (lambda q, k, v, g: (q, k, v), "central differences"),
        (np.ones((2, 6)), "asks for a function or a class"),
    ],
    "it_passed": [
        (PASSED | {"line": 4}, "Line 4 is the softmax"),
        (PASSED | {"line": 1}, "its result is (b, h, j, d)"),
        (PASSED | {"line": "3"}, "Write one number"),
        (PASSED | {"right": "q"}, "through the wrong line"),
        (PASSED | {"grad_out": None}, "Still open: grad_out"),
        (PASSED | {"line": None}, "Still open: line"),
        (PASSED | {"grad_out": np.ones}, "all ones, which means `context.sum()`"),
        (PASSED | {"grad_out": lambda shape: 2 * np.ones(shape)}, "g.mean(-1), which is right"),
        (PASSED | {"grad_out": np.zeros}, "g.mean(-1), which is right"),
        (PASSED | {"grad_out": lambda shape: random((*shape[:-1], 1)) * np.ones(shape)},
         "within a row are equal"),
        (PASSED | {"grad_out": lambda shape: np.eye(np.prod(shape))[0].reshape(shape)},
         "in the last head of the last example"),
        (PASSED | {"grad_out": lambda shape: random(shape[-1:]) * np.ones(shape)},
         "all tokens have the same"),
        (PASSED | {"grad_out": lambda shape: random(shape[-2:]) * np.ones(shape)},
         "all heads have the same"),
        (PASSED | {"grad_out": lambda shape: random(shape[1:]) * np.ones(shape)},
         "all examples have the same"),
        (PASSED | {"grad_out": lambda shape: 1e-9 * random(shape)},
         "takes the difference of two gradients for rounding"),
        (PASSED | {"grad_out": lambda shape: random(shape) * np.inf}, "not finite"),
        (PASSED | {"grad_out": lambda shape: random(shape[:-1])}, "it returns (2, 3, 5)"),
        (PASSED | {"grad_out": lambda shape: print(end="")}, "the function returns None"),
        (PASSED | {"grad_out": random((2, 3, 5, 8))}, "a function of the shape"),
        (random, "a dict with the keys"),
    ],
}
