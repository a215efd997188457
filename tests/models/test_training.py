"""A run that stops and goes on ends as one that did not, and nothing is lost on the way."""

import math
import os

import pytest
import torch
from torch import nn

from utils.models import training
from utils.models.language_model import LanguageModel, next_token_loss, optimisers

STEPS = 12


def new_run(steps=STEPS, seed=3):
    torch.manual_seed(seed)
    model = LanguageModel(n_tokens=17, d_model=12, n_heads=3, n_layers=2)
    return training.new_run(model, optimisers(model), steps, seed)


def loss_of(model, generator):
    return next_token_loss(model, torch.randint(17, (5, 8), generator=generator))


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


@pytest.fixture(scope="module")
def whole():
    return training.train(new_run(), loss_of, every=4, measure=lambda model: {"a": 1.0})


@pytest.mark.parametrize("stop", [1, 5, STEPS - 1])
def test_a_run_stopped_and_resumed_ends_in_the_same_weights(whole, stop, tmp_path):
    path = tmp_path / "run.pt"
    training.train(new_run(), loss_of, until=stop, path=path)
    resumed = training.load(new_run(seed=4), path)
    assert resumed.step == stop
    assert not torch.equal(weights(resumed), weights(whole))
    training.train(resumed, loss_of)
    assert torch.equal(weights(resumed), weights(whole))
    for ours, theirs in zip(resumed.optimisers, whole.optimisers, strict=True):
        assert ours.param_groups[0]["lr"] == theirs.param_groups[0]["lr"] > 0
    assert resumed.generator.get_state().equal(whole.generator.get_state())


def test_a_resumed_run_keeps_what_was_measured_and_the_seconds(tmp_path):
    path, half = tmp_path / "run.pt", new_run()
    training.train(half, loss_of, until=6, every=4, path=path, measure=lambda model: {"a": 2.0})
    resumed = training.load(new_run(), path)
    assert resumed.history == half.history
    assert resumed.seconds == half.seconds > 0
    assert [entry["step"] for entry in resumed.history] == [4, 6]
    training.train(resumed, loss_of, every=4, measure=lambda model: {"a": 3.0})
    assert [(entry["step"], entry["a"]) for entry in resumed.history] == [
        (4, 2.0), (6, 2.0), (8, 3.0), (12, 3.0)]
    seconds = [entry["seconds"] for entry in resumed.history]
    assert seconds == sorted(seconds)
    assert seconds[-1] == resumed.seconds


def test_learning_rates_fall_in_a_line_from_the_first_step_on(monkeypatch):
    shares = []
    monkeypatch.setattr(training, "one_step",
                        lambda run, loss_of, share, clip: shares.append((share, clip)) or 0.0)
    training.train(new_run(steps=4), loss_of, clip=0.5)
    assert shares == [(1, 0.5), (0.75, 0.5), (0.5, 0.5), (0.25, 0.5)]


def test_a_step_takes_its_share_of_the_first_learning_rate():
    moved = {}
    for share in (1.0, 0.25):
        model = nn.Linear(3, 1, bias=False)
        nn.init.zeros_(model.weight)
        run = training.new_run(model, [torch.optim.SGD(model.parameters(), lr=2.0)], 9)
        for _ in range(2):
            training.one_step(run, lambda model, _: model(torch.ones(3)).sum(), share, clip=99.0)
        moved[share] = model.weight.detach().clone()
    assert torch.equal(moved[1.0], torch.full((1, 3), -4.0))
    assert torch.equal(moved[0.25], torch.full((1, 3), -1.0))


def test_gradients_are_clipped_to_the_norm_given():
    model = nn.Linear(4, 1, bias=False)
    nn.init.zeros_(model.weight)
    run = training.new_run(model, [torch.optim.SGD(model.parameters(), lr=1.0)], 5)
    training.one_step(run, lambda model, _: model(torch.full((4,), 100.0)).sum(), 1.0, clip=0.5)
    assert math.isclose(model.weight.norm().item(), 0.5, rel_tol=1e-4)


def test_gradients_do_not_add_up_over_steps():
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    run = training.new_run(model, [torch.optim.SGD(model.parameters(), lr=1.0)], 5)
    for _ in range(3):
        training.one_step(run, lambda model, _: model(torch.ones(2)).sum(), 1.0, clip=99.0)
    assert torch.equal(model.weight.detach(), torch.full((1, 2), -3.0))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_before_the_weights_are_touched(bad):
    run = new_run()
    training.train(run, loss_of, until=3)
    before = weights(run)

    def spoilt(model, generator):
        return next_token_loss(model, torch.randint(17, (5, 8), generator=generator)) * bad

    with pytest.raises(FloatingPointError, match=f"the loss must be finite, got {bad} at step 3"):
        training.train(run, spoilt)
    assert torch.equal(weights(run), before)
    assert run.step == 3


def test_a_gradient_that_is_not_finite_stops_too():
    run = new_run()
    training.train(run, loss_of, until=2)
    before = weights(run)

    def steep(model, generator):
        return loss_of(model, generator) + (model.embedding.weight[0] * 0).abs().sqrt().sum()

    with pytest.raises(FloatingPointError, match="gradient must be finite, got nan at step 2"):
        training.train(run, steep)
    assert torch.equal(weights(run), before)
    assert run.step == 2


def test_training_and_measuring_put_the_model_in_the_right_mode():
    modes, run = [], new_run(steps=2)

    def watching(model, generator):
        modes.append(("step", model.training, torch.is_grad_enabled()))
        return loss_of(model, generator)

    def measure(model):
        modes.append(("measure", model.training, torch.is_grad_enabled()))
        return {}

    training.train(run, watching, every=1, measure=measure)
    assert modes == 2 * [("step", True, True), ("measure", False, False)]


@pytest.mark.parametrize("broken", ["save", "replace", "fsync"])
def test_an_interrupted_write_leaves_the_old_checkpoint_whole(broken, tmp_path, monkeypatch):
    path, run = tmp_path / "run.pt", new_run()
    training.train(run, loss_of, until=2, path=path)
    old = path.read_bytes()
    training.train(run, loss_of, until=4)
    real_save = torch.save

    def half(state, file):
        real_save(state, file)
        file.truncate(file.tell() // 2)
        raise KeyboardInterrupt

    def fail(*args):
        raise OSError(28, "No space left on device")

    if broken == "save":
        monkeypatch.setattr(torch, "save", half)
    else:
        monkeypatch.setattr(os, broken, fail)
    with pytest.raises((KeyboardInterrupt, OSError)):
        training.save(run, path)
    monkeypatch.undo()
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
    assert training.load(new_run(), path).step == 2


def test_a_checkpoint_that_does_not_fit_is_refused_in_words(tmp_path):
    path = tmp_path / "run.pt"
    training.save(new_run(), path)
    with pytest.raises(ValueError, match="a run with steps 12, but this run has 13"):
        training.load(new_run(steps=13), path)
    one = new_run()
    one.optimisers[0] = torch.optim.SGD(one.optimisers[0].param_groups[0]["params"], lr=1.0)
    before = weights(one)
    with pytest.raises(ValueError, match=r"optimisers \['Muon of 8', 'AdamW of 4'\], but this run "
                                         r"has \['SGD of 8'"):
        training.load(one, path)
    assert torch.equal(weights(one), before)
    model = LanguageModel(n_tokens=17, d_model=15, n_heads=3, n_layers=2)
    other = training.new_run(model, optimisers(model), STEPS)
    with pytest.raises(ValueError, match=r"(?s)holds another model: .*size mismatch"):
        training.load(other, path)


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_a_checkpoint_never_runs_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Harmful(), "steps": STEPS}, tmp_path / "run.pt")
    with pytest.raises(Exception, match=r"[Ww]eights.only"):
        training.load(new_run(), tmp_path / "run.pt")
    assert not (tmp_path / "pwned").exists()


def test_the_seed_decides_which_batches_are_drawn():
    run = training.new_run(torch.nn.Linear(1, 1), [], 1, seed=3)
    drawn = torch.rand(3, generator=run.generator)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(3)))
