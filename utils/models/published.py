"""The sizes of published models: their caches, and their parameters.

The shapes are from the papers named; the numbers of parameters are as published, in billions,
rounded. All of these models use 16 bits for both, unless they are quantised.
"""

from typing import NamedTuple


class Config(NamedTuple):
    """One model: its number of parameters, ``weights``, in billions, and its attention.

    ``windowed`` layers attend to ``window`` tokens, including the query's own; the other layers
    attend to all. ``latent`` is the number of elements cached per token and layer instead of keys
    and values.
    """

    name: str
    source: str
    weights: float
    layers: int
    heads: int
    kv_heads: int
    d_head: int
    window: int | None = None
    windowed: int = 0
    latent: int | None = None


MODELS = {config.name: config for config in (
    Config("GPT-3 175B", "https://arxiv.org/abs/2005.14165", 175, 96, 96, 96, 128),
    Config("Llama 2 7B", "https://arxiv.org/abs/2307.09288", 6.7, 32, 32, 32, 128),
    Config("Llama 2 70B", "https://arxiv.org/abs/2307.09288", 69, 80, 64, 8, 128),
    Config("Llama 3 8B", "https://arxiv.org/abs/2407.21783", 8.0, 32, 32, 8, 128),
    Config("Llama 3 405B", "https://arxiv.org/abs/2407.21783", 405, 126, 128, 8, 128),
    Config("Mistral 7B", "https://arxiv.org/abs/2310.06825", 7.2, 32, 32, 8, 128, 4096, 32),
    Config("Falcon 7B", "https://arxiv.org/abs/2311.16867", 7.2, 32, 71, 1, 64),
    Config("Gemma 2 9B", "https://arxiv.org/abs/2408.00118", 9.2, 42, 16, 8, 256, 4096, 21),
    Config("DeepSeek-V2", "https://arxiv.org/abs/2405.04434", 236, 60, 128, 128, 128,
           latent=512 + 64),
)}


def bytes_per_token(config, width=2):
    """Return the bytes that all layers cache for one token, with ``width`` bytes per element."""
    numbers = 2 * config.kv_heads * config.d_head if config.latent is None else config.latent
    return config.layers * numbers * width


def cache_bytes(config, tokens, width=2):
    """Return the bytes cached for ``tokens`` tokens, with ``width`` bytes per element.

    A layer with a window caches at most ``window`` tokens.
    """
    per_layer = bytes_per_token(config, width) // config.layers
    seen = tokens if config.window is None else min(tokens, config.window)
    return per_layer * ((config.layers - config.windowed) * tokens + config.windowed * seen)


def outweighs(config, width=2):
    """Return for how many tokens the cache is as large as the parameters; None = for no number."""
    weights = config.weights * 1e9 * width
    per_layer = bytes_per_token(config, width) // config.layers
    full = config.layers - config.windowed
    in_windows = per_layer * config.windowed * (config.window or 0)
    if weights <= cache_bytes(config, config.window or 0, width):
        return weights / bytes_per_token(config, width)
    return (weights - in_windows) / (per_layer * full) if full else None
