"""The converters read the attention layers of Hugging Face: their outputs are the reference's.

Llama and Falcon are in ``test_shared_heads``, BERT as a whole is in ``tests/models``.
"""

import json

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import save
from transformers.models.bert.modeling_bert import BertAttention
from transformers.models.bloom.modeling_bloom import BloomAttention
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention
from transformers.models.phi3.modeling_phi3 import Phi3Attention

from utils import masks, reference
from utils.checks import difference
from utils.parity import shared_heads, weights

HEADS, E = 6, 24
X = np.random.default_rng(9).normal(size=(2, 5, E))
TX, PAST = torch.as_tensor(X), masks.causal(5)
AHEAD = torch.full((1, 1, 5, 5), -torch.inf, dtype=torch.float64).triu(1)
NO_ROTATION = (torch.ones(1, 5, 4).double(), torch.zeros(1, 5, 4).double())


def drawn(module):
    """Return the module in float64 and evaluation, with random parameters, biases included."""
    for n, p in enumerate(module.parameters()):
        p.data = torch.as_tensor(np.random.default_rng(n).normal(size=p.shape))
    return module.double().eval()


def close(got, W, keep=None):
    want, _ = reference.multi_head_attention(X, X, W, HEADS, keep)
    assert difference(got, want) < 1e-5  # some compute softmax in float32


def test_bert():
    config = transformers.BertConfig(hidden_size=E, num_attention_heads=HEADS,
                                     attn_implementation="eager")
    judge = drawn(BertAttention(config))
    state = {f"attention.{name}": w for name, w in judge.state_dict().items()}
    W = weights.from_linear(state, weights.NAMES["bert"])
    close(judge.output.dense(judge.self(TX)[0]), W)


# Small models with separate q_proj, k_proj and v_proj, and where their first attention layer is.
ONE = {"num_hidden_layers": 1, "vocab_size": 9, "bos_token_id": None, "eos_token_id": None}
HIDDEN = ONE | {"hidden_size": E, "num_attention_heads": HEADS}
BOTH = ONE | {"d_model": E, "encoder_layers": 1, "decoder_layers": 1, "pad_token_id": 0} | {
    f"{half}_{what}": n for half in ("encoder", "decoder")
    for what, n in (("attention_heads", HEADS), ("ffn_dim", 8))}
OUT_PROJ = {
    "OPT": (lambda: transformers.OPTModel(transformers.OPTConfig(
        **HIDDEN, ffn_dim=8, word_embed_proj_dim=E)), "decoder.layers.0.self_attn"),
    "BART": (lambda: transformers.BartModel(transformers.BartConfig(**BOTH)),
             "encoder.layers.0.self_attn"),
    "Whisper": (lambda: transformers.WhisperModel(transformers.WhisperConfig(**BOTH)),
                "encoder.layers.0.self_attn"),
    "CLIP": (lambda: transformers.CLIPTextModel(transformers.CLIPTextConfig(
        **HIDDEN, intermediate_size=8)), "encoder.layers.0.self_attn")}


@pytest.mark.parametrize("name", OUT_PROJ)
def test_the_models_with_out_proj(name):
    make, where = OUT_PROJ[name]
    model = make()
    judge = drawn(model.get_submodule(where))
    state = {key.removeprefix(f"{where}."): p for key, p in model.state_dict().items()
             if key.startswith(f"{where}.")}
    kernels = [key.removesuffix(".weight") for key in state if key.endswith(".weight")]
    assert kernels == ["k_proj", "v_proj", "q_proj", "out_proj"]  # in this order: k before q
    assert ("k_proj.bias" in state) == (name != "Whisper")
    W = weights.from_linear(state, weights.NAMES["bart"])
    close(judge(TX, attention_mask=None if name != "OPT" else torch.zeros(1, 1, 5, 5).double())[0],
          W)
    whole = weights.from_linear(model.state_dict(),
                                [f"{where}.{part}" for part in weights.NAMES["bart"]])
    assert all(np.array_equal(whole[key], W[key]) for key in W)


@pytest.mark.parametrize(("name", "more"), [
    ("Llama", set()), ("Mistral", set()),
    ("Qwen2", {"q_proj.bias", "k_proj.bias", "v_proj.bias"}),
    ("Qwen3", {"q_norm.weight", "k_norm.weight"})])
def test_the_names_of_llama_and_what_others_add(name, more):
    config = getattr(transformers, f"{name}Config")(
        **HIDDEN, num_key_value_heads=2, head_dim=4, intermediate_size=8)
    state = getattr(transformers, f"{name}Model")(config).layers[0].self_attn.state_dict()
    names = {f"{part}.weight" for part in weights.NAMES["llama"]}
    assert {*state} == names | more
    if name != "Qwen3":
        assert shared_heads.to_weight_set(state, HEADS, 2)["W_k"].shape == (E, E)
    else:
        with pytest.raises(ValueError, match=r"there is no place for q_norm.weight, k_norm.weight"):
            shared_heads.to_weight_set(state, HEADS, 2)


def rotations(name, positions, **rope):
    """Return (cos, sin) of a small model, (1, i, d) each."""
    rope = {"rope_parameters": {"rope_theta": 1e4, **rope}} if rope else {}
    config = getattr(transformers, f"{name}Config")(**{**HIDDEN, "intermediate_size": 8,
                                                       "pad_token_id": 0, **rope})
    model = getattr(transformers, f"{name}Model")(config).double()
    return model.rotary_emb(TX[:1], torch.tensor([positions]))


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "GPTNeoX",
                                  "Falcon"])
def test_at_position_0_nothing_is_rotated(name):
    cos, sin = rotations(name, [0, 0, 0])
    assert torch.equal(cos, torch.ones_like(cos))
    assert not sin.any()
    assert not torch.equal(rotations(name, [0, 1, 2])[0], cos)


@pytest.mark.parametrize("form", [
    {"rope_type": "yarn"},
    {"rope_type": "longrope", "short_factor": [1.0] * 2, "long_factor": [2.0] * 2}])
def test_yarn_and_longrope_also_multiply_by_a_constant(form):
    cos, sin = rotations("Llama", [0, 0, 0], factor=4.0, original_max_position_embeddings=32,
                         **form)
    assert cos.unique().numel() == 1
    assert cos[0, 0, 0] > 1.1
    assert not sin.any()


def test_safetensors_sorts_names():
    names = [f"{part}.weight" for part in weights.NAMES["bert"]]
    data = save({name: np.zeros(2) for name in names})
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    assert [*header] == sorted(names) == [names[3], names[1], names[0], names[2]]


def test_gpt2():
    config = transformers.GPT2Config(n_embd=E, n_head=HEADS, attn_implementation="eager")
    judge = drawn(GPT2Attention(config, layer_idx=0))
    parts = ({"w": part.weight, "b": part.bias} for part in (judge.c_attn, judge.c_proj))
    close(judge(TX, attention_mask=AHEAD)[0], weights.from_gpt2(*parts), PAST)


@pytest.mark.parametrize(("make", "prefix"), [("GPT2LMHeadModel", "transformer."),
                                              ("GPT2Model", "")])
def test_the_prefix_of_gpt2(make, prefix):
    config = transformers.GPT2Config(n_embd=E, n_head=HEADS, n_layer=1, vocab_size=9,
                                     bos_token_id=None, eos_token_id=None)
    state = getattr(transformers, make)(config).state_dict()
    for module, width in (("c_attn", 3 * E), ("c_proj", E)):
        assert state[f"{prefix}h.0.attn.{module}.weight"].shape == (E, width)
        assert state[f"{prefix}h.0.attn.{module}.bias"].shape == (width,)


def test_gpt_neox():
    config = transformers.GPTNeoXConfig(hidden_size=E, num_attention_heads=HEADS,
                                        attn_implementation="eager")
    judge = drawn(GPTNeoXAttention(config, 0))
    out = judge(TX, AHEAD, position_embeddings=NO_ROTATION)[0]
    close(out, weights.from_interleaved(judge.state_dict(), HEADS), PAST)


def test_bloom():
    judge = drawn(BloomAttention(transformers.BloomConfig(hidden_size=E, n_head=HEADS), 0))
    out = judge(TX, torch.zeros_like(TX), alibi=torch.zeros(2 * HEADS, 1, 5).double(),
                attention_mask=AHEAD)[0]
    close(out, weights.from_interleaved(judge.state_dict(), HEADS), PAST)


def test_phi_3():
    config = transformers.Phi3Config(hidden_size=E, num_attention_heads=HEADS,
                                     num_key_value_heads=2, pad_token_id=0,
                                     attn_implementation="eager")
    judge = drawn(Phi3Attention(config, 0))
    params = shared_heads.from_fused(judge.state_dict(), HEADS, 2)
    out = judge(TX, position_embeddings=NO_ROTATION, attention_mask=AHEAD)[0]
    close(out, shared_heads.to_weight_set(params, HEADS, 2), PAST)
