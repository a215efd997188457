"""The judge of the third milestone: several heads, causal."""

import traceback

import torch

from ...checks import difference
from ...doctor import examine
from . import probes


def heads(answer):
    """Judge MultiHead(d_model, n_heads), a module (b, n, e) -> (b, n, e) that is causal."""
    message = probes.no_module(answer, "MultiHead", "d_model, n_heads")
    if message:
        return message
    with probes.seeded():
        layer, x = probes.awake(answer(24, 3)), torch.randn(2, 7, 24)
        message = (probes.hidden(layer) or _fails_inside(layer, x)
                   or probes.wrong_tensor(layer(x), (2, 7, 24), "MultiHead(24, 3) of x (2, 7, 24)")
                   or _one_head(answer, layer, x))
    if message:
        return message
    report = examine(answer, "layer", causal=True, self_attention=True, masks="none",
                     framework="torch")
    if report.verdict == "sick" and not report.headline.startswith("identical calls"):
        unused = probes.without_gradient(layer, layer(x))
        if report.headline.startswith(("packed order", "wrong projection")) and unused:
            return unused  # such as W_v, where v is made with W_k
        return f"The doctor says:\n{report}"
    with probes.seeded():  # another design, of which the doctor knows nothing, may be right
        return (probes.by_chance(layer, x, "MultiHead") or _ahead(layer, x)
                or probes.forgets(layer, x, "MultiHead")
                or probes.across_the_batch(layer, x, "MultiHead")
                or _equal_tokens(layer, x) or probes.without_gradient(layer, layer(x)))


def _fails_inside(layer, x):
    """Return what is wrong if attention, which is right, raises an error on what it gets."""
    try:
        layer(x)
    except (RuntimeError, IndexError) as error:
        if "attention" not in [step.name for step in traceback.extract_tb(error.__traceback__)]:
            raise
        return ("attention is right, but raises an error on what MultiHead gives it, so the fault "
                "is in MultiHead. q, k and v must be (b, h, n, d): split with view, and then "
                "transpose(1, 2) → chapter view_and_transpose. The error: "
                + " ".join(str(error).split())[:200])
    return ""


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
            "→ chapter decoder_mask. If it does, the heads are merged in the wrong order: "
            "transpose(1, 2) comes before reshape → chapter view_and_transpose.")


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
