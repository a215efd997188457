"""The script that each process runs; torchrun starts it for ``processes``.

    torchrun … _rank.py FOLDER

The folder holds the program and its arguments. Each rank writes there what it returned, or its
error.
"""

import faulthandler
import os
import re
import runpy
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

LOST = re.compile("[Cc]onnection (closed|reset|refused)|Broken pipe")  # that another rank ended


def moved(value, device):
    """Return a copy of a value with all its tensors detached and moved to a device.

    The value may nest lists, tuples and dicts.
    """
    if isinstance(value, torch.Tensor):
        return value.detach().clone().to(device)
    if isinstance(value, dict):
        return {name: moved(part, device) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(moved(part, device) for part in value)
    return value


def main(folder):
    """Join the process group, run the program, and store what it returns."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = folder / f"ranks{os.environ['TORCHELASTIC_RESTART_COUNT']}"  # one for each restart
    for end in ("error", "returned"):  # before a restart
        (folder / f"{rank}.{end}").unlink(missing_ok=True)
    given = torch.load(folder / "arguments", weights_only=True)
    with open(folder / f"{rank}.stands", "w", encoding="utf-8") as where:  # where a late rank stood
        faulthandler.dump_traceback_later(given["seconds"] / 4, repeat=True, file=where)
        try:
            torch.set_default_dtype(getattr(torch, given["dtype"]))
            gpus = torch.cuda.device_count() >= size
            if gpus:
                torch.cuda.set_device(rank)
            dist.init_process_group(
                "nccl" if gpus else "gloo", init_method=f"file://{meeting}", rank=rank,
                world_size=size, timeout=timedelta(seconds=given["seconds"] + 60))
            program = runpy.run_path(str(folder / "program.py"))["program"]
            arguments = moved(given["arguments"], f"cuda:{rank}" if gpus else "cpu")
            returned = moved(program(*arguments), "cpu")
            stored(returned, folder / f"{rank}.returned")
            dist.destroy_process_group()
        except BaseException as error:
            _report(error, folder / f"{rank}.error")
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()


def stored(values, path):
    """Write what a program takes or returns. Raises TypeError if it cannot be loaded again."""
    torch.save(values, path.with_suffix(".part"))
    try:
        torch.load(path.with_suffix(".part"), weights_only=True)
    except Exception as error:
        raise TypeError("arguments and results must be tensors, numbers or str, in tuples, lists "
                        "or dicts") from error
    path.with_suffix(".part").rename(path)


def _report(error, path):
    """Write an error as text: the time, its message, and the end of its traceback."""
    trace = error.__traceback__.tb_next or error.__traceback__  # without the step in this file
    lines = "".join(traceback.format_exception(type(error), error, trace)).splitlines()
    sentence = " ".join("".join(traceback.format_exception_only(error)).split())
    path.with_suffix(".part").write_text(
        "\n".join([repr(time.time()), sentence, *lines[-12:]]), "utf-8")
    path.with_suffix(".part").rename(path)
    if LOST.search(sentence):
        time.sleep(1)  # so that torchrun first sees the rank that ended


if __name__ == "__main__":
    main(Path(sys.argv[1]))
