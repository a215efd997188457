"""Code for a reader to complete where the doctor cannot build or call a program by itself."""

import inspect
import re

from .. import _subject
from . import names

KEEP = ("# keep is None, or ({}) with True = may attend:\n"
        "    # turn it into what your mask is, such as ~keep[:, 0]")
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

NO_MASKS = ', masks="none"'
# Code around a class that is built: of a library of JAX, and of one that takes q, k and v in one.
JAX = {"flax": """def layer(x, W_q, W_k, W_v, W_o, n_heads):
    params = {{"params": ...}}    # W_q, W_k, W_v and W_o, (d_in, d_out), by the names of its parts
    return {}.apply(params, x)""",
       "haiku": """def layer(x, W_q, W_k, W_v, W_o, n_heads):
    params = ...    # W_q, W_k, W_v and W_o, (d_in, d_out), by the names of its parts
    return haiku.without_apply_rng(haiku.transform(lambda x: {}(x))).apply(params, x)""",
       "equinox": """def layer(x, W_q, W_k, W_v, W_o, n_heads):
    one = ...       # {}, with W_q, W_k, W_v and W_o, (d_in, d_out), in it
    return jax.vmap(one)(x)"""}
PACKED = """def kernel(q, k, v, keep):    # q, k and v are (b, h, i, d), as the result
    packed = ...              # q, k and v together, as it takes them
    return {}(packed)"""


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
        return _kernel(program)
    method = names.method_name(program) or "forward"
    function = getattr(program, method, None)
    inside = _call(function, LAYER, 1)
    if of_jax(program):
        built = _built(program, "x.shape[-1]", "n_heads")
        return JAX[of_jax(program)].format(built), "doctor.examine(layer)"
    if inside == "packed":
        built = _built(program, "q.shape[-1] * q.shape[1]", "q.shape[1]")
        return PACKED.format(built), f"doctor.examine(kernel{NO_MASKS})"
    if not module:
        return _of_arrays(_built(program, "x.shape[-1]", "n_heads"), method, inside)
    lines = ["def build(d_model, n_heads):",
             f"    return {_built(program, 'd_model', 'n_heads')}", "",
             "def call(module, x, memory, keep):    # x is (b, i, d), memory (b, j, d)",
             *([f"    {KEEP.format('b, 1, i, j')}"] if "keep" in inside else []),
             f"    return module({inside})"]
    options = ["build", "call=call"]
    options += ["self_attention=True"] if "memory" not in inside else []
    options += ['masks="heads alike"' if "keep" in inside else 'masks="none"']
    options += [f"{name}=True" for name, sign in SIGNS.items() if sign.search(_source(function))]
    return "\n".join(lines), f"doctor.examine({', '.join(options)})"


def _kernel(program):
    inside = _call(program, KERNEL, 0)
    lines = ["def kernel(q, k, v, keep):    # q is (b, h, i, d)",
             *([f"    {KEEP.format('b, h, i, j')}"] if "keep" in inside else []),
             f"    return {getattr(program, '__name__', 'program')}({inside})"]
    return "\n".join(lines), f"doctor.examine(kernel{'' if 'keep' in inside else NO_MASKS})"


def _of_arrays(built, method, inside):
    """Return the code and call of a class that holds its weights as arrays."""
    memory = ", memory" if "memory" in inside else ""
    keep = ", keep=None" if "keep" in inside else ""
    return "\n".join([f"def layer(x{memory}, W_q, W_k, W_v, W_o, n_heads{keep}):",
                      f"    one = {built}",
                      "    ...    # give it W_q, W_k, W_v and W_o, each (d_in, d_out)",
                      f"    return one.{method}({inside})"]), "doctor.examine(layer)"


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
