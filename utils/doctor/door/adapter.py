"""Code for a reader to complete where the doctor cannot build or call a program by itself."""

import inspect
import re

from . import names

KEEP = ("# keep is None, or (b, 1, i, j) with True = may attend:\n"
        "    # give it the axes and the meaning of your mask")
KERNEL_KEEP = KEEP.replace("(b, 1,", "(b, h,")
ADDED = "None if keep is None else ~keep * -1e9"
# Options of the doctor, and what asks for them in the code of a forward.
X = "(x|inputs?|hidden_states|src|tgt|query|latents|residual|shortcut|identity)"
SIGNS = {"pre_norm": re.compile(rf"norm\w*\({X}\)"),
         "residual": re.compile(rf"return .*(\b{X} *\+|\+ *{X}\b)"),
         "post_norm": re.compile(r"return self\.\w*norm\w*\(", re.IGNORECASE)}


def adapter(program):
    """Return (code, call) as text: code that builds and calls a program, and how to examine it.

    What the doctor knows is filled in, and what it does not know is ``...``.
    """
    if not isinstance(program, type):
        return _of_function(program)
    method = next((getattr(program, one) for one in ("forward", "call", "__call__")
                   if callable(getattr(program, one, None))), None)
    inside = _call(method, 1) if method else "x"
    lines = ["def build(d_model, n_heads):",
             f"    return {program.__name__}({_constructor(program)})", "",
             "def call(module, x, memory, keep):    # x is (b, i, d), memory (b, j, d)",
             *([f"    {KEEP}"] if "keep" in inside else []), f"    return module({inside})"]
    options = ["build", "call=call"]
    options += ["self_attention=True"] if "memory" not in inside else []
    options += ['masks="heads alike"' if "keep" in inside else 'masks="none"']
    options += [f"{name}=True" for name, sign in SIGNS.items() if sign.search(_source(method))]
    return "\n".join(lines), f"doctor.examine({', '.join(options)})"


def _of_function(program):
    name = getattr(program, "__name__", "program")
    inside = _call(program, 0)
    options = "" if "keep" in inside else ', masks="none"'
    return "\n".join(["def kernel(q, k, v, keep):    # q is (b, h, i, d)",
                      *([f"    {KERNEL_KEEP}"] if "keep" in inside else []),
                      f"    return {name}({inside})"]), f"doctor.examine(kernel{options})"


def _parameters(function, skip=0):
    try:
        parameters = [*names.signature(function).parameters.values()][skip:]
    except (TypeError, ValueError):
        return []
    return [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _constructor(program):
    known = {names.WIDTH: "d_model", names.HEADS: "n_heads",
             names.HEAD_WIDTH: "d_model // n_heads"}
    found = []
    for one in _parameters(program):
        word = names.plain(one.name)
        text = next((text for pattern, text in known.items() if pattern.fullmatch(word)), None)
        if text is None and one.default is one.empty:
            value = names.by_name(one.name, 12, 3)
            text = "..." if value is None else repr(value)
        if text is not None:
            found.append(f"{one.name}={text}")
    return ", ".join(found)


def _call(function, skip):
    found, taken, added = [], set(), None
    for one in _parameters(function, skip):
        word = names.plain(one.name)
        side = next((side for side, known in names.SIDES.items() if known.fullmatch(word)), "")
        if side:
            text = side if not skip else {"q": "x"}.get(side, "memory")
        elif names.MASK.fullmatch(word) and "keep" not in taken:
            text = "keep"
            added = re.search(rf"\+=? *{one.name}\b", _source(function))
        elif taken and (names.MEMORY.fullmatch(word) or names.X.fullmatch(word)) and (
                "memory" not in taken):
            text = "memory"
        elif skip and not taken:
            text = "x"
        elif one.default is one.empty:
            text = "..."
        else:
            continue
        taken.add(text)
        found.append(f"{one.name}={ADDED if text == 'keep' and added else text}")
    return ", ".join(found)


def _source(function):
    """Return the code of a function, or ""."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""
