"""The ladder: how many bits per character each rung needs, beside what counting needs."""

from .figures import COLOURS, figure


def ladder(results, up_to=None, yours=None):
    """Draw the rungs up to ``up_to`` (default: all), the first at the bottom; return the figure.

    ``results`` come from ``ladder_results.load``. A dot is a run with one seed, the number on the
    right their mean. ``yours``, {rung: bits}, is drawn as diamonds. Raises ValueError for an
    unknown rung.
    """
    rungs = list(results["rungs"])
    for name in (*([] if up_to is None else [up_to]), *(yours or {})):
        if name not in rungs:
            raise ValueError(f"the rungs are {', '.join(rungs)}; got {name!r}")
    rungs = rungs[:len(rungs) if up_to is None else rungs.index(up_to) + 1]
    fig, ax = figure(width=6.4, height=1.8 + 0.5 * len(rungs))
    for name, label in (("bigram", "counting pairs"), ("best count", "best count")):
        ax.axvline(results[name], color=COLOURS[1], linestyle="--", linewidth=1.4)
        ax.text(results[name], len(rungs) - 0.35, f"{label}\n{results[name]:.2f}", ha="center",
                va="bottom", color=COLOURS[1], fontsize=12)
    for n, name in enumerate(rungs):
        bits = results["bits"][name]
        mean = sum(bits) / len(bits)
        ax.plot(bits, [n] * len(bits), "o", color=COLOURS[0], alpha=0.7, label="rung")
        ax.text(4.1, n, f"{mean:.2f}", ha="right", va="center", fontsize=12, color=COLOURS[0])
        if yours and name in yours:
            ax.plot([yours[name]], [n], "D", color="black", fillstyle="none", markersize=11,
                    label="yours")
    if yours:
        handles = {line.get_label(): line for line in ax.lines}
        fig.legend([handles["rung"], handles["yours"]], ["one of three seeds", "your run"],
                   frameon=False, loc="outside lower center", ncols=2, fontsize=12)
    ax.set_xlim(1.8, 4.1)
    ax.set_xticks([2, 2.5, 3, 3.5, 4])
    ax.set_ylim(-0.6, len(rungs) - 0.4)
    ax.set_yticks(range(len(rungs)), rungs, fontsize=12)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("bits per character on held-out text", fontsize=12)
    return fig
