"""Splitting and merging heads, told apart from the torn versions by where each number lands."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st

from utils import reference, sizes
from utils.attention.heads import merge_heads, split_heads


@given(st.integers(0, 9), st.integers(1, 3), st.integers(1, 5), st.integers(1, 4),
       st.integers(1, 4))
def test_split_equals_the_reference_and_merge_undoes_it(seed, batch, length, heads, d_head):
    x, _ = sizes.sides(seed, batch=batch, n_q=length, d_in=heads * d_head)
    split = split_heads(torch.as_tensor(x), heads)
    np.testing.assert_array_equal(split, reference.split_heads(x, heads))
    np.testing.assert_array_equal(merge_heads(split), x)


def test_merge_equals_the_reference():
    q, _, _ = sizes.qkv()
    np.testing.assert_array_equal(merge_heads(torch.as_tensor(q)), reference.merge_heads(q))


def test_head_h_gets_the_features_from_h_times_d():
    x = torch.arange(2 * 5 * 12).view(2, 5, 12)
    split = split_heads(x, 3)
    assert split.shape == (2, 3, 5, 4)
    for b, h, i, d in np.ndindex(2, 3, 5, 4):
        assert split[b, h, i, d] == x[b, i, 4 * h + d]


def test_split_is_a_view_and_merge_of_a_split_is_one_too():
    x = torch.zeros(2, 5, 12)
    split = split_heads(x, 3)
    assert split.data_ptr() == x.data_ptr()
    assert merge_heads(split).data_ptr() == x.data_ptr()
    contiguous = split.contiguous()
    assert merge_heads(contiguous).data_ptr() != contiguous.data_ptr()


def test_split_takes_slices_and_transposed_tensors():
    x = torch.as_tensor(sizes.sides(d_in=36)[0])
    sequence_first = x.transpose(0, 1).contiguous().transpose(0, 1)
    for name, part in zip("qkv", x.chunk(3, dim=-1), strict=True):
        np.testing.assert_array_equal(split_heads(part, 3), reference.split_heads(part, 3), name)
    np.testing.assert_array_equal(split_heads(sequence_first, 9), reference.split_heads(x, 9))


def test_split_refuses_what_does_not_divide():
    with raises(ValueError, "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest "
                            "divisors: 2, 3, 4, 6"):
        split_heads(torch.zeros(2, 5, 12), 5)


@pytest.mark.parametrize("shape", [(5, 12), (2, 5, 3, 4)])
def test_split_refuses_anything_but_three_axes(shape):
    with pytest.raises(ValueError, match="expected three axes"):
        split_heads(torch.zeros(shape), 3)
