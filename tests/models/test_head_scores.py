"""Scores of heads, and ablation: against plain loops and changed weights."""

import copy
import math
import random

import numpy as np
import pytest
import torch

from utils import reference
from utils.models import head_scores
from utils.models.language_model import LanguageModel, bits

LAYERS, HEADS, D_MODEL, N, BATCH, KINDS = 2, 3, 12, 9, 4, 7


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = LanguageModel(KINDS, D_MODEL, HEADS, LAYERS).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return model.eval()


@pytest.fixture
def tokens():
    return torch.randint(KINDS, (BATCH, N), generator=torch.Generator().manual_seed(1))


def test_weights_are_those_that_the_layer_uses(model, tokens):
    weights = head_scores.all_weights(model, tokens)
    assert weights.shape == (LAYERS, BATCH, HEADS, N, N)
    layer = model.blocks[1].attention
    with head_scores.listening([layer]) as x, torch.no_grad():
        model(tokens)
        q, k, v = layer.heads_at(x[0], torch.arange(N))
        out = layer(x[0])
    causal = np.tri(N, dtype=bool)
    context, expected = reference.attention(q.numpy(), k.numpy(), v.numpy(), causal)
    assert np.abs(weights[1].numpy() - expected).max() < 1e-12
    out_expected = reference.merge_heads(context) @ layer.W_o.weight.detach().numpy().T
    assert np.abs(out.numpy() - out_expected).max() < 1e-12


def test_listening_ends_with_its_block_also_after_an_error(model, tokens):
    with pytest.raises(KeyError), head_scores.listening(model.blocks) as heard:
        raise KeyError
    model(tokens)
    assert heard == []


def test_what_is_heard_is_what_went_in():
    module, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    with head_scores.listening([module]) as heard:
        module(x)
    assert heard[0] is x


def test_a_score_is_the_mean_weight_on_the_target():
    rng = np.random.default_rng(0)
    weights = torch.as_tensor(rng.random((LAYERS, BATCH, HEADS, 5, 6)))
    target = torch.as_tensor(rng.random((BATCH, 5, 6)) < 0.2)
    target[1, 3] = False
    got = head_scores.score(weights, target)
    for layer in range(LAYERS):
        for h in range(HEADS):
            given = [sum(weights[layer, b, h, i, j].item() for j in range(6) if target[b, i, j])
                     for b in range(BATCH) for i in range(5) if target[b, i].any()]
            assert math.isclose(got[layer, h].item(), sum(given) / len(given), rel_tol=1e-12)


def test_a_target_that_is_the_same_for_all_texts_may_be_given_once():
    weights = torch.rand(LAYERS, BATCH, HEADS, 5, 5)
    target = head_scores.previous_character(5)
    assert torch.allclose(head_scores.score(weights, target),
                          head_scores.score(weights, target.expand(BATCH, 5, 5)))


def test_a_score_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no query has a target"):
        head_scores.score(torch.rand(1, 2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.bool))


def test_the_left_neighbour_is_the_target():
    expected = [[j == i - 1 for j in range(6)] for i in range(6)]
    assert head_scores.previous_character(6)[0].tolist() == expected


@pytest.mark.parametrize("period", [1, 2, 4])
def test_the_target_of_induction_holds_what_the_query_is_asked_for(period):
    n = 11
    text = (list(range(period)) * (n + 1))[:n + 1]
    target = head_scores.after_the_same(n, period)[0]
    for i in range(n):
        places = target[i].nonzero().flatten().tolist()
        assert places == ([i - period + 1] if i >= period else [])
        assert all(text[j] == text[i + 1] and j <= i for j in places)


def innermost(text, i):
    """Return the place of the bracket that is open at i, by cancelling pairs, or None."""
    left = [(place, character) for place, character in enumerate(text[:i + 1])
            if character in "()[]{}"]
    while True:
        for n in range(len(left) - 1):
            if left[n][1] + left[n + 1][1] in ("()", "[]", "{}"):
                del left[n:n + 2]
                break
        else:
            return max((place for place, character in left
                        if character in "([{" and place < i), default=None)


def test_brackets_are_found_as_by_cancelling_pairs():
    rng = random.Random(3)
    for _ in range(200):  # well nested: each closing bracket fits
        text, opened = "", []
        for _ in range(14):
            kind = rng.choice("x(([{)]}")
            if kind in ")]}":
                kind = {"(": ")", "[": "]", "{": "}"}[opened.pop()] if opened else "x"
            elif kind != "x":
                opened.append(kind)
            text += kind
        target = head_scores.open_bracket([text, "x" * 14])
        assert not target[1].any()
        for i in range(14):
            found = target[0, i].nonzero().flatten().tolist()
            expected = innermost(text, i)
            assert found == ([] if expected is None else [expected]), (text, i)


def test_a_closing_bracket_that_does_not_fit_is_ignored():
    target = head_scores.open_bracket(["a(b]c)d"])[0]
    assert target.nonzero().tolist() == [[2, 1], [3, 1], [4, 1]]


def test_mean_contexts_are_means_of_weights_times_values(model, tokens):
    got = head_scores.mean_contexts(model, tokens)
    weights = head_scores.all_weights(model, tokens)
    for n, block in enumerate(model.blocks):
        with head_scores.listening([block.attention]) as x, torch.no_grad():
            model(tokens)
            v = block.attention.heads_at(x[0], torch.arange(N))[2]
        assert torch.allclose(got[n], (weights[n] @ v).mean(dim=(0, 2)), atol=1e-12)


@pytest.mark.parametrize(("layer", "head"), [(0, 2), (1, 0)])
def test_a_head_that_hands_on_nothing_equals_columns_of_zeros(model, tokens, layer, head):
    other, d = copy.deepcopy(model), D_MODEL // HEADS
    with torch.no_grad():
        other.blocks[layer].attention.W_o.weight[:, head * d:(head + 1) * d] = 0
        with head_scores.ablated(model, layer, head):
            assert torch.allclose(model(tokens), other(tokens), atol=1e-12)


def test_a_head_that_hands_on_a_constant_equals_a_bias(model, tokens):
    value, d = torch.arange(4).double(), D_MODEL // HEADS
    layer = model.blocks[1].attention
    with torch.no_grad(), head_scores.listening([layer]) as x:
        whole = model(tokens)
        with head_scores.ablated(model, 1, 1, 0.0):
            none = layer(x[0])
        with head_scores.ablated(model, 1, 1, value):
            constant = layer(x[0])
            assert not torch.allclose(model(tokens), whole)
        added = layer.W_o.weight[:, d:2 * d] @ value
        assert torch.allclose(constant - none, added.expand_as(none), atol=1e-12)


def test_what_the_other_heads_handed_on_is_not_written_into(model, tokens):
    W_o = model.blocks[0].attention.W_o
    with torch.no_grad(), head_scores.listening([W_o]) as heard:
        model(tokens)
        with head_scores.ablated(model, 0, 1):
            model(tokens)
    assert torch.equal(heard[0], heard[1])  # heard before the hook that overwrites a copy


def test_a_head_works_again_afterwards_also_after_an_error(model, tokens):
    before = model(tokens)
    with pytest.raises(KeyError), head_scores.ablated(model, 0, 0):
        raise KeyError
    assert torch.equal(model(tokens), before)


def test_a_head_that_is_not_there_is_refused(model):
    for head in (-1, HEADS):
        with (pytest.raises(ValueError, match=rf"head must be in 0 \.\. 2, got {head}"),
              head_scores.ablated(model, 0, head)):
            pass


def test_bits_at_each_place_have_the_mean_of_the_whole(model, tokens):
    each = head_scores.bits_at(model, tokens)
    assert each.shape == (BATCH, N - 1)
    assert math.isclose(each.mean().item(), bits(model, tokens), rel_tol=1e-12)
    chances = model(tokens).softmax(dim=-1)
    cost = -math.log2(chances[2, 4, tokens[2, 5]].item())
    assert math.isclose(each[2, 4].item(), cost, rel_tol=1e-12)
    many = tokens.repeat(40, 1)  # more than one part
    assert torch.allclose(head_scores.bits_at(model, many), each.repeat(40, 1))


def test_bits_without_each_head_are_those_of_one_ablation_after_another(model, tokens):
    many = torch.cat([tokens] * 17)[:66]  # more than one part
    values = torch.randn(LAYERS, HEADS, D_MODEL // HEADS).double()
    got = head_scores.bits_without_each(model, many, values)
    assert got.shape == (LAYERS, HEADS, 66, N - 1)
    for layer, head in np.ndindex(LAYERS, HEADS):
        with head_scores.ablated(model, layer, head, values[layer, head]):
            expected = head_scores.bits_at(model, many)
        assert torch.allclose(got[layer, head], expected, atol=1e-12)
    assert not torch.allclose(got[1, 0], got[1, 1])


def test_what_lies_below_a_layer_is_computed_once(model, tokens):
    runs = []
    model.blocks[0].register_forward_hook(lambda *_: runs.append(0))
    model.blocks[1].register_forward_hook(lambda *_: runs.append(1))
    head_scores.bits_without_each(model, tokens, head_scores.mean_contexts(model, tokens))
    assert (runs.count(0), runs.count(1)) == (2 + HEADS, 2 + 2 * HEADS)


def test_the_interval_holds_the_mean_in_95_of_100_samples():
    rng = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(2000):
        mean, half = head_scores.interval(3 + 2 * torch.randn(50, generator=rng).double())
        held += abs(mean - 3) <= half
    assert 0.93 < held / 2000 < 0.96
    mean, half = head_scores.interval(torch.tensor([1.0, 2.0, 6.0]))
    assert mean == 3
    assert math.isclose(half, 1.96 * math.sqrt(7) / math.sqrt(3), rel_tol=1e-6)
