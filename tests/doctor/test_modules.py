"""Modules are examined as layers whose weights are written in, where roles or guesses say."""

from functools import cache, partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exact import raises
from first import first
from torch.nn.functional import dropout as random_zeros

from utils import doctor, frameworks, reference, sizes
from utils.attention import einsum as einsum_attention
from utils.doctor import _subject, modules
from utils.doctor.modules import guess, libraries, slots
from utils.doctor.modules.slots import Slot
from utils.parity import weights


@cache
def keras_attention():
    """Return a class of Keras layers with a LayerNorm, if asked, and dropout at a rate."""
    tf = frameworks.tensorflow()

    class Attention(tf.keras.layers.Layer):
        def __init__(self, d_model, n_heads, norm=None, rate=0.0):
            super().__init__()
            self.n_heads, self.rate = n_heads, rate
            self.norm = norm or tf.identity
            self.q, self.k, self.v, self.o = (tf.keras.layers.Dense(d_model) for _ in range(4))
            self.drop = tf.keras.layers.Dropout(rate)

        def call(self, x, mask=None):
            x = self.norm(x)
            q, k, v = (tf.transpose(tf.reshape(part(x), (*x.shape[:2], self.n_heads, -1)),
                                    (0, 2, 1, 3)) for part in (self.q, self.k, self.v))
            scores = q @ tf.transpose(k, (0, 1, 3, 2)) / q.shape[-1] ** 0.5
            scores = scores if mask is None else tf.where(mask, scores, -1e9)
            weights = self.drop(tf.nn.softmax(scores), training=True) if self.rate else (
                tf.nn.softmax(scores))
            return self.o(tf.reshape(tf.transpose(weights @ v, (0, 2, 1, 3)), x.shape))
    return Attention


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
    assert (report.verdict, report.names) == ("healthy", [])
    told = ", ".join(f"{letter} in {name}" for letter, name in zip("qkvo", order, strict=True))
    guessed = report.asides[0].removeprefix("The roles were read from the names: ")
    guessed = guessed.partition(".")[0]
    assert sorted(guessed.split(", ")) == (
        sorted(told.split(", ")))


def test_an_order_that_was_only_guessed_is_a_note():
    class Odd(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads, "badc")
            self._modules.update({name: self._modules.pop(name) for name in "abcd"})
    report = doctor.examine(Odd, "layer", call=call, self_attention=True)
    assert (report.verdict, report.names) == ("unexplained", [])

    class Turned(Odd):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads)
            self.names = "bacd"
    report = doctor.examine(Turned, "layer", call=call, self_attention=True)
    assert (report.verdict, report.names) == ("healthy", [])
    assert report.notes[0].startswith(
        "It reads its weights as with the fault wrong projection (q is made with the projection "
        "“b” and ")
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
    assert (report.verdict, report.names) == ("healthy", [])
    assert report.notes == [
        "It reads its weights as with the fault interleaved packing (q, k, v: (3, h, d) is read as "
        "(h, 3, d)). Trained from scratch, such a program is right; with weights from elsewhere, "
        "it is wrong if they hold q, k and v in the order that was guessed."]
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
    assert "wrong projection" in report.notes[0]


def test_what_holds_no_weights_that_can_be_found_is_not_examined():
    class Bare(torch.nn.Module):
        def forward(self, x, memory, keep=None):
            return x
    report = doctor.examine(lambda e, h: Bare(), "layer", call=call)
    assert (report.verdict, report.headline) == (
        "could not examine", "the parts of Bare that hold q, k and v cannot be guessed; pass "
        '`roles={"q": name, "k": name, "v": name, "o": name}`.')
    report = doctor.examine(Bare(), "layer", n_heads=3)
    assert report.headline == ("it has no square weight, so its width is unknown; pass "
                               '`roles={"q": name, …}`.')


def test_what_cannot_be_built_or_has_no_such_part_is_told_in_a_sentence():
    report = doctor.examine(lambda e, h: Attention(e), "layer", call=call)
    assert report.verdict == "could not examine"
    assert report.headline.startswith("it raises TypeError: Attention.__init__() missing 1 ")
    report = doctor.examine(Attention(12, 3), "layer", n_heads=3, roles={"q": "z"})
    assert report.headline == "it raises AttributeError: 'Attention' object has no attribute 'z'."


@pytest.mark.parametrize(("options", "message"), [
    ({}, "it does not say how many heads it has: pass `n_heads=…`"),
    ({"n_heads": 5}, "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest divisors: "
                     "2, 3, 4, 6"),
])
def test_the_heads_of_a_built_module_must_be_said_and_fit(options, message):
    with raises(ValueError, message):
        doctor.examine_layer(Attention(12, 3), roles=ROLES, **options)


class Normed(Attention):
    """Pre-norm self-attention, the norm of any kind, the context handed on by any function."""

    def __init__(self, d_model, n_heads, norm=torch.nn.LayerNorm, after=lambda x: x, scale=None):
        super().__init__(d_model, n_heads, scale=scale)
        self.norm, self.after = norm(d_model), after

    def forward(self, x, keep=None):
        x = self.norm(x)
        return self.after(super().forward(x, x, keep))


def after_the_norm(module, **told):
    return doctor.examine(module, "layer", self_attention=True, pre_norm=True, **told)


@pytest.mark.parametrize("eps", [1e-3, 1e-5, 1e-6, 1e-12])
def test_a_layernorm_may_have_its_own_epsilon(eps):
    def build(d_model, n_heads):
        return Normed(d_model, n_heads, partial(torch.nn.LayerNorm, eps=eps))
    report = after_the_norm(build, roles=ROLES)
    assert (report.verdict, report.names, report.notes) == ("healthy", [], [])


def test_a_keras_layernorm_may_have_its_own_epsilon():
    def build(d_model, n_heads):  # with Keras' 1e-3
        norm = frameworks.tensorflow().keras.layers.LayerNormalization()
        return keras_attention()(d_model, n_heads, norm)
    assert after_the_norm(build, call=libraries.PLAIN[True, True]).verdict == "healthy"


def test_the_epsilon_of_a_module_is_that_of_its_first_layernorm():
    first, second = torch.nn.LayerNorm(4, eps=0.25), torch.nn.LayerNorm(4, eps=0.5)
    assert libraries.epsilon(torch.nn.Sequential(torch.nn.BatchNorm1d(4), first, second)) == 0.25
    assert libraries.epsilon(torch.nn.Linear(4, 4)) is None
    layer = frameworks.tensorflow().keras.layers.LayerNormalization(epsilon=0.125)
    assert libraries.epsilon(layer) == 0.125


def test_what_a_layernorm_has_learned_is_set_aside_as_the_other_weights_are():
    module = Normed(12, 3)
    torch.nn.init.normal_(module.norm.weight)
    torch.nn.init.normal_(module.norm.bias)
    learned = module.norm.weight.detach().clone()
    assert after_the_norm(module, n_heads=3, roles=ROLES).verdict == "healthy"
    assert torch.equal(module.norm.weight, learned)


def test_what_a_keras_layernorm_has_learned_is_set_aside_and_comes_back():
    norm = frameworks.tensorflow().keras.layers.LayerNormalization()
    layer = keras_attention()(12, 3, norm)
    layer(np.ones((1, 2, 12), "float32"))
    norm.gamma.assign(np.arange(12.0))
    norm.beta.assign(np.arange(12.0))
    report = after_the_norm(layer, n_heads=3, call=libraries.PLAIN[True, True])
    assert report.verdict == "healthy"
    assert norm.gamma.numpy().tolist() == norm.beta.numpy().tolist() == [*range(12)]


def test_without_a_layernorm_of_its_own_the_epsilon_is_pytorchs():
    def build(d_model, n_heads):
        return Normed(d_model, n_heads, lambda e: lambda x: F.layer_norm(x, (e,)))
    assert after_the_norm(build, roles=ROLES).verdict == "healthy"


@pytest.mark.parametrize("drop", [
    lambda x: random_zeros(x, 0.2), lambda x: torch.dropout(x, 0.2, True),
    lambda x: F.dropout(x, 0.2)], ids=["by name", "torch", "F"])
def test_dropout_in_a_module_is_named_however_it_is_called(drop):
    class Dropping(Attention):
        def forward(self, x, memory, keep=None):
            return drop(super().forward(x, memory, keep))
    report = doctor.examine(Dropping, "layer", roles=ROLES)
    assert report.names == [("dropout in eval",)]
    ones = torch.ones(99)
    assert random_zeros(ones).min() == torch.dropout(ones, 0.5, True).min() == 0  # as before


def test_dropout_called_by_a_name_of_its_own_is_found_in_methods():
    class Dropping(Attention):
        def forward(self, x, memory, keep=None):
            return self.finish(super().forward(x, memory, keep))

        def finish(self, x):
            return random_zeros(x, 0.2)
    assert doctor.examine(Dropping, "layer", roles=ROLES).names == [("dropout in eval",)]
    report = doctor.examine(mha(12, 3, batch_first=True), "layer", masks="none", call=(
        lambda m, x, memory, keep: random_zeros(m(x, memory, memory)[0], 0.2)))
    assert report.names == [("dropout in eval",)]


def test_dropout_of_keras_is_named():
    report = doctor.examine(partial(keras_attention(), rate=0.2), "layer", self_attention=True,
                            call=libraries.PLAIN[True, True])
    assert report.names == [("dropout in eval",)]


def test_other_chance_in_a_module_is_not_called_dropout():
    class Noisy(Attention):
        def forward(self, x, memory, keep=None):
            return super().forward(x, memory, keep) + torch.randn(x.shape, dtype=x.dtype)
    report = doctor.examine(Noisy, "layer", roles=ROLES)
    assert report.headline == ("identical calls give different outputs, and "
                               "the dropout of a framework does not explain it.")


def test_a_lazy_module_is_called_once_before_its_weights_are_written():
    class Lazy(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads)
            for name in self.names:
                self.add_module(name, torch.nn.LazyLinear(d_model))
    report = doctor.examine(Lazy, "layer")
    assert (report.verdict, report.asides[0][:46]) == (
        "healthy", "The roles were read from the names: q in a, k ")
    report = doctor.examine(Lazy(12, 3), "layer", n_heads=3)
    assert report.headline == ("it has weights without a shape before its first call; call it "
                               "once, or pass its class.")


class WithNumpy:
    """A class of neither framework."""

    def __init__(self, d_model, n_heads):
        self.W_q = np.zeros((d_model, d_model))

    def __call__(self, x, memory, keep=None):
        return x @ self.W_q


def test_a_class_of_neither_framework_must_hold_all_weights_as_arrays():
    report = doctor.examine(WithNumpy)
    assert (report.verdict, report.headline) == (
        "could not examine", "it is neither a torch module nor a Keras layer, and holds no arrays "
        "that are called W_q, W_k and W_v.")


@pytest.mark.parametrize("told", [{"call": call}, {"roles": ROLES}])
def test_a_class_of_neither_framework_is_told_what_to_be(told):
    report = doctor.examine(WithNumpy, "layer", **told)
    assert (report.verdict, report.headline) == (
        "could not examine", "it is neither a torch module nor a Keras layer, so the doctor cannot "
        "write weights into it; write its attention as a function of x, memory, weights, n_heads "
        "and keep.")


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
    fast = heads == 2 and first and self_attention  # its fast path gives NaN to a fully masked row
    assert (report.program, report.verdict) == ("MultiheadAttention", "healthy")
    assert report.asides == ["A fully masked row gets NaN."] * fast
    assert not report.notes
    assert module.training


@pytest.mark.parametrize("bias", [True, False])
def test_torchs_layer_needs_no_roles(bias):
    class Built:
        def __new__(cls, d_model, n_heads):
            return mha(d_model, n_heads, bias=bias)
    report = doctor.examine_layer(Built)
    assert (report.verdict, report.notes) == ("healthy", [])
    report = doctor.examine(mha(12, 3, kdim=10), "layer")
    assert report.headline == ("it takes keys of width 10 and queries of width 12; the doctor "
                               "examines layers with equal widths only.")


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
    assert report.verdict == "healthy"
    assert report.asides == ["A fully masked row gets the average of all values."]
    assert np.array_equal(layer(x, x), before)

    class Built:
        def __new__(cls, d_model, n_heads):
            return keras_mha(n_heads, d_model // n_heads, use_bias=False)
    assert doctor.examine_layer(Built, masks="none").verdict == "healthy"


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


class Viewing(SequenceFirst):
    """As PyTorch's own once did, it lays all words below each other by view."""

    def forward(self, x, memory, keep=None):
        sides = (side.view(-1, side.shape[2]).view(side.shape) for side in (x, memory))
        return super().forward(*sides, keep)


def test_a_module_that_puts_the_sequence_first_is_healthy_when_told():
    assert doctor.examine(SequenceFirst, "layer", roles=ROLES, batch_first=False
                          ).verdict == "healthy"
    assert doctor.examine(Viewing, "layer", roles=ROLES, batch_first=False).verdict == "healthy"
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
    report = doctor.examine(lambda e, h: Asked(e, h, 2.0), "layer", roles=ROLES)
    assert report.verdict == "sick"
    assert report.findings[0].startswith("Asked for its weights, it returns the output ")
    assert report.headline.startswith("asked for its weights, it returns the output ")


@pytest.mark.parametrize(("part", "count"), [(torch.nn.Linear(5, 4), 648),
                                             (torch.nn.LayerNorm(12), 0)])
def test_parameters_beyond_the_four_projections_are_a_note(part, count):
    module = Attention(12, 3)
    module.more = part
    report = doctor.examine(module, "layer", n_heads=3, roles=ROLES)
    assert report.verdict == ("healthy")
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
    got = guess.guess(Heads(), 12, 3)
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
    assert doctor.examine(Text, "layer", **told).verdict == "healthy"
    report = doctor.examine(partial(Text, torn=True)(12, 3), "layer", n_heads=3, **told)
    assert report.names == [("merge without transpose",)]


def test_a_module_that_takes_other_arguments_is_told_how_it_is_called():
    report = doctor.examine_layer(Text, causal=True)
    assert report.verdict == "could not examine"
    assert "4 were given. A module is called as module(x, memory, keep): " in report.headline
    report = doctor.examine(Text, "layer", causal=True)  # its arguments are read
    assert report.verdict == "healthy"
    assert report.called.endswith("called as (x), causal by its own mask")


def test_biases_that_a_module_does_not_have_are_not_missed():
    class Residual(Text):
        def forward(self, x):
            return x + super().forward(x)

    report = doctor.examine(Residual, "layer", causal=True, self_attention=True, masks="none")
    assert (report.verdict, report.names) == ("unexplained", [])
    assert "b_" not in str(report)


def test_a_keras_layer_whose_mask_is_called_mask_gets_none_where_there_is_none():
    report = doctor.examine(keras_attention(), "layer", self_attention=True)
    assert (report.verdict, report.names) == ("healthy", [])

    class Named:
        def call(self, x, mask=None):
            """Have the signature that Keras asks for."""

        def __call__(self, *args):
            return args
    assert libraries.PLAIN[True, True](Named(), 1, 2, None) == (1,)
    assert libraries.PLAIN[True, True](Named(), 1, 2, 3) == (1, 3)
    assert libraries.PLAIN[True, False](Named(), 1, 2, None) == (1, 2, None)  # mask is memory here


def test_a_module_gets_what_its_masks_and_memory_make_of_the_call():
    def given(*args):
        return args
    assert {told: function(given, 1, 2, 3) for told, function in libraries.PLAIN.items()} == {
        (True, False): (1, 2, 3), (True, True): (1, 3), (False, False): (1, 2), (False, True): (1,)}


# --- weights of somebody's own

class Bare(torch.nn.Module):
    """Attention on parameters W_q … and biases, if any, (in, out) unless turned."""

    def __init__(self, e, n_heads, weight="W_{}", bias="", turned=False, scale=None,
                 start=torch.randn):
        super().__init__()
        self.n_heads, self.turned, self.scale = n_heads, turned, scale
        self.names = [(weight.format(n), bias and bias.format(n)) for n in "qkvo"]
        for kernel, shift in self.names:
            self.register_parameter(kernel, torch.nn.Parameter(torch.randn(e, e)))
            if shift:
                self.register_parameter(shift, torch.nn.Parameter(start(e)))

    def project(self, n, x):
        kernel, shift = self.names[n]
        kernel = getattr(self, kernel)
        return x @ (kernel.mT if self.turned else kernel) + (getattr(self, shift) if shift else 0)

    def forward(self, x, memory, keep=None):
        q, k, v = (self.project(n, side).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for n, side in enumerate((x, memory, memory)))
        context = F.scaled_dot_product_attention(q, k, v, keep, scale=self.scale)
        return self.project(3, context.transpose(1, 2).flatten(2))


TURNED = ("It reads its weights as with the fault transposed weight (x @ W.T is used for q, k, v, "
          "o). Trained from scratch, such a program is right; with weights from elsewhere, it is "
          "wrong if square ones are stored as nn.Linear or Dense would store them.")
BARE = {n: f"W_{n}" for n in "qkvo"}


@pytest.mark.parametrize("roles", [None, BARE])
def test_a_square_parameter_may_be_meant_either_way(roles):
    report = doctor.examine(Bare, "layer", roles=roles, call=call)
    assert (report.verdict, report.names, TURNED in report.notes) == ("healthy", [], True)
    report = doctor.examine(partial(Bare, turned=True), "layer", roles=roles, call=call)
    assert (report.names, TURNED in report.notes) == ([], False)
    report = doctor.examine(partial(Bare, scale=1.0), "layer", roles=roles, call=call)
    assert (report.verdict, report.names) == ("sick", [("no scale",)])
    assert TURNED in report.notes


@pytest.mark.parametrize("roles", [None, dict(zip("qkvo", ["to_q", "to_k", "to_v", "to_out"],
                                                  strict=True))])
def test_a_linear_layer_that_is_used_the_other_way_is_sick(roles):
    class Backwards(torch.nn.Linear):
        def forward(self, x):
            return x @ self.weight + self.bias

    class Turned(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads, ["to_q", "to_k", "to_v", "to_out"])
            self.to_out = Backwards(d_model, d_model)
    report = doctor.examine(Turned, "layer", call=call, roles=roles)
    assert (report.verdict, report.names) == ("sick", [("transposed weight",)])


def test_whose_parameter_may_lie_either_way_is_read_off_the_roles_that_are_given():
    class Own(torch.nn.Module):
        def __init__(self, e):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(e, e))

        def forward(self, x):
            return x @ self.weight

    class Mixed(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads)
            del self.a
            self.a = Own(d_model)  # the last by order, the queries' by role
    report = doctor.examine(Mixed, "layer", call=call, roles=ROLES)
    assert (report.verdict, report.names) == ("healthy", [])
    assert "(x @ W.T is used for q)" in report.notes[0]


def test_only_square_kernels_of_ones_own_classes_may_lie_either_way():
    class Linear(torch.nn.Linear):
        pass

    class Conv1D(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(12, 12))

    class Own(Conv1D):
        pass
    keras = frameworks.tensorflow().keras
    dense = keras.layers.Dense(12)
    dense.build((None, 12))
    module = torch.nn.Module()
    for name, part in (("q", Linear(12, 12)), ("k", torch.nn.Conv1d(12, 12, 1)),
                       ("v", Conv1D()), ("o", Own())):
        module.add_module(name, part)
    module.square, module.wide = (torch.nn.Parameter(torch.zeros(n, 12)) for n in (12, 36))
    assert slots.unsure(module, [Slot(n, n) for n in "qkvo"]) == "o"
    assert slots.unsure(module, [Slot("wide", "qkv"), Slot("square", "o")]) == "o"
    holder = keras.layers.Layer()
    holder.part = dense
    assert slots.unsure(holder, [Slot("part", "q")]) == ""


def holding(names, width=12):
    """Return a module with an nn.Linear of each name; a number after a dot is of a list."""
    module = torch.nn.Module()
    for name in names:
        first, _, number = name.partition(".")
        if number == "0":
            module.add_module(first, torch.nn.ModuleList())
        part = torch.nn.Linear(width, width)
        getattr(module, first).append(part) if number else module.add_module(first, part)
    return module


@pytest.mark.parametrize(("names", "letters"), [
    ("attention query key value out", "-qkvo"), ("key query value", "kqv"),
    ("w_k w_q w_v", "kqv"), ("query key value mix", "qkvo"), ("old query key value mix", "-qkvo"),
    ("mix query key value", "oqkv"), ("merge proj.0 proj.1 proj.2", "oqkv"),
    ("linears.0 linears.1 linears.2 linears.3", "qkvo"), ("fc query key value out", "oqkvo"),
    ("out a b c", "oqkv"), ("a b c", "qkv"), ("to_q rest to_v to_out", "qkvo"),
    ("query key query_2 value", "qkov")])
def test_what_the_names_say_is_believed_and_the_rest_goes_by_order(names, letters):
    found = {slot.name: slot.letters for slot in guess.guess(holding(names.split()), 12, 3)}
    assert "".join(found.get(name, "-") for name in names.split()) == letters


def test_an_output_beside_packed_weights_is_the_first_square_unless_a_name_says_more():
    for names, last in ((["a", "b"], "a"), (["a", "out"], "out")):
        module = holding(names)
        module.qkv = torch.nn.Linear(12, 36)
        assert guess.guess(module, 12, 3)[1:] == [Slot(last, "o")]


def test_what_is_named_o_is_not_guessed_to_be_the_values():
    with pytest.raises(guess.RolesError):
        guess.guess(holding(["query", "key", "out"]), 12, 3)


@pytest.mark.parametrize(("weight", "bias"), [
    ("W_{}", "b_{}"), ("W{}", "b{}"), ("w_{}", "b_{}"), ("W_{}", "bias_{}"), ("{}_w", "{}_b"),
    ("{}_weight", "{}_bias"), ("proj_{}", "proj_{}_bias")])
def test_a_bias_is_found_beside_its_parameter(weight, bias):
    build = partial(Bare, weight=weight, bias=bias, turned=True)
    module = build(12, 3)
    for (kernel, shift), other in zip(module.names, "qkvo", strict=True):
        got = slots.parts(module, kernel)
        assert (got[0] is getattr(module, kernel), got[1] is getattr(module, shift)) == (True,) * 2
        slots.write(module.double(), Slot(kernel, other), HELD, 3)
        assert np.array_equal(getattr(module, shift).detach(), HELD[f"b_{other}"])
    roles = {n: weight.format(n) for n in "qkvo"}
    for given in (None, roles):
        report = doctor.examine(build, "layer", roles=given, call=call)
        assert (report.verdict, report.names) == ("healthy", [])
        assert report.evidence.startswith("The reference gives")


def test_a_bias_is_found_beside_a_variable_of_keras():
    keras = frameworks.tensorflow().keras
    layer = keras.layers.Layer()
    layer.W_q, layer.b_q, layer.W_k = (
        layer.add_weight(shape=shape) for shape in ((12, 12), (12,), (12, 12)))
    assert slots.parts(layer, "W_q") == (layer.W_q, layer.b_q)
    assert slots.parts(layer, "W_k") == (layer.W_k, None)
    layer.shift = layer.add_weight(shape=(12,), initializer="normal")
    with pytest.raises(_subject.RefusalError):
        slots.parts(layer, "W_k")


def test_a_vector_that_may_be_a_bias_is_asked_for():
    build = partial(Bare, bias="shift_of_{}", turned=True)
    for roles in (None, BARE):
        report = doctor.examine(build, "layer", roles=roles, call=call)
        assert (report.verdict, report.headline) == (
            "could not examine", "it has no bias with a name that fits W_q, but shift_of_q and "
            "shift_of_k and shift_of_v and shift_of_o may be its bias; call the bias of W_q b_q, "
            "and that of Wq bq.")
    report = doctor.examine(partial(build, start=torch.zeros), "layer", call=call)
    assert report.verdict == "healthy"
    module = Bare(12, 3)
    module.b_k = torch.nn.Parameter(torch.randn(12))
    assert slots.parts(module, "W_q")[1] is None  # it is of W_k
    assert slots.parts(module, "W_k")[1] is module.b_k
    module.gain = torch.nn.Parameter(torch.ones(12))
    module.short = torch.nn.Parameter(torch.randn(5))
    assert slots.parts(module, "W_q")[1] is None


def test_a_vector_beside_a_linear_layer_without_bias_may_be_its():
    module = torch.nn.Module()
    module.qkv, module.out = torch.nn.Linear(12, 36, bias=False), torch.nn.Linear(12, 12)
    module.q_bias = torch.nn.Parameter(torch.zeros(36))
    assert len(guess.guess(module, 12, 3)) == 2
    torch.nn.init.normal_(module.q_bias)
    with raises(_subject.RefusalError, "has no bias with a name that fits qkv, but q_bias may be "
                "its bias; call the bias of W_q b_q, and that of Wq bq"):
        guess.guess(module, 12, 3)


class Small(Attention):
    """The words are cut into heads first; squares as wide as a head serve all of them."""

    def __init__(self, d_model, n_heads, bias=True):
        super().__init__(d_model, n_heads, ["q_lin", "k_lin", "v_lin", "out"])
        for name in self.names[:3]:
            self.add_module(name, torch.nn.Linear(*[d_model // n_heads] * 2, bias=bias))

    def forward(self, x, memory, keep=None):
        q, k, v = (getattr(self, name)(side.unflatten(-1, (self.n_heads, -1))).transpose(1, 2)
                   for name, side in zip(self.names, (x, memory, memory), strict=False))
        return self.out(F.scaled_dot_product_attention(q, k, v, keep).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("roles", [None, dict(zip("qkvo", ["q_lin", "k_lin", "v_lin", "out"],
                                                  strict=True))])
@pytest.mark.parametrize("bias", [True, False])
def test_squares_as_wide_as_a_head_hold_the_first_one(bias, roles):
    module = Small(12, 3, bias).double()
    assert set(guess.guess(module, 12, 3)) == {
        Slot("q_lin", "q"), Slot("k_lin", "k"), Slot("v_lin", "v"), Slot("out", "o")}
    slots.write(module, Slot("k_lin", "k"), HELD, 3)
    assert np.array_equal(module.k_lin.weight.detach(), HELD["W_k"][:4, :4].T)
    assert not bias or np.array_equal(module.k_lin.bias.detach(), HELD["b_k"][:4])
    report = doctor.examine(partial(Small, bias=bias), "layer", roles=roles, call=call)
    assert (report.verdict, report.names) == ("sick", [("input split before projection",)])


def test_a_square_as_wide_as_a_head_is_passed_over_where_there_are_enough_others():
    module = torch.nn.Module()
    module.mix = torch.nn.Linear(4, 4)
    for name, part in holding("abcd").named_children():
        module.add_module(name, part)
    assert guess.guess(module, 12, 3) == [
        Slot(*pair) for pair in zip("abcd", "qkvo", strict=True)]


def test_heads_as_many_as_they_are_wide_are_written_whole():
    layer = keras_mha(3, 3)
    x = np.ones((2, 5, 9), "float32")
    layer(x, x)
    held = sizes.weights(d_in=9, d_model=9, d_out=9)
    for letter, name in zip("qo", ("_query_dense", "_output_dense"), strict=True):
        slots.write(layer, Slot(name, letter), held, 3)
        kernel, bias = slots.parts(layer, name)
        assert np.allclose(np.reshape(kernel, (9, 9)), held[f"W_{letter}"])
        assert np.allclose(np.ravel(bias), held[f"b_{letter}"])


def test_a_convolution_of_size_one_holds_a_weight_matrix():
    module = torch.nn.Module()
    module.q, module.k = torch.nn.Conv1d(12, 12, 1), torch.nn.Conv2d(12, 12, 1)
    module.v, module.o = torch.nn.Conv1d(12, 12, 3, groups=3), torch.nn.Linear(12, 12)
    for letter in "qk":
        slots.write(module.double(), Slot(letter, letter), HELD, 3)
        assert np.array_equal(getattr(module, letter).weight.detach().flatten(1),
                              HELD[f"W_{letter}"].T)
        assert np.array_equal(getattr(module, letter).bias.detach(), HELD[f"b_{letter}"])
    for part in (module.v, torch.nn.Conv1d(12, 12, 1, groups=3), torch.nn.Conv1d(4, 12, 3)):
        module.v = part
        with pytest.raises(guess.RolesError):
            guess.guess(module, 12, 3)
    module.v = torch.nn.Conv1d(12, 12, 1)
    assert guess.guess(module, 12, 3) == [Slot(n, n) for n in "qkvo"]


@pytest.mark.parametrize("norm", [torch.nn.utils.parametrizations.weight_norm,
                                  torch.nn.utils.parametrizations.spectral_norm,
                                  torch.nn.utils.spectral_norm])
@pytest.mark.parametrize("roles", [None, dict(zip("qkvo", "qkvo", strict=True))])
def test_a_weight_that_is_computed_is_told_in_a_sentence(norm, roles):
    def build(d_model, n_heads):
        module = Attention(d_model, n_heads, "qkvo")
        module.k = norm(module.k)
        return module
    report = doctor.examine(build(12, 3), "layer", n_heads=3, roles=roles)
    assert (report.verdict, report.headline) == (
        "could not examine", "it computes the weight of k from others, as weight_norm and "
        "parametrize do, so the doctor cannot write it.")
    module = build(12, 3)
    module.more, module.k = module.k, torch.nn.Linear(12, 12)
    assert guess.guess(module, 12, 3) == [Slot(n, n) for n in "qkvo"]


def test_where_no_weights_were_written_nothing_is_said_of_their_use():
    class Bent(Attention):
        def __init__(self, d_model, n_heads):
            super().__init__(d_model, n_heads)
            self.b, self.c = (torch.nn.Bilinear(1, d_model, d_model) for _ in range(2))

        def forward(self, x, memory, keep=None):
            one = torch.ones_like(memory[..., :1])
            return self.d(F.scaled_dot_product_attention(
                self.a(x), self.b(one, memory), self.c(one, memory)))
    report = doctor.examine(Bent, "layer", call=call)
    assert (report.verdict, report.findings) == ("could not examine", [])
    assert "differs from the reference" not in str(report)


class Interleaved(Attention):
    """The features are split as (d, h); ``merged`` so, too."""

    def __init__(self, d_model, n_heads, merged=True, scale=None):
        super().__init__(d_model, n_heads, ["to_q", "to_k", "to_v", "to_out"], scale)
        self.merged = merged

    def forward(self, x, memory, keep=None):
        q, k, v = (getattr(self, name)(side).unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)
                   for name, side in zip(self.names, (x, memory, memory), strict=False))
        context = F.scaled_dot_product_attention(q, k, v, keep, scale=self.scale)
        return self.to_out(context.permute(0, 2, 3, 1).flatten(2) if self.merged
                           else context.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("roles", first([
    None, dict(zip("qkvo", ["to_q", "to_k", "to_v", "to_out"], strict=True))]))
@pytest.mark.parametrize(("merged", "letters"), [(True, "q, k, v, o"), (False, "q, k, v")])
def test_features_that_a_module_holds_in_an_order_of_its_own_are_a_note(merged, letters, roles):
    told = (f"It reads its weights as with the fault interleaved packing ({letters}: (h, d) is "
            "read as (d, h)). Trained from scratch, such a program is right; with weights from "
            "elsewhere, it is wrong if the dimensions of each head are stored side by side.")
    report = doctor.examine(partial(Interleaved, merged=merged), "layer", call=call, roles=roles)
    assert (report.verdict, report.names, told in report.notes) == ("healthy", [], True)
    report = doctor.examine(Interleaved(12, 3, merged, 1.0), "layer", n_heads=3, roles=roles)
    assert (report.verdict, report.names, told in report.notes) == (
        "sick", [("no scale",)], True)


def test_a_function_is_given_its_weights_and_has_no_order_of_its_own():
    def layer(x, memory, weights, n_heads, keep):
        q, k, v = ((side @ weights[f"W_{n}"] + weights[f"b_{n}"]).reshape(
            *side.shape[:2], -1, n_heads).transpose(0, 3, 1, 2)
            for n, side in zip("qkv", (x, memory, memory), strict=True))
        context = reference.attention(q, k, v, keep)[0]
        return reference.merge_heads(context) @ weights["W_o"] + weights["b_o"]
    report = doctor.examine(layer, "layer")
    assert (report.verdict, report.names) == ("unexplained", [])
