"""Each probe passes what is healthy, and sees the fault that it is for and says where."""

import numpy as np
import pytest

from utils import reference, sizes
from utils.doctor.probes import invariants, visibility
from utils.doctor.probes.case import causal, kernel_case, layer_case, padded

WEIGHTS = sizes.weights(d_in=12, d_out=12)
LENGTHS = [7, 3]
KERNEL, LAYER, SELF = kernel_case(), layer_case(), layer_case(self_attention=True)
PADDED, PADDED_LAYER, PADDED_SELF = (padded(case, LENGTHS) for case in (KERNEL, LAYER, SELF))


def attention(q, k, v, keep):
    return reference.attention(q, k, v, keep)


def layer(x, memory, keep):
    return reference.multi_head_attention(x, memory, WEIGHTS, 3, keep)[0]


HEALTHY = [(attention, PADDED), (layer, PADDED_LAYER), (layer, PADDED_SELF),
           (attention, causal(KERNEL, "bottom_right")), (layer, causal(SELF))]
PROBES = [invariants.shape, invariants.determinism, invariants.untouched,
          invariants.batch_independence, invariants.finiteness,
          visibility.causality, visibility.dependence, visibility.padding]


@pytest.mark.parametrize("number", range(len(HEALTHY)))
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_what_is_healthy_passes(probe, number):
    found = probe(*HEALTHY[number])
    assert found.ok is True
    assert found.measured <= found.bound
    assert found.probe == probe.__name__.replace("_", " ")


@pytest.mark.parametrize("number", range(3))
def test_healthy_programs_are_equivariant(number):
    assert invariants.equivariance(*HEALTHY[number]).ok


def test_noise_is_normal_the_same_for_the_same_seed_and_another_for_another():
    x = np.zeros((50, 40))
    assert invariants.noise(x).std() == pytest.approx(1, abs=0.05)
    assert np.array_equal(invariants.noise(x), invariants.noise(x))
    assert not np.isclose(invariants.noise(x), invariants.noise(x, 1)).all()


def test_a_transposed_answer_has_another_shape():
    found = invariants.shape(lambda q, k, v, keep: q.swapaxes(1, 2), KERNEL)
    assert found.ok is False
    assert found.sentence == (
        "The output does not have one row for each query: for queries (2, 3, 5, 4), expected an "
        "output (2, 3, 5) and one more axis, got (2, 5, 3, 4).")


def test_dropout_makes_identical_calls_differ():
    rng = np.random.default_rng(0)
    found = invariants.determinism(lambda x, memory, keep: layer(x, memory, keep)
                                   * (rng.random(12) < 0.9), LAYER)
    assert found.ok is False
    assert found.sentence.endswith("is dropout still on?")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_writing_into_an_argument_is_named(number):
    def program(*args):
        args[number - 1][1] *= 0.5
        return attention(*args)
    found = invariants.untouched(program, KERNEL)
    assert (found.ok, found.measured, found.where) == (False, 1, f"argument {number}")
    assert found.sentence == f"It writes into its input: argument {number} has changed."


def test_writing_into_the_mask_is_named():
    def program(q, k, v, keep):
        keep[:] = True
        return q
    assert invariants.untouched(program, PADDED).where == "argument 4"


# --- order, examples, queries

def test_a_bias_for_nearness_is_not_equivariant():
    def program(q, k, v, keep):
        return reference.attention(q, k, v, keep, bias=np.tri(q.shape[2], k.shape[2]))
    found = invariants.equivariance(program, KERNEL)
    assert found.ok is False
    assert "Shuffled tokens give another output" in found.sentence


def test_a_torn_split_is_not_equivariant():
    def torn(x, memory, keep):
        q, k, v = (side.reshape(2, 3, -1, 4) for side in (x, memory, memory))
        return reference.merge_heads(attention(q, k, v, None)[0])
    assert invariants.equivariance(torn, LAYER).ok is False
    assert invariants.equivariance(torn, SELF).ok is False


def test_queries_that_are_shuffled_get_their_own_answers():
    def first_query_only(q, k, v, keep):
        return np.broadcast_to(attention(q, k, v, keep)[0][:, :, :1], (2, 3, 5, 8))
    assert invariants.equivariance(first_query_only, KERNEL).ok is False


def test_masks_are_shuffled_with_the_tokens():
    rng = np.random.default_rng(0)
    keep = rng.random((2, 1, 5, 7)) < 0.6
    case = KERNEL.with_mask(keep, keep[:, 0])
    assert invariants.equivariance(attention, case).ok
    keep = rng.random((2, 1, 7, 7)) < 0.6
    assert invariants.equivariance(layer, SELF.with_mask(keep, keep[:, 0])).ok


def test_a_fully_masked_row_may_depend_on_its_position():
    def program(q, k, v, keep):
        empty = ~keep.any(axis=-1)[..., None]
        return np.where(empty, np.arange(5)[:, None], attention(q, k, v, keep)[0])
    allowed = np.ones((2, 5, 7), bool)
    allowed[:, 1] = False
    assert invariants.equivariance(program, KERNEL.with_mask(allowed[:, None], allowed)).ok


def test_outputs_do_not_depend_on_other_examples():
    def softmax_over_batch(q, k, v, keep):
        return reference.softmax(reference.attention_scores(q, k), axis=0) @ v
    found = invariants.batch_independence(softmax_over_batch, KERNEL)
    assert found.ok is False
    assert "alone" in found.sentence
    assert not invariants.batch_independence(
        lambda x, memory, keep: layer(x, memory[::-1], keep), LAYER).ok


def test_each_example_keeps_its_own_mask():
    own = np.arange(7) < np.array([7, 3])[:, None]
    assert invariants.batch_independence(attention, PADDED).ok
    assert not invariants.batch_independence(
        lambda q, k, v, keep: attention(q, k, v, keep[:1]), PADDED).ok
    for keep in (own[1:, None, None], np.tri(5, 7, 2, dtype=bool)):
        shared = KERNEL.with_mask(keep, keep[0] if keep.ndim == 4 else keep)
        assert invariants.batch_independence(attention, shared).ok


def test_outputs_do_not_depend_on_other_queries():
    def over_queries(q, k, v, keep):
        return reference.softmax(reference.attention_scores(q, k), axis=-2) @ v
    found = invariants.query_independence(over_queries, KERNEL)
    assert found.ok is False
    assert "another query" in found.sentence
    assert invariants.query_independence(attention, PADDED).ok
    assert invariants.query_independence(layer, PADDED_LAYER).ok


# --- numbers

def test_softmax_without_its_shift_overflows():
    def naive(q, k, v, keep):
        exps = np.exp(reference.attention_scores(q, k))
        return exps / exps.sum(axis=-1, keepdims=True) @ v
    found = invariants.finiteness(naive, KERNEL)
    assert found.ok is False
    assert found.measured > 0
    assert invariants.shape(naive, KERNEL).ok
