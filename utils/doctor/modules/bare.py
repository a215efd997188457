"""A torch module without what is around its attention: norms, gates, sinks, tables of positions."""

import re

from .. import backends
from . import slots

GATE = re.compile(r".*gate.*|(linear|lin|to|w|fc|proj)_?g")
OPEN = 40.0  # its sigmoid is 1 in every dtype


def bared(module, layer_norms=False):
    """Return a torch module without its norms of tokens and its gates, and what they are in words.

    A norm becomes the identity, but one inside a head, and a LayerNorm unless ``layer_norms``: it
    is examined. A gate gives ``OPEN`` for all inputs. Learned sinks and tables of relative
    positions become 0, other matrices of zeros become random, and factors of 0 become 1.
    """
    torch = backends.TORCH.library
    gone = taken(module, layer_norms)
    for name in gone:
        owner, _, last = name.rpartition(".")
        setattr(module.get_submodule(owner), last, torch.nn.Identity())
    words = [f"without its {' and '.join(sorted(set(gone.values())))}"] if gone else []
    for name, part in [*module.named_modules()]:
        gate = GATE.fullmatch(name.rpartition(".")[2].lower())
        if gate and isinstance(part, torch.nn.Linear):
            part.forward = lambda x, n=part.out_features: x.new_full((*x.shape[:-1], n), OPEN)
            words.append("with its gate open")
    parameters = dict(module.named_parameters())
    sinks = {name for name in parameters if "sink" in name.lower()}
    words += ["with its sinks at 0"] if sinks else []
    tables = {name for name in parameters if of_positions(module, name)}
    words += ["with its relative positions at 0"] if tables else []
    for name, parameter in parameters.items():
        if name in sinks | tables:
            parameter.data.zero_()
        elif torch.nn.parameter.is_lazy(parameter) or parameter.any():
            continue
        elif parameter.numel() == 1:
            parameter.data.fill_(1.0)
            words.append(f"with {name} at 1")
        elif parameter.ndim > 1:  # a projection that begins with zeros
            torch.nn.init.normal_(parameter, std=0.3)
    return module, " and ".join(dict.fromkeys(words))


def of_positions(module, name):
    """Return whether a parameter of a torch module is a table, as of relative positions."""
    part = module.get_submodule(name.rpartition(".")[0])
    return "Embedding" in type(part).__name__ or bool(
        re.search(r"rel.*(bias|pos|table)|bias_table", name.lower()))


def taken(module, layer_norms=False):
    """Return {name: class} of the norms that ``bared`` takes out of a torch module."""
    widths = {getattr(part, "in_features", getattr(part, "in_channels", None))
              for part in module.modules()}
    gone = {}
    for name, part in module.named_modules():
        kind = type(part).__name__
        sizes = {tuple(w.shape) for w in part.parameters(recurse=False)} if "Norm" in kind else ()
        examined = "LayerNorm" in kind and not layer_norms
        if name and not examined and sizes and sizes <= {(n,) for n in widths}:
            gone[name] = kind
    return gone


def unknown(module, held):
    """Return the names of the matrices of a torch module that no Slot holds."""
    known = {id(slots.tensors(module, slot.name)[0]) for slot in held}
    return [name for name, w in module.named_parameters() if w.ndim > 1 and id(w) not in known
            and not of_positions(module, name)]


def inside(module):
    """Return in words the first part of a torch module that is an attention by its name, or ""."""
    for name, part in module.named_modules():
        if name and re.search("attention|attn|mha", type(part).__name__.lower()):
            return f"{name}, of the class {type(part).__name__}"
    return ""
