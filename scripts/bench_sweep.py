"""Ten of the eleven programs of chapter `one_equation`, and four more, over the input's length.

One example, self-attention, float32, no mask, no gradients, projections included; inputs and
weights lie ready. JAX is left out; TensorFlow's programs run as graphs. Memory is what the length
of the input adds to the peak of a fresh process.
"""

from functools import partial

import numpy as np
from tqdm import tqdm

from scripts import bench_machine, bench_rows
from utils import parity
from utils.measure import timing
from utils.parity import adapters, ten, weights
from utils.sizes import weights as random_weights

COMPILED = "view, compiled"
NOT_TORCH = ("loops", "packed", "folded (TensorFlow)", "Keras")
# ``from``: the first length of a program, "" = all others; ``repeats``: the fewest and the most;
# ``memory``: the programs whose memory is measured, () = all, from the length ``memory_from`` on.
SIZES = {"batch": 1, "d_model": 256, "n_heads": 8,
         "n": (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192), "from": {"loops": 16, "": 128},
         "repeats": (3, 15), "memory": (), "memory_from": 512}
QUICK = {"batch": 1, "d_model": 8, "n_heads": 2, "n": (4, 8, 16),
         "from": {"loops": 4, COMPILED: 16, "": 8}, "repeats": (2, 2), "memory": ("packed",),
         "memory_from": 16}
# Seconds and MiB beyond which a program is left out; half the machine's memory, if that is less.
TOO_LONG, TOO_LARGE = 20.0, 8192.0
SECONDS = 30.0  # the repeats at one length take about so long, where that is possible


def ours(case):
    """Return our module and what to load into it."""
    from utils.attention.torch import MultiHeadAttention
    return (MultiHeadAttention(case.x.shape[-1], case.n_heads),
            weights.to_qkv_module(case.weights))


def tiled(module, x, memory, case):
    """Return out of our module by the tiled program of chapter `flash`."""
    from utils.attention.flash import tiled_attention
    from utils.attention.heads import merge_heads
    return module.W_o(merge_heads(tiled_attention(*module.project(x))))


def asked(module, x, memory, case):
    """Return out of our module, asked for its weights too."""
    return module(x, return_weights=True)[0]


def library(case):
    """Return PyTorch's module and what to load into it."""
    from torch import nn
    return (nn.MultiheadAttention(case.x.shape[-1], case.n_heads, batch_first=True),
            weights.to_in_proj(case.weights))


def recorded(module, x, memory, case):
    """Return out of PyTorch's module while gradients are recorded, which takes another path."""
    import torch
    with torch.inference_mode(False), torch.enable_grad():
        return module(x, x, x, need_weights=False)[0]


def compiled(case):
    """Return ``programs.view``, prepared, compiled for this one length, and run once."""
    import torch
    torch.compiler.reset()
    view = torch.compile(ten.view, dynamic=False, fullgraph=True)
    call = adapters.torch_function(COMPILED, view).prepare(case)
    call()
    return call


def all_programs():
    """Return {name: function of a case that returns a function of nothing}."""
    more = [adapters.torch_module("tiled", ours, tiled, weights.from_qkv_module),
            adapters.torch_module("SDPA, weights asked", ours, asked, weights.from_qkv_module),
            adapters.torch_module("nn.MultiheadAttention, gradients on", library, recorded,
                                  weights.from_in_proj)]
    found = {program.name: program.prepare for program in [*ten.programs(), *more]
             if program.name != "JAX"}
    return found | {COMPILED: compiled}


def prepared(name, n, batch, d_model, n_heads):
    """Return a callable that runs the program ``name`` once, on an input of length n."""
    x = np.random.default_rng(0).standard_normal((batch, n, d_model), dtype=np.float32)
    params = {name: w.astype(np.float32) for name, w in random_weights(
        d_in=d_model, d_model=d_model, d_out=d_model).items()}
    return all_programs()[name](parity.Case(x, x, params, n_heads, keep=None, grad_out=x))


def measure(sizes, device="cpu"):
    """Return the rows of the sweep, and those of what was left out."""
    sweep = Sweep(sizes, device)
    with tqdm(sizes["n"], desc="sweep") as bar:
        for n in bar:
            sweep.at(n, lambda what, n=n: bar.set_postfix_str(f"n = {n}: {what}"))
    return sweep.rows, sweep.left_out


class Sweep:
    """Measures length after length; what the last one took decides who takes part in the next."""

    def __init__(self, sizes, device="cpu"):
        self.sizes, self.device = sizes, device
        self.shape = tuple(sizes[key] for key in ("batch", "d_model", "n_heads"))
        self.too_large = min(TOO_LARGE, bench_machine.mebibytes() / 2)
        self.rows, self.left_out = [], []
        self.expected = {}  # {name: (seconds, MiB)} of the length to come

    def at(self, n, show=lambda what: None):
        """Measure all programs that begin at n or before, unless they would take too much."""
        begins, (least, most) = self.sizes["from"], self.sizes["repeats"]
        names = [name for name in all_programs() if n >= begins.get(name, begins[""])]
        show("preparing")
        calls = {name: call for name in names if (call := self.call(name, n)) is not None}
        for name in calls.keys() - self.expected.keys():
            self.expected[name] = min(timing.turns({name: calls[name]}, 1)[name]), 0.0
        turn = sum(self.expected[name][0] + bench_rows.PAUSE for name in calls)
        repeats = int(np.clip(SECONDS / turn, least, most)) if calls else 0
        show(f"{repeats} turns")
        taken = bench_rows.measured(calls, repeats)
        if self.device == "cpu":
            calls = dict.fromkeys(calls)  # and what they keep of their last run
        show("memory")
        added = self.mebibytes(n, calls)
        for name, seconds in taken.items():
            self.rows.append({"program": name, "n": n, "seconds": seconds,
                              "mebibytes": added[name]})
            self.expected[name] = 4 * seconds["median"], 4 * (added[name] or 0.0)

    def mebibytes(self, n, calls):
        """Return {name: MiB that an input of length n adds}; None: not wanted, or not to be seen.

        The compiled program is not asked: its compiler takes more than it does, and hides it.
        """
        wanted = [name for name in calls if n >= self.sizes["memory_from"] and name != COMPILED
                  and name in (self.sizes["memory"] or calls)]
        if self.device != "cpu":
            return dict.fromkeys(calls) | {name: bench_rows.added_on_gpu(calls[name])
                                           for name in wanted}
        codes = {(name, length): "from scripts import bench_sweep\n"
                 f"bench_sweep.prepared{(name, length, *self.shape)!r}()"
                 for name in wanted for length in (n, 1)}
        largest = max((self.expected.get(name, (0, 0))[1] for name in wanted), default=0)
        bench_rows.measure_peaks(codes.values(), at_once=2 if largest < self.too_large / 4 else 1)
        return dict.fromkeys(calls) | {name: bench_rows.added(codes[name, n], codes[name, 1])
                                       for name in wanted}

    def call(self, name, n):
        """Return the program, ready to run, or None: then ``left_out`` says why."""
        why = self.too_much(name)
        if not why:
            try:
                return bench_rows.on_device(partial(prepared, name, n, *self.shape), self.device)
            except Exception as error:
                if name != COMPILED:
                    raise
                why = f"it cannot be compiled here: {str(error).strip().splitlines()[0]}"
        self.left_out.append({"program": name, "n": n, "why": why})
        return None

    def too_much(self, name):
        """Return why the program is not run at this length, or nothing."""
        seconds, size = self.expected.get(name, (0.0, 0.0))
        if self.device != "cpu" and name in NOT_TORCH:
            return "it does not run in PyTorch"
        if seconds <= TOO_LONG and size <= self.too_large:
            return ""
        self.expected[name] = 4 * seconds, 4 * size
        return (f"one run would take about {seconds:.0f} s" if seconds > TOO_LONG
                else f"it would take about {size / 1024:.0f} GiB")
