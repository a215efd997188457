"""Write a function of a notebook to a file that another process can run.

The file also contains what the function uses: it imports modules and their contents, and includes
copies of functions, classes, numbers and str of the notebook.
"""

import ast
import inspect
import linecache
import sys
from types import ModuleType

from ._names import used

PLAIN = (int, float, str, bool, type(None))


def written(program):
    """Return the source of a file that defines ``program`` and whatever it uses.

    Raises TypeError unless ``program`` is a function of a file or notebook, and for a variable that
    holds anything but a number, a str, or a tuple or list of them.
    """
    if not inspect.isfunction(program) or "<" in program.__qualname__:  # <lambda>, <locals>
        raise TypeError("program must be a function defined with def, outside of other functions, "
                        f"got {program!r}")
    lines, done = [], set()
    _need(program.__name__, program, lines, done)
    return "\n".join(["from math import inf, nan", *lines, f"program = {program.__name__}", ""])


def _need(name, value, lines, done):
    """Append to ``lines`` the code that defines ``name`` as ``value``."""
    if name in done:
        return
    done.add(name)
    home = getattr(value, "__module__", None)
    if isinstance(value, ModuleType):
        lines.append(f"import {value.__name__} as {name}")
    elif _plain(value):
        lines.append(f"{name} = {value!r}")
    elif home == "__main__" and (inspect.isfunction(value) or isinstance(value, type)):
        source, around = definition(value), vars(sys.modules["__main__"])
        for other in names(source):
            if other in around:
                _need(other, around[other], lines, done)
        lines.append(f"\n{source}\n")
        if name != value.__name__:
            lines.append(f"{name} = {value.__name__}")
    elif home in sys.modules and getattr(sys.modules[home], getattr(
            value, "__name__", ""), None) is value:
        lines.append(f"from {home} import {value.__name__} as {name}")
    else:
        raise TypeError(f"the program uses {name}, a {type(value).__name__}, which does not exist "
                        "in the other process: pass it as an argument")


def _plain(value):
    """Return whether ``repr`` of a value is source for it; np.float64, a float, does not count."""
    if type(value) in (list, tuple):
        return all(map(_plain, value))
    return type(value) in PLAIN


def definition(thing):
    """Return the source of a function or class from its notebook cell or file.

    Raises TypeError if there is none. (`inspect.getsource` does not find classes of a notebook.)
    """
    for part in vars(thing).values() if isinstance(thing, type) else [thing]:
        code = inspect.unwrap(part)  # of a static method, too
        if not inspect.isfunction(code) or code.__module__ != thing.__module__:
            continue  # a method that was defined elsewhere
        source = "".join(linecache.getlines(code.__code__.co_filename))
        for node in reversed(ast.parse(source).body):
            if getattr(node, "name", None) == thing.__name__:
                start = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                return "\n".join(source.splitlines()[start - 1:node.end_lineno])
    raise TypeError(f"there is no source of {thing.__name__}: define it in a file or a cell")


def names(source):
    """Return the global names that a source uses, sorted."""
    return sorted(used(compile(source, "", "exec")) - {"__name__"})  # which every class reads


def imports(source):
    """Return the modules that a source imports at its top level, sorted."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return sorted(found)
