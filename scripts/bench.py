"""Measure the programs of the course: time and peak memory, in one run of about half an hour.

    python scripts/bench.py [--only PART …] [--quick] [--output FILE] [--device cuda]

Parts: ``machine`` (what it is and its two roofs), ``sweep`` (the ten programs, and four more, over
n), ``fast`` (our fast path beside the libraries'), ``grouped`` (shared keys and caches). Writes
``bench.json``, which ``utils.measure.results`` reads, and prints Markdown tables. With ``--only``,
the other parts of the file stay, if they were measured on this machine with these versions. With
``--device cuda``, memory is the peak that PyTorch's allocator saw on the GPU, what does not run in
PyTorch is left out, and a file with results of the CPU is not written over. ``--quick`` shows that
everything runs; its figures mean nothing. Measure on a quiet machine.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import (
    bench_fast,
    bench_grouped,
    bench_machine,
    bench_rows,
    bench_sweep,
    bench_tables,
)
from utils.files import write as write_file
from utils.measure import results as files

# The name of a part on the command line, what measures it, and where it stands in the file.
PARTS = {"machine": (bench_machine, "roofs"), "sweep": (bench_sweep, "sweep"),
         "fast": (bench_fast, "fast"), "grouped": (bench_grouped, "grouped")}
# What is not measured on a GPU, besides what ``left_out`` lists.
LEFT_OUT = ("Left out on CUDA, because they do not run in PyTorch: "
            f"{', '.join(bench_sweep.NOT_TORCH)} (sweep) and Keras (fast). The memory of longer "
            "inputs (fast) is measured on CPUs only.")


def blank(machine, quick):
    """Return a file in which nothing has been measured."""
    return {"format": files.FORMAT, "quick": quick, "machine": machine, "sizes": {}, "roofs": {},
            "sweep": [], "left_out": [], "fast": [], "grouped": []}


def other_device(path, device):
    """Return the device of the results in ``path`` if it is another one, else ""."""
    try:
        there = files.load(path, quick=True)["machine"]["device"]
    except (OSError, ValueError):  # no file, or none of ours: written over, as ever
        return ""
    return there if there != device else ""


def kept(path, machine, quick):
    """Return the file that more parts go into, a new one where there is none.

    Raises ValueError where what it holds must not stand beside what is measured here and now.
    """
    if not path.exists():
        return blank(machine, quick)
    old = files.load(path, quick=True)
    if old["quick"] != quick:
        raise ValueError(f"{path} was measured {'with' if old['quick'] else 'without'} --quick, "
                         "and this is the other: name another --output, or leave out --only")
    other = [key for key in machine if key != "date" and old["machine"].get(key) != machine[key]]
    if other:
        raise ValueError(f"{path} was measured on another machine ("
                         + ", ".join(f"{key}: {old['machine'].get(key)}, here {machine[key]}"
                                     for key in other)
                         + "): name another --output, or leave out --only")
    return old | {"machine": machine}


def measure(found, part, device):
    """Measure a part and put it into ``found``."""
    module, key = PARTS[part]
    sizes = module.QUICK if found["quick"] else module.SIZES
    result = module.measure(sizes, device)
    if part == "sweep":
        result, found["left_out"] = result
    found[key], found["sizes"][part] = result, sizes


def write(found, path):
    """Write what was measured, a line for each number, so that a difference can be read."""
    text = json.dumps(bench_rows.rounded(found), indent=1, ensure_ascii=False)
    write_file(path, f"{text}\n".encode())


def main(arguments):
    """Measure, write, print; exit with one sentence where that cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART",
                        help=f"measure this part alone, repeatable: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="a smoke test, at tiny sizes")
    parser.add_argument("--output", type=Path, default=files.READERS, help="default: bench.json")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu",
                        help="default: cpu; cuda measures what runs in PyTorch, on the GPU")
    options = parser.parse_args(arguments)
    machine = bench_machine.machine(options.device)
    if options.device == "cuda" and machine["gpu"] is None:
        parser.exit(2, "there is no CUDA GPU here: leave out --device\n")
    if there := other_device(options.output, options.device):
        parser.exit(2, f"{options.output} holds results of the device {there}, and this is "
                       f"{options.device}: name another --output\n")
    try:
        found = (kept(options.output, machine, options.quick) if options.only
                 else blank(machine, options.quick))
    except ValueError as error:
        parser.exit(2, f"{error}\n")
    parts = [part for part in PARTS if part in (options.only or PARTS)]
    if options.device == "cuda":
        print(LEFT_OUT)
    for part in parts:
        measure(found, part, options.device)
        write(found, options.output)  # what comes after it may fail
    print(bench_tables.text(found, [PARTS[part][1] for part in parts]))
    print(f"\nWritten to {options.output}.")


if __name__ == "__main__":
    main(sys.argv[1:])
