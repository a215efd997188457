"""Training by 2 and by 3 processes equals training by one: losses, gradients, weights."""

import data_parallel_programs as programs
import numpy as np
import pytest
import torch

from utils import reference
from utils.checks import difference
from utils.parallel import data
from utils.parallel.checkpoint import save
from utils.parallel.data import (
    clip,
    dealt,
    lines_of,
    place,
    share_of_mean,
    summed_loss,
    take_step,
)
from utils.parallel.processes import launch

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}


def new_texts():
    """Return 30 lines of 3 to 11 characters, padded, (30, 11)."""
    generator = torch.Generator().manual_seed(3)
    texts = torch.randint(17, (30, 11), generator=generator)
    lengths = torch.randint(3, 12, (30, 1), generator=generator)
    return texts.masked_fill(torch.arange(11) >= lengths, -1)


@pytest.fixture(scope="module")
def texts():
    return new_texts()


@pytest.fixture(scope="module")
def alone(texts):
    """Return the weights, losses and last gradients of a run by one process, in each dtype."""
    answers = {}
    for dtype in TOLERANCES:
        model, called, optimiser = programs.fresh(dtype)
        losses = programs.learn(called, optimiser, texts)
        answers[dtype] = {
            "weights": programs.whole(model), "losses": losses,
            "grads": {name: side.grad for name, side in model.named_parameters()}}
    return answers


@pytest.fixture(scope="module", params=[2, 3])
def ranks(request, texts, tmp_path_factory):
    """Return what each of p processes answers."""
    folder = tmp_path_factory.mktemp("checkpoints")
    model, called, optimiser = programs.fresh()
    programs.learn(called, optimiser, texts, stop=3)
    (folder / "alone").mkdir()
    save(model, optimiser, 3, folder / "alone")
    return launch(programs.equal, request.param, texts, str(folder))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
@pytest.mark.parametrize("what", ["weights", "grads"])
def test_several_processes_train_to_the_weights_of_one(ranks, alone, what, wrap, dtype):
    for answer in ranks:
        for name, side in alone[dtype][what].items():
            assert difference(answer[f"{wrap} {dtype}"][what][name], side) < TOLERANCES[dtype]


@pytest.mark.slow
@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_the_losses_of_the_ranks_average_to_the_loss_of_one(ranks, alone, wrap):
    losses = np.mean([answer[f"{wrap} torch.float64"]["losses"] for answer in ranks], axis=0)
    assert np.abs(losses - alone[torch.float64]["losses"]).max() < 1e-12


@pytest.mark.slow
def test_what_one_process_saved_several_go_on_from(ranks, alone):
    for answer in ranks:
        assert answer["resumed"]["start"] == 3
        for name, side in alone[torch.float64]["weights"].items():
            assert difference(answer["resumed"]["weights"][name], side) < 1e-12


def test_a_single_process_is_rank_0_of_1():
    assert place() == (0, 1)


def test_the_lines_of_a_step_depend_on_its_number_alone(texts):
    torch.manual_seed(5)
    first = lines_of(7, texts)
    torch.rand(3)
    assert torch.equal(lines_of(7, texts), first)
    assert not torch.equal(lines_of(8, texts), first)
    assert lines_of(7, texts, batch=5).shape == (5, 11)


def test_all_lines_of_a_step_are_different():
    texts = torch.arange(10)[:, None]
    assert sorted(lines_of(0, texts, batch=10).flatten().tolist()) == list(range(10))


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_the_lines_of_a_step_are_dealt_out_to_the_ranks(texts, p, monkeypatch):
    shares = []
    for rank in range(p):
        monkeypatch.setattr(data, "place", lambda rank=rank: (rank, p))
        shares.append(dealt(4, texts))
    wanted = lines_of(4, texts)
    assert sum(map(len, shares)) == len(wanted)
    for rank, share in enumerate(shares):
        assert torch.equal(share, wanted[rank::p])


def test_the_summed_loss_is_the_reference_s_and_padding_counts_for_nothing(texts):
    model, *_ = programs.fresh()
    lines = lines_of(0, texts)
    total, count = summed_loss(model, lines)
    wanted, n = 0.0, 0
    for line in lines:
        real = line[line >= 0]
        chances = reference.softmax(model(real[None, :-1])[0].detach())
        wanted -= np.log(chances[range(len(real) - 1), real[1:].numpy()]).sum()
        n += len(real) - 1
    assert count == n < lines.numel() - len(lines)
    assert abs(total.item() - wanted) < 1e-12 * wanted


def test_shares_of_the_mean_average_to_the_mean(monkeypatch):
    totals, counts = torch.tensor([3.0, 10.0, 0.5]), torch.tensor([2, 9, 1])

    def all_reduce(count):
        count.copy_(counts.sum())

    monkeypatch.setattr(data.dist, "all_reduce", all_reduce)
    monkeypatch.setattr(data, "place", lambda: (0, 3))
    shares = [share_of_mean(total, count) for total, count in zip(totals, counts, strict=True)]
    assert torch.allclose(torch.stack(shares).mean(), totals.sum() / counts.sum())
    assert counts.tolist() == [2, 9, 1]


def test_alone_the_share_is_the_mean():
    assert share_of_mean(torch.tensor(6.0), torch.tensor(4)) == 1.5


def test_a_step_begins_with_no_gradient_and_takes_its_own_rate():
    x, y = (torch.nn.Parameter(torch.tensor([1.0, 2.0])) for _ in range(2))
    optimiser = torch.optim.SGD([{"params": [x]}, {"params": [y], "lr": 7.0}], lr=5.0)
    for rate in 0.5, 0.25:
        take_step(optimiser, (x * 2).sum() + (y * 4).sum(), rate)
    assert torch.equal(x.detach(), torch.tensor([1.0, 2.0]) - 0.75 * 2)
    assert torch.equal(y.detach(), torch.tensor([1.0, 2.0]) - 0.75 * 4)


class Sharded:
    """A parameter whose gradient has this shard on the only rank."""

    def __init__(self, *shard):
        self.shard = torch.tensor(shard)
        self.grad = self if shard else None

    def to_local(self):
        return self.shard


@pytest.mark.parametrize(("limit", "factor"), [(2.5, 0.5), (5.0, 1.0), (7.0, 1.0)])
def test_gradients_above_the_limit_are_scaled_to_it_and_others_stay(monkeypatch, limit, factor):
    monkeypatch.setattr(data.dist, "all_reduce", lambda square: None)
    x, y, frozen = Sharded(3.0), Sharded(0.0, 4.0), Sharded()
    assert clip([x, frozen, y], limit) == 5
    assert torch.equal(x.shard, factor * torch.tensor([3.0]))
    assert torch.equal(y.shard, factor * torch.tensor([0.0, 4.0]))


def test_a_gradient_of_zeros_stays_zero(monkeypatch):
    monkeypatch.setattr(data.dist, "all_reduce", lambda square: None)
    x = Sharded(0.0, 0.0)
    assert clip([x], 1.0) == 0
    assert torch.equal(x.shard, torch.zeros(2))


def test_the_norm_is_that_of_the_shards_of_all_ranks(monkeypatch):
    monkeypatch.setattr(data.dist, "all_reduce", lambda square: square.add_(16.0))
    x = Sharded(3.0)
    assert clip(iter([x]), 1.0) == 5
    assert torch.allclose(x.shard, torch.tensor([0.6]))


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0.1, 1e3])
def test_clipped_shards_are_those_of_the_clipped_gradient_of_one_process(texts, limit):
    model, *_ = programs.fresh()
    total, count = summed_loss(model, lines_of(0, texts))
    (total / count).backward()
    wanted = {name: side.grad for name, side in model.named_parameters()}
    norm = torch.cat([grad.flatten() for grad in wanted.values()]).norm()
    for answer in launch(programs.clipped, 3, texts, limit):
        assert abs(answer["norm"] - norm) < 1e-12
        assert answer["own"] < 0.9 * norm
        for name, grad in wanted.items():
            assert difference(answer["grads"][name], grad * min(1, limit / norm)) < 1e-12
