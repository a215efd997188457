"""Programs in nobody's form but their own are examined without an option."""

import door_programs
import numpy as np
import pytest
import torch

from utils.doctor import door, examine
from utils.doctor._subject import RefusalError
from utils.doctor.door import constructors, names
from utils.source.reading import Absent

# {program: (the faults that it has, what must be said of how it was called)}
VERDICTS = {
    "HeadsFirst": ([], "Built as HeadsFirst(heads=3, d_model=12, dropout=0.1), called as (q, k, v, "
                       "mask); mask: (b, i, j), True = may attend"),
    "Configured": ([], "Built as Configured(config=an object with the sizes), called as (x)"),
    "Unmasked": ([], "Built as Unmasked(dim=12, heads=3, dim_head=4, dropout=0.1), called as (x)"),
    "TrueHides": ([], "key_padding_mask: (b, j), True = masked"),
    "Added": ([], "attention_mask: (b, 1, i, j), added to the scores, 0 = may attend and −∞ = "
                  "masked"),
    "Needed": ([], "called as (x, context=memory, mask); mask: (b, j), True = may attend"),
    "Unscaled": (["no scale"], "mask: (b, i, j), True = may attend"),
    "Torn": (["split without transpose"],
             "Built as Torn(emb_size=12, num_heads=3), called as (x)"),
    "one_head": ([], "Called as (q, k, v), with q (i, d)"),
    "hides": ([], "Called as (Q=q, K=k, V=v, attn_mask=mask), with q (b, h, i, d); attn_mask: True "
                  "= masked"),
    "batched": ([], "Called as (query=q, key=k, value=v), with q (b, i, d)"),
    "added": ([], "with q (i, d); mask: added to the scores, 0 = may attend and −∞ = masked"),
    "unscaled": (["no scale"], "Called as (queries=q, keys=k, values=v), with q (b, h, i, d)"),
    "over_queries": (["softmax over queries"], "with q (b, h, i, d)"),
    "causal": ([], "with q (b, h, i, d)"),
    "OwnWidth": ([], "Built as OwnWidth(head_size=64), with d_model = 64 and one head"),
    "OwnWidthUnscaled": (["no scale"], "d_model = 64"),
    "Wide": ([], "Built as Wide(emb=12, heads=3), called as (x)"),
    "WideTorn": (["merge without transpose"], "called as (x)"),
    "PerHead": ([], "called as (resid=x)"),
    "PerHeadOverQueries": (["softmax over queries"], "called as (resid=x)"),
    "Pixels": ([], "without its GroupNorm, called as (x) with x as an image (b, d, i, 1); around "
                   "the attention: x is added at the end"),
    "PixelsUnscaled": (["no scale"], "with x as an image (b, d, i, 1)"),
    "Gated": ([], "without its RMSNorm and with its gate open, called as (x)"),
    "LearnedSink": ([], "with its sinks at 0, called as (x)"),
    "from_dict": ([], "one example at a time, (i, d)"),
    "from_dict_unscaled": (["no scale"], "one example at a time, (i, d)"),
    "scripted": ([], "bias: added to the scores, 0 = may attend and −∞ = masked"),
    "MemoryFirst": ([], "called as (x=memory, y=x, mask); mask: (b, 1, i, j), added to the scores"),
    "MemoryFirstUnscaled": (["no scale"], "called as (x=memory, y=x, mask)"),
    "mask_without_heads": ([], "mask: (b, i, j), True = may attend"),
    "mask_of_keys": ([], "key_mask: (b, j), True = may attend"),
    "a_token_short": (["causal off by one"], "with q (i, d)")}
DESIGNS = {"cosines": "its scores are cosines times 16", "features": "elu(x) + 1",
           "distances": "It subtracts the distance of query and key from the scores (ALiBi)",
           "LearnedSink": "Every row has one more score"}


def test_what_is_more_than_attention_is_not_sick_and_its_attention_is_named():
    report = examine(door_programs.Block)
    assert report.verdict == "could not examine"
    assert "it has weights of which the doctor knows nothing (" in report.headline
    assert report.headline.endswith(
        "Examine its attention alone: self_attn, of the class MultiheadAttention.")


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_is_named_and_no_fault(name):
    report = examine(getattr(door_programs, name))
    assert report.verdict == "healthy", report
    assert DESIGNS[name] in " ".join(report.notes)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if name.startswith("MemoryFirst") else ())
    for name in VERDICTS])
def test_a_program_is_examined_and_what_was_assumed_is_said(name):
    faults, words = VERDICTS[name]
    report = examine(getattr(door_programs, name))
    assert report.verdict in (("sick",) if faults else ("healthy",)), report
    assert faults == [fault for some in report.names[:1] for fault in some]
    assert words in report.called
    assert report.program == name
    assert f"{name} " in str(report)
    assert report.lines()[1] == ("item", f"{report.called}.")


def test_what_nothing_is_known_of_is_named():
    report = examine(door_programs.Strange)
    assert (report.verdict, report.headline) == (
        "could not examine", "it is built with temperature_schedule, and the doctor knows no "
                             "value for that.")
    with pytest.raises(RefusalError, match="does not have the arguments q, k and v"):
        door.kernel(lambda x, y: x)


@pytest.mark.parametrize(("argument", "value"), [
    ("d_model", 12), ("embed_dim", 12), ("hidden_size", 12), ("n_embd", 12), ("dim", 12),
    ("num_hiddens", 12), ("in_features", 12), ("d_out", 12), ("key_dim", 12), ("emb_size", 12),
    ("heads", 3), ("num_heads", 3), ("n_head", 3), ("num_attention_heads", 3), ("h", 3),
    ("nhead", 3), ("head_num", 3), ("d_k", 4), ("dim_head", 4), ("head_dim", 4), ("d_v", 4),
    ("size_per_head", 4), ("dropout", 0.1), ("attn_pdrop", 0.1), ("max_len", 32),
    ("block_size", 32), ("context_length", 32), ("bias", True), ("use_flash", False),
    ("batch_first", True), ("temperature", None)])
def test_a_size_is_known_by_any_of_its_names(argument, value):
    assert names.by_name(argument, 12, 3) == value


def test_a_configuration_answers_by_attribute_and_item():
    config = constructors.Config(12, 3)
    assert (config.n_embd, config["n_head"], config.get("head_dim")) == (12, 3, 4)
    assert config.get("temperature", 7) == 7
    assert "d_model" in config
    assert "temperature" not in config


def test_a_module_that_is_built_stays_in_training_and_keeps_its_weights():
    module = door_programs.HeadsFirst(3, 12).train()
    before = {name: w.clone() for name, w in module.state_dict().items()}
    assert examine(module).verdict == "healthy"
    assert module.training
    assert module.dropout.training
    assert all(torch.equal(w, before[name]) for name, w in module.state_dict().items())


@pytest.mark.parametrize("scaled", [True, False])
def test_weights_and_biases_of_a_class_of_arrays_are_written(scaled):
    class Arrays:
        def __init__(self, d_model, n_heads):
            self.n_heads = n_heads
            for letter in "qkvo":
                setattr(self, f"W_{letter}", np.ones((d_model, d_model)))
                setattr(self, f"b_{letter}", np.zeros((1, d_model)))

        def forward(self, x):
            q, k, v = (np.stack(np.split(x @ w + b, self.n_heads, axis=-1), axis=1) for w, b in (
                (self.W_q, self.b_q), (self.W_k, self.b_k), (self.W_v, self.b_v)))
            scores = q @ k.swapaxes(-1, -2) / (q.shape[-1] ** 0.5 if scaled else 1.0)
            exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
            context = exps / exps.sum(axis=-1, keepdims=True) @ v
            return np.concatenate([*context.swapaxes(0, 1)], axis=-1) @ self.W_o + self.b_o

    report = examine(Arrays)
    assert report.names == ([] if scaled else [("no scale",)])
    assert report.verdict == ("healthy" if scaled else "sick")


def test_arithmetic_with_what_is_absent_says_what_is_absent():
    absent = Absent("needs config, which is not installed (a.py, line 3)", "config")
    for use in (lambda: absent // 2, lambda: 2 * absent.size, lambda: [*absent], lambda: absent[0]):
        with pytest.raises(RefusalError, match="needs config, which is not installed"):
            use()
