"""Scaled frequencies of RoPE, compared with those of transformers and with its models."""

import math

import pytest
import torch
from transformers import (
    DeepseekV3Config,
    Gemma3TextConfig,
    Gemma4TextConfig,
    Glm4Config,
    GptOssConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Ministral3Config,
    Olmo3Config,
    PreTrainedConfig,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextRotaryEmbedding
from transformers.models.glm4.modeling_glm4 import Glm4RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.ministral3.modeling_ministral3 import Ministral3Attention
from transformers.models.olmo3.modeling_olmo3 import Olmo3RotaryEmbedding

from utils import masks
from utils.attention.grouped import grouped_attention
from utils.attention.heads import merge_heads, split_heads
from utils.attention.long_context import (
    dynamic_factor,
    frequencies,
    interpolated,
    llama3,
    ntk_base,
    proportional,
    scaled_rotary,
    temperature,
    yarn,
    yarn_factors,
)
from utils.attention.positions import rotate
from utils.checks import difference


def config_of(d, base, share=1.0, length=1000, **parameters):
    """Return a configuration of 3 heads of d dimensions."""
    return LlamaConfig(hidden_size=3 * d, num_attention_heads=3, num_key_value_heads=1, head_dim=d,
                       num_hidden_layers=2, intermediate_size=29, vocab_size=23,
                       max_position_embeddings=length, attn_implementation="eager",
                       rope_parameters={"rope_theta": base, "partial_rotary_factor": share,
                                        **parameters})


def theirs(config, **options):
    kind = config.rope_parameters["rope_type"]
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", **options)


def close(found, want):
    """Return whether frequencies differ by less than 1e-6 of each."""
    assert found.shape == want.shape
    return difference(found / want.double(), torch.ones_like(found)) < 1e-6


@pytest.mark.parametrize(("d", "base", "share"), [(8, 1e4, 1.0), (64, 5e5, 0.5), (16, 77.0, 0.25)])
@pytest.mark.parametrize("factor", [1.0, 4.0, 7.5])
def test_interpolation_is_their_linear_scaling(d, base, share, factor):
    want, attention_factor = theirs(config_of(d, base, share, rope_type="linear", factor=factor))
    assert close(interpolated(frequencies(d, base, share), factor), want)
    assert attention_factor == 1


@pytest.mark.parametrize(("d", "base", "share"), [(8, 1e4, 1.0), (64, 5e5, 0.5), (16, 77.0, 0.25)])
@pytest.mark.parametrize("n", [1, 1000, 1700, 9000])
@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_a_base_raised_by_the_dynamic_factor_is_their_dynamic_scaling(d, base, share, n, factor):
    config = config_of(d, base, share, rope_type="dynamic", factor=factor)
    base = ntk_base(base, dynamic_factor(factor, n, 1000), int(d * share))
    assert close(frequencies(d, base, share), theirs(config, seq_len=n)[0])


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(("d", "base", "factor", "original", "fast", "slow"), [
    (32, 1e4, 8.0, 128, 32, 1), (128, 1e6, 4.0, 32_768, 32, 1), (64, 150_000.0, 32.0, 4096, 32, 1),
    (64, 1e4, 40.0, 4096, 32, 1), (32, 1e4, 2.5, 640, 8, 0.5), (8, 100.0, 5.0, 64, 4, 1),
    (64, 5e4, 32.0, 4096, 1.1, 1.0), (16, 1e4, 1.0, 256, 32, 1), (8, 100.0, 5.0, 64, 4, 1e-4)])
def test_yarn_is_theirs(d, base, factor, original, fast, slow, truncate):
    config = config_of(d, base, length=int(factor * original), rope_type="yarn", factor=factor,
                       original_max_position_embeddings=original, beta_fast=fast, beta_slow=slow,
                       truncate=truncate)
    want, want_factor = theirs(config)
    found, attention_factor = yarn(d, base, factor, original, fast, slow, truncate)
    assert close(found, want)
    assert math.isclose(attention_factor, want_factor, rel_tol=1e-12)


def test_yarn_of_a_part_of_the_dimensions_takes_their_number():
    config = config_of(64, 1e4, 0.5, length=1024, rope_type="yarn", factor=8.0,
                       original_max_position_embeddings=128)
    assert close(yarn(32, 1e4, 8.0, 128)[0], theirs(config)[0])


@pytest.mark.parametrize(("mscale", "all_dimensions"), [(1.0, 1.0), (0.707, 1.0), (1.0, 0.5)])
def test_the_attention_factor_of_deepseek_is_a_quotient_of_two_temperatures(mscale, all_dimensions):
    config = config_of(64, 1e4, length=163_840, rope_type="yarn", factor=40.0, mscale=mscale,
                       mscale_all_dim=all_dimensions, original_max_position_embeddings=4096)
    found = temperature(40.0, mscale) / temperature(40.0, all_dimensions)
    assert math.isclose(found, theirs(config)[1], rel_tol=1e-12)


@pytest.mark.parametrize(("d", "base", "share", "factor", "low", "high", "original"), [
    (128, 5e5, 1.0, 8.0, 1.0, 4.0, 8192), (64, 5e5, 1.0, 32.0, 1.0, 4.0, 8192),
    (32, 1e4, 0.5, 3.0, 0.5, 9.0, 300)])
def test_llama_3_1_is_theirs(d, base, share, factor, low, high, original):
    config = config_of(d, base, share, length=2 * original, rope_type="llama3", factor=factor,
                       low_freq_factor=low, high_freq_factor=high,
                       original_max_position_embeddings=original)
    found = llama3(frequencies(d, base, share), factor, low, high, original)
    assert close(found, theirs(config)[0])


def test_glm_rotates_half_of_its_dimensions():
    config = Glm4Config(hidden_size=48, num_attention_heads=3, head_dim=16,
                        rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                         "partial_rotary_factor": 0.5})
    assert close(frequencies(16, 1e4, 0.5), Glm4RotaryEmbedding(config).inv_freq)


def test_gemma_3_has_one_base_for_local_layers_and_another_for_global_ones():
    rope = Gemma3RotaryEmbedding(Gemma3TextConfig(head_dim=16, rope_scaling={
        "rope_type": "linear", "factor": 8.0}))
    assert close(frequencies(16, 1e4), rope.sliding_attention_inv_freq)
    assert close(interpolated(frequencies(16, 1e6), 8.0), rope.full_attention_inv_freq)


def test_olmo_3_has_yarn_in_its_full_layers_only():
    rope = Olmo3RotaryEmbedding(Olmo3Config(
        hidden_size=96, num_attention_heads=3, max_position_embeddings=65_536, rope_theta=5e5,
        rope_scaling={"rope_type": "yarn", "factor": 8.0, "beta_fast": 32, "beta_slow": 1,
                      "original_max_position_embeddings": 8192}))
    found, attention_factor = yarn(32, 5e5, 8.0, 8192)
    assert close(frequencies(32, 5e5), rope.sliding_attention_inv_freq)
    assert close(found, rope.full_attention_inv_freq)
    assert math.isclose(attention_factor, rope.full_attention_attention_scaling, rel_tol=1e-12)
    assert rope.sliding_attention_attention_scaling == 1


YARN = {"rope_type": "yarn", "factor": 6.0, "original_max_position_embeddings": 50}
P = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [250, 251, 253, 270, 271, 290, 299]])  # (b, i)


def attend(layer, x, times=1):
    """Return the output of their layer, computed here, with the attention factor so many times."""
    d = layer.head_dim
    freqs, factor = yarn(d, 100.0, 6.0, 50)
    cos, sin = scaled_rotary(P.double(), freqs, factor ** times)
    q, k, v = (split_heads(project(x), project.out_features // d)
               for project in (layer.q_proj, layer.k_proj, layer.v_proj))
    q, k = (rotate(side, cos[:, None], sin[:, None]) for side in (q, k))
    return layer.o_proj(merge_heads(grouped_attention(q, k, v, keep())))


def randomised(module):
    """Draw all parameters, large enough that the scores matter."""
    for n, p in enumerate(module.parameters()):
        generator = torch.Generator().manual_seed(n)
        p.data = torch.randn(p.shape, generator=generator, dtype=p.dtype) * 0.4
    return module


def keep():
    return torch.as_tensor(masks.causal(7) & masks.padding([7, 5], 7))


@pytest.mark.parametrize(("config", "fields", "on_sides"), [
    (Ministral3Config(), {"factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
    (GptOssConfig(), {"factor": 32.0}, 1.34657),
    (DeepseekV3Config(rope_parameters={
        "rope_theta": 1e4, "rope_type": "yarn", "factor": 40.0, "mscale": 1.0,
        "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}),
     {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
    (config_of(8, 100.0, rope_type="yarn", factor=40.0, mscale=0.707, mscale_all_dim=0.5,
               original_max_position_embeddings=50),
     {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.5}, 1.06447),
    (config_of(8, 100.0, rope_type="yarn", factor=8.0, attention_factor=1.5, mscale=1.0,
               original_max_position_embeddings=50, mscale_all_dim=1.0),
     {"factor": 8.0, "attention_factor": 1.5, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.5),
    (config_of(8, 100.0, rope_type="yarn", factor=8.0, mscale=0.5,
               original_max_position_embeddings=50), {"factor": 8.0, "mscale": 0.5}, 1.20794)])
def test_the_factor_of_cosines_and_sines_is_theirs(config, fields, on_sides):
    assert fields.items() <= config.rope_parameters.items()
    theirs_is = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")[1]
    assert yarn_factors(fields) == (pytest.approx(theirs_is), 1.0)
    assert theirs_is == pytest.approx(on_sides, abs=1e-5)


def test_of_two_models_with_the_same_fields_one_has_the_factor_in_its_scale():
    fields = {"factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0}
    rope = fields | {"rope_theta": 1e4, "rope_type": "yarn",
                     "original_max_position_embeddings": 4096}
    deepseek = DeepseekV3Attention(DeepseekV3Config(
        hidden_size=12, num_attention_heads=2, num_key_value_heads=2, rope_parameters=rope), 0)
    ministral = Ministral3Attention(Ministral3Config(), 0)
    assert yarn_factors(fields, in_scale=True) == (1.0, pytest.approx(1.27726 ** 2, abs=1e-4))
    assert deepseek.scaling == pytest.approx(
        yarn_factors(fields, in_scale=True)[1] * deepseek.qk_head_dim ** -0.5)
    assert ministral.scaling == pytest.approx(
        yarn_factors(fields)[1] * ministral.head_dim ** -0.5)


@pytest.mark.parametrize(("d", "share"), [(64, 0.25), (16, 0.5), (8, 1.0), (512, 0.25)])
def test_proportional_frequencies_are_those_of_gemma_4(d, share):
    told = {"full_attention": {"rope_type": "proportional", "rope_theta": 1e6,
                               "partial_rotary_factor": share},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    config = Gemma4TextConfig(global_head_dim=d, head_dim=d, rope_parameters=told)
    want = Gemma4TextRotaryEmbedding(config).full_attention_inv_freq
    found = proportional(d, 1e6, share)
    assert found.shape == want.shape
    assert difference(found, want.double()) < 1e-6
    if share < 1:
        assert difference(found[:len(frequencies(d, 1e6, share))],
                          frequencies(d, 1e6, share)) > 0.1


def test_a_layer_with_yarn_gives_their_outputs_and_gradients():
    config = config_of(8, 100.0, length=300, **YARN)
    layer = randomised(LlamaAttention(config, 0).double())
    rope = LlamaRotaryEmbedding(config)
    rope.inv_freq = yarn(8, 100.0, 6.0, 50)[0]  # in float64; theirs has been compared above
    x = torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    x.requires_grad_()
    angles = [part.double() for part in rope(x, P)]
    hidden = torch.zeros(keep().shape, dtype=torch.float64).masked_fill(~keep(), -math.inf)
    want = layer(x, angles, hidden)[0]
    found = attend(layer, x)
    assert difference(found, want) < 1e-5  # they compute the angles in float32
    grad_out = torch.randn(found.shape, generator=torch.Generator().manual_seed(2),
                           dtype=torch.float64)
    for ours, expected in zip(torch.autograd.grad(found, [x, *layer.parameters()], grad_out),
                              torch.autograd.grad(want, [x, *layer.parameters()], grad_out),
                              strict=True):
        assert difference(ours, expected) < 1e-4
    for times in (0, 2):
        assert difference(attend(layer, x, times), want) > 1e-2


def test_a_model_with_yarn_is_a_model_whose_frequencies_are_replaced(monkeypatch):
    """Plain RoPE of transformers, given our frequencies and factor, is its YaRN."""
    model = randomised(LlamaForCausalLM(config_of(8, 100.0, length=300, **YARN)).eval())
    other = LlamaForCausalLM(config_of(8, 100.0, length=300, rope_type="default")).eval()
    other.load_state_dict(model.state_dict())
    tokens = torch.randint(23, (2, 90), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        want, plain = model(tokens).logits, other(tokens).logits
        freqs, factor = yarn(8, 100.0, 6.0, 50)
        monkeypatch.setattr(other.model.rotary_emb, "inv_freq", freqs.float())
        monkeypatch.setattr(other.model.rotary_emb, "attention_scaling", factor)
        found = other(tokens).logits
    assert difference(found, want) < 1e-5
    assert difference(plain, want) > 1e-2


def test_their_functions_are_those_that_are_compared_here_and_two_more():
    assert set(ROPE_INIT_FUNCTIONS) == {"linear", "dynamic", "yarn", "llama3", "longrope",
                                        "proportional"}
    assert issubclass(LlamaConfig, PreTrainedConfig)
