"""The faulty layer: without a switch the reference, and each switch does what it says."""

import numpy as np
import pytest
import torch

from utils import masks, reference, sizes
from utils.checks import difference
from utils.doctor import faulty
from utils.doctor.faulty.kernel import Masking
from utils.parity import weights

X, MEMORY = sizes.sides()
W = sizes.weights()
KEEP = masks.padding([7, 3], 7)
SAME, OTHER = sizes.sides(d_in=12)
SQUARE = sizes.weights(1, d_in=12, d_out=12)
Q, K, V = reference.project(X, MEMORY, W, 3)


def layer(x=X, memory=MEMORY, held=W, keep=KEEP, **settings):
    return faulty.layer.layer(x, memory, held, 3, keep, **settings)


def right(x=X, memory=MEMORY, held=W, keep=KEEP):
    return reference.multi_head_attention(x, memory, held, 3, keep)[0]


def out_of(context, held=W):
    return context @ held["W_o"] + held["b_o"]


@pytest.mark.parametrize("keep", [None, KEEP, masks.causal(5, 7, "top_left")],
                         ids=["none", "padding", "causal"])
def test_without_a_switch_it_is_the_reference(keep):
    assert difference(layer(keep=keep), right(keep=keep)) < 1e-15


def test_the_kernel_has_its_switches():
    got = layer(masking=Masking("ignore", "keep"))
    assert difference(got, right(keep=None)) < 1e-15


def torn(x):
    return torch.tensor(reference.merge_heads(x)).view(len(x), 3, x.shape[2], 4).numpy()


def test_a_split_without_transpose_tears_the_heads():
    for letters, heads in (("qkv", (torn(Q), torn(K), torn(V))), ("k", (Q, torn(K), V))):
        context, _ = reference.attention(*heads, KEEP)
        got = layer(torn=letters)
        assert difference(got, out_of(reference.merge_heads(context))) < 1e-15


def test_a_merge_without_transpose_mixes_the_tokens():
    context, _ = reference.attention(Q, K, V, KEEP)
    got = layer(merge=False)
    assert difference(got, out_of(torch.tensor(context).reshape(2, 5, 12).numpy())) < 1e-15


def test_both_together_is_a_layer_of_torn_heads():
    context, _ = reference.attention(torn(Q), torn(K), torn(V), KEEP)
    got = layer(torn="qkv", merge=False)
    assert difference(got, out_of(context.reshape(2, 5, 12))) < 1e-15


@pytest.mark.parametrize("letters", ["q", "v", "o", "vo"])
def test_a_missing_bias_is_zero(letters):
    held = W | {f"b_{letter}": 0 * W[f"b_{letter}"] for letter in letters}
    assert difference(layer(unbiased=letters), right(held=held)) < 1e-15


@pytest.mark.parametrize("letters", ["q", "ko", "qkvo"])
def test_a_transposed_weight_is_transposed(letters):
    held = SQUARE | {f"W_{letter}": SQUARE[f"W_{letter}"].T for letter in letters}
    got = layer(SAME, OTHER, SQUARE, transposed=letters)
    assert difference(got, right(SAME, OTHER, held)) < 1e-15


def test_a_norm_comes_first_with_its_epsilon():
    for settings, epsilon in (({}, 1e-5), ({"epsilon": 0.5}, 0.5)):
        sides = [torch.nn.functional.layer_norm(torch.tensor(side), (11,), eps=epsilon).numpy()
                 for side in (X, MEMORY)]
        assert difference(layer(norm=-1, **settings), right(*sides)) < 1e-14


def test_packed_weights_are_read_in_another_order():
    held = W | {f"{kind}_{role}": W[f"{kind}_{letter}"] for kind in "Wb"
                for role, letter in (("q", "v"), ("k", "q"), ("v", "k"))}
    assert difference(layer(order="vqk"), right(held=held)) < 1e-15


@pytest.mark.parametrize("heads", [2, 6])
def test_packing_that_is_read_the_other_way_round_is_interleaved(heads):
    flat = weights.to_linear(W, ("q", "k", "v", "o"))
    packed = {kind: np.concatenate([flat[f"{n}.{kind}"] for n in "qkv"])
              for kind in ("weight", "bias")}
    rest = {f"dense.{kind}": flat[f"o.{kind}"] for kind in packed}
    held = weights.from_interleaved(
        {f"query_key_value.{kind}": array for kind, array in packed.items()} | rest, heads)
    got = faulty.layer.layer(X, MEMORY, W, heads, reading=((1, 0, 2), False))
    assert difference(got, reference.multi_head_attention(X, MEMORY, held, heads)[0]) < 1e-14
    half = faulty.layer.layer(X, MEMORY, W, heads, reading=((1, 0, 2), False, "kv"))
    mine = dict(W)
    for kind in "Wb":
        pair = np.concatenate([W[f"{kind}_k"], W[f"{kind}_v"]], axis=-1)
        pair = pair.reshape(*pair.shape[:-1], heads, 2, -1)
        mine |= {f"{kind}_{letter}": pair[..., n, :].reshape(*pair.shape[:-3], 12)
                 for n, letter in enumerate("kv")}
    assert difference(half, reference.multi_head_attention(X, MEMORY, mine, heads)[0]) < 1e-14
    back = faulty.layer.layer(X, MEMORY, held, heads, reading=((1, 0, 2), True))
    assert difference(back, reference.multi_head_attention(X, MEMORY, W, heads)[0]) < 1e-14


def test_a_shared_head_is_every_head():
    for letters in ("qkv", "kv"):
        heads = [x[:, [1, 1, 1]] if letter in letters else x
                 for letter, x in zip("qkv", (Q, K, V), strict=True)]
        context, _ = reference.attention(*heads, KEEP)
        got = layer(shared=(1, letters))
        assert difference(got, out_of(reference.merge_heads(context))) < 1e-15


def test_a_shared_head_may_share_its_mask():
    some = np.random.default_rng(0).random((2, 3, 5, 7)) < 0.6
    some[..., 0] = True
    heads = [x[:, [1, 1, 1]] for x in (Q, K, V)]
    for letters, keep in (("qkv", some), ("qkv mask", some[:, [1, 1, 1]])):
        context, _ = reference.attention(*heads, keep)
        got = faulty.layer.layer(X, MEMORY, W, 3, some, shared=(1, letters))
        assert difference(got, out_of(reference.merge_heads(context))) < 1e-15


@pytest.mark.parametrize(("where", "blocks"), [
    ("own", ((0, 0), (1, 1), (2, 2))), ("first", ((0, 0),) * 3),
    ("rows", ((0, 0), (0, 1), (0, 2)))])
def test_an_input_that_is_split_first_meets_a_square_of_the_weight(where, blocks):
    heads = []
    for side, letter in ((SAME, "q"), (OTHER, "k"), (OTHER, "v")):
        parts = [slice(4 * n, 4 * n + 4) for n in range(3)]
        W_own, b_own = SQUARE[f"W_{letter}"], SQUARE[f"b_{letter}"]
        heads.append(np.stack([side[..., parts[n]] @ W_own[parts[row], parts[column]]
                               + b_own[parts[column]] for n, (row, column) in enumerate(blocks)],
                              axis=1))
    context, _ = reference.attention(*heads, KEEP)
    assert difference(layer(SAME, OTHER, SQUARE, input_split=where),
                      out_of(reference.merge_heads(context), SQUARE)) < 1e-15


@pytest.mark.parametrize(("out", "bias"), [("", 0), ("b_o", 1)])
def test_without_w_o_the_heads_are_returned_side_by_side(out, bias):
    context, _ = reference.attention(*reference.project(SAME, OTHER, SQUARE, 3), KEEP)
    got = layer(SAME, OTHER, SQUARE, out=out)
    assert difference(got, reference.merge_heads(context) + bias * SQUARE["b_o"]) < 1e-15


def test_a_layer_norm_comes_first_and_runs_along_its_axis():
    for axis in (-1, 1):
        normal = [(x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5)
                  for x in (X, MEMORY)]
        assert difference(layer(norm=axis), right(*normal)) < 1e-14


def test_swapped_axes_let_examples_attend_to_each_other():
    x = MEMORY[:, :4]
    got = layer(x, x, keep=None, swapped=True)
    apart = [right(x[:, [n]].swapaxes(0, 1), x[:, [n]].swapaxes(0, 1), keep=None)
             for n in range(4)]
    assert difference(got, np.concatenate(apart).swapaxes(0, 1)) < 1e-14


@pytest.mark.parametrize(("name", "expected"), [
    ("in the first head only", lambda b, h: KEEP[b, 0] if h == 0 else True),
    ("not in the first head", lambda b, h: KEEP[b, 0] if h != 0 else True),
    ("not in the last head", lambda b, h: KEEP[b, 0] if h != 2 else True),
    ("in the first example only", lambda b, h: KEEP[b, 0] if b == 0 else True),
    ("not in the first example", lambda b, h: KEEP[b, 0] if b != 0 else True),
    ("not in the last example", lambda b, h: KEEP[b, 0] if b != 1 else True),
    ("tiled over folded heads", lambda b, h: KEEP[(3 * b + h) % 2, 0]),
    ("repeated over tiled heads", lambda b, h: KEEP[(2 * h + b) // 3, 0]),
    ("in the last head only", lambda b, h: KEEP[b, 0] if h == 2 else True),
    ("in the last example only", lambda b, h: KEEP[b, 0] if b == 1 else True),
    ("of the first example", lambda b, h: KEEP[0, 0]),
    ("of the last example", lambda b, h: KEEP[1, 0]),
    ("of the example before", lambda b, h: KEEP[b - 1, 0]),
    ("of the example after", lambda b, h: KEEP[(b + 1) % 2, 0])])
def test_a_mask_is_used_by_the_wrong_heads_or_examples(name, expected):
    keep = np.array([[np.broadcast_to(expected(b, h), (5, 7)) for h in range(3)]
                     for b in range(2)])
    assert difference(layer(mask_fault=name), right(keep=keep)) < 1e-15


def test_a_mask_on_the_queries_hides_them():
    keep = np.broadcast_to(KEEP, (2, 1, 7, 7)).swapaxes(2, 3)
    got = layer(MEMORY, MEMORY, mask_fault="on the queries")
    assert difference(got, right(MEMORY, MEMORY, keep=keep)) < 1e-15
