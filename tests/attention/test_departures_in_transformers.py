"""What today's models change in the one equation, compared with transformers' own layers."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import Gemma3TextConfig, Olmo3Config, Qwen3Config, Qwen3NextConfig
from transformers.masking_utils import (
    chunked_causal_mask_function,
    sdpa_mask,
    sliding_window_causal_mask_function,
)
from transformers.models.gemma2 import modeling_gemma2
from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.llama4.configuration_llama4 import Llama4TextConfig
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention
from transformers.models.olmo3.modeling_olmo3 import Olmo3Attention
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention

from utils import masks
from utils.attention.departures import (
    attention_with_sink,
    gated,
    qk_norm,
    soft_capped,
    temperature,
)
from utils.attention.grouped import grouped_attention
from utils.attention.heads import merge_heads, split_heads
from utils.attention.positions import rotary, rotate
from utils.attention.torch import masked_softmax
from utils.checks import difference

SIZES = {"hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8,
         "num_hidden_layers": 4, "attn_implementation": "eager", "rms_norm_eps": 1e-3}
KEEP = torch.as_tensor(masks.causal(5) & masks.padding([5, 3], 5))
PLACES = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 8, 9]])


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def additive(keep):
    return torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -math.inf)


def layer_of(kind, config, index=0):
    """Return a layer in float64 whose parameters, those of norms included, are random."""
    layer = kind(config, index).double().eval()
    for n, parameter in enumerate(layer.parameters()):
        parameter.data = random(*parameter.shape, seed=n + 1)
    return layer


def eager(module, q, k, v, keep, **options):
    """Return (context, weights) of a model's ``eager_attention_forward``, (b, h, i, d)."""
    group = q.shape[1] // k.shape[1]
    told = SimpleNamespace(num_key_value_groups=group, training=False, head_dim=q.shape[-1],
                           sinks=options.pop("sinks", None))
    context, weights = module.eager_attention_forward(
        told, q, k, v, additive(keep), scaling=q.shape[-1] ** -0.5, **options)
    return context.transpose(1, 2), weights


def gradients(context, *inputs):
    return torch.autograd.grad(context.square().sum(), inputs)


def test_the_sink_is_that_of_gpt_oss():
    q, k, v = (random(2, 6, 5, 8, seed=n).requires_grad_() for n in range(3))
    sink = (3 * random(6, seed=3)).requires_grad_()
    want, want_weights = eager(modeling_gpt_oss, q, k, v, KEEP, sinks=sink)
    found, weights = attention_with_sink(q, k, v, sink, KEEP)
    assert difference(found, want) < 1e-14
    assert difference(weights, want_weights) < 1e-14
    for got, expected in zip(gradients(found, q, k, v, sink), gradients(want, q, k, v, sink),
                             strict=True):
        assert difference(got, expected) < 1e-12


def test_soft_capping_is_that_of_gemma_2():
    q, k, v = (3 * random(2, 6, 5, 8, seed=n).requires_grad_() for n in range(3))
    want, want_weights = eager(modeling_gemma2, q, k, v, KEEP, softcap=2.5)
    weights = masked_softmax(soft_capped(q @ k.mT / math.sqrt(8), 2.5), KEEP)
    assert difference(weights, want_weights) < 1e-6  # its softmax is in float32
    for got, expected in zip(gradients(weights @ v, q, k, v), gradients(want, q, k, v),
                             strict=True):
        assert difference(got, expected) < 1e-4


def project(layer, x):
    """Return q (b, h, i, d), k, v (b, h_kv, i, d) and the gate (b, i, h * d) or None."""
    q, gate = layer.q_proj(x), None
    if layer.q_proj.out_features > 48:  # q and gate, head by head
        q, gate = (part.flatten(2) for part in q.unflatten(-1, (6, 16)).chunk(2, dim=-1))
    return split_heads(q, 6), *(split_heads(p(x), 2) for p in (layer.k_proj, layer.v_proj)), gate


def ours(layer, x, whole=False, plus_one=False, dims=8):
    """Return what a layer should say, with our functions."""
    q, k, v, gate = project(layer, x)
    q, k = (qk_norm(side, norm.weight, whole, plus_one, eps=1e-3)
            for side, norm in ((q, layer.q_norm), (k, layer.k_norm)))
    cos, sin = rotary(PLACES[:, None].double(), dims)
    q, k = (rotate(side, cos, sin) for side in (q, k))
    q = q * layer.scaling * math.sqrt(8)  # the model's own scale
    context = merge_heads(grouped_attention(q, k, v, KEEP))
    return layer.o_proj(context if gate is None else gated(context, gate))


LAYERS = {
    "Qwen3": (Qwen3Attention, Qwen3Config, {}, {}),
    "OLMo 3": (Olmo3Attention, Olmo3Config, {}, {"whole": True}),
    "Gemma 3": (Gemma3Attention, Gemma3TextConfig, {"query_pre_attn_scalar": 21},
                {"plus_one": True}),
    "Qwen3-Next": (Qwen3NextAttention, Qwen3NextConfig, {}, {"plus_one": True, "dims": 4}),
}


def judged(name):
    """Return a layer of transformers, x, what it says, and the options for ``ours``."""
    kind, config, more, options = LAYERS[name]
    sizes = {**SIZES, **({"hidden_size": 48} if name == "OLMo 3" else {})}  # h * d
    layer = layer_of(kind, config(**sizes, **more))
    x = random(2, 5, sizes["hidden_size"], seed=99)
    cos, sin = rotary(PLACES.double(), options.get("dims", 8))
    angles = tuple(torch.cat((side, side), dim=-1) for side in (cos, sin))
    return layer, x, layer(x, position_embeddings=angles, attention_mask=additive(KEEP))[0], options


@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_says_the_same_as_the_model(name):
    layer, x, want, options = judged(name)
    assert difference(ours(layer, x, **options), want) < 1e-4  # norms and softmax are in float32


@pytest.mark.parametrize("name", LAYERS)
def test_the_comparison_notices_another_gain(name):
    layer, x, want, options = judged(name)
    other = {**options, "plus_one": not options.get("plus_one", False)}
    assert difference(ours(layer, x, **other), want) > 1e-2


@pytest.mark.parametrize("index", [0, 3])
def test_llama_4_normalises_after_rope_and_has_a_temperature_where_it_has_no_positions(index):
    config = Llama4TextConfig(**SIZES, floor_scale=2, attn_scale=0.7)
    layer, x = layer_of(Llama4TextAttention, config, index), random(2, 5, 24, seed=99)
    cos, sin = rotary(PLACES.double(), 8)
    want = layer(x, torch.complex(cos, sin), additive(KEEP))[0]
    q, k, v, _ = project(layer, x)
    if index == 0:
        q, k = (qk_norm(rotate(side, cos[:, None], sin[:, None], interleaved=True), eps=1e-3)
                for side in (q, k))
    else:
        q = q * temperature(torch.arange(5.0).double(), 2, 0.7)[:, None]
    found = layer.o_proj(merge_heads(grouped_attention(q, k, v, KEEP)))
    assert difference(found, want) < 1e-4
    assert bool(config.no_rope_layers[index]) == (index == 0)


@pytest.mark.parametrize(("n_q", "n_k", "size"), [(7, 7, 3), (2, 7, 3), (1, 6, 3), (5, 5, 9)])
def test_chunks_are_those_of_transformers(n_q, n_k, size):
    kind = chunked_causal_mask_function(size, torch.zeros(1, dtype=int))
    want = sdpa_mask(1, n_q, n_k, q_offset=n_k - n_q, mask_function=kind,
                     allow_is_causal_skip=False)
    found = masks.chunks(n_q, n_k, size, "bottom_right") & masks.causal(n_q, n_k, "bottom_right")
    assert found.tolist() == want[0, 0].tolist()


@pytest.mark.parametrize(("n_q", "n_k", "window"), [(7, 7, 3), (2, 7, 3), (1, 6, 1), (4, 4, 4)])
def test_a_window_of_transformers_counts_the_token_itself(n_q, n_k, window):
    want = sdpa_mask(1, n_q, n_k, q_offset=n_k - n_q, allow_is_causal_skip=False,
                     mask_function=sliding_window_causal_mask_function(window))
    found = masks.window(n_q, n_k, left=window - 1, align="bottom_right")
    assert found.tolist() == want[0, 0].tolist()
