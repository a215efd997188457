"""A query that may attend to nothing gets zeros and a zero gradient, whatever its scores are."""

import numpy as np
import pytest
import torch

from utils import masks, numpy_attention, sizes, torch_attention

# Keys so large that a score overflows, and values of an ordinary size.
LARGE = {torch.float16: 3e4, torch.bfloat16: 1e38, torch.float32: 1e38, torch.float64: 1e308}
KEEP = masks.padding([sizes.N_K, 0], sizes.N_K)  # example 1 may attend to nothing
PROGRAMS = {"attention": lambda *inputs: torch_attention.attention(*inputs)[0],
            "fused_attention": torch_attention.fused_attention}


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
    context = numpy_attention.attention(q, k, v, KEEP)
    assert (context[1] == 0).all()
    assert np.isfinite(context).all()
