"""A function of x and its weights: as arguments, as pairs {"w", "b"}, or in one dict."""

import inspect
import re

import numpy as np

from ... import checks
from .. import _subject, backends
from . import names, objects

# Arguments that are {"w": …, "b": …}, as in picoGPT, and the letters of which they hold weights.
PAIRS = {"cattn": "qkv", "qkv": "qkv", "inproj": "qkv", "cproj": "o", "outproj": "o", "proj": "o"}
# Names of an argument that is a dict of weights.
HELD = re.compile(r"(params?|parameters|weights?|ws?|p|ps|theta|state(dict)?|sd|layer|attn)")


def of_weights(program, framework):
    """Return the Entry of a function of x and W_q, W_k, W_v. Raises RefusalError for another."""
    parameters = inspect.signature(program).parameters
    matrices = {letter: one for one in parameters
                if (letter := names.letter_of(one, names.WEIGHT))}
    biases = {letter: one for one in parameters if (letter := names.letter_of(one, names.BIAS))}
    pairs = {one: pair for one in parameters if (pair := PAIRS.get(names.plain(one)))}
    if sorted(pairs.values()) == ["o", "qkv"]:
        return _of_pairs(program, framework, pairs)
    held = next((one for one in parameters if HELD.fullmatch(names.plain(one))), "")
    if held and not matrices:
        return _of_dict(program, framework, held)
    if not set("qkv") <= set(matrices):
        raise _subject.RefusalError("does not have the arguments q, k and v, or W_q, W_k and W_v")
    sizes = _sizes(parameters, {*matrices.values(), *biases.values()})
    heads = any(names.HEADS.fullmatch(names.plain(one)) for one in sizes)

    def made(weights, n_heads, transposed=False):
        given = {one: (weights[f"W_{letter}"].T if transposed else weights[f"W_{letter}"])
                 for letter, one in matrices.items()}
        given |= {one: weights[f"b_{letter}"] for letter, one in biases.items()}
        return given | {one: names.by_name(one, weights["W_q"].shape[1], n_heads) for one in sizes}

    aside = (*matrices.values(), *biases.values(), *sizes)
    return _entry(program, made, matrices, biases, 3 if heads else 1, framework, aside)


def _entry(program, made, matrices, biases, n_heads, framework, aside):
    """Return the Entry of a function that gets x and what ``made(weights, n_heads)`` returns."""
    one = objects.Weighted(made, program, lambda given, **sides: program(**sides, **given),
                           (*matrices,), (*biases,), aside)
    return objects.entry_of(one, 12, n_heads, backends.BY_NAME[framework], "It is ")


def _of_pairs(program, framework, pairs):
    """Return the Entry of a function of dicts {"w", "b"}, of q, k and v together and of o."""
    sizes = _sizes(inspect.signature(program).parameters, set(pairs))

    def made(weights, n_heads, transposed=False):
        given = {one: names.by_name(one, weights["W_q"].shape[1], n_heads) for one in sizes}
        for one, letters in pairs.items():
            given[one] = {kind.lower(): backends.like(np.concatenate(
                [checks.to_numpy(weights[f"{kind}_{letter}"]) for letter in letters], axis=-1),
                weights["W_q"]) for kind in "Wb"}
            if transposed:
                given[one]["w"] = given[one]["w"].T
        return given

    return _entry(program, made, "qkvo", "qkvo", 3, framework, (*pairs, *sizes))


class Held(dict):
    """Weights by any name that means one of them; ``asked``: those that were, as "W_q"."""

    def __init__(self, weights, transposed, asked):
        super().__init__(weights)
        self._transposed, self._asked = transposed, asked

    def __getitem__(self, key):
        name = _meant(key)
        if not name:
            return self._of_gate(key)
        self._asked.add(name)
        w = super().__getitem__(name)
        return w.T if self._transposed and name[0] == "W" else w

    def _of_gate(self, key):
        """Return the weight or bias of a gate that is open for all inputs."""
        if not re.fullmatch(r"[wb]_*g(ate)?|g(ate)?(_(w|b|weight|bias))?", str(key).lower()):
            raise KeyError(key)
        w = super().__getitem__("W_q")
        bias = re.search(r"^b|_b", str(key).lower())
        return w[0] * 0 + 40.0 if bias else w * 0

    def __contains__(self, key):
        return bool(_meant(key))

    def get(self, key, default=None):
        """Return a weight, or the default for a name that means none."""
        return self[key] if _meant(key) else default


def _meant(key):
    """Return the name of a weight, such as "W_q", that a key means, or ""."""
    for kind, pattern in (("W", names.WEIGHT), ("b", names.BIAS)):
        letter = names.letter_of(str(key), pattern)
        if letter:
            return f"{kind}_{letter}"
    return ""


def _of_dict(program, framework, held):
    """Return the Entry of a function of x and a dict of weights."""
    sizes, asked = _sizes(inspect.signature(program).parameters, {held}), set()
    heads = any(names.HEADS.fullmatch(names.plain(one)) for one in sizes)

    def made(weights, n_heads, transposed=False):
        given = {one: names.by_name(one, weights["W_q"].shape[1], n_heads) for one in sizes}
        return given | {held: Held(weights, transposed, asked)}

    rest = 3 if heads else 1, framework, (held, *sizes)
    _entry(program, made, "qkvo", "qkvo", *rest)   # to see which of them it takes
    matrices, biases = ([letter for letter in "qkvo" if f"{kind}_{letter}" in asked]
                        for kind in "Wb")
    if not set("qkv") <= set(matrices):
        raise _subject.RefusalError(f"takes no W_q, W_k and W_v from {held}")
    return _entry(program, made, matrices, biases, *rest)


def _sizes(parameters, known):
    """Return {name: None} of the arguments that are sizes, without the known ones."""
    sizes = {one: None for one in parameters if names.by_name(one, 12, 3) is not None
             and one not in known and parameters[one].default is inspect.Parameter.empty}
    sizes |= {one: None for one in parameters if names.HEADS.fullmatch(names.plain(one))}
    return {one: None for one in sizes if not names.X.fullmatch(names.plain(one))}
