"""Programs on which a careless report would say something that is not so."""

import json
import re

import pytest

from utils.doctor import _child, command, examine
from utils.doctor._subject import OptionError

LAYER = """import math
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.kept = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (layer(x).unflatten(-1, (self.kept, -1)).transpose(1, 2)
                   for layer in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = MASKED
        context = scores.softmax(dim=-1) @ v
        return self.o_proj(context.transpose(1, 2).flatten(2))

built = Layer(12, 3)
"""


def examined(folder, text, name="Layer", **options):
    file = folder / "mine.py"
    file.write_text(text, "utf-8")
    return _child.examined(file, name, options)


@pytest.mark.parametrize(("masked", "said"), [
    ("scores.masked_fil(~mask, -torch.inf)",
     "AttributeError: 'Tensor' object has no attribute 'masked_fil'"),
    ("scores.masked_fill(~mask, infinity)", "NameError: name 'infinity' is not defined")])
def test_a_program_that_raises_with_any_mask_is_sick_and_its_line_is_named(tmp_path, masked, said):
    report = examined(tmp_path, LAYER.replace("MASKED", masked))
    assert (report.verdict, report.names) == ("sick", [])
    assert report.headline == (f"with any mask it raises {said} (mine.py, line 17). Without a "
                               "mask, it equals the reference.")


@pytest.mark.parametrize("masked", [
    "scores.masked_fill(~mask.allowed, -torch.inf)",        # an object of the project's own
    "scores.masked_fill(mask['hidden'], -torch.inf)"])
def test_a_mask_that_only_the_project_can_make_was_not_examined_and_that_is_said(tmp_path, masked):
    report = examined(tmp_path, LAYER.replace("MASKED", masked))
    assert (report.verdict, report.names) == ("healthy", [])
    assert report.headline == "it equals the reference. But its mask (mask) was not examined."


def test_a_kernel_whose_mask_is_an_object_is_examined_without_it_and_that_is_said(tmp_path):
    report = examined(tmp_path, """import torch

def attend(query, key, value, attn_mask):
    scores = query @ key.mT / key.shape[-1] ** 0.5
    hidden = torch.ones(scores.shape[-2:]).triu(1).bool()
    if attn_mask is not None:
        hidden = attn_mask.bits() == 0
    return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value
""", "attend")
    assert (report.verdict, report.names) == ("healthy", [])
    assert report.headline == "it equals the reference. But its mask (attn_mask) was not examined."
    assert report.called.endswith("attn_mask=None), with q (b, h, i, d), causal by its own mask")


@pytest.mark.parametrize(("name", "masked", "said"), [
    ("attention_mask", "scores.masked_fill(mask[:, None, None] > 0, -torch.inf)", True),
    ("hidden", "scores.masked_fill(mask[:, None, None] > 0, -torch.inf)", False),
    ("attention_mask", "scores + mask[:, None, None]", False)])
def test_a_mask_against_the_convention_of_its_name_is_noted(tmp_path, name, masked, said):
    text = LAYER.replace("MASKED", masked).replace("mask", name).replace(f"{name}ed_fill",
                                                                         "masked_fill")
    report = examined(tmp_path, text)
    assert report.verdict == "healthy"
    assert report.headline.endswith("here 1 masks: pass tokenizer_mask == 0.") == said


def test_a_right_mask_is_examined_and_nothing_else_is_said(tmp_path):
    report = examined(tmp_path, LAYER.replace("MASKED", "scores.masked_fill(~mask, -1e9)"))
    assert (report.verdict, report.headline) == ("healthy", "it equals the reference.")
    assert report.notes == []
    assert len(report.asides) == 2


@pytest.mark.parametrize("options", [
    {"roles": dict(zip("qkvo", ("q_proj", "k_proj", "v_proj", "o_proj"), strict=True))},
    {"causal": False}, {"fully_masked": "average"}, {"level": "layer"}])
@pytest.mark.parametrize("name", ["Layer", "built"])
def test_an_option_is_laid_over_what_was_recognised(tmp_path, name, options):
    told = options | ({"n_heads": 3} if name == "built" else {})
    text = LAYER.replace("MASKED", "scores.masked_fill(~mask, -1e9)")
    assert examined(tmp_path, text, name, **told).headline == "it equals the reference."
    wrong = text.replace("math.sqrt(q.shape[-1])", "math.sqrt(x.shape[-1])")
    assert ("scale by sqrt(d_model)",) in examined(tmp_path, wrong, name, **told).names


def test_what_is_wrong_with_an_option_is_told_in_its_own_words(tmp_path):
    text = LAYER.replace("MASKED", "scores.masked_fill(~mask, -1e9)")
    for options, said in (
            ({"level": "layer", "n_heads": 5}, "d_model=12 is not divisible by n_heads=5"),
            ({"level": "kernel", "n_heads": 3}, "n_heads is not an option of the level kernel"),
            ({"level": "layer", "roles": {"q": "q_proj"}}, "pass `n_heads=…`")):
        report = examined(tmp_path, text, "built", **options)
        assert (report.verdict, said in report.headline) == ("could not examine", True)
    with pytest.raises(OptionError, match="causal must be one of"):
        examine(print, causal="maybe")
    assert issubclass(OptionError, ValueError)
    assert issubclass(OptionError, TypeError)


def test_a_package_that_is_used_and_not_installed_is_named_whatever_was_raised(tmp_path):
    text = """import numpy as np
from a_package_of_tomorrow import softmax

def attend(q, k, v):
    return softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) @ v

def other(q, k, v):
    weights = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return weights / weights.sum(-1, keepdims=True) @ v
"""
    report = examined(tmp_path, text, "attend")
    assert report.verdict == "could not examine"
    assert report.headline == ("it needs a_package_of_tomorrow, which is not installed (mine.py, "
                               "line 2).")
    assert examined(tmp_path, text, "other").verdict == "healthy"


def test_a_byte_order_mark_is_no_part_of_the_program(tmp_path):
    text = "\ufeff" + LAYER.replace("MASKED", "scores.masked_fill(~mask, -1e9)")
    assert examined(tmp_path, text).verdict == "healthy"


@pytest.mark.slow
def test_what_differs_without_a_name_is_unexplained_and_has_a_status_of_its_own(tmp_path, capsys):
    text = LAYER.replace("MASKED", "scores.masked_fill(~mask, -1e9)")
    (tmp_path / "mine.py").write_text(text.replace("scores.softmax(dim=-1)",
                                                   "scores.sigmoid().softmax(dim=-1)"))
    assert command.main([f"{tmp_path / 'mine.py'}:Layer", "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["names"]) == ("unexplained", [])
    assert not re.search("sick|no match", report["headline"])


class Caller:
    def __call__(self, module, x, memory, keep):
        return module(x, memory, keep)


def through(module, x, memory, keep):
    return module(x, memory, keep)


@pytest.mark.parametrize(("program", "name"), [(through, "through"), (Caller(), "call")])
def test_a_function_that_calls_a_module_is_told_how_it_is_used(program, name):
    report = examine(program)
    assert (report.verdict, report.adapter) == ("could not examine", "")
    assert report.headline.endswith(f"with `call={name}`.")
