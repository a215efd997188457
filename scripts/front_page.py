"""Draw the pictures of the front page: attention in a trained model, and what four programs return.

    python -m scripts.front_page        (writes _static/attention.png, program-1.png, …; committed)

The programs are read from the page itself, so what a reader sees is what was run.
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from utils import plots, sizes
from utils.attention import torch as torch_attention
from utils.models import pretrained

ROOT = Path(__file__).resolve().parents[1]
N, HEADS, D_HEAD = sizes.N_Q, sizes.HEADS, sizes.D_HEAD
SENTENCE, WORD, LAYER, HEAD = (
    "The animal did not cross the street because it was too tired.", "it", 3, 1)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def inputs():
    """Return q, k, v of example 0, float64 (i, h * d): five words, three heads of four."""
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.standard_normal((N, HEADS * D_HEAD))) for _ in "qkv"]


def outputs():
    """Return what each program on the front page returns, in the order of the page."""
    page = (ROOT / "chapters" / "index.md").read_text(encoding="utf-8")
    results = []
    for source in BLOCK.findall(page):
        names = dict(zip("qkv", inputs(), strict=True), torch=torch, einsum=torch.einsum,
                     attention=lambda q, k, v: torch_attention.attention(q, k, v)[0])
        exec(compile(source, "chapters/index.md", "exec"), names)
        results.append(names["out"].numpy())
    return results


def attention_of_a_word():
    """Return (tokens, weights): what one head of all-MiniLM-L6-v2 gives WORD from each token."""
    ids, real, (tokens,) = pretrained.tokenise([SENTENCE])
    with torch.no_grad():
        _, weights = pretrained.load_encoder()(ids, real)  # (b, layer, h, i, j)
    return tokens, weights[0, LAYER, HEAD, tokens.index(WORD)].numpy()


def draw_arcs(tokens, weights):
    """Return a figure of the tokens in a row, with an arc to WORD as thick as each weight."""
    fig, ax = plots.figure(width=8.6, height=2.5)
    widths = np.array([0.6 * len(token) + 1.1 for token in tokens])
    places = np.cumsum(widths) - widths / 2
    here = places[tokens.index(WORD)]
    for token, place, weight in zip(tokens, places, weights, strict=True):
        ax.text(place, -0.12, token, ha="center", va="top", fontsize=11,
                weight="bold" if token == WORD or weight > 0.5 else "normal")
        if weight >= 0.005 and token != WORD:
            angle = np.linspace(0, np.pi, 100)
            middle, radius = (here + place) / 2, abs(here - place) / 2
            ax.plot(middle + radius * np.cos(angle), radius * np.sin(angle) / 9, lw=14 * weight,
                    color=plots.COLOURS[0], alpha=0.75, solid_capstyle="butt")
        if weight > 0.5:
            ax.text((here + place) / 2, radius / 9 - 0.32, f"{weight:.0%}", ha="center",
                    color=plots.COLOURS[0], weight="bold")
    ax.set(xlim=(-0.5, widths.sum() + 0.5), ylim=(-0.4, 2.1))
    ax.axis("off")
    return fig


def draw(out, limit):
    """Return a figure of one output (i, e), with lines between the heads."""
    fig, ax = plots.figure(width=3.6, height=1.55)
    plots.heatmap(ax, out, limits=(-limit, limit), colours="RdBu_r")
    for head in range(1, HEADS):
        ax.axvline(head * D_HEAD - 0.5, color="white", linewidth=3)
    ax.set_xticks([D_HEAD * (head + 0.5) - 0.5 for head in range(HEADS)],
                  [f"head {head}" for head in range(HEADS)])
    ax.set_ylabel("token")
    return fig


def main():
    """Draw the weights of one word, and every output on one scale."""
    fig = draw_arcs(*attention_of_a_word())
    fig.savefig(ROOT / "_static" / "attention.png", dpi=200, metadata={"Software": None})
    plt.close(fig)
    results = outputs()
    limit = max(np.abs(out).max() for out in results)
    for number, out in enumerate(results, start=1):
        print(number, out.shape, f"{np.abs(out - results[0]).max():.2g}")
        fig = draw(out, limit)
        fig.savefig(ROOT / "_static" / f"program-{number}.png", dpi=200,
                    metadata={"Software": None})
        plt.close(fig)


if __name__ == "__main__":
    main()
