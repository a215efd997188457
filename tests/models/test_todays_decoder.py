"""The decoder from a configuration: what it refuses, its parts, and plain formulas for it."""

import math

import numpy as np
import pytest
import torch
from exact import raises
from torch import nn

from utils import masks, reference
from utils.attention.heads import split_heads
from utils.attention.positions import rotary, rotate
from utils.checks import difference
from utils.checks.decoder import PLACES
from utils.models import configuration, hugging_face, language_model, norms
from utils.models.configuration import Layer, Plan, Rotation
from utils.models.decoder import Attention, Block, Decoder, GatedFeedForward, RMSNorm
from utils.models.experts import Experts
from utils.models.families import AROUND, FAMILIES

CONFIG = {"model_type": "llama", "vocab_size": 19, "hidden_size": 12, "intermediate_size": 20,
          "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3,
          "head_dim": 4, "rope_theta": 50.0}
LLAMA = {**CONFIG, "tie_word_embeddings": False}


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


STATE = hugging_face.random_state(LLAMA)
TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 18]])


# --- plain formulas, in float64 and with loops

def turned(x, base):
    """Rotate the halves of x (…, i, d), a NumPy array."""
    d = x.shape[-1]
    angle = np.arange(x.shape[-2])[:, None] * base ** (-2 * np.arange(d // 2) / d)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle),
                           b * np.cos(angle) + a * np.sin(angle)], axis=-1)


def test_a_llama_is_its_formulas():
    p = {name: part.numpy() for name, part in STATE.items()}
    x = p["model.embed_tokens.weight"][TOKENS.numpy()]
    for n in range(2):
        def part(name, n=n):
            return p[f"model.layers.{n}.{name}.weight"]
        y = norms.rms_norm(x, part("input_layernorm"), 1e-6)
        q, k, v = (reference.split_heads(y @ part(f"self_attn.{side}_proj").T, heads)
                   for side, heads in (("q", 6), ("k", 3), ("v", 3)))
        context, _ = reference.attention(turned(q, 50.0), turned(k, 50.0), v, masks.causal(5))
        x = x + reference.merge_heads(context) @ part("self_attn.o_proj").T
        y = norms.rms_norm(x, part("post_attention_layernorm"), 1e-6)
        gate = y @ part("mlp.gate_proj").T
        gate = gate / (1 + np.exp(-gate))
        x = x + (gate * (y @ part("mlp.up_proj").T)) @ part("mlp.down_proj").T
    want = norms.rms_norm(x, p["model.norm.weight"], 1e-6) @ p["lm_head.weight"].T
    assert difference(hugging_face.load(LLAMA, STATE)(TOKENS), want) < 1e-12


@pytest.mark.parametrize("plus_one", [False, True])
def test_the_norm_is_its_formula(plus_one):
    norm, x = RMSNorm(6, eps=0.3, plus_one=plus_one).double(), random(2, 5, 6)
    norm.gain.data = random(6, seed=1)
    want = norms.rms_norm(x, norm.gain + plus_one, eps=0.3)
    assert difference(norm(x), want) < 1e-14
    assert difference(RMSNorm(6, 0.3, plus_one).double()(x), norms.rms_norm(x, 1, 0.3)) < 1e-14


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_norm_of_half_precision_is_computed_in_float32(dtype):
    norm, x = RMSNorm(6).to(dtype), (100 * random(4, 6)).to(dtype)  # squares exceed float16
    assert norm(x).dtype == dtype
    want = norms.rms_norm(x.double(), 1, 1e-6)
    assert (norm(x).double() - want).abs().max() < 0.01


def test_experts_are_their_formula():
    layer = Experts(6, 8, number=5, chosen=2, alpha=1.3, limit=0.8).double()
    for n, p in enumerate(layer.parameters()):
        p.data = random(*p.shape, seed=n)
    x = random(2, 3, 6, seed=50)
    for b, i in np.ndindex(2, 3):
        scores = layer.router(x[b, i])
        best = scores.argsort(descending=True)[:2]
        shares = scores[best].exp() / scores[best].exp().sum()
        want = 0
        for share, n in zip(shares, best, strict=True):
            both = x[b, i] @ layer.up[n] + layer.up_bias[n]
            gate, linear = both[0::2].clamp(max=0.8), both[1::2].clamp(-0.8, 0.8)
            hidden = (linear + 1) * gate / (1 + torch.exp(-1.3 * gate))
            want = want + share * (hidden @ layer.down[n] + layer.down_bias[n])
        assert difference(layer(x)[b, i], want) < 1e-12


def test_more_experts_cannot_be_chosen_than_there_are():
    with raises(ValueError, "chosen must be at most number=3, got 4"):
        Experts(6, 8, 3, 4)


@pytest.mark.parametrize("qk_norm", ["head", "width"])
def test_in_float16_large_q_and_k_are_normalised_without_overflow(qk_norm):
    plan = configuration.read(CONFIG)._replace(qk_norm=qk_norm)
    layer = Attention(plan, plan.layers[0]).half()
    layer.W_qkv.weight.data *= 1000  # squares exceed float16
    q, k, _ = layer.heads_at(random(2, 5, 12).half(), torch.arange(5))
    for side in (q, k):
        assert side.dtype == torch.float16
        assert (side.square().mean() - 1).abs() < 0.01


# --- a block from parts

class Gainless(nn.Module):
    def forward(self, x):
        return language_model.rms_norm(x)


class SquaredReLU(nn.Module):
    def __init__(self, up, down):
        super().__init__()
        self.up, self.down = up, down

    def forward(self, x):
        return self.down(self.up(x).relu().square())


def test_the_block_of_the_language_model_can_be_assembled():
    old = language_model.Block(12, 3).double()
    for n, p in enumerate(old.parameters()):
        p.data = random(*p.shape, seed=n)
    places = {"before_attention": Gainless(), "before_feed_forward": Gainless()}
    new = Block(old.attention, SquaredReLU(old.up, old.down), places)
    x, where = random(2, 5, 12), torch.arange(4, 9)
    assert difference(new(x, where), old(x, where)) < 1e-14


def test_each_norm_of_a_block_acts_in_its_place():
    class Times(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x, *_):
            return x * self.factor
    x = random(2, 5, 12)
    block = Block(Times(2), Times(3), {place: Times(factor) for place, factor in zip(
        PLACES, (5, 7, 11, 13), strict=True)})
    after_attention = x * (1 + 5 * 2 * 7)
    assert difference(block(x), after_attention * (1 + 11 * 3 * 13)) < 1e-12
    assert difference(Block(Times(2), Times(3), {})(x), x * 3 * 4) < 1e-12


def test_a_norm_elsewhere_is_refused():
    with raises(ValueError, "a norm must be in one of the places before_attention, "
                "after_attention, before_feed_forward, after_feed_forward, got before, after"):
        Block(None, None, {"before": nn.Identity(), "after": nn.Identity()})


def test_the_parts_follow_the_plan():
    plan = Plan(19, 12, 20, 6, 3, 4, (Layer(3, Rotation(50.0)), Layer(None, None)), AROUND, 0.25,
                qkv_bias=True, qk_norm="head", activation="gelu", tied=True)
    model = Decoder(plan)
    first, second = model.blocks
    assert isinstance(first.attention, Attention)
    assert isinstance(first.feed_forward, GatedFeedForward)
    assert [block.attention.window for block in model.blocks] == [3, None]
    assert [cache.window for cache in model.caches()] == [3, None]
    assert second.attention.rotation is None
    assert {*first.norms} == {*PLACES}
    assert first.attention.W_qkv.bias is not None
    assert first.attention.W_o.bias is None
    assert model.unembedding is None
    assert model(TOKENS).shape == (2, 5, 19)


def test_without_rotation_the_order_of_earlier_tokens_does_not_count():
    plan = Plan(19, 12, 20, 6, 3, 4, (Layer(None, None),), AROUND, 0.5)
    model, swapped = Decoder(plan), TOKENS[:, [1, 0, 2, 3, 4]]
    assert difference(model(swapped)[:, 2:], model(TOKENS)[:, 2:]) < 1e-6
    turning = Decoder(plan._replace(layers=(Layer(None, Rotation(50.0)),)))
    turning.load_state_dict(model.state_dict())
    assert difference(turning(swapped)[:, 2:], turning(TOKENS)[:, 2:]) > 1e-3


def test_the_decoder_writes_like_a_language_model():
    model = hugging_face.load(LLAMA, STATE)
    one, other = (language_model.write(model, TOKENS, 6, 0.0, cached=cached)
                  for cached in (True, False))
    assert one.tolist() == other.tolist()


def test_the_sizes_of_a_wide_model_cost_no_random_numbers():
    state = torch.get_rng_state()
    hugging_face.load(LLAMA, STATE)
    assert torch.equal(torch.get_rng_state(), state)


# --- loading

def test_loading_shares_no_memory_and_keeps_each_dtype():
    state = {name: part.float() for name, part in STATE.items()}
    state["model.norm.weight"] = state["model.norm.weight"].double()
    before = {name: part.clone() for name, part in state.items()}
    model = hugging_face.load(LLAMA, state)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    assert all(torch.equal(state[name], part) for name, part in before.items())
    assert model.norm.gain.dtype == torch.float64
    assert model.embedding.weight.dtype == torch.float32
    assert not model.training


def test_arrays_and_frequencies_of_older_versions_are_accepted():
    state = {name: part.numpy() for name, part in STATE.items()}
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(2)
    found = hugging_face.load(LLAMA, state)(TOKENS)
    assert difference(found, hugging_face.load(LLAMA, STATE)(TOKENS)) == 0


def test_a_tied_model_needs_no_unembedding_and_refuses_another():
    tied = {**CONFIG, "tie_word_embeddings": True}
    embedding = STATE["model.embed_tokens.weight"]
    one = {name: part for name, part in STATE.items() if name != "lm_head.weight"}
    found = hugging_face.load(tied, one)(TOKENS)
    twice = {**STATE, "lm_head.weight": embedding}
    assert difference(found, hugging_face.load(tied, twice)(TOKENS)) == 0
    assert difference(found, hugging_face.load(LLAMA, twice)(TOKENS)) == 0
    with raises(ValueError, "lm_head.weight differs from model.embed_tokens.weight, but the "
                "configuration says tie_word_embeddings=True"):
        hugging_face.load(tied, STATE)
    with raises(ValueError, "the state dict has no lm_head.weight: the embedding may be used "
                "twice, but then the configuration must say tie_word_embeddings=True"):
        hugging_face.load(LLAMA, one)


@pytest.mark.parametrize("n_heads", [1, 3])
def test_sorted_rows_make_halves_of_interleaved_pairs(n_heads):
    W, x = random(n_heads * 6, 5), random(2, 7, 5, seed=1)
    cos, sin = rotary(torch.arange(7.0).double(), 6)
    found = rotate(split_heads(x @ hugging_face.to_halves(W, n_heads).T, n_heads), cos, sin)
    want = rotate(split_heads(x @ W.T, n_heads), cos, sin, interleaved=True)
    order = [0, 2, 4, 1, 3, 5]
    assert difference(found, want[..., order]) < 1e-14


def test_what_is_not_a_state_dict_or_not_pairs_is_refused():
    with raises(TypeError, "state must map names to tensors, got list"):
        hugging_face.load(LLAMA, [*STATE])
    with raises(TypeError, "model.norm.weight must be a tensor or an array, got list"):
        hugging_face.load(LLAMA, {**STATE, "model.norm.weight": [1.0] * 12})
    with raises(ValueError, "the rows of W must be those of n_heads=3 heads with an even d, got "
                "(9, 5)"):
        hugging_face.to_halves(random(9, 5), 3)
    with raises(TypeError, "W must be a tensor, got str"):
        hugging_face.to_halves("W", 3)


def test_a_random_state_is_the_same_each_time_and_fits_every_family():
    for kind in FAMILIES:
        config = {**CONFIG, "model_type": kind, "rope_theta": None, "num_local_experts": None,
                  "rope_scaling": {"rope_type": "default"}}
        config = {k: v for k, v in config.items() if v is not None}
        one, other = (hugging_face.random_state(config, seed=4) for _ in range(2))
        assert all(torch.equal(one[name], other[name]) for name in one)
        gains = torch.cat([part for name, part in one.items() if "norm" in name])
        assert abs(gains.mean() - (0 if "gemma" in kind else 1)) < 0.2
        assert 0.2 < hugging_face.load(config, one)(TOKENS).std() < 20
    assert not torch.equal(one["model.norm.weight"],
                           hugging_face.random_state(config)["model.norm.weight"])


def test_missing_and_left_over_names_are_told():
    less = {name: part for name, part in STATE.items() if "layers.1.mlp" not in name}
    with raises(ValueError, "the state dict has no model.layers.1.mlp.down_proj.weight, "
                "model.layers.1.mlp.gate_proj.weight, model.layers.1.mlp.up_proj.weight"):
        hugging_face.load(LLAMA, less)
    more = {**STATE, **{f"model.layers.{n}.self_attn.q_proj.bias": random(24) for n in range(6)}}
    with raises(ValueError, "the configuration has no place for model.layers.0.self_attn.q_proj."
                "bias, model.layers.1.self_attn.q_proj.bias, model.layers.2.self_attn.q_proj.bias, "
                "model.layers.3.self_attn.q_proj.bias and 2 more"):
        hugging_face.load(LLAMA, more)


def test_q_and_k_of_each_others_shape_are_refused():
    q, k = (f"model.layers.0.self_attn.{side}_proj.weight" for side in "qk")
    swapped = {**STATE, q: STATE[k], k: STATE[q]}  # packed, they would have the same shape
    with raises(ValueError, f"{q} must have the shape (24, 12), got (12, 12)"):
        hugging_face.load(LLAMA, swapped)
    wide = {**STATE, "model.norm.weight": random(13)}
    with raises(ValueError, "model.norm.weight must have the shape (12,), got (13,)"):
        hugging_face.load(LLAMA, wide)


# --- what a configuration may not say

REFUSED = [
    ({"model_type": "mamba"}, f"model_type must be one of {', '.join(FAMILIES)}, got 'mamba'"),
    ({"model_type": None}, f"model_type must be one of {', '.join(FAMILIES)}, got None"),
    ({"model_type": "gemma3", "text_config": {}},
     "model_type 'gemma3' has a text_config beside other parts: pass config['text_config'], and "
     "the parameters of the text model only"),
    ({"quantization_config": {"bits": 4}, "logit_scale": 2.0},
     "a llama model with quantization_config={'bits': 4}, logit_scale=2.0 is not known here: it "
     "may compute something else"),
    ({"sliding_window": 3}, "a llama model with sliding_window=3 is not known here: it may "
     "compute something else"),
    ({"hidden_size": None, "vocab_size": None}, "the configuration has no vocab_size, hidden_size"),
    ({"attention_dropout": 0.1}, "a llama model with attention_dropout=0.1 is not supported; only "
     "attention_dropout=0"),
    ({"rope_interleaved": True}, "a llama model with rope_interleaved=True is not supported; only "
     "rope_interleaved=False"),
    ({"hidden_act": "relu"}, "hidden_act must be one of silu, gelu, gelu_pytorch_tanh, got 'relu'"),
    ({"num_key_value_heads": 4}, "n_kv_heads must divide n_heads=6, got n_kv_heads=4; possible: "
     "1, 2, 3, 6"),
    ({"hidden_size": 13, "head_dim": None}, "d_model=13 is not divisible by n_heads=6 (remainder "
     "1); nearest divisors: 1, 13"),
    ({"rms_norm_eps": -1.0}, "rms_norm_eps=-1.0 must be greater than 0 and finite"),
    ({"experts_per_token": 4}, "a llama model with experts_per_token=4 is not known here: it may "
     "compute something else"),
    ({"model_type": "smollm3", "no_rope_layer_interval": 0},
     "no_rope_layer_interval must be at least 1, got 0"),
    ({"head_dim": 5}, "head_dim must be even, because RoPE rotates dimensions in pairs, got 5"),
    ({"num_hidden_layers": 0}, "num_hidden_layers must be at least 1, got 0"),
    ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}},
     f"rope_type must be one of {', '.join(configuration.SCALINGS)}, got longrope"),
    ({"rope_scaling": {"rope_type": "linear"}}, "RoPE of rope_type 'linear' needs factor, got "
     "{'rope_type': 'linear', 'rope_theta': 50.0}"),
    ({"rope_scaling": {"type": "linear", "factor": 2.0, "beta_fast": 3}},
     "RoPE of rope_type 'linear' does not use beta_fast=3"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}},
     "factor must be at least 1 and finite, got 0.5"),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
     "RoPE of rope_type 'llama3' needs low_freq_factor, high_freq_factor, got {'rope_type': "
     "'llama3', 'factor': 8.0, 'rope_theta': 50.0}"),
    ({"rope_scaling": {"rope_type": "yarn", "factor": 8.0, "type": "linear"}},
     "rope_type must be one of default, linear, llama3, yarn, got linear, yarn"),
    ({"model_type": "olmo3", "rope_theta": None, "rope_parameters": {"full_attention": {
        "rope_type": "yarn", "factor": 8.0, "truncate": False}}},
     "truncate=False is not supported where RoPE differs between layers: transformers does not use "
     "it there"),
    ({"rope_theta": None, "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5,
                                              "rope_theta": 50.0}},
     "RoPE of rope_type 'default' does not use partial_rotary_factor=0.5"),
    ({"rope_parameters": {"rope_theta": 60.0}},
     "rope_theta=50.0 beside rope_parameters={'rope_theta': 60.0}: pass one of both"),
    ({"rope_theta": None, "rope_parameters": {"full_attention": {}}},
     "rope_parameters of llama must be one dict, got {'full_attention': {}}"),
    ({"model_type": "olmo3", "rope_theta": None, "rope_parameters": {"rope_theta": 60.0}},
     "rope_parameters of olmo3 must be a dict for full_attention and one for sliding_attention, "
     "got {'rope_theta': 60.0}"),
    ({"model_type": "olmo3"}, "rope_theta=50.0 of olmo3: say in rope_parameters whether it holds "
     "for full_attention, for sliding_attention or both"),
    ({"model_type": "olmo3", "rope_theta": None, "rope_parameters": {"full_attention": {},
                                                                    "factor": 3}},
     "rope_parameters has factor beside full_attention and sliding_attention"),
    ({"model_type": "qwen3", "layer_types": ["full_attention"] * 3},
     "layer_types must have 2 entries, got 3"),
    ({"model_type": "qwen3", "layer_types": ["chunked_attention", "full_attention"]},
     "layer_types must be full_attention or sliding_attention, got chunked_attention"),
    ({"model_type": "qwen3", "layer_types": ["sliding_attention", "full_attention"]},
     "a layer has sliding_attention, but the configuration has sliding_window=4096, "
     "use_sliding_window=False"),
    ({"model_type": "mistral", "layer_types": ["sliding_attention", "full_attention"]},
     "a mistral model with layer_types=['sliding_attention', 'full_attention'] is not known here: "
     "it may compute something else"),
    ({"model_type": "gemma2", "sliding_window": None},
     "a layer has sliding_attention, but the configuration has sliding_window=None"),
    ({"model_type": "gemma2", "sliding_window": 0}, "window must be at least 1, got 0"),
    ({"model_type": "gemma2", "use_bidirectional_attention": True},
     "a gemma2 model with use_bidirectional_attention=True is not supported; only "
     "use_bidirectional_attention=False"),
    ({"model_type": "gemma2", "hidden_act": "silu"},
     "hidden_activation='gelu_pytorch_tanh' and hidden_act='silu' differ"),
    ({"model_type": "gemma3_text", "attn_logit_softcapping": 50.0},
     "attn_logit_softcapping must be None for gemma3_text, whose attention in transformers does "
     "not use it, got 50.0"),
    ({"model_type": "gemma3_text", "_sliding_window_pattern": 2},
     "sliding_window_pattern=6, but _sliding_window_pattern=2: pass layer_types"),
    ({"model_type": "smollm3", "no_rope_layers": [1]}, "no_rope_layers must have 2 entries, got 1"),
    ({"model_type": "gpt_oss", "num_experts_per_tok": 200, "rope_scaling": {"type": "default"}},
     "num_experts_per_tok=200 must be at most num_local_experts=128, and experts_per_token the "
     "same, got None"),
    ({"model_type": "gpt_oss", "hidden_act": "gelu"},
     "hidden_act must be 'silu' with experts, got 'gelu'"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_the_model_cannot_follow_is_refused(fields, message):
    with raises(ValueError, message):
        configuration.read({**CONFIG, **fields})


@pytest.mark.parametrize(("fields", "message"), [
    ({"rope_theta": "10000"}, "rope_theta='10000' must be a number"),
    ({"num_hidden_layers": 2.0}, "num_hidden_layers must be an integer, got 2.0"),
    ({"head_dim": "4"}, "head_dim must be an integer, got '4'"),
    ({"rms_norm_eps": None}, "rms_norm_eps=None must be a number"),
    ({"model_type": "qwen2", "max_window_layers": 1.5}, "max_window_layers must be an integer, "
     "got 1.5"),
    ({"rms_norm_eps": "1e-5"}, "rms_norm_eps='1e-5' must be a number"),
    ({"tie_word_embeddings": "no"}, "tie_word_embeddings='no' must be True or False"),
    ({"attention_bias": 1}, "attention_bias=1 must be True or False"),
    ({"eos_token_id": "</s>"}, "eos_token_id must be an integer, got '</s>'"),
])
def test_a_value_of_another_type_is_refused(fields, message):
    with raises(TypeError, message):
        configuration.read({**CONFIG, **fields})


def test_only_a_dict_is_a_configuration():
    with raises(TypeError, "config must be a dict, as json.load returns it, got str"):
        configuration.read("config.json")


def test_fields_that_change_no_logits_are_accepted():
    more = {"use_cache": False, "torch_dtype": "bfloat16", "architectures": ["LlamaForCausalLM"],
            "unknown": None, "rope_scaling": None, "pretraining_tp": 2,
            "eos_token_id": [2, 7], "bos_token_id": 1}
    assert configuration.read({**CONFIG, **more}) == configuration.read(
        {**CONFIG, "eos_token_id": [2, 7]})
    assert configuration.read({**CONFIG, "eos_token_id": 5}).end == (5,)
    assert configuration.read({**CONFIG, "eos_token_id": None}).end == ()


@pytest.mark.parametrize(("kind", "start"), [("gemma3_text", 0), ("qwen3", 1), ("olmo3", 1)])
def test_a_new_model_begins_with_gains_of_one(kind, start):
    model = Decoder({**CONFIG, "model_type": kind, "rope_theta": None})
    gains = [p for name, p in model.named_parameters() if "gain" in name]
    assert len(gains) == 2 * (len(model.blocks[0].norms) + 2) + 1
    assert all((gain == start).all() for gain in gains)


def test_the_scale_is_that_of_the_query():
    assert configuration.read(CONFIG).scale == 1 / math.sqrt(4)
    gemma = {**CONFIG, "model_type": "gemma2", "query_pre_attn_scalar": 9}
    assert configuration.read(gemma).scale == 1 / 3


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_last_logits_alone_are_those_of_all(kind, float64):
    config = {**CONFIG, "model_type": kind}
    del config["rope_theta"]  # olmo3 has two
    model = Decoder(config)
    tokens = torch.randint(19, (2, 7))
    found, want = model(tokens, last_only=True), model(tokens)
    assert found.shape == (2, 1, 19)
    assert difference(found, want[:, -1:]) < 1e-12


def test_a_first_chunk_of_padding_alone_changes_no_logits(float64):
    model = Decoder({**CONFIG, "model_type": "qwen3", "use_sliding_window": True,
                     "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"]})
    tokens, caches = torch.randint(19, (2, 5)), model.caches()
    model(tokens[:, :2], torch.full((2, 2), -1), caches)
    found = [model(part, caches=caches) for part in tokens.split([3, 1, 1], dim=1)]
    assert difference(torch.cat(found, dim=1), model(tokens)) < 1e-12


def test_caches_that_were_filled_differently_get_masks_of_their_own(float64):
    model = Decoder({**CONFIG, "model_type": "llama"})
    tokens, new = torch.randint(19, (2, 6)), torch.full((2, 1), 5)
    plain = torch.arange(5).expand(2, -1)
    padded = plain.where(plain != 1, -1)

    def mixed():
        """Return the first layer's cache without padding, the second layer's with it."""
        sets = [model.caches(), model.caches()]
        for positions, caches in zip((plain, padded), sets, strict=True):
            model(tokens[:, :5], positions, caches)
        return [sets[0][0], sets[1][1]]

    x = model.embedding(tokens[:, 5:])
    for layer, cache in zip(model.blocks, mixed(), strict=True):
        x = layer(x, new, cache)  # each layer computes its own mask
    want = model.norm(x) @ model.unembedding.weight.T
    assert difference(model(tokens[:, 5:], new, mixed()), want) < 1e-12
