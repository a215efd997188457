"""What the parts of the bench share: a spread of seconds, memory, and where a program runs."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from utils.measure import timing

PAUSE = 0.05  # seconds between two runs: idle threads of PyTorch and TensorFlow spin for a while
VISIBLE = 0.5  # MiB: several times what two runs of the same process differ by


def spread(seconds):
    """Return the median, the quartiles and the least of a list of seconds, a dict."""
    low, median, high = (float(value) for value in np.quantile(seconds, (0.25, 0.5, 0.75)))
    return {"median": median, "low": low, "high": high, "least": float(min(seconds)),
            "repeats": len(seconds)}


def measured(calls, repeats, pause=PAUSE):
    """Return the spread of seconds of each program, {name: dict}, for {name: callable}."""
    return {name: spread(seconds)
            for name, seconds in timing.turns(calls, repeats, pause).items()}


def rounded(tree):
    """Return nested dicts and lists with every float rounded to four significant digits."""
    if isinstance(tree, dict):
        return {key: rounded(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [rounded(value) for value in tree]
    return float(f"{tree:.4g}") if isinstance(tree, float) else tree


@cache
def peak(code):
    """Return the peak memory, in MiB, of a fresh process that runs ``code``."""
    return timing.peak_memory(code)


def added(code, base):
    """Return by how many MiB the peak of ``code`` exceeds that of ``base``; None: not to be seen.

    Both are source, and run in fresh processes.
    """
    difference = peak(code) - peak(base)
    return difference if difference >= VISIBLE else None


def measure_peaks(codes, at_once=2):
    """Have the peaks of these sources ready for ``added``, so many processes at once."""
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(peak, dict.fromkeys(codes)))


def on_device(prepare, device):
    """Return the callable that ``prepare()`` makes, on the device, waiting until it has finished.

    TensorFlow and NumPy know nothing of ``device``: leave their programs out unless it is "cpu".
    """
    if device == "cpu":
        return prepare()
    import torch
    with torch.device(device):
        call = prepare()

    def run():
        call()
        torch.cuda.synchronize()
    return run


def added_on_gpu(call):
    """Return the MiB that ``call()`` takes on the GPU at its peak, besides what lies there."""
    import torch
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    return (torch.cuda.max_memory_allocated() - before) / 2**20
