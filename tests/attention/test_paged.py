"""The cache in blocks: whatever happens to it, each sequence reads what it wrote."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn.attention.experimental._paged_attention import PagedAttention
from torch.nn.attention.flex_attention import create_block_mask, flex_attention, noop_mask

from utils import reference
from utils.attention.paged import BlockTables, PagedCache, SharedCache, paged_attention
from utils.attention.ragged import starts, token_positions
from utils.checks import difference
from utils.models.language_model import RotaryAttention

SIZES = {"n_layers": 3, "n_heads": 2, "d": 4, "d_v": 5, "dtype": torch.float64}


def cache_of(n_blocks=6, size=4, kind=SharedCache):
    return kind(n_blocks, size, **SIZES)


def random(*shape, seed=0):
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def tokens(n, layer=0, seed=0):
    """Return k (h, n, d) and v (h, n, d_v) of a layer."""
    return random(2, n, 4, seed=2 * (100 * seed + layer)), random(2, n, 5, seed=200 * seed + 1)


def filled(cache, name, n, seed=0):
    """Reserve n tokens of a sequence, and store random ones in all layers."""
    cache.reserve(name, n)
    for layer in range(3):
        cache.write(layer, name, *tokens(n, layer, seed))


def holds(cache, name, *parts):
    """Return whether all layers of a sequence hold these (n, seed), and only these."""
    for layer in range(3):
        want = [torch.cat(side, 1) for side in zip(*(tokens(n, layer, seed) for n, seed in parts),
                                                   strict=True)]
        if not all(got.equal(w) for got, w in zip(cache.read(layer, name), want, strict=True)):
            return False
    return True


def consistent(cache, n_blocks):
    """Check that users, tables, lengths and free blocks say the same."""
    used = [block for table in cache.tables.values() for block in table]
    assert [used.count(block) for block in range(n_blocks)] == cache.users
    assert sorted(cache.free) == [block for block in range(n_blocks) if block not in used]
    assert set(cache.tables) == set(cache.lengths)
    for name, table in cache.tables.items():
        assert len(table) == math.ceil(cache.lengths[name] / cache.size)
        assert len({*table}) == len(table)


@pytest.mark.parametrize("kind", [PagedCache, SharedCache])
def test_sequences_that_arrive_in_turns_are_read_in_order(kind):
    cache = cache_of(kind=kind)
    for name, n, seed in (("a", 3, 1), ("b", 5, 2), ("a", 1, 3), ("a", 4, 4), ("b", 1, 5)):
        filled(cache, name, n, seed)
    assert cache.tables == {"a": [0, 3], "b": [1, 2]}
    assert cache.free == [4, 5]
    assert cache.users == [1, 1, 1, 1, 0, 0]
    assert holds(cache, "a", (3, 1), (1, 3), (4, 4))
    assert holds(cache, "b", (5, 2), (1, 5))


def test_a_new_sequence_does_not_read_what_an_old_one_left():
    cache = cache_of(n_blocks=2)
    filled(cache, "old", 8, 1)
    cache.release("old")
    for side in cache.sides:
        side.fill_(torch.nan)
    filled(cache, "new", 6, 2)
    assert holds(cache, "new", (6, 2))


def test_blocks_are_taken_in_the_order_in_which_they_became_free():
    tables = BlockTables(4, 2)
    for name in "abc":
        tables.reserve(name, 2)
    tables.release("b")
    tables.release("a")
    assert tables.free == [3, 1, 0]
    tables.reserve("d", 5)
    assert tables.tables["d"] == [3, 1, 0]


def test_what_does_not_fit_is_refused_and_changes_nothing():
    cache = cache_of(n_blocks=3)
    filled(cache, "a", 6, 1)
    cache.share("b", "a")
    cache.reserve("c", 1)                  # no block is free any more
    for name, n in (("a", 1), ("b", 2), ("c", 4), ("d", 1)):
        before = [str(vars(cache)[key]) for key in ("tables", "lengths", "users", "free")]
        with pytest.raises(ValueError, match="new blocks needed: 1, free blocks: 0"):
            cache.reserve(name, n)
        assert [str(vars(cache)[key]) for key in ("tables", "lengths", "users", "free")] == before
    cache.release("c")
    cache.reserve("b", 2)                  # a copy, and no more
    consistent(cache, 3)
    with pytest.raises(ValueError, match="new blocks needed: 1, free blocks: 0"):
        cache.reserve("b", 1)


# --- sharing

@pytest.mark.parametrize("writer", ["a", "b"])
def test_whoever_writes_first_copies_a_shared_block_that_is_not_full(writer):
    other = "b" if writer == "a" else "a"
    cache = cache_of()
    filled(cache, "a", 6, 1)
    cache.share("b", "a")
    assert cache.tables == {"a": [0, 1], "b": [0, 1]}
    assert cache.users[:2] == [2, 2]
    assert len(cache.free) == 4
    filled(cache, writer, 1, 2)
    assert cache.tables[writer] == [0, 2]
    assert cache.users[:3] == [2, 1, 1]
    filled(cache, other, 1, 3)             # it has the block for itself now
    assert cache.tables[other] == [0, 1]
    assert holds(cache, writer, (6, 1), (1, 2))
    assert holds(cache, other, (6, 1), (1, 3))


def test_a_full_shared_block_is_not_copied():
    cache = cache_of()
    filled(cache, "a", 8, 1)
    cache.share("b", "a")
    filled(cache, "b", 1, 2)
    assert cache.tables["b"] == [0, 1, 2]
    assert cache.users[:3] == [2, 2, 1]
    assert holds(cache, "a", (8, 1))


def test_a_prefix_may_end_within_a_block():
    cache = cache_of()
    filled(cache, "a", 7, 1)
    cache.share("b", "a", 5)
    cache.share("c", "a", 4)
    assert cache.tables == {"a": [0, 1], "b": [0, 1], "c": [0]}
    assert cache.lengths == {"a": 7, "b": 5, "c": 4}
    filled(cache, "b", 3, 2)
    for layer in range(3):
        for side, (got, new) in enumerate(zip(cache.read(layer, "b"), tokens(3, layer, 2),
                                              strict=True)):
            prefix = tokens(7, layer, 1)[side][:, :5]
            assert got.equal(torch.cat((prefix, new), 1))
    assert holds(cache, "a", (7, 1))


def test_a_shared_block_is_free_when_its_last_user_has_gone():
    cache = cache_of()
    filled(cache, "a", 6, 1)
    cache.share("b", "a")
    cache.release("a")
    assert cache.free == [2, 3, 4, 5]
    assert holds(cache, "b", (6, 1))
    cache.release("b")
    assert sorted(cache.free) == [0, 1, 2, 3, 4, 5]
    assert cache.users == [0] * 6
    assert cache.tables == cache.lengths == {}


def test_writing_into_a_shared_block_is_refused():
    cache = cache_of()
    filled(cache, "a", 8, 1)
    cache.share("b", "a")
    with pytest.raises(ValueError, match="block 0 has 2 users"):
        cache.write(0, "b", *tokens(8))
    assert holds(cache, "a", (8, 1))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["grow", "grow", "share", "release"]),
                          st.integers(0, 3), st.integers(0, 3), st.integers(1, 6)), max_size=25),
       st.integers(1, 4))
def test_whatever_happens_each_sequence_reads_what_it_wrote(events, size):
    cache = SharedCache(9, size, n_layers=1, n_heads=1, d=1, dtype=torch.float64)
    model, number = {}, 0                  # what each sequence must hold
    for what, name, other, n in events:
        try:
            if what == "grow":
                cache.reserve(name, n)
                new = torch.arange(number, number + n, dtype=torch.float64)
                number += n
                cache.write(0, name, new[None, :, None], -new[None, :, None])
                model[name] = [*model.get(name, []), *new.tolist()]
            elif what == "share":
                cache.share(name, other, min(n, len(model.get(other, [])) or n))
                model[name] = model[other][:n]
            else:
                cache.release(name)
                del model[name]
        except ValueError:
            assert what == "grow" or name in model or other not in model or what == "release"
        consistent(cache, 9)
        assert cache.lengths == {name: len(held) for name, held in model.items()}
        for name, held in model.items():
            k, v = cache.read(0, name)
            assert k.flatten().tolist() == held
            assert (-v).flatten().tolist() == held


# --- attention

def test_new_tokens_attend_to_all_that_their_sequence_holds():
    cache = cache_of()
    filled(cache, "a", 5, 1)
    filled(cache, "b", 2, 2)
    lengths = [1, 3]
    q = random(4, 4, 4, seed=7)            # four heads of q share two
    k, v = tokens(4, 0, 3)
    for name, n in zip("ba", lengths, strict=True):
        cache.reserve(name, n)
    context = paged_attention(q, k, v, cache, 0, "ba", lengths)
    for name, rows, held in (("b", slice(0, 1), 2), ("a", slice(1, 4), 5)):
        all_k, all_v = (torch.cat((old, new[:, rows]), 1) for old, new in zip(
            tokens(held, 0, {"a": 1, "b": 2}[name]), (k, v), strict=True))
        n_q, n_k = rows.stop - rows.start, all_k.shape[1]
        keep = np.tri(n_q, n_k, n_k - n_q, dtype=bool)
        want, _ = reference.attention(q[None, :, rows], all_k[None], all_v[None], keep)
        assert difference(context[:, rows], want[0]) < 1e-12
        assert cache.read(0, name)[0].equal(all_k)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=2, max_size=5),
       st.integers(1, 5), st.integers(0, 99))
def test_a_server_in_any_steps_gives_what_a_plain_pass_gives(steps, size, seed):
    generator = torch.Generator().manual_seed(seed)
    layers = [RotaryAttention(12, 3).double().requires_grad_(False) for _ in range(2)]
    for layer in layers:
        for weight in layer.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator).double() / 3)
    lengths = [sum(step[b] for step in steps) for b in range(3)]
    texts = [torch.randn(n, 12, generator=generator).double() for n in lengths]
    cache = SharedCache(99, size, n_layers=2, n_heads=3, d=4, dtype=torch.float64)
    outs = [[texts[b][:0]] for b in range(3)]
    for step in steps:
        new = {b: n for b, n in enumerate(step) if n}
        if not new:
            continue
        held = {b: cache.lengths.get(b, 0) for b in new}
        where = token_positions(starts([*new.values()]), [*held.values()])
        x = torch.cat([texts[b][held[b]:held[b] + n] for b, n in new.items()])
        for b, n in new.items():
            cache.reserve(b, n)
        for number, layer in enumerate(layers):
            q, k, v = (side[0] for side in layer.heads_at(x[None], where))
            context = paged_attention(q, k, v, cache, number, [*new], [*new.values()])
            x = x + layer.W_o(context.transpose(0, 1).flatten(1))
        for b, out in zip(new, x.split([*new.values()]), strict=True):
            outs[b].append(out)
    for text, out in zip(texts, outs, strict=True):
        x = text[None]
        for layer in layers if len(text) else []:
            x = x + layer(x)
        assert difference(torch.cat(out), x[0]) < 1e-10


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
def test_a_decoding_step_is_that_of_pytorch_s_paged_attention():
    held, size = [5, 3, 8], 4
    ours = PagedCache(9, size, n_layers=1, n_heads=2, d=4, d_v=5, dtype=torch.float64)
    theirs = PagedAttention(9, size, 3, device="cpu")
    their_sides = [torch.full((1, 2, 36, d), 9.0, dtype=torch.float64) for d in (4, 5)]
    q, (k, v) = random(2, 3, 4, seed=5), tokens(3)
    for b, n in enumerate(held):
        old = tokens(n, seed=b + 1)
        ours.reserve(b, n)
        ours.write(0, b, *old)
        ours.reserve(b, 1)
        whole = [torch.cat((side, new[:, b:b + 1]), 1)[None]
                 for side, new in zip(old, (k, v), strict=True)]
        theirs.reserve(torch.tensor(b), torch.tensor(n + 1))
        theirs.assign(torch.tensor([b]), torch.arange(n + 1)[None], *whole, *their_sides)
    mask = create_block_mask(noop_mask, 3, 1, 1, 12, "cpu", BLOCK_SIZE=(1, size))
    mask = theirs.convert_logical_block_mask(mask, kv_len=torch.tensor(held) + 1)
    want = flex_attention(q.transpose(0, 1)[:, :, None], *their_sides, block_mask=mask)
    context = paged_attention(q, k, v, ours, 0, range(3), [1, 1, 1])
    assert difference(context, want[:, :, 0].transpose(0, 1)) < 1e-12


# --- what is refused

FULL = cache_of()
filled(FULL, "a", 5, 1)
K5, V5 = tokens(5)
Q4 = random(2, 4, 4)
K4, V4 = tokens(4)


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: BlockTables(0, 4), ValueError, "n_blocks must be at least 1"),
    (lambda: BlockTables(4, 2.0), TypeError, "size must be an integer"),
    (lambda: PagedCache(4, 4, 0, 2, 4), ValueError, "n_layers must be at least 1"),
    (lambda: PagedCache(4, 4, 1, 2, 4, 0), ValueError, "d_v must be at least 1"),
    (lambda: FULL.reserve("a", 0), ValueError, "n must be at least 1"),
    (lambda: FULL.reserve("b", 1.5), TypeError, "n must be an integer"),
    (lambda: FULL.reserve("b", 99), ValueError, "new blocks needed: 25, free blocks: 4"),
    (lambda: FULL.release("b"), ValueError, "'b' is no sequence of this cache; it has 'a'"),
    (lambda: FULL.read(0, "b"), ValueError, "'b' is no sequence of this cache"),
    (lambda: FULL.read(3, "a"), ValueError, "layer must be in 0 .. 2, got 3"),
    (lambda: FULL.read(-1, "a"), ValueError, "layer must be at least 0"),
    (lambda: FULL.share("a", "a"), ValueError, "'a' is a sequence of this cache already"),
    (lambda: FULL.share("b", "c"), ValueError, "'c' is no sequence"),
    (lambda: FULL.share("b", "a", 6), ValueError, "'a' holds 5 tokens, so its first 6 cannot"),
    (lambda: FULL.share("b", "a", 0), ValueError, "n must be at least 1"),
    (lambda: FULL.write(0, "b", K5, V5), ValueError, "'b' is no sequence"),
    (lambda: FULL.write(0, "a", K5[:1], V5), ValueError, "k must be (h, n, d) = (2, n, 4)"),
    (lambda: FULL.write(0, "a", K5, K5), ValueError, "v must be (h, n, d) = (2, n, 5)"),
    (lambda: FULL.write(0, "a", K5, V5[:, :4]), ValueError, "k and v have 5 and 4 tokens"),
    (lambda: FULL.write(0, "a", *tokens(6)), ValueError, "the sequence has 5: call reserve"),
    (lambda: FULL.write(0, "a", K5.float(), V5), TypeError, "the cache holds torch.float64, but k"),
    (lambda: FULL.write(0, "a", K5.requires_grad_(), V5), ValueError, "requires a gradient"),
    (lambda: FULL.write(0, "a", "k", V5), TypeError, "k must be an array"),
    (lambda: paged_attention(Q4, K4, V4, FULL, 0, "aa", [2, 2]), ValueError, "2 different ones"),
    (lambda: paged_attention(Q4, K4, V4, FULL, 0, "a", [2, 2]), ValueError, "one for each length"),
    (lambda: paged_attention(Q4, K4, V4, FULL, 0, "a", [3]), ValueError, "ends at 3, but q has 4"),
    (lambda: paged_attention(Q4, K4, V4, FULL, 0, "b", [4]), ValueError, "'b' is no sequence")])
def test_bad_input_is_refused_by_name_and_changes_nothing(call, error, said):
    before = [side.clone() for side in FULL.sides]
    with pytest.raises(error) as caught:
        call()
    assert said in str(caught.value)
    K5.requires_grad_(False)
    assert FULL.tables == {"a": [0, 1]}
    assert FULL.lengths == {"a": 5}
    assert FULL.users == [1, 1, 0, 0, 0, 0]
    assert all(side.equal(old) for side, old in zip(FULL.sides, before, strict=True))


def test_three_users_of_three_blocks_each_get_a_copy_of_the_last_until_one_is_left():
    cache = cache_of()
    filled(cache, "a", 9, 1)                            # blocks 0, 1 and 2, the last not full
    cache.share("b", "a")
    cache.share("c", "b")
    assert cache.users == [3, 3, 3, 0, 0, 0]
    filled(cache, "b", 1, 2)
    assert (cache.tables["b"], cache.users) == ([0, 1, 3], [3, 3, 2, 1, 0, 0])
    filled(cache, "c", 2, 3)
    assert (cache.tables["c"], cache.users) == ([0, 1, 4], [3, 3, 1, 1, 1, 0])
    filled(cache, "a", 3, 4)
    assert (cache.tables["a"], cache.users) == ([0, 1, 2], [3, 3, 1, 1, 1, 0])
    assert holds(cache, "a", (9, 1), (3, 4))
    assert holds(cache, "b", (9, 1), (1, 2))
    assert holds(cache, "c", (9, 1), (2, 3))
