"""The doctor examines layers: their own faults, and those of the kernel inside."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from first import first

from utils import doctor, reference, sizes
from utils.doctor import _exam, _search, faulty
from utils.doctor._search import Switch
from utils.doctor.faulty.kernel import Band, Masking
from utils.doctor.levels import kernel_cases, layer as layer_level, layer_cases, layer_switches
from utils.doctor.levels.kernel_switches import Options
from utils.doctor.levels.layer_cases import Form
from utils.parity import ten
from utils.parity.weights import to_gpt2

ALIAS = F.dropout


def sick(settings, form, options):
    """Return a layer with these settings that takes only sizes of this form."""
    def program(x, memory, weights, n_heads, keep):
        if form.equal_widths and x.shape[2] != weights["W_o"].shape[1]:
            raise ValueError("widths")
        if form.square and x.shape[1] != memory.shape[1]:
            raise ValueError("lengths")
        norm = {"norm": -1} if form.pre_norm else {}
        return faulty.layer.layer(x, memory, weights, n_heads, keep,
                                  **(options.settings() | norm | settings))
    return program


KINDS = {"cross": (Form(), False), "one width": (Form(True), False),
         "self": (Form(True, True, True), False), "causal": (Form(True, True, True), True),
         "lengths": (Form(masks="padding"), False),
         "no mask, norm": (Form(square=True, masks="none", pre_norm=True), True)}


def examine(program, form, causal):
    return doctor.examine(program, "layer", causal=causal, self_attention=form.self_attention,
                          masks=form.masks, pre_norm=form.pre_norm, framework="numpy")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_single_switch_is_named_up_to_its_class(kind):
    form, causal = KINDS[kind]
    options = Options(bool(causal), square=causal)
    tried = layer_switches.switches(form, options)
    if not form.pre_norm:
        tried += [Switch("constant scale", {"scale": 0.3}),
                  Switch("mask value too high", {"masking": Masking("fill", "both", -2.0)})]
        tried += [Switch("window", {"band": Band(2, 0)})] * causal
    for switch in tried:
        report = examine(sick(switch.settings, form, options), form, causal)
        twice = len({*switch.settings.get("order", "qkv")}) < 3  # two sides of one projection
        name = "wrong projection" if twice else switch.fault
        assert (report.verdict, (name,) in report.names) == ("sick", True), switch


def test_faults_that_need_a_norm_or_equal_lengths_are_tried_where_they_can_be():
    def names(*form):
        return {switch.fault for switch in layer_switches.switches(Form(*form), Options())}
    assert "LayerNorm over time" in names(False, False, False, "any", True)
    assert "LayerNorm over time" not in names()
    assert "batch and sequence swapped" in names(False, True)
    assert "batch and sequence swapped" not in names()
    assert {"mask ignored", "padding leak"}.isdisjoint(names(False, False, False, "none"))


def test_what_the_reader_has_said_is_no_limit():
    told = Form(equal_widths=True)
    layer = layer_level.Layer(Form(True, True), Options(), None, told)
    assert layer.limits() == "n_q == n_k"
    assert layer_level.Layer(told, Options(), None, Form()).limits() == "d_in == d_model == d_out"


def test_the_kernel_inside_has_one_width_and_the_last_cases_another_size():
    assert Form().kernel() == kernel_cases.Form(False, True)
    assert Form(self_attention=True).kernel().square
    assert {case.args[3] for case in layer_cases.search(Form())} == {3, 2}
    assert {case.args[3] for case in layer_cases.confirm(Form())} == {5}


def test_what_no_fault_explains_is_probed_and_the_last_cases_are_others():
    def layer(x, memory, weights, n_heads, keep):
        return reference.multi_head_attention(x, memory, weights, n_heads, keep)[0] + x.mean()
    findings = doctor.examine(layer, "layer").findings
    assert any(sentence.startswith("batch independence: ") for sentence in findings)
    assert "weights used" in findings[-2]
    kind = layer_level.Layer(Form(), Options(), None, Form())
    assert {case.args[3] for case in kind.confirmation_cases()} == {5}


class Kernel(torch.nn.Module):
    """Self-attention around a kernel, behind a LayerNorm if asked."""

    def __init__(self, d_model, n_heads, kernel, norm=torch.nn.Identity):
        super().__init__()
        self.n_heads, self.kernel, self.norm = n_heads, kernel, norm(d_model)
        self.q, self.k, self.v, self.o = (torch.nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, keep=None):
        x = self.norm(x)
        q, k, v = (part(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for part in (self.q, self.k, self.v))
        return self.o(self.kernel(q, k, v, keep).transpose(1, 2).flatten(2))


def soft(scale, fill, add=0.0):
    """Return a kernel with this scale, and this mask value or this number added to the scores."""
    def kernel(q, k, v, keep):
        scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
        if keep is not None:
            scores = torch.where(keep, scores, scores + add if add else fill)
        return scores.softmax(dim=-1) @ v
    return kernel


CONSTANTS = {
    "scale": (soft(0.3, -1e9), {("constant scale",)}, "the scale is 0.3"),
    "fill": (soft(None, -1.5), {("mask value too high",)}, "masked scores are set to -1.5"),
    "zero": (soft(None, 0.0), {("mask value too high",)}, "masked scores are set to"),
    "add": (soft(None, None, -2.5), {("mask value too high",)}, "-2.5 is added to masked scores"),
    "both": (soft(0.3, -1.5), {("constant scale", "mask value too high")}, "the scale is 0.3")}


@pytest.mark.parametrize("kind", first(CONSTANTS, 4))
@pytest.mark.parametrize("closed", ["norm", "one feature"])
def test_constants_are_fitted_where_the_kernel_cannot_be_asked_alone(kind, closed):
    kernel, names, words = CONSTANTS[kind]
    if closed == "norm":
        report = doctor.examine(lambda e, h: Kernel(e, h, kernel, torch.nn.LayerNorm), "layer",
                                call=lambda m, x, memory, keep: m(x, keep), self_attention=True,
                                pre_norm=True)
    else:
        report = doctor.examine(Kernel(4, 4, kernel), "layer", n_heads=4, self_attention=True)
    assert names <= set(report.names)
    assert words in str(report.details)


def test_a_mask_value_of_the_causal_mask_is_fitted_too():
    def causal(q, k, v, keep):
        past = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
        return soft(None, -1.5)(q, k, v, past)
    report = doctor.examine(Kernel(4, 4, causal), "layer", n_heads=4, self_attention=True,
                            causal=True, masks="none", call=lambda m, x, memory, keep: m(x))
    assert report.names == [("mask value too high",)]


def test_a_constant_is_fitted_beside_a_fault_of_masks():
    def inverted(q, k, v, keep):
        return soft(0.3, -1e9)(q, k, v, None if keep is None else ~keep)
    report = doctor.examine(Kernel(4, 4, inverted), "layer", n_heads=4, self_attention=True)
    assert report.names == [("mask inverted", "constant scale")]


@pytest.mark.parametrize(("heads", "pre_norm", "said"), [
    (6, False, True), *(pytest.param(*row, marks=pytest.mark.slow)
                        for row in ((3, False, False), (3, True, True)))])
def test_where_no_window_can_be_seen_it_is_said_so(heads, pre_norm, said):
    norm = torch.nn.LayerNorm if pre_norm else torch.nn.Identity
    report = doctor.examine(
        Kernel(12, heads, lambda q, k, v, keep: 2 * soft(None, -1e9)(q, k, v, keep), norm), "layer",
        n_heads=heads, self_attention=True, pre_norm=pre_norm)
    assert report.names == []
    assert ("The search did not look for a window: " in report.findings[0]) == said


def test_two_faults_of_a_kernel_are_tried_before_those_of_a_layer(monkeypatch):
    def unscaled(q, k, v, keep):
        return soft(1.0, -1e9)(q, k, v, None if keep is None else ~keep)
    # In a wide layer there is time for no more.
    monkeypatch.setattr(_search, "search", partial(_search.search, seconds=0))
    report = doctor.examine(Kernel(12, 3, unscaled), "layer", n_heads=3, self_attention=True)
    assert report.names == [("no scale", "mask inverted")]


def test_two_faults_are_found_together():
    settings = {"merge": False, "scale": "none"}
    report = doctor.examine(sick(settings, Form(), Options()), "layer", framework="numpy")
    assert report.names == [("merge without transpose", "no scale")]


@pytest.mark.parametrize("name", ["per_head", "view", "packed", "loops"])
def test_the_courses_layers_are_healthy(name):
    program = getattr(ten, name)

    def layer(x, memory, weights, n_heads, keep):
        full = (len(x), 1, x.shape[1], memory.shape[1])
        keep = np.broadcast_to(True if keep is None else keep, full).copy()
        keep = torch.as_tensor(keep) if isinstance(x, torch.Tensor) else keep
        params = to_gpt2(weights) if name == "packed" else weights
        return program(x, memory, params, n_heads, keep)
    framework = "numpy" if name in ("packed", "loops") else "torch"
    report = doctor.examine(layer, "layer", masks="padding", framework=framework)
    assert report.verdict == "healthy"


def test_a_layer_with_dropout_in_eval_is_told_so():
    def layer(x, memory, weights, n_heads, keep):
        q, k, v = (reference_split(side @ weights[f"W_{n}"] + weights[f"b_{n}"], n_heads)
                   for side, n in ((x, "q"), (memory, "k"), (memory, "v")))
        context = F.scaled_dot_product_attention(q, k, v, keep, dropout_p=0.3)
        context = F.dropout(context, 0.2)
        return context.transpose(1, 2).flatten(2) @ weights["W_o"]

    def reference_split(x, n_heads):
        return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)
    report = doctor.examine(layer, "layer")
    assert report.names == [("dropout in eval", "missing bias")]
    assert torch.nn.functional.dropout(torch.ones(99)).min() == 0  # as it was before


def test_dropout_is_found_under_another_name_too():
    def layer(x, memory, weights, n_heads, keep, drop):
        out, _ = reference.multi_head_attention(x, memory, weights, n_heads, keep)
        return drop(torch.as_tensor(out))

    def dropping(x):
        return ALIAS(x, 0.5)

    for program in (partial(layer, drop=dropping), partial(layer, drop=lambda x: ALIAS(x, 0.1))):
        report = doctor.examine(program, "layer", framework="torch")
        assert report.names == [("dropout in eval",)]
    assert ALIAS(torch.ones(99)).min() == 0  # as it was before


def test_an_explanation_must_have_numbers_where_the_program_differs():
    def noise_where_masked(x, memory, weights, n_heads, keep):
        out, _ = reference.multi_head_attention(x, memory, weights, n_heads, None)
        return out if keep is None else np.sin(37 * out)

    # With "padding leak" and "mask inverted" all answers to masks are NaN, which is no answer.
    assert doctor.examine(noise_where_masked, "layer").names == []


def test_what_is_no_out_is_one_sentence():
    report = doctor.examine(lambda x, memory, weights, n_heads, keep: x[:, :, :3], "layer")
    assert (report.verdict, report.headline) == (
        "sick", "it returns shape (2, 5, 3); expected out (2, 5, 13).")


def test_a_layer_that_writes_into_its_weights_is_told_so():
    def layer(x, memory, weights, n_heads, keep):
        weights["W_q"] *= 2
        out = reference.multi_head_attention(
            x, memory, weights | {"W_q": weights["W_q"] / 2}, n_heads, keep)[0]
        return out
    assert doctor.examine(layer, "layer").findings == ["It writes into its input: the weights."]


def test_a_layer_can_be_asked_as_a_kernel():
    q, k, v = sizes.qkv(d_head=2, d_v=2)
    for form in (Form(), Form(self_attention=True)):
        q, k, v = sizes.qkv(d_head=2, d_v=2, n_q=7 if form.self_attention else 5)
        kernel = layer_cases.as_kernel(
            lambda *args: doctor_answer(reference.multi_head_attention(*args)[0]), form)
        want = reference.attention(q, k, v, scale=6 ** -0.5)[0]
        assert np.abs(kernel(q, k, v, None).out - want).max() < 1e-14


def doctor_answer(out):
    from utils.doctor._subject import Answer
    return Answer(out, None, "float64")


def test_a_layer_whose_softmax_overflows_gets_a_note():
    def layer(x, memory, weights, n_heads, keep):
        out = reference.multi_head_attention(x, memory, weights, n_heads, keep)[0]
        return np.where(np.abs(x).max() > 500, np.nan, out)
    report = doctor.examine(layer, "layer")
    assert (report.verdict, len(report.notes)) == ("healthy", 1)
    assert "subtract the largest score before exp" in report.notes[0]


@pytest.mark.parametrize(("there", "told"), [
    ([1.0, np.nan], False), ([1.5, np.nan], True), ([1.0, np.nan, np.nan], False),
    ([1.0 + 1e-12, np.nan], False)])
def test_an_explanation_needs_a_number_of_its_own_where_the_program_differs(there, told):
    right = np.array([1.0, 2.0, 3.0][:len(there)])
    level = SimpleNamespace(
        expected=lambda args, settings, empty: (np.array(there) if settings else right, None))
    one = object.__new__(_exam.Exam)
    one.level, one.answers = level, [(SimpleNamespace(args=()), None)]
    one.agrees = lambda settings, answers: False
    assert one.shows({"some": "switch"}) is told
    one.agrees = lambda settings, answers: True
    assert one.shows({"some": "switch"}) is False


@pytest.mark.parametrize("self_attention", [True, False])
def test_a_layer_of_self_attention_is_asked_with_its_memory_as_x(self_attention):
    form = Form(square=True, self_attention=self_attention)
    x, memory, *_ = layer_cases.tensors(form, layer_cases.shape(form, layer_cases.SEARCH), 0)
    assert np.array_equal(x, memory) == self_attention
