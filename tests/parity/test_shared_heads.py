"""Parameters with shared heads, in Hugging Face's names: there and back, and the same attention."""

import numpy as np
import pytest
import torch
import transformers
from exact import raises
from transformers.models.falcon.modeling_falcon import FalconAttention
from transformers.models.llama.modeling_llama import LlamaAttention

from utils import masks, reference, sizes
from utils.attention.grouped import GroupedAttention
from utils.checks import difference
from utils.parity import shared_heads, weights

HEADS, KV_HEADS, D_HEAD, E = 6, 2, 4, 10


def parameters(biases=True, kv_heads=KV_HEADS, seed=0, d_out=E):
    rng = np.random.default_rng(seed)
    wide = {"q_proj": HEADS * D_HEAD, "k_proj": kv_heads * D_HEAD, "v_proj": kv_heads * D_HEAD}
    found = {f"{side}.weight": rng.normal(size=(width, E)) for side, width in wide.items()}
    found["o_proj.weight"] = rng.normal(size=(d_out, HEADS * D_HEAD))
    if biases:
        found |= {f"{side}.bias": rng.normal(size=width) for side, width in wide.items()}
        found["o_proj.bias"] = rng.normal(size=d_out)
    return found


LAYOUTS = {
    "grouped": (shared_heads.to_grouped, shared_heads.from_grouped),
    "fused": (shared_heads.to_fused, shared_heads.from_fused),
    "by group": (lambda *a: shared_heads.to_fused(*a, by_group=True),
                 lambda *a: shared_heads.from_fused(*a, by_group=True))}


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_way_back_returns_the_same_bits(name, biases, dtype, kv_heads):
    to, back = LAYOUTS[name]
    params = {key: array.astype(dtype) for key, array in
              parameters(biases, kv_heads, d_out=7).items()}
    found = back(to(params, HEADS, kv_heads), HEADS, kv_heads)
    assert {*found} == {*params}
    for key, array in params.items():
        assert found[key].dtype == dtype
        assert np.array_equal(found[key], array)
        assert not np.shares_memory(found[key], array)


@pytest.mark.parametrize("biases", [True, False])
def test_grouped_attention_is_the_reference(biases):
    params = parameters(biases)
    layer = GroupedAttention(E, HEADS, KV_HEADS, bias=biases, d_head=D_HEAD).double()
    weights.load(layer, shared_heads.to_grouped(params, HEADS, KV_HEADS))
    x = np.random.default_rng(1).normal(size=(2, 5, E))
    W = shared_heads.to_weight_set(params, HEADS, KV_HEADS)
    want, _ = reference.multi_head_attention(x, x, W, HEADS, masks.causal(5))
    assert difference(layer(torch.as_tensor(x)), want) < 1e-12


def test_grouped_attention_is_that_of_llama():
    config = transformers.LlamaConfig(
        hidden_size=24, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
        attention_bias=True, attn_implementation="eager")
    judge = LlamaAttention(config, 0).double()
    for n, p in enumerate(judge.parameters()):
        p.data = torch.as_tensor(np.random.default_rng(n).normal(size=p.shape))
    layer = GroupedAttention(24, HEADS, KV_HEADS).double()
    weights.load(layer, shared_heads.to_grouped(judge.state_dict(), HEADS, KV_HEADS))
    x = torch.as_tensor(np.random.default_rng(9).normal(size=(2, 5, 24)))
    angles = (torch.ones(1, 5, 4).double(), torch.zeros(1, 5, 4).double())  # no rotation
    ahead = torch.full((5, 5), -torch.inf, dtype=torch.float64).triu(1)
    want = judge(x, position_embeddings=angles, attention_mask=ahead)[0]
    assert difference(layer(x), want) < 1e-5  # its softmax is in float32


def test_fused_rows_by_group_are_those_of_falcon():
    config = transformers.FalconConfig(
        hidden_size=HEADS * D_HEAD, num_attention_heads=HEADS, num_kv_heads=KV_HEADS,
        new_decoder_architecture=True)
    rows = (HEADS + 2 * KV_HEADS) * D_HEAD
    split = FalconAttention(config, 0)._split_heads(torch.arange(rows)[None, None])  # q, k, v
    params = {"qkv_proj.weight": np.arange(rows)[:, None], "o_proj.weight": np.zeros((1, 24))}
    found = shared_heads.from_fused(params, HEADS, KV_HEADS, by_group=True)
    assert found["q_proj.weight"].ravel().tolist() == split[0].ravel().tolist()
    for side, theirs in zip("kv", split[1:], strict=True):
        once = theirs[0, 0].unflatten(0, (KV_HEADS, -1))[:, 0]  # it repeats the heads
        assert found[f"{side}_proj.weight"].ravel().tolist() == once.ravel().tolist()


@pytest.mark.parametrize(("new", "multi_query", "kv_heads"), [(True, True, 2), (False, True, 1)])
def test_the_layer_of_falcon(new, multi_query, kv_heads):
    config = transformers.FalconConfig(
        hidden_size=24, num_attention_heads=HEADS, num_kv_heads=kv_heads, bias=True,
        new_decoder_architecture=new, multi_query=multi_query, attn_implementation="sdpa")
    assert not config.alibi  # so it rotates by default
    judge = FalconAttention(config, 0).double().eval()
    for n, p in enumerate(judge.parameters()):
        p.data = torch.as_tensor(np.random.default_rng(n).normal(size=p.shape))
    names = {"query_key_value": "qkv_proj", "dense": "o_proj"}
    state = {f"{names[module]}.{kind}": p for (module, kind), p in
             ((name.split("."), p) for name, p in judge.state_dict().items())}
    params = shared_heads.from_fused(state, HEADS, kv_heads, by_group=True)
    x = np.random.default_rng(9).normal(size=(2, 5, 24))
    angles = (torch.ones(1, 5, 4).double(), torch.zeros(1, 5, 4).double())  # no rotation
    got = judge(torch.as_tensor(x), None, torch.as_tensor(masks.causal(5)),
                position_embeddings=angles)[0]
    W = shared_heads.to_weight_set(params, HEADS, kv_heads)
    want, _ = reference.multi_head_attention(x, x, W, HEADS, masks.causal(5))
    assert difference(got, want) < 1e-12


def test_plain_heads_are_read_by_from_linear():
    W = sizes.weights()
    params = weights.to_linear(W, weights.NAMES["llama"])
    assert [*params][:2] == ["q_proj.weight", "q_proj.bias"]
    found = shared_heads.to_weight_set(params, 3, 3)
    assert all(np.array_equal(found[name], W[name]) for name in W)


def test_names_that_do_not_fit_are_refused():
    params = parameters()
    needed = "expected q_proj.weight, k_proj.weight, v_proj.weight, o_proj.weight"
    expected = f"{needed}, and biases of q, k and v or of none of them, got "
    fewer = {name: array for name, array in params.items() if name != "k_proj.bias"}
    with raises(ValueError, expected + ", ".join(fewer)):
        shared_heads.to_grouped(fewer, HEADS, KV_HEADS)
    more = params | {"q_norm.weight": np.ones(D_HEAD)}
    with raises(ValueError, f"{expected}{', '.join(more)}; there is no place for q_norm.weight"):
        shared_heads.to_grouped(more, HEADS, KV_HEADS)
    model = {f"model.layers.0.{name}": array for name, array in params.items()}
    with raises(ValueError, f"{expected}{', '.join(model)}; these names follow the prefix "
                "'model.layers.0.': pass the parameters of one layer, without its prefix"):
        shared_heads.to_grouped(model, HEADS, KV_HEADS)
    with raises(ValueError, f"{needed.replace('expected', 'expected a dict with')}, got list"):
        shared_heads.to_grouped([*params.values()], HEADS, KV_HEADS)
    with raises(ValueError, "expected W_qkv.weight, W_o.weight and perhaps their biases, got "
                "qkv_proj.weight; to read those, use from_fused"):
        shared_heads.from_grouped({"qkv_proj.weight": np.zeros((4, 3))}, 2, 1)


FALCON = {"query_key_value.weight": np.zeros((40, 24)), "dense.weight": np.zeros((24, 24))}


@pytest.mark.parametrize(("params", "reader"), [
    (FALCON, "from_fused, with query_key_value renamed to qkv_proj and dense to o_proj, and for "
             "Falcon with by_group=True"),
    (shared_heads.to_fused(parameters(), HEADS, KV_HEADS), "from_fused"),
    (shared_heads.to_grouped(parameters(), HEADS, KV_HEADS), "from_grouped"),
    (sizes.weights(), "weights.to_linear and its NAMES['llama']"),
    (weights.to_linear(sizes.weights(), weights.NAMES["bart"]),
     "weights.from_linear, NAMES['bart']")])
def test_names_of_another_layout_are_recognised(params, reader):
    with pytest.raises(ValueError, match=r"^expected q_proj.weight") as caught:
        shared_heads.to_weight_set(params, HEADS, KV_HEADS)
    assert str(caught.value).endswith(f"; to read those, use {reader}")


def test_shapes_that_do_not_fit_are_refused():
    params = parameters()
    with raises(ValueError, "k_proj.weight must be (12, 10) for n_heads=6 and n_kv_heads=3, got "
                "(8, 10); it has 2 heads of 4 dimensions"):
        shared_heads.to_fused(params, HEADS, 3)
    with raises(ValueError, "n_kv_heads must divide n_heads=6, got n_kv_heads=4; possible: 1, 2, "
                "3, 6"):
        shared_heads.to_grouped(params, HEADS, 4)
    narrow = params | {"k_proj.weight": np.zeros((8, 9))}
    with raises(ValueError, "k_proj.weight must be (8, 10) for n_heads=6 and n_kv_heads=2, got "
                "(8, 9)"):
        shared_heads.to_grouped(narrow, HEADS, KV_HEADS)
    flat = params | {"v_proj.weight": np.zeros(8)}
    with raises(ValueError, "v_proj.weight must be (out, in), got (8,)"):
        shared_heads.to_grouped(flat, HEADS, KV_HEADS)


@pytest.mark.parametrize(("e", "d_head"), [(12, 2), (24, 4)])
def test_transposed_weights_are_recognised(e, d_head):
    shapes = {"q_proj": (6 * d_head, e), "k_proj": (2 * d_head, e), "v_proj": (2 * d_head, e),
              "o_proj": (e, 6 * d_head)}
    params = {f"{name}.weight": np.zeros(shape).T for name, shape in shapes.items()}
    with pytest.raises(ValueError, match=r"^k_proj.weight must be .*; as \(in, out\) it may fit: "
                                         r"is it transposed\?$"):
        shared_heads.to_weight_set(params, HEADS, KV_HEADS)


def test_numbers_of_heads_that_do_not_divide_are_refused():
    fused = shared_heads.to_fused(parameters(), HEADS, KV_HEADS)
    cause = "check the numbers of heads in the model's configuration"
    with raises(ValueError, "q_proj.weight has 24 rows, and n_heads=5 does not divide them: "
                            f"{cause}"):
        shared_heads.to_weight_set(parameters(), 5, 1)
    for by_group in False, True:
        with raises(ValueError, "qkv_proj.weight has 40 rows, and n_heads + 2 * n_kv_heads = 12 "
                                f"does not divide them: {cause}"):
            shared_heads.from_fused(fused, 6, 3, by_group)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_converted_shares_no_memory(name):
    params = parameters()
    for found in LAYOUTS[name][0](params, HEADS, KV_HEADS).values():
        assert not any(np.shares_memory(found, array) for array in params.values())


def test_the_arguments_stay_as_they_are():
    params = shared_heads.to_fused(parameters(), HEADS, KV_HEADS)
    before = {name: array.copy() for name, array in params.items()}
    shared_heads.from_fused(params, HEADS, KV_HEADS, by_group=True)
    assert all(np.array_equal(params[name], before[name]) for name in before)
