"""What `no_error_and_wrong` and pages that it links say of transformers, and its fixes."""

import ast
import json
import logging
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    HunYuanDenseV1Config,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    Qwen3Config,
)
from transformers.masking_utils import sdpa_mask, sliding_window_causal_mask_function
from transformers.modeling_flash_attention_utils import _process_flash_attention_kwargs
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gpt_oss import modeling_gpt_oss
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1Attention
from transformers.models.mistral.modeling_mistral import MistralRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from utils import masks
from utils.attention.departures import qk_norm
from utils.attention.grouped import grouped_attention
from utils.attention.heads import merge_heads, split_heads
from utils.attention.long_context import yarn_factors
from utils.attention.positions import rotary, rotate
from utils.checks import difference

PAGE = Path(__file__).resolve().parents[2] / "chapters/7_field_guide/no_error_and_wrong.ipynb"
SIZES = {"vocab_size": 31, "hidden_size": 24, "num_attention_heads": 6, "num_key_value_heads": 2,
         "head_dim": 8, "num_hidden_layers": 2, "intermediate_size": 20,
         "max_position_embeddings": 64}
IDS = torch.tensor([[3, 9, 4, 1, 5, 7, 2]])


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=shape))


def page_cell(words):
    """Return the source of the one code cell of the page that has these words."""
    cells = json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
    found = [source for cell in cells if cell["cell_type"] == "code"
             if words in (source := "".join(cell["source"]))]
    assert len(found) == 1, words
    return found[0]


def page_function(name):
    """Return a function as the page defines it."""
    tree = ast.parse(page_cell(f"def {name}("))
    body = [node for node in tree.body if getattr(node, "name", "") == name]
    names = {"math": math, "sdpa": F.scaled_dot_product_attention, "d": 8}
    exec(compile(ast.Module(body, []), name, "exec"), names)
    return names[name]


def model_of(kind, config):
    torch.manual_seed(1)
    return kind(config).eval().double()


@torch.no_grad()
def test_a_model_that_runs_sdpa_returns_no_weights_and_logs_a_warning(caplog):
    model = model_of(LlamaForCausalLM, LlamaConfig(**SIZES, attn_implementation="sdpa"))
    plain = model(IDS)
    logging.getLogger("transformers").addHandler(caplog.handler)
    try:
        asked = model(IDS, output_attentions=True)
    finally:
        logging.getLogger("transformers").removeHandler(caplog.handler)
    assert asked.attentions == ()
    assert torch.equal(asked.logits, plain.logits)
    assert "does not support `output_attentions=True`" in caplog.text


@torch.no_grad()
def test_eager_attention_returns_causal_weights_and_the_same_logits():
    model = model_of(LlamaForCausalLM, LlamaConfig(**SIZES, attn_implementation="sdpa"))
    plain = model(IDS).logits
    model.set_attn_implementation("eager")
    asked = model(IDS, output_attentions=True)
    assert [tuple(weights.shape) for weights in asked.attentions] == [(1, 6, 7, 7)] * 2
    assert all((weights.triu(1) == 0).all() for weights in asked.attentions)
    assert all((weights.tril() > 0).sum() == 6 * 28 for weights in asked.attentions)
    assert difference(asked.logits, plain) < 1e-6  # softmax in float32


def test_the_page_s_attend_loses_its_mask_only_where_weights_are_asked_for_without_one():
    attend = page_function("attend")
    q, k, v = (random(2, 3, 5, 8, seed=seed) for seed in range(3))
    keep = torch.as_tensor(masks.causal(5))
    right, _ = attend(q, k, v, keep)
    assert difference(attend(q, k, v)[0], right) < 1e-12
    assert difference(attend(q, k, v, keep, output_attentions=True)[0], right) < 1e-12
    lost, weights = attend(q, k, v, output_attentions=True)
    assert difference(lost, right) > 0.1
    assert difference(weights, (q @ k.mT / math.sqrt(8)).softmax(-1)) < 1e-12


@pytest.mark.parametrize(("size", "n"), [(3, 7), (1, 4), (6, 6)])
def test_a_sliding_window_counts_the_token_itself(size, n):
    want = sdpa_mask(1, n, n, mask_function=sliding_window_causal_mask_function(size),
                     allow_is_causal_skip=False)[0, 0]
    assert masks.window(n, n, left=size - 1).tolist() == want.tolist()
    assert want[-1].sum() == size
    assert masks.window(n, n, left=size).tolist() != want.tolist() or size >= n


def test_flash_attention_is_given_one_less_than_the_sliding_window():
    names = ("dropout_p", "window_size", "deterministic", "softcap", "s_aux", "learnable_sink",
             "block_table", "page_table", "cache_seqlens", "max_seqlen_q", "max_seqlen_k")
    options = _process_flash_attention_kwargs(
        9, 9, is_causal=True, sliding_window=4,
        supports_mapping={name: name == "window_size" for name in names})
    assert options["window_size"][0] == 3
    assert options["causal"]


@pytest.mark.parametrize("given", [None, 1.0, 1.3])
@pytest.mark.parametrize("factor", [4.0, 128.0])
def test_the_factor_of_yarn_in_a_configuration_is_final(given, factor):
    yarn = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": factor,
            "original_max_position_embeddings": 16}
    yarn |= {} if given is None else {"attention_factor": given}
    config = MistralConfig(**{**SIZES, "max_position_embeddings": int(16 * factor)},
                           rope_parameters=yarn)
    _, want = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    assert yarn_factors(yarn)[0] == pytest.approx(want, rel=1e-12)
    if given is None:  # a configuration may also say null
        assert yarn_factors({**yarn, "attention_factor": None})[0] == (
            pytest.approx(ROPE_INIT_FUNCTIONS["yarn"](MistralConfig(
                **{**SIZES, "max_position_embeddings": int(16 * factor)},
                rope_parameters={**yarn, "attention_factor": None}), "cpu")[1], rel=1e-12))
    cos, _ = MistralRotaryEmbedding(config)(random(1, 1), torch.zeros(1, 1, dtype=torch.long))
    assert difference(cos, torch.full_like(cos, want)) < 1e-6  # q and k are multiplied by it


@torch.no_grad()
def test_left_padding_needs_counted_positions_in_gpt_2_and_none_in_llama():
    keep = torch.tensor([[0, 0, 1, 1, 1, 1, 1]])
    padded = torch.where(keep.bool(), IDS, 0)
    counted = (keep.cumsum(-1) - 1).clamp(min=0)
    gpt_2 = GPT2Config(vocab_size=31, n_embd=24, n_head=6, n_layer=2, n_positions=32)
    for kind, config, harmless in ((GPT2LMHeadModel, gpt_2, False),
                                   (LlamaForCausalLM, LlamaConfig(**SIZES), True)):
        model = model_of(kind, config)
        alone = model(IDS[:, 2:]).logits[:, -1]
        by_count = model(padded, attention_mask=keep, position_ids=counted)
        by_slot = model(padded, attention_mask=keep, position_ids=torch.arange(7)[None])
        assert difference(by_count.logits[:, -1], alone) < 1e-5
        assert (difference(by_slot.logits[:, -1], alone) < 1e-5) == harmless
        new = torch.tensor([[8]])
        longer, right = torch.cat((keep, torch.ones(1, 1).long()), dim=-1), keep.sum(-1)[:, None]
        want = model(torch.cat((IDS[:, 2:], new), dim=-1)).logits[:, -1]
        for position, good in (right, True), (right + 2, False):
            prompt = model(padded, attention_mask=keep, position_ids=counted, use_cache=True)
            got = model(new, attention_mask=longer, position_ids=position,
                        past_key_values=prompt.past_key_values).logits[:, -1]
            assert (difference(got, want) < 1e-5) == good


@pytest.mark.parametrize(("kind", "config", "after"), [
    (Qwen3Attention, Qwen3Config, False),
    (HunYuanDenseV1Attention, HunYuanDenseV1Config, True)])
def test_qwen_normalises_before_rope_and_hunyuan_after_it(kind, config, after):
    layer = kind(config(**SIZES, rms_norm_eps=1e-3, attn_implementation="eager"), 0).double().eval()
    for seed, parameter in enumerate(layer.parameters()):
        parameter.data = random(*parameter.shape, seed=seed)
    x, keep = random(2, 5, 24, seed=99), torch.as_tensor(masks.causal(5))
    cos, sin = rotary(torch.arange(5.0).double(), 8)
    angles = tuple(torch.cat((side, side), dim=-1)[None] for side in (cos, sin))
    bias = torch.zeros(1, 1, 5, 5).double().masked_fill(~keep, -math.inf)
    want = layer(x, position_embeddings=angles, attention_mask=bias)[0]
    gains = ((layer.query_layernorm.weight, layer.key_layernorm.weight) if after else
             (layer.q_norm.weight, layer.k_norm.weight))
    q, k, v = (split_heads(p(x), h) for p, h in
               ((layer.q_proj, 6), (layer.k_proj, 2), (layer.v_proj, 2)))
    for order in True, False:
        a, b = (qk_norm(rotate(side, cos, sin), gain, eps=1e-3) if order else
                rotate(qk_norm(side, gain, eps=1e-3), cos, sin)
                for side, gain in zip((q, k), gains, strict=True))
        got = layer.o_proj(merge_heads(grouped_attention(a, b, v, keep)))
        assert (difference(got, want) < 1e-4) == (order == after)  # norms are in float32


def test_gpt_oss_refuses_sdpa():
    assert not GptOssForCausalLM._supports_sdpa
    config = GptOssConfig(**SIZES, num_local_experts=2, num_experts_per_tok=1)
    with pytest.raises(ValueError, match="scaled_dot_product_attention"):
        GptOssForCausalLM._from_config(config, attn_implementation="sdpa")


def test_the_page_s_additional_key_gives_the_sinks_of_gpt_oss():
    q, k, v = (random(2, 3, 5, 8, seed=seed).requires_grad_() for seed in range(3))
    causal, sink = torch.as_tensor(masks.causal(5)), random(3, seed=9).requires_grad_()
    names = {"torch": torch, "F": F, "math": math, "sdpa": F.scaled_dot_product_attention, "n": 5,
             "causal": causal, "sink": sink, "q": q, "k": k, "v": v}
    recipe = page_cell("k_more, v_more =").partition("print(")[0]
    exec(recipe.replace("torch.zeros(n, n)", "torch.zeros(n, n).double()"), names)
    told = SimpleNamespace(num_key_value_groups=1, training=False, sinks=sink)
    bias = torch.zeros(5, 5).double().masked_fill(~causal, -math.inf)
    want, _ = modeling_gpt_oss.eager_attention_forward(told, q, k, v, bias, scaling=8 ** -0.5)
    assert difference(names["out"], want.transpose(1, 2)) < 1e-12
    for got, right in zip(torch.autograd.grad(names["out"].square().sum(), (q, k, v, sink)),
                          torch.autograd.grad(want.square().sum(), (q, k, v, sink)), strict=True):
        assert difference(got, right) < 1e-10
