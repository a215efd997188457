"""The table of open models: arithmetic by hand, and the configurations of transformers."""

from collections import Counter

import pytest
import transformers
from exact import raises
from transformers.models.llama4.configuration_llama4 import Llama4TextConfig

from utils.models.open_models import MODELS, OpenModel, bytes_per_token, cache_bytes, parts, rows

KIB = 1024
PLAIN = OpenModel("plain", "", "", 5, 6, 2, 8, "halves", 10_000)


@pytest.mark.parametrize(("model", "numbers"), [
    (PLAIN, 5 * 2 * 2 * 8),                                    # layers, k and v, heads, dimensions
    (PLAIN._replace(latent=20), 5 * 20),
    (PLAIN._replace(local=3, window=4, reach="window"), 5 * 2 * 2 * 8),
    (PLAIN._replace(linear=4), 1 * 2 * 2 * 8),
    (PLAIN._replace(nope=4), 5 * 2 * 2 * 8),                   # no positions: k and v as before
    (PLAIN._replace(latent=20, indexer=7, top=3), 5 * (20 + 7)),
    (PLAIN._replace(local=3, window=4, full_kv_heads=1, full_d_head=32),
     3 * 2 * 2 * 8 + 2 * 2 * 1 * 32),
])
def test_bytes_of_a_token_by_hand(model, numbers):
    assert bytes_per_token(model) == 2 * numbers
    assert bytes_per_token(model, width=4) == 4 * numbers
    assert cache_bytes(model, 4) == 4 * 2 * numbers  # no window is full yet


@pytest.mark.parametrize("reach", ["window", "chunk"])
@pytest.mark.parametrize("tokens", [1, 3, 4, 5, 100])
def test_a_local_layer_stops_growing(reach, tokens):
    model = PLAIN._replace(local=3, window=4, reach=reach, full_kv_heads=1, full_d_head=32)
    by_hand = sum(2 * 2 * heads * d for _ in range(tokens) for heads, d in [(1, 32)] * 2)
    by_hand += sum(2 * 2 * 2 * 8 for token in range(tokens) if tokens - token <= 4 for _ in "123")
    assert cache_bytes(model, tokens) == by_hand


def test_only_an_indexer_reads_all_tokens_again():
    model = PLAIN._replace(latent=20, indexer=7, top=3)
    assert cache_bytes(model, 1000) == 1000 * 2 * 5 * 27  # what is not chosen is kept all the same


@pytest.mark.parametrize(("name", "kib", "long"), [
    ("Gemma 2 9B", 336, 168 * 131072 + 168 * 4096),
    ("Gemma 3 27B", 496, 80 * 131072 + 416 * 1024),
    ("Gemma 4 31B", 880, 80 * 131072 + 800 * 1024),
    ("Llama 4 Scout", 192, 48 * 131072 + 144 * 8192),
    ("Qwen3 8B", 144, 144 * 131072),
    ("Qwen3-Next 80B", 24, 24 * 131072),
    ("gpt-oss 20B", 48, 24 * 131072 + 24 * 128),
    ("gpt-oss 120B", 72, 36 * 131072 + 36 * 128),
    ("OLMo 3 7B", 512, 128 * 131072 + 384 * 4096),
    ("MiniMax-M2", 248, 248 * 131072),
    ("SmolLM3 3B", 72, 72 * 131072),
    ("DeepSeek-V3", 68.625, 68.625 * 131072),
    ("DeepSeek-V3.2", 83.875, 83.875 * 131072),
    ("GLM-5.1", 107.25, 107.25 * 131072),
])
def test_the_cache_of_each_model(name, kib, long):
    assert bytes_per_token(MODELS[name]) == kib * KIB
    assert cache_bytes(MODELS[name], 131072) == long * KIB


def test_all_models_have_a_number_in_the_test_above():
    tested = test_the_cache_of_each_model.pytestmark[0].args[1]
    assert [name for name, *_ in tested] == list(MODELS)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_columns_fit_each_other(model):
    assert model.heads % model.kv_heads == 0
    assert model.heads % (model.full_kv_heads or 1) == 0
    assert (model.window is None) == (model.local == 0) == (model.reach == "none")
    assert (model.top is None) == (model.indexer == 0)
    assert (model.gain == "none") or model.qk_norm != "none"
    assert model.local + model.linear < model.layers
    assert sum(part.layers for part in parts(model) if part.latent is None
               or part.latent == model.latent) == model.layers - model.linear
    for address in (model.source, model.sizes):
        assert address.startswith("https://github.com/")
        assert address.endswith((".py", ".yml"))
        assert "{" not in address


def test_rows_are_filtered_by_value_and_by_a_function():
    assert [model.name for model in rows(qk_norm="width")] == ["OLMo 3 7B", "MiniMax-M2"]
    assert [model.name for model in rows(nope=4, local=0)] == ["SmolLM3 3B"]
    assert [model.name for model in rows(extras=lambda told: "sink" in told)] == [
        "gpt-oss 20B", "gpt-oss 120B"]
    assert [model.name for model in rows(softcap=bool)] == ["Gemma 2 9B"]
    assert rows() == list(MODELS.values())
    assert rows(name="no such model") == []


def test_an_unknown_column_is_refused():
    with raises(TypeError, f"no column 'norm'; there are {', '.join(OpenModel._fields)}"):
        rows(norm="head")


# --- configuration classes whose defaults are a row

CONFIGURATIONS = {
    "Llama 4 Scout": Llama4TextConfig, "Qwen3-Next 80B": transformers.Qwen3NextConfig,
    "gpt-oss 120B": transformers.GptOssConfig, "OLMo 3 7B": transformers.Olmo3Config,
    "MiniMax-M2": transformers.MiniMaxM2Config, "SmolLM3 3B": transformers.SmolLM3Config,
    "DeepSeek-V3": transformers.DeepseekV3Config, "DeepSeek-V3.2": transformers.DeepseekV32Config,
    "GLM-5.1": transformers.GlmMoeDsaConfig,
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_sizes_are_those_of_transformers(name):
    model, config = MODELS[name], CONFIGURATIONS[name]()
    assert (model.layers, model.heads, model.kv_heads) == (
        config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads)
    if model.latent:
        assert model.latent == config.kv_lora_rank + config.qk_rope_head_dim
        assert model.d_head == config.qk_head_dim
        assert model.share == config.qk_rope_head_dim / config.qk_head_dim
    else:
        own = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        assert model.d_head == own
    if model.indexer:
        assert (model.indexer, model.top) == (config.index_head_dim, config.index_topk)
        assert model.extras[0].startswith(f"{config.index_n_heads} heads")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_kinds_of_layers_are_those_of_transformers(name):
    model, config = MODELS[name], CONFIGURATIONS[name]()
    kinds = Counter(getattr(config, "layer_types", None) or [])
    local = {"chunk": "chunked_attention", "window": "sliding_attention"}.get(model.reach)
    assert model.local == kinds.get(local, 0)
    assert model.linear == kinds["linear_attention"]
    if model.local:
        window = config.attention_chunk_size if model.reach == "chunk" else config.sliding_window
        assert model.window == window
    rotated = getattr(config, "no_rope_layers", [1] * model.layers)
    assert [n + 1 for n, has in enumerate(rotated) if not has] == (
        list(range(model.nope, model.layers + 1, model.nope)) if model.nope else [])


@pytest.mark.parametrize("name", ["Llama 4 Scout", "gpt-oss 120B", "OLMo 3 7B", "MiniMax-M2",
                                  "SmolLM3 3B", "DeepSeek-V3", "DeepSeek-V3.2"])
def test_the_bases_are_those_of_transformers(name):
    model, told = MODELS[name], CONFIGURATIONS[name]().rope_parameters
    if model.local_base:
        assert told["sliding_attention"]["rope_theta"] == model.local_base
        told = told["full_attention"]
    assert told["rope_theta"] == model.base


def test_gemma_and_qwen_next_tell_the_share_that_is_rotated():
    qwen, gemma = MODELS["Qwen3-Next 80B"], MODELS["Gemma 4 31B"]
    assert transformers.Qwen3NextConfig().rope_parameters["partial_rotary_factor"] == qwen.share
    told = transformers.Gemma4TextConfig().rope_parameters
    assert told["full_attention"]["partial_rotary_factor"] == gemma.share
    assert (told["full_attention"]["rope_theta"], told["sliding_attention"]["rope_theta"]) == (
        gemma.base, gemma.local_base)


def test_layers_that_are_local_have_the_pattern_of_gemma():
    """Their classes hold the sizes of smaller models, but the pattern is the same for all."""
    for name, kind in (("Gemma 2 9B", transformers.Gemma2Config),
                       ("Gemma 3 27B", transformers.Gemma3TextConfig),
                       ("Gemma 4 31B", transformers.Gemma4TextConfig)):
        model = MODELS[name]
        told = kind(num_hidden_layers=model.layers).layer_types
        assert told.count("sliding_attention") == model.local
    assert transformers.Gemma2Config().attn_logit_softcapping == MODELS["Gemma 2 9B"].softcap
    assert transformers.Gemma3TextConfig().attn_logit_softcapping is None
