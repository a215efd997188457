"""A definition of a file or notebook, and no more of the file than the definition needs.

A file of a repository often trains when it is imported, or imports what is not installed here. So
its statements are run one by one, and only those that bind a name which the definition uses. Other
files of the same project are read in the same way. What is absent is replaced by ``Absent``, which
raises an error when it is used. Nothing is run but what stands in the files. (Over 200 lines: all
of it serves one function.)
"""

import __future__

import ast
import builtins
import contextlib
import dis
import importlib.util
import json
import os
import pathlib
import re
import sys
import types
from pathlib import Path

from ..setup import COURSE, PACKAGE
from ._names import used

MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")  # of a root
FRAMEWORKS = ("torch", "tensorflow", "keras", "jax")
USED = []  # why what was Absent was so, each time that it was used
STORES = ("STORE_NAME", "STORE_GLOBAL")


class RefusalError(Exception):
    """A program cannot be called at all; the message, such as "raises TypeError", says why.

    ``tried``: in words, how it was built before.
    """

    tried = ""


class Absent:
    """Stands for what a statement could not make; whoever calls it is told ``why``.

    As a decorator it leaves what it decorates as it is. As a base class it stands for
    ``torch.nn.Module`` if its name says so, as ``LightningModule`` does, and else adds nothing.
    """

    def __init__(self, why, name):
        self._why, self._name = why, name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(self._why, name)

    def __call__(self, *args, **options):
        if len(args) == 1 and not options and isinstance(args[0], type | types.FunctionType):
            return args[0]
        self._raise()

    def _raise(self, *_):
        USED.append(self._why)
        raise RefusalError(self._why)

    def __mro_entries__(self, bases):
        if re.search("Module|Model|Layer", self._name) and importlib.util.find_spec("torch"):
            return (importlib.import_module("torch").nn.Module,)
        return ()


ARITHMETIC = """add sub mul truediv floordiv mod pow matmul radd rsub rmul rtruediv rfloordiv
rmod rpow getitem iter int float index neg lt gt"""
for _name in re.findall(r"\w+", ARITHMETIC):
    setattr(Absent, f"__{_name}__", Absent._raise)


class Source(types.ModuleType):
    """A file as a module whose names are made when they are asked for.

    ``project``: {path: Source}, all files that have been read so far. ``_undecorated``: sentences
    on the decorators that were left out.
    """

    def __init__(self, path, roots, project):
        name = f"examined.{'.'.join(path.with_suffix('').parts[-2:])}"
        while name in sys.modules:
            name += "_"
        super().__init__(name)
        self.__file__ = str(path)
        self._path, self._roots, self._project = path, roots, project
        self._parts, self._ran, self._asked = parts(path), set(), []
        self._undecorated = []
        self.__builtins__ = vars(builtins) | {"__import__": self._import}
        project[path] = sys.modules[name] = self

    def __getattr__(self, name):
        if name.startswith("__") or not self.make(name):
            raise AttributeError(f"{self._path.name} does not define {name}")
        return vars(self)[name]

    def make(self, name):
        """Run what the name needs; return whether the file defines it."""
        if name in vars(self):
            return True
        self._run_for(name)
        if name not in vars(self) and self._path.name == "__init__.py":
            beside = self._local(self._path.parent, [name])
            if beside is not None:
                setattr(self, name, beside)
        return name in vars(self)

    def _run_for(self, name):
        """Run the statements that bind a name, those that change it, and what they need."""
        if name in self._asked:
            return
        self._asked.append(name)
        mine = [part for part in self._parts if name in part.binds | part.changes]
        whole = [part for part in mine if isinstance(part.node, ast.FunctionDef | ast.ClassDef)
                 and name in part.binds]
        if whole:  # the last definition, as a notebook may repeat it
            mine = [part for part in mine if part is whole[-1] or name in part.changes]
        for part in mine:
            if part in self._ran:
                continue
            self._ran.add(part)
            for needed in sorted(part.uses - {name}):
                if needed not in vars(self):
                    self._run_for(needed)
            self._run(part)
        if not mine and name not in vars(builtins):
            self._from_stars(name)

    def _run(self, part):
        """Run a statement; what it should have bound is Absent if it fails."""
        try:
            exec(part.code, vars(self))
        except Exception as error:
            where = f"{self._path.name}, line {part.line}"
            if isinstance(part.node, ast.FunctionDef | ast.ClassDef):
                if not self._run_undecorated(part.node):
                    raise RefusalError(f"{where}, {said(error)}") from error
                return
            missing = error.name if isinstance(error, ImportError) else None
            if missing and missing in sys.modules:  # it is there, and lacks something
                missing = None
            why = (f"needs {missing}, which is not installed ({where})" if missing else
                   f"needs line {part.line} of {self._path.name}, which {said(error)}")
            for name in part.binds:
                vars(self).setdefault(name, Absent(why, name))

    def _run_undecorated(self, node):
        """Run a definition without the decorators that are absent; return whether it has such."""
        absent = {}
        for one in node.decorator_list:
            code = compile(ast.Expression(one), str(self._path), "eval")
            try:
                eval(code, vars(self))
            except RefusalError as refusal:
                absent[one] = refusal
        if absent:
            node.decorator_list = [one for one in node.decorator_list if one not in absent]
            self._run(Part(node, str(self._path)))
        self._undecorated += [f"{node.name} was made without its decorator @{ast.unparse(one)}, "
                              f"which {why}." for one, why in absent.items()]
        return bool(absent)

    def _from_stars(self, name):
        """Look for a name in what the file imports with a star."""
        for part in self._parts:
            if isinstance(part.node, ast.ImportFrom) and part.node.names[0].name == "*":
                try:
                    module = self._import(part.node.module or "", vars(self), None, ("*",),
                                          part.node.level)
                except ImportError:
                    continue
                if hasattr(module, name):
                    setattr(self, name, getattr(module, name))

    def _import(self, name, globals=None, locals=None, fromlist=(), level=0):
        """Import as Python does, but files of the project as Sources, which hide nothing."""
        names = name.split(".") if name else []
        if level:
            folders = [self._path.parents[level - 1]]
        else:
            course = names[0] == PACKAGE and COURSE in self._roots
            folders = [] if course or names[0] in sys.stdlib_module_names else self._roots
        for folder in folders:
            found = self._local(folder, names)
            if found is not None and found is not self:
                return found if fromlist else self._local(folder, names[:1])
        if level or (names[0] == PACKAGE == "utils" and not course):  # not that of the course
            raise ImportError(f"{'.' * level}{name} is not there", name=f"{'.' * level}{name}")
        return builtins.__import__(name, globals, locals, fromlist, level)

    def _local(self, folder, names):
        """Return the Source of a dotted name below a folder, or None."""
        path = folder.joinpath(*names)
        for file in (path.with_suffix(".py") if names else None, path / "__init__.py"):
            if file and file.is_file():
                return self._project.get(file) or Source(file, self._roots, self._project)
        if path.is_dir() and any(path.glob("**/*.py")):  # a package without __init__.py
            return Folder(path, self)
        return None


class Folder(types.ModuleType):
    """A package without an ``__init__.py``."""

    def __init__(self, path, source):
        super().__init__(path.name)
        self._folder, self._source = path, source

    def __getattr__(self, name):
        found = None if name.startswith("__") else self._source._local(self._folder, [name])
        if found is None:
            raise AttributeError(name)
        return found


class Part:
    """A statement of a file: its code, and the names that it binds, changes and uses."""

    def __init__(self, node, filename):
        self.node, self.line = node, node.lineno
        flags = __future__.annotations.compiler_flag  # what only annotates is not needed
        self.code = compile(ast.Module([node], []), filename, "exec", flags, dont_inherit=True)
        self.binds = {one.argval for one in dis.get_instructions(self.code)
                      if one.opname in STORES and one.argval != "__annotations__"}
        self.uses = used(self.code)
        targets = node.targets if isinstance(node, ast.Assign) else []
        self.changes = {_root(target) for target in targets} - self.binds - {""}


def parts(path):
    """Return the Parts of a file, without what runs only in a script. Raises RefusalError."""
    try:
        tree = ast.parse(_text(path), path.name)
    except SyntaxError as error:
        raise RefusalError(f"{path.name} is not Python: {error.msg}, line {error.lineno}") from None
    found = [Part(node, str(path)) for node in tree.body if not _script(node)]
    bound = set().union(*(part.binds for part in found))
    script = [Part(one, str(path)) for node in tree.body if isinstance(node, ast.If)
              and _script(node) for one in node.body if _sets_constants(one)]
    return found + [part for part in script if not part.binds & bound]


def _sets_constants(node):
    """Return whether a statement only sets names to constants, as sizes in a script."""
    return isinstance(node, ast.Assign) and all(isinstance(
        part, ast.Constant | ast.Tuple | ast.Load) for part in ast.walk(node.value))


def _text(path):
    """Return the code of a file or notebook."""
    return notebook(path) if path.suffix == ".ipynb" else path.read_text("utf-8-sig", "replace")


def definitions(path):
    """Return the names of the functions and classes of a file."""
    return [part.node.name for part in parts(path)
            if isinstance(part.node, ast.FunctionDef | ast.ClassDef)]


def notebook(path):
    """Return the code of a notebook, without the lines that only Jupyter understands."""
    try:
        cells = json.loads(path.read_text("utf-8"))["cells"]
    except (ValueError, KeyError):
        raise RefusalError(f"{path.name} is not a notebook") from None
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    kept = [cell for cell in code if not cell.lstrip().startswith("%%")]
    return "\n".join(re.sub(r"^(\s*)[%!?].*", r"\1pass", cell, flags=re.MULTILINE)
                     for cell in kept)


def said(error):
    """Return an error in a line, such as ``raises ValueError: too long``."""
    lines = str(error).strip().splitlines()
    if isinstance(error, RefusalError):
        return lines[0]
    return f"raises {type(error).__name__}" + (f": {lines[0]}" if lines else "")


def undecorated(module):
    """Return sentences on the decorators that were left out of a Source; [] for other modules."""
    return vars(module).get("_undecorated", [])


def missing(module):
    """Return a sentence on what a Source needs and is not there, or ""."""
    if USED:
        return f"it {USED[-1]}."
    names = set()
    for node in (node for part in vars(module).get("_parts", []) for node in ast.walk(part.node)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    absent = [name for name in FRAMEWORKS if name in names and not importlib.util.find_spec(name)]
    return f"it needs {absent[0]}, which is not installed where the doctor runs." if absent else ""


def load(module):
    """Import the frameworks that a Source imports and nothing has used yet; return whether any.

    A function of tensors need not name their framework.
    """
    absent = "|".join(name for name in FRAMEWORKS if name not in sys.modules)
    found = [name for part in vars(module).get("_parts", []) for name in part.binds
             if isinstance(part.node, ast.Import | ast.ImportFrom)
             and absent and re.search(rf"\b({absent})\b", ast.unparse(part.node))]
    for name in found:
        module.make(name)
    return bool(found)


def read(file):
    """Return the Source of a file. Raises RefusalError if it is not Python."""
    file = Path(file).resolve()
    return Source(file, roots(file), {})


def roots(file):
    """Return the folders below which imports of a file may find files of the same project.

    They are its own folder and those above it, as far as the one with a mark of a project's root;
    without a mark, as far as the folder above its outermost package.
    """
    above = list(file.parents[:6])
    marked = [n for n, folder in enumerate(above) if any((folder / m).exists() for m in MARKS)]
    depth = next(n for n, folder in enumerate(above) if not (folder / "__init__.py").is_file())
    return above[:max(marked[0] if marked else 1, depth) + 1] + _added(file)


def _added(file):
    """Return the folders that a file adds to ``sys.path``, if its lines say them by themselves."""
    known = {"os": os, "sys": sys, "Path": Path, "pathlib": pathlib, "__file__": str(file)}
    found = []
    for text in re.findall(r"^sys\.path\.(?:append|insert)\((?:\d+, *)?(.+)\)",
                           _text(file), re.MULTILINE):
        with contextlib.suppress(Exception):  # it uses what only the file knows
            found.append(file.parent.joinpath(eval(text, known)).resolve())
    return found


def _script(node):
    """Return whether a statement is ``if __name__ == "__main__":``, or binds nothing."""
    if isinstance(node, ast.If):
        return "__name__" in ast.unparse(node.test)
    return isinstance(node, ast.Expr | ast.Assert | ast.Pass | ast.Delete)


def _root(target):
    """Return the name whose attribute or item is assigned, or ""."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""
