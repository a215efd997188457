"""Run notebooks in place: store their outputs, the seconds they took, the minutes they take.

    python scripts/execute.py [NOTEBOOK …]      (default: every notebook of the book)

The first cell of a notebook says how long it takes to read and to run; both are written here, the
first from its words and code lines, the second from the clock.
"""

import os
import re
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_METADATA = ("tags", "mystnb", "cellView")
# The one place in a first cell that this script writes.
TIMES = re.compile(r"\d+ minutes to read(?:, \d+ to go deeper)?(?:, \d+ for the exercises)?"
                   r", \d+ seconds? to run")
# The parameters in a figure: 2 MB, which the site has in one file.
PARAMETERS = re.compile(r'(?<= data-weights=)"[^"]*"')
EXERCISE = re.compile(r"^\*\*\d+\. .*?\*\* \((\d+) minutes", re.MULTILINE)


def notebooks():
    """Return the paths of the book's notebooks, sorted."""
    return sorted(path for path in (ROOT / "chapters").rglob("*.ipynb")
                  if ".ipynb_checkpoints" not in path.parts)


def reading_minutes(nb):
    """Return the minutes for (the main text, Going deeper, the exercises), ints.

    A minute is 100 words or 10 lines of code, in Going deeper 84 or 8, as readers were seen to take
    longer there, and on the page for one hour, where all is new. The first two are rounded to five,
    but not to 0. Folded cells and Further reading do not count; an exercise says itself how long it
    takes.
    """
    new = nb.cells[0].source.startswith("# Attention in one hour\n")
    pace = {"main": 0.84 if new else 1, "Going deeper": 0.84}
    minutes, part = {"main": 0.0, "Going deeper": 0.0}, "main"
    exercises = 0
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            for text in re.split(r"^(?=## )", cell.source, flags=re.MULTILINE):
                title = re.match(r"## (Exercises|Going deeper|Further reading)\n", text + "\n")
                part = title[1] if title else part
                exercises += sum(map(int, EXERCISE.findall(text)))
                if part in minutes:
                    minutes[part] += len(text.split()) / 100 / pace[part]
        elif part in minutes and not {"hide-cell", "hide-input"} & {*cell.metadata.get("tags", [])}:
            minutes[part] += len(cell.source.splitlines()) / 10 / pace[part]
    main, deeper = (max(5, 5 * round(n / 5)) if n else 0 for n in minutes.values())
    return main, deeper, exercises


def write_times(nb, seconds=None):
    """Write the times into the first cell; ``seconds`` None keeps those of the last run.

    Raises ValueError when the cell has no place for them.
    """
    found = TIMES.search(nb.cells[0].source)
    if not found:
        raise ValueError("the first cell must say “N minutes to read, N seconds to run”")
    seconds = seconds or int(re.search(r"(\d+) seconds? to run", found[0])[1])
    main, deeper, exercises = reading_minutes(nb)
    times = [f"{main} minutes to read"]
    if deeper:
        times.append(f"{deeper} to go deeper")
    if exercises:
        times.append(f"{exercises} for the exercises")
    times.append("1 second to run" if seconds == 1 else f"{seconds} seconds to run")
    nb.cells[0].source = nb.cells[0].source.replace(found[0], ", ".join(times))


def joined(outputs):
    """Return the outputs of a cell; what was printed in a row is one, however slowly it came."""
    found = []
    for output in outputs:
        before = found[-1] if found else {}
        if output.output_type == "stream" and before.get("name") == output.name:
            before.text += output.text
        else:
            found.append(output)
    return found


def normalise(nb):
    """Keep only what readers and nbval need in a notebook: metadata, and outputs in one piece.

    A figure loses the parameters of its model, which it finds on the site.
    """
    nb.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC,
                                      "language_info": {"name": "python"}})
    nb.nbformat, nb.nbformat_minor = 4, 5
    for cell in nb.cells:
        cell.metadata = nbformat.from_dict(
            {key: cell.metadata[key] for key in CELL_METADATA if key in cell.metadata})
        if cell.cell_type == "code":
            cell.outputs = joined(cell.outputs)
        for output in cell.get("outputs", []):
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = nbformat.from_dict({})
            if "text/html" in output.get("data", {}):
                output.data["text/html"] = PARAMETERS.sub('""', output.data["text/html"])
    return nb


def execute(path):
    """Run one notebook from a clean kernel in its own folder and store what it gives."""
    nb = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    # Kernels warn of unencrypted TCP on every start, which is nothing a reader can act on.
    NotebookClient(nb, timeout=1800, kernel_name="python3", extra_arguments=["--log-level=ERROR"],
                   resources={"metadata": {"path": path.parent}}).execute()
    write_times(nb, max(1, round(time.perf_counter() - start)))
    nbformat.write(normalise(nb), path)


def main(names):
    """Execute the notebooks given, or all."""
    # For the kernels, which inherit it; the bar below was imported before and stays on.
    os.environ.update(TQDM_DISABLE="1")
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    bar = tqdm([Path(name).resolve() for name in names] or notebooks(), unit="notebook")
    for path in bar:
        bar.set_description(path.stem)
        execute(path)


if __name__ == "__main__":
    main(sys.argv[1:])
