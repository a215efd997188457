"""Attention on 2 and on 4 processes equals attention on one: values, gradients, exchanges."""

import distributed_programs as programs
import pytest
import torch
import torch.distributed as dist

from utils import masks, reference
from utils.attention.torch import attention
from utils.checks import difference
from utils.models.transformer import EncoderLayer
from utils.parallel.collectives import Collectives, kind_of
from utils.parallel.processes import launch
from utils.parallel.tensor import SeparateAttention
from utils.parity.weights import from_linear

pytestmark = pytest.mark.slow

DTYPES = {"float64": 1e-12, "float32": 1e-5}
A = torch.tensor([[0.5, -1.2], [0.9, 1.1], [-0.7, 0.3], [1.3, 0.2]], dtype=torch.float64)
N, BATCH = 12, 2
LENGTHS = [12, 9]
NAMES = ("W_q", "W_k", "W_v", "W_o")


def orders(p):
    """Return which words each rank holds, (p, N / p), for two layouts."""
    return {"slices": torch.arange(N).view(p, -1), "stripes": torch.arange(N).view(-1, p).T}


def new_layer():
    """Return a block whose attention can be cut."""
    layer = EncoderLayer(24, 12, 60)
    layer.self_attention = SeparateAttention(24, 12)
    return layer.double()


@pytest.fixture(scope="module")
def case():
    """Return a block, its input, a mask, an upstream gradient, and what one process makes of it."""
    torch.manual_seed(0)
    layer, keep = new_layer(), torch.as_tensor(masks.padding([5, 3], 5))
    x = torch.randn(2, 5, 24, dtype=torch.float64, requires_grad=True)
    grad_out = torch.randn(2, 5, 24, dtype=torch.float64)
    out = layer(x, keep)
    (out * grad_out).sum().backward()
    grads = {name: part.grad for name, part in layer.named_parameters()} | {"x": x.grad}
    return layer, x.detach(), keep, grad_out, out.detach(), grads


@pytest.fixture(scope="module")
def sides():
    """Return q, k, v, grad_out (b, h, i, .), and the context and gradients of one process."""
    torch.manual_seed(1)
    q, k, v = (torch.randn(BATCH, 3, N, d, dtype=torch.float64, requires_grad=True)
               for d in (5, 5, 7))
    grad_out = torch.randn(BATCH, 3, N, 7, dtype=torch.float64)
    words = (torch.arange(N) < torch.tensor(LENGTHS)[:, None])[:, None, :, None]
    out = attention(q, k, v, torch.as_tensor(masks.decoder(LENGTHS, N)))[0] * words
    grads = torch.autograd.grad((out * grad_out).sum(), (q, k, v))
    return [side.detach() for side in (q, k, v)], grad_out, out.detach(), grads


def dealt(side, order):
    """Return what each rank holds, (b, h, N, d) -> (p, b, h, N / p, d)."""
    return torch.stack([side[:, :, words] for words in order])


@pytest.fixture(scope="module", params=[2, 4])
def answers(request, case, sides):
    """Return p, and what each of p processes answers in all cases."""
    p, (layer, x, keep, grad_out, *_), (qkv, up, *_) = request.param, case, sides
    blocks, rings = {}, {}
    for dtype in DTYPES:
        kind = getattr(torch, dtype)
        params = {name: part.to(kind) for name, part in layer.state_dict().items()}
        for joined in True, False:
            blocks[f"{dtype} {joined}"] = (x.to(kind), keep, params, grad_out.to(kind), joined)
        for name, order in orders(p).items():
            places = order[:, None].expand(p, BATCH, -1).clone()
            places[places >= torch.tensor(LENGTHS)[:, None]] = -1
            rings[f"{dtype} {name}"] = (*(dealt(side.to(kind), order) for side in qkv), places,
                                        dealt(up.to(kind), order))
    return p, launch(programs.everything, p, blocks, rings, A[:p])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("joined", [True, False])
def test_a_block_cut_between_the_heads_equals_one_process(answers, case, dtype, joined):
    *_, out, grads = case
    for rank in answers[1]:
        got = rank["blocks"][f"{dtype} {joined}"]
        assert str(got["out"].dtype) == f"torch.{dtype}"
        assert difference(got["out"], out) <= DTYPES[dtype]
        assert got["grads"].keys() == grads.keys()
        assert max(difference(got["grads"][n], grads[n]) for n in grads) <= DTYPES[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["slices", "stripes"])
def test_ring_attention_equals_one_process_padding_included(answers, sides, dtype, layout):
    p, ranks = answers
    _, _, out, grads = sides
    order = orders(p)[layout]
    got = [rank["rings"][f"{dtype} {layout}"] for rank in ranks]
    assert difference(torch.stack([one["out"] for one in got]), dealt(out, order)) <= DTYPES[dtype]
    for n, grad in enumerate(grads):
        mine = torch.stack([one["grads"][n] for one in got])
        assert difference(mine, dealt(grad, order)) <= DTYPES[dtype]


def test_a_block_makes_two_exchanges_forward_and_two_back_or_four_if_q_k_v_are_not_joined(answers):
    for rank in answers[1]:
        for name, got in rank["blocks"].items():
            size = 2 * 5 * 24 * (8 if "64" in name else 4)
            back = 2 if "True" in name else 4
            assert got["forward"] == [{"all_reduce": 2}, {"all_reduce": 2 * size}]
            assert got["backward"] == [{"all_reduce": back}, {"all_reduce": back * size}]


def test_a_ring_sends_its_keys_and_values_p_minus_1_times_each_way(answers):
    p, ranks = answers
    for rank in ranks:
        for name, got in rank["rings"].items():
            size = (p - 1) * BATCH * 3 * (N // p) * (5 + 7) * (8 if "64" in name else 4)
            assert got["forward"] == [{"send": 2 * (p - 1)}, {"send": size}]
            assert got["backward"] == got["forward"]


def test_a_hop_has_a_second_derivative(answers):
    for a, rank in zip(A, answers[1], strict=False):
        assert difference(rank["bent"][0], 3 * a**5) <= 1e-12
        assert difference(rank["bent"][1], 45 * a**9) <= 1e-12


def test_exchanges_of_each_kind_are_counted_once_with_what_was_handed_over(answers):
    p, ranks = answers
    for number, rank in enumerate(ranks):
        for kind, (calls, size) in rank["kinds"].items():
            counts = kind and (kind != "send" or number == 0)
            given = {"reduce_scatter": p, "scatter": p * (number == 0)}.get(kind, 1)  # times three
            assert calls == ({kind: 1} if counts else {})
            assert size == ({kind: 12 * given} if counts else {})


def test_exchanges_counts_calls_and_bytes_apart():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with Collectives() as seen:
            for n in (3, 5):
                dist.all_reduce(torch.zeros(n, dtype=torch.float64))
            torch.zeros(7).add_(1)
        dist.all_reduce(torch.zeros(9))
    finally:
        dist.destroy_process_group()
    assert (seen.calls, seen.bytes) == ({"all_reduce": 2}, {"all_reduce": 64})


def test_operations_are_known_by_their_names():
    names = {"allreduce_": "all_reduce", "all_reduce_": "all_reduce", "_allgather_base_":
             "all_gather", "all_gather_into_tensor": "all_gather", "send": "send", "recv_": "",
             "reduce_scatter_tensor": "reduce_scatter", "barrier": "", "wait_tensor": "",
             "alltoall_base_": "all_to_all", "broadcast_": "broadcast", "reduce_": "reduce",
             "gather_": "gather", "scatter_": "scatter"}
    assert {name: kind_of(name) for name in names} == names


def test_separate_attention_equals_the_reference_causal_and_padded(case):
    layer, x, *_ = case
    attend = layer.self_attention
    keep = masks.decoder([5, 3], 5)
    W = from_linear(dict(attend.state_dict()), NAMES)
    out, _ = reference.multi_head_attention(x, x, W, 12, keep)
    padding = torch.as_tensor(masks.padding([5, 3], 5))
    assert difference(attend(x, padding, causal=True), out) <= 1e-12


def test_separate_attention_refuses_half_a_head():
    with pytest.raises(ValueError, match="d_model=24 is not divisible by n_heads=5"):
        SeparateAttention(24, 5)
