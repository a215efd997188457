"""A run that stops and goes on ends as one that did not, and nothing is lost on the way."""

import copy
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from exact import raises
from torch import nn

from utils.models import training
from utils.models.language_model import LanguageModel, next_token_loss, optimisers

STEPS = 12


def new_run(steps=STEPS, seed=3, d_model=12):
    torch.manual_seed(seed)
    model = LanguageModel(n_tokens=17, d_model=d_model, n_heads=3, n_layers=2)
    return training.new_run(model, optimisers(model), steps, seed)


def loss_of(model, generator):
    return next_token_loss(model, torch.randint(17, (5, 8), generator=generator))


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.model.parameters()])


def state(run):
    """Return copies of all that training changes, as text, since tensors have no equality."""
    torch.set_printoptions(profile="full")
    try:
        return repr([run.step, run.steps, run.seconds, run.history, run.generator.get_state(),
                     run.model.state_dict(), [one.state_dict() for one in run.optimisers]])
    finally:
        torch.set_printoptions(profile="default")


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


def test_a_run_that_was_extended_goes_on_as_one_of_that_length(tmp_path):
    path, shares = tmp_path / "run.pt", []
    run = training.load(new_run(), training.train(new_run(), loss_of, path=path) and path)

    def share(step, steps):
        shares.append((step, steps))
        return 0.5

    assert training.extend(run, 15) is run
    training.train(run, loss_of, decay=share, path=path)
    assert shares == [(12, 15), (13, 15), (14, 15)]
    assert training.load(new_run(15), path).step == 15
    with raises(ValueError, "steps must be at least 16, got 15"):
        training.extend(run, 15)
    assert run.steps == 15


def test_a_trained_model_is_trained_on_as_a_new_run_with_all_its_rate(whole):
    model = copy.deepcopy(whole.model)
    run = training.train(training.new_run(model, optimisers(model), 4), loss_of, until=1)
    assert run.optimisers[1].param_groups[0]["lr"] == 0.006  # as at the first step of any run
    assert (weights(run) != weights(whole)).any()


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"until": 13}, ValueError, "until=13 is past the end of the run, steps=12, where the learning "
                                "rate is 0; to train further, call extend(run, 13) first"),
    ({"until": -1}, ValueError, "until must be at least 0, got -1"),
    ({"clip": -1}, ValueError, "clip must be greater than 0, because it is a norm, got -1"),
    ({"clip": math.nan}, ValueError, "clip must be greater than 0, because it is a norm, got nan"),
    ({"clip": None}, TypeError, "clip must be a number, got None; math.inf clips nothing"),
    ({"every": 0}, ValueError, "every must be at least 1, got 0"),
    ({"decay": lambda step, steps: -0.5}, ValueError, "decay must return 0 or more, got -0.5 at "
                                                      "step 0 of 12"),
    ({"decay": lambda step, steps: math.nan}, ValueError, "decay must return 0 or more, got nan at "
                                                          "step 0 of 12"),
    ({"path": "no/run.pt"}, FileNotFoundError, "no/run.pt cannot be written, because there is no "
                                               "folder no; create it first"),
])
def test_what_would_spoil_a_run_is_refused_before_the_first_step(arguments, error, message):
    run = new_run()
    before = state(run)
    with raises(error, message):
        training.train(run, loss_of, **arguments)
    assert state(run) == before


def test_a_run_has_a_number_of_steps():
    with raises(ValueError, "steps must be at least 1, got 0"):
        new_run(steps=0)


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


def other_optimisers():
    run = new_run()
    run.optimisers[0] = torch.optim.SGD(run.optimisers[0].param_groups[0]["params"], lr=1.0)
    return run


def other_groups():
    """Return a run whose optimiser has as many parameters, but in two groups."""
    run = new_run()
    one, *rest = run.optimisers[1].param_groups[0]["params"]
    run.optimisers[1] = torch.optim.AdamW([{"params": [one]}, {"params": rest}])
    return training.new_run(run.model, run.optimisers, STEPS)


def of_float64():
    run = new_run()
    run.model.double()
    return run


@pytest.mark.parametrize(("run", "message"), [
    (lambda: new_run(steps=13), "a run with steps 12, but this run has 13; create it as the saved "
                                "one was"),
    (other_optimisers, "a run with optimisers ['Muon of 8', 'AdamW of 4'], but this run has "
                       "['SGD of 8', 'AdamW of 4']; create it as the saved one was"),
    (lambda: new_run(d_model=15), "a run with the parameter embedding.weight of torch.float32 "
                                  "(17, 12), but this run has torch.float32 (17, 15); create it as "
                                  "the saved one was"),
    (of_float64, "a run with the parameter embedding.weight of torch.float32 (17, 12), but this "
                 "run has torch.float64 (17, 12); create it as the saved one was"),
    (other_groups, "a run that does not fit this one: loaded state dict has a different number of "
                   "parameter groups"),
])
def test_a_checkpoint_that_does_not_fit_is_refused_and_the_run_unchanged(run, message, tmp_path):
    path, run = tmp_path / "run.pt", run()
    training.train(new_run(), loss_of, until=2, path=path)
    before = state(run)
    with raises(ValueError, f"{path} holds {message}"):
        training.load(run, path)
    assert state(run) == before


DAMAGES = {"empty": lambda data: b"", "cut": lambda data: data[:-1],
           "half": lambda data: data[:len(data) // 2], "text": lambda data: b"hello\n" * 99,
           "longer": lambda data: data + b"x", "zeros": lambda data: bytes(len(data))}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_run_unchanged(damage, tmp_path):
    path, run = tmp_path / "run.pt", new_run()
    training.train(new_run(), loss_of, until=2, path=path)
    path.write_bytes(damage(path.read_bytes()))
    before = state(run)
    with raises(ValueError, f"{path} is not a run that training.save wrote: it is damaged, "
                            "incomplete or another kind of file, and nothing was loaded"):
        training.load(run, path)
    assert state(run) == before


def test_a_flipped_bit_anywhere_is_noticed(tmp_path):
    path, run = tmp_path / "run.pt", new_run()
    training.train(new_run(), loss_of, until=2, path=path)
    data = path.read_bytes()
    bits = np.random.default_rng(0).choice(8 * len(data), 100, replace=False)
    for bit in (*bits, *range(8 * len(data) - 8 * 90, 8 * len(data), 9)):  # the end is special
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="is not a run that training"):
            training.load(run, path)


def test_another_file_of_pytorch_is_refused(tmp_path):
    torch.save({"steps": STEPS}, tmp_path / "run.pt")
    with pytest.raises(ValueError, match="is not a run that training"):
        training.load(new_run(), tmp_path / "run.pt")


def test_no_checkpoint_is_an_error_that_names_it(tmp_path):
    with raises(FileNotFoundError, f"{tmp_path / 'x'} does not exist; training.save writes it"):
        training.load(new_run(), tmp_path / "x")


class Harmful:
    def __reduce__(self):
        return os.mkdir, ("pwned",)


def test_a_checkpoint_never_runs_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = new_run()
    run.history = [Harmful()]
    monkeypatch.setattr(training._saved, "read", lambda data: None)  # `save` would refuse it
    training.save(run, tmp_path / "run.pt")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is not a run that training") as caught:
        training.load(new_run(), tmp_path / "run.pt")
    assert "Weights only load failed" in str(caught.value.__cause__)
    assert not (tmp_path / "pwned").exists()


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    path, run = tmp_path / "run.pt", new_run()
    training.save(run, path)
    run.history = [{"a": np.float64(1)}]
    with raises(TypeError, f"the run cannot be saved to {path}, because it could not be loaded "
                           "again: history and optimisers may hold only numbers, str and tensors "
                           "(UnpicklingError)"):
        training.save(run, path)
    assert training.load(new_run(), path).history == []


def test_measurements_become_floats(tmp_path):
    path = tmp_path / "run.pt"
    training.train(new_run(), loss_of, until=1, path=path, measure=lambda model: {
        "a": np.float32(0.5), "b": torch.tensor(2), "c": 3})
    entry, = training.load(new_run(), path).history
    assert {name: repr(entry[name]) for name in "abc"} == {"a": "0.5", "b": "2.0", "c": "3.0"}
    with raises(TypeError, "measure must return a dict of numbers, got {'a': 'b'}"):
        training.measured(new_run().model, lambda model: {"a": "b"})
    with raises(TypeError, "measure must return a dict of numbers, got 3"):
        training.measured(new_run().model, lambda model: 3)


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from test_training import loss_of, new_run, weights
from utils.models import training

path, rng = Path(sys.argv[1]), random.Random(0)
life = lambda: training.load(new_run(300), path) if path.exists() else new_run(300)
for _ in range(50):
    child = os.fork()
    if child == 0:
        training.train(life(), loss_of, every=1, path=path)
        os._exit(0)
    time.sleep(rng.uniform(0.01, 0.2))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print(life().step, len(list(path.parent.iterdir())))
run = training.train(life(), loss_of, path=path)
training.save(run, path)
assert weights(run).equal(weights(training.train(new_run(300), loss_of)))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_run_killed_fifty_times_ends_in_the_same_weights(tmp_path):
    here = Path(__file__).parent
    lines = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "run.pt")], check=True, text=True,
        stdout=subprocess.PIPE, env=os.environ | {
            "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1", "PYTHONPATH": os.pathsep.join(
                map(str, (here, here.parent, here.parents[1])))}).stdout.split("\n")[:-1]
    steps, left = zip(*(map(int, line.split()) for line in lines), strict=True)
    assert len(steps) == 50
    assert list(steps) == sorted(steps)
    assert len(set(steps)) > 3
    assert max(left) <= 2  # the run, and what one killed writer left
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_the_seed_decides_which_batches_are_drawn():
    run = training.new_run(torch.nn.Linear(1, 1), [], 1, seed=3)
    drawn = torch.rand(3, generator=run.generator)
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(3)))
