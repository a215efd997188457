"""A function of x and its weights: as arguments, as pairs {"w", "b"}, or in one dict."""

import re
from functools import partial

from .. import _subject, backends
from . import names, objects

# Arguments that are {"w": …, "b": …}, as in picoGPT, and the letters of which they hold weights.
PAIRS = {"cattn": "qkv", "qkv": "qkv", "inproj": "qkv", "cproj": "o", "outproj": "o", "proj": "o"}
# Names of an argument that is a dict of weights.
HELD = re.compile(r"(params?|parameters|weights?|ws?|p|ps|theta|state(dict)?|sd|layer|attn)")


def of_weights(program, framework):
    """Return the Entry of a function of x and W_q, W_k, W_v. Raises RefusalError for another."""
    words = {one: names.plain(one) for one in names.parameters(program)}
    single = {one: names.weight_of(one) for one in words if any(names.weight_of(one))}
    pairs = {one: PAIRS[word] for one, word in words.items() if word in PAIRS}
    homes = [one for one, word in words.items() if HELD.fullmatch(word)]
    matrices, biases = ("".join(letter for some, letter in single.values() if some == kind)
                        for kind in "Wb")

    def in_pairs(weights, transposed):
        return {one: {kind.lower(): objects.joined(weights, kind, letters, transposed)
                      for kind in "Wb"} for one, letters in pairs.items()}

    def one_by_one(weights, transposed):
        return {one: objects.joined(weights, *meant, transposed) for one, meant in single.items()}

    if sorted(pairs.values()) == ["o", "qkv"]:
        return _entry(program, framework, pairs, in_pairs)
    if homes and not matrices:
        return _of_dict(program, framework, homes[0])
    if not set("qkv") <= set(matrices):
        raise _subject.RefusalError("does not have the arguments q, k and v, or W_q, W_k and W_v")
    return _entry(program, framework, single, one_by_one, matrices, biases)


def _entry(program, framework, known, held, matrices="qkvo", biases="qkvo"):
    """Return the Entry of a function that gets ``held(weights, transposed)`` as ``known``."""
    parameters = names.parameters(program)
    heads = [one for one in parameters if names.HEADS.fullmatch(names.plain(one))]
    sizes = heads + [one for one, parameter in parameters.items()
                     if one not in (*known, *heads) and parameter.default is parameter.empty
                     and names.by_name(one, 12, 3) is not None
                     and not names.X.fullmatch(names.plain(one))]

    def bound(weights, n_heads, transposed=False):
        width = weights["W_q"].shape[1]
        return partial(program, **held(weights, transposed), **{
            one: names.by_name(one, width, n_heads) for one in sizes})

    one = objects.Weighted(bound, program, matrices, biases, (*known, *sizes))
    return objects.entry_of(one, 12, 3 if heads else 1, backends.BY_NAME[framework], "It is ")


def _of_dict(program, framework, home):
    """Return the Entry of a function of x and a dict of weights."""
    asked = set()

    def held(weights, transposed):
        return {home: Held({name: objects.joined(weights, *name.split("_"), transposed)
                            for name in weights}, asked)}

    _entry(program, framework, [home], held)   # to see which of them it takes
    matrices, biases = ("".join(letter for some, letter in asked if some == kind) for kind in "Wb")
    if not set("qkv") <= set(matrices):
        raise _subject.RefusalError(f"takes no W_q, W_k and W_v from {home}")
    return _entry(program, framework, [home], held, matrices, biases)


class Held(dict):
    """Weights by any name that means one of them; ``asked``: those that were, as ("W", "q")."""

    def __init__(self, weights, asked):
        super().__init__(weights)
        self._asked = asked

    def __getitem__(self, key):
        kind, letter = names.weight_of(str(key))
        if not kind:
            return self._of_gate(key)
        self._asked.add((kind, letter))
        return super().__getitem__(f"{kind}_{letter}")

    def _of_gate(self, key):
        """Return the weight or bias of a gate that is open for all inputs."""
        if not re.fullmatch(r"[wb]_*g(ate)?|g(ate)?(_(w|b|weight|bias))?", str(key).lower()):
            raise KeyError(key)
        w = super().__getitem__("W_q")
        bias = re.search(r"^b|_b", str(key).lower())
        return w[0] * 0 + 40.0 if bias else w * 0

    def __contains__(self, key):
        return any(names.weight_of(str(key)))

    def get(self, key, default=None):
        """Return a weight, or the default for a name that means none."""
        return self[key] if any(names.weight_of(str(key))) else default
