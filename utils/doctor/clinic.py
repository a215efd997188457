"""For the bug clinic: repairs in the text of a function, and the table of its checks."""

import inspect
import textwrap

from tabulate import tabulate


def rewritten(function, *pairs):
    """Return a function with pieces of its source text replaced; pairs are (old, new).

    The pairs apply in turn, and each replaces ``old`` everywhere. Default values are evaluated
    again, and global names are those of the original. If no pair applies, the function itself is
    returned. Raises OSError for a function without a source file, such as one made by ``exec``.
    """
    text = before = textwrap.dedent(inspect.getsource(function))
    for old, new in pairs:
        text = text.replace(old, new)
    if text == before:
        return function
    scope = dict(function.__globals__)
    exec(compile(text, f"<{function.__name__}, repaired>", "exec"), scope)
    return scope[function.__name__]


def table(found, rows, columns, corner=""):
    """Return a Markdown table of bools (row, column), ● for True and · for False, with sums.

    ``corner`` is the heading of the column with the names of the rows.
    """
    marks = [[name, *("●" if one else "·" for one in row)]
             for name, row in zip(rows, found, strict=True)]
    sums = [f"**{sum(map(bool, column))}**" for column in zip(*found, strict=True)]
    return tabulate([*marks, ["**together**", *sums]], [corner, *columns], tablefmt="pipe",
                    colalign=("left", *["center"] * len(columns)), disable_numparse=True)
