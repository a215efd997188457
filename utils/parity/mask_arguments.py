"""The mask arguments of eight programs, called alike, and a probe of what they make of a mask.

Every program here is called as ``call(q, k, v, mask, asked)``, with q, k and v (b, h, i or j, d), a
mask of its own convention, and whether it is to return its weights; it returns (out, weights), and
None for weights that it does not return. Layers have identities for matrices, so that q, k and v
reach the equation as they are. Chapter `mask_conventions` makes its tables with these.
"""

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange

from .. import checks, frameworks, reference, sizes
from . import _transparent
from ._transparent import D_HEAD, HEADS, keras_layer

merge = partial(rearrange, pattern="b h i d -> b i (h d)")
split = partial(rearrange, pattern="b i (h d) -> b h i d", h=HEADS)


def sides(batch=2, n_q=5, n_k=7):
    """Return q, k and v, (b, h, i or j, d), float32; value j is the j-th unit vector.

    So the first ``n_k`` dimensions of a context are the attention weights.
    """
    q, k, _ = sizes.qkv(batch=batch, n_q=n_q, n_k=n_k, d_head=D_HEAD)
    v = np.broadcast_to(np.eye(n_k, D_HEAD), k.shape).copy()
    return [side.astype(np.float32) for side in (q, k, v)]


def answer(call, mask, readings, given=None):
    """Return the reading whose weights a program gives, or "error" if it raises one.

    ``readings`` is {name: arguments of ``reference.attention``}, and ``given`` is as from
    ``sides``. If no reading fits, the result is "something else".
    """
    given = given or sides()
    try:
        out, _ = call(*given, mask)
    except errors():
        return "error"
    seen = checks.to_numpy(out)[..., :given[1].shape[2]]  # (b, h, i, j)
    for name, meant in readings.items():
        _, wanted = reference.attention(*given, **meant)
        if checks.difference(seen, wanted) < 1e-5:
            return name
    return "something else"


def show(corner, table):
    """Return {row: {column: text}} as a table for a notebook; the corner says what a row is."""
    from IPython.display import Markdown
    rows = [[corner, *next(iter(table.values()))]]
    rows += [["---"] * len(rows[0])]
    rows += [[name, *row.values()] for name, row in table.items()]
    return Markdown("\n".join(f"| {' | '.join(row)} |" for row in rows))


def errors():
    """Return the errors that programs raise for a mask that they do not accept."""
    return (AssertionError, IndexError, RuntimeError, TypeError, ValueError,
            frameworks.tensorflow().errors.InvalidArgumentError)


def sdpa(q, k, v, mask=None, asked=False, **options):
    """Call PyTorch's function, which returns no weights."""
    q, k, v = map(torch.as_tensor, (q, k, v))
    mask = None if mask is None else torch.as_tensor(mask)
    return F.scaled_dot_product_attention(q, k, v, mask, **options), None


def mha(q, k, v, mask=None, asked=False, where="attn_mask", **options):
    """Call ``nn.MultiheadAttention``; ``where`` names the argument that gets the mask."""
    q, k, v = (merge(torch.as_tensor(side)) for side in (q, k, v))
    options |= {} if mask is None else {where: torch.as_tensor(mask)}
    out, seen = _transparent.torch_layer()(q, k, v, need_weights=asked, **options)
    return split(out), seen


def layer(q, k, v, mask=None, asked=False, where="src_mask", **options):
    """Call a whole encoder or decoder layer, in which hooks give q, k and v to an attention.

    ``where`` begins with ``src_`` (the encoder's attention), ``tgt_`` or ``memory_`` (the two of
    the decoder).
    """
    whole, attention, inputs = _transparent.whole_layers()[where.partition("_")[0]]
    given, found = [merge(torch.as_tensor(side)) for side in (q, k, v)], []
    options |= {} if mask is None else {where: torch.as_tensor(mask)}
    before = attention.register_forward_pre_hook(
        lambda _, args, more: (tuple(given), more | {"need_weights": asked}), with_kwargs=True)
    after = attention.register_forward_hook(lambda *call: found.append(call[2]))
    with before, after:
        whole(*[torch.zeros_like(given[0])] * inputs, **options)
    return split(found[0][0]), found[0][1]


def keras(q, k, v, mask=None, asked=False, **options):
    """Call Keras' ``MultiHeadAttention``, which takes the value before the key."""
    q, k, v = (merge(frameworks.tensorflow().convert_to_tensor(side)) for side in (q, k, v))
    options |= {"attention_mask": mask, "return_attention_scores": asked}
    out = keras_layer()(q, v, k, **options)
    return (split(out[0]), out[1]) if asked else (split(out), None)


def onnx_node(q, k, v, mask=None, asked=False, **attributes):
    """Call the reference program of ONNX' ``Attention``."""
    onnx = frameworks.onnx()
    inputs = {"Q": q, "K": k, "V": v} | ({} if mask is None else {"attn_mask": mask})
    node = onnx.helper.make_node("Attention", [*inputs], ["Y", "", "", "W"],
                                 qk_matmul_output_mode=3, **attributes)
    out, *_, seen = onnx.reference.ReferenceEvaluator(node).run(None, inputs)
    return out, seen if asked else None


def jax_nn(q, k, v, mask=None, asked=False, **options):
    """Call ``jax.nn.dot_product_attention``, (b, i, h, d), which returns no weights."""
    jax = frameworks.jax()
    q, k, v = (jax.numpy.asarray(side).swapaxes(1, 2) for side in (q, k, v))
    out = jax.nn.dot_product_attention(q, k, v, mask=mask, **options)
    return out.swapaxes(1, 2), None


def mlx_fast(q, k, v, mask=None, asked=False, flag=None):
    """Call MLX' ``scaled_dot_product_attention``; ``flag`` is given where there is no mask."""
    mx = frameworks.mlx()
    mask = flag if mask is None else mx.array(mask)
    out = mx.fast.scaled_dot_product_attention(
        *map(mx.array, (q, k, v)), scale=q.shape[-1] ** -0.5, mask=mask)
    return np.array(out), None


def bert(q, k, v, mask=None, asked=False, eager=False, decoder=False):
    """Call a BERT of one layer, in which hooks give q, k and v to the attention.

    It calls SDPA, or with ``eager``, or if asked for weights, computes them itself. As a decoder,
    it may have fewer queries than keys: then it has the first keys in its cache. Otherwise it
    needs as many queries as keys.
    """
    model, found = _transparent.bert("eager" if eager or asked else "sdpa", decoder), []
    attention = model.encoder.layer[0].attention.self
    attention.register_forward_hook(lambda *call: found.append(call[2]))
    old, options = k.shape[2] - q.shape[2], {"use_cache": decoder}
    if old:
        prompt = [side[:, :, :old] for side in (k, k, v)]
        options["past_key_values"] = _run(model, attention, prompt, options).past_key_values
    if mask is not None:
        options["attention_mask"] = torch.as_tensor(mask)
    _run(model, attention, (q, k[:, :, old:], v[:, :, old:]), options)
    return split(found[-1][0]), found[-1][1]


def arguments():
    """Return {name: call} of all mask arguments, without those of libraries that are missing.

    Only MLX and transformers may be missing.
    """
    return {"SDPA": sdpa, "MHA `attn_mask`": mha,
            "MHA `key_padding_mask`": partial(mha, where="key_padding_mask"),
            "Encoder `src_mask`": layer,
            "Encoder `src_key_padding_mask`": partial(layer, where="src_key_padding_mask"),
            "Keras": keras, "ONNX": onnx_node, "JAX": jax_nn,
            **({"MLX": mlx_fast} if frameworks.mlx() else {}),
            **({"transformers": bert} if frameworks.transformers() else {})}


def _run(model, attention, given, options):
    """Return the model's output, with q, k and v of the attention replaced."""
    for name, side in zip(("query", "key", "value"), given, strict=True):
        merged = merge(torch.as_tensor(side))
        getattr(attention, name).register_forward_hook(lambda *call, merged=merged: merged)
    return model(inputs_embeds=torch.zeros(*merge(given[0]).shape), **options)
