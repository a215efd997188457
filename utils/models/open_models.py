"""Open models of 2024 to 2026: what each changes in the one equation, and what it caches.

A row is checked at two places: ``source`` is the code that says what the attention does, and
``released`` a stored copy, of the day ``copied``, of the configuration that was released with the
model's parameters. The tests compare the row with the copy. (The defaults of a class of
transformers need not be those of a model.)
"""

from typing import NamedTuple

from ..attention.long_context import temperature
from . import published

CODE = "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/"
# Repositories that store copies of the released files, at one commit.
MANY = ("https://github.com/hlky/dinoml_v2/blob/6b8c0acb3a19f77188401b57db6e403aa92534f3/agents/"
        "plans/transformers/")
GEMMAS = ("https://github.com/sgl-project/ome/blob/17b77edad23bae262e0c9adb7f12039397a5d33d/pkg/"
          "hfutil/modelconfig/testdata/")


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
    ``share`` of the dimensions of q and k is rotated; every ``nope``-th layer has no positions.

    ``qk_norm`` is over one "head", over the whole "width", or over the "latents"; ``gain`` is "γ",
    "1 + γ" or "none". ``after_rope``: it follows RoPE. ``softcap`` and ``scale`` act on the scores;
    ``scale`` None = 1 / sqrt(d). ``extras`` names what is left.
    """

    name: str
    source: str
    released: str
    copied: str
    layers: int
    heads: int
    kv_heads: int
    d_head: int
    pairs: str
    base: float
    share: float = 1.0
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


def _code(model, kind="modeling"):
    return f"{CODE}{model}/{kind}_{model}.py"


_GPT_OSS = {"heads": 64, "kv_heads": 8, "d_head": 64, "pairs": "halves", "base": 150_000,
            "scaling": "YaRN × 32", "window": 128, "reach": "window", "extras": ("sink", "biases")}
_LATENT = {"pairs": "interleaved", "latent": 512 + 64, "qk_norm": "latents", "gain": "γ"}
# YaRN's factor is not in its cosines and sines, but twice in the scale of the scores.
_DEEPSEEK = {"layers": 61, "heads": 128, "kv_heads": 128, "d_head": 192, "base": 10_000,
             "share": 64 / 192, "scaling": "YaRN × 40",
             "scale": temperature(40) ** 2 * 192 ** -0.5, **_LATENT}
_OF_YARN = ("YaRN's factor in the scale",)

MODELS = {model.name: model for model in (
    OpenModel("Gemma 2 9B", _code("gemma2"),
              GEMMAS + "gemma_2_9b.json", "2025-12-22",
              42, 16, 8, 256, "halves", 10_000, local=21, window=4096, reach="window",
              softcap=50.0),
    OpenModel("Gemma 3 27B", _code("gemma3"),
              GEMMAS + "gemma3.json", "2025-12-22",
              62, 32, 16, 128, "halves", 1e6, local_base=10_000, scaling="linear × 8",
              qk_norm="head", gain="1 + γ", local=52, window=1024, reach="window",
              scale=168 ** -0.5, extras=("scaling in full layers only",)),
    OpenModel("Gemma 4 31B", _code("gemma4"),
              MANY + "gemma4/_sources/google_gemma-4-31B__config.json", "2026-05-14",
              60, 32, 16, 256, "halves", 1e6, 0.25, 10_000, scaling="proportional",
              qk_norm="head", gain="γ", local=50, window=1024, reach="window", full_kv_heads=4,
              full_d_head=512, scale=1.0,
              extras=("values normalised", "one projection for k and v in full layers",
                      "share and scaling in full layers only")),
    OpenModel("Llama 4 Scout", _code("llama4"),
              "https://github.com/inference-sim/inference-sim/blob/59649ee4320aa98bbc5607a84df1f09f1e80"
              "eedf/model_configs/llama-4-scout-17b-16e-instruct/config.json", "2026-04-10",
              48, 40, 8, 128, "interleaved", 500_000, scaling="Llama 3.1", nope=4, qk_norm="head",
              after_rope=True, local=36, window=8192, reach="chunk",
              extras=("temperature", "QK-norm with RoPE only")),
    OpenModel("Qwen3 8B", _code("qwen3"),
              MANY + "qwen3/_sources/Qwen__Qwen3-8B.config.json", "2026-05-14",
              36, 32, 8, 128, "halves", 1e6, qk_norm="head", gain="γ"),
    OpenModel("Qwen3-Next 80B", _code("qwen3_next"),
              MANY + "qwen3_next/_sources/Qwen__Qwen3-Next-80B-A3B-Instruct.config.json",
              "2026-05-14",
              48, 16, 2, 256, "halves", 1e7, 0.25, qk_norm="head", gain="1 + γ", linear=36,
              extras=("output gate",)),
    OpenModel("gpt-oss 20B", _code("gpt_oss"),
              MANY + "gpt_oss/_sources/openai_gpt-oss-20b_config.json", "2026-05-14",
              24, local=12, **_GPT_OSS),
    OpenModel("gpt-oss 120B", _code("gpt_oss"),
              MANY + "gpt_oss/_sources/openai_gpt-oss-120b_config.json", "2026-05-14",
              36, local=18, **_GPT_OSS),
    OpenModel("OLMo 3 7B", _code("olmo3"),
              MANY + "olmo3/_sources/hf_config_snapshots.md", "2026-05-13",
              32, 32, 32, 128, "halves", 500_000, local_base=500_000, scaling="YaRN × 8",
              qk_norm="width", gain="γ", local=24, window=4096, reach="window",
              extras=("scaling in full layers only",)),
    OpenModel("MiniMax-M2", _code("minimax_m2"),
              MANY + "minimax_m2/MiniMaxAI__MiniMax-M2_config.json", "2026-05-14",
              62, 48, 8, 128, "halves", 5e6, 0.5, qk_norm="width", gain="γ"),
    OpenModel("SmolLM3 3B", _code("smollm3"),
              MANY + "smollm3/report.md", "2026-05-14",
              36, 16, 4, 128, "halves", 5e6, nope=4),
    OpenModel("DeepSeek-V3", _code("deepseek_v3"),
              MANY + "deepseek_v3/_sources/deepseek-ai__DeepSeek-V3.config.json", "2026-05-14",
              extras=_OF_YARN, **_DEEPSEEK),
    OpenModel("DeepSeek-V3.2", _code("deepseek_v32"),
              MANY + "deepseek_v3/_sources/deepseek-ai__DeepSeek-V3.2.config.json", "2026-05-14",
              top=2048, indexer=128, extras=(*_OF_YARN, "64 heads choose, rotated in halves"),
              **_DEEPSEEK),
    OpenModel("GLM-5.1", _code("glm_moe_dsa"),
              MANY + "glm_moe_dsa/_sources/hf_config_zai-org_GLM-5.1_main.json", "2026-05-14",
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
