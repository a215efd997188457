"""The judges of the first three milestones: attention, the causal mask, the heads."""

import numpy as np
import torch

from utils import masks, reference
from utils.checks import difference, to_numpy
from utils.doctor import examine
from utils.exercises._judges import doctor_report, recognise
from utils.exercises.capstone import probes

TOLERANCE = 1e-9  # of float64


def attention(answer):
    """Judge attention(q, k, v, keep) -> context."""
    with probes.seeded():
        q, k, v = (torch.randn(2, 3, n, d, dtype=torch.float64)
                   for n, d in ((4, 8), (6, 8), (6, 5)))
        out = answer(q, k, v, torch.ones(4, 6, dtype=torch.bool))
        if isinstance(out, tuple | list):
            return ("attention must return one tensor, the context; yours returns "
                    f"{len(out)} values.")
        if isinstance(out, torch.Tensor) and out.shape == (2, 3, 4, 6):
            return ("For 4 queries, 6 keys and d_v = 5 it returns (…, 4, 6), the weights; the "
                    "context is their product with v, (…, 4, 5).")
        return _inverted(answer, q, k, v) or _named(answer) or _values(answer, q, k, v)


def _inverted(answer, q, k, v):
    """Return what is wrong if the context is that of the opposite mask.

    The doctor would ask for no mask, too, for which the opposite gives NaN only.
    """
    keep = torch.arange(24).reshape(4, 6) % 5 < 3  # no row is all True or all False
    if difference(answer(q, k, v, keep), reference.attention(q, k, v, ~keep)[0]) > TOLERANCE:
        return ""
    return ("Your mask is inverted: a query attends to the keys where keep is False. True must "
            "mean that it may attend; masked_fill fills where *its* mask is True → chapter masks.")


def _named(answer):
    """Return the doctor's report on attention, "" if it is healthy."""
    def called(q, k, v, keep):
        full = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)
        return answer(q, k, v, full if keep is None else keep)

    called.__name__ = "attention"
    return doctor_report(called, framework="torch")


def _values(answer, q, k, v):
    """Compare with the reference on data with the axes (b, h) in front, with one, and with none."""
    keep = torch.rand(2, 1, 4, 6) < 0.6
    keep[..., 0] = True  # no row is fully masked
    for axes, case in (("(b, h, i, d)", (q, k, v, keep)),
                       ("(h, i, d)", (q[0], k[0], v[0], keep[0])),
                       ("(i, d)", (q[0, 0], k[0, 0], v[0, 0], keep[0, 0]))):
        expected = reference.attention(*case)[0]
        context = answer(*(x.clone() for x in case))
        message = probes.wrong_tensor(context, expected.shape, f"For q {axes}, the context")
        if not message and difference(context, expected) > TOLERANCE:
            message = (f"For q {axes}, the context differs from the reference by "
                       f"{difference(context, expected):.2g}. Which axes do your lines count on? "
                       "Count from the last one: -1 and -2 → chapter scaled_dot_product.")
        if message:
            return message
    return ""


def mask(answer):
    """Judge causal(n) -> keep."""
    for n in (5, 1, 8):
        keep = answer(n)
        if not isinstance(keep, torch.Tensor):
            return f"causal({n}) must be a tensor, not of type {type(keep).__name__}."
        if tuple(keep.shape) != (n, n):
            return f"causal({n}) must have the shape ({n}, {n}), not {tuple(keep.shape)}."
        if keep.dtype != torch.bool:
            return (f"causal({n}) must be bool, True = may attend, not {keep.dtype}: ~keep of "
                    "numbers is not the opposite mask → chapter masks.")
        message = recognise(keep, _known_masks(n))
        if message is None:
            i, j = np.argwhere(to_numpy(keep) != masks.causal(n))[0]
            message = (f"In causal({n}), query {i} {'may' if j <= i else 'may not'} attend to key "
                       f"{j}; yours says the opposite → chapter masks.")
        if message:
            return message
    return ""


def _known_masks(n):
    """Yield (keep, message), the right mask first."""
    right = masks.causal(n)
    yield right, ""
    yield ~right, ("Your mask is inverted: it is True for later keys, and True must mean that the "
                   "query may attend → chapter masks.")
    yield right.T, ("Your triangle is transposed: query 0 attends to every key, and the last "
                    "query to itself alone. Row i belongs to query i → chapter masks.")
    yield np.tri(n, k=-1, dtype=bool), (
        "Your mask is off by one: no query may attend to itself, and query 0 has no key at all, "
        "so its softmax is NaN → chapter masks.")
    yield np.tri(n, k=1, dtype=bool), (
        "Your mask is off by one: each query also attends to the next key, which holds the token "
        "that it must predict → chapter decoder_mask.")
    yield np.ones((n, n), dtype=bool), "Your mask is True everywhere: it masks no later key."


def heads(answer):
    """Judge MultiHead(d_model, n_heads), a module (b, n, e) -> (b, n, e) that is causal."""
    message = probes.no_module(answer, "MultiHead", "d_model, n_heads")
    if message:
        return message
    with probes.seeded():
        layer, x = probes.awake(answer(24, 3)), torch.randn(2, 7, 24)
        message = (probes.wrong_tensor(layer(x), (2, 7, 24), "MultiHead(24, 3) of x (2, 7, 24)")
                   or _one_head(answer, layer, x))
    if message:
        return message
    report = examine(answer, "layer", causal=True, self_attention=True, masks="none",
                     framework="torch")
    if report.verdict == "sick" and not report.headline.startswith("no match"):
        return f"The doctor says:\n{report}"
    with probes.seeded():  # another design, of which the doctor knows nothing, may be right
        return (_ahead(layer, x) or probes.across_the_batch(layer, x, "MultiHead")
                or _equal_tokens(layer, x) or probes.without_gradient(layer, layer(x)))


@torch.no_grad()
def _one_head(answer, layer, x):
    """Return what is wrong if one head with the same parameters gives the same outputs."""
    one = answer(24, 1)
    try:
        one.load_state_dict(layer.state_dict())
    except RuntimeError:  # its shapes depend on the number of heads
        return ""
    if difference(one.eval()(x), layer(x)) > probes.SAME:
        return ""
    return ("With the same parameters, three heads give the same outputs as one: q, k and v are "
            "never split. Each head must compute its own weights → chapter view_and_transpose.")


def _ahead(layer, x):
    """Return what is wrong if an output depends on a later token."""
    found = probes.ahead(layer, x)
    if not found:
        return ""
    i, j = found[0]
    return (f"Output {i} depends on token {j}, which is later: MultiHead must use causal(n) "
            "→ chapter decoder_mask.")


@torch.no_grad()
def _equal_tokens(layer, x):
    """Return what is wrong if a sequence of equal tokens gets different outputs.

    Weights that sum to 1 make the mean of equal values, whatever the scores are.
    """
    out = layer(x[:, :1].expand(-1, 7, -1).contiguous())
    if difference(out, out[:, :1].expand(-1, 7, -1)) < probes.SAME:
        return ""
    return ("Seven equal tokens get different outputs, but the mean of equal values is that value. "
            "Are the heads split with view and then transposed, and merged the same way back "
            "→ chapter view_and_transpose? Do the weights of a query sum to 1? (Vectors for the "
            "positions belong into Model.)")
