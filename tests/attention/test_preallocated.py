"""A preallocated cache: in place, as views, and what it refuses."""

import pytest
import torch

from utils.attention.cache import Cache, PreallocatedCache
from utils.measure.counters import Allocations


def sides(n, start=0):
    generator = torch.Generator().manual_seed(start)
    k = torch.randn(2, 3, n, 4, generator=generator)
    v = torch.randn(2, 3, n, 6, generator=generator)
    return k, v, torch.arange(start, start + n)


def test_it_holds_what_a_plain_cache_holds():
    plain, roomy = Cache(), PreallocatedCache(9)
    for start, n in (0, 4), (4, 1), (5, 3):
        want, got = plain.extend(*sides(n, start)), roomy.extend(*sides(n, start))
        assert all(one.equal(other) for one, other in zip(got, want, strict=True))
        assert all(one.equal(other) for one, other in zip(roomy.held, want, strict=True))
    assert len(roomy) == 8


def test_after_the_first_token_nothing_is_allocated():
    cache = PreallocatedCache(9)
    first = cache.extend(*sides(4))[0]
    k, v, where = sides(1, 4)
    with Allocations() as new:
        later = cache.extend(k, v, where)[0]
    assert not any(shape[-1:] in ((4,), (6,)) for _, shape, _ in new.made)
    assert new.largest < 64  # the checks of positions
    assert later.data_ptr() == first.data_ptr()


def test_what_it_was_given_may_change_afterwards():
    cache, (k, v, where) = PreallocatedCache(4), sides(2)
    cache.extend(k, v, where)
    before = k.clone()
    k.zero_()
    assert cache.held[0].equal(before)


@pytest.mark.parametrize("spare", [0, 1, 5])
def test_with_a_window_the_room_is_used_again(spare):
    plain, roomy = Cache(3), PreallocatedCache(3 + 2 + spare, 3)
    for start, n in (0, 2), (2, 2), (4, 1), (5, 1), (6, 2), (8, 2), (10, 1):
        want, got = plain.extend(*sides(n, start)), roomy.extend(*sides(n, start))
        assert all(one.equal(other) for one, other in zip(got, want, strict=True))
        assert all(one.equal(other) for one, other in zip(roomy.held, plain.held, strict=True))
    assert len(roomy) == 3


def test_with_a_window_nothing_is_held_of_nothing_but_padding():
    cache, (k, v, _) = PreallocatedCache(5, 2), sides(3)
    cache.extend(k, v, torch.full((2, 3), -1))
    assert len(cache) == 0
    cache.extend(k, v, torch.arange(3).expand(2, 3))
    assert cache.held[2].tolist() == [[1, 2]] * 2
    cache = PreallocatedCache(5, 2)
    cache.extend(k, v, torch.full((3,), -1))
    assert len(cache) == 0


def test_too_little_room_is_told_with_the_numbers():
    cache = PreallocatedCache(5)
    cache.extend(*sides(4))
    with pytest.raises(ValueError, match=r"^the cache has room=5, but holds 4 columns and got 2 "
                                         r"new ones: create it with room=6 or more"):
        cache.extend(*sides(2, 4))
    assert len(cache) == 4
    cache.extend(*sides(1, 4))


@pytest.mark.parametrize("room", [0, -3])
def test_a_cache_without_room_is_refused(room):
    with pytest.raises(ValueError, match=f"room must be at least 1, got {room}"):
        PreallocatedCache(room)


def test_a_window_below_one_is_refused():
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        PreallocatedCache(5, 0)


@pytest.mark.parametrize("which", [0, 1])
def test_a_gradient_is_refused_and_without_one_all_is_well(which):
    given = list(sides(2))
    given[which].requires_grad_()
    cache = PreallocatedCache(5)
    with pytest.raises(ValueError, match=r"under torch.no_grad\(\), or use utils.attention.cache"):
        cache.extend(*given)
    with torch.no_grad():
        cache.extend(*given)
    assert not cache.held[0].requires_grad


def test_what_does_not_fit_is_refused_as_by_a_plain_cache():
    cache = PreallocatedCache(5)
    cache.extend(*sides(2))
    with pytest.raises(ValueError, match="a new token at position 0, but the cache already holds"):
        cache.extend(*sides(1))
    k, v, where = sides(1, 2)
    with pytest.raises(TypeError, match=r"holds keys of torch.float32"):
        cache.extend(k.double(), v, where)


def test_a_column_stays_as_long_as_one_text_needs_it():
    where = torch.tensor([[0, 1, -1, -1, -1], [0, 1, 2, 3, 4]])
    k, v, _ = sides(5)
    cache = PreallocatedCache(5, 2)
    cache.extend(k, v, where)
    assert len(cache) == 5
    assert cache.held[2].equal(where)
    cache = PreallocatedCache(5, 2)
    cache.extend(k, v, torch.tensor([[-1, 0, 1, 2, 3], [0, 1, 2, 3, 4]]))
    assert cache.held[2].tolist() == [[2, 3], [3, 4]]
    assert cache.held[0].equal(k[:, :, 3:])
