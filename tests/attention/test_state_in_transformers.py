"""The gated delta rule, compared with transformers' functions and a whole layer of Qwen3-Next."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import Qwen3NextConfig
from transformers.models.kimi_linear.modeling_kimi_linear import recurrent_kimi_delta_attention
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextGatedDeltaNet,
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

from utils.attention.state import chunked, one_matrix, recurrent, state_bytes, unit
from utils.checks import difference
from utils.exercises.state_not_cache import per_dimension
from utils.models.open_models import MODELS

B, H, N, D, DV = 2, 6, 13, 4, 7
OURS = {"recurrent": recurrent, "one_matrix": one_matrix,
        "chunked": lambda *args: chunked(*args, size=5)}


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def inputs(key_heads=H):
    """Return q, k, v, log_decay, beta and state, tokens before heads; q and k of any length."""
    return (random(B, N, key_heads, D), 3 * random(B, N, key_heads, D, seed=1),
            random(B, N, H, DV, seed=2), -random(B, N, H, seed=3).abs(),
            random(B, N, H, seed=4).sigmoid(), random(B, H, D, DV, seed=5))


def ours(program, q, k, v, log_decay, beta, state):
    """Return what theirs returns, with their order of axes."""
    q, k, v, log_decay, beta = (x.transpose(1, 2) for x in (q, k, v, log_decay, beta))
    group = v.shape[1] // k.shape[1]
    q, k = (unit(x).repeat_interleave(group, dim=1) for x in (q, k))
    context, state = program(q / D ** 0.5, k, v, log_decay, beta, state)
    return context.transpose(1, 2), state


@pytest.mark.parametrize("key_heads", [H, 2])
@pytest.mark.parametrize("begins", ["with zeros", "with a state"])
@pytest.mark.parametrize("theirs", [torch_recurrent_gated_delta_rule, torch_chunk_gated_delta_rule])
@pytest.mark.parametrize("program", OURS.values(), ids=OURS)
def test_outputs_states_and_gradients_are_those_of_transformers(program, theirs, begins, key_heads):
    q, k, v, g, beta, state = inputs(key_heads)
    state = None if begins == "with zeros" else state
    options = {"chunk_size": 4} if "chunk" in theirs.__name__ else {}
    found = []
    for run in (lambda *args: ours(program, *args),
                lambda *args: theirs(*args[:5], initial_state=args[5], output_final_state=True,
                                     use_qk_l2norm_in_kernel=True, **options)):
        leaves = [None if x is None else x.clone().requires_grad_()
                  for x in (q, k, v, g, beta, state)]
        context, last = run(*leaves)
        loss = (context * random(*context.shape, seed=8)).sum() + (
            last * random(*last.shape, seed=9)).sum()
        found.append((context, last, *torch.autograd.grad(
            loss, [x for x in leaves if x is not None])))
    for mine, judge in zip(*found, strict=True):  # theirs computes in float32
        assert difference(mine, judge) < 1e-5


def layer(seed=0):
    """Return a tiny layer of Qwen3-Next in float64, whose parameters are all random."""
    config = Qwen3NextConfig(
        hidden_size=20, linear_num_key_heads=2, linear_num_value_heads=H, linear_key_head_dim=D,
        linear_value_head_dim=DV, linear_conv_kernel_dim=3, num_hidden_layers=4, num_experts=2,
        num_experts_per_tok=1, moe_intermediate_size=4, shared_expert_intermediate_size=4)
    made = Qwen3NextGatedDeltaNet(config, 0).double().eval()
    for n, parameter in enumerate(made.parameters()):
        parameter.data = random(*parameter.shape, seed=seed + n + 1)
    return made


def by_hand(layer, x, real=None):
    """Return the layer's output, step by step, with our chunks in the middle."""
    if real is not None:
        x = x * real[..., None]
    q, k, v, gate, b, a = layer.fix_query_key_value_ordering(
        layer.in_proj_qkvz(x), layer.in_proj_ba(x))
    mixed = torch.cat([side.flatten(2) for side in (q, k, v)], dim=-1).mT
    width = layer.conv1d.weight.shape[-1]
    mixed = F.silu(F.conv1d(F.pad(mixed, (width - 1, 0)), layer.conv1d.weight,
                            groups=mixed.shape[1])).mT
    q, k, v = mixed.split([2 * D, 2 * D, H * DV], dim=-1)
    log_decay = -layer.A_log.exp() * F.softplus(a + layer.dt_bias)
    context, _ = ours(lambda *args: chunked(*args, size=5), q.unflatten(-1, (2, D)),
                      k.unflatten(-1, (2, D)), v.unflatten(-1, (H, DV)), log_decay, b.sigmoid(),
                      None)
    mean = context.square().mean(dim=-1, keepdim=True)
    context = layer.norm.weight * context * torch.rsqrt(mean + layer.layer_norm_epsilon)
    return layer.out_proj((context * F.silu(gate)).flatten(2))


@pytest.mark.parametrize("padded", [False, True])
def test_a_whole_layer_of_qwen3_next(padded):
    made, x = layer(), random(B, N, 20, seed=30)
    real = torch.ones(B, N)
    if padded:
        real[1, :4] = 0
    want = made(x, attention_mask=real if padded else None)
    assert difference(by_hand(made, x, real if padded else None), want) < 1e-5
    assert want.std() > 0.1


def test_the_state_of_qwen3_next_is_that_of_its_configuration():
    config, model = Qwen3NextConfig(), MODELS["Qwen3-Next 80B"]
    assert (config.linear_num_value_heads, config.linear_key_head_dim,
            config.linear_value_head_dim) == (32, 128, 128)
    linear = sum(kind == "linear_attention" for kind in config.layer_types)
    assert linear == model.linear == 36
    assert config.layer_types[:4] == ["linear_attention"] * 3 + ["full_attention"]
    assert state_bytes(linear, 32, 128, 128) == 72 * 2 ** 20


def test_a_decay_for_each_dimension_is_that_of_kimi_linear():
    q, k, v, _, beta, state = inputs()
    log_decay = -random(B, N, H, D, seed=6).abs()
    for begins in (None, state):
        want, want_state = recurrent_kimi_delta_attention(
            q, k, v, log_decay, beta, initial_state=begins, output_final_state=True,
            use_qk_l2norm_in_kernel=True)
        sides = [x.transpose(1, 2) for x in (unit(q) / D ** 0.5, unit(k), v, log_decay, beta)]
        context, last = per_dimension(*sides, begins)
        assert difference(context.transpose(1, 2), want) < 1e-5
        assert difference(last, want_state) < 1e-5
