"""A cache gives what one pass gives, in any chunks, with padding and windows."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from utils import masks, reference
from utils.attention.cache import Cache, CausalAttention, visible
from utils.attention.positions import rotary, rotate
from utils.checks import difference
from utils.parity.weights import from_qkv_module

pytestmark = pytest.mark.usefixtures("float64")


class Rotary(CausalAttention):
    """Attention that is told where its words stand."""

    def heads_at(self, x, positions):
        q, k, v = self.project(x)
        angles = rotary(positions[..., None, :].double(), q.shape[-1])
        return rotate(q, *angles), rotate(k, *angles), v


def in_chunks(layer, x, chunks, positions=None):
    cache, outputs, end = Cache(layer.window), [], 0
    for new in chunks:
        part = slice(end, end := end + new)
        where = None if positions is None else positions[..., part]
        outputs.append(layer(x[:, part], where, cache))
    return torch.cat(outputs, dim=1), cache


def counted(real):
    return (real.cumsum(1) - 1).masked_fill(~real, -1)


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def layer_of(kind, *sizes, seed=0, **kwargs):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(*sizes, **kwargs)


# --- who is visible

def test_a_query_sees_its_own_position_and_what_stands_before():
    keep = visible(torch.tensor([3, 4]), torch.arange(6))
    assert keep.int().tolist() == [[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0]]


def test_order_in_the_array_makes_no_difference():
    keep = visible(torch.tensor([2]), torch.tensor([4, 0, 3, 2, 1]))
    assert keep.int().tolist() == [[0, 1, 0, 1, 1]]


def test_a_window_counts_positions_the_query_s_own_included():
    keep = visible(torch.tensor([2, 5]), torch.arange(6), window=3)
    assert keep.int().tolist() == [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]]


@pytest.mark.parametrize("window", [None, 9])
def test_padding_is_nobody_s_and_sees_nobody(window):
    where = torch.tensor([[-1, 0, 1], [0, -1, 1]])
    keep = visible(where, where, window)
    assert keep.shape == (2, 1, 3, 3)
    assert keep[:, 0].int().tolist() == [[[0, 0, 0], [0, 1, 0], [0, 1, 1]],
                                         [[1, 0, 0], [0, 0, 0], [1, 0, 1]]]


def test_one_form_of_positions_meets_the_other():
    queries, keys = torch.arange(3, 5), torch.tensor([[0, 1, 2, 3, 4], [-1, -1, 2, 3, 4]])
    assert visible(queries, keys).equal(visible(queries.expand(2, 2), keys))


# --- one pass

@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_one_pass_is_the_reference(window, bias):
    layer, x = layer_of(CausalAttention, 12, 3, window=window, bias=bias), random(2, 7, 12)
    assert all((part.bias is not None) == bias for part in (layer.W_qkv, layer.W_o))
    keep = masks.causal(7) if window is None else masks.window(7, 7, left=window - 1)
    expected, _ = reference.multi_head_attention(x, x, from_qkv_module(layer.state_dict()), 3, keep)
    assert difference(layer(x), expected) < 1e-12
    assert difference(in_chunks(layer, x, [4, 1, 2])[0], expected) < 1e-12


def test_the_loops_agree_with_three_chunks():
    layer, x = layer_of(CausalAttention, 6, 3), random(2, 5, 6)
    q, k, v = (side.detach().numpy() for side in layer.project(x))
    heads = [[reference.attention_loops(*one, masks.causal(5)) for one in zip(*text, strict=True)]
             for text in zip(q, k, v, strict=True)]
    expected = layer.W_o(torch.as_tensor(reference.merge_heads(np.array(heads))))
    assert difference(in_chunks(layer, x, [2, 2, 1])[0], expected) < 1e-12


def test_padding_gets_the_bias_of_the_last_layer():
    layer, x = layer_of(Rotary, 12, 3), random(2, 4, 12)
    out = layer(x, torch.tensor([[-1, -1, 0, 1], [0, -1, 1, 2]]))
    assert (out[0, :2] == layer.W_o.bias).all()
    assert (out[1, 1] == layer.W_o.bias).all()


def test_it_never_looks_ahead():
    layer, x = layer_of(CausalAttention, 12, 3), random(1, 6, 12)
    jacobian = torch.autograd.functional.jacobian(lambda x: in_chunks(layer, x, [2, 3, 1])[0], x)
    heard = jacobian.abs().amax(dim=(0, 2, 3, 5))  # (i, j)
    assert (heard > 0).equal(torch.ones(6, 6).tril() > 0)


# --- any chunks

@st.composite
def texts(draw):
    """Return the sizes of a layer, a window, chunks, which words are real, and a seed."""
    n = draw(st.integers(1, 9))
    cuts = draw(st.sets(st.integers(1, n)))
    chunks = np.diff([0, *sorted(cuts | {n})]).tolist()
    batch = draw(st.integers(1, 3))
    real = draw(st.lists(st.booleans(), min_size=batch * n, max_size=batch * n))
    if draw(st.booleans()):  # on the left, as prompts are padded
        real = [i >= start for start in draw(st.lists(st.integers(0, n), min_size=batch,
                                                      max_size=batch)) for i in range(n)]
    return {"heads": draw(st.integers(1, 3)), "d": 2 * draw(st.integers(1, 3)),
            "window": draw(st.none() | st.integers(1, 10)), "chunks": chunks,
            "real": torch.tensor(real).view(batch, n), "seed": draw(st.integers(0, 99))}


@settings(max_examples=150, deadline=None)
@given(texts())
def test_cached_decoding_equals_one_pass(text):
    heads, real, window, chunks = (text[key] for key in ("heads", "real", "window", "chunks"))
    layer = layer_of(Rotary, heads * text["d"], heads, window, seed=text["seed"])
    x = random(*real.shape, heads * text["d"], seed=text["seed"])
    loud = x.masked_fill(~real[..., None], 1e3).requires_grad_()
    direction = random(*x.shape, seed=text["seed"] + 1).masked_fill(~real[..., None], 0)
    found, cache = in_chunks(layer, loud, chunks, counted(real))
    whole = layer(loud, counted(real))
    assert difference(found[real], whole[real]) < 1e-12
    for b in range(len(real)):  # padding is as good as absent
        assert difference(found[b, real[b]], layer(x[b:b + 1, real[b]])[0]) < 1e-12
    grads = [torch.autograd.grad((out * direction).sum(), (loud, *layer.parameters()))
             for out in (found, whole)]
    assert max(difference(*pair) for pair in zip(*grads, strict=True)) < 1e-10
    if window is not None:
        assert len(cache) <= window * len(real)


@settings(max_examples=50, deadline=None)
@given(texts())
def test_by_default_positions_go_on_where_the_cache_ends(text):
    heads, window, chunks = text["heads"], text["window"], text["chunks"]
    layer = layer_of(Rotary, heads * text["d"], heads, window, seed=text["seed"])
    x = random(*text["real"].shape, heads * text["d"], seed=text["seed"])
    assert difference(in_chunks(layer, x, chunks)[0], layer(x)) < 1e-12


def test_after_a_padded_prompt_each_text_goes_on_by_itself():
    layer, x = layer_of(Rotary, 12, 3), random(2, 7, 12)
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 0]]).bool()
    cache = Cache()
    layer(x[:, :5], counted(real), cache)
    assert cache.next_positions(x[:, 5:]).tolist() == [[3, 4], [4, 5]]
    out = layer(x[:, 5:], cache=cache)
    for b in range(2):
        alone = torch.cat([x[b, :5][real[b]], x[b, 5:]])[None]
        assert difference(out[b], layer(alone)[0, -2:]) < 1e-12


def test_several_layers_upon_each_other_agree_too():
    layers = [layer_of(Rotary, 12, 3, seed=n) for n in range(3)]
    x, caches = random(2, 8, 12), [Cache() for _ in layers]

    def read(x, caches=(None,) * 3):
        for layer, cache in zip(layers, caches, strict=True):
            x = x + layer(x, cache=cache)
        return x

    parts = [read(part, caches) for part in x.split([3, 1, 2, 2], dim=1)]
    assert difference(torch.cat(parts, dim=1), read(x)) < 1e-12


# --- what is held

def test_a_cache_holds_copies_of_all_keys_values_and_positions():
    cache, k, v = Cache(), random(2, 3, 5, 4), random(2, 3, 5, 6, seed=1)
    assert len(cache) == 0
    first = cache.extend(k[:, :, :2], v[:, :, :2], torch.arange(2))
    before = first[0].clone()
    got = cache.extend(k[:, :, 2:], v[:, :, 2:], torch.arange(2, 5))
    for side, want in zip(got, (k, v, torch.arange(5)), strict=True):
        assert side.equal(want)
    assert all(one.equal(other) for one, other in zip(cache.held, got, strict=True))
    assert len(cache) == 5
    k.zero_()
    assert first[0].equal(before)


def test_no_more_memory_than_two_rows_a_word():
    layer, cache = layer_of(CausalAttention, 12, 3), Cache()
    with torch.no_grad():
        layer(random(2, 7, 12), cache=cache)
    held = sum(side.untyped_storage().nbytes() for side in cache.held[:2])
    assert held == 2 * 2 * 7 * 12 * 8


def test_a_window_asks_no_number_so_shapes_alone_will_do():
    layer = CausalAttention(24, 6, window=3).to("meta")
    x = torch.empty(2, 7, 24, device="meta")
    assert layer(x).shape == (2, 7, 24)
    assert Cache().next_positions(x).device.type == "meta"


def test_with_a_window_the_cache_stops_growing():
    layer, cache, lengths = layer_of(CausalAttention, 12, 3, window=4), Cache(4), []
    for chunk in [3, 3, 1, 1, 5, 1]:
        layer(random(1, chunk, 12), cache=cache)
        lengths.append(len(cache))
    assert lengths == [3, 4, 4, 4, 4, 4]
    assert cache.held[2].tolist() == [10, 11, 12, 13]


def test_a_column_stays_as_long_as_one_text_needs_it():
    cache, side = Cache(2), random(2, 1, 5, 4)
    cache.extend(side, side, torch.tensor([[0, 1, -1, -1, -1], [0, 1, 2, 3, 4]]))
    assert cache.held[2].tolist() == [[0, 1, -1, -1], [0, 1, 3, 4]]
    assert cache.held[0].equal(side[:, :, [0, 1, 3, 4]])


def test_a_batch_of_nothing_but_padding_leaves_no_trace():
    layer, x, cache = layer_of(Rotary, 12, 3, window=2), random(2, 3, 12), Cache(2)
    layer(x, torch.full((2, 3), -1), cache)
    assert len(cache) == 0
    assert cache.next_positions(x).tolist() == [[0, 1, 2]] * 2
    assert difference(layer(x, cache=cache), layer(x)) < 1e-12


def test_where_nothing_is_hidden_no_mask_is_made():
    layer, cache, asked = layer_of(CausalAttention, 12, 3), Cache(), []

    def attend(q, k, v, keep, causal):
        asked.append((keep if keep is None else keep.int().tolist(), causal))
        return q

    layer.attend = attend
    layer(random(2, 3, 12))
    layer(random(2, 2, 12), cache=cache)
    layer(random(2, 1, 12), cache=cache)
    assert asked == [(None, True), ([[1, 0], [1, 1]], False), (None, False)]


def test_positions_begin_at_zero():
    assert Cache().next_positions(random(2, 3, 4)).tolist() == [0, 1, 2]


# --- what is refused

@pytest.mark.parametrize("window", [0, -1])
@pytest.mark.parametrize("make", [Cache, lambda window: CausalAttention(12, 3, window)])
def test_a_window_below_one_is_refused(make, window):
    with pytest.raises(ValueError, match=f"^window must be at least 1, got {window}$"):
        make(window)


@pytest.mark.parametrize("windows", [(3, None), (None, 3), (4, 3)])
def test_attention_and_cache_have_one_window(windows):
    layer = CausalAttention(12, 3, windows[0])
    with pytest.raises(ValueError, match=rf"window={windows[0]}, but its cache has window="
                                         rf"{windows[1]}: .* Cache\({windows[0]}\)$"):
        layer(random(2, 5, 12), cache=Cache(windows[1]))


@pytest.mark.parametrize("cache", [None, Cache()])
@pytest.mark.parametrize("shape", [(4,), (5, 2), (1, 5), (2, 1, 5)])
def test_positions_of_another_shape_are_refused(shape, cache):
    with pytest.raises(ValueError, match=r"must be \(5,\) or \(2, 5\) for 2 sequences of 5"):
        CausalAttention(12, 3)(random(2, 5, 12), torch.zeros(shape).long(), cache)


@pytest.mark.parametrize("positions", [torch.ones(2, 5).bool(), torch.arange(5.0)])
def test_positions_that_are_no_integers_are_refused(positions):
    with pytest.raises(TypeError, match=r"^positions must be integers, -1 for padding, got torch"):
        CausalAttention(12, 3)(random(2, 5, 12), positions)


@pytest.mark.parametrize(("k", "v", "where", "error", "words"), [
    ((3, 3, 1, 4), (3, 3, 1, 6), [5], ValueError, r"\(2, 3, 5, 4\), got new keys \(3,"),
    ((2, 2, 1, 4), (2, 2, 1, 6), [5], ValueError, r"holds keys .* only j may differ; a new"),
    ((2, 3, 1, 2), (2, 3, 1, 6), [5], ValueError, r"holds keys .* new keys \(2, 3, 1, 2\)"),
    ((2, 3, 1, 4), (2, 3, 1, 4), [5], ValueError, r"values .* \(2, 3, 5, 6\), got new values"),
    ((2, 3, 1, 4), (2, 3, 2, 6), [5], ValueError, r"last axis, got .*4\) and \(2, 3, 2, 6\)"),
    ((2, 3, 2, 4), (2, 3, 2, 6), [5], ValueError, r"\(2, 2\) for 2 sequences of 2 .*\(1,\)$"),
    ((2, 3, 1, 4), (2, 3, 1, 6), [[5], [5]], ValueError, r"\(2, 1\): all must be \(j,\), or all"),
    ((2, 3, 2, 4), (2, 3, 2, 6), [0, 1], ValueError, "position 0, .* already holds position 4:"),
    ((2, 3, 2, 4), (2, 3, 2, 6), [6, 4], ValueError, "position 4, .* already holds position 4:"),
])
def test_what_does_not_fit_the_cache_is_refused(k, v, where, error, words):
    cache = Cache()
    cache.extend(random(2, 3, 5, 4), random(2, 3, 5, 6), torch.arange(5))
    with pytest.raises(error, match=words):
        cache.extend(random(*k), random(*v), torch.tensor(where))
    assert len(cache) == 5


def test_another_dtype_is_refused():
    cache, side = Cache(), random(2, 3, 5, 4)
    cache.extend(side, side, torch.arange(5))
    with pytest.raises(TypeError, match=r"holds keys of torch.float64 on cpu, .*float32"):
        cache.extend(side.float(), side, torch.arange(5, 10))


def test_a_text_that_begins_again_is_named():
    cache, side = Cache(), random(2, 1, 2, 4)
    cache.extend(side, side, torch.tensor([[0, 1], [-1, 0]]))
    with pytest.raises(ValueError, match="token at position 0, but the cache already holds posi"):
        cache.extend(side, side, torch.tensor([[2, 3], [0, 1]]))
    cache.extend(side, side, torch.tensor([[2, 3], [1, -1]]))
    assert len(cache) == 4
