"""Checkpoints: whole or not there, read by any number of processes, and nothing is lost."""

import shutil
from pathlib import Path

import data_parallel_programs as programs
import pytest
import torch
from test_data import new_texts
from test_processes import gone

from utils.checks import difference
from utils.parallel.checkpoint import load, newest, save
from utils.parallel.processes import launch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def texts():
    return new_texts()


@pytest.fixture(scope="module")
def undisturbed(texts):
    """Return the weights of a run that nobody stopped, by one process."""
    model, called, optimiser = programs.fresh()
    programs.learn(called, optimiser, texts)
    return programs.whole(model)


def trained(texts, stop=3):
    """Return a model and its optimiser after some steps."""
    model, called, optimiser = programs.fresh()
    programs.learn(called, optimiser, texts, stop=stop)
    return model, optimiser


def same(weights, others):
    """Return whether all weights are equal, to the last bit."""
    return all(torch.equal(side, others[name]) for name, side in weights.items())


@pytest.fixture(scope="module")
def by_two(texts, tmp_path_factory):
    """Return a folder with checkpoints of step 3 by two ranks, and what they ended with."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "alone").mkdir()
    ranks = launch(programs.equal, 2, texts, str(folder))
    return folder, ranks[0]["fsdp torch.float64"]["weights"]


def test_one_process_goes_on_to_the_last_bit(texts, undisturbed, tmp_path):
    save(*trained(texts), 3, tmp_path)
    model, called, optimiser = programs.fresh()
    assert load(model, optimiser, tmp_path) == 3
    programs.learn(called, optimiser, texts, 3)
    assert same(programs.whole(model), undisturbed)


def test_where_nothing_is_saved_a_run_begins_at_0_and_as_it_is(tmp_path):
    model, _, optimiser = programs.fresh()
    assert load(model, optimiser, tmp_path) == 0
    assert same(programs.whole(model), programs.whole(programs.fresh()[0]))
    assert newest(tmp_path) is None


@pytest.mark.parametrize("wrap", ["ddp", "fsdp"])
def test_one_process_goes_on_from_what_two_have_saved(texts, by_two, undisturbed, wrap):
    model, called, optimiser = programs.fresh()
    assert load(model, optimiser, by_two[0] / wrap) == 3
    programs.learn(called, optimiser, texts, 3)
    for name, side in programs.whole(model).items():
        assert difference(side, undisturbed[name]) < 1e-12


def test_four_processes_go_on_from_what_two_have_saved_and_hold_a_quarter_if_sliced(
        texts, by_two, undisturbed):
    ranks = launch(programs.resumed, 4, texts, str(by_two[0]))
    numbers = sum(side.numel() for side in undisturbed.values())
    assert sum(rank["fsdp"]["own"] for rank in ranks) == numbers
    assert max(rank["fsdp"]["own"] for rank in ranks) < 0.35 * numbers
    for answer in (answer for rank in ranks for answer in rank.values()):
        assert answer["start"] == 3
        for name, side in undisturbed.items():
            assert difference(answer["weights"][name], side) < 1e-12


def test_each_rank_writes_its_half(by_two):
    files = {path.name: path.stat().st_size for path in (by_two[0] / "fsdp" / "step-3").iterdir()}
    assert set(files) == {".metadata", "__0_0.distcp", "__1_0.distcp"}
    assert 0.5 < files["__0_0.distcp"] / files["__1_0.distcp"] < 2


def test_a_run_killed_while_it_saves_ends_as_if_nobody_had_died(texts, by_two, tmp_path):
    ranks = launch(programs.killed, 2, texts, str(tmp_path), max_restarts=1)
    assert [rank["start"] for rank in ranks] == [2, 2]  # 4 was never whole
    assert all(same(rank["weights"], by_two[1]) for rank in ranks)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"step-2", "step-4", "step-6", "pids"}
    assert gone(tmp_path / "pids") == []
    assert len(list((tmp_path / "pids").iterdir())) == 4  # two lives of two


def test_who_has_saved_finds_it_on_every_rank(texts, tmp_path):
    assert launch(programs.found, 2, texts, str(tmp_path)) == [str(tmp_path / "step-3")] * 2


def test_a_checkpoint_that_was_cut_off_is_not_taken(texts, tmp_path):
    save(*trained(texts, stop=2), 2, tmp_path)
    shutil.copytree(tmp_path / "step-2", tmp_path / "unfinished-4")
    assert newest(tmp_path).name == "step-2"


def test_the_newest_is_the_one_of_most_steps_not_the_last_name(texts, tmp_path):
    for step in (12, 8, 100, 9):
        (tmp_path / f"step-{step}").mkdir()
    assert newest(str(tmp_path)) == tmp_path / "step-100"


def test_what_a_dead_run_has_left_is_not_kept(texts, tmp_path):
    (tmp_path / "unfinished-3").mkdir()
    (tmp_path / "unfinished-3" / "__7_0.distcp").touch()
    save(*trained(texts), 3, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-3"]
    assert {path.name for path in (tmp_path / "step-3").iterdir()} == {".metadata", "__0_0.distcp"}


def test_a_checkpoint_is_never_written_over(texts, tmp_path):
    save(*trained(texts), 3, tmp_path)
    before = Path(tmp_path, "step-3", "__0_0.distcp").read_bytes()
    with pytest.raises(OSError, match="step-3"):
        save(*trained(texts, stop=5), 3, tmp_path)
    assert Path(tmp_path, "step-3", "__0_0.distcp").read_bytes() == before


def test_whoever_saves_to_the_same_folder_may_find_half_of_each(texts, tmp_path):
    # What the chapter shows, and why `save` makes a folder for each: the old index fits.
    found, _ = launch(programs.overwritten, 2, texts, str(tmp_path), max_restarts=1)
    assert found.tolist() == [2.0] * 9 + [1.0] * 8
