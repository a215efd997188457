"""Checkpoints: whole or not there, read by any number of processes, and nothing is lost."""

import multiprocessing
import shutil
import sys
from pathlib import Path

import data_parallel_programs as programs
import numpy as np
import pytest
import torch
from exact import raises
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
    assert set(files) == {".metadata", "__0_0.distcp", "__1_0.distcp", "sha256.json"}
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


def test_what_is_no_checkpoint_is_passed_over(tmp_path):
    for name in ("step-3", "step-old", "step-8 (copy)", "step-", "step--9"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-9").touch()
    assert newest(tmp_path) == tmp_path / "step-3"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot lock a folder")
def test_what_a_dead_run_has_left_is_not_kept(texts, tmp_path):
    (tmp_path / "unfinished-0123abcd").mkdir()
    (tmp_path / "unfinished-0123abcd" / "__7_0.distcp").touch()
    (tmp_path / "unfinished-thesis").mkdir()
    save(*trained(texts), 3, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"step-3", "unfinished-thesis"}
    assert {path.name for path in (tmp_path / "step-3").iterdir()} == {
        ".metadata", "__0_0.distcp", "sha256.json"}


def test_a_checkpoint_is_never_written_over(texts, tmp_path):
    save(*trained(texts), 3, tmp_path)
    before = Path(tmp_path, "step-3", "__0_0.distcp").read_bytes()
    with raises(FileExistsError, f"{tmp_path / 'step-3'} exists, and no checkpoint is written "
                                 "over; delete it, or save to another folder"):
        save(*trained(texts, stop=5), 3, tmp_path)
    assert Path(tmp_path, "step-3", "__0_0.distcp").read_bytes() == before


def test_of_two_runs_that_save_at_once_each_checkpoint_is_of_one(tmp_path):
    spawn = multiprocessing.get_context("spawn")
    both = spawn.Barrier(2)
    runs = [spawn.Process(target=programs.saves_ten, args=(value, tmp_path, both))
            for value in (1.0, 2.0)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert sum(run.exitcode for run in runs) == 10
    assert {path.name for path in tmp_path.iterdir()} == {f"step-{step}" for step in range(10)}
    for step in reversed(range(10)):
        model, optimiser = programs.filled(3.0)
        assert load(model, optimiser, tmp_path) == step
        values = {value.item() for weight in model.parameters() for value in weight.unique()}
        assert values in ({1.0}, {2.0})
        shutil.rmtree(tmp_path / f"step-{step}")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_on_a_full_disk_the_checkpoints_before_stay(texts, tmp_path):
    import resource
    save(*trained(texts), 3, tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match="step-4 was not written, because of this error: "):
            save(*trained(texts), 4, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["step-3"]
    assert load(*programs.filled(0.0), tmp_path) == 3


def untouched(path, message):
    """Check that a checkpoint is refused, and that model and optimiser stay as they were."""
    model, optimiser = programs.filled(0.5)
    with raises(ValueError, message):
        load(model, optimiser, path.parent)
    assert all((weight == 0.5).all() for weight in model.parameters())
    assert not optimiser.state


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "sha256.json"])
def test_a_flipped_bit_anywhere_is_noticed(texts, tmp_path, name):
    save(*trained(texts), 3, tmp_path)
    file = tmp_path / "step-3" / name
    data = file.read_bytes()
    for bit in np.random.default_rng(0).choice(8 * len(data), 20, replace=False):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"step-3 is damaged: .*; delete this folder to go on"):
            load(*programs.filled(0.5), tmp_path)
    if name != "sha256.json":
        untouched(file.parent, f"{file.parent} is damaged: {name} is not as it was written; delete "
                               "this folder to go on from the checkpoint before it")


def test_a_slice_too_few_or_too_many_is_noticed(texts, tmp_path):
    save(*trained(texts), 3, tmp_path)
    path = tmp_path / "step-3"
    said = (f"{path} is damaged: it must hold the files ['.metadata', '__0_0.distcp'], got {{}}; "
            "delete this folder to go on from the checkpoint before it")
    (path / "__1_0.distcp").touch()
    untouched(path, said.format(['.metadata', '__0_0.distcp', '__1_0.distcp']))
    (path / "__1_0.distcp").unlink()
    (path / "__0_0.distcp").unlink()
    untouched(path, said.format(['.metadata']))


def test_all_ranks_refuse_what_one_has_found_damaged(by_two, tmp_path):
    shutil.copytree(by_two[0] / "fsdp", tmp_path / "fsdp")
    file = tmp_path / "fsdp" / "step-3" / "__1_0.distcp"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert launch(programs.refused, 2, str(tmp_path / "fsdp")) == 2 * [
        f"{file.parent} is damaged: {file.name} is not as it was written; delete this folder to "
        "go on from the checkpoint before it"]


def test_a_checkpoint_that_was_not_sealed_is_still_loaded(texts, tmp_path):
    save(*trained(texts), 3, tmp_path)
    (tmp_path / "step-3" / "sha256.json").unlink()
    assert load(*programs.filled(0.5), tmp_path) == 3


def test_what_has_the_name_of_a_checkpoint_and_is_none_is_refused(tmp_path):
    (tmp_path / "step-9").mkdir()
    untouched(tmp_path / "step-9", f"{tmp_path / 'step-9'} is not a checkpoint that was saved "
                                   "here; move it elsewhere, or rename it")


def test_another_model_or_optimiser_is_refused_before_anything_is_changed(texts, tmp_path):
    save(*trained(texts), 3, tmp_path)
    model = programs.LanguageModel(17, d_model=15, n_heads=3, n_layers=2).double()
    before, optimiser = programs.whole(model), torch.optim.AdamW(model.parameters())
    said = f"{tmp_path / 'step-3'} is of another model or optimiser: "
    with raises(ValueError, f"{said}model.embedding.weight must be torch.float64 (17, 15), got "
                            "torch.float64 (17, 12)"):
        load(model, optimiser, tmp_path)
    assert same(before, programs.whole(model))
    model, _ = programs.filled(0.5)
    with raises(ValueError, f"{said}optimiser.param_groups.0.betas must be absent, got an "
                           "option"):
        load(model, torch.optim.SGD(model.parameters()), tmp_path)
    assert all((weight == 0.5).all() for weight in model.parameters())


def test_whoever_saves_to_the_same_folder_may_find_half_of_each(texts, tmp_path):
    # What the chapter shows, and why `save` makes a folder for each: the old index fits.
    found, _ = launch(programs.overwritten, 2, texts, str(tmp_path), max_restarts=1)
    assert found.tolist() == [2.0] * 9 + [1.0] * 8
