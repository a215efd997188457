"""Files that are written whole or not at all, and read with errors that name the file."""

import contextlib
import glob
import hashlib
import json
import os
import secrets
import shutil
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def write(path, data):
    """Write the bytes ``data`` to ``path``, whole or not at all.

    The file is written under another name and renamed at the end. So after a kill, on a full disk
    and with two writers at once, ``path`` holds all that one of them wrote, or what it held before.
    What killed writers left is deleted by the next (not on Windows). Raises FileNotFoundError for a
    missing folder, ValueError where ``path`` is not a file, OSError when it cannot be written.
    """
    path = Path(path)
    folder(path)
    with beside_others(path.parent, f".{glob.escape(path.name)}.*.part"):
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)  # in one step, on the same disk
        except BaseException as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            if not isinstance(error, OSError):
                raise
            raise OSError(error.errno, f"{path} was not written, and is as it was before, because "
                                       f"of this error: {error.strerror}") from error


def folder(path):
    """Raise FileNotFoundError or ValueError unless a file can be called ``path``."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path} cannot be written, because there is no folder "
                                f"{path.parent}; create it first")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a file, but it is a folder or a device")


@contextlib.contextmanager
def beside_others(folder, left):
    """Share the lock of a folder with all writers; if there is no other, delete what is ``left``.

    ``left`` is the pattern of the names of unfinished files and folders, which killed writers left.
    Without locks, as on Windows and on some network disks, nothing is deleted.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # somebody writes, or the disk has no locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for part in Path(folder).glob(left):
                shutil.rmtree(part) if part.is_dir() else part.unlink()
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for processes that were forked meanwhile
        os.close(handle)


def read(path, writer):
    """Return the bytes of ``path``, a file that ``writer`` writes; it is named in the messages.

    Raises FileNotFoundError if it does not exist, ValueError if it is not a file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; {writer} writes it")
    if not path.is_file():
        raise ValueError(f"{path} must be a file that {writer} wrote, but it is a folder or a "
                         "device")
    return path.read_bytes()


def sha256(path):
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path, writer):
    """Return what a JSON file holds. Raises as ``read``, and ValueError if it is not JSON."""
    data = read(path, writer)
    try:
        return json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error}); {writer} writes a new one") from error
