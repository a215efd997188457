"""Write the page of `utils`, chapters/5_field_guide/api.md, from the docstrings.

    python scripts/api.py

In reading order come the modules that a reader imports: all public names, their arguments and the
first line of what they say of themselves. Modules that the course keeps for itself are named once.
"""

import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.execute import notebooks  # noqa: E402

PAGE = ROOT / "chapters" / "5_field_guide" / "api.md"
GROUPS = {
    "Data to try things on": ("sizes",),
    "The equation, slow and trusted": ("reference",),
    "Masks": ("masks", "conventions"),
    "The taught programs": ("heads", "numpy_attention", "torch_attention", "einsum_attention",
                            "tf_attention", "sequence_first", "decoder_attention", "norms",
                            "positions", "relative_positions"),
    "The transformer": ("cache", "transformer", "language_model", "bert"),
    "Texts, training and trained models": ("tasks", "corpus", "ngrams", "training", "char_model",
                                           "pretrained"),
    "Reading heads": ("head_scores",),
    "Fast and large": ("costs", "backward", "flash", "grouped", "preallocated", "kv_sizes",
                       "distributed", "tensor_parallel", "ring", "exchanges", "data_parallel",
                       "sharded_checkpoint"),
    "Weights, and many programs at once": ("weights", "programs", "parity"),
    "Checking": ("checks", "probes", "invariants", "hearing", "kernel_probes", "layer_probes"),
    "Faults, and the doctor who names them": ("doctor", "report", "faults", "findings"),
    "Find the bug, as homework": ("assignment", "grading"),
    "Exercises": ("practice",),
    "Pictures and clocks": ("plots", "explore", "timing", "measured", "frameworks"),
}
HEAD = """# What stands in `utils`

The shared module of the course, in reading order. Everything can be imported by its module,
`from utils import masks`; nothing but `weights.load` and what trains modifies its arguments, and
bad input raises `ValueError` or `TypeError` with the numbers that disagree. Axes are those of the
[notation page](../notation.md). An arrow leads to the chapter that teaches a thing and builds it
line by line; `help(…)` tells the rest.
"""


def taught():
    """Return {(module, name): notebook} of the definitions that a chapter teaches."""
    found = {}
    for path in map(Path, notebooks()):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"):
            module = re.match(r"#@save utils\.(\w+)", source)
            for name in re.findall(r"^(?:def|class) (\w+)", source, re.MULTILINE) * bool(module):
                found[module[1], name] = path
    return found


def module(name, links):
    """Return the section of a module."""
    tree = ast.parse((ROOT / "utils" / f"{name}.py").read_text(encoding="utf-8"))
    lines = [f"### `utils.{name}`", "", first(tree), ""]
    lines += [f"- {entry}" for entry in entries(name, tree, links)]
    more = gathered(tree)
    if more:
        lines += ["", "Also to be had from here: " + ", ".join(f"`{n}`" for n in more) + "."]
    return "\n".join(lines) + "\n"


def entries(name, tree, links):
    """Yield the lines of the public functions and classes of a module."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        path = links.get((name, node.name))
        arrow = f" → [{path.stem}](../{path.parent.name}/{path.name})" if path else ""
        yield f"`{node.name}{arguments(node)}`: {first(node)}{arrow}"


def arguments(node):
    """Return the arguments of a function, or of the construction of a class, in brackets."""
    if isinstance(node, ast.FunctionDef):
        return f"({ast.unparse(node.args)})"
    made = [part for part in node.body if getattr(part, "name", "") == "__init__"]
    if made:
        return f"({ast.unparse(made[0].args).removeprefix('self').removeprefix(', ')})"
    fields = [part.target.id for part in node.body if isinstance(part, ast.AnnAssign)]
    return f"({', '.join(fields)})" if fields else ""


def first(node):
    """Return the first line of a docstring, as Markdown that shows what it says."""
    said = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    parts = re.split(r"``?([^`]+)``?", said)
    return "".join(f"`{part}`" if n % 2 else re.sub(r"([<\[\]$|])", r"\\\1", part)
                   for n, part in enumerate(parts))


def gathered(tree):
    """Return the names that a module imports so as to be one place to find them all."""
    return [alias.name for node in tree.body if isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("utils.") for alias in node.names
            if not any(isinstance(n, ast.Name) and n.id == alias.name for n in ast.walk(tree))]


def inside():
    """Return a list of the modules that no group names, each with its first line."""
    shown = {name for group in GROUPS.values() for name in group}
    return "\n".join(f"- `{path.stem}`: {first(ast.parse(path.read_text(encoding='utf-8')))}"
                     for path in sorted((ROOT / "utils").glob("[!_]*.py"))
                     if path.stem not in shown) + "\n"


def page():
    """Return the text of the page."""
    links, parts = taught(), [HEAD]
    for heading, names in GROUPS.items():
        parts += [f"## {heading}\n", *(module(name, links) for name in names)]
    return "\n".join([*parts, "## Inside\n", "What these hold the course calls itself: they may "
                      "change from one edition to the next.\n", inside()])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
