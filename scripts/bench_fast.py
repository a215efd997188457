"""The fast path of the course beside its peers: time, and peak memory, in training too.

Self-attention with 8 heads in float32, no mask, the same weights' shapes for all. Forward is
evaluation without gradients; forward + backward gives those of the input and of every weight. What
stores no weights computes them again on the way back: one matrix product in seven more, for memory
that grows with n and not with its square.
"""

from functools import partial

from tqdm import tqdm

from scripts import bench_rows

HEADS = 8
OURS = "ours"
STORES_WEIGHTS = ("naive", "seed style")
# (batch, n, d_model): repeats, the more the shorter they are
SETTINGS = {(8, 128, 256): 30, (8, 512, 512): 15, (1, 2048, 512): 15, (1, 8192, 256): 15}
LENGTHS = (2048, 4096, 8192, 16384)  # for one example of d_model 256: does memory grow linearly?
NAMES = (OURS, "SDPA by hand", "nn.MHA", "nn.MHA, weights", "Keras", *STORES_WEIGHTS)
SIZES = {"settings": [[*setting, repeats] for setting, repeats in SETTINGS.items()],
         "lengths": LENGTHS, "heads": HEADS, "memory": NAMES}
QUICK = {"settings": [[2, 32, 64, 2]], "lengths": (64, 128), "heads": HEADS, "memory": ("ours",)}
TOO_MUCH = 2**30  # bytes in one matrix of weights; programs that store it are left out beyond
PASSES = {False: "forward", True: "forward + backward"}


def torch_programs(d_model):
    """Return {name: (module, call)}: what runs in PyTorch, call(module, x) -> out."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    from utils.attention import torch as torch_attention
    from utils.attention.heads import merge_heads, split_heads

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


def many_weights(setting):
    """Return whether a matrix of weights is beyond all reason."""
    batch, n, _ = setting
    return 4 * batch * HEADS * n * n > TOO_MUCH


def too_large(name, setting):
    """Return whether the program would store such a matrix."""
    return name in STORES_WEIGHTS and many_weights(setting)


def code(name, setting, backward):
    """Return the source of a process that runs the program once."""
    return f"from scripts import bench_fast\nbench_fast.prepared{(name, setting, backward)!r}()"


def mebibytes(runs):
    """Return the MiB that the input of each run adds to the process, or None: not to be seen.

    A run is (name, setting, backward); what is subtracted is a run on a single word.
    """
    codes = [(code(*run), code(run[0], (1, 1, run[1][2]), run[2])) for run in runs]
    at_once = 1 if any(many_weights(setting) for _, setting, _ in runs) else 2
    bench_rows.measure_peaks([source for pair in codes for source in pair], at_once)
    return [bench_rows.added(*pair) for pair in codes]


def row(name, setting, backward, seconds, size):
    """Return what the file says of one program, setting and pass."""
    return {"program": name, **dict(zip(("batch", "n", "d_model"), setting, strict=True)),
            "pass": PASSES[backward], "seconds": seconds, "mebibytes": size}


def at(setting, repeats, backward, wanted, device):
    """Return the rows of one setting and pass; memory is that of the programs ``wanted``."""
    names = [name for name in NAMES if not too_large(name, setting)
             and (device == "cpu" or name != "Keras")]
    calls = {name: bench_rows.on_device(partial(prepared, name, setting, backward), device)
             for name in names}
    seconds = bench_rows.measured(calls, repeats)
    wanted = [name for name in names if name in wanted]
    if device == "cpu":
        sizes = mebibytes([(name, setting, backward) for name in wanted])
    else:
        sizes = [bench_rows.added_on_gpu(calls[name]) for name in wanted]
    sizes = dict.fromkeys(names) | dict(zip(wanted, sizes, strict=True))
    return [row(name, setting, backward, seconds[name], sizes[name]) for name in names]


def measure(sizes, device="cpu"):
    """Return the rows of all settings, and our memory alone as the length grows."""
    rows, steps = [], [(tuple(setting), repeats, backward) for *setting, repeats in
                       sizes["settings"] for backward in PASSES]
    for setting, repeats, backward in tqdm(steps, desc="fast"):
        rows += at(setting, repeats, backward, sizes["memory"], device)
    done = [setting for setting, *_ in steps]
    longer = [(OURS, (1, n, 256), backward) for n in sizes["lengths"] for backward in PASSES
              if device == "cpu" and (1, n, 256) not in done]
    return rows + [row(*run, None, size)
                   for run, size in zip(longer, mebibytes(longer), strict=True)]
