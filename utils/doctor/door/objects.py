"""A class that is no module and holds its weights as arrays, which the doctor can write."""

import re

import numpy as np

from ... import checks
from .. import _subject
from ..modules import guess
from . import constructors, names
from .entry import Entry, like
from .trial import Trial


def layer(program, sample, d_model, n_heads, name):
    """Return the Entry of a class that is no module and holds its weights as arrays.

    ``sample``: an object that was built, in words ``name``. Raises RefusalError for a class without
    such weights or without a method that takes x.
    """
    method = next((one for one in names.METHODS if callable(getattr(program, one, None))), None)
    held = {path: letter for path in _paths(sample) if (letter := _meaning(path))}
    arrays = {path: _at(sample, path) for path in held}
    matrices = {letter: path for path, (kind, letter) in held.items() if kind == "W"}
    biases = {letter: path for path, (kind, letter) in held.items() if kind == "b"}
    if not method or not set("qkv") <= set(matrices):
        raise _subject.RefusalError(
            "is neither a torch module nor a Keras layer, and holds no arrays that are called W_q, "
            "W_k and W_v")

    def made(weights, n_heads, transposed=False):
        one = program(**constructors.arguments(program, weights["W_q"].shape[1], n_heads)[0])
        for letter, path in matrices.items():
            w = weights[f"W_{letter}"]
            _put(one, path, w.T if transposed else w, n_heads)
        for letter, path in biases.items():
            b = weights[f"b_{letter}"]
            one_row = not isinstance(arrays[path], list) and arrays[path].ndim == 2
            _put(one, path, b[None] if one_row else b, n_heads)
        return one

    framework = "torch" if hasattr(arrays[matrices["q"]], "new_tensor") else "numpy"
    return entry(made, getattr(sample, method), lambda one, **given: getattr(one, method)(**given),
                  matrices, biases, (d_model, n_heads), framework, f"{name}{method} is ")


def entry(made, function, ask, matrices, biases, size, framework, name, aside=()):
    """Return the Entry of what ``made(weights, n_heads)`` gives, called by ``ask``."""
    from ... import sizes
    d_model, n_heads = size
    weights = sizes.weights(d_in=d_model, d_model=d_model, d_out=d_model)
    x = np.zeros(1)
    if framework == "torch":
        import torch
        x = torch.zeros(1, dtype=torch.float64)
    elif framework == "tensorflow":
        from ... import frameworks
        x = frameworks.tensorflow().constant(x)
    weights = {key: like(w, x) for key, w in weights.items()}
    try:
        trial = Trial(made(weights, n_heads), function, ask, d_model, x, aside)
        one_by_one = False
    except _subject.RefusalError as refusal:
        try:
            trial = Trial(made(weights, n_heads), function, _each(ask), d_model, x, aside)
        except _subject.RefusalError:
            raise refusal from None
        one_by_one = True
    no_output = "o" not in matrices
    unbiased = "".join(letter for letter in "qkvo" if letter not in biases)

    def adapted(transposed):
        def program(x, memory, weights, n_heads, keep):
            return trial.call(made(weights, n_heads, transposed), x, memory, keep)
        return program

    transposed = _is_transposed(adapted, weights, n_heads, trial, unbiased, no_output, x)
    said = f"{name}{trial.said()}"
    said += ", one example at a time, (i, d)" if one_by_one else ""
    said += "; its weights are (out, in)" if transposed else ""
    form = {"unbiased": unbiased, "no_output": no_output, "equal_widths": True}
    form |= {"heads": (1, None)} if n_heads == 1 else {}
    options = {"self_attention": trial.alone, "causal": trial.causal, "framework": framework,
               "masks": trial.way.masks if trial.way else "none"}
    return Entry(adapted(transposed), "layer", options, said, form)


def _each(ask):
    """Return a function that calls ``ask`` for each example alone, and stacks what it gives."""
    def each(one, **given):
        n = len(next(iter(given.values())))
        outs = [names.first(ask(one, **{key: side[b] if hasattr(side, "shape") else side
                                        for key, side in given.items()}),
                            next(iter(given.values())).shape[1:]) for b in range(n)]
        return like(np.stack([checks.to_numpy(out) for out in outs]), next(iter(given.values())))
    return each


def _is_transposed(adapted, weights, n_heads, trial, unbiased, no_output, like_x):
    """Return whether the reference is met with every weight transposed, and not without."""
    from .. import faulty
    arrays = {key: checks.to_numpy(w) for key, w in weights.items()}
    x, memory = trial.x, trial.memory
    expected = faulty.layer.layer(x, memory, arrays, n_heads, unbiased=unbiased,
                                  out="" if no_output else "W_o b_o", band=_band(trial))

    def meets(transposed):
        try:
            with _subject.quiet():
                out = adapted(transposed)(like(x, like_x), like(memory, like_x), weights, n_heads,
                                          None)
            return np.allclose(checks.to_numpy(out), expected, atol=1e-4)
        except Exception:
            return False
    return meets(True) and not meets(False)


def _band(trial):
    from ..faulty.kernel import Band
    return Band(None, 0) if trial.causal else Band()


def _paths(home, before=(), depth=3):
    """Yield the paths to the arrays in an object, its parts, and their dicts.

    A list of arrays, one for each head, has one path.
    """
    items = home if isinstance(home, dict) else getattr(home, "__dict__", {})
    for name, value in items.items():
        path = (*before, name)
        several = isinstance(value, list) and value and all(map(_is_array, value))
        if several or _is_array(value):
            yield path
        elif depth and (isinstance(value, dict) or hasattr(value, "__dict__")):
            yield from _paths(value, path, depth - 1)


def _at(home, path):
    for name in path:
        home = home[name] if isinstance(home, dict) else getattr(home, name)
    return home


def _put(home, path, array, n_heads):
    """Write an array to a path; a list gets the columns of one head each.

    Heads that take only so many rows, as those of a split input, get these.
    """
    *before, last = path
    owner, old = _at(home, before), _at(home, path)
    if isinstance(old, list):
        array = [w[:len(one)] if w.ndim == 2 else w for w, one in zip(
            np.split(array, n_heads, axis=-1), old, strict=True)]
    if isinstance(owner, dict):
        owner[last] = array
    else:
        setattr(owner, last, array)


def _meaning(path):
    """Return ("W" or "b", a letter of qkvo) for a path such as ("q_proj", "params", "W"), or ""."""
    words = [str(name).lstrip("_") for name in path]
    for kind, pattern in (("b", names.BIAS), ("W", names.WEIGHT)):
        letter = names.letter_of(words[-1], pattern)
        if letter:
            return kind, letter
    letters = [letter for word in reversed(words) if (letter := guess.letter(word))]
    kind = "b" if re.fullmatch(r"b|bias(es)?|beta", words[-1]) else "W"
    known = len(words) == 1 or re.fullmatch(r"b|bias(es)?|w|weights?|kernel|mat(rix)?",
                                            words[-1].lower())
    return (kind, letters[0]) if letters and known else ""


def _is_array(value):
    shape = getattr(value, "shape", None)  # None in the InputSpec of a Keras layer
    return shape is not None and hasattr(value, "dtype") and len(shape) in (1, 2)
