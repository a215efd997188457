"""Fewer heads of k and v: equal to the reference, and neither is ever copied."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from utils import masks, reference, sizes
from utils.attention.cache import Cache, CausalAttention, PreallocatedCache
from utils.attention.grouped import GroupedAttention, folded_attention, grouped_attention
from utils.checks import check_close, difference
from utils.doctor import examine
from utils.measure.counters import Allocations
from utils.models.language_model import LanguageModel, RotaryAttention
from utils.models.regrouped import GroupedRotary, regrouped

pytestmark = pytest.mark.usefixtures("float64")

PROGRAMS = {"folded": folded_attention, "grouped": grouped_attention}
KEEP = masks.padding([4, 7], 7)
KEEPS = {"none": None, "padding": KEEP, "window": masks.window(5, 7, left=3, align="bottom_right"),
         "of each head": np.random.default_rng(3).random((2, 6, 5, 7)) < 0.6,
         "an empty row": np.arange(5)[:, None] != np.full(7, 2)}


def tensors(seed=0, **size):
    size = {"heads": 6, "kv_heads": 2} | size
    return [torch.as_tensor(side).requires_grad_() for side in sizes.qkv(seed, **size)]


def made(keep):
    return None if keep is None else torch.as_tensor(keep)


def layer_of(kind, *args, seed=0, **kwargs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(*args, **kwargs)


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


# --- the kernels

@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_outputs_and_gradients_are_the_reference_s(program, kv_heads, keep):
    q, k, v = tensors(kv_heads=kv_heads)
    direction = random(2, 6, 5, 8, seed=9)
    context = program(q, k, v, made(keep))
    expected, _ = reference.attention(*(side.detach() for side in (q, k, v)), keep)
    assert difference(context, expected) < 1e-12
    grads = torch.autograd.grad((context * direction).sum(), (q, k, v))
    groups = [reference.repeat_heads(side.detach(), 6) for side in (k, v)]
    expected = reference.attention_gradient(q.detach(), *groups, direction, keep)
    expected = [expected[0], *(side.reshape(2, kv_heads, 6 // kv_heads, 7, -1).sum(axis=2)
                               for side in expected[1:])]
    assert max(difference(*pair) for pair in zip(grads, expected, strict=True)) < 1e-10


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5),
       st.integers(1, 6), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_any_sizes_give_what_the_reference_gives(batch, kv_heads, group, n_q, n_k, d, d_v, masked,
                                                 seed):
    q, k, v = tensors(seed, batch=batch, heads=kv_heads * group, kv_heads=kv_heads, n_q=n_q,
                      n_k=n_k, d_head=d, d_v=d_v)
    keep = np.random.default_rng(seed).random((batch, 1, n_q, n_k)) < 0.7 if masked else None
    expected, _ = reference.attention(*(side.detach() for side in (q, k, v)), keep)
    for program in PROGRAMS.values():
        assert difference(program(q, k, v, made(keep)), expected) < 1e-12


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_causal_is_the_mask_written_out(kv_heads):
    q, k, v = tensors(kv_heads=kv_heads, n_q=7, d_v=4)
    for keep in None, KEEP:
        past = masks.causal(7) if keep is None else masks.causal(7) & keep
        expected, _ = reference.attention(*(side.detach() for side in (q, k, v)), past)
        assert difference(grouped_attention(q, k, v, made(keep), causal=True), expected) < 1e-12


@pytest.mark.parametrize("n_q", [1, 5])
def test_causal_with_other_keys_than_queries_asks_for_the_corner(n_q):
    with pytest.raises(ValueError, match=rf"^causal=True requires n_q == n_k, got n_q={n_q} and"):
        grouped_attention(*tensors(n_q=n_q), causal=True)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_doctor_finds_them_healthy(program):
    assert examine(program, grouped=True, framework="torch", fully_masked="zeros").verdict == (
        "healthy")


@pytest.mark.parametrize("d_v", [16, 24])
@pytest.mark.parametrize("keep", [None, torch.ones(2, 1, 1, 500).bool()], ids=["bare", "masked"])
def test_decoding_copies_neither_keys_nor_values(keep, d_v):
    with torch.no_grad():
        q, k, v = tensors(n_q=1, n_k=500, d_head=16, d_v=d_v)
        with Allocations() as new:
            grouped_attention(q, k, v, keep)
    assert not any(shape[-2:] in ((500, 16), (500, d_v)) for _, shape, _ in new.made)
    assert new.largest <= (k.nbytes / 2 if d_v == 16 else k.nbytes)  # PyTorch scales k if d_v != d


def test_a_prompt_copies_neither_keys_nor_values():
    with torch.no_grad():
        q, k, v = tensors(n_q=50, n_k=50, d_head=16, d_v=16)
        with Allocations() as new:
            grouped_attention(q, k, v, causal=True)
    assert {shape for _, shape, _ in new.made} == {(2, 6, 50, 16), (2, 6, 50)}


@pytest.mark.parametrize(("kv_heads", "words"), [
    (4, "n_kv_heads must divide n_heads=6, got n_kv_heads=4; possible: 1, 2, 3, 6"),
    (12, "n_kv_heads must divide n_heads=6, got n_kv_heads=12")])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_heads_that_cannot_share_equally_are_refused(program, kv_heads, words):
    with pytest.raises(ValueError, match=words):
        program(*tensors(kv_heads=kv_heads))


@pytest.mark.parametrize("wrong", [
    lambda q, k, v: (q, k[0], k[0]), lambda q, k, v: (q, k, v[:, :1]),
    lambda q, k, v: (q, k[:, :, :6], v), lambda q, k, v: (q[:1], k, v)])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_shapes_that_do_not_fit_are_told(program, wrong):
    with pytest.raises(ValueError, match=r"q, k and v must|k and v must have"):
        program(*wrong(*tensors()))


# --- the layer

def explicit(layer, n_kv_heads):
    """Return a layer with as many heads of k and v as of q that is to do the same."""
    d_model, n_heads = layer.W_o.in_features, layer.n_heads
    full = layer_of(CausalAttention, d_model, n_heads, layer.window)
    with torch.no_grad():
        parts = [layer.W_qkv.weight.split(layer.widths), layer.W_qkv.bias.split(layer.widths)]
        repeated = [torch.cat([side[0], *(
            part.unflatten(0, (n_kv_heads, -1)).repeat_interleave(n_heads // n_kv_heads, 0)
            .flatten(0, 1) for part in side[1:])]) for side in parts]
        full.W_qkv.weight.copy_(repeated[0])
        full.W_qkv.bias.copy_(repeated[1])
        full.W_o.load_state_dict(layer.W_o.state_dict())
    return full


@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("n_kv_heads", [1, 2, 3, 6])
def test_the_layer_is_attention_with_repeated_matrices(n_kv_heads, window):
    layer = layer_of(GroupedAttention, 24, 6, n_kv_heads, window)
    full, x = explicit(layer, n_kv_heads), random(2, 7, 24)
    places = torch.tensor([[0, 1, -1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6]])
    assert layer.W_qkv.out_features == 24 + 2 * 4 * n_kv_heads
    assert difference(layer(x), full(x)) < 1e-12
    assert difference(layer(x, places), full(x, places)) < 1e-12


@pytest.mark.parametrize("bias", [True, False])
def test_as_many_heads_as_before_is_the_layer_as_before(bias):
    layer = layer_of(GroupedAttention, 24, 6, 6, bias=bias)
    old, x = CausalAttention(24, 6, bias=bias), random(2, 5, 24)
    old.load_state_dict(layer.state_dict())
    assert difference(layer(x), old(x)) < 1e-12


@st.composite
def texts(draw):
    """Return the sizes of a layer, a window, chunks, which words are real, and a seed."""
    n, batch = draw(st.integers(1, 9)), draw(st.integers(1, 3))
    chunks = np.diff([0, *sorted(draw(st.sets(st.integers(1, n))) | {n})]).tolist()
    real = draw(st.lists(st.booleans(), min_size=batch * n, max_size=batch * n))
    return {"kv_heads": draw(st.integers(1, 3)), "group": draw(st.integers(1, 3)),
            "window": draw(st.none() | st.integers(1, 10)), "chunks": chunks,
            "real": torch.tensor(real).view(batch, n), "seed": draw(st.integers(0, 99)),
            "spare": draw(st.integers(0, 4)), "plain": draw(st.booleans())}


def read(layer, x, chunks, cache, positions=None):
    """Return what a layer says to x, read in chunks."""
    where = [None] * len(chunks) if positions is None else positions.split(chunks, dim=-1)
    return torch.cat([layer(part, places, cache) for part, places in
                      zip(x.split(chunks, dim=1), where, strict=True)], dim=1)


def of(text):
    """Return the layer, its input and positions, for a drawn text."""
    heads = text["kv_heads"] * text["group"]
    layer = layer_of(GroupedAttention, 4 * heads, heads, text["kv_heads"], text["window"],
                     seed=text["seed"])
    real, x = text["real"], random(*text["real"].shape, 4 * heads, seed=text["seed"])
    places = None if text["plain"] else (real.cumsum(1) - 1).masked_fill(~real, -1)
    return layer, x.masked_fill(~real[..., None], 1e3), places


@settings(max_examples=100, deadline=None)
@given(texts())
def test_cached_decoding_equals_one_pass_and_the_explicit_layer(text):
    layer, x, places = of(text)
    cache = Cache(text["window"])
    found = read(layer, x, text["chunks"], cache, places)
    assert difference(found, layer(x, places)) < 1e-11
    assert difference(found, explicit(layer, text["kv_heads"])(x, places)) < 1e-11
    assert cache.held[0].shape[1] == text["kv_heads"]


@settings(max_examples=150, deadline=None)
@given(texts())
def test_a_preallocated_cache_gives_what_the_plain_one_gives(text):
    layer, x, places = of(text)
    n = x.shape[1]
    needed = n if text["window"] is None else max(
        n if not text["plain"] else 0, min(n, text["window"] + max(text["chunks"])))
    plain, roomy = Cache(text["window"]), PreallocatedCache(needed + text["spare"], text["window"])
    with torch.no_grad():
        want = read(layer, x, text["chunks"], plain, places)
        found = read(layer, x, text["chunks"], roomy, places)
    assert difference(found, want) < 1e-12
    assert roomy.next_positions(x).equal(plain.next_positions(x))
    if text["plain"] or text["window"] is None:  # no padding between: the same columns
        assert all(one.equal(other) for one, other in zip(roomy.held, plain.held, strict=True))


def test_a_cache_of_another_window_is_refused():
    with pytest.raises(ValueError, match=r"the layer has window=3, but its cache has window=None"):
        GroupedAttention(12, 6, 2, window=3)(random(1, 4, 12), cache=Cache())


def test_positions_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"for 2 sequences of 4 new tokens"):
        GroupedAttention(12, 6, 2)(random(2, 4, 12), torch.arange(3))


def test_a_number_of_shared_heads_that_does_not_divide_is_refused():
    with pytest.raises(ValueError, match="n_kv_heads must divide n_heads=6, got n_kv_heads=4"):
        GroupedAttention(12, 6, 4)


# --- a trained model, converted

def model_of(n_heads=6, seed=0):
    model = layer_of(LanguageModel, 11, seed=seed, d_model=24, n_heads=n_heads, n_layers=2)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)
        for part in model.parameters():
            nn.init.normal_(part, std=0.3)
    return model.eval()


TOKENS = torch.as_tensor(np.random.default_rng(0).integers(0, 11, (3, 9)))


def test_with_all_heads_nothing_changes():
    model = model_of()
    found = regrouped(model, 6, lambda heads: heads.mean(dim=1))
    assert difference(found(TOKENS), model(TOKENS)) < 1e-12
    assert not any(part.training for part in found.modules())


def test_a_model_whose_heads_are_alike_in_groups_loses_nothing():
    model = model_of()
    with torch.no_grad():
        for block in model.blocks:
            for side in block.attention.W_qkv.weight.chunk(3)[1:]:
                heads = side.view(2, 3, 4, 24)
                heads.copy_(heads[:, :1].clone().expand_as(heads))
    for pool in (lambda heads: heads.mean(dim=1)), (lambda heads: heads[:, 0]):
        assert difference(regrouped(model, 2, pool)(TOKENS), model(TOKENS)) < 1e-12
    assert difference(regrouped(model, 3, lambda heads: heads[:, 0])(TOKENS), model(TOKENS)) > 1e-3


def test_pooled_heads_are_the_means_of_neighbours():
    model = model_of()
    found = regrouped(model, 2, lambda heads: heads.mean(dim=1))
    old, new = (m.blocks[1].attention for m in (model, found))
    q, k, v = old.W_qkv.weight.chunk(3)
    assert new.W_qkv.weight[:24].equal(q)
    for side, start in (k, 24), (v, 32):
        want = (side[12:16] + side[16:20] + side[20:24]) / 3
        assert difference(new.W_qkv.weight[start + 4:start + 8], want) < 1e-12
    assert new.W_o.weight.equal(old.W_o.weight)
    assert new.gain.equal(old.gain)
    assert old.W_qkv.weight.shape == (72, 24)  # the old model is as it was


def test_the_weights_of_a_float64_model_are_kept_to_the_last_bit():
    old = model_of().double()
    torch.set_default_dtype(torch.float32)  # the fixture sets it back
    new = regrouped(old, 3, lambda heads: heads[:, 0])
    q, k, v = old.blocks[0].attention.W_qkv.weight.view(3, 6, 4, 24)
    got = new.blocks[0].attention.W_qkv.weight
    assert torch.equal(got[:24], q.flatten(0, 1))
    assert torch.equal(got[24:36], k[::2].flatten(0, 1))
    assert torch.equal(got[36:], v[::2].flatten(0, 1))


def test_no_text_and_one_query_give_nothing():
    q, k, v = random(0, 6, 1, 4), random(0, 3, 5, 4), random(0, 3, 5, 7)
    assert grouped_attention(q, k, v).shape == (0, 6, 1, 7)


def test_a_converted_model_writes_through_its_cache():
    found = regrouped(model_of(), 3, lambda heads: heads.mean(dim=1))
    caches = found.caches()
    parts = [found(part, caches=caches) for part in TOKENS.split([4, 3, 1, 1], dim=1)]
    assert difference(torch.cat(parts, dim=1), found(TOKENS)) < 1e-11
    assert caches[0].held[0].shape == (3, 3, 9, 4)


def test_grouped_rotary_with_all_heads_is_the_rotary_layer():
    new, old = layer_of(GroupedRotary, 24, 6, 6), RotaryAttention(24, 6)
    assert (new.gain == 2).all()
    old.load_state_dict(new.state_dict())
    x = random(2, 5, 24)
    assert difference(new(x), old(x)) < 1e-12


@pytest.mark.parametrize("bias", [True, False])
def test_heads_may_be_wider_than_their_share_of_the_model(bias):
    torch.manual_seed(0)
    layer = GroupedAttention(8, 4, 2, bias=bias, d_head=6).double()
    assert (layer.W_o.weight.shape, layer.W_o.bias is not None) == ((8, 24), bias)
    x = torch.randn(2, 5, 8, dtype=torch.float64, requires_grad=True)
    q, k, v = layer.project(x)
    k, v = k.repeat_interleave(2, dim=1), v.repeat_interleave(2, dim=1)
    scores = (q @ k.mT / math.sqrt(6)).masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    want = layer.W_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
    check_close(layer(x), want)
    upstream = torch.randn(2, 5, 8).double()
    check_close(*(torch.autograd.grad((out * upstream).sum(), x, retain_graph=True)[0]
                  for out in (layer(x), want)))
