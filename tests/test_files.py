"""Files: written whole or not at all, whoever is killed, and however full the disk is."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from exact import raises

from utils import files

ROOT = Path(__file__).resolve().parents[1]
WRITER = """
import itertools, sys
from utils import files
for n in itertools.count(int(sys.argv[2])):
    files.write(sys.argv[1], (b"%d " % n) * 50_000)
    print(n, flush=True)
"""


def test_what_is_read_is_what_was_written(tmp_path):
    path = tmp_path / "file"
    for data in (b"old" * 1000, b"", b"new"):
        files.write(str(path), data)
        assert files.read(str(path), "nobody") == data
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_a_write_that_fails_part_way_leaves_the_old_file(tmp_path):
    import resource
    path, new = tmp_path / "file", tmp_path / "new"
    files.write(path, b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))  # 5,000 bytes of 10,000
    try:
        for place in (path, new):
            with raises(OSError, f"[Errno 27] {place} was not written, and is as it was before, "
                                 "because of this error: File too large"):
                files.write(place, b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_an_error_on_the_way_leaves_the_old_file(error, broken, tmp_path, monkeypatch):
    def fail(*args):
        raise error

    path = tmp_path / "file"
    files.write(path, b"old")
    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(type(error)) as caught:
        files.write(path, b"new")
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert str(caught.value) == (f"[Errno 28] {path} was not written, and is as it was before, "
                                     "because of this error: No space left on device")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_writers_at_once_do_not_mix(tmp_path):
    path, faults = tmp_path / "file", []

    def work(letter):
        try:
            for _ in range(50):
                files.write(path, letter * 20_000)
                faults.extend({len(set(files.read(path, "nobody")))} - {1})
        except OSError as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot lock a folder")
def test_what_the_dead_left_is_deleted_and_what_the_living_write_is_not(tmp_path, monkeypatch):
    path, other, seen = tmp_path / "a[b]", tmp_path / ".a[b].other", []
    other.touch()
    (tmp_path / ".a[b].0123abcd.part").touch()
    sync = os.fsync

    def while_writing(handle):
        if not seen:
            seen.append({part.name for part in tmp_path.glob("*.part")})
            files.write(path, b"second")  # by another, meanwhile
            seen.append({part.name for part in tmp_path.glob("*.part")})
        sync(handle)

    monkeypatch.setattr(os, "fsync", while_writing)
    files.write(path, b"first")
    assert len(seen[0]) == 1
    assert ".a[b].0123abcd.part" not in seen[0]
    assert seen[1] == seen[0]
    assert path.read_bytes() == b"first"
    assert set(tmp_path.iterdir()) == {path, other}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_fifty_kills_lose_nothing(tmp_path):
    path, said = tmp_path / "file", -1
    for kill in range(50):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(said + 1)],
                                   stdout=subprocess.PIPE, text=True, cwd=ROOT)
        said = int(process.stdout.readline())
        threading.Event().wait(kill * 0.0007)  # each kill a little later
        os.kill(process.pid, signal.SIGKILL)
        said = max([said, *map(int, process.communicate()[0].split())])
        found = set(path.read_bytes().split())
        assert found in ({b"%d" % said}, {b"%d" % (said + 1)})
        assert len(list(tmp_path.iterdir())) <= 2
    files.write(path, b"last")
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_refused(tmp_path):
    missing = tmp_path / "no" / "file"
    with raises(FileNotFoundError, f"{missing} cannot be written, because there is no folder "
                                   f"{missing.parent}; create it first"):
        files.write(missing, b"")
    with raises(ValueError, f"{tmp_path} must be a file, but it is a folder or a device"):
        files.write(tmp_path, b"")
    with raises(FileNotFoundError, f"{missing} does not exist; `make x` writes it"):
        files.read(missing, "`make x`")
    with raises(ValueError, f"{tmp_path} must be a file that `make x` wrote, but it is a folder or "
                            "a device"):
        files.read(tmp_path, "`make x`")


@pytest.mark.parametrize(("data", "why"), [
    (b"", r"Expecting value: line 1 .*"), (b'{"a": 1', r"Expecting ',' delimiter: .*"),
    (b"\xff\xfe\x00", r"'utf-8' codec can't decode .*"), (b"[" * 100_000, "maximum recursion.*")])
def test_what_is_no_json_is_refused(data, why, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"file is not JSON \({why}\); `make x` writes a new one"):
        files.read_json(path, "`make x`")


def test_json_is_read_as_utf_8(tmp_path):
    (tmp_path / "file").write_bytes('{"a": ["é", 1]}'.encode())
    assert files.read_json(tmp_path / "file", "nobody") == {"a": ["é", 1]}
