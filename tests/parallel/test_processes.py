"""Several processes, started, watched and ended by utils.parallel.processes.launch."""

import os
import subprocess
import sys
import time
from pathlib import Path

import distributed_programs as programs
import pytest
import torch

from utils.parallel import processes
from utils.parallel.processes import launch

pytestmark = pytest.mark.slow

EAR = """
import sys

def heard(event, args):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        name = args[0]
    elif event in ("socket.connect", "socket.bind", "socket.sendto"):
        name = args[1][0] if isinstance(args[1], tuple) else "file"
    else:
        return
    with open({path!r}, "a") as log:
        log.write(str(name) + "\\n")

sys.addaudithook(heard)
"""


def alive(pid):
    """Return whether a process is there, and not merely waiting for its parent to notice."""
    stat = Path("/proc", pid, "stat")
    if Path("/proc/self/stat").exists():
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


def running(folder):
    """Return which of the processes noted down in a folder are still there."""
    return [note.name for note in Path(folder).iterdir() if alive(note.name)]


def gone(folder):
    """Wait until none of the processes noted down in a folder is there; return which still are."""
    until = time.monotonic() + 5
    while running(folder) and time.monotonic() < until:
        time.sleep(0.05)
    return running(folder)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Return what four processes return, the numbers that they add, and the names they looked up.

    What Python does with sockets in all of them, torchrun included, is written down on the way.
    """
    folder = tmp_path_factory.mktemp("ear")
    (folder / "sitecustomize.py").write_text(EAR.format(path=str(folder / "heard")))
    x, told = torch.randn(4, 3, dtype=torch.float64), {"a": [1, 2.5, "b"], "c": (None, True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        torch.set_default_dtype(torch.float64)
        try:
            returned = launch(programs.summed, 4, x, told)
        finally:
            torch.set_default_dtype(torch.float32)
    heard = (folder / "heard").read_text().split() if (folder / "heard").exists() else []
    return returned, x, told, heard


def test_each_process_has_its_number_and_all_hold_the_sum(good):
    returned, x, told, _ = good
    assert [one["rank"] for one in returned] == [0, 1, 2, 3]
    assert {one["size"] for one in returned} == {4}
    for one in returned:
        torch.testing.assert_close(one["sum"], x.sum(dim=0), rtol=0, atol=1e-12)
        assert one["told"] == told


def test_processes_take_over_the_dtype_and_compute_with_one_thread_each(good):
    assert {(one["dtype"], one["threads"]) for one in good[0]} == {("torch.float64", 1)}


def test_without_a_gpu_for_each_the_processes_speak_gloo(good):
    assert {one["backend"] for one in good[0]} == {
        "nccl" if torch.cuda.device_count() >= 4 else "gloo"}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc")
def test_nothing_listens_but_on_the_loopback(good):
    addresses = {address for one in good[0] for address in one["listening"]}
    assert addresses == {"0100007F"}  # 127.0.0.1


def test_no_other_host_is_named_or_spoken_to(good):
    assert good[3]
    assert set(good[3]) <= {"127.0.0.1", "localhost", "::1", "file"}


@pytest.mark.parametrize(("program", "error", "words"), [
    (programs.raises, RuntimeError, "rank 1 of 3 raised ValueError: x has 3 rows, and 4 were "),
    (programs.exits, RuntimeError, "rank 1 of 3 exited with status 3 before it returned a "
     "result"),
    (programs.hangs, TimeoutError, "not finished after 6 seconds: rank 0 was in hangs, line "),
])
def test_a_failure_is_told_and_nothing_is_left_running(program, error, words, tmp_path):
    with pytest.raises(error) as caught:
        launch(program, 3, str(tmp_path), seconds=6 if program is programs.hangs else 60)
    said = str(caught.value)
    assert said.startswith(words)
    if program is programs.raises:
        assert "in raises" in said
        assert "_rank.py" not in said
    if program is programs.hangs:
        assert "rank 1 was in hangs, line" in said
        assert said.count("distributed_programs.py") == 3
    assert alive(str(os.getpid()))
    assert gone(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 4  # three, and the one that has started them


def test_whoever_is_killed_takes_the_processes_along(tmp_path):
    source = ("import sys; sys.path[:0] = sys.argv[2:]; import distributed_programs as programs; "
              "from utils.parallel.processes import launch; launch(programs.hangs, 2, sys.argv[1])")
    places = [str(Path(processes.__file__).parents[1]), str(Path(__file__).parent)]
    process = subprocess.Popen([sys.executable, "-c", source, str(tmp_path), *places])
    until = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(running(tmp_path)) == 3
    process.kill()
    process.wait()
    assert gone(tmp_path) == []


def test_after_a_failure_all_ranks_begin_anew_as_often_as_they_may(tmp_path):
    assert launch(programs.third_life, 2, str(tmp_path), max_restarts=3) == [2, 2]
    assert len(list(tmp_path.iterdir())) == 7  # three lives of two, and who has started them
    assert gone(tmp_path) == []


def test_after_the_last_restart_the_last_failure_is_told(tmp_path):
    with pytest.raises(RuntimeError) as caught:
        launch(programs.dies_again, 2, str(tmp_path), max_restarts=1)
    assert str(caught.value) == ("rank 1 of 2 was killed by signal 9 before it returned a "
                                 "result, after 1 restart")
    assert gone(tmp_path) == []


def test_a_rank_that_leaves_early_is_named(tmp_path):
    lost = "RuntimeError: Connection closed by peer [127.0.0.1]:4292"
    (tmp_path / "0.error").write_text(f"2.0\n{lost}\nTraceback\n{lost}")
    (tmp_path / "1.returned").touch()
    (tmp_path / "log").touch()
    said = processes._failure(tmp_path, 2)
    assert said.startswith("rank 0 of 2 lost its connection to another rank (rank 1 had alre")


def test_the_first_error_counts_and_not_those_that_it_brings_about(tmp_path):
    (tmp_path / "0.error").write_text("1.0\nRuntimeError: Connection closed by peer\nlast")
    (tmp_path / "1.error").write_text("3.0\nKeyError: 'b'\nlast")
    (tmp_path / "2.error").write_text("2.0\nKeyError: 'a'\nlast")
    (tmp_path / "log").touch()
    assert processes._failure(tmp_path, 3) == "rank 2 of 3 raised KeyError: 'a'\nlast"
    assert processes._failure(tmp_path, 3, 2).startswith(
        "rank 2 of 3 raised KeyError: 'a', after 2 restarts\n")


def test_when_torchrun_itself_fails_its_last_words_are_told(tmp_path):
    (tmp_path / "log").write_text("\n".join(map(str, range(20))))
    assert processes._failure(tmp_path, 3).startswith("torchrun failed: 8\n")


def test_a_process_killed_from_outside_is_named(tmp_path):
    (tmp_path / "log").write_text("  rank      : 2 (local_rank: 2)\n  exitcode  : -9 (pid: 7)\n"
                                  "  rank      : 1 (local_rank: 1)\n  exitcode  : -15 (pid: 6)")
    assert processes._failure(tmp_path, 3) == (
        "rank 2 of 3 was killed by signal 9 before it returned a result")


@pytest.mark.parametrize("n_processes", [0, -1, 2.0, "4"])
def test_the_number_of_processes_is_checked(n_processes):
    with pytest.raises(ValueError, match=f"n_processes must be .* at least 1, got {n_processes!r}"):
        launch(programs.summed, n_processes)


@pytest.mark.parametrize("max_restarts", [-1, 1.0, None])
def test_the_number_of_restarts_is_checked(max_restarts):
    with pytest.raises(ValueError, match=f"max_restarts must be .* 0, got {max_restarts!r}"):
        launch(programs.summed, 1, max_restarts=max_restarts)


def test_a_result_that_is_no_plain_value_is_refused(tmp_path):
    from utils.parallel import _rank
    with pytest.raises(TypeError, match="arguments and results must be tensors, numbers or str"):
        _rank.stored({"a": Path("x")}, tmp_path / "0.returned")
    assert not (tmp_path / "0.returned").exists()


def test_an_argument_that_is_no_plain_value_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(TypeError, match="arguments and results must be tensors, numbers or str"):
        launch(programs.summed, 2, torch.ones(2, 3), Path("x"))


def test_where_a_late_rank_stood_is_where_the_program_stood_not_what_helps_it(tmp_path):
    (tmp_path / "0.stands").write_text(
        'Timeout (0:00:01)!\nThread 0x01 (most recent call first):\n'
        '  File "/p/program.py", line 2 in before\n\n'
        'Timeout (0:00:01)!\nThread 0x02 (most recent call first):\n'
        '  File "/p/threading.py", line 331 in wait\n\nThread 0x01 (most recent call first):\n'
        '  File "/p/torch/distributed.py", line 9 in wait\n'
        '  File "/p/program.py", line 6 in mine\n')
    (tmp_path / "1.stands").touch()
    (tmp_path / "2.returned").touch()
    assert processes._late(tmp_path, 4, 8) == (
        "not finished after 8 seconds: rank 0 was in mine, line 6 of program.py; rank 1 had just "
        "started; rank 2 had returned; rank 3 had not started")


def test_tensors_are_moved_wherever_they_stand_and_leave_their_history():
    from utils.parallel._rank import moved
    x = torch.ones(2, requires_grad=True)
    got = moved({"a": [x, (2 * x, "b")], "c": 3}, "cpu")
    assert got["c"] == 3
    assert got["a"][1][1] == "b"
    assert not got["a"][0].requires_grad
    assert torch.equal(got["a"][1][0], torch.tensor([2.0, 2.0]))
    got["a"][0][0] = 5
    assert x[0] == 1


def test_the_command_is_torchrun_s_with_an_address_of_this_machine(tmp_path):
    (tmp_path / "program.py").write_text("import math as m\n")
    command = processes._command(tmp_path, 3, 2)
    assert "['torch.distributed', 'math', 'torch._dynamo']" in command[3]
    assert "--max-restarts=2" in command
    assert command[0] == sys.executable
    assert "--local-addr=127.0.0.1" in command
    assert not any("port" in part or "://" in part for part in command[4:])


def test_no_process_imports_late_what_all_of_them_need():
    for late in launch(programs.what_is_imported_late, 2):
        assert not [name for name in late if name.startswith("torch")]
