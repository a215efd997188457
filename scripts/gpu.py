"""Measure attention on a GPU, and compare it with float64, in about ten minutes at most.

    python scripts/gpu.py [--out FILE] [--minutes 8] [--device cpu --small --out FILE]

Measured are SDPA's backends, one after another, decoding with fewer KV heads, latent attention,
FlexAttention, and the Triton kernel of chapter `flash`; ``scripts/gpu_cases.py`` has the cases.
Several calls run between two synchronisations, and the time of one call is their mean. A row that
fails says why, and the next one is measured. No row begins after ``--minutes``. The file,
``data/gpu.json``, is written after each row; ``utils.measure.gpu`` reads it. ``--small`` shows that
everything runs, on a CPU too; its figures mean nothing.
"""

import argparse
import platform
import sys
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from tqdm import tqdm

from scripts import bench_machine, bench_rows, gpu_cases
from utils.measure import gpu

SIZES = {"sdpa": {"batch": 4, "heads": 16, "kv_heads": 4, "n": 2048, "d": 128, "d_v": 64,
                  "kernel_d": 64, "tile": 32},
         "low_scores": (640, 704), "window": 256,
         "decode": {"batch": 8, "heads": 64, "kv_heads": (1, 8, 64), "n": 32768, "d": 128},
         "latent": {"batch": 4, "heads": 128, "nope": 128, "rope": 64, "d_v": 128, "rank": 512,
                    "cached": 8192, "prompt": 2048},
         "repeats": 10, "in_a_row": 5}
SMALL = {"sdpa": {"batch": 2, "heads": 4, "kv_heads": 2, "n": 48, "d": 16, "d_v": 8,
                  "kernel_d": 16, "tile": 16},
         "low_scores": (40, 64), "window": 8,
         "decode": {"batch": 2, "heads": 8, "kv_heads": (1, 2, 8), "n": 96, "d": 16},
         "latent": {"batch": 2, "heads": 4, "nope": 12, "rope": 8, "d_v": 16, "rank": 24,
                    "cached": 40, "prompt": 20},
         "repeats": 2, "in_a_row": 1}
NOT_BEGUN = "the run ended before this row"


def machine(device):
    """Return a dict of what decides how fast programs run, and of the day."""
    cuda = device == "cuda"
    return {"device": device, "python": platform.python_version(), "torch": torch.__version__,
            "name": torch.cuda.get_device_name(0) if cuda else bench_machine.processor(),
            "cuda": torch.version.cuda if cuda else None,
            "cudnn": torch.backends.cudnn.version() if cuda else None,
            "triton": bench_machine.installed("triton"),
            "date": datetime.now(UTC).date().isoformat()}


def seconds(call, prepare, sizes, device):
    """Return the spread of the seconds of ``call(x)`` for x = prepare(), and its last result.

    Preparing is not timed. The first turn is not counted.
    """
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    taken = []
    for _ in range(sizes["repeats"] + 1):
        ready = [prepare() for _ in range(sizes["in_a_row"])]
        wait()
        start = time.perf_counter()
        for x in ready:
            result = call(x)
        wait()
        taken.append((time.perf_counter() - start) / sizes["in_a_row"])
    return bench_rows.spread(taken[1:]), result


def compared(found, want):
    """Return (largest difference, elements that are not finite) of lists of tensors.

    ``want`` holds the first example only, so NaN and infinities are counted in all examples, and
    differences in the first, between finite elements. The difference is None if there are none.
    """
    bad = sum(int((~x.isfinite()).sum()) for x in found)
    apart = torch.cat([(x.detach()[:1].double() - y).flatten() for x, y in zip(found, want,
                                                                              strict=True)])
    apart = apart[apart.isfinite()].abs()
    return (float(apart.max()) if len(apart) else None), bad


def forward(row, work, want, sizes, device):
    """Measure the forward pass into ``row``."""
    with torch.no_grad():
        row["forward"], out = seconds(lambda _: work.call(), lambda: None, sizes, device)
    row["difference"], row["not_finite"] = compared([out], want[:1])
    if work.moved:
        row["rate"] = work.moved / row["forward"]["median"]


def backward(row, work, want, sizes, device):
    """Measure the backward pass into ``row``; each one has a forward pass of its own before it."""
    row["backward"], grad = seconds(
        lambda out: torch.autograd.grad(out, work.inputs, work.grad_out), work.call, sizes, device)
    row["grad_difference"], bad = compared(grad, want[1:])
    row["not_finite"] += bad


def reason(error, heard):
    """Return why a program failed: SDPA's warnings on the backend, or else the error's first line.

    SDPA also warns that the backends that were turned off are turned off.
    """
    said = [str(warning.message).partition(" (Triggered")[0].strip() for warning in heard]
    said = [text for text in said if not text.endswith("because:") and "disabled" not in text]
    if "No available kernel" not in str(error) or not said:
        said = [(str(error).strip() or type(error).__name__).splitlines()[0]]
    return " ".join(dict.fromkeys(said))[:300]


def measure(row, make, sizes, device):
    """Measure a case into ``row``; what fails is named in its ``why``."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    done = why = ""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            if device == "cuda":
                torch.cuda.empty_cache()  # of the row before
            torch.manual_seed(0)
            work = make(device=device, dtype=dtype)
            want, why = work.want(), work.why
            forward(row, work, want, sizes, device)
            done = "backward: "
            if work.inputs:
                backward(row, work, want, sizes, device)
        except Exception as error:  # whatever a kernel raises, the next row is measured
            why = done + reason(error, heard)
    return why


def run(found, todo, device, minutes, path):
    """Measure the cases ``todo`` into the rows of ``found``, and write it after each."""
    end = time.monotonic() + 60 * minutes
    for row, (*_, needs_gpu, make) in zip(tqdm(found["rows"], desc="gpu"), todo, strict=True):
        if needs_gpu and device != "cuda":
            row["why"] = "needs a GPU"
        elif time.monotonic() > end:
            row["why"] = f"left out, because {minutes:g} minutes had passed"
        else:
            row["why"] = measure(row, make, found["sizes"], device)
        row.update(bench_rows.rounded(row))
        gpu.write(found, path)


def main(arguments):
    """Measure, write, print; exit with one sentence where that cannot be done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="a smoke test, at tiny sizes")
    parser.add_argument("--minutes", type=float, default=8, help="begin no row after these")
    parser.add_argument("--out", type=Path, help="default: data/gpu.json, but not for --small")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.exit(2, "there is no CUDA GPU here; `--device cpu --small --out FILE` shows that "
                       "everything runs\n")
    if options.device == "cpu" and not options.small:
        parser.exit(2, "on a CPU, only --small can be measured\n")
    if options.small and options.out is None:
        parser.exit(2, "--small needs --out FILE, because its figures mean nothing\n")
    sizes = SMALL if options.small else SIZES
    todo, path = gpu_cases.cases(sizes), options.out or gpu.OURS
    found = {"format": gpu.FORMAT, "small": options.small, "machine": machine(options.device),
             "sizes": sizes, "rows": [
                 dict(zip(("part", "program", "case"), names, strict=True))
                 | dict.fromkeys((*gpu.SPREADS, *gpu.NUMBERS)) | {"why": NOT_BEGUN}
                 for *names, _, _ in todo]}
    run(found, todo, options.device, options.minutes, path)
    print(gpu.report(path, options.small), f"Written to {path}.", sep="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])
