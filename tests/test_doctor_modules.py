"""Modules are examined as layers whose weights are written in, where roles or guesses say."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exact import raises

from utils import (
    doctor,
    einsum_attention,
    frameworks,
    libraries,
    modules,
    reference,
    sizes,
    slots,
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
    assert (report.verdict, report.names) == ("note", [])
    assert report.notes[1].startswith("With the roles as guessed it shows: packed order (read as [")
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
    assert (report.verdict, report.names) == ("note", [])
    assert report.notes[1] == (
        "With the roles as guessed it shows: interleaved packing (q, k, v: (n, h, d) is read as "
        "(h, n, d)). If it is meant to hold them so, nothing is wrong.")
    assert len(report.notes) == 2  # what it gives is exact, and what an empty row gets is zeros
    report = doctor.examine(ByHead, "layer", self_attention=True, packed="inside",
                            roles={"o": "outside"})
    assert (report.verdict, report.names) == ("sick", [("interleaved packing",)])


def test_what_else_is_wrong_is_named_besides_an_order_that_was_guessed():
    class Turned(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads, "abcd", scale=1.0)
            self.names = "bacd"
    report = doctor.examine(Turned, "layer", call=call)
    assert (report.verdict, report.names) == ("sick", [("no scale",)])
    assert "packed order" in report.notes[1]


def test_what_holds_no_weights_that_can_be_found_is_not_examined():
    class Bare(torch.nn.Module):
        def forward(self, x, memory, keep=None):
            return x
    report = doctor.examine(lambda e, h: Bare(), "layer", call=call)
    assert (report.verdict, report.headline) == (
        "could not examine", 'where Bare holds q, k and v cannot be guessed; say roles={"q": name,'
        ' "k": name, "v": name, "o": name}.')
    report = doctor.examine(Bare(), "layer", n_heads=3)
    assert report.headline == ("it holds no square weight, so its width cannot be seen; say "
                               'roles={"q": name, …}.')


def test_what_cannot_be_built_or_has_no_such_part_is_told_in_a_sentence():
    report = doctor.examine(lambda e, h: Attention(e), "layer", call=call)
    assert report.verdict == "could not examine"
    assert report.headline.startswith("it raises TypeError: Attention.__init__() missing 1 ")
    report = doctor.examine(Attention(12, 3), "layer", n_heads=3, roles={"q": "z"})
    assert report.headline == "it raises AttributeError: 'Attention' object has no attribute 'z'."


@pytest.mark.parametrize(("options", "message"), [
    ({}, "how many heads a module has must be said: n_heads="),
    ({"n_heads": 5}, "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest: 2, 3, 4, 6"),
])
def test_the_heads_of_a_built_module_must_be_said_and_fit(options, message):
    with raises(ValueError, message):
        doctor.examine(Attention(12, 3), "layer", roles=ROLES, **options)


# --- layers of the libraries

def mha(*args, **options):
    return torch.nn.MultiheadAttention(*args, **options)


def keras_mha(*args, **options):
    return frameworks.tensorflow().keras.layers.MultiHeadAttention(*args, **options)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("heads", "self_attention"), [(3, False), (2, False), (2, True)])
def test_torchs_layer_is_healthy_whatever_its_heads_and_layout(first, heads, self_attention):
    module = mha(12, heads, batch_first=first, dropout=0.1).train()
    report = doctor.examine(module, "layer", self_attention=self_attention)
    fast = heads == 2 and first and self_attention  # its fast path gives NaN to an empty row
    assert (report.program, report.verdict) == ("MultiheadAttention", "note" if fast else "healthy")
    assert report.notes == ["A query without keys gets NaN."] * fast
    assert module.training


@pytest.mark.parametrize("bias", [True, False])
def test_torchs_layer_needs_no_roles(bias):
    report = doctor.examine(lambda e, h: mha(e, h, bias=bias), "layer", call=None)
    assert (report.verdict, report.notes) == ("healthy", [])
    report = doctor.examine(mha(12, 3, kdim=10), "layer")
    assert report.headline == ("it takes keys of width 10 beside queries of width 12; only one "
                               "width can be examined.")


def test_torchs_layer_can_be_wrong_by_how_it_is_called():
    def inverted(module, x, memory, keep):
        drop = None if keep is None else keep[:, 0, 0].expand(len(x), memory.shape[1])
        return module(x, memory, memory, drop)[0]
    report = doctor.examine(mha(12, 3, batch_first=True), "layer", masks="padding", call=inverted)
    assert report.names == [("mask inverted",)]
    report = doctor.examine(mha(12, 3), "layer", self_attention=True, masks="none",
                            call=lambda m, x, memory, keep: m(x, x, x)[0])
    assert report.names == [("batch and sequence swapped",)]


@pytest.mark.parametrize("heads", [2, 3])
def test_a_causal_hint_that_torchs_layer_does_not_follow_is_no_causal_mask(heads):
    # With even heads its fast path drops the hint in silence; otherwise it asks for the mask.
    report = doctor.examine(mha(12, heads, batch_first=True), "layer", self_attention=True,
                            masks="none", causal=True, call=lambda m, x, memory, keep: m(
                                x, x, x, need_weights=False, is_causal=True)[0])
    assert report.verdict == ("could not examine" if heads == 3 else "sick")
    assert report.names == ([] if heads == 3 else [("no causal mask",)])


def test_keras_layer_gets_at_most_a_note_and_keeps_its_weights():
    layer = keras_mha(3, 4)
    x = np.ones((2, 5, 12), "float32")
    before = layer(x, x).numpy()
    report = doctor.examine(layer, "layer")
    assert report.verdict == "note"
    assert report.notes[0] == "A query without keys gets the average of all values."
    assert np.array_equal(layer(x, x), before)
    assert doctor.examine(lambda e, h: keras_mha(h, e // h, use_bias=False), "layer",
                          masks="none", call=None).verdict == "note"


def test_a_module_that_is_derived_from_a_librarys_is_not_known():
    class Mine(torch.nn.MultiheadAttention):
        pass
    assert libraries.known(Mine(12, 3)) is None
    assert libraries.known(torch.nn.Linear(3, 3)) is None
    known = libraries.known(mha(12, 2))
    assert (known.n_heads, known.d_model, known.packed) == (2, 12, "in_proj_weight")
    known = libraries.known(keras_mha(3, 5))
    assert (known.n_heads, known.d_model, known.roles["o"]) == (3, 15, "_output_dense")


# --- the sequence first

class SequenceFirst(Attention):
    """The same on (i, b, e)."""

    def forward(self, x, memory, keep=None):
        return super().forward(x.transpose(0, 1), memory.transpose(0, 1), keep).transpose(0, 1)


def test_a_module_that_puts_the_sequence_first_is_healthy_when_told():
    assert doctor.examine(SequenceFirst, "layer", roles=ROLES, batch_first=False
                          ).verdict == "healthy"
    report = doctor.examine(SequenceFirst, "layer", roles=ROLES)
    assert report.names == [("batch and sequence swapped",)]


def test_a_layer_that_puts_the_sequence_first_is_healthy_when_told():
    def layer(x, memory, weights, n_heads, keep):
        sides = (x.swapaxes(0, 1), memory.swapaxes(0, 1))
        return reference.multi_head_attention(*sides, weights, n_heads, keep)[0].swapaxes(0, 1)
    assert doctor.examine(layer, "layer", batch_first=False).verdict == "healthy"
    tf = frameworks.tensorflow()
    turned = libraries.sequence_first(lambda x, memory: (x + memory, x is memory))
    out, same = turned(*[tf.constant(np.arange(6.0).reshape(1, 2, 3))] * 2)
    assert (tuple(out.shape), same) == ((1, 2, 3), True)
    assert np.array_equal(out.numpy().ravel(), 2 * np.arange(6.0))


# --- weights on request, parameters

class Asked(Attention):
    """Attention that returns its weights on request, and then, if so built, something else."""

    def __init__(self, d_model, n_heads, factor=1.0):
        super().__init__(d_model, n_heads)
        self.factor = factor

    def forward(self, x, memory, keep=None, return_weights=False):
        out = super().forward(x, memory, keep)
        factor = self.factor if keep is not None else 1.0
        return (factor * out, None) if return_weights else out


def test_asking_for_the_weights_must_not_change_the_answer():
    assert doctor.examine(Asked, "layer", roles=ROLES).verdict == "healthy"
    report = doctor.examine(lambda e, h: Asked(e, h, 2.0), "layer", roles=ROLES, call=None)
    assert report.verdict == "sick"
    assert report.findings[0].startswith("Asked for the weights it answers ")
    assert report.headline.startswith("asked for the weights it answers ")


@pytest.mark.parametrize(("part", "count"), [(torch.nn.LayerNorm(12), 648),
                                             (torch.nn.Identity(), 0)])
def test_parameters_beyond_the_four_projections_are_a_note(part, count):
    module = Attention(12, 3)
    module.more = part
    report = doctor.examine(module, "layer", n_heads=3, roles=ROLES)
    assert report.verdict == ("note" if count else "healthy")
    assert report.notes == [f"It has {count} parameters; W_q, W_k, W_v, W_o and their biases have "
                            "624."] * bool(count)


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


class Text(torch.nn.Module):
    """Causal self-attention that takes x alone, without biases; ``torn`` merges wrongly."""

    def __init__(self, d_model, n_heads, torn=False, scale=None):
        super().__init__()
        self.n_heads, self.torn, self.scale = n_heads, torn, scale
        self.qkv = torch.nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = torch.nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.n_heads, -1)).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        context = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=self.scale)
        return self.out((context if self.torn else context.transpose(1, 2)).reshape(x.shape))


def test_without_masks_a_module_is_called_without_one():
    told = {"causal": True, "self_attention": True, "masks": "none"}
    assert doctor.examine(Text, "layer", **told).verdict in ("healthy", "note")
    report = doctor.examine(partial(Text, torn=True)(12, 3), "layer", n_heads=3, **told)
    assert report.names == [("merge without transpose",)]


def test_a_module_that_takes_other_arguments_is_told_how_it_is_called():
    report = doctor.examine(Text, "layer", causal=True)
    assert report.verdict == "could not examine"
    assert "4 were given. A module is called as module(x, memory, keep); " in report.headline


def test_biases_that_a_module_does_not_have_are_not_missed():
    class Residual(Text):
        def forward(self, x):
            return x + super().forward(x)

    report = doctor.examine(Residual, "layer", causal=True, self_attention=True, masks="none")
    assert (report.verdict, report.names) == ("sick", [])
    assert "b_" not in str(report)


def test_a_module_gets_what_its_masks_and_memory_make_of_the_call():
    def given(*args):
        return args
    told = [function(given, 1, 2, 3) for function in (
        libraries.plain, libraries.plain_self, libraries.unmasked, libraries.unmasked_self)]
    assert told == [(1, 2, 3), (1, 3), (1, 2), (1,)]
