"""What was measured, as Markdown tables."""

from tabulate import tabulate

from utils.measure import results as files


def table(head, left, lines):
    """Return a Markdown table whose first ``left`` columns are aligned left, the others right."""
    align = ["left"] * left + ["right"] * (len(head) - left)
    return tabulate(lines, head, tablefmt="pipe", disable_numparse=True,
                    colalign=align if lines else None)  # tabulate 0.9 aligns no empty table


def number(value, digits=0):
    """Return a number with so many decimals, or a dash for None."""
    return "–" if value is None else f"{value:.{digits}f}"


def roofs(measured):
    """Return the two roofs as text."""
    flops, size = measured["roofs"]["flops"], measured["roofs"]["bytes"]
    return "\n".join(
        f"- {amount['median'] / 1e9:.1f} {unit} (quartiles {amount['low'] / 1e9:.1f} to "
        f"{amount['high'] / 1e9:.1f}): {amount['what']}"
        for amount, unit in ((flops, "GFLOP/s"), (size, "GB/s")))


def sweep(measured, key):
    """Return a table of the sweep, programs down and lengths across: milliseconds, or MiB."""
    lengths = sorted({found["n"] for found in measured["sweep"]})
    cells = {(found["program"], found["n"]):
             number(1e3 * found["seconds"]["median"], 2) if key == "seconds"
             else number(found["mebibytes"]) for found in measured["sweep"]}
    return table(["program", *lengths], 1, [
        [name, *(cells.get((name, n), "") for n in lengths)]
        for name in files.programs(measured)])


def left_out(measured):
    """Return what the sweep left out, a line for each."""
    return "\n".join(f"- {found['program']}, n = {found['n']}: {found['why']}"
                     for found in measured["left_out"])


def settings(measured):
    """Return the rows of the fast path by setting and pass, in the order of the file."""
    found = {}
    for line in measured["fast"]:
        if line["seconds"] is not None:
            setting = (line["batch"], line["n"], line["d_model"]), line["pass"]
            found.setdefault(setting, {})[line["program"]] = line
    return found


def fast(measured):
    """Return the times of the fast path as multiples of ours, minima, and whom we follow."""
    found = settings(measured)
    names = list(dict.fromkeys(name for lines in found.values() for name in lines))
    rows = []
    for (setting, what), lines in found.items():
        least = {name: line["seconds"]["least"] for name, line in lines.items()}
        best = min(least.keys() - {"ours"}, key=least.get)
        rows.append([setting, what, number(1e3 * least["ours"], 2),
                     *(number(least[n] / least["ours"] if n in least else None, 2) for n in names),
                     f"{least['ours'] / least[best]:.2f} ({best})"])
    return table(["batch, n, d_model", "pass", "ours, ms", *names, "ours / best peer"], 2, rows)


def fast_memory(measured):
    """Return the MiB each program of the fast path adds to a fresh process."""
    found = settings(measured)
    names = list(dict.fromkeys(name for lines in found.values() for name in lines))
    return table(["batch, n, d_model", "pass", *names], 2, [
        [setting, what, *(number(lines[n]["mebibytes"] if n in lines else None) for n in names)]
        for (setting, what), lines in found.items()])


def growth(measured):
    """Return our MiB as the length grows, for one example of d_model 256."""
    found = {}
    for line in measured["fast"]:
        if (line["program"], line["batch"], line["d_model"]) == ("ours", 1, 256):
            found.setdefault(line["n"], {})[line["pass"]] = line["mebibytes"]
    passes = ("forward", "forward + backward")
    return table(["n", *passes], 0, [[n, *(number(found[n].get(key)) for key in passes)]
                                     for n in sorted(found)])


def grouped(measured):
    """Return times and new tensors of heads that share keys, and of caches."""
    first = {}
    for line in measured["grouped"]:
        first.setdefault(line["what"], line["seconds"]["median"])
    return table(["what", "program", "ms", "of the first", "MiB of new tensors"], 2, [
        [line["what"], line["program"], number(1e3 * line["seconds"]["median"], 2),
         number(line["seconds"]["median"] / first[line["what"]], 2), number(line["mebibytes"], 1)]
        for line in measured["grouped"]])


TITLES = {
    "sweep": (("One example, self-attention, forward: median milliseconds over n",
               lambda measured: sweep(measured, "seconds")),
              ("MiB that the length adds to a fresh process (–: not to be seen)",
               lambda measured: sweep(measured, "mebibytes")),
              ("Left out", left_out)),
    "fast": (("The fast path: times as multiples of ours, minima of interleaved repeats", fast),
             ("Peak memory in MiB above a run on a single word, each in a fresh process "
              "(–: left out, or not to be seen)", fast_memory),
             ("Our peak memory as the length grows, (1, n, 256), MiB", growth)),
    "grouped": (("Heads that share keys, and caches", grouped),),
    "roofs": (("What this machine can do at most", roofs),),
}


def text(measured, parts):
    """Return all tables of these parts."""
    return "\n\n".join([files.describe(measured), *(
        f"{title}.\n\n{make(measured)}" for part in parts for title, make in TITLES[part])])
