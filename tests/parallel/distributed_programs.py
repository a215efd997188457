"""Programs that the tests of utils.parallel.processes have several processes run."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import parallelize_module

from utils.models.transformer import EncoderLayer
from utils.parallel.collectives import Collectives
from utils.parallel.ring import Hop, ring_attention
from utils.parallel.tensor import SeparateAttention, plan


def summed(x, told):
    """Return who we are, what we were told, and the sum of what all hold."""
    mine = x[dist.get_rank()].clone()
    dist.all_reduce(mine)
    print("rank", dist.get_rank(), "was here")
    return {"rank": dist.get_rank(), "size": dist.get_world_size(), "sum": mine, "told": told,
            "threads": torch.get_num_threads(), "dtype": str(torch.get_default_dtype()),
            "backend": dist.get_backend(), "listening": listening()}


def listening():
    """Return the addresses, in hexadecimal, at which processes of our group accept connections."""
    ours = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == os.getpgid(0):
                ours |= {os.readlink(link) for link in (folder / "fd").iterdir()}
        except OSError:  # a process that has ended, or a file that was closed
            continue
    rows = [line.split() for table in ("tcp", "tcp6") if Path("/proc/net", table).exists()
            for line in Path("/proc/net", table).read_text().splitlines()[1:]]
    return [row[1].partition(":")[0] for row in rows
            if row[3] == "0A" and f"socket:[{row[9]}]" in ours]


def what_is_imported_late():
    """Return the modules that exchanges, counted and gone back through, import."""
    before, x = set(sys.modules), torch.ones(3, requires_grad=True)
    with Collectives():
        y = torch.distributed.nn.functional.all_reduce(2 * x)
        y.sum().backward()
    return sorted(set(sys.modules) - before)


def here(folder):
    """Write down which process this is, and which has started it; go on when all have done so."""
    Path(folder, str(os.getpid())).touch()
    Path(folder, str(os.getppid())).touch()
    dist.barrier()


def raises(folder):
    """Raise in rank 1 while all others wait for it."""
    here(folder)
    if dist.get_rank() == 1:
        raise ValueError("x has 3 rows, and 4 were wanted")
    dist.barrier()


def hangs(folder):
    """Sleep in rank 1 while all others wait for it."""
    here(folder)
    if dist.get_rank() == 1:
        time.sleep(600)
    dist.barrier()


def exits(folder):
    """End the process of rank 1 without a word."""
    here(folder)
    if dist.get_rank() == 1:
        os._exit(3)
    dist.barrier()


def counted(answer):
    """Return what a program answers, and what it handed over meanwhile."""
    with Collectives() as seen:
        out = answer()
    return out, dict(seen.calls), dict(seen.bytes)


def whole(parameter):
    """Return the gradient of a parameter, all of it."""
    grad = parameter.grad
    return grad.full_tensor() if hasattr(grad, "full_tensor") else grad


def block(x, keep, params, grad_out, joined):
    """Return the output and the gradients of a block cut between the heads, and the counts."""
    layer = EncoderLayer(24, 12, 60)
    layer.self_attention = SeparateAttention(24, 12)
    layer.to(x.dtype).load_state_dict(params)
    mesh = init_device_mesh(x.device.type, (dist.get_world_size(),))
    parallelize_module(layer, mesh, plan(joined))
    x = x.clone().requires_grad_()
    out, *forward = counted(lambda: layer(x, keep))
    _, *backward = counted(lambda: (out * grad_out).sum().backward())
    grads = {name: whole(part) for name, part in layer.named_parameters()} | {"x": x.grad}
    return {"out": out, "grads": grads, "forward": forward, "backward": backward}


def ring(q, k, v, places, grad_out):
    """Return this rank's context and gradients, and the counts; k and v stand head by word."""
    rank = dist.get_rank()
    q, k, v = (side[rank].transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
               for side in (q, k, v))
    out, *forward = counted(lambda: ring_attention(q, k, v, places))
    _, *backward = counted(lambda: (out * grad_out[rank]).sum().backward())
    return {"out": out, "grads": [q.grad, k.grad, v.grad], "forward": forward,
            "backward": backward}


def kinds():
    """Return what `Collectives` counts of one exchange of each kind, three float32 numbers."""
    x, p = torch.zeros(3, dtype=torch.float32), dist.get_world_size()
    rank, many = dist.get_rank(), [torch.zeros(3, dtype=torch.float32) for _ in range(p)]
    calls = {"all_reduce": lambda: dist.all_reduce(x), "all_gather": lambda: dist.all_gather(
        many, x), "broadcast": lambda: dist.broadcast(x, 0), "send": lambda: dist.send(x, 1)
        if rank == 0 else dist.recv(x, 0) if rank == 1 else None, "": dist.barrier,
        "reduce": lambda: dist.reduce(x, 0), "reduce_scatter": lambda: dist.reduce_scatter(x, many),
        "gather": lambda: dist.gather(x, many if rank == 0 else None),
        "scatter": lambda: dist.scatter(x, many if rank == 0 else None)}
    return {kind: counted(call)[1:] for kind, call in calls.items()}


def bent(a):
    """Return the gradient, with respect to a, of half the squares of the gradient of a hop.

    The rank before hands over its a³, and the rank after squares half of what has come. So the
    gradient is 3 a⁵, and half of its square has the gradient 45 a⁹.
    """
    a = a[dist.get_rank()].clone().requires_grad_()
    there, _ = Hop.apply(1, a**3, a)
    grad, = torch.autograd.grad((there**2).sum() / 2, a, create_graph=True)
    return grad, torch.autograd.grad((grad**2).sum() / 2, a)[0]


def everything(blocks, rings, a):
    """Return the answers of all cases: blocks and rings, dicts of arguments by name, and a."""
    return {"blocks": {name: block(*case) for name, case in blocks.items()},
            "rings": {name: ring(*case) for name, case in rings.items()}, "kinds": kinds(),
            "bent": bent(a)}


def third_life(folder):
    """Be killed in the first life, raise in the second, return in the third."""
    here(folder)
    life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    x = torch.ones(1)
    dist.all_reduce(x)
    if dist.get_rank() == 1:
        if life == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if life == 1:
            raise ValueError("in the second life")
    elif life == 1:
        return -1  # before the other has raised
    dist.barrier()
    return life


def dies_again(folder):
    """Raise at first in one rank; from then on, be killed in the other."""
    here(folder)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if dist.get_rank() == 0:
            raise ValueError("in the first life")
    elif dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
