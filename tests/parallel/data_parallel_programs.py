"""Programs that the tests of data parallel training have several processes run."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from utils.models.language_model import LanguageModel
from utils.parallel.checkpoint import load, newest, save
from utils.parallel.data import clip, dealt, place, share_of_mean, summed_loss, take_step

STEPS = 6


def fresh(dtype=torch.float64, wrap=None, device="cpu"):
    """Return (model, what is called, optimiser) at their start; ``wrap``: "ddp", "fsdp" or None."""
    torch.manual_seed(0)
    model = LanguageModel(17, d_model=12, n_heads=3, n_layers=2).to(dtype)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    called = model.to(device)
    if wrap == "fsdp":
        mesh = init_device_mesh(torch.device(device).type, (place()[1],))
        for part in (*model.blocks, model):
            fully_shard(part, mesh=mesh)
    if wrap == "ddp":
        called = DistributedDataParallel(model)
    return model, called, torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95))


def filled(value):
    """Return a model full of one number, and its optimiser."""
    model, _, optimiser = fresh()
    for weight in model.parameters():
        torch.nn.init.constant_(weight, value)
    return model, optimiser


def saves_ten(value, folder, both):
    """Save a model full of one number at steps 0 to 9; the exit status counts those refused."""
    model, optimiser = filled(value)
    both.wait(100)
    refused = 0
    for step in range(10):
        try:
            save(model, optimiser, step, folder)
        except OSError:  # the other run was faster
            refused += 1
    sys.exit(refused)


def learn(called, optimiser, texts, start=0, stop=STEPS):
    """Take the steps from ``start`` on; return the losses."""
    losses = []
    for step in range(start, stop):
        loss = share_of_mean(*summed_loss(called, dealt(step, texts)))
        take_step(optimiser, loss, 0.01 * (1 - step / STEPS))
        losses.append(loss.item())
    return losses


def full(side):
    """Return all of a tensor that may lie in slices on several ranks."""
    return (side.full_tensor() if hasattr(side, "full_tensor") else side).detach()


def whole(model):
    """Return all weights of a model by name."""
    return {name: full(side) for name, side in model.state_dict().items()}


def equal(texts, folder):
    """Return weights, losses and the last gradients of each way to train, in each dtype.

    In float64 each saves after step 3 to ``folder/ddp`` or ``folder/fsdp``. A last sliced run goes
    on from ``folder/alone``.
    """
    answers = {}
    for dtype in torch.float64, torch.float32:
        for wrap in "ddp", "fsdp":
            model, called, optimiser = fresh(dtype, wrap, texts.device)
            losses = learn(called, optimiser, texts, stop=3)
            if dtype is torch.float64:
                save(called, optimiser, 3, Path(folder, wrap))
            losses += learn(called, optimiser, texts, start=3)
            answers[f"{wrap} {dtype}"] = {
                "weights": whole(model), "losses": losses,
                "grads": {name: full(side.grad) for name, side in model.named_parameters()}}
    model, _, optimiser = fresh(wrap="fsdp", device=texts.device)
    start = load(model, optimiser, Path(folder, "alone"))
    learn(model, optimiser, texts, start)
    return answers | {"resumed": {"weights": whole(model), "start": start}}


def clipped(texts, limit):
    """Return the clipped gradients of a sliced model, their norm, and that of this rank's own."""
    model, *_ = fresh(wrap="fsdp", device=texts.device)
    share_of_mean(*summed_loss(model, dealt(0, texts))).backward()
    own = torch.cat([side.grad.to_local().flatten() for side in model.parameters()]).norm()
    norm = clip(model.parameters(), limit)
    return {"own": own, "norm": norm,
            "grads": {name: full(side.grad) for name, side in model.named_parameters()}}


def resumed(texts, folder):
    """Return the weights of two runs that go on from what `equal` saved, and what a rank holds."""
    answers = {}
    for wrap in "ddp", "fsdp":
        model, called, optimiser = fresh(wrap=wrap, device=texts.device)
        start = load(called, optimiser, Path(folder, wrap))
        learn(called, optimiser, texts, start)
        own = sum(getattr(side, "_local_tensor", side).numel() for side in model.parameters())
        answers[wrap] = {"weights": whole(model), "start": start, "own": own}
    return answers


def dies(writer, plan, planner):
    """Write half of a file and die; the other rank has written its own by then."""
    while not list(Path(writer.path).glob("__0_0.distcp")):
        time.sleep(0.01)
    Path(writer.path, "__1_0.distcp").write_bytes(b"half of a")
    os.kill(os.getpid(), signal.SIGKILL)


def killed(texts, folder):
    """Go on till the end, saving after each second step; the first life ends while saving 4."""
    Path(folder, "pids").mkdir(exist_ok=True)
    Path(folder, "pids", str(os.getpid())).touch()
    model, _, optimiser = fresh(wrap="fsdp", device=texts.device)
    start = load(model, optimiser, folder)
    for step in range(start, STEPS):
        learn(model, optimiser, texts, step, step + 1)
        if start == 0 and step == 3 and place()[0] == 1:
            dcp.FileSystemWriter.write_data = dies
        if step % 2:
            save(model, optimiser, step + 1, folder)
    return {"weights": whole(model), "start": start}


def refused(folder):
    """Return with which message this rank refuses a checkpoint."""
    model, _, optimiser = fresh(wrap="fsdp")
    try:
        load(model, optimiser, folder)
    except ValueError as error:
        return str(error)
    return "loaded"


def found(texts, folder):
    """Save, where the name is given late; return the newest that this rank finds right after."""
    model, _, optimiser = fresh(wrap="fsdp", device=texts.device)
    named = Path.rename

    def late(path, new):
        if Path(new).name == "step-3":
            time.sleep(1)
        return named(path, new)

    Path.rename = late
    save(model, optimiser, 3, folder)
    return str(newest(folder))


def dies_before(writer, plan, planner):
    """Die before anything is written; the other rank has written its own anew by then."""
    written, index = Path(writer.path, "__0_0.distcp"), Path(writer.path, ".metadata")
    while written.stat().st_mtime_ns < index.stat().st_mtime_ns:
        time.sleep(0.01)
    time.sleep(0.3)  # the file is open by now, and small
    os.kill(os.getpid(), signal.SIGKILL)


def overwritten(texts, folder):
    """Save ones, and then twos into the same folder, where rank 1 dies; return what is read."""
    model, *_ = fresh(wrap="fsdp", device=texts.device)
    state = {"model": model.state_dict()}
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        for value in 1.0, 2.0:
            for side in model.state_dict().values():
                side.fill_(value)
            if value == 2 and place()[0] == 1:
                dcp.FileSystemWriter.write_data = dies_before
            dcp.save(state, checkpoint_id=folder)
    dcp.load(state, checkpoint_id=folder)
    return full(model.embedding.weight)[:, 0]
