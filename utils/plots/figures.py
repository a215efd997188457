"""Figures in one style: white, 100 dpi, rows are queries, columns are keys."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize, PowerNorm
from matplotlib.patches import Patch

from .. import checks

# Okabe and Ito 2008: eight colours that readers with any colour vision can distinguish.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
# The colours of weights, 0 to 1, here and in the interactive figures (templates/weights.js). They
# change faster than the weights: among 50 keys, a weight of 0.02 should still be seen.
WEIGHTS = LinearSegmentedColormap.from_list("weights", ("#f2f4f7", "#0072b2", "#002042"))
POWER = 0.6
BLUES = plt.get_cmap("Blues")  # of masks: two thirds of it where a query may attend
plt.rcParams.update({
    "figure.dpi": 100, "savefig.dpi": 100, "figure.facecolor": "white", "axes.facecolor": "white",
    "savefig.facecolor": "white", "font.size": 11, "axes.titlesize": 11, "axes.spines.top": False,
    "axes.spines.right": False, "figure.constrained_layout.use": True,
    "axes.prop_cycle": plt.cycler(color=COLOURS),
})


def figure(columns=1, rows=1, width=6.4, height=3.6, **kwargs):
    """Return (figure, axes) in the course's style; ``width`` and ``height`` in inches."""
    return plt.subplots(rows, columns, figsize=(width, height), **kwargs)


def heatmap(ax, matrix, rows=None, columns=None, title=None, limits=(0, 1), numbers=False,
            colours=None):
    """Draw a matrix (i, j) on ``ax``, row 0 on top, and return the image.

    ``rows`` and ``columns`` are labels (default: positions). ``limits`` are the ends of the colour
    scale; None takes those of the data. ``numbers=True`` writes each value into its cell.
    ``colours`` is a colour map of matplotlib, with a linear scale; None takes that of the weights.
    """
    matrix = checks.to_numpy(matrix).astype(float)
    low, high = limits or (matrix.min(), matrix.max())
    norm = PowerNorm(POWER, low, high) if colours is None else Normalize(low, high)
    image = ax.imshow(matrix, cmap=WEIGHTS if colours is None else colours, norm=norm,
                      aspect="auto")
    for axis, labels, size in ((ax.yaxis, rows, matrix.shape[0]), (ax.xaxis, columns,
                                                                   matrix.shape[1])):
        axis.set_ticks(range(size), [str(n) for n in (range(size) if labels is None else labels)],
                       parse_math=False)  # "$5" is a token, not a formula
    ax.set_title(title)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    if numbers:
        _write_numbers(ax, image, matrix)
    return image


def _write_numbers(ax, image, matrix):
    """Write each value of a matrix into its cell, in black or white."""
    for (i, j), value in np.ndenumerate(matrix):
        red, green, blue, _ = image.cmap(image.norm(value))
        bright = 0.299 * red + 0.587 * green + 0.114 * blue > 0.5
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=9,
                color="black" if bright else "white")


def attention_maps(weights, queries=None, keys=None, titles=None, width=None, height=2.6,
                   numbers=False):
    """Draw the weights of several heads side by side, (h, i, j) or (i, j); return the figure.

    Rows are queries, columns are keys; all heads share the scale 0 .. 1 and a colour bar.
    ``queries`` and ``keys`` are token labels, ``titles`` one per head (default: head 0, head 1, …).
    """
    weights = checks.to_numpy(weights)
    maps = weights[None] if weights.ndim == 2 else weights
    titles = titles or ([None] if weights.ndim == 2 else [f"head {h}" for h in range(len(maps))])
    fig, axes = figure(len(maps), width=width or 1.2 + 2.6 * len(maps), height=height,
                       squeeze=False)
    for ax, matrix, title in zip(axes[0], maps, titles, strict=True):
        image = heatmap(ax, matrix, queries, keys, title, numbers=numbers)
        ax.set_xlabel("key")
    axes[0, 0].set_ylabel("query")
    fig.colorbar(image, ax=axes[0].tolist(), label="weight", shrink=0.9)
    return fig


def mask_grids(masks, columns=None, width=None, height=2.6, key=("may attend", "masked")):
    """Draw masks, {title: keep (i, j)}, True in blue, with a key below; return the figure.

    ``columns`` is the number of masks in a row (default: all). ``width`` of the figure (default:
    2.4 for each column) and ``height`` of a row are in inches. ``key`` says what True and False
    mean.
    """
    columns = columns or len(masks)
    rows = -(-len(masks) // columns)
    fig, axes = figure(columns, rows, width=width or 2.4 * columns, height=height * rows + 0.3,
                       squeeze=False)
    for ax in axes.flat[len(masks):]:
        ax.remove()
    for ax, (title, keep) in zip(axes.flat, masks.items(), strict=False):
        heatmap(ax, keep, title=title, limits=(0, 1.5), colours=BLUES)
        for axis, size in ((ax.yaxis, len(keep)), (ax.xaxis, len(keep[0]))):
            axis.set_ticks(np.arange(1, size) - 0.5, minor=True)  # lines between the cells
        ax.grid(which="minor", color="0.75")
        ax.tick_params(which="minor", length=0)
        ax.set_xlabel("key")
    for ax in axes[:, 0]:
        ax.set_ylabel("query")
    fig.legend(handles=[Patch(facecolor=BLUES(shade), edgecolor="0.75", label=label)
                        for shade, label in zip((1 / 1.5, 0.0), key, strict=True)],
               loc="outside lower center", ncols=2, frameon=False)
    return fig
