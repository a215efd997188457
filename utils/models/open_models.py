"""Open models of 2024 to 2026: what each changes in the one equation, and what it caches.

A row is checked at two places: ``source`` is the code that says what the attention does, and
``sizes`` the file that says how large this model is. Where one file says both, they are equal.
"""

from typing import NamedTuple

from . import published

CODE = "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/"
SIZES = "https://github.com/AI-Hypercomputer/maxtext/blob/{}/src/maxtext/configs/models/{}.yml"
FIRST = "5505348a42500a40234286f360e3af6a062dcc08"  # a commit of maxtext that holds many of them
GEMMA = ("https://github.com/google-deepmind/gemma/blob/9fec24caa4890f34d78f8fb75f640127b735537b/"
         "gemma/gm/nn/_gemma.py")


class OpenModel(NamedTuple):
    """One model. "none" and None = the model does not have it.

    Layers: ``local`` of the ``layers`` attend to ``window`` tokens only, which are the last ones
    (``reach`` "window") or those of one chunk ("chunk"). ``linear`` layers have a state of fixed
    size instead of a cache. All other layers attend to all tokens or, with ``top``, to that many,
    chosen by an indexer which caches ``indexer`` elements for each token and layer.

    Cache: ``kv_heads`` heads of ``d_head`` elements for k and for v. ``full_kv_heads`` and
    ``full_d_head`` are those of the layers that are not local, where they differ. ``latent``
    elements are cached instead of k and v.

    Positions: ``pairs`` "halves" or "interleaved", ``base``, and ``local_base`` in local layers;
    ``share`` of the dimensions of q and k is rotated (None = the sources do not say); every
    ``nope``-th layer has no positions.

    ``qk_norm`` is over one "head", over the whole "width", or over the "latents"; ``gain`` is "γ",
    "1 + γ" or "none". ``after_rope``: it follows RoPE. ``softcap`` and ``scale`` act on the scores;
    ``scale`` None = 1 / sqrt(d). ``extras`` names what is left.
    """

    name: str
    source: str
    sizes: str
    layers: int
    heads: int
    kv_heads: int
    d_head: int
    pairs: str
    base: float
    share: float | None = 1.0
    local_base: float | None = None
    scaling: str = "none"
    nope: int | None = None
    qk_norm: str = "none"
    gain: str = "none"
    after_rope: bool = False
    local: int = 0
    window: int | None = None
    reach: str = "none"
    linear: int = 0
    full_kv_heads: int | None = None
    full_d_head: int | None = None
    latent: int | None = None
    top: int | None = None
    indexer: int = 0
    softcap: float | None = None
    scale: float | None = None
    extras: tuple = ()


def _maxtext(name, commit=FIRST):
    return SIZES.format(commit, name)


def _code(model, kind="modeling"):
    return f"{CODE}{model}/{kind}_{model}.py"


_GPT_OSS = {"heads": 64, "kv_heads": 8, "d_head": 64, "pairs": "halves", "base": 150_000,
            "scaling": "YaRN × 32", "window": 128, "reach": "window", "extras": ("sink", "biases")}
_LATENT = {"pairs": "interleaved", "latent": 512 + 64, "qk_norm": "latents", "gain": "γ"}
_DEEPSEEK = {"layers": 61, "heads": 128, "kv_heads": 128, "d_head": 192, "base": 10_000,
             "share": 64 / 192, "scaling": "YaRN × 40", **_LATENT}

MODELS = {model.name: model for model in (
    OpenModel("Gemma 2 9B", _code("gemma2"), GEMMA,
              42, 16, 8, 256, "halves", 10_000, local=21, window=4096, reach="window",
              softcap=50.0),
    OpenModel("Gemma 3 27B", _code("gemma3"), GEMMA,
              62, 32, 16, 128, "halves", 1e6, local_base=10_000, scaling="linear × 8",
              qk_norm="head", gain="1 + γ", local=52, window=1024, reach="window",
              scale=168 ** -0.5, extras=("scaling in full layers only",)),
    OpenModel("Gemma 4 31B", _code("gemma4"),
              _maxtext("gemma4-31b", "618517702065e609e12c7772d9fbd4d1e20cf35a"),
              60, 32, 16, 256, "halves", 1e6, 0.25, 10_000, qk_norm="head", gain="γ",
              local=50, window=1024, reach="window", full_kv_heads=4, full_d_head=512, scale=1.0,
              extras=("values normalised", "one projection for k and v in full layers",
                      "share in full layers only")),
    OpenModel("Llama 4 Scout", _code("llama4"), _maxtext("llama4-17b-16e"),
              48, 40, 8, 128, "interleaved", 500_000, scaling="Llama 3.1", nope=4, qk_norm="head",
              after_rope=True, local=36, window=8192, reach="chunk",
              extras=("temperature", "QK-norm with RoPE only")),
    OpenModel("Qwen3 8B", _code("qwen3"), _maxtext("qwen3-8b"),
              36, 32, 8, 128, "halves", 1e6, qk_norm="head", gain="γ"),
    OpenModel("Qwen3-Next 80B", _code("qwen3_next"),
              _maxtext("qwen3-next-80b-a3b", "23be6e4f70a2e249d677d38f1d26ca7db212f291"),
              48, 16, 2, 256, "halves", 1e7, 0.25, qk_norm="head", gain="1 + γ", linear=36,
              extras=("output gate",)),
    OpenModel("gpt-oss 20B", _code("gpt_oss"), _maxtext("gpt-oss-20b"), 24, local=12, **_GPT_OSS),
    OpenModel("gpt-oss 120B", _code("gpt_oss"),
              _maxtext("gpt-oss-120b", "153e5fe1d7971cbd64fecbe84416dc9f1859b473"),
              36, local=18, **_GPT_OSS),
    OpenModel("OLMo 3 7B", _code("olmo3"),
              _maxtext("olmo3-7b", "75264ef1cbe91f8b30e1e2afdffe6dc8d9661d9e"),
              32, 32, 32, 128, "halves", 500_000, local_base=500_000, scaling="YaRN × 8",
              qk_norm="width", gain="γ", local=24, window=4096, reach="window",
              extras=("scaling in full layers only",)),
    OpenModel("MiniMax-M2", _code("minimax_m2"), _code("minimax_m2", "configuration"),
              62, 48, 8, 128, "halves", 5e6, None, qk_norm="width",
              gain="γ"),
    OpenModel("SmolLM3 3B", _code("smollm3"), _code("smollm3", "configuration"),
              36, 16, 4, 128, "halves", 2e6, nope=4),
    OpenModel("DeepSeek-V3", _code("deepseek_v3"), _maxtext("deepseek3-671b"), **_DEEPSEEK),
    OpenModel("DeepSeek-V3.2", _code("deepseek_v32"),
              _maxtext("deepseek3.2-671b", "153e5fe1d7971cbd64fecbe84416dc9f1859b473"),
              top=2048, indexer=128, extras=("64 heads choose, rotated in halves",), **_DEEPSEEK),
    OpenModel("GLM-5.1", _code("glm_moe_dsa"),
              _maxtext("glm5.1-744b", "09ca06af16e99e089dde61a74728f981f2471fe1"),
              78, 64, 64, 256, base=1e6, share=0.25, top=2048, indexer=128,
              extras=("32 heads choose, rotated interleaved",), **_LATENT),
)}


def rows(**conditions):
    """Return the models whose columns meet all ``conditions``, a list.

    A condition is a value, or a function of the value: ``rows(qk_norm="head", local=bool)``. Raises
    TypeError for a column that the table does not have.
    """
    unknown = [name for name in conditions if name not in OpenModel._fields]
    if unknown:
        raise TypeError(f"no column {unknown[0]!r}; there are {', '.join(OpenModel._fields)}")

    def meets(value, condition):
        return bool(condition(value)) if callable(condition) else value == condition

    return [model for model in MODELS.values()
            if all(meets(getattr(model, name), want) for name, want in conditions.items())]


def parts(model):
    """Return the layers that cache tokens, a ``published.Config`` for each kind of them.

    Layers with a state of fixed size are left out. An indexer is a latent of its own. The number of
    parameters is not known here, and 0.
    """
    full = model.layers - model.local - model.linear
    same = {"name": model.name, "source": model.source, "weights": 0, "heads": model.heads}
    local = {"kv_heads": model.kv_heads, "d_head": model.d_head, "latent": model.latent}
    wide = {**local, "kv_heads": model.full_kv_heads or model.kv_heads,
            "d_head": model.full_d_head or model.d_head}
    found = [published.Config(**same, **wide, layers=full)]
    if model.local:
        found.append(published.Config(**same, **local, layers=model.local, window=model.window,
                                      windowed=model.local))
    if model.indexer:
        found.append(published.Config(**same, kv_heads=1, d_head=model.indexer, layers=full,
                                      latent=model.indexer))
    return found


def bytes_per_token(model, width=2):
    """Return the bytes that all layers cache for one token, with ``width`` bytes per element."""
    return sum(published.bytes_per_token(part, width) for part in parts(model))


def cache_bytes(model, tokens, width=2):
    """Return the bytes cached for ``tokens`` tokens, with ``width`` bytes per element.

    A local layer caches at most ``window`` tokens, also if its tokens are those of one chunk. The
    states of linear layers are not counted: they do not grow.
    """
    return sum(published.cache_bytes(part, tokens, width) for part in parts(model))
