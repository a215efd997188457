"""What this machine is, and its two roofs: arithmetic and memory."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from scripts import bench_rows

SIZES = {"matrix": (512, 1024, 2048, 4096), "triad_mebibytes": 256, "repeats": 10}
QUICK = {"matrix": (32, 64), "triad_mebibytes": 1, "repeats": 2}
PACKAGES = {"torch": ("torch",), "tensorflow": ("tensorflow", "tensorflow-cpu"),
            "keras": ("keras",), "numpy": ("numpy",)}


def machine(device):
    """Return a dict of what decides how fast programs run, and of the day."""
    import torch
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else None
    return {"processor": processor(), "cores": os.cpu_count(), "threads": torch.get_num_threads(),
            "gibibytes": round(mebibytes() / 2**10, 1), "gpu": gpu, "device": device,
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            **{name: installed(*names) for name, names in PACKAGES.items()},
            "date": datetime.now(UTC).date().isoformat()}


def mebibytes():
    """Return how much memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20


def processor():
    """Return the name of the processor, as well as the system knows it."""
    try:
        if platform.system() == "Darwin":
            return subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], text=True,
                                  capture_output=True, check=True).stdout.strip()
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines
                        if line.startswith("model name"))
    except (OSError, StopIteration, subprocess.CalledProcessError):
        return platform.processor() or platform.machine()


def installed(*names):
    """Return the version of the first of these packages that is installed, or None."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            pass
    return None


def measure(sizes, device="cpu"):
    """Return the two roofs: FLOP/s of a product of matrices, bytes/s of a triad, float32."""
    return {"flops": product(sizes["matrix"], sizes["repeats"], device),
            "bytes": triad(sizes["triad_mebibytes"], sizes["repeats"], device)}


def product(sizes, repeats, device):
    """Return the rate of ``a @ b``, size × size, at the size where it is largest."""
    import torch

    def prepare(n):
        a, b, out = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
        return lambda: torch.mm(a, b, out=out)

    calls = {n: bench_rows.on_device(lambda n=n: prepare(n), device) for n in sizes}
    seconds = bench_rows.measured(calls, repeats, pause=0)
    rates = {n: rate(2 * n**3, seconds[n]) for n in sizes}
    best = max(rates, key=lambda n: rates[n]["median"])
    return rates[best] | {"what": f"float32 matrix product, {best} × {best}"}


def triad(mebibytes, repeats, device):
    """Return the rate of ``out = a + 2 b``: two arrays are read, one is written, all counted."""
    import torch

    def prepare():
        a, b, out = torch.ones(3, mebibytes << 18)
        return lambda: torch.add(a, b, alpha=2, out=out)

    seconds = bench_rows.measured({"": bench_rows.on_device(prepare, device)}, repeats, pause=0)
    what = f"out = a + 2 b, arrays of {mebibytes} MiB; two read and one written are counted"
    return rate(3 * (mebibytes << 20), seconds[""]) | {"what": what}


def rate(amount, seconds):
    """Return amount per second: median, quartiles, best, repeats, from a spread of seconds."""
    return {"median": amount / seconds["median"], "low": amount / seconds["high"],
            "high": amount / seconds["low"], "best": amount / seconds["least"],
            "repeats": seconds["repeats"]}
