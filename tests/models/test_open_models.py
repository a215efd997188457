"""The table of open models: arithmetic by hand, and the configurations that were released."""

import json
import math
from pathlib import Path

import pytest
import transformers
from exact import raises
from transformers.models.llama4.configuration_llama4 import Llama4TextConfig

from utils.models.open_models import MODELS, OpenModel, bytes_per_token, cache_bytes, parts, rows

KIB = 1024
PLAIN = OpenModel("plain", "", "", "", 5, 6, 2, 8, "halves", 10_000)


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
    assert model.source.startswith("https://github.com/huggingface/transformers/blob/v")


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


# --- the released files, of which stored copies were read

RELEASED = json.loads(Path(__file__).with_name("released.json").read_text("utf-8"))
# What a released file leaves to the code. These columns are compared with transformers below, or
# with its modeling code in the tests of the attention of each model.
OF_THE_CODE = {"pairs", "gain", "after_rope", "extras", "name", "source", "released", "copied",
               "local_base"}
SCALINGS = {"yarn": "YaRN × {factor:g}", "linear": "linear × {factor:g}", "llama3": "Llama 3.1",
            "proportional": "proportional", "default": "none"}


def columns(told):
    """Return {column: value} of all that the fields of a released file decide."""
    rope = told.get("rope_parameters") or {}
    everywhere = rope.get("full_attention", rope) | (told.get("rope_scaling") or {})
    kind = everywhere.get("rope_type") or everywhere.get("type") or "default"
    found = {"layers": told["num_hidden_layers"], "heads": told["num_attention_heads"],
             "kv_heads": told["num_key_value_heads"],
             "scaling": SCALINGS[kind].format(**everywhere),
             "softcap": told.get("attn_logit_softcapping")}
    latent = "kv_lora_rank" in told
    own = told["hidden_size"] // told["num_attention_heads"]
    rotated = told.get("qk_rope_head_dim", 0)
    found["d_head"] = (told["qk_nope_head_dim"] + rotated if latent else
                       told.get("head_dim", own))
    if "rope_theta" in told or "rope_theta" in everywhere:
        found["base"] = told.get("rope_theta", everywhere.get("rope_theta"))
    if "sliding_attention" in rope:
        found["local_base"] = rope["sliding_attention"]["rope_theta"]
    part = told.get("partial_rotary_factor", everywhere.get("partial_rotary_factor", 1.0))
    found["share"] = told["rotary_dim"] / told["head_dim"] if "rotary_dim" in told else part
    scalar = told.get("query_pre_attn_scalar", found["d_head"])
    found["scale"] = None if scalar == found["d_head"] else scalar ** -0.5
    if latent:
        found |= {"latent": told["kv_lora_rank"] + rotated, "share": rotated / found["d_head"],
                  "top": told.get("index_topk"), "indexer": told.get("index_head_dim", 0)}
        factor = everywhere.get("mscale_all_dim", 0) * 0.1 * math.log(
            everywhere.get("factor", 1)) + 1
        found["scale"] = None if factor == 1 else factor ** 2 * found["d_head"] ** -0.5
    if "layer_types" in told:
        found |= {"local": told["layer_types"].get("sliding_attention", 0)}
    if "full_attention_interval" in told:
        found["linear"] = found["layers"] - found["layers"] // told["full_attention_interval"]
    if "sliding_window" in told or "attention_chunk_size" in told:
        found["window"] = told.get("sliding_window", told.get("attention_chunk_size"))
        found["reach"] = "window" if "sliding_window" in told else "chunk"
    if "global_head_dim" in told:
        found |= {"full_d_head": told["global_head_dim"],
                  "full_kv_heads": told["num_global_key_value_heads"]}
    if "no_rope_layers" in told:
        found["nope"] = told["no_rope_layers"].index(0) + 1
        assert told["no_rope_layers"] == [
            int((n + 1) % found["nope"] != 0) for n in range(found["layers"])]
    if told.get("qk_norm_type") == "per_layer":
        found["qk_norm"] = "width"
    return found


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_row_is_what_the_released_file_says(model):
    told = columns(RELEASED[model.name]["fields"])
    ours = {column: getattr(model, column) for column in told}
    if model.name == "Gemma 4 31B":  # 1, whatever the width of a head; its code says so
        del ours["scale"], told["scale"]
    assert ours == pytest.approx(told)
    assert (model.released, model.copied) == (
        RELEASED[model.name]["copy"], RELEASED[model.name]["date"])


def test_every_row_has_a_file_and_a_whole_one_has_its_hash():
    assert {*RELEASED} == {*MODELS}
    assert [name for name, one in RELEASED.items() if not one["whole"]] == [
        "OLMo 3 7B", "SmolLM3 3B"]
    assert all((len(one["sha256"]) == 64) == one["whole"] for one in RELEASED.values())


def test_a_released_file_decides_what_is_no_matter_of_code():
    undecided = {name: {*OpenModel._fields} - {*columns(one["fields"])} - OF_THE_CODE
                 for name, one in RELEASED.items()}
    assert undecided["Gemma 3 27B"] >= {"base", "local"}  # class defaults; see below
    assert "local" in undecided["Gemma 2 9B"]
    assert "nope" in undecided["Llama 4 Scout"]
    assert not any("base" in columns for name, columns in undecided.items()
                   if name != "Gemma 3 27B")


def test_what_the_files_of_gemma_and_llama_leave_out_is_in_their_classes():
    for name, kind in (("Gemma 2 9B", transformers.Gemma2Config),
                       ("Gemma 3 27B", transformers.Gemma3TextConfig)):
        told = kind(num_hidden_layers=MODELS[name].layers).layer_types
        assert told.count("sliding_attention") == MODELS[name].local
    gemma, told = MODELS["Gemma 3 27B"], transformers.Gemma3TextConfig().rope_parameters
    assert (told["full_attention"]["rope_theta"], told["sliding_attention"]["rope_theta"]) == (
        gemma.base, gemma.local_base)
    llama, told = MODELS["Llama 4 Scout"], Llama4TextConfig()
    assert told.layer_types.count("chunked_attention") == llama.local
    assert [n + 1 for n, has in enumerate(told.no_rope_layers) if not has] == [
        *range(llama.nope, llama.layers + 1, llama.nope)]
