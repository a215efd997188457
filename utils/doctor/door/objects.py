"""A class that is no module and holds its weights as arrays, which the doctor can write."""

import re

import numpy as np

from ... import checks, sizes
from .. import _subject, backends, faulty
from ..faulty.kernel import Band
from ..modules import guess
from . import entry, names
from .call import Target, carried_out
from .entry import Entry
from .plan import LAYER
from .trial import tried

# Names of arrays, and of what holds them, that say nothing of q, k, v or o; and of packed ones.
HELD = re.compile(r"b|bias(es)?|w|weights?|kernel|mat(rix|rices)?|params?|parameters|theta|layers")
PACKED = re.compile(r"((w|b|weights?|bias)_?)?qkv(_?(w|b|weights?|bias|proj))?")


def layer(plan, sample, name):
    """Return the Entry of a class that is no module and holds its weights as arrays.

    ``sample``: an object that was built by the plan, in words ``name``. Raises RefusalError for a
    class without such weights or without a method that takes x.
    """
    method = names.method_name(plan.program)
    held = _held(sample, plan.d_model)
    letters = {kind: "".join(some for *_, one, some in held if one == kind) for kind in "Wb"}
    if not method or not set("qkv") <= set(letters["W"]):
        raise _subject.RefusalError(
            "is neither a torch module nor a Keras layer, and holds no arrays that are called W_q, "
            "W_k and W_v")

    def bound(weights, n_heads, transposed=False):
        d_model = weights["W_q"].shape[1]
        one = plan.made(d_model, n_heads)
        for owner, key, old, kind, some in _held(one, d_model):
            new = joined(weights, kind, some, transposed)
            if isinstance(old, list):  # one array for each head, which may take only some rows
                new = [w[:len(own)] if w.ndim == 2 else w for w, own in zip(
                    np.split(new, n_heads, axis=-1), old, strict=True)]
            elif kind == "b" and old.ndim == 2:
                new = new[None]
            if isinstance(owner, dict | list):
                owner[key] = new
            else:
                setattr(owner, key, new)
        return getattr(one, method)

    _, _, first, *_ = held[0]
    backend = backends.of(first[0] if isinstance(first, list) else first)
    return entry_of(bound, getattr(sample, method), letters, (plan.d_model, plan.n_heads), backend,
                    f"{name}{method} is ")


def joined(weights, kind, letters, transposed):
    """Return the weights or biases of some letters in one array; ``transposed``: (out, in)."""
    parts = [checks.to_numpy(weights[f"{kind}_{letter}"]) for letter in letters]
    array = np.concatenate(parts, axis=-1)
    return backends.like(array.T if transposed and kind == "W" else array, weights["W_q"])


def entry_of(bound, function, letters, size, backend, name, aside=()):
    """Return the Entry of what is called as ``bound(weights, n_heads, transposed)(**arguments)``.

    ``function`` has the arguments, of which ``aside`` are known. ``letters``: {"W": those of the
    matrices that it takes, "b": those of the biases}. ``size``: (d_model, n_heads). ``backend``: of
    its arrays. ``name``: it in words.
    """
    d_model, n_heads = size
    like = backend.zero("float64")
    arrays = sizes.weights(d_in=d_model, d_model=d_model, d_out=d_model)
    weights = {key: backends.like(w, like) for key, w in arrays.items()}
    target = Target(bound(weights, n_heads), like, n_heads)
    trial = tried(target, function, LAYER, d_model, aside)
    unbiased = "".join(letter for letter in "qkvo" if letter not in letters["b"])
    form = {"unbiased": unbiased, "no_output": "o" not in letters["W"], "equal_widths": True,
            "heads": (1, None) if n_heads == 1 else None}

    def meets_reference(transposed):
        x, memory, _ = trial.sides
        expected = faulty.layer.layer(x, memory, arrays, n_heads, unbiased=unbiased,
                                      out="W_o b_o" if "o" in letters["W"] else "",
                                      band=Band(None, 0) if trial.plan.causal else Band())
        try:
            with _subject.refusing():
                turned = target._replace(ask=bound(weights, n_heads, transposed))
                out = turned.answer(trial.plan, trial.sides)
        except _subject.RefusalError:
            return False
        return np.allclose(out, expected, atol=1e-4)

    transposed = meets_reference(True) and not meets_reference(False)

    def made(plan):
        def program(x, memory, weights, n_heads, keep):
            target = Target(bound(weights, n_heads, transposed), x, n_heads)
            return carried_out(target, plan, plan.sides(x, memory), keep)

        said = f"{name}{plan.said()}" + "; its weights are (out, in)" * transposed
        return Entry(program, "layer", {"framework": backend.name}, said, form)
    return entry.entries(trial, made)


def _held(one, d_model):
    """Return [(owner, key, array, kind, letters)] of the weights in an object."""
    arrays = [*_arrays(one)]
    held = [(owner, path[-1], array, *_meaning(path)) for path, owner, array in arrays
            if _meaning(path)]
    if not set("qkv") <= {letter for *_, kind, letter in held if kind == "W"}:
        for _, _, several in arrays:  # may be W_q, W_k, W_v and W_o in one list
            if isinstance(several, list) and len(several) in (3, 4) and all(
                    tuple(w.shape) == (d_model, d_model) for w in several):
                return held + [(several, n, w, "W", "qkvo"[n]) for n, w in enumerate(several)]
    return held


def _arrays(home, before=(), depth=3):
    """Yield (path, owner, array or list of arrays) in an object, its parts, and their dicts."""
    items = home if isinstance(home, dict) else getattr(home, "__dict__", {})
    for name, value in items.items():
        path = (*before, name)
        several = isinstance(value, list) and value and all(map(_is_array, value))
        if several or _is_array(value):
            yield path, home, value
        elif depth and (isinstance(value, dict) or hasattr(value, "__dict__")):
            yield from _arrays(value, path, depth - 1)


def _meaning(path):
    """Return ("W" or "b", letters of qkvo) for a path such as ("q_proj", "params", "W"), or ""."""
    words = [str(name).lstrip("_") for name in path]
    kind = "b" if re.fullmatch(r"(b|bias(es)?|beta)(_?qkv)?", words[-1]) else "W"
    if PACKED.fullmatch(words[-1].lower()):
        return kind, "qkv"
    if any(names.weight_of(words[-1])):
        return names.weight_of(words[-1])
    letters = [letter for word in reversed(words) if (letter := guess.letter(word))]
    known = len(words) == 1 or any(HELD.fullmatch(word.lower()) for word in words[-2:])
    return (kind, letters[0]) if letters and known else ""


def _is_array(value):
    shape = getattr(value, "shape", None)  # None in a Keras InputSpec, and False in a Config
    return bool(shape) and hasattr(value, "dtype") and len(shape) in (1, 2)
