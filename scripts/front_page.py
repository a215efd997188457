"""Run the programs that stand on the front page, and draw what they return.

    python -m scripts.front_page        (writes _static/program-1.png, …; committed)

The programs are read from the page itself, so what a reader sees is what was run.
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from utils import plots, sizes
from utils.attention import torch as torch_attention

ROOT = Path(__file__).resolve().parents[1]
N, HEADS, D_HEAD = sizes.N_Q, sizes.HEADS, sizes.D_HEAD
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


def draw(out, limit):
    """Return a figure of one output (i, e), with lines between the heads."""
    fig, ax = plots.figure(width=3.6, height=1.55)
    plots.heatmap(ax, out, limits=(-limit, limit), colours="RdBu_r")
    for head in range(1, HEADS):
        ax.axvline(head * D_HEAD - 0.5, color="white", linewidth=3)
    ax.set_xticks([D_HEAD * (head + 0.5) - 0.5 for head in range(HEADS)],
                  [f"head {head}" for head in range(HEADS)])
    ax.set_ylabel("word")
    return fig


def main():
    """Draw every output on one scale."""
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
