"""The exercises of the chapter on fewer heads of keys and values."""

import torch

from utils.checks import difference
from utils.exercises._answers import listed
from utils.exercises._check import Check, Exercise, examined, predictions, untouched
from utils.measure.counters import Allocations

ALL = {"heads": 12, "kv_heads": 3, "d_head": 40, "window": None}
NARROW = ALL | {"kv_heads": 2, "d_head": 36, "window": 100}
LATENT = {"heads": 12, "latent": 70, "turned": 14}
CASES = (([ALL], 50), ([NARROW], 50), ([NARROW], 250), ([LATENT], 50), ([ALL, NARROW, LATENT], 250))


def _numbers(layer, tokens, *, of_q=False, sides=2, window=min, latent_sides=1, turned=True,
             latent_heads=False):
    """Return how many numbers a layer keeps, or, by the options, how many it is taken to keep."""
    if "latent" in layer:
        width = layer["latent"] + turned * layer["turned"]
        return latent_sides * (layer["heads"] if latent_heads else 1) * width * tokens
    seen = tokens if layer["window"] is None else window(tokens, layer["window"])
    return sides * layer["heads" if of_q else "kv_heads"] * layer["d_head"] * seen


MISREAD = (
    ({"of_q": True}, "The heads of q are counted; kept are those of k and v."),
    ({"sides": 1}, "Keys and values are kept: two tensors, not one."),
    ({"window": max}, "The window is the most that is kept, not the least."),
    ({"window": lambda tokens, _: tokens}, "The window makes no difference."),
    ({"window": lambda _, window: window}, "A chat shorter than the window fills no window."),
    ({"latent_sides": 2}, "The latent vector is kept once: key and value are made of it."),
    ({"turned": False}, "The turned features of a latent layer are kept, too."),
    ({"latent_heads": True}, "The latent vector is one for all heads."),
)


def _chat_bytes(program):
    """Return what is wrong with chat_bytes(layers, tokens), "" if nothing is."""
    got = [program([dict(layer) for layer in layers], tokens) for layers, tokens in CASES]
    for number in got:
        if not hasattr(number, "__int__"):
            return f"A number of bytes is asked for, not {type(number).__name__}."
    for width in 2, 1, 4:
        for options, why in (({}, ""), *MISREAD):
            if got == [width * sum(_numbers(layer, tokens, **options) for layer in layers)
                       for layers, tokens in CASES]:
                return " ".join(filter(None, (why, "" if width == 2 else "Two bytes a number.")))
    right = [2 * sum(_numbers(layer, tokens) for layer in layers) for layers, tokens in CASES]
    layers, tokens = next(case for case, one, other in zip(CASES, got, right, strict=True)
                          if one != other)
    what = f"{len(layers)} layers" if len(layers) > 1 else f"one layer {layers[0]}"
    wrong = [one != other for one, other in zip(got, right, strict=True)]
    more = " Single layers are right: are they added up?" if wrong == [False] * 4 + [True] else ""
    value = got[wrong.index(True)]
    told = [why for options, why in MISREAD
            if value == 2 * sum(_numbers(layer, tokens, **options) for layer in layers)]
    why = f" {told[0]}" if len(told) == 1 else ""  # two mistakes: one is named at a time
    return f"With {what} and {tokens} tokens yours is {value}.{why}{more}"


def _shared(program):
    """Return what is wrong with a kernel that is to share k and v, "" if nothing is."""
    why = examined(program, framework="torch", grouped=True)
    if why:
        return why
    generator = torch.Generator().manual_seed(0)
    for n_q in 1, 3:
        q, k, v = (torch.randn(2, *shape, generator=generator)
                   for shape in ((6, n_q, 16), (2, 500, 16), (2, 500, 24)))
        with torch.no_grad(), Allocations() as new:
            program(q, k, v, None)
        for operation, shape, size in new.made:
            if size > v.nbytes:
                name, side = ("v", v) if shape[-1] == 24 else ("k", k)
                operation = operation.removeprefix("aten.").partition(".")[0]
                return (f"The values are right. But with queries {tuple(q.shape)} and {name} "
                        f"{tuple(side.shape)}, a tensor {shape} was made (by `{operation}`): "
                        f"{name} stands there {size / side.nbytes:.0f} times.")
    return ""


POOLED = predictions({"right for": {1, 6}, "mixed": [0, 2, 4]}, {
    "right for": {None: "Number six heads 0 to 5 and write view(group, n_kv_heads) down as a table "
                        "for each of 1, 2, 3 and 6: one column is one new head."},
    "mixed": {(0, 1, 2): "Those should be. Which are, in view(3, 2)?",
              (0, 3): "That is with three new heads.",
              (1, 3, 5): "That is the second one.",
              (0, 1, 2, 3, 4, 5): "That is with a single new head.",
              None: "view(3, 2) deals six heads into three rows of two. mean(dim=0) takes a "
                    "column."}})


def _wrong_heads(given):
    keys = {"right for", "mixed", "pooled"}
    if not isinstance(given, dict) or set(given) != keys:
        return f"The answer is a dict with the keys {', '.join(map(repr, sorted(keys)))}."
    mixed, right = given["mixed"], given["right for"]
    mixed = sorted(mixed) if isinstance(mixed, set) else mixed
    right = set(right) if isinstance(right, list | tuple) else right
    program = given["pooled"]
    told = "Still open: pooled." if untouched(program) else _pooled(program)
    return listed([part for part in (POOLED({"right for": right, "mixed": mixed}), told) if part])


def _pooled(program):
    """Return what is wrong with pooled(W, n_heads, n_kv_heads), "" if nothing is."""
    W = torch.randn(24, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for n in 2, 3, 1, 6:
        given = W.clone()
        got = program(given, 6, n)
        if not given.equal(W):
            return "pooled: the matrix that it was given is changed."
        if not isinstance(got, torch.Tensor) or got.shape != (4 * n, 5):
            shape = tuple(got.shape) if hasattr(got, "shape") else type(got).__name__
            return f"pooled: of (24, 5) with 6 heads and {n} shared ones ({4 * n}, 5), not {shape}."
        for wrong, why in _pools(W.view(6, 4, 5), n):
            if difference(got, wrong.reshape(4 * n, 5)) < 1e-9:
                if why:
                    return f"pooled: with {n} shared heads, {why}"
                break
        else:
            rows = ", ".join(str(4 * member) for member in range(6 // n))
            return (f"pooled: with {n} shared heads row 0 should be the mean of rows {rows} of the "
                    "old matrix, and so on.")
    return ""


def _pools(heads, n):
    """Yield the right shared heads (n, d, e) of heads (6, d, e), and wrong ones, with why."""
    group = 6 // n
    yield heads.view(n, group, 4, 5).mean(1), ""
    yield heads.view(group, n, 4, 5).mean(0), "it is still the old one: every n-th head is mixed."
    yield heads.view(n, group, 4, 5).sum(1), "it is the sum of the group, not the mean."
    yield heads.view(n, group, 4, 5)[:, 0], "it is the first head of the group, not the mean."
    yield heads[:n], "it is the first heads: what becomes of the others?"
    yield (heads.reshape(n, 4, group, 5).mean(2),
           "neighbouring rows are mixed: features of one head, not one feature of several heads.")
    yield heads.mean(0).expand(n, 4, 5), "all heads are mixed in each."


check = Check({
    "chat_bytes": Exercise(_chat_bytes, (
        "A layer with keys and values keeps 2 · kv_heads · d_head numbers of each token.",
        "With a window of 100, what does the layer keep of 250 tokens? And of 50?",
        "A latent layer keeps one vector for all heads and, beside it, the turned features."),
        "The heads that ask are nowhere in it: only what is asked takes room."),
    "shared_not_copied": Exercise(_shared, (
        "Split the head axis of q in two: the heads of k and v, and those of a group. Which of "
        "the two comes first?",
        "`@` copies what it stretches. einsum with a letter that k lacks does not, nor does a "
        "reshape that makes the group's heads more queries.",
        "Scores of (b, h_kv, group, i, j) flattened to (b, h, i, j) take any mask."),
        "Heads that read the same keys are more queries of one head, and nothing is copied."),
    "wrong_heads_pooled": Exercise(_wrong_heads, (
        "Put the number of the head in for its matrix: view(3, 2) of 0, 1, 2, 3, 4, 5.",
        "With one column, or one row, it makes no difference what is dealt first.",
        "Neighbours belong together: the shared head comes first in the view, then the group."),
        "It is the same mistake as tile for repeat, and the same tests are blind to it."),
})
