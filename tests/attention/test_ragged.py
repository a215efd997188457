"""Ragged batches: equal to each sequence by itself, with outputs, gradients and outside judges."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch.nn.attention.flex_attention import create_mask
from transformers import LlamaConfig
from transformers.generation.continuous_batching.utils import build_attention_mask
from transformers.masking_utils import create_causal_mask

from utils import masks, reference
from utils.attention.ragged import (
    owners,
    ragged_attention,
    ragged_keep,
    starts,
    token_positions,
    tree_keep,
)
from utils.attention.torch import attention
from utils.checks import difference

CASES = {  # new tokens and keys of each sequence
    "prompts": ([7, 2, 4], [7, 2, 4]), "chunks": ([3, 1, 4], [5, 6, 4]),
    "decoding": ([1, 1, 1], [4, 9, 1]), "one idle": ([2, 0, 3], [2, 5, 4]), "alone": ([3], [5])}


def rows(n_q, n_k, seed=0, heads=6, kv_heads=2):
    rng = np.random.default_rng(seed)
    return [torch.as_tensor(rng.standard_normal(shape)).requires_grad_()
            for shape in ((heads, n_q, 4), (kv_heads, n_k, 4), (kv_heads, n_k, 8))]


def one_by_one(q, k, v, n_queries, n_keys, causal, grad_out):
    """Return the context and the gradients by the reference, each sequence by itself."""
    q, k, v = (side.detach().numpy() for side in (q, k, v))
    group = len(q) // len(k)
    k, v = (np.repeat(side, group, axis=0) for side in (k, v))
    parts = []
    for sides in zip(*(np.split(side, np.cumsum(n)[:-1], axis=1) for side, n in (
            (q, n_queries), (k, n_keys), (v, n_keys), (grad_out.numpy(), n_queries))), strict=True):
        one_q, one_k, one_v, one_grad = sides
        i, j = one_q.shape[1], one_k.shape[1]
        keep = masks.causal(i, j, "bottom_right") if causal and i else None
        parts.append((reference.attention(one_q, one_k, one_v, keep)[0],
                      *reference.attention_gradient(one_q, one_k, one_v, one_grad, keep)))
    context, d_q, d_k, d_v = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    d_k, d_v = (side.reshape(-1, group, *side.shape[1:]).sum(axis=1) for side in (d_k, d_v))
    return context, d_q, d_k, d_v


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_context_and_gradients_are_those_of_each_sequence_by_itself(case, causal):
    n_queries, n_keys = CASES[case]
    sides = rows(sum(n_queries), sum(n_keys))
    context = ragged_attention(*sides, starts(n_queries), starts(n_keys), causal)
    grad_out = torch.randn(context.shape, generator=torch.Generator().manual_seed(1)).double()
    found = context, *torch.autograd.grad(context, sides, grad_out)
    want = one_by_one(*sides, n_queries, n_keys, causal, grad_out)
    for got, expected in zip(found, want, strict=True):
        assert got.shape == expected.shape
        assert difference(got, expected) < 1e-12


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_the_mask_over_the_whole_row_gives_the_same(case, causal):
    n_queries, n_keys = map(starts, CASES[case])
    q, k, v = (side.detach() for side in rows(int(n_queries[-1]), int(n_keys[-1]), kv_heads=6))
    keep = ragged_keep(n_queries, n_keys, causal)
    assert keep.dtype == torch.bool
    want, _ = attention(q, k, v, keep)
    assert difference(ragged_attention(q, k, v, n_queries, n_keys, causal), want) < 1e-12


def test_without_starts_of_the_keys_they_are_those_of_the_queries():
    where = starts([3, 1, 2])
    sides = rows(6, 6)
    assert ragged_attention(*sides, where).equal(ragged_attention(*sides, where, where))
    assert ragged_keep(where).equal(ragged_keep(where, where))


def test_keys_without_queries_are_fully_masked_or_ignored():
    q, k, v = rows(3, 4)
    context = ragged_attention(q, k, v, starts([2, 1]), starts([4, 0]), causal=False)
    assert (context[:, 2] == 0).all()
    grads = torch.autograd.grad(context.sum(), (q, k, v))
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[0][:, 2] == 0).all()


def test_another_sequence_changes_nothing_at_all():
    q, k, v = (side.detach() for side in rows(6, 6))
    before = ragged_attention(q, k, v, starts([3, 3]))
    q[:, 3:], k[:, 3:], v[:, 3:] = 9.0, torch.nan, torch.inf
    assert ragged_attention(q, k, v, starts([3, 3]))[:, :3].equal(before[:, :3])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.data())
def test_owners_and_positions_are_those_of_a_loop(lengths, data):
    held = data.draw(st.lists(st.integers(0, 9), min_size=len(lengths), max_size=len(lengths)))
    where = starts(lengths)
    assert where.tolist() == [sum(lengths[:b]) for b in range(len(lengths) + 1)]
    pairs = [(b, held[b] + t) for b, n in enumerate(lengths) for t in range(n)]
    assert owners(where).tolist() == [b for b, _ in pairs]
    assert token_positions(where, held).tolist() == [position for _, position in pairs]
    assert token_positions(where).tolist() == [t for n in lengths for t in range(n)]
    assert token_positions(where, 3).tolist() == [t + 3 for n in lengths for t in range(n)]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4),
       st.booleans())
def test_the_mask_is_that_of_a_loop(sequences, causal):
    n_queries, n_keys = [n for n, _ in sequences], [n + more for n, more in sequences]
    queries = [(b, more + t) for b, (n, more) in enumerate(sequences) for t in range(n)]
    keys = [(b, t) for b, n in enumerate(n_keys) for t in range(n)]
    want = [[a == b and (p >= t or not causal) for b, t in keys] for a, p in queries]
    keep = ragged_keep(starts(n_queries), starts(n_keys), causal)
    assert keep.shape == (len(queries), len(keys))
    assert keep.tolist() == want


# --- judges from outside

@pytest.mark.parametrize("case", CASES)
def test_the_mask_is_that_of_transformers_continuous_batching(case):
    n_queries, n_keys = map(starts, CASES[case])
    mask = torch.full((1, 1, int(n_queries[-1]), int(n_keys[-1])), torch.finfo(torch.float32).min)
    build_attention_mask(mask, n_queries.tolist(), n_keys.tolist())
    assert (mask[0, 0] == 0).equal(ragged_keep(n_queries, n_keys))


def test_the_mask_is_that_of_transformers_for_positions_that_start_anew():
    where = starts([3, 1, 4])
    config = LlamaConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, vocab_size=9)
    config._attn_implementation = "eager"
    mask = create_causal_mask(config=config, inputs_embeds=torch.zeros(1, 8, 8),
                              attention_mask=None, past_key_values=None,
                              position_ids=token_positions(where)[None])
    assert (mask[0, 0] == 0).equal(ragged_keep(where))


def test_the_mask_is_that_of_flex_attention():
    where = starts([3, 1, 4])
    own = owners(where)
    keep = create_mask(lambda b, h, i, j: (own[i] == own[j]) & (j <= i), None, None, 8, 8, "cpu")
    assert keep[0, 0].equal(ragged_keep(where))


# --- trees

def path(parents, i):
    """Return the tokens from the root to token i."""
    return [i] if parents[i] < 0 else [*path(parents, parents[i]), i]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8), st.integers(0, 4))
def test_a_token_of_a_tree_attends_to_the_text_and_its_path(numbers, held):
    parents = [number % (i + 1) - 1 for i, number in enumerate(numbers)]
    keep = tree_keep(parents, held)
    assert keep.dtype == torch.bool
    assert keep[:, :held].all()
    for i in range(len(parents)):
        assert keep[i, held:].nonzero()[:, 0].tolist() == sorted(path(parents, i))
        assert keep[i].sum() - 1 == held + len(path(parents, i)) - 1  # its position


def test_each_path_of_a_tree_gives_what_a_plain_pass_gives():
    parents, held = [-1, -1, 0, 0, 2, 1], 3
    q, k, v = (side.detach() for side in rows(9, 9, kv_heads=6))
    context, _ = attention(q[:, held:], k, v, tree_keep(parents, held))
    for i in range(len(parents)):
        own = [*range(held), *(held + n for n in path(parents, i))]
        want, _ = reference.attention(q[:, own], k[:, own], v[:, own], masks.causal(len(own)))
        assert difference(context[:, i], want[:, -1]) < 1e-12


def test_a_chain_is_the_causal_mask():
    assert tree_keep(range(-1, 4), 2).equal(torch.as_tensor(masks.causal(5, 7, "bottom_right")))


# --- what is refused

Q, K, V = (side.detach() for side in rows(6, 6))


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: starts([3, -1]), ValueError, r"lengths must be \(b,\), at least one, each 0 or more"),
    (lambda: starts([[3, 1]]), ValueError, r"lengths must be \(b,\)"),
    (lambda: starts([1.5]), TypeError, "lengths must be integers, got float64"),
    (lambda: owners([1, 3]), ValueError, r"starts must be \(b \+ 1,\): 0, then"),
    (lambda: owners([0, 3, 2]), ValueError, r"call starts\(lengths\)"),
    (lambda: owners([0]), ValueError, "starts must be"),
    (lambda: token_positions([0, 3], [1, 2]), ValueError, r"held must be one number, or \(1,\)"),
    (lambda: token_positions([0, 3], -1), ValueError, "held"),
    (lambda: token_positions([0, 3], 0.5), TypeError, "held must be integers"),
    (lambda: ragged_keep([0, 3], [0, 3, 4]), ValueError, "equally many sequences, got 1 and 2"),
    (lambda: ragged_keep([0, 3, 5], [0, 3, 4]), ValueError, "sequence 1 has 2 queries and 1 keys"),
    (lambda: ragged_attention(Q, K, V, [0, 5]), ValueError, "q_starts ends at 5, but q has 6"),
    (lambda: ragged_attention(Q, K, V, [0, 6], [0, 7]), ValueError, "k_starts ends at 7, but k"),
    (lambda: ragged_attention(Q, K, V, [0, 6, 3]), ValueError, "q_starts must be"),
    (lambda: ragged_attention(Q[None], K, V, [0, 6]), ValueError, "q must be (heads, tokens, d)"),
    (lambda: ragged_attention(Q, K.numpy(), V, [0, 6]), TypeError, "k must be a PyTorch tensor"),
    (lambda: ragged_attention(Q, K, V.float(), [0, 6]), TypeError, "v is float32"),
    (lambda: ragged_attention(Q, K, V[:, :5], [0, 6]), ValueError, "v has 5"),
    (lambda: ragged_attention(Q[:5], K, V, [0, 6]), ValueError, "n_kv_heads must divide n_heads=5"),
    (lambda: ragged_attention(Q[:, :0], K[:, :0], V[:, :0], [0, 0]), ValueError, "one token"),
    (lambda: tree_keep([0]), ValueError, "token 0 has parent 0"),
    (lambda: tree_keep([-1, -2]), ValueError, "token 1 has parent -2"),
    (lambda: tree_keep([]), (ValueError, TypeError), "parents must be"),
    (lambda: tree_keep([-1], -1), ValueError, "held must be at least 0"),
    (lambda: tree_keep([-1.0]), TypeError, "parents must be integers")])
def test_bad_input_is_refused_by_name(call, error, said):
    with pytest.raises(error) as caught:
        call()
    assert said.replace("\\", "") in str(caught.value)


def test_without_a_cache_a_tree_sees_its_own_tokens_only():
    assert tree_keep([-1, 0, 0]).equal(tree_keep([-1, 0, 0], 0))
    assert tree_keep([-1, 0, 0]).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
