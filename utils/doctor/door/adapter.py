"""Code for a reader to complete where the doctor cannot build or call a program by itself."""

import inspect
import re

from .. import _subject
from . import names

KEEP = ("\n    # keep is None, or ({}) with True = may attend; where your mask is another:\n"
        "    # keep = None if keep is None else ~keep[:, 0]")
ADDED = "None if keep is None else ~keep * -1e9"
# What an argument gets by its role: in a layer, and in a kernel; and all of them, if those of a
# method are q, k and v in one, or unknown.
LAYER = {"x": "x", "q": "x", "k": "memory", "v": "memory", "memory": "memory", "mask": "keep",
         "padding": "keep", "keep": "keep", "off": "False", "start": "0", "n": "x.shape[1]",
         "1": "1", "none": "None", "packed": "packed", "unknown": "x"}
KERNEL = LAYER | {"q": "q", "k": "k", "v": "v", "d": "q.shape[-1]", "√d": "q.shape[-1] ** 0.5",
                  "packed": "q, k, v", "unknown": "q, k, v"}
# Options of the doctor, and what asks for them in the code of a forward.
X = "(x|inputs?|hidden_states|src|tgt|query|latents|residual|shortcut|identity)"
SIGNS = {"pre_norm": re.compile(rf"norm\w*\({X}\)"),
         "residual": re.compile(rf"return .*(\b{X} *\+|\+ *{X}\b)"),
         "post_norm": re.compile(r"return self\.\w*norm\w*\(", re.IGNORECASE)}
# The code around a call, by what a program is.
CODE = {"kernel": """def kernel(q, k, v, keep):    # q is (b, h, i, d){comment}
    return {built}({inside})""",
        "packed": """def kernel(q, k, v, keep):    # q, k and v are (b, h, i, d)
    packed = ...              # q, k and v in one array, as its forward takes them
    return {built}(packed)    # and back to (b, h, i, d)""",
        "module": """def build(d_model, n_heads):
    return {built}

def call(module, x, memory, keep):    # x is (b, i, d), memory (b, j, d){comment}
    return module({inside})""",
        "arrays": """def layer(x{memory}, W_q, W_k, W_v, W_o, n_heads{keep}):
    one = {built}
    ...    # give it W_q, W_k, W_v and W_o, each (d_in, d_out)
    return one.{method}({inside})""",
        "flax": """def layer(x, W_q, W_k, W_v, W_o, n_heads):
    params = {{"params": ...}}    # W_q, W_k, W_v and W_o, (d_in, d_out), by the names of its parts
    return {built}.apply(params, x)""",
        "haiku": """def layer(x, W_q, W_k, W_v, W_o, n_heads):
    params = ...    # W_q, W_k, W_v and W_o, (d_in, d_out), by the names of its parts
    return haiku.without_apply_rng(haiku.transform(lambda x: {built}(x))).apply(params, x)""",
        "equinox": """def layer(x, W_q, W_k, W_v, W_o, n_heads):
    one = ...       # {built}, with W_q, W_k, W_v and W_o, (d_in, d_out), in it
    return jax.vmap(one)(x)"""}
JAX = ("flax", "haiku", "equinox")
SIZES = {"packed": ("q.shape[-1] * q.shape[1]", "q.shape[1]"), "module": ("d_model", "n_heads")}


def of_jax(program):
    """Return the name of the library of JAX whose layer a class is, or ""."""
    homes = {part for base in getattr(program, "__mro__", ())
             for part in base.__module__.split(".")}
    return next((name for name in JAX if name in homes), "")


def adapter(program, module=True):
    """Return (code, call) as text: code that builds and calls a program, and how to examine it.

    What the doctor knows is filled in, and what it does not know is ``...``. ``module``: whether a
    class makes modules of torch or Keras.
    """
    if not isinstance(program, type):
        kind, method, function = "kernel", "", program
        inside, built = _call(program, KERNEL, 0), getattr(program, "__name__", "program")
    else:
        method = names.method_name(program) or "forward"
        function = getattr(program, method, None)
        inside = _call(function, LAYER, 1)
        kind = of_jax(program) or ("packed" if inside == "packed" else
                                   "module" if module else "arrays")
        built = _built(program, *SIZES.get(kind, ("x.shape[-1]", "n_heads")))
    masked, memory = "keep" in inside, "memory" in inside
    axes = "b, h, i, j" if kind == "kernel" else "b, 1, i, j"
    code = CODE[kind].format(
        built=built, inside=inside, method=method, comment=KEEP.format(axes) if masked else "",
        memory=", memory" if memory else "", keep=", keep=None" if masked else "")
    options = ["layer"]
    if kind in ("kernel", "packed"):
        options = ["kernel"] if masked else ["kernel", 'masks="none"']
    elif kind == "module":
        options = ["build", "call=call", *([] if memory else ["self_attention=True"]),
                   'masks="heads alike"' if masked else 'masks="none"']
        options += [f"{sign}=True" for sign, words in SIGNS.items()
                    if words.search(_source(function))]
    return code, f"examine({', '.join(options)})"


def _built(program, d_model, n_heads):
    """Return the call of a constructor as code."""
    known = {names.KV_HEADS: "...", names.HEADS: n_heads,
             names.HEAD_WIDTH: f"{d_model} // {n_heads}", names.WIDTH: d_model}
    try:
        parameters = names.parameters(program)
    except (TypeError, ValueError):
        parameters = {}
    found = []
    for name, one in parameters.items():
        word = names.plain(name)
        text = next((text for pattern, text in known.items() if pattern.fullmatch(word)), None)
        if text is None and one.default is one.empty:
            value = names.by_name(name, 12, 3)
            text = "..." if value is None else repr(value)
        if text is not None:
            found.append(f"{name}={text}")
    return f"{program.__name__}({', '.join(found)})"


def _call(function, texts, skip):
    """Return the arguments of a call as code, by their roles."""
    try:
        roles = names.roles_of(function, skip=skip, guess=True)
    except names.PackedError:
        return texts["packed"]
    except (_subject.RefusalError, TypeError, ValueError):
        return texts["unknown"]
    found = []
    for name, role in roles.items():
        text = texts.get(role, "...")
        if text == "keep" and re.search(rf"\+=? *{name}\b", _source(function)):
            text = ADDED
        found.append(f"{name}={text}")
    return ", ".join(found)


def _source(function):
    """Return the code of a function, or ""."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""
