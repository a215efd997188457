"""ONNX judges us: attention, rotary, norm and softmax cases, counted, none skipped silently.

All cases go to the reference. A case is *applicable* to a taught program when it asks for nothing
that the program has no argument for: no bias, no scale of its own, no soft cap.
"""

import numpy as np
import onnx
import pytest
import torch
from onnx_adapter import attention_case, attributes, node_cases, rotary_case

from utils import checks, reference
from utils.attention import numpy as numpy_attention, positions, torch as torch_attention
from utils.models import norms

TOLERANCES = {"float32": 2e-6, "float16": 3e-3, "bfloat16": 2e-2}
ATTENTION = {name: attention_case(*case)
             for name, case in node_cases("Attention", "attention").items()}


@pytest.fixture
def report(capsys):
    """Return a function that compares outputs, case by case, and checks and prints the count."""
    worst = {}

    def compare(name, got, expected):
        got = checks.to_numpy(got)
        assert got.shape == expected.shape, name
        gap = checks.difference(got, expected)
        dtype = checks.dtype_name(expected)
        worst[name] = max(worst.get(name, 0.0), gap / TOLERANCES[dtype])

    def finish(title, count):
        assert len(worst) == count
        failed = {name: share for name, share in worst.items() if not share <= 1}
        assert not failed, failed
        with capsys.disabled():
            print(f"\nonnx {onnx.__version__}, {title}: {count} cases passed, "
                  f"largest difference {max(worst.values()):.0%} of the tolerance")

    compare.finish = finish
    return compare


def tensor(x):
    """Return a tensor of the same dtype; NumPy's bfloat16 is unknown to PyTorch."""
    if checks.dtype_name(x) == "bfloat16":
        return torch.as_tensor(x.astype(np.float32)).to(torch.bfloat16)
    return torch.as_tensor(x)


def applicable(dtypes):
    """Return {name: (q, k, v, keep, expected)} of the cases that the taught programs can take."""
    return {name: (case.arrays[0], *(reference.repeat_heads(x, case.arrays[0].shape[1])
                                     for x in case.arrays[1:]), case.keep, case.expected)
            for name, case in ATTENTION.items()
            if checks.dtype_name(case.arrays[0]) in dtypes
            and all(option is None for option in case.options.values())}


def test_onnx_is_the_version_whose_cases_are_counted():
    assert onnx.__version__ == "1.23.2"


def test_reference_passes_all_attention_cases(report):
    for name, case in ATTENTION.items():
        context, _ = reference.attention(*case.arrays, case.keep, **case.options)
        report(name, context, case.expected["Y"])
    report.finish("Attention, reference", 93)


@pytest.mark.parametrize(("stage", "count"), [(0, 3), (1, 2), (2, 7), (3, 6)])
def test_reference_passes_all_cases_that_show_their_scores(stage, count, report):
    for name, case in ATTENTION.items():
        if case.score_stage == stage and "qk_matmul_output" in case.expected:
            (q, k, v), options = case.arrays, dict(case.options)
            if stage == 3:
                got = reference.attention(q, k, v, case.keep, **options)[1]
            elif stage == 2:
                got = reference.attention_scores(q, k, case.keep, **options)
            else:
                options |= {"bias": None} | ({"softcap": None} if stage == 0 else {})
                got = reference.attention_scores(q, k, **options)
            report(name, got, case.expected["qk_matmul_output"])
    names = ("scaled", "soft-capped", "biased and masked", "after softmax")
    report.finish(f"Attention, reference, scores {names[stage]}", count)


def test_cached_keys_come_before_the_new_ones():
    cached = [case for case in ATTENTION.values() if "present_key" in case.expected]
    assert len(cached) == 21
    for case in cached:
        np.testing.assert_array_equal(case.arrays[1], case.expected["present_key"])
        np.testing.assert_array_equal(case.arrays[2], case.expected["present_value"])


def test_numpy_attention_passes_the_applicable_cases(report):
    for name, (q, k, v, keep, expected) in applicable({"float32", "float16"}).items():
        report(name, numpy_attention.attention(q, k, v, keep)[0], expected["Y"])
    report.finish("Attention, numpy_attention.attention", 37)


def test_torch_attention_passes_the_applicable_cases(report):
    for name, (*arrays, keep, expected) in applicable(TOLERANCES).items():
        context, weights = torch_attention.attention(*map(tensor, arrays), keep)
        report(name, context, expected["Y"])
        if ATTENTION[name].score_stage == 3:
            report(name, weights, expected["qk_matmul_output"])
    report.finish("Attention, torch_attention.attention", 39)


def test_fused_attention_passes_the_applicable_cases(report):
    for name, (*arrays, keep, expected) in applicable(TOLERANCES).items():
        report(name, torch_attention.fused_attention(*map(tensor, arrays), keep), expected["Y"])
    report.finish("Attention, torch_attention.fused_attention", 39)


def test_rotate_passes_all_rotary_cases(report):
    seen = set()
    for name, case in node_cases("RotaryEmbedding", "rotaryembedding").items():
        x, cos, sin, interleaved, expected = rotary_case(*case)
        report(name, positions.rotate(x, cos, sin, interleaved), expected)
        seen.add((interleaved, 2 * cos.shape[-1] < x.shape[-1]))
    report.finish("RotaryEmbedding, positions.rotate", 8)
    assert len(seen) == 4  # both pairings, all features and some


def normalised_axes(node, x):
    """Return the axes that ONNX normalises over: from ``axis`` to the last."""
    axis = attributes(node).get("axis", -1)
    return tuple(range(axis % x.ndim, x.ndim))


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_layer_norm_passes_all_cases(make, report):
    for name, (node, inputs, outputs) in node_cases(
            "LayerNormalization", "layernormalization").items():
        x, gain, bias = map(make, inputs.values())
        eps = attributes(node).get("epsilon", 1e-5)
        report(name, norms.layer_norm(x, gain, bias, eps, normalised_axes(node, x)), outputs["Y"])
    report.finish(f"LayerNormalization, {make.__module__}", 19)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_rms_norm_passes_all_cases(make, report):
    for name, (node, inputs, outputs) in node_cases(
            "RMSNormalization", "rmsnormalization").items():
        x, gain = map(make, inputs.values())
        eps = attributes(node).get("epsilon", 1e-5)
        report(name, norms.rms_norm(x, gain, eps, normalised_axes(node, x)), outputs["Y"])
    report.finish(f"RMSNormalization, {make.__module__}", 19)


def test_reference_softmax_passes_all_cases(report):
    for name, (node, inputs, outputs) in node_cases("Softmax", "softmax").items():
        report(name, reference.softmax(inputs["x"], **attributes(node)), outputs["y"])
    report.finish("Softmax, reference", 7)


def test_taught_softmax_passes_the_cases_along_the_last_axis(report):
    for name, (node, inputs, outputs) in node_cases("Softmax", "softmax").items():
        x = inputs["x"]
        if attributes(node).get("axis", -1) in (-1, x.ndim - 1):
            report(name, numpy_attention.softmax(x), outputs["y"])
            report(name, torch_attention.masked_softmax(torch.as_tensor(x)), outputs["y"])
    report.finish("Softmax, numpy_attention and torch_attention", 5)
