"""The exercises of the chapter on fewer heads of keys and values."""

import torch

from ..measure.counters import Allocations
from ._check import Check, Exercise
from ._judges import doctor_report, parts, prediction, recognise

ALL = {"heads": 12, "kv_heads": 3, "d_head": 40, "window": None}
NARROW = ALL | {"kv_heads": 2, "d_head": 36, "window": 100}
LATENT = {"heads": 12, "latent": 70, "turned": 14}
CASES = (([ALL], 50), ([NARROW], 50), ([NARROW], 250), ([LATENT], 50), ([ALL, NARROW, LATENT], 250))


def _numbers(layer, tokens, *, of_q=False, sides=2, window=min, latent_sides=1, turned=True,
             latent_heads=False):
    """Return how many numbers a layer keeps; the options are for mistakes in counting them."""
    if "latent" in layer:
        width = layer["latent"] + turned * layer["turned"]
        return latent_sides * (layer["heads"] if latent_heads else 1) * width * tokens
    seen = tokens if layer["window"] is None else window(tokens, layer["window"])
    return sides * layer["heads" if of_q else "kv_heads"] * layer["d_head"] * seen


MISTAKES = (
    ({"of_q": True}, "You count the heads of q, but only those of k and v are kept."),
    ({"sides": 1}, "Keys and values are kept: two tensors, not one."),
    ({"window": max}, "The window is the largest number of tokens that is kept, not the smallest."),
    ({"window": lambda tokens, _: tokens}, "You do not use the window."),
    ({"window": lambda _, window: window}, "A chat shorter than the window does not fill it."),
    ({"latent_sides": 2}, "The latent vector is kept once: key and value are made from it."),
    ({"turned": False}, "The rotated dimensions of a latent layer are kept, too."),
    ({"latent_heads": True}, "All heads share one latent vector."),
)


def _bytes(layers, tokens, width=2, **options):
    return width * sum(_numbers(layer, tokens, **options) for layer in layers)


def _chat_bytes(program):
    """Return what is wrong with chat_bytes(layers, tokens), "" if nothing is."""
    got = [program([dict(layer) for layer in layers], tokens) for layers, tokens in CASES]
    for number in got:
        if not hasattr(number, "__int__"):
            return f"It must return a number of bytes, not {type(number).__name__}."
    for width in 2, 1, 4:
        for options, message in (({}, ""), *MISTAKES):
            if got == [_bytes(*case, width, **options) for case in CASES]:
                messages = [message, "A number has two bytes." if width != 2 else ""]
                return " ".join(filter(None, messages))
    wrong = [n for n, case in enumerate(CASES) if got[n] != _bytes(*case)]
    layers, tokens = CASES[wrong[0]]
    if wrong == [len(CASES) - 1]:
        return (f"With {len(layers)} layers and {tokens} tokens you get {got[-1]}, but single "
                "layers are right: are they added up?")
    messages = [message for options, message in MISTAKES
                if got[wrong[0]] == _bytes(layers, tokens, **options)]
    text = f"With one layer {layers[0]} and {tokens} tokens you get {got[wrong[0]]}."
    return f"{text} {messages[0]}" if len(messages) == 1 else text  # there may be two mistakes


def _shared(program):
    """Judge a kernel that must not copy k and v for the heads that share them."""
    report = doctor_report(program, framework="torch", grouped=True)
    if report:
        return report
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
                return (f"The values are right. But for queries {tuple(q.shape)} and {name} "
                        f"{tuple(side.shape)} it makes a tensor {shape} (by `{operation}`), which "
                        f"contains {name} {size / side.nbytes:.0f} times.")
    return ""


def _right_for(given):
    given = set(given) if isinstance(given, list | tuple) else given
    return prediction({1, 6}, (
        "Number six heads 0 to 5 and write view(group, n_kv_heads) down as a matrix, for each of "
        "1, 2, 3 and 6: each column is one new head."))(given)


def _mixed(given):
    given = sorted(given) if isinstance(given, set) else given
    return prediction([0, 2, 4], {
        (0, 1, 2): "Those should be mixed. Which are mixed in view(3, 2)?",
        (0, 3): "That is the answer for three new heads.",
        (1, 3, 5): "Those are mixed in the second new head.",
        (0, 1, 2, 3, 4, 5): "That is the answer for a single new head.",
        None: "view(3, 2) puts six heads into three rows of two. mean(dim=0) takes the mean of a "
              "column."})(given)


def _pooled(program):
    """Judge pooled(W, n_heads, n_kv_heads)."""
    W = torch.randn(24, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for n in 2, 3, 1, 6:
        given = W.clone()
        got = program(given, 6, n)
        if not given.equal(W):
            return "it changes the given matrix in place."
        if not isinstance(got, torch.Tensor) or got.shape != (4 * n, 5):
            shape = tuple(got.shape) if hasattr(got, "shape") else type(got).__name__
            return (f"for (24, 5) with 6 heads and {n} shared ones it must return ({4 * n}, 5), "
                    f"not {shape}.")
        message = recognise(got.view(n, 4, 5), _known_pools(W.view(6, 4, 5), n))
        if message is None:
            rows = ", ".join(str(4 * member) for member in range(6 // n))
            message = f"row 0 must be the mean of rows {rows} of the old matrix, and so on."
        if message:
            return f"with {n} shared heads, {message}"
    return ""


def _known_pools(heads, n):
    """Yield (shared heads (n, d, e), message) for heads (6, d, e), the right ones first."""
    group = 6 // n
    yield heads.view(n, group, 4, 5).mean(1), ""
    yield (heads.view(group, n, 4, 5).mean(0),
           "it does the same as the old one: it mixes every n-th head.")
    yield heads.view(n, group, 4, 5).sum(1), "it takes the sum of the group, not the mean."
    yield heads.view(n, group, 4, 5)[:, 0], "it takes the first head of the group, not the mean."
    yield heads[:n], "it takes the first heads and ignores the others."
    yield (heads.reshape(n, 4, group, 5).mean(2),
           "it mixes neighbouring rows, which are dimensions of one head. Mix one dimension of "
           "several heads.")
    yield heads.mean(0).expand(n, 4, 5), "it mixes all heads in each shared head."


check = Check({
    "chat_bytes": Exercise(_chat_bytes, (
        "A layer with keys and values keeps 2 · kv_heads · d_head numbers of each token.",
        "With a window of 100, what does the layer keep of 250 tokens? And of 50?",
        "A latent layer keeps one vector for all heads and, in addition, the rotated dimensions."),
        "The number of query heads does not matter: only keys and values need memory."),
    "shared_not_copied": Exercise(_shared, (
        "Split the head axis of q in two: the heads of k and v, and the heads of a group. Which of "
        "the two comes first?",
        "`@` copies what it broadcasts. einsum with an index that k lacks does not, nor does a "
        "reshape that turns the heads of a group into more queries.",
        "If you flatten scores (b, h_kv, group, i, j) to (b, h, i, j), any mask fits."),
        "Heads that share keys are more queries of one head, so no key needs to be copied."),
    "wrong_heads_pooled": Exercise(parts({
        "right for": _right_for, "mixed": _mixed, "pooled": _pooled}), (
        "Replace each head's matrix by the number of the head: view(3, 2) of 0, 1, 2, 3, 4, 5.",
        "With one column, or one row, both orders of the two axes are the same.",
        "The heads of a group are neighbours: the shared head comes first in the view, then the "
        "group."),
        "It is the same mistake as tile for repeat, and the same tests miss it."),
})
