"""What holds for every public function of `utils`: it modifies nothing that it is given."""

import copy
import inspect
import subprocess
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from utils import checks, masks, plots, reference, setup, sizes, torch_attention

ARRAYS = sizes.qkv(d_v=4)
TENSORS = tuple(map(torch.as_tensor, ARRAYS))
PACKED = tuple(map(reference.merge_heads, ARRAYS))
SIDES, WEIGHTS = sizes.sides(), sizes.weights()
KEEP = masks.padding([7, 0], 7)
TENSOR_KEEP = torch.as_tensor(KEEP)
FULL = np.broadcast_to(KEEP, (2, 3, 5, 7)).copy()
SCORES = ARRAYS[0] @ ARRAYS[1].swapaxes(-1, -2)
COTANGENT = np.random.default_rng(0).standard_normal((2, 5, 13))
BIAS = np.random.default_rng(0).standard_normal((5, 7))
MODULE = torch_attention.MultiHeadAttention(12, 3, d_in=11, d_out=13).double()
SIDE_TENSORS = tuple(map(torch.as_tensor, SIDES))
GPT2 = ({"w": np.concatenate([WEIGHTS[f"W_{n}"] for n in "qkv"], axis=1), "b": np.ones(36)},
        {"w": WEIGHTS["W_o"], "b": WEIGHTS["b_o"]})

# Arguments of a call of each function; those that take only numbers and names stand below.
CALLS = {
    "checks.boolean": (KEEP,),
    "checks.check_close": (ARRAYS[0], TENSORS[0]),
    "checks.check_shapes": ("b h i d", TENSORS[0]),
    "checks.difference": (ARRAYS[0], TENSORS[0]),
    "checks.dtype_name": (TENSORS[0],),
    "checks.heads": (PACKED[0], 3),
    "checks.keep": (KEEP, *TENSORS[:2]),
    "checks.lengths": ([7, 3], 7),
    "checks.per_head": (*PACKED, 3, KEEP),
    "checks.to_numpy": (TENSORS[0],),
    "explore.mask_painter": (*(x[:, 0] for x in ARRAYS), [7, 3]),
    "heads.merge_heads": (TENSORS[0],),
    "heads.split_heads": (torch.as_tensor(PACKED[0]), 3),
    "masks.band": ([[0, 1], [2, 3]], 7, 1, 0),
    "masks.decoder": ([7, 3], 7),
    "masks.from_additive": (masks.to_additive(KEEP),),
    "masks.from_keras": (FULL[:, 0],),
    "masks.from_sdpa": (TENSOR_KEEP,),
    "masks.from_torch_mha": (masks.to_torch_mha(FULL, 3), 3),
    "masks.padding": (np.array([7, 3]), 7),
    "masks.to_additive": (KEEP,),
    "masks.to_keras": (KEEP, 2, 5),
    "masks.to_sdpa": (KEEP,),
    "masks.to_torch_mha": (FULL, 3),
    "norms.layer_norm": (*SIDE_TENSORS[:1], torch.ones(11), torch.ones(11)),
    "norms.rms_norm": (SIDES[0], np.ones(11)),
    "numpy_attention.additive_scores": (*ARRAYS[:2], np.ones((4, 9)), np.ones((4, 9)), np.ones(9)),
    "numpy_attention.attention": (*ARRAYS, KEEP),
    "numpy_attention.linear": (SIDES[0], WEIGHTS["W_q"], WEIGHTS["b_q"]),
    "numpy_attention.masked_softmax": (SCORES, KEEP),
    "numpy_attention.mha": (SIDES[1], *GPT2, 3, masks.causal(7)),
    "numpy_attention.softmax": (SCORES,),
    "plots.attention_maps": (ARRAYS[2][0], list("abcdefg"), list("wxyz"), ["1", "2", "3"]),
    "plots.heatmap": (plots.figure()[1], SCORES[0, 0], list("abcde"), list("tuvwxyz")),
    "plots.mask_grids": ({"causal": masks.causal(4)},),
    "reference.attention": (*ARRAYS, KEEP, BIAS),
    "reference.attention_gradient": (*ARRAYS, ARRAYS[0], KEEP),
    "reference.attention_loops": (*(x[0, 0] for x in ARRAYS), FULL[0, 0]),
    "reference.attention_scores": (*ARRAYS[:2], KEEP, BIAS),
    "reference.float64": (ARRAYS[0],),
    "reference.merge_heads": (ARRAYS[0],),
    "reference.multi_head_attention": (*SIDES, WEIGHTS, 3, KEEP),
    "reference.multi_head_attention_gradient": (*SIDES, WEIGHTS, 3, COTANGENT, KEEP),
    "reference.project": (*SIDES, WEIGHTS, 3),
    "reference.repeat_heads": (ARRAYS[0], 6),
    "reference.softmax": (SCORES,),
    "reference.split_heads": (PACKED[0], 3),
    "setup.install": (["numpy"], [("numpy", "2.4.6")]),
    "setup.ready": ({"numpy": "1.0"},),
    "timing.interleaved": ({"a": list}, 1),
    "timing.ratios": ({"a": 1.0, "b": 2.0},),
    "torch_attention.MultiHeadAttention.forward": (MODULE, *SIDE_TENSORS, TENSOR_KEEP, False, True),
    "torch_attention.MultiHeadAttention.project": (MODULE, *SIDE_TENSORS),
    "torch_attention.attention": (*TENSORS, TENSOR_KEEP),
    "torch_attention.attention_per_head": (*map(torch.as_tensor, PACKED), 3, TENSOR_KEEP),
    "torch_attention.fused_attention": (*TENSORS, TENSOR_KEEP),
    "torch_attention.masked_softmax": (torch.as_tensor(SCORES), TENSOR_KEEP),
    "torch_attention.with_causal": (TENSOR_KEEP[..., :5], True, TENSORS[0], TENSORS[0]),
}
NOTHING_TO_MODIFY = {
    "checks.corner", "checks.divisible", "explore.reshape_microscope", "frameworks.tensorflow",
    "masks.causal", "masks.offsets", "masks.window", "plots.figure", "setup.installed",
    "setup.numbers", "setup.on_colab", "sizes.lengths", "sizes.qkv", "sizes.sides", "sizes.weights",
    "timing.peak_memory",
}


def public_functions():
    """Return {"module.function": function} of all public functions and methods of utils."""
    found = {}
    for path in Path(setup.__file__).parent.glob("[!_]*.py"):
        module = import_module(f"utils.{path.stem}")
        for name, value in vars(module).items():
            if getattr(value, "__module__", "") == module.__name__ and not name.startswith("_"):
                if inspect.isfunction(value):
                    found[f"{path.stem}.{name}"] = value
                elif inspect.isclass(value):
                    found |= {f"{path.stem}.{name}.{key}": method
                              for key, method in vars(value).items()
                              if inspect.isfunction(method) and not key.startswith("_")}
    return found


def contents(argument):
    """Return what must stay as it is: the numbers, and how often a tensor was written to."""
    if isinstance(argument, (list, tuple)):
        return [contents(item) for item in argument]
    if isinstance(argument, dict):
        return {key: contents(item) for key, item in argument.items()}
    if isinstance(argument, torch.nn.Module):
        return contents(dict(argument.state_dict()))
    if isinstance(argument, torch.Tensor):
        return (argument._version, argument.tolist())
    if isinstance(argument, np.ndarray):
        return argument.tolist()
    return argument if isinstance(argument, (str, float, int)) else type(argument)


def test_every_public_function_is_called_here():
    assert set(public_functions()) == set(CALLS) | NOTHING_TO_MODIFY


@pytest.mark.parametrize("name", CALLS)
def test_arguments_are_not_modified(name, monkeypatch):
    if name == "setup.install":
        monkeypatch.setattr(setup.subprocess, "run",
                            lambda *args, **_: subprocess.CompletedProcess(args, 0))
    arguments = CALLS[name]
    before = copy.deepcopy([contents(argument) for argument in arguments])
    public_functions()[name](*arguments)
    plt.close("all")
    assert [contents(argument) for argument in arguments] == before


def test_a_modified_argument_would_be_noticed():
    for argument in (np.ones(3), torch.ones(3), [1, 2], {"a": np.ones(2)}, copy.deepcopy(MODULE)):
        before = copy.deepcopy(contents(argument))
        assert contents(argument) == before
        if isinstance(argument, torch.nn.Module):
            argument.W_o.bias.data.zero_()
        elif isinstance(argument, dict):
            argument["a"][0] = 2
        elif isinstance(argument, torch.Tensor):
            argument.add_(1).sub_(1)
        else:
            argument[0] = 5
        assert contents(argument) != before


def test_keep_is_given_in_numpy_or_in_the_programs_own_framework():
    for name in ("attention", "fused_attention"):
        program = getattr(torch_attention, name)
        got, same = (program(*TENSORS, keep) for keep in (KEEP, TENSOR_KEEP))
        assert torch.equal(*(x[0] if name == "attention" else x for x in (got, same)))
    assert checks.difference(reference.attention(*ARRAYS, KEEP)[0],
                             reference.attention(*TENSORS, TENSOR_KEEP)[0]) == 0
