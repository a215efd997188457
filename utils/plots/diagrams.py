"""Diagrams of data flow: a transformer, one head, several heads. Every chapter draws the same ones.

Boxes are computations and arrows are arrays, whose shapes are written beside them. ``here`` is the
box that the chapter is about. ``strip`` draws the numbers of a tensor in the order of the memory.
"""

from itertools import groupby

from matplotlib.patches import FancyBboxPatch, Rectangle

from .figures import COLOURS, figure

WASH, EDGE, HERE = "#f2f4f7", "#586170", COLOURS[0]
TINTS = ("#A8D1EE", "#F6C99A", "#A5D6C0", "#E3C2D3", "#F5E6A3")  # light enough for black text
PARTS = ("tokens", "embedding", "attention", "feed-forward", "scores", "next token")


def _canvas(width, height):
    """Return (figure, axes) without ticks, one unit of the axes to an inch."""
    fig, ax = figure(width=width, height=height)
    ax.set_xlim(0, width)
    ax.set_ylim(0, height)
    ax.axis("off")
    return fig, ax


def _box(ax, x, y, text, here=False, width=1.9, height=0.46):
    """Draw a box with its centre at (x, y)."""
    ax.add_patch(FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=HERE if here else WASH, edgecolor=HERE if here else EDGE, linewidth=1.2))
    ax.text(x, y, text, ha="center", va="center", fontsize=10.5,
            color="white" if here else "black", weight="bold" if here else "normal")


def _arrow(ax, *points, text="", side="left", colour=EDGE):
    """Draw an arrow through (x, y) points; ``text`` stands beside its last part."""
    ax.plot(*zip(*points[:-1], strict=True), color=colour, linewidth=1.4)
    (x0, y0), (x1, y1) = points[-2:]
    ax.annotate("", (x1, y1), (x0, y0), arrowprops={
        "arrowstyle": "-|>", "color": colour, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0})
    if text:
        gap = 0.09 if side == "left" else -0.09
        ax.text((x0 + x1) / 2 + gap, (y0 + y1) / 2, text, ha=side, va="center", fontsize=9.5,
                family="monospace", color="black")


def transformer(here=None, words=("the", "river", "bank")):
    """Return a figure of a transformer, from the tokens at the bottom to the next token on top.

    ``here`` is one of PARTS, drawn in blue, or None. Raises ValueError for another name.
    """
    if here not in (None, *PARTS):
        raise ValueError(f"here must be None or one of {', '.join(PARTS)}, got {here!r}")
    fig, ax = _canvas(6.4, 5.0)
    rows = dict(zip(PARTS, (0.3, 1.1, 2.2, 3.1, 4.05, 4.7), strict=True))
    ax.add_patch(FancyBboxPatch((1.0, 1.72), 4.4, 1.88, facecolor="none", edgecolor=EDGE,
                                boxstyle="round,pad=0,rounding_size=0.1", linestyle="--"))
    ax.text(5.5, 2.66, "one block,\nrepeated", va="center", fontsize=9.5)
    columns = (1.7, 3.2, 4.7)
    for x, word in zip(columns, words, strict=True):
        ax.text(x, rows["tokens"], word, ha="center", va="center", fontsize=11, family="monospace",
                color=HERE if here == "tokens" else "black")
        _arrow(ax, (x, 0.45), (x, 0.85))
        _box(ax, x, rows["embedding"], "embedding", here == "embedding", width=1.15)
        _arrow(ax, (x, 1.34), (x, 1.95))
        _arrow(ax, (x, 2.45), (x, 2.85))
        _box(ax, x, rows["feed-forward"], "feed-forward", here == "feed-forward", width=1.15)
    _box(ax, 3.2, rows["attention"], "attention: every token takes from the others",
         here == "attention", width=4.15, height=0.48)
    _arrow(ax, (4.7, 3.34), (4.7, 3.8))
    _box(ax, 4.7, rows["scores"], "scores", here == "scores", width=1.15)
    _arrow(ax, (4.7, 4.29), (4.7, 4.56))
    ax.text(4.7, rows["next token"] + 0.03, "next token", ha="center", va="center", fontsize=11,
            color=HERE if here == "next token" else "black")
    if here == "attention":
        ax.text(0.88, rows[here], "you are\nhere", ha="right", va="center", fontsize=10.5,
                color=HERE, weight="bold")
    return fig


def head():
    """Return a figure of one attention head: q, k and v through scores and weights to context."""
    fig, ax = _canvas(6.4, 3.3)
    for x, name, shape in ((1.2, "q", "(i, d)"), (3.2, "k", "(j, d)"), (5.2, "v", "(j, d_v)")):
        _box(ax, x, 0.3, f"{name}  {shape}", width=1.5)
    _arrow(ax, (1.2, 0.53), (1.2, 1.2), (1.7, 1.2))
    _arrow(ax, (3.2, 0.53), (3.2, 0.97))
    _box(ax, 2.6, 1.2, "q · k / √d", width=1.8)
    _arrow(ax, (2.6, 1.43), (2.6, 1.87), text="scores (i, j)")
    _box(ax, 2.6, 2.1, "softmax over keys", width=1.8)
    _arrow(ax, (3.5, 2.1), (4.3, 2.1))
    ax.text(3.9, 2.43, "weights (i, j)", ha="center", fontsize=9.5, family="monospace")
    _arrow(ax, (5.2, 0.53), (5.2, 1.87))
    _box(ax, 5.2, 2.1, "weights @ v", width=1.8)
    _arrow(ax, (5.2, 2.33), (5.2, 2.85))
    ax.text(5.2, 3.0, "context (i, d_v)", ha="center", va="center", fontsize=9.5,
            family="monospace")
    return fig


def heads(n_heads=3):
    """Return a figure of multi-head attention: split into heads, attention in each, merge."""
    fig, ax = _canvas(6.4, 3.9)
    columns = [3.2 + (h - (n_heads - 1) / 2) * 5.4 / n_heads for h in range(n_heads)]
    ax.text(3.2, 0.15, "x (b, i, e)", ha="center", va="center", fontsize=9.5, family="monospace")
    _arrow(ax, (3.2, 0.28), (3.2, 0.5))
    _box(ax, 3.2, 0.73, "W_q, W_k, W_v", width=5.4)
    _box(ax, 3.2, 3.0, "merge, then W_o", width=5.4)
    _arrow(ax, (3.2, 3.23), (3.2, 3.55))
    ax.text(3.2, 3.72, "out (b, i, e)", ha="center", va="center", fontsize=9.5, family="monospace")
    for h, x in enumerate(columns):
        _arrow(ax, (x, 0.96), (x, 1.63), text="q, k, v")
        _box(ax, x, 1.86, f"head {h}", width=min(1.5, 4.8 / n_heads))
        _arrow(ax, (x, 2.09), (x, 2.77), text="(b, i, d)")
    return fig


def strip(numbers, owners):
    """Return a figure of a strip of numbers, drawn once for each way to divide it.

    ``owners`` is {title: the names that own the numbers, one each}. Numbers side by side with the
    same owner share a colour, and a bracket with the owner's name.
    """
    fig, ax = _canvas(6.4, 0.1 + 0.95 * len(owners))
    width = min(0.55, 4.2 / len(numbers))
    for row, (title, names) in enumerate(reversed(owners.items())):
        y, tints = 0.4 + 0.95 * row, dict(zip(dict.fromkeys(names), TINTS, strict=False))
        ax.text(0.05, y + 0.18, title, va="center", fontsize=10.5)
        for n, (number, name) in enumerate(zip(numbers, names, strict=True)):
            x = 2.05 + n * width
            ax.add_patch(Rectangle((x, y), width, 0.36, facecolor=tints[name], edgecolor="white"))
            ax.text(x + width / 2, y + 0.17, number, ha="center", va="center", fontsize=10.5)
        start = 0
        for name, run in groupby(names):
            end = start + len(list(run))
            left, right = (2.05 + place * width for place in (start + 0.08, end - 0.08))
            ax.plot((left, left, right, right), (y - 0.04, y - 0.09, y - 0.09, y - 0.04),
                    color=EDGE, linewidth=1.2)
            ax.text((left + right) / 2, y - 0.22, name, ha="center", va="center", fontsize=9.5)
            start = end
    return fig


def block():
    """Return a figure of a pre-norm block: two layers, each after a norm and added to x."""
    fig, ax = _canvas(4.4, 5.6)
    path, side = 1.0, 3.0
    ax.text(path, 0.15, "x (b, i, e)", ha="center", va="center", fontsize=11, family="monospace")
    ax.text(path, 5.45, "out (b, i, e)", ha="center", va="center", fontsize=11,
            family="monospace")
    for low, name in ((0.45, "attention"), (2.95, "feed-forward")):
        _arrow(ax, (path, low), (side, low), (side, low + 0.35))
        _box(ax, side, low + 0.6, "LayerNorm", width=2.2, height=0.5)
        _arrow(ax, (side, low + 0.85), (side, low + 1.2))
        _box(ax, side, low + 1.45, name, width=2.2, height=0.5)
        _arrow(ax, (side, low + 1.7), (side, low + 2.1), (path + 0.2, low + 2.1))
        ax.text(path, low + 2.1, "+", ha="center", va="center", fontsize=15, color="white",
                weight="bold", bbox={"boxstyle": "circle,pad=0.15", "facecolor": HERE,
                                     "edgecolor": HERE}, zorder=3)
        ax.text(path - 0.15, low + 1.05, "residual", ha="right", va="center", fontsize=11,
                color=HERE, rotation=90)
    ax.plot((path, path), (0.3, 5.3), color=HERE, linewidth=3)
    return fig
