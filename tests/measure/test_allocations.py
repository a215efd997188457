"""Bytes that a program asks of PyTorch, by closed form."""

import torch

from utils.measure.counters import Allocations


def test_a_copy_counts_a_view_does_not():
    x = torch.randn(2, 3, 5)
    with Allocations() as new:
        x.transpose(1, 2).view(2, 5, 3)[:1].expand(4, 5, 3)
    assert (new.bytes, new.largest, new.made) == (0, 0, [])
    with Allocations() as new:
        x.repeat_interleave(4, dim=1)
        x.clone()
    assert (new.bytes, new.largest) == (30 * 4 * 5, 30 * 4 * 4)


def test_what_is_written_in_place_does_not_count():
    x = torch.zeros(2, 3, dtype=torch.float64)
    with Allocations() as new:
        x[0].add_(1)
        x.copy_(x + 1)
    assert new.bytes == 6 * 8


def test_broadcasting_in_a_product_of_matrices_copies():
    q, k = torch.randn(2, 3, 4, 1, 5), torch.randn(2, 3, 1, 7, 5)
    with Allocations() as new:
        q @ k.mT
    copied = [size for name, _, size in new.made if "clone" in name]
    assert copied == [4 * k.nbytes]
    with Allocations() as new:
        q.flatten(2, 3) @ k[:, :, 0].mT
    assert [shape for _, shape, _ in new.made] == [(6, 4, 7)]


def test_each_tensor_is_told_with_its_operation_and_shape():
    with Allocations() as new:
        torch.zeros(2, 3)
    assert new.made == [("aten.zeros.default", (2, 3), 24)]


def test_the_program_s_results_are_as_without():
    q, k = torch.randn(2, 5, 4), torch.randn(2, 7, 4)
    with Allocations():
        found = torch.einsum("bid,bjd->bij", q, k).softmax(-1)
    assert found.equal(torch.einsum("bid,bjd->bij", q, k).softmax(-1))
