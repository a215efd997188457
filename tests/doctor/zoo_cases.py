"""The standard cases: what each program of the zoo is asked, and what it should have answered.

``answers(specimen, program, seed)`` yields, per case, (name, difference, tolerance). Nothing of the
program's own mask or layout is used, only its level, framework and options.
"""

import sys

import numpy as np

from utils import checks, masks, reference, sizes

EXACT = 1e-12
SIZES = {"teaching": {},
         "wide": {"batch": 3, "heads": 2, "n_q": 4, "n_k": 8, "d_head": 6, "d_v": 5}}


def difference(got, expected):
    """Return ``checks.difference``; infinite for another shape or a NaN in only one array."""
    if np.shape(checks.to_numpy(got)) != np.shape(expected):
        return np.inf
    return float(np.nan_to_num(checks.difference(got, expected), nan=np.inf))


def given(framework, x):
    """Return a copy of an array as the framework has it, None as None."""
    if x is None or framework == "numpy":
        return None if x is None else np.array(x)
    module = sys.modules[framework]
    return module.tensor(x) if framework == "torch" else module.constant(x)


def answers(specimen, program, seed):
    """Yield (case, difference, tolerance) of a program for all cases of the specimen's level."""
    return LEVELS[specimen.level](specimen, program, seed)


# --- kernels: f(q, k, v, keep) -> context or (context, weights)

def kernel_inputs(options, seed):
    """Yield (name, q, k, v, keep), of sizes that the options allow."""
    rng = np.random.default_rng([seed, 1])
    shapes = SIZES
    if options.get("align"):
        shapes = {**SIZES, "more queries": {"n_q": 7, "n_k": 5}, "square": {"n_q": 6, "n_k": 6}}
    for name, shape in shapes.items():
        shape = dict(shape)
        if options.get("square") or (options.get("causal") and not options.get("align")):
            shape["n_q"] = shape.get("n_k", sizes.N_K)
        if options.get("equal_features"):
            shape["d_v"] = shape.get("d_head", sizes.D_HEAD)
        if options.get("grouped"):
            shape |= {"heads": 6, "kv_heads": 2}
        q, k, v = sizes.qkv(seed, **shape)
        n_k, full = k.shape[2], (*q.shape[:3], k.shape[2])
        padding = masks.padding(sizes.lengths(seed, batch=q.shape[0], n_k=n_k), n_k)
        some = rng.random(full) < 0.7
        some[..., 0] = True
        empty = np.broadcast_to(padding, full) & (np.arange(full[2]) != 1)[:, None]
        yield f"{name}, all", q, k, v, None
        yield f"{name}, padding", q, k, v, padding
        yield f"{name}, a mask per head", q, k, v, some
        yield f"{name}, one mask for all", q, k, v, some[0, 0]
        yield f"{name}, an empty row", q, k, v, empty
        yield f"{name}, large scores", 30 * q, k, v, padding


def kernel_answers(specimen, program, seed):
    """Ask for context and weights; a row without a key is as the options promise."""
    for name, q, k, v, keep in kernel_inputs(specimen.options, seed):
        inputs = [given(specimen.framework, x) for x in (q, k, v, keep)]
        out = program(*inputs)
        context, weights = out if isinstance(out, tuple) else (out, None)
        seen = np.broadcast_to(True if keep is None else keep, (*q.shape[:3], k.shape[2]))
        if specimen.options.get("causal"):
            seen = seen & masks.causal(q.shape[2], k.shape[2], specimen.options.get("align")
                                       if q.shape[2] != k.shape[2] else None)
        filled = seen.any(axis=-1)
        expected = reference.attention(q, k, v, seen)
        for part, got, right in zip(("context", "weights"), (context, weights), expected,
                                    strict=True):
            if got is not None and tuple(got.shape) == right.shape:
                got = checks.to_numpy(got)
                yield f"{name}: {part}", difference(got[filled], right[filled]), EXACT
                right = of_empty_rows(specimen.options, q, k, v)[part == "weights"]
                # A score keeps nine digits next to -1e9.
                yield (f"{name}: {part} of empty rows",
                       difference(got[~filled], right[~filled]), 1e-6)
            elif got is not None:
                yield f"{name}: shape of the {part}", np.inf, EXACT
        yield from untouched(name, inputs, (q, k, v, keep))


def of_empty_rows(options, q, k, v):
    """Return (context, weights) of queries that may attend to nothing, as the options say."""
    choice = options.get("fully_masked", "zeros")
    if choice == "unmasked":
        return reference.attention(q, k, v)
    context, weights = reference.attention(0 * q, k, v)  # equal scores: the average
    constant = {"zeros": 0.0, "nan": np.nan, "average": 1.0}[choice]
    return (context, weights) if choice == "average" else (context * constant, weights * constant)


def untouched(name, inputs, originals):
    """Yield how much a program has changed its inputs."""
    for letter, after, before in zip(("q", "k", "v", "keep"), inputs, originals, strict=False):
        if before is not None:
            yield f"{name}: {letter} afterwards", difference(after, before), 0.0


# --- decoding: f(q, k, v, cache) -> (context, cache), a chunk at a time

CHUNKS = {"at once": (7,), "one by one": (1,) * 7, "prompt, then one by one": (4, 1, 1, 1),
          "in twos": (2, 2, 2, 1), "growing": (1, 2, 4)}


def decoding_answers(specimen, program, seed):
    """Feed seven positions in chunks of several sizes; expect one causal pass."""
    for shape, (name, chunks) in ((shape, c) for shape in SIZES.values() for c in CHUNKS.items()):
        q, k, v = sizes.qkv(seed, **{**shape, "n_q": 7, "n_k": 7})
        cache, contexts, ends = None, [], np.cumsum(chunks)
        for start, end in zip(ends - chunks, ends, strict=True):
            originals = [x[:, :, start:end] for x in (q, k, v)]
            inputs = [given(specimen.framework, x) for x in originals]
            context, cache = program(*inputs, cache)
            contexts.append(checks.to_numpy(context))
            yield from untouched(name, inputs, originals)
        expected, _ = reference.attention(q, k, v, masks.causal(7))
        yield name, difference(np.concatenate(contexts, axis=2), expected), EXACT


LEVELS = {"kernel": kernel_answers, "decoding": decoding_answers}
