"""What several milestones ask of a module: its shape, what it depends on, its gradients.

Each function returns "" or a sentence, unless its docstring says otherwise.
"""

from contextlib import contextmanager

import torch
from torch import nn

from ...checks import difference
from ...doctor.probes.leaks import leaks

SAME = 1e-4  # rounding of float32, and more than that of any order of adding


@contextmanager
def seeded(seed=0):
    """Draw the same random numbers each time, and leave PyTorch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def no_module(answer, name, arguments):
    """Return what is wrong unless the answer is a class of modules."""
    if isinstance(answer, type) and issubclass(answer, nn.Module):
        return ""
    return (f"{name} must be a class, a subclass of nn.Module, so that {name}({arguments}) is a "
            "layer with parameters.")


def hidden(module):
    """Return what is wrong if an attribute is a plain list of layers, which nn.Module ignores."""
    known = {id(parameter) for parameter in module.parameters()}
    for part in module.modules():
        for name, value in vars(part).items():
            if not isinstance(value, list | tuple | dict):
                continue
            values = value.values() if isinstance(value, dict) else value
            if any(id(parameter) not in known for parameter in _parameters(values)):
                return (f"`self.{name}` is a plain {type(value).__name__}, and nn.Module does not "
                        "look into it: .parameters() leaves its layers out, so no optimiser trains "
                        "them. Use nn.ModuleList or nn.Sequential → chapter the_block.")
    return ""


def _parameters(values):
    """Yield the parameters of the modules among the values, and the parameters among them."""
    for value in values:
        if isinstance(value, nn.Parameter):
            yield value
        elif isinstance(value, nn.Module):
            yield from value.parameters()
        elif isinstance(value, list | tuple):
            yield from _parameters(value)


def wrong_tensor(out, shape, said):
    """Return what is wrong with a result that must be a tensor of this shape; ``said`` names it."""
    if not isinstance(out, torch.Tensor):
        return f"{said} must be a tensor {shape}, not of type {type(out).__name__}."
    if tuple(out.shape) != shape:
        return f"{said} must have the shape {shape}, not {tuple(out.shape)}."
    if not bool(out.isfinite().all()):
        return f"{said} holds NaN or infinity."
    return ""


def awake(module):
    """Give matrices that start as zeros random elements, as zeros hide mistakes; return the module.

    It is then in eval mode.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1 and not parameter.any():
                nn.init.normal_(parameter, std=0.1)
    return module.eval()


def ahead(program, x):
    """Return the pairs (i, j) where output i depends on a later input j, as ``leaks`` does."""
    return leaks(program, x)


@torch.no_grad()
def by_chance(program, x, name):
    """Return what is wrong if the same input gives another result in a second call."""
    if difference(program(x), program(x)) < SAME:
        return ""
    return (f"{name} is in eval mode, and yet the same input gives two different results. "
            "F.dropout drops in eval mode, too: give it self.training, or use nn.Dropout. And no "
            "parameter may be drawn in forward → chapter pytorch_in_one_page.")


@torch.no_grad()
def forgets(program, x, name):
    """Return what is wrong if the last output depends on no earlier input."""
    other = torch.cat((torch.randn_like(x[:, :-1]), x[:, -1:]), dim=1)
    if difference(program(other)[:, -1], program(x)[:, -1]) > SAME:
        return ""
    return (f"If all earlier tokens change, the last output of {name} stays the same: no token "
            "attends to another. Do q, k and v have the heads in front, (b, h, n, d), when "
            "attention gets them? As (b, n, h, d), the heads of one token attend to each other "
            "→ chapter view_and_transpose.")


@torch.no_grad()
def across_the_batch(program, x, name):
    """Return what is wrong if an example's output depends on the other examples."""
    if difference(program(x)[:1], program(x[:1])) < SAME:
        return ""
    return (f"{name} gives example 0 of the batch another output when the other examples are "
            "missing, so examples are mixed. Look for a view, a norm or a softmax over axis 0 "
            "→ chapter view_and_transpose.")


def without_gradient(module, out):
    """Return what is wrong if a parameter has no part in a result."""
    module.zero_grad()
    (out * torch.randn_like(out)).sum().backward()
    dead = [name for name, parameter in module.named_parameters()
            if parameter.grad is None or (parameter.ndim > 1 and not parameter.grad.any())]
    module.zero_grad()
    if not dead:
        return ""
    return (f"No gradient reaches {', '.join(dead[:3])}{', …' if len(dead) > 3 else ''}: it has no "
            "effect on the result, so it cannot learn. Look for a layer that is made in __init__ "
            "and not called in forward, or for a .detach() or .data on the way.")
