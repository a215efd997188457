"""No healthy program is called sick, whatever its sizes, dtype, masks or layout."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

from utils import doctor, frameworks, reference
from utils.attention import torch as torch_attention

HEALTHY = ("healthy",)
FEW = settings(max_examples=6)  # each is a whole examination
SIZES = {"heads": st.integers(1, 5), "d_head": st.integers(1, 6)}


@FEW
@given(**SIZES, bias=st.booleans(), first=st.booleans(), alone=st.booleans(),
       masks=st.sampled_from(["any", "heads alike", "padding", "none"]))
def test_torchs_layer(heads, d_head, bias, first, alone, masks):
    module = torch.nn.MultiheadAttention(heads * d_head, heads, dropout=0.2, bias=bias,
                                         batch_first=first)
    report = doctor.examine(module, "layer", self_attention=alone, masks=masks)
    assert report.verdict in HEALTHY, str(report)


@settings(max_examples=3)
@given(**SIZES, bias=st.booleans(), masks=st.sampled_from(["any", "padding", "none"]))
def test_keras_layer(heads, d_head, bias, masks):
    layer = frameworks.tensorflow().keras.layers.MultiHeadAttention(heads, d_head, use_bias=bias)
    report = doctor.examine(layer, "layer", masks=masks)
    assert report.verdict in HEALTHY, str(report)


@FEW
@given(**SIZES, alone=st.booleans(), masks=st.sampled_from(["any", "padding", "none"]),
       dtype=st.sampled_from([torch.float32, torch.float64]), named=st.booleans())
def test_the_courses_module_whether_its_parts_are_named_or_not(heads, d_head, alone, masks, dtype,
                                                               named):
    module = torch_attention.MultiHeadAttention(heads * d_head, heads).to(dtype).train()
    roles = {"packed": "W_qkv", "roles": {"o": "W_o"}} if named else {}
    report = doctor.examine(
        module, "layer", n_heads=heads, masks=masks, self_attention=alone, **roles,
        call=lambda m, x, memory, keep: m(x, memory, keep))
    assert report.verdict in HEALTHY, str(report)


def kernel(dtype, causal):
    """Return a kernel of this dtype, with a causal mask of its own or not."""
    def program(q, k, v, keep=None):
        q, k, v = (x.astype(dtype) for x in (q, k, v))
        mask = np.tri(q.shape[2], k.shape[2], dtype=bool) if causal else np.True_
        mask = mask if keep is None else mask & keep
        return reference.attention(q, k, v, mask)[0].astype(dtype)
    return program


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("causal", [False, "top_left"])
@pytest.mark.parametrize("masks", ["any", "none"])
def test_a_kernel_of_any_precision(dtype, causal, masks):
    report = doctor.examine(kernel(dtype, causal), causal=causal, masks=masks)
    assert report.verdict in HEALTHY, str(report)


def test_sdpa_with_and_without_masks_and_causal():
    for options, extra in (({}, {}), ({"masks": "none"}, {}),
                           ({"masks": "none", "causal": True}, {"is_causal": True})):
        report = doctor.examine(
            lambda q, k, v, keep, more=extra: F.scaled_dot_product_attention(q, k, v, keep, **more),
            **options)
        assert (report.verdict, report.notes) == ("healthy", [])
