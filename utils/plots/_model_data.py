"""Write the parameters of a language model as the live model's worker reads them.

The file is of the format safetensors, in float16: half the bytes of float32, so a page loads it in
half the time. Its metadata holds the vocabulary and the sizes, as JSON under one name.
"""

import hashlib
import json

import numpy as np
from safetensors import numpy as safetensors

from .. import checks

MOST_TOKENS = 128  # the model of `data` was trained on 129: it predicted 128 of them


def packed(state, vocabulary):
    """Return the bytes of the file for a ``LanguageModel``.

    ``state`` is its state dict, {name: array}, ``vocabulary`` a str with a character for each
    token. Raises ValueError for the parameters of another model, or if they are not finite in
    float16.
    """
    arrays = {name: checks.to_numpy(part) for name, part in state.items()}
    about = {"vocabulary": vocabulary, "sizes": _sizes(arrays, len(vocabulary))}
    with np.errstate(over="ignore"):
        halves = {name: part.astype("<f2") for name, part in arrays.items()}
    for name, part in halves.items():
        if not np.isfinite(part).all():
            raise ValueError(f"{name} has elements that are not finite in float16")
    return safetensors.save(halves, {"about": json.dumps(about)})


def configuration(data, text, start):
    """Return what the figure has to know before it has the file ``data``, a dict.

    Raises ValueError for a ``text`` that the model cannot read, or a head that it does not have.
    """
    head = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    about = json.loads(head["__metadata__"]["about"])
    if not 1 <= len(text) <= MOST_TOKENS:
        raise ValueError(f"text must have 1 .. {MOST_TOKENS} characters, got {len(text)}")
    if unknown := sorted(set(text) - set(about["vocabulary"])):
        raise ValueError(f"not in the vocabulary: {', '.join(map(repr, unknown))}")
    layers, heads = about["sizes"]["n_layers"], about["sizes"]["n_heads"]
    layer, head = start
    if not (0 <= layer < layers and 0 <= head < heads):
        raise ValueError(f"start must be (layer, head), at most ({layers - 1}, {heads - 1}), got "
                         f"({layer}, {head})")
    return {"text": text, "layers": layers, "heads": heads, "start": [int(layer), int(head)],
            "longest": MOST_TOKENS, "bytes": len(data), "file": f"_static/{name(data)}"}


def name(data):
    """Return the name that the file has on the site; it changes with what the file holds."""
    return f"live_model.{hashlib.sha256(data).hexdigest()[:8]}.safetensors"


def _sizes(arrays, n_tokens):
    """Return the sizes of the model. Raises ValueError unless it has all its parameters."""
    n_layers = sum(name.endswith(".attention.gain") for name in arrays)
    if "blocks.0.attention.gain" not in arrays or "embedding.weight" not in arrays:
        raise ValueError("state must be the state dict of a LanguageModel, got the parameters "
                         f"{', '.join(sorted(arrays)[:4])}, …")
    n_heads, d = len(arrays["blocks.0.attention.gain"]), arrays["embedding.weight"].shape[-1]
    expected = {"embedding.weight": (n_tokens, d), "unembedding.weight": (n_tokens, d)}
    for layer in range(n_layers):
        for part, shape in (("attention.W_qkv.weight", (3 * d, d)), ("down.weight", (d, 4 * d)),
                            ("attention.W_o.weight", (d, d)), ("up.weight", (4 * d, d)),
                            ("attention.gain", (n_heads, 1, 1))):
            expected[f"blocks.{layer}.{part}"] = shape
    for name in {**expected, **arrays}:
        got = arrays[name].shape if name in arrays else None
        if got != expected.get(name):
            raise ValueError(f"{name} must be {expected.get(name)}, got {got}")
    return {"n_layers": n_layers, "n_heads": n_heads, "d_model": d, "n_tokens": n_tokens}
