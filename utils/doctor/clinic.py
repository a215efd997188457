"""What the bug clinic needs besides its bugs: repairs made in a program's text, and its table."""

import inspect
import textwrap


def rewritten(function, *pairs):
    """Return a function with pieces of its text replaced: pairs (old, new), those that occur.

    The pairs apply in turn, each wherever ``old`` stands. Default values are evaluated anew, and
    names outside of the function mean what they mean to the original. Returns the function itself
    where nothing occurs. Only for a function whose text is to be had: not one made by ``exec``.
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
    """Return a Markdown table of bools (row, column): ● where True, · where False, and the sums."""
    marks = [[name, *("●" if one else "·" for one in row)]
             for name, row in zip(rows, found, strict=True)]
    sums = ["**together**", *(f"**{sum(map(bool, column))}**"
                              for column in zip(*found, strict=True))]
    lines = [[corner, *columns], ["---", *[":-:"] * len(columns)], *marks, sums]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
