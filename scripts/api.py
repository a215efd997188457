"""Write the page of `utils`, chapters/7_field_guide/api.md, from the docstrings.

    python scripts/api.py

Walks the rooms of ``utils`` in the order in which its docstring names them. Of a module it shows
the public functions and classes with their arguments and the first line of their docstrings; of a
room of machinery only what the room's face re-exports. Names that begin with _ are not shown.
"""

import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.execute import notebooks  # noqa: E402

UTILS = ROOT / "utils"
PAGE = ROOT / "chapters" / "7_field_guide" / "api.md"
# Rooms whose insides change from one edition to the next: only their face is shown.
MACHINERY = ("doctor", "exercises", "source")
HEAD = """# What stands in `utils`

The shared module of the course, room by room. Import from the module that a heading names; bad
input raises `ValueError` or `TypeError` with the numbers that disagree. Axes are those of the
[notation page](../notation.md). An arrow leads to the chapter that teaches a definition and builds
it line by line; `help(…)` shows the whole docstring.
"""


def rooms():
    """Return the names of the modules and packages of ``utils``, in the order of its docstring."""
    said = ast.get_docstring(parsed(UTILS / "__init__.py"))
    names = {path.stem for path in UTILS.glob("[!_]*") if (path / "__init__.py").exists()
             or path.suffix == ".py"}
    order = [name for name in re.findall(r"``(\w+)``", said) if name in names]
    if {*order} != names:
        raise ValueError(f"utils/__init__.py does not name {', '.join(names - {*order})}")
    return order


def parsed(path):
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def dotted(path):
    """Return the name by which a file of ``utils`` is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def taught():
    """Return {(module, name): notebook} of the definitions that a chapter teaches."""
    found = {}
    for path in map(Path, notebooks()):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for source in ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"):
            saved = re.match(r"#@save (utils[\w.]+)", source)
            if saved:
                for name in re.findall(r"^(?:def|class) (\w+)", source, re.MULTILINE):
                    found[saved[1], name] = path
    return found


def section(path, links):
    """Return the section of a module."""
    tree = parsed(path)
    lines = [f"### `{dotted(path)}`", "", first(tree), ""]
    lines += [f"- {entry}" for entry in entries(dotted(path), tree, links)]
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
    """Return the first paragraph of a docstring, as Markdown that shows what it says."""
    said = (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")
    parts = re.split(r"``?([^`]+)``?", said)
    return "".join(f"`{part}`" if n % 2 else re.sub(r"([<\[\]$|])", r"\\\1", part)
                   for n, part in enumerate(parts))


def face(package, links):
    """Yield the entries of what a package re-exports from its own modules."""
    for node in parsed(package / "__init__.py").body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            path = package.joinpath(*node.module.split(".")).with_suffix(".py")
            names = {alias.name for alias in node.names}
            if path.exists():
                tree = parsed(path)
                tree.body = [part for part in tree.body if getattr(part, "name", "") in names]
                yield from entries(dotted(path), tree, links)


def room(name, links):
    """Yield the parts of the page that a room fills."""
    path = UTILS / name
    if not path.is_dir():
        yield section(path.with_suffix(".py"), links)
        return
    yield f"## `utils.{name}`\n\n{first(parsed(path / '__init__.py'))}\n"
    if name not in MACHINERY:
        for module in sorted(path.glob("[!_]*.py")):
            yield section(module, links)
        return
    for package in sorted(init.parent for init in path.rglob("__init__.py")):
        shown = list(face(package, links))
        if shown:
            heading = f"### `{dotted(package / '__init__.py')}`\n\n"
            yield heading + "\n".join(f"- {entry}" for entry in shown) + "\n"


def page():
    """Return the text of the page."""
    links, names = taught(), rooms()
    alone = [name for name in names if not (UTILS / name).is_dir()]
    parts = [HEAD, *(part for name in names if name not in alone for part in room(name, links))]
    parts.append("## Modules without a room\n")
    parts += [part for name in alone for part in room(name, links)]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
