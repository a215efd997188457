"""Every mask argument is called alike, and the probe names what a program makes of a mask."""

from functools import partial

import numpy as np
import pytest
import torch

from utils import checks, frameworks, masks, reference
from utils.parity import mask_arguments
from utils.parity.mask_arguments import answer, sides

CALLS = mask_arguments.arguments()
BAND = masks.window(5, 7, 1, 1, "top_left")


def given(name):
    """Return sides that a program takes: BERT has as many queries as keys."""
    return sides(n_q=7 if name == "transformers" else 5)


def test_values_are_unit_vectors_so_the_context_is_the_weights():
    q, k, v = sides(batch=3, n_q=4, n_k=6)
    assert (q.shape, k.shape, v.shape) == ((3, 3, 4, 8), (3, 3, 6, 8), (3, 3, 6, 8))
    assert {side.dtype for side in (q, k, v)} == {np.dtype("float32")}
    context, weights = reference.attention(q, k, v)
    np.testing.assert_allclose(context[..., :6], weights, atol=1e-12)
    assert (context[..., 6:] == 0).all()


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_without_a_mask_every_program_is_the_reference(name, asked):
    out, weights = CALLS[name](*given(name), asked=asked)
    context, wanted = reference.attention(*given(name))
    assert checks.difference(out, context) < 1e-5
    if weights is not None:
        weights = checks.to_numpy(weights)
        wanted = wanted.mean(axis=1) if weights.ndim == 3 else wanted
        assert asked
        assert checks.difference(weights, wanted) < 1e-5
    else:
        assert not asked or name in ("SDPA", "JAX", "MLX")


@pytest.mark.parametrize("where", ["src", "tgt", "memory"])
def test_a_layer_gets_its_mask_at_the_argument_that_is_named(where):
    call = partial(mask_arguments.layer, where=f"{where}_mask")
    assert answer(call, ~BAND, {"drop": {"keep": BAND}}) == "drop"
    padding = masks.padding([7, 4], 7)
    call = partial(mask_arguments.layer, where=f"{where}_key_padding_mask")
    assert answer(call, masks.to_key_padding(padding), {"drop": {"keep": padding}}) == "drop"


def test_a_layer_keeps_no_hooks_after_an_error():
    with pytest.raises(RuntimeError):
        mask_arguments.layer(*sides(), BAND[:3])
    out, _ = mask_arguments.layer(*sides())
    assert checks.difference(out, reference.attention(*sides())[0]) < 1e-5


@pytest.mark.skipif(not frameworks.transformers(), reason="needs transformers")
@pytest.mark.parametrize("eager", [False, True])
def test_a_bert_with_a_cache_has_the_first_keys_in_it(eager):
    call = partial(mask_arguments.bert, decoder=True, eager=eager)
    readings = {corner: {"keep": masks.causal(2, 5, corner)}
                for corner in ("top_left", "bottom_right")}
    assert answer(call, None, readings, sides(n_q=2, n_k=5)) == "bottom_right"


def test_an_answer_is_a_reading_an_error_or_something_else():
    readings = {"attend": {"keep": BAND}, "drop": {"keep": ~BAND}}
    assert answer(mask_arguments.sdpa, BAND, readings) == "attend"
    assert answer(mask_arguments.mha, BAND, readings) == "drop"
    assert answer(mask_arguments.sdpa, BAND[:, :3], readings) == "error"
    assert answer(mask_arguments.sdpa, BAND.astype(np.float32), readings) == "something else"
    assert answer(mask_arguments.keras, BAND[:, :3], readings) == "error"


def test_an_error_that_no_mask_causes_is_raised():
    def broken(q, k, v, mask):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answer(broken, BAND, {})


def test_calls_leave_the_generator_as_it_was():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    for name, call in CALLS.items():
        call(*given(name))
    assert torch.equal(before, torch.get_rng_state())


def test_a_table_has_a_row_for_each_key():
    shown = mask_arguments.show("row", {"a": {"x": "1", "y": "2"}, "b": {"x": "3", "y": "4"}})
    assert shown.data == "| row | x | y |\n| --- | --- | --- |\n| a | 1 | 2 |\n| b | 3 | 4 |"
