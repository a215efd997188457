"""A query that may attend to nothing gets zeros and a zero gradient, whatever its scores are."""

import numpy as np
import pytest
import torch

from utils import masks, reference, sizes
from utils.attention import (
    numpy as numpy_attention,
    tensorflow as tf_attention,
    torch as torch_attention,
)
from utils.attention.decoder import multi_head_attention
from utils.attention.einsum import MultiHeadAttentionNew
from utils.attention.heads import merge_heads, split_heads
from utils.attention.sequence_first import MultiHeadAttention

# Keys so large that a score overflows, and values of an ordinary size.
LARGE = {torch.float16: 3e4, torch.bfloat16: 1e38, torch.float32: 1e38, torch.float64: 1e308}
KEEP = masks.padding([sizes.N_K, 0], sizes.N_K)  # example 1 may attend to nothing


def decoder(q, k, v, keep):
    """Run the function of chapter `decoder_mask` with projections that change nothing."""
    nothing = [torch.nn.Identity()] * 4
    return split_heads(multi_head_attention(*map(merge_heads, (q, k, v)), *nothing, 3, keep), 3)


def einsum(q, k, v, keep):
    """Run the module of chapter `einsum` with projections that change nothing."""
    mha = MultiHeadAttentionNew(3, 12, 4, 4, dropout=0.0, residual=False, layer_norm=False)
    for layer in (mha.w_qs, mha.w_ks, mha.w_vs, mha.fc):
        torch.nn.init.eye_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    output, _ = mha.to(q.dtype)(*map(merge_heads, (q, k, v)), ~keep[:, 0])
    return split_heads(output, 3)


def sequence_first(q, k, v, keep):
    """Run the module of chapter `sequence_first` with projections that change nothing."""
    mha = MultiHeadAttention(3, 12, dropout_prob=0.0)
    for layer in (mha.query.linear, mha.key.linear, mha.value.linear, mha.output):
        torch.nn.init.eye_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    query, key, value = (merge_heads(side).transpose(0, 1) for side in (q, k, v))
    out = mha.to(q.dtype)(query=query, key=key, value=value, mask=keep[:, 0].transpose(1, 2, 0))
    return split_heads(out.transpose(0, 1), 3)


PROGRAMS = {"attention": lambda *inputs: torch_attention.attention(*inputs)[0],
            "fused_attention": torch_attention.fused_attention, "decoder": decoder,
            "einsum": einsum, "sequence_first": sequence_first}


@pytest.mark.parametrize("dtype", LARGE, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_scores_that_overflow_in_an_empty_row_spoil_neither_output_nor_gradient(program, dtype):
    q, k, v = (torch.as_tensor(array).to(dtype) for array in sizes.qkv(d_v=sizes.D_HEAD))
    q, k[1] = 10 * q, LARGE[dtype]
    assert (q[1] @ k[1].mT).isinf().any()
    inputs = [side.requires_grad_() for side in (q, k, v)]
    context = program(*inputs, KEEP)
    gradients = torch.autograd.grad(context, inputs, torch.randn_like(context))
    assert (context[1] == 0).all()
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert (gradient[1] == 0).all()
        assert (gradient[0] != 0).any()


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_scores_that_overflow_in_an_empty_row_do_not_spoil_the_numpy_program():
    q, k, v = sizes.qkv()
    q, k[1] = 10 * q, 1e308
    for result in numpy_attention.attention(q, k, v, KEEP):
        assert (result[1] == 0).all()
        assert np.isfinite(result).all()


@pytest.mark.parametrize("dtype", LARGE, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_scores_that_overflow_in_an_empty_row_do_not_spoil_the_tensorflow_program(dtype):
    tf, dtype, large = tf_attention.tf, str(dtype).removeprefix("torch."), LARGE[dtype]
    q, k, v = (array[:, 0] for array in sizes.qkv())
    q, k[1] = 10 * q, large
    inputs = [tf.constant(side, dtype) for side in (q, k, v)]
    layer = tf_attention.DotProductAttention(0.0, dtype=dtype)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        context = layer(*inputs, np.array([sizes.N_K, 0]))
    assert not np.isfinite(reference.float64(inputs[0][1] @ tf.transpose(inputs[1][1]))).all()
    assert not reference.float64(context[1]).any()
    for gradient in map(reference.float64, tape.gradient(context, inputs)):
        assert np.isfinite(gradient).all()
        assert not gradient[1].any()
        assert gradient[0].all()
