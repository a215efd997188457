"""The standard cases of layers: a weight set, x and memory, and masks that the options allow.

Modules get random weights, biases too, and are compared with the reference on what ``roles``,
``packed`` or ``reads`` say they hold.
"""

import numpy as np
import zoo_cases
from zoo_cases import EXACT, SIZES, difference, given

from utils import frameworks, masks, reference, sizes
from utils.parity import weights

WHEN = {"any": ("padding", "one mask for all", "an empty row", "a mask per head"),
        "heads alike": ("padding", "one mask for all", "an empty row"),
        "padding": ("padding", "an empty example"), "none": ()}


def inputs(options, seed):
    """Yield (name, x, memory, n_heads, keep), of sizes that the options allow."""
    rng = np.random.default_rng([seed, 2])
    for name, shape in SIZES.items():
        shape = {"batch": sizes.BATCH, "heads": sizes.HEADS, "n_q": sizes.N_Q, "n_k": sizes.N_K,
                 "d_head": sizes.D_HEAD} | shape
        batch, heads, n_k = shape["batch"], shape["heads"], shape["n_k"]
        e = heads * shape["d_head"]
        same = options.get("module") or options.get("equal_widths")
        n_q = n_k if options.get("square") else shape["n_q"]
        x, memory = sizes.sides(seed, batch=batch, n_q=n_q, n_k=n_k, d_in=e if same else e - 1)
        if options.get("self_attention"):
            x = memory
        some = rng.random((batch, heads, x.shape[1], n_k)) < 0.7
        some[..., 0] = True
        padding = masks.padding(sizes.lengths(seed, batch=batch, n_k=n_k), n_k)
        empty = padding & (np.arange(x.shape[1]) != 1)[:, None]
        length = np.where(np.arange(batch) == 1, 0, sizes.lengths(seed, batch=batch, n_k=n_k))
        keeps = {"padding": padding, "one mask for all": some[0, 0], "an empty row": empty,
                 "a mask per head": some, "an empty example": masks.padding(length, n_k)}
        yield f"{name}, all", x, memory, heads, e, None
        for mask in WHEN[options.get("masks", "any")]:
            yield f"{name}, {mask}", x, memory, heads, e, keeps[mask]


def layer_answers(specimen, program, seed):
    options = specimen.options
    for number, (name, x, memory, n_heads, e, keep) in enumerate(inputs(options, seed)):
        args = [given(specimen.framework, side) for side in (x, memory, keep)]
        if options.get("self_attention"):
            args[1] = args[0]
        if options.get("module"):
            out, held = of_module(specimen, program, args, n_heads, e, seed + 100 * number)
        else:
            d_out = e if options.get("equal_widths") else e + 1
            held = sizes.weights(seed, d_in=x.shape[2], d_model=e, d_out=d_out)
            own = {n: given(specimen.framework, w) for n, w in held.items()}
            out = program(*args[:2], own, n_heads, args[2])
            yield from unchanged(name, held, own)
        right, filled, other = expected(options, x, memory, held, n_heads, keep)
        got = np.asarray(out.detach() if specimen.framework == "torch" else out)
        if got.shape != right.shape:
            yield f"{name}: shape {got.shape}", np.inf, EXACT
            continue
        tolerance = options.get("tolerance", EXACT)
        yield f"{name}: out", difference(got[filled], right[filled]), tolerance
        yield f"{name}: out of empty rows", difference(got[~filled], other[~filled]), 1e-6
        before = {"x": x, "memory": memory, "keep": keep}
        yield from unchanged(name, before, dict(zip(before, args, strict=True)))


def unchanged(name, before, after):
    """Yield how much a program has changed what it was given."""
    yield from ((f"{name}: {letter} afterwards", difference(after[letter], array), 0.0)
                for letter, array in before.items() if array is not None)


def expected(options, x, memory, held, n_heads, keep):
    """Return out, where a query has keys in all heads, and out where it has none, by option."""
    if options.get("pre_norm"):
        x, memory = (normalised(side, options.get("epsilon", 1e-5)) for side in (x, memory))
    q, k, v = reference.project(x, memory, held, n_heads)
    seen = np.broadcast_to(True if keep is None else keep, (*q.shape[:3], k.shape[2]))
    if options.get("causal"):
        seen = seen & masks.causal(q.shape[2], k.shape[2])
    contexts = (reference.attention(q, k, v, seen)[0],
                zoo_cases.of_empty_rows(options, q, k, v)[0])
    out, other = (reference.merge_heads(context) @ np.asarray(held["W_o"], float)
                  + np.asarray(held["b_o"], float) for context in contexts)
    return out, seen.any(axis=-1).all(axis=1), other


def normalised(x, epsilon):
    """Return x with mean 0 and variance 1 over the features: LayerNorm without gain and bias."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred ** 2, axis=-1, keepdims=True) + epsilon)


def of_module(specimen, build, args, n_heads, e, seed):
    """Return (out, the weight set it holds) of a module or Keras layer with random weights."""
    rng, call = np.random.default_rng([seed, 3]), specimen.options["call"]
    if specimen.framework == "tensorflow":
        layer = keras_layer(build, e, n_heads, call, args)
        layer.set_weights([rng.standard_normal(w.shape) / np.sqrt(e) for w in layer.weights])
        return call(layer, *args), keras_weights(specimen.options, layer)
    import torch
    module = build(e, n_heads).double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.tensor(rng.standard_normal(parameter.shape) / np.sqrt(e)))
        return call(module, *args), torch_weights(specimen.options, module, e)


def keras_layer(build, e, n_heads, call, args):
    """Return a Keras layer in float64, called once."""
    keras = frameworks.tensorflow().keras
    before = keras.config.dtype_policy()  # floatx is read only once, for the first layer of all
    keras.config.set_dtype_policy("float64")
    try:
        layer = build(e, n_heads)
        call(layer, *args)
    finally:
        keras.config.set_dtype_policy(before)
    return layer


def keras_weights(options, layer):
    if "reads" in options:
        return options["reads"](layer)
    layers = [getattr(layer, options["roles"][n]) for n in "qkvo"]
    return weights.from_dense([w for dense in layers for w in dense.get_weights()])


def torch_weights(options, module, e):
    params = module.state_dict()
    if not params:
        return sizes.weights(0, d_in=e, d_model=e, d_out=e)
    if "reads" in options:
        return options["reads"](module)
    roles, packed = options["roles"], options.get("packed")
    if packed:
        return weights.from_qkv_module({
            f"{mine}.{part}": params[f"{theirs}.{part}"] for part in ("weight", "bias")
            for mine, theirs in (("W_qkv", packed), ("W_o", roles["o"]))})
    return weights.from_linear(params, tuple(roles[n] for n in "qkvo"))


zoo_cases.LEVELS["layer"] = layer_answers
