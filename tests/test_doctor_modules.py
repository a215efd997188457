"""Modules are examined as layers whose weights are written in, where roles or guesses say."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exact import raises

from utils import (
    doctor,
    einsum_attention,
    frameworks,
    modules,
    reference,
    sizes,
    slots,
    torch_attention,
    weights,
)
from utils.slots import Slot

HELD = sizes.weights(d_in=12, d_out=12)
X, MEMORY = sizes.sides(d_in=12)


class Attention(torch.nn.Module):
    """Attention with one head too few brackets, if asked."""

    def __init__(self, d_model, n_heads, names="abcd", scale=None, p=0.0):
        super().__init__()
        self.names, self.n_heads, self.scale = names, n_heads, scale
        self.dropout = torch.nn.Dropout(p)
        for name in names:
            self.add_module(name, torch.nn.Linear(d_model, d_model))

    def forward(self, x, memory, keep=None):
        q, k, v = (getattr(self, name)(side).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for name, side in zip(self.names, (x, memory, memory), strict=False))
        context = F.scaled_dot_product_attention(q, k, v, keep, scale=self.scale)
        return getattr(self, self.names[3])(self.dropout(context).transpose(1, 2).flatten(2))


def call(module, x, memory, keep):
    return module(x, memory, keep)


ROLES = dict(zip("qkvo", "abcd", strict=True))


def test_a_module_is_healthy_or_sick_by_what_it_computes_not_by_its_weights():
    assert doctor.examine(Attention, "layer", call=call, roles=ROLES).verdict == "healthy"
    report = doctor.examine(lambda e, h: Attention(e, h, scale=1.0), "layer", call=call,
                            roles=ROLES)
    assert report.names == [("no scale",)]


def test_a_module_that_is_built_is_examined_and_stays_as_it_is():
    module = Attention(12, 3).train()
    before = {name: w.clone() for name, w in module.state_dict().items()}
    report = doctor.examine(module, "layer", n_heads=3, roles=ROLES)
    assert (report.program, report.verdict) == ("Attention", "healthy")
    assert all(torch.equal(before[name], w) for name, w in module.state_dict().items())
    assert module.training
    report = doctor.examine(Attention(12, 3, scale=1 / 12), "layer", n_heads=3, roles=ROLES)
    assert ("constant scale",) in report.names


def test_dropout_of_a_module_is_off_as_in_eval():
    build = Attention(12, 3, p=0.5).train()
    assert doctor.examine(build, "layer", n_heads=3, roles=ROLES).verdict == "healthy"


@pytest.mark.parametrize(("names", "order"), [
    ("abcd", "abcd"), (["to_q", "to_k", "to_v", "to_out"],) * 2,
    (["key", "value", "query", "proj"], ["query", "key", "value", "proj"]),
    (["w_v", "w_k", "w_o", "w_q"], ["w_q", "w_k", "w_v", "w_o"])], ids="-".join)
def test_roles_are_guessed_by_name_or_by_order_and_told(names, order):
    class Named(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads, order)
            parts = {name: self._modules.pop(name) for name in order}
            self._modules.update({name: parts[name] for name in names})
    report = doctor.examine(Named, "layer", call=call)
    assert (report.verdict, report.names) == ("note", [])
    told = ", ".join(f"{letter} in {name}" for letter, name in zip("qkvo", order, strict=True))
    assert sorted(report.notes[0].removeprefix("Guessed: ").partition(";")[0].split(", ")) == (
        sorted(told.split(", ")))


def test_an_order_that_was_only_guessed_is_a_note():
    class Odd(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads, "badc")
            self._modules.update({name: self._modules.pop(name) for name in "abcd"})
    report = doctor.examine(Odd, "layer", call=call, self_attention=True)
    assert (report.verdict, ("packed order",) in report.names) == ("sick", False)

    class Turned(Odd):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads)
            self.names = "bacd"
    report = doctor.examine(Turned, "layer", call=call, self_attention=True)
    assert (report.verdict, ("packed order",) in report.names) == ("note", True)
    roles = dict(zip("qkvo", "abcd", strict=True))
    report = doctor.examine(Turned, "layer", call=call, self_attention=True, roles=roles)
    assert report.verdict == "sick"


def test_a_packing_that_was_only_guessed_is_a_note():
    class ByHead(torch.nn.Module):
        def __init__(self, e, n_heads):
            super().__init__()
            self.n_heads = n_heads
            self.inside, self.outside = torch.nn.Linear(e, 3 * e), torch.nn.Linear(e, e)

        def forward(self, x, keep):
            q, k, v = self.inside(x).unflatten(-1, (self.n_heads, 3, -1)).permute(3, 0, 2, 1, 4)
            context = F.scaled_dot_product_attention(q, k, v, keep)
            return self.outside(context.transpose(1, 2).flatten(2))
    report = doctor.examine(ByHead, "layer", self_attention=True)
    assert (report.verdict, report.names) == ("note", [("interleaved packing",)])
    report = doctor.examine(ByHead, "layer", self_attention=True, packed="inside",
                            roles={"o": "outside"})
    assert (report.verdict, report.names) == ("sick", [("interleaved packing",)])


def test_what_holds_no_weights_that_can_be_found_is_not_examined():
    class Bare(torch.nn.Module):
        def forward(self, x, memory, keep=None):
            return x
    report = doctor.examine(lambda e, h: Bare(), "layer", call=call)
    assert (report.verdict, report.headline) == (
        "could not examine", 'where Bare holds q, k and v cannot be guessed; say roles={"q": name,'
        ' "k": name, "v": name, "o": name}.')
    with raises(ValueError, "how many heads a module has must be said: n_heads="):
        doctor.examine(Bare(), "layer")


@pytest.mark.parametrize(("build", "options"), [
    (lambda e, h: torch_attention.MultiHeadAttention(e, h),
     {"packed": "W_qkv", "roles": {"o": "W_o"}}),
    (lambda e, h: torch_attention.MultiHeadAttention(e, h), {}),
    (lambda e, h: torch.nn.MultiheadAttention(e, h, batch_first=True),
     {"packed": "in_proj_weight", "roles": {"o": "out_proj"}, "masks": "padding",
      "call": lambda m, x, memory, keep: m(
          x, memory, memory, None if keep is None else ~keep[:, 0, 0].expand(
              len(x), memory.shape[1]))[0]}),
    (lambda e, h: torch.nn.MultiheadAttention(e, h, batch_first=True, bias=False),
     {"masks": "none", "call": lambda m, x, memory, keep: m(x, memory, memory)[0]})],
    ids=["packed", "guessed", "torch's", "guessed, without bias"])
def test_library_modules_get_at_most_a_note(build, options):
    report = doctor.examine(build, "layer", **{"call": call, **options})
    assert report.verdict in ("healthy", "note")


def test_a_keras_layer_of_the_library_gets_at_most_a_note():
    keras = frameworks.tensorflow().keras
    report = doctor.examine(
        lambda e, h: keras.layers.MultiHeadAttention(h, e // h), "layer",
        roles={n: f"_{m}_dense" for n, m in zip("qkvo", ("query", "key", "value", "output"),
                                                strict=True)},
        masks="heads alike",
        call=lambda m, x, memory, keep: m(
            x, memory, attention_mask=None if keep is None else keep if keep.ndim < 4
            else keep[:, 0]))
    assert report.verdict == "note"


# --- writing and guessing

def test_weights_are_written_as_the_converters_would():
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True).double()
    for slot in (Slot("in_proj_weight", "qkv"), Slot("out_proj", "o")):
        slots.write(module, slot, HELD, 3)
    for name, want in weights.to_in_proj(HELD).items():
        assert np.array_equal(module.state_dict()[name], want)


def test_a_head_gets_its_columns():
    module = torch.nn.ModuleDict({"q": torch.nn.Linear(12, 4)}).double()
    slots.write(module, Slot("q", "q", 1), HELD, 3)
    assert np.array_equal(module["q"].weight.detach(), HELD["W_q"][:, 4:8].T)
    assert np.array_equal(module["q"].bias.detach(), HELD["b_q"][4:8])


def test_a_class_called_conv1d_holds_its_kernel_as_it_is_used():
    class Conv1D(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(12, 12).double())
    module = torch.nn.ModuleDict({"c": Conv1D()})
    slots.write(module, Slot("c", "o"), HELD, 3)
    assert np.array_equal(module["c"].weight.detach(), HELD["W_o"])
    assert slots.parts(module, "c")[1] is None


def test_parts_and_parameters_are_found_by_name():
    module = torch.nn.MultiheadAttention(12, 3)
    weight, bias = slots.parts(module, "in_proj_weight")
    assert (weight is module.in_proj_weight, bias is module.in_proj_bias) == (True, True)
    weight, bias = slots.parts(module, "out_proj")
    assert (weight is module.out_proj.weight, bias is module.out_proj.bias) == (True, True)


def test_what_somebody_has_named_is_not_guessed():
    assert slots.named({"o": "proj"}, "qkv") == [Slot("qkv", "qkv"), Slot("proj", "o")]
    assert slots.named({"q": "a", "k": "b"}) == [Slot("a", "q"), Slot("b", "k")]


def test_the_framework_of_a_module_is_known():
    keras = frameworks.tensorflow().keras
    assert [slots.framework(thing) for thing in (
        torch.nn.Linear(2, 2), keras.layers.Dense(2), len)] == ["torch", "tensorflow", ""]


def test_heads_apart_are_guessed_head_by_head():
    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.keys, self.queries, self.values = (torch.nn.ModuleList(
                torch.nn.Linear(12, 4) for _ in range(3)) for _ in range(3))
            self.fc = torch.nn.Linear(12, 12)
    got = slots.guess(Heads(), 12, 3)
    assert set(got) == {Slot(f"{name}.{n}", name[0], n) for name in ("keys", "queries", "values")
                        for n in range(3)} | {Slot("fc", "o")}


def test_a_module_is_a_layer_of_the_weights_that_it_is_given():
    layer, heads = modules.of_module(Attention(12, 3), 3, roles=ROLES)
    got = layer(*map(torch.tensor, (X, MEMORY)), HELD, 3, None)
    want, _ = reference.multi_head_attention(X, MEMORY, HELD, 3)
    assert np.abs(got.detach().numpy() - want).max() < 1e-14
    assert heads == (3, 4)
    other = {name: 2 * w for name, w in HELD.items()}
    got = layer(*map(torch.tensor, (X, MEMORY)), other, 3, None)
    want, _ = reference.multi_head_attention(X, MEMORY, other, 3)
    assert np.abs(got.detach().numpy() - want).max() < 1e-13


def test_the_width_of_a_built_module_is_seen_in_its_kernels():
    for module, options in ((einsum_attention.MultiHeadAttentionNew(3, 12, 4, 4), {}),
                            (torch.nn.MultiheadAttention(12, 3), {"packed": "in_proj_weight",
                                                                  "roles": {"o": "out_proj"}})):
        assert modules.of_module(module, 3, call, **options)[1] == (3, 4)
