"""Compare the fast path of the course with its peers: time, and peak memory, in one run.

    python scripts/bench.py [--quick]

Self-attention with 8 heads in float32, no mask, the same weights' shapes for all. Forward is
evaluation without gradients; forward + backward gives those of the input and of every weight. What
stores no weights computes them again on the way back: one matrix product in seven more, for memory
that grows with n and not with its square. Prints Markdown tables. ``--quick`` shows that everything
runs; its figures mean nothing.
"""

import argparse
import os
import platform
import sys
from functools import cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from utils import timing

HEADS = 8
# (batch, n, d_model): repeats, the more the shorter they are
SETTINGS = {(8, 128, 256): 60, (8, 512, 512): 20, (1, 2048, 512): 20, (1, 8192, 256): 15}
LENGTHS = (2048, 4096, 8192, 16384)  # for one example of d_model 256: does memory grow linearly?
PAUSE = 0.05  # seconds between two runs: idle threads of PyTorch and TensorFlow spin for a while
TOO_MUCH = 2**30  # bytes in one matrix of weights; programs that store it are left out beyond
OURS = "ours"
STORES_WEIGHTS = ("naive", "seed style")


def torch_programs(d_model):
    """Return {name: (module, call)}: what runs in PyTorch, call(module, x) -> out."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    from utils import torch_attention
    from utils.heads import merge_heads, split_heads

    class ByHand(nn.Module):
        """Packed projections, SDPA, output projection, and nothing else."""

        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

        def forward(self, x):
            b, n, e = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, HEADS, e // HEADS).permute(2, 0, 3, 1, 4)
            context = F.scaled_dot_product_attention(q, k, v)
            return self.out(context.transpose(1, 2).reshape(b, n, e))

    class Naive(torch_attention.MultiHeadAttention):
        """Our module with the program that stores the weights."""

        def forward(self, x):
            context, _ = torch_attention.attention(*self.project(x))
            return self.W_o(merge_heads(context))

    class SeedStyle(nn.Module):
        """Three projections, then scores, softmax and context, every step a tensor of its own."""

        def __init__(self):
            super().__init__()
            self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in "qkvo")

        def forward(self, x):
            q, k, v = (split_heads(W(x), HEADS) for W in (self.W_q, self.W_k, self.W_v))
            scores = torch.matmul(q, k.transpose(-2, -1)) / (d_model // HEADS) ** 0.5
            context = torch.matmul(torch.softmax(scores, dim=-1), v)
            return self.W_o(merge_heads(context.contiguous()))

    layer = nn.MultiheadAttention(d_model, HEADS, batch_first=True)
    return {
        OURS: (torch_attention.MultiHeadAttention(d_model, HEADS), lambda m, x: m(x)),
        "SDPA by hand": (ByHand(), lambda m, x: m(x)),
        "nn.MHA": (layer, lambda m, x: m(x, x, x, need_weights=False)[0]),
        "nn.MHA, weights": (layer, lambda m, x: m(x, x, x)[0]),
        "naive": (Naive(d_model, HEADS), lambda m, x: m(x)),
        "seed style": (SeedStyle(), lambda m, x: m(x)),
    }


NAMES = (OURS, "SDPA by hand", "nn.MHA", "nn.MHA, weights", "Keras", *STORES_WEIGHTS)


def torch_call(name, setting, backward):
    """Return a callable that runs one PyTorch program once."""
    import torch
    batch, n, d_model = setting
    torch.manual_seed(0)
    module, call = torch_programs(d_model)[name]
    x, direction = torch.randn(2, batch, n, d_model)
    if not backward:
        module.eval()
        return partial(torch.no_grad()(call), module, x)
    x.requires_grad_()
    return lambda: torch.autograd.grad(call(module, x), (x, *module.parameters()), direction)


def keras_call(setting, backward):
    """Return a callable that runs the Keras layer once, compiled to a TensorFlow graph."""
    from utils import frameworks
    tf = frameworks.tensorflow()
    import keras
    batch, n, d_model = setting
    layer = keras.layers.MultiHeadAttention(HEADS, key_dim=d_model // HEADS)
    x, direction = tf.random.normal((batch, n, d_model)), tf.random.normal((batch, n, d_model))

    def forward():
        return layer(x, x, training=backward)

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = forward()
        return tape.gradient(out, [x, *layer.trainable_variables], direction)

    layer.build(x.shape, x.shape)  # its variables, which a graph may not make
    return tf.function(gradients if backward else forward, autograph=False)


def prepared(name, setting, backward):
    """Return a callable that runs the program ``name`` once."""
    return keras_call(setting, backward) if name == "Keras" else torch_call(name, setting, backward)


def too_large(name, setting):
    """Return whether the program would store a matrix of weights beyond all reason."""
    batch, n, _ = setting
    return name in STORES_WEIGHTS and 4 * batch * HEADS * n * n > TOO_MUCH


@cache
def peak(name, setting, backward):
    """Return the peak memory, in MiB, of a fresh process that runs the program once."""
    return timing.peak_memory("from scripts import bench\n"
                              f"bench.prepared({name!r}, {setting}, {backward})()")


def memory(name, setting, backward):
    """Return the MiB that the length of the input adds to the process."""
    return peak(name, setting, backward) - peak(name, (1, 1, setting[2]), backward)


def row(*cells):
    """Return one line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def setting_name(setting, backward):
    """Return how a setting is called in the tables."""
    return str(setting), "forward + backward" if backward else "forward"


def time_table(settings):
    """Print times as multiples of ours, one line for each setting, and whom we follow."""
    print(row("batch, n, d_model", "pass", "ours, ms", *NAMES, "ours / best peer"))
    print(row(*["---"] * 2, *["--:"] * (len(NAMES) + 2)))
    for setting, repeats in settings.items():
        for backward in (False, True):
            calls = {name: prepared(name, setting, backward) for name in NAMES
                     if not too_large(name, setting)}
            least = timing.interleaved(calls, repeats, PAUSE)
            shares = timing.ratios(least, OURS)
            best = min(calls.keys() - {OURS}, key=shares.get)
            print(row(*setting_name(setting, backward), f"{1e3 * least[OURS]:.2f}",
                      *(f"{shares[n]:.2f}" if n in shares else "–" for n in NAMES),
                      f"{1 / shares[best]:.2f} ({best})"), flush=True)


def memory_table(settings, names):
    """Print the MiB each program adds to a fresh process, one line for each setting."""
    print(row("batch, n, d_model", "pass", *names))
    print(row(*["---"] * 2, *["--:"] * len(names)))
    for setting in settings:
        for backward in (False, True):
            print(row(*setting_name(setting, backward),
                      *("–" if too_large(name, setting) else
                        f"{memory(name, setting, backward):.0f}" for name in names)), flush=True)


def main(arguments):
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke test, at tiny sizes")
    quick = parser.parse_args(arguments).quick
    settings, lengths = ({(2, 32, 64): 2}, (64, 128)) if quick else (SETTINGS, LENGTHS)
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}\n\n"
          f"Time as a multiple of ours: minima of {min(settings.values())} interleaved repeats "
          "or more.\n")
    time_table(settings)
    print("\nPeak memory in MiB above a run on a single word, each in a fresh process "
          f"(–: a matrix of weights over {TOO_MUCH >> 20} MiB).\n")
    memory_table(settings, NAMES[:1] if quick else NAMES)
    print("\nOur peak memory as the length grows, (1, n, 256), MiB.\n")
    print(row("n", "forward", "forward + backward"), row("--:", "--:", "--:"), sep="\n")
    for n in lengths:
        print(row(n, *(f"{memory(OURS, (1, n, 256), backward):.0f}" for backward in (False, True))),
              flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
