"""A function of a notebook as a file of its own, for another process to run.

What the function uses goes along: modules and what stands in them are imported there, functions and
classes of the notebook are copied, numbers and texts written out.
"""

import ast
import dis
import inspect
import linecache
import sys
from types import CodeType, ModuleType

PLAIN = (int, float, str, bool, type(None))


def written(program):
    """Return the source of a file that defines ``program`` and whatever it uses.

    Raises TypeError for what is no function of a file or notebook, and for a variable that holds
    anything but a number, a text, or a tuple or list of them.
    """
    if not inspect.isfunction(program) or "<" in program.__qualname__:  # <lambda>, <locals>
        raise TypeError("program must be a function of its own, made with def and outside of any "
                        f"other, not {program!r}")
    lines, done = [], set()
    _need(program.__name__, program, lines, done)
    return "\n".join(["from math import inf, nan", *lines, f"program = {program.__name__}", ""])


def _need(name, value, lines, done):
    """Append to ``lines`` what makes ``name`` stand for ``value`` in the new file."""
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
        raise TypeError(f"the program uses {name}, a {type(value).__name__}, and it will not be "
                        "there in the other process: hand it over as an argument")


def _plain(value):
    return type(value) in PLAIN or (
        type(value) in (list, tuple) and all(map(_plain, value)))  # np.float64 is a float, too


def definition(thing):
    """Return the source of a function or class, as its notebook cell or its file has it.

    (`inspect.getsource` does not find the classes of a notebook.)
    """
    for part in vars(thing).values() if isinstance(thing, type) else [thing]:
        code = inspect.unwrap(part)  # of a static method, too
        if not inspect.isfunction(code) or code.__module__ != thing.__module__:
            continue  # a method that was made elsewhere
        source = "".join(linecache.getlines(code.__code__.co_filename))
        for node in reversed(ast.parse(source).body):
            if getattr(node, "name", None) == thing.__name__:
                start = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                return "\n".join(source.splitlines()[start - 1:node.end_lineno])
    raise TypeError(f"the source of {thing.__name__} is not to be found")


def names(source):
    """Return the names that a source takes from around it, sorted; its own variables are not."""
    codes, found = [compile(source, "", "exec")], set()
    for code in codes:  # which grows meanwhile
        found |= {step.argval for step in dis.get_instructions(code)
                  if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    return sorted(found - {"__name__"})  # which every class reads


def imports(source):
    """Return the modules that the lines of a source import, sorted; functions are not looked at."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
    return sorted(found)
