"""Heads that share keys, and caches, beside the ways that copy: time, and bytes of new tensors.

Sizes are those of Llama 3.2 1B: 32 heads of 64 features, 8 of them for keys and values. Prompts are
causal. Memory here is what all tensors that a call makes take together, counted exactly.
"""

from functools import partial

from tqdm import tqdm

from scripts import bench_rows

SIZES = {"heads": 32, "kv_heads": 8, "d": 64, "prompt": 2048, "cached": 8192, "window": 256,
         "repeats": 15}
QUICK = {"heads": 4, "kv_heads": 2, "d": 4, "prompt": 16, "cached": 32, "window": 4, "repeats": 2}


def attention_calls(sizes, n_q, n_k, window=None):
    """Return {name: callable} of four ways to attend: ours, and SDPA called by hand."""
    import torch
    import torch.nn.functional as F

    from utils.attention.cache import visible
    from utils.attention.grouped import grouped_attention
    group, d = sizes["heads"] // sizes["kv_heads"], sizes["d"]
    q = torch.randn(1, sizes["heads"], n_q, d)
    k, v = torch.randn(2, 1, sizes["kv_heads"], n_k, d)
    full_k, full_v = (side.repeat_interleave(group, dim=1) for side in (k, v))
    causal, keep = n_q > 1 and window is None, None
    if window:
        keep = visible(torch.arange(n_q), torch.arange(n_k), window)
    sdpa = partial(F.scaled_dot_product_attention, attn_mask=keep, is_causal=causal)
    return {
        "ours": lambda: grouped_attention(q, k, v, keep, causal),
        "enable_gqa by hand": lambda: sdpa(q, k, v, enable_gqa=True),
        "repeat_interleave, SDPA": lambda: sdpa(q, k.repeat_interleave(group, dim=1),
                                                v.repeat_interleave(group, dim=1)),
        "full heads, SDPA": lambda: sdpa(q, full_k, full_v),
    }


def layer_calls(sizes):
    """Return {name: callable} of causal self-attention, with a window and without."""
    import torch

    from utils.attention.cache import CausalAttention
    d_model, x = sizes["heads"] * sizes["d"], None
    x = torch.randn(1, sizes["prompt"], d_model)
    return {f"window of {window}" if window else "no window": partial(
        CausalAttention(d_model, sizes["heads"], window), x)
        for window in (None, sizes["window"])}


def decoding_calls(sizes):
    """Return {name: callable} that read one more token after those cached, and keep it.

    There is room for as many as ``measure`` calls: in each turn, the uncounted one too, twice.
    """
    import torch

    from utils.attention.cache import Cache, CausalAttention, PreallocatedCache
    from utils.attention.grouped import GroupedAttention
    d_model, room = sizes["heads"] * sizes["d"], sizes["cached"] + 2 * sizes["repeats"] + 8
    layers = {"": GroupedAttention(d_model, sizes["heads"], sizes["kv_heads"]),
              ", full heads": CausalAttention(d_model, sizes["heads"])}
    token, calls = torch.randn(1, 1, d_model), {}
    for kind, layer in layers.items():
        heads = sizes["kv_heads"] if not kind else sizes["heads"]
        k, v = torch.randn(2, 1, heads, sizes["cached"], sizes["d"])
        for name, cache in ("Cache", Cache()), ("PreallocatedCache", PreallocatedCache(room)):
            cache.extend(k, v, torch.arange(sizes["cached"]))
            calls[name + kind] = partial(layer, token, cache=cache)
    return calls


def cases(sizes):
    """Return {what: function that makes the calls}."""
    prompt, cached = sizes["prompt"], sizes["cached"]
    return {
        f"prompt of {prompt}": partial(attention_calls, sizes, prompt, prompt),
        f"prompt of {prompt}, window of {sizes['window']}": partial(
            attention_calls, sizes, prompt, prompt, sizes["window"]),
        f"one query, {cached} keys": partial(attention_calls, sizes, 1, cached),
        f"CausalAttention, {prompt} words": partial(layer_calls, sizes),
        f"one more token after {cached}": partial(decoding_calls, sizes),
    }


def measure(sizes, device="cpu"):
    """Return the rows: what is done, by which program, its seconds and the MiB of new tensors."""
    import torch

    from utils.measure.counters import Allocations
    rows = []
    with torch.no_grad():
        for what, make in tqdm(cases(sizes).items(), desc="grouped"):
            with torch.device(device):
                calls = make()
            calls = {name: bench_rows.on_device(lambda call=call: call, device)
                     for name, call in calls.items()}
            seconds = bench_rows.measured(calls, sizes["repeats"])
            for name, call in calls.items():
                with Allocations() as new:
                    call()
                rows.append({"what": what, "program": name, "seconds": seconds[name],
                             "mebibytes": new.bytes / 2**20})
    return rows
