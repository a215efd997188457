"""Draw the course's mark: the logo, the favicon and the card shown when a link is shared.

    python scripts/brand.py        (writes into _static/; the results are committed)

The mark is an equals sign whose upper bar is several programs and whose lower bar is one equation.
"""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

STATIC = Path(__file__).resolve().parents[1] / "_static"
# x, y, width, height on a 64 × 64 square, y downwards. The blue of the whole bar has a contrast
# of at least 3 to white and to the dark page alike.
BARS = ((8, 14, 13, 13, "#0B7BC1"), (25.5, 14, 13, 13, "#D55E00"), (43, 14, 13, 13, "#0A8F6A"),
        (8, 37, 48, 13, "#4C83C4"))
CORNER = 3
INK, PAPER, MUTED = "#16202B", "#FBFAF7", "#55606B"


def svg():
    """Return the mark as SVG text."""
    bars = "".join(f'  <rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{CORNER}" '
                   f'fill="{colour}"/>\n' for x, y, w, h, colour in BARS)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64" viewBox="0 0 64 64">\n'
            f'  <title>One Equation, Many Programs</title>\n{bars}</svg>\n')


def draw(ax, left, top, size):
    """Draw the mark on axes whose y points down, ``size`` units wide."""
    unit = size / 64
    for x, y, w, h, colour in BARS:
        ax.add_patch(FancyBboxPatch(
            (left + x * unit, top + y * unit), w * unit, h * unit, linewidth=0, facecolor=colour,
            boxstyle=f"round,pad=0,rounding_size={CORNER * unit}"))


def canvas(width, height, colour):
    """Return (figure, axes) of that many pixels, with axes in pixels, y downwards."""
    fig = plt.figure(figsize=(width / 100, height / 100), dpi=100, facecolor=colour)
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    ax.axis("off")
    return fig, ax


def card():
    """Return the figure of the social card, 1200 × 630."""
    fig, ax = canvas(1200, 630, PAPER)
    draw(ax, 62, 40, 208)
    ax.text(330, 163, r"$\mathrm{softmax}\left(\frac{Q\,K^{\top}}{\sqrt{d_k}}\right)V$",
            fontsize=40, math_fontfamily="stix", color=INK)
    text = {"family": "DejaVu Sans", "color": INK, "va": "baseline"}
    ax.text(88, 352, "One Equation, Many Programs", fontsize=42, weight="bold", **text)
    ax.text(88, 416, "Multi-head attention, proven", fontsize=29, **(text | {"color": MUTED}))
    ax.text(88, 548, "Executable notebooks. Same weights in, same numbers out.", fontsize=22,
            **(text | {"color": MUTED}))
    return fig


def favicon():
    """Return the figure of the favicon, 96 × 96: 16 and 32 pixels divide it."""
    fig, ax = canvas(96, 96, "none")
    draw(ax, -6, -6, 108)
    return fig


def main():
    """Write all four files."""
    STATIC.joinpath("logo.svg").write_text(svg(), encoding="utf-8")
    # Tighter than the logo: at 16 pixels every pixel counts.
    tight = svg().replace('viewBox="0 0 64 64"', 'viewBox="4 4 56 56"')
    STATIC.joinpath("favicon.svg").write_text(tight, encoding="utf-8")
    for name, fig in (("favicon", favicon()), ("social-card", card())):
        fig.savefig(STATIC / f"{name}.png", facecolor=fig.get_facecolor(),
                    metadata={"Software": None})


if __name__ == "__main__":
    main()
