"""The names of operations and the bytes alive, on programs whose answer is known."""

import torch
import torch.nn.functional as F

from utils.measure.counters import operations, peak_bytes

X = torch.zeros(1000)  # 4000 bytes


def test_names_come_in_the_order_of_the_calls_with_those_of_the_backward_pass():
    x = X.clone().requires_grad_()
    assert operations(lambda: X.sin().cos()) == ["sin", "cos"]
    names = operations(lambda: x.sin().sum().backward())
    assert [name for name in names if name in ("sin", "sum", "cos", "mul")] == [
        "sin", "sum", "cos", "mul"]


def test_names_tell_the_fused_program_from_the_plain_one():
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    fused = "_scaled_dot_product_flash_attention_for_cpu"
    assert fused in operations(lambda: F.scaled_dot_product_attention(q, k, v))
    assert fused not in operations(lambda: F.scaled_dot_product_attention(q, k, v[..., :3]))


def test_what_is_kept_adds_up_and_what_is_let_go_does_not():
    assert peak_bytes(lambda: [X + 1 for _ in range(3)]) == 12_000
    assert peak_bytes(lambda: [(X + 1).sum() for _ in range(3)]) == 4_000 + 3 * 4


def test_the_peak_counts_and_not_the_end():
    assert peak_bytes(lambda: (X.repeat(5) + 1).sum()) == 2 * 20_000


def test_a_view_or_a_change_in_place_takes_nothing_and_nor_do_inputs():
    assert peak_bytes(lambda: X.clone().view(10, 100).mT.add_(1)) == 4_000
    assert peak_bytes(lambda: X.view(10, 100), X) == 0
    assert peak_bytes(lambda: X.view(10, 100)) == 4_000


def test_every_tensor_of_a_pair_counts():
    assert peak_bytes(lambda: X.view(10, 100).max(dim=0), X) == 100 * (4 + 8)


def test_what_autograd_keeps_counts():
    x = X.clone().requires_grad_()

    def chain():
        y = x.exp().exp()  # each exp keeps what it returned
        return y.sin()

    assert peak_bytes(chain) == 3 * 4_000
    with torch.no_grad():
        assert peak_bytes(chain) == 2 * 4_000
