"""The doctor names what is wrong with a program, and calls no healthy one sick."""

import json
import re
import sys
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from exact import raises

from utils import doctor, reference, setup
from utils.attention import torch as torch_attention
from utils.doctor import _exam, _search, faults, faulty
from utils.doctor._report import Report, enumerated
from utils.doctor.faulty.kernel import HEADS, KEYS, QUERIES, Band, Masking
from utils.doctor.levels import kernel as kernel_level
from utils.doctor.levels.kernel_cases import Form
from utils.doctor.levels.kernel_switches import Options, Switch, switches


def sick(settings, form=Form(), options=Options()):  # noqa: B008
    """Return a kernel with these settings that takes only sizes of this form."""
    def program(q, k, v, keep):
        if (form.square and q.shape[2] != k.shape[2]) or (
                form.equal_features and q.shape[3] != v.shape[3]):
            raise ValueError("sizes")
        return faulty.kernel.attention(q, k, v, keep, **(options.settings() | settings))[0]
    return program


KINDS = {"general": (Form(), False), "grouped": (Form(grouped=True), False),
         "one width, one length": (Form(True, True), False), "causal": (Form(True), True),
         "top left": (Form(), "top_left"), "bottom right": (Form(), "bottom_right")}


@pytest.mark.parametrize("kind", KINDS)
def test_every_single_switch_is_named_up_to_its_class(kind):
    form, causal = KINDS[kind]
    options = Options(bool(causal), causal if isinstance(causal, str) else "top_left",
                      causal is True, form.grouped)
    part = "causal" if causal else "keep"
    constants = [Switch("constant scale", {"scale": 0.3}),
                 Switch("constant scale", {"scale": 0.5}),  # right for d = 4
                 Switch("mask value too high", {"masking": Masking("fill", "keep", -2.0)}),
                 Switch("mask value too high", {"masking": Masking("fill", part, -30.0)}),
                 Switch("mask value too high", {"masking": Masking("add", "both", -3.0, True)}),
                 Switch("window", {"band": Band(2, 0 if causal else 1)})]
    for switch in [*switches(form, options), *constants]:
        report = doctor.examine(sick(switch.settings, form, options), causal=causal,
                                grouped=form.grouped)
        assert (report.verdict, (switch.fault,) in report.names) == ("sick", True), switch
        assert {len(names) for names in report.names} == {1}, switch


@pytest.mark.parametrize(("settings", "names"), [
    ({"scale": "none", "masking": Masking("invert")}, {"no scale", "mask inverted"}),
    ({"scale": 0.3, "axes": (HEADS,)}, {"constant scale", "softmax over heads"}),
    ({"scale": "twice", "masking": Masking("fill", value=-1.0)}, {"scaled twice",
                                                               "mask value too high"}),
    ({"scale": "none", "masking": Masking("ignore"), "axes": (HEADS, KEYS)},
     {"no scale", "mask ignored", "softmax over heads and keys"})], ids=lambda x: str(len(x)))
def test_faults_are_found_together(settings, names):
    assert [set(some) for some in doctor.examine(sick(settings)).names] == [names]


def test_programs_that_no_question_tells_apart_are_one_class():
    report = doctor.examine(sick({"axes": (QUERIES,), "masking": Masking("invert", "both")},
                                 options=Options(True)), causal="top_left")
    assert report.names == [("softmax over queries", "mask inverted")]
    report = doctor.examine(lambda q, k, v, keep: (q @ k.swapaxes(-1, -2)) @ v * np.nan)
    assert (report.verdict, report.names) == ("sick", [])


# --- healthy ones

def plain_torch(q, k, v, keep):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if keep is not None:
        scores = scores.masked_fill(~keep, -1e9)
    return torch.softmax(scores, dim=-1) @ v


def in_float32(q, k, v, keep):
    return plain_torch(q.float(), k.float(), v.float(), keep).double()


def only_float32(q, k, v, keep):
    if q.dtype != torch.float32:
        raise TypeError("expected float32")
    return plain_torch(q, k, v, keep)


HEALTHY = {"reference": (reference.attention, ()), "torch": (torch_attention.attention, ()),
           "fused": (F.scaled_dot_product_attention, ()), "plain": (plain_torch, ("average",)),
           "only float32": (only_float32, ("average",)),
           "in float32": (in_float32, ("average", "float64"))}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_kernel_is_called_healthy_or_noted(name):
    program, words = HEALTHY[name]
    report = doctor.examine(program)
    assert (report.verdict, report.names) == ("healthy", [])
    said = report.asides + report.notes
    assert len(said) == len(words)
    assert all(word in sentence for word, sentence in zip(words, said, strict=True))
    assert all(sentence in " ".join(report.full().split()) for sentence in said)
    assert not any(sentence in " ".join(str(report).split()) for sentence in report.asides)


def test_a_choice_is_a_fault_where_another_was_asked_for():
    report = doctor.examine(plain_torch, fully_masked="zeros")
    assert report.verdict == "sick"
    assert report.findings == [
        "A fully masked row gets the average of all values; expected zeros."]
    assert doctor.examine(plain_torch, fully_masked="average").verdict == "healthy"


# --- what is no answer

def writes(q, k, v, keep):
    q /= 2
    return reference.attention(2 * q, k, v, keep)


@pytest.mark.parametrize(("program", "verdict", "words"), [
    (lambda q, k: q, "could not examine", "it raises TypeError: <lambda>() takes 2"),
    (lambda q, k, v, keep: None, "sick", "it returns None; expected an array."),
    (lambda q, k, v, keep: q[..., :1], "sick",
     "it returns shape (2, 3, 5, 1); expected the context (2, 3, 5, 6)."),
    (lambda q, k, v, keep: np.zeros((2, 3, 5, 6), int), "sick",
     "it returns int64; expected floating-point numbers."),
    (lambda q, k, v, keep: reference.attention(q, k, v, keep)[0] * np.nan, "sick",
     "it gives NaN in 9 of 9 cases where the reference gives numbers (first case: no mask)."),
    (writes, "sick", "it writes into its input: q. Otherwise it equals the reference."),
    (lambda q, k, v, keep: sys.exit("bye"), "could not examine", "it raises SystemExit: bye."),
    (lambda q, k, v, keep: (_ for _ in ()).throw(ValueError("Really.")), "could not examine",
     "it raises ValueError: Really.")], ids=range(8))
def test_what_is_no_answer_is_one_sentence(program, verdict, words):
    report = doctor.examine(program)
    assert (report.verdict, report.names) == (verdict, [])
    assert report.headline.startswith(words)
    assert len(report.lines()) <= 2 or report.adapter
    assert "Traceback" not in str(report)


def test_a_program_that_answers_is_not_asked_in_another_framework():
    seen = set()

    def program(q, k, v, keep):
        seen.add(type(q))
        return q[..., :1]
    assert doctor.examine(program).verdict == "sick"
    assert len(seen) == 1


def test_where_it_answers_at_all_counts_more_than_what_another_framework_raises():
    report = doctor.examine(lambda q, k, v, keep: np.asarray(q + 0.0, dtype=np.float64).tolist()
                            if isinstance(q, np.ndarray) else q.sausage)
    assert report.headline == "it returns a list of length 2; expected an array."


def test_masks_that_it_refuses_are_noted():
    def program(q, k, v, keep):
        if keep is not None and np.ndim(keep) == 2:
            raise ValueError("four axes, please")
        return reference.attention(q, k, v, keep)
    report = doctor.examine(program)
    assert report.verdict == "healthy"
    assert report.notes == [
        "In the case one mask for all, it raises ValueError: four axes, please."]


def test_a_program_that_refuses_every_mask_is_not_examined():
    def program(q, k, v, keep):
        if keep is not None:
            raise ValueError(f"what is {keep}?")
        return reference.attention(q, k, v)[0]
    report = doctor.examine(program)
    assert report.verdict == "could not examine"
    assert report.headline.startswith("with a mask it raises ValueError: what is tensor([[[[")
    assert report.headline.endswith('. To examine it without one, pass `masks="none"`.')
    assert len(report.notes) == 1
    assert report.notes[0].startswith("In the cases padding, a mask per head, one mask for all and "
                                      "6 more, it raises ValueError: what is ")


def test_a_causal_mask_that_nobody_has_told_of_is_seen():
    causal = sick({"band": Band(None, 0)})
    report = doctor.examine(causal)
    assert report.verdict == "healthy"
    assert report.notes[-1].startswith("It hides later tokens by itself")
    report = doctor.examine(causal, causal=False)
    assert report.names == [("window",)]
    assert report.details["window"].endswith("if that is intended, pass `causal=True`")
    report = doctor.examine(sick({"band": Band(2, 1)}))
    assert report.details["window"] == (
        "a query attends only to keys up to 2 before and 1 after its own position")


def test_a_program_without_masks_is_examined_without():
    def program(q, k, v, keep, scale=None):
        assert keep is None
        return reference.attention(q, k, v, scale=scale)[0]
    assert doctor.examine(program, masks="none").verdict == "healthy"
    report = doctor.examine(lambda *args: program(*args, scale=0.3), masks="none")
    assert report.names == [("constant scale",)]
    report = doctor.examine(lambda *args: program(*args) + 1.0, masks="none")
    assert "padding" not in " ".join(report.findings)
    names = {switch.fault for switch in switches(Form(masks="none"), Options(True))}
    assert "mask ignored" not in names
    assert {"mask after softmax", "no causal mask"} < names


def test_another_shape_for_some_masks_is_a_fault_not_a_note():
    def program(q, k, v, keep):
        context, _ = reference.attention(q, k, v, keep)
        return context[..., :1] if keep is not None and keep.ndim == 2 else context
    report = doctor.examine(program)
    assert (report.verdict, report.notes) == ("sick", [])
    assert report.findings == ["In the case one mask for all, it returns shape (2, 3, 5, 1); "
                               "expected the context (2, 3, 5, 6)."]


def bursting(largest):
    """Return a kernel without the usual precaution, in numbers that end at exp(largest)."""
    def program(q, k, v, keep):
        scores = reference.attention_scores(q, k)
        scores = np.where(True if keep is None else keep, scores, -np.inf)
        weights = np.where(scores > largest, np.inf, np.exp(scores))
        return weights / weights.sum(axis=-1, keepdims=True) @ v
    return program


def test_a_softmax_that_overflows_is_a_note_however_early():
    late, early = doctor.examine(bursting(709)), doctor.examine(bursting(20))
    assert (late.verdict, early.verdict) == ("healthy", "healthy")
    assert late.asides == early.asides == ["A fully masked row gets NaN."]
    assert late.notes == [
        "Large scores give 120 elements that are not finite: subtract the largest score before "
        "exp."]
    assert early.notes == [
        "In the case large scores, it gives numbers that are not finite: subtract the largest "
        "score before exp."]
    assert doctor.examine(bursting(1)).verdict == "sick"  # at ordinary scores it is no choice


def test_a_demand_on_fully_masked_rows_is_no_fault_of_a_program_without_any():
    report = doctor.examine(reference.attention, masks="none", fully_masked="nan")
    assert report.verdict == "healthy"

def test_sizes_that_it_does_not_take_are_noted():
    report = doctor.examine(sick({}, Form(True, True)))
    assert (report.verdict, report.notes) == (
        "healthy", ["It was examined only with n_q == n_k and d_v == d: it takes no other sizes, "
                    "which is no fault."])


# --- chance

@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_in_eval_is_named(p):
    torch.manual_seed(0)
    report = doctor.examine(lambda q, k, v, keep: F.scaled_dot_product_attention(
        q, k, v, keep, dropout_p=p))
    assert report.names == [("dropout in eval",)]
    assert "the same outputs as the program without its dropout in " in report.evidence


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_evidence_without_dropout_names_the_dtype_that_the_program_returns(dtype):
    torch.manual_seed(0)

    def program(q, k, v, keep):
        scores = (q @ k.mT).to(getattr(torch, dtype))
        return F.dropout(scores.softmax(dim=-1), 0.3) @ v.to(scores.dtype)
    report = doctor.examine(program, masks="none")
    assert report.names == [("dropout in eval", "no scale")]
    assert f"({dtype}, largest difference " in report.evidence


def test_dropout_that_does_not_rescale_is_named_with_what_else_is_wrong():
    rng = np.random.default_rng(0)

    def program(q, k, v, keep):
        weights = faulty.kernel.attention(q, k, v, keep, scale="none", axes=(QUERIES,))[1]
        return (weights * (rng.random(weights.shape) > 0.25)) @ v / 0.75
    assert doctor.examine(program).names == [
        ("dropout in eval", "no scale", "softmax over queries")]


def test_rounding_that_changes_is_no_chance():
    rng = np.random.default_rng(0)
    for size, verdict in ((1e-12, "healthy"), (1e-3, "sick")):
        report = doctor.examine(lambda q, k, v, keep, size=size: reference.attention(
            q, k, v, keep)[0] + size * rng.standard_normal(v.shape[3]))
        assert (report.verdict, report.names) == (verdict, [])


def test_other_chance_is_not_called_dropout():
    rng = np.random.default_rng(0)
    report = doctor.examine(lambda q, k, v, keep: reference.attention(q, k, v, keep)[0]
                            + rng.standard_normal(v.shape[3]))
    assert (report.verdict, report.names) == ("sick", [])
    assert report.headline == (
        "identical calls give different outputs, and dropout on its weights does not "
        "explain it.")
    assert len(report.findings) == 2  # probes would only see chance


def test_a_search_that_ended_early_says_how_much_it_has_tried(monkeypatch):
    monkeypatch.setattr(_search, "search", partial(_search.search, seconds=0, least=0))
    report = doctor.examine(lambda q, k, v, keep: 2 * reference.attention(q, k, v, keep)[0],
                            framework="numpy")
    assert report.headline.startswith(
        "it differs from the reference, and there was time for only ")
    told, _, end = report.headline.partition(" only ")[2].partition(" sets ")
    tried, sets = (int(number) for number in told.replace(",", "").split(" of "))
    assert 10 < tried < sets / 20
    assert end == "of faults; in the shell, --seconds 300 gives five times as much."


def test_what_no_fault_explains_is_probed():
    report = doctor.examine(lambda q, k, v, keep: reference.attention(q, k, v, keep)[0] + v.mean())
    assert report.findings[0].startswith("It differs from the reference in 12 of 12 cases")
    assert any(sentence.startswith("batch independence: ") for sentence in report.findings)
    assert "determinism, " in report.findings[-2]
    assert "batch independence" not in report.findings[-2]
    assert report.findings[-1].startswith("Start with causality: ")
    causal = doctor.examine(lambda q, k, v, keep: 2 * faulty.kernel.attention(
        q, k, v, keep, band=Band(None, 0))[0], causal=True)
    assert "causality" in causal.findings[-2]
    assert "dependence" in causal.findings[-2]


# --- the report

def test_the_report_says_what_where_and_how_sure():
    report = doctor.examine(sick({"scale": 0.3}))
    assert str(report).splitlines() == [
        "program is sick: constant scale. The scores are multiplied by another number",
        "  than 1/√d. Here: the scale is 0.3.",
        "  Look at the line that divides the scores → chapter scaled_dot_product",
        "  A real case: https://github.com/BobMcDear/attorch/issues/14",
        "  The reference with this fault gives the same outputs in 12 of 12 cases, 9 of",
        "    them with a mask (float64, largest difference < 1e-9)."]


def test_several_faults_or_cases_are_listed_in_a_sentence():
    assert [enumerated(names) for names in (("a",), ("a", "b"), ("a", "b", "c"))] == [
        "a", "a and b", "a, b and c"]


def test_several_faults_are_explained_one_by_one():
    lines = str(doctor.examine(sick({"scale": "none", "masking": Masking("invert")}))).splitlines()
    assert lines[:4] == [
        "program is sick: no scale and mask inverted.",
        "  no scale: The scores are not divided by √d, so the softmax is too sharp.",
        "    Look at the line that divides the scores → chapter scaled_dot_product",
        "    A real case: https://github.com/mlc-ai/mlc-llm/pull/3426"]


def test_a_class_of_faults_is_named_as_such():
    report = doctor.examine(sick({"scale": 0.5}, Form(equal_features=True)))
    assert report.names == [("constant scale",)]
    report = Report("p", "kernel", "sick", "", [("no scale",), ("scaled twice", "window")])
    kinds = [kind for kind, _ in report.lines()]
    assert kinds.count("fault") == kinds.count("look") == 3


def test_no_line_is_wider_than_a_terminal_but_for_addresses():
    for report in (doctor.examine(lambda q, k, v, keep: v.mean() + 0 * q[..., :1] + 0 * v[
            :, :, :1]), doctor.examine(sick({"axes": (QUERIES,), "masking": Masking("add")}))):
        lines = str(report).splitlines()
        assert len(lines) > 4
        assert max(len(line) for line in lines if "https://" not in line) <= 78
        assert all(line.startswith("  ") for line in lines[1:])


def test_the_report_is_html_without_script_and_escaped():
    report = doctor.examine(lambda q, k, v, keep: q)
    page = report._repr_html_()
    assert "&lt;lambda&gt; is unexplained" in page
    assert "color: inherit" in page
    assert "background" not in page
    assert "<lambda>" not in page
    assert "<script" not in page


@pytest.mark.parametrize(("program", "level", "called"), [
    (lambda q, k: q, "kernel",
     "At level kernel, a program is called with the arguments q, k, v, keep."),
    (lambda x, memory: x, "layer",
     "At level layer, a program is called with the arguments x, memory, weights, n_heads, keep."),
    (lambda q: (q, None), "decoding",
     "At level decoding, a program is called with the arguments q, k, v, cache.")])
def test_a_program_with_other_arguments_is_told_how_it_is_called(program, level, called):
    report = doctor.examine(program, level)
    assert report.verdict == "could not examine"
    assert report.headline.startswith("it raises TypeError: ")
    assert report.headline.endswith(called)


def test_another_type_error_is_told_nothing_about_arguments():
    def program(q, k, v, keep):
        raise TypeError("no")
    assert doctor.examine(program).headline == "it raises TypeError: no."


def test_where_to_look_stands_below_its_fault_in_html_as_in_the_text():
    one, two = (doctor.examine(sick(settings))._repr_html_() for settings in (
        {"scale": "none"}, {"scale": "none", "masking": Masking("invert")}))
    assert two.count('<li style="margin-left: 1.5em">') == 4   # look and case, of both
    assert "<strong>no scale</strong>: The scores are" in two
    assert "margin-left" not in one
    assert one.count("<strong>") == 1


def test_a_list_in_html_holds_nothing_but_items():
    class Attention(torch.nn.Module):
        def __init__(self, d_model, n_heads, curvature):
            super().__init__()

    page = doctor.examine(Attention)._repr_html_()
    assert "<pre>def build" in page
    inside = page.partition("<ul>")[2].partition("</ul>")[0]
    assert inside.count("<li") == inside.count("</li>") > 2
    assert not re.sub(r"<li.*?</li>", "", inside, flags=re.DOTALL)


def test_a_report_at_the_prompt_is_its_text():
    report = doctor.examine(sick({"scale": "none"}))
    assert repr(report) == str(report)
    assert repr(report).count("\n") >= 3


def test_the_report_is_data():
    report = doctor.examine(sick({"scale": "none"}))
    data = json.loads(json.dumps(report.to_dict()))
    assert data["names"] == [["no scale"]]
    assert data["verdict"] == "sick"
    assert data["level"] == "kernel"


@pytest.mark.parametrize(("options", "message"), [
    ({"level": "model"}, "level must be one of kernel, layer, decoding, got 'model'"),
    ({"level": "layer", "masks": "some"},
     "masks must be one of any, heads alike, padding, one for all, none, got 'some'"),
    ({"causal": "left"}, "causal must be one of False, True, top_left, bottom_right, got 'left'"),
    ({"fully_masked": "ones"},
     "fully_masked must be one of None, zeros, nan, average, unmasked, got 'ones'"),
    ({"masks": "one for all"}, "masks must be one of any, heads alike, padding, lengths, "
     "none, got 'one for all'")])
def test_options_that_do_not_exist_are_refused(options, message):
    with raises(ValueError, message):
        doctor.examine(reference.attention, **options)


@pytest.mark.parametrize(("level", "option", "message"), [
    (None, "n_heads", "n_heads is not an option of the level kernel, whose options are causal, "
                      "fully_masked, grouped, masks, parts, framework"),
    ("layer", "grouped", "grouped is not an option of the level layer, whose options are causal, "
                         "fully_masked, self_attention, masks, pre_norm, residual, post_norm, "
                         "batch_first, n_heads, call, roles, packed, parts, framework"),
    ("decoding", "masks", "masks is not an option of the level decoding, whose options are "
                          "grouped, parts, framework")])
def test_options_of_another_level_are_refused(level, option, message):
    with raises(TypeError, message):
        doctor.examine(reference.attention, level, **{option: "any"})


@pytest.mark.parametrize(("function", "level"), [
    (doctor.examine_kernel, "kernel"), (doctor.examine_layer, "layer"),
    (doctor.examine_decoder, "decoding")])
def test_each_level_has_a_function_which_examine_calls(function, level):
    def program(*args):
        return args[0][..., :1]
    assert function(program) == doctor.examine(program, level)
    assert function(program).level == level


@pytest.mark.parametrize(("program", "level"), [
    (reference.attention, "kernel"), (torch.nn.MultiheadAttention(12, 3), "layer"),
    (torch.nn.MultiheadAttention, "layer"), (partial(reference.attention), "kernel")])
def test_the_level_is_guessed_from_the_kind_of_program(program, level):
    report = doctor.examine(program)
    assert (report.level, report.verdict == "healthy") == (level, True)


def test_every_fault_says_what_where_and_which_chapter_teaches_it():
    pages = setup.COURSE / "chapters"
    for name, fault in faults.FAULTS.items():
        assert name == fault.name
        assert fault.sentence.endswith(".")
        assert fault.look
        assert [*pages.glob(f"*/{fault.chapter}.ipynb")], name
        assert fault.case.startswith("https://") or not fault.case


def test_what_is_told_is_what_the_program_answers_and_not_that_it_raises_elsewhere():
    def program(q, k, v, keep=None):
        if isinstance(q, np.ndarray) or q.dtype != torch.float32:
            raise TypeError("float32 tensors only")
        return v[0]

    assert _exam.choose(program, kernel_level.levels(Options()))[2].startswith(
        "returns shape")


def test_minus_100_is_named_though_float32_hardly_keeps_the_weights_it_leaves():
    def windowed(q, k, v, keep):
        scores = (q * q.shape[-1] ** -0.5) @ k.mT
        if keep is not None:
            scores = scores.masked_fill(~keep, -100.0)
        return scores.softmax(dim=-1, dtype=torch.float32).type_as(v) @ v
    report = doctor.examine(windowed)
    assert report.names == [("mask value too high",)]
    assert "-100" in report.details["mask value too high"]
