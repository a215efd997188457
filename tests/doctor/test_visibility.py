"""A probe for dependence passes what is healthy, and names the pair that is not."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from utils import masks, reference, sizes
from utils.doctor.probes import visibility
from utils.doctor.probes.case import causal, kernel_case, layer_case, padded
from utils.doctor.probes.leaks import leaks
from utils.models import norms

WEIGHTS = sizes.weights(d_in=12, d_out=12)
LENGTHS = [7, 3]
KERNEL, LAYER, SELF = kernel_case(), layer_case(), layer_case(self_attention=True)
PADDED, PADDED_LAYER, PADDED_SELF = (padded(case, LENGTHS) for case in (KERNEL, LAYER, SELF))


def attention(q, k, v, keep):
    return reference.attention(q, k, v, keep)


def layer(x, memory, keep):
    return reference.multi_head_attention(x, memory, WEIGHTS, 3, keep)[0]


def uniform(q, k, v, keep):
    """Average all values, whoever asks and whatever is masked."""
    return np.broadcast_to(v.mean(axis=-2, keepdims=True), (*q.shape[:3], v.shape[-1]))


HEALTHY = [(attention, PADDED), (layer, PADDED_LAYER), (layer, PADDED_SELF),
           (attention, causal(KERNEL, "bottom_right")), (layer, causal(SELF))]


@pytest.mark.parametrize("number", range(3))
def test_an_example_may_be_fully_masked(number):
    assert visibility.fully_masked_row(*HEALTHY[number]).ok


# --- which outputs depend on which tokens

def test_outputs_depend_on_the_tokens_that_the_mask_allows():
    case = causal(KERNEL, "top_left")
    found = visibility.depends(attention, case)
    assert np.array_equal(found, np.broadcast_to(masks.causal(5, 7, "top_left"), (2, 3, 5, 7)))
    assert np.array_equal(visibility.depends(layer, LAYER), np.ones((2, 5, 7), bool))


def test_one_dimension_is_enough_for_a_dependence():
    def program(x, memory, keep):
        return np.pad(layer(x, memory, keep)[..., :1], [(0, 0), (0, 0), (0, 5)])
    assert visibility.depends(program, LAYER).all()


def test_differences_up_to_the_threshold_are_no_dependence():
    assert visibility.depends(attention, KERNEL).all()
    assert not visibility.depends(attention, KERNEL, 10).any()


def test_a_dependence_on_the_key_or_on_the_value_alone_is_found():
    def value_of_key_zero(q, k, v, keep):
        return attention(q, k, np.broadcast_to(v[..., :1, :], v.shape), keep)[0] + k.sum()
    assert visibility.depends(value_of_key_zero, KERNEL).all()
    assert visibility.depends(uniform, KERNEL).all()


def test_in_self_attention_an_output_may_depend_on_its_own_token():
    never = np.zeros((2, 7, 7), bool)
    assert visibility.causality(lambda x, memory, keep: x, SELF._replace(allowed=never)).ok
    found = visibility.causality(lambda x, memory, keep: x[:, ::-1], SELF._replace(allowed=never))
    assert (found.ok, found.measured) == (False, 2 * 6)


def test_a_leak_of_one_head_is_enough():
    def program(q, k, v, keep):
        keep = np.broadcast_to(keep, (2, 3, 5, 7)).copy()
        keep[1, 2, 3, 6] = True
        return attention(q, k, v, keep)
    found = visibility.causality(program, causal(KERNEL, "top_left"))
    assert (found.measured, found.where) == (1, "example 1, query 3, key 6")


def test_the_first_leak_is_named():
    def program(x, memory, keep):
        keep = np.broadcast_to(keep, (2, 1, 7, 7)).copy()
        keep[1, 0, 2, 5] = keep[1, 0, 4, 6] = True
        return layer(x, memory, keep)
    found = visibility.causality(program, causal(SELF))
    assert found == ("causality", False, 2, 0, "example 1, query 2, key 5",
                     "Output 2 depends on masked token 5 (pairs like this: 2).")


def test_normalising_over_time_reads_the_future():
    found = visibility.causality(lambda x, memory, keep: layer(*2 * (norms.layer_norm(x, axis=1),),
                                                               keep), causal(SELF))
    assert (found.ok, found.measured) == (False, 2 * 21)


def test_the_first_head_without_a_dependence_is_named():
    def program(q, k, v, keep):
        keep = np.ones((2, 3, 5, 7), bool)
        keep[1, 0, 3, 4] = keep[1, 2, 1, 2] = False
        return attention(q, k, v, keep)
    found = visibility.dependence(program, KERNEL)
    assert found == ("dependence", False, 2, 0, "example 1, query 3, key 4",
                     "Output 3 does not depend on token 4, to which its query may attend "
                     "(pairs like this: 2).")


def test_masked_tokens_need_no_dependence():
    assert visibility.dependence(attention, PADDED).ok
    assert visibility.causality(uniform, KERNEL).ok


# --- padding

@pytest.mark.parametrize(("program", "case"), [
    (lambda q, k, v, keep: attention(q, k, v, None), PADDED),
    (lambda q, k, v, keep: attention(q, k, v, ~keep), PADDED),
    (lambda x, memory, keep: layer(x, memory, None), PADDED_LAYER),
    (lambda x, memory, keep: layer(x, memory, None), PADDED_SELF)])
def test_a_mask_without_effect_lets_the_padding_through(program, case):
    found = visibility.padding(program, case)
    assert found.ok is False
    assert found.where.startswith("example 1")
    assert found.measured > 1


def test_a_leak_of_one_part_in_a_hundred_million_is_seen():
    def program(q, k, v, keep):
        _, weights = attention(q, k, v, keep)
        return (weights + 1e-8 * ~keep) @ v
    assert visibility.padding(program, PADDED).ok is False


def test_noise_in_the_keys_is_enough():
    def program(q, k, v, keep):
        return attention(q, k, v, keep)[0] * (1 + 0.1 * np.tanh(k.sum(axis=-2, keepdims=True)))[
            ..., :1]
    assert visibility.padding(program, PADDED).ok is False


@pytest.mark.parametrize("constant", [-1.0, -30.0, -100.0])
def test_a_small_constant_is_no_mask_beside_large_scores(constant):
    def program(q, k, v, keep):
        scores = reference.attention_scores(q, k)
        return reference.softmax(np.where(keep, scores, constant)) @ v
    assert visibility.padding(program, PADDED).ok is False


def test_a_layer_gets_large_scores_too():
    def program(x, memory, keep):
        q, k, v = reference.project(x, memory, WEIGHTS, 3)
        scores = np.where(keep, reference.attention_scores(q, k), -40.0)
        return reference.merge_heads(reference.softmax(scores) @ v)
    tame = PADDED_LAYER._replace(tolerance=1e-6)
    assert visibility.padding(program, tame).ok is False


def test_scaled_cases_differ_in_their_scores_alone():
    (plain, size), (large, _), (low, _) = visibility.scaled_cases(PADDED)
    assert plain is PADDED
    assert size == 1e6
    assert np.array_equal(large.queries, 30 * PADDED.queries)
    assert (reference.attention_scores(low.queries, low.sources[0]) < 0).all()
    assert low.sources[1] is large.sources[1] is PADDED.sources[1]
    for case in (PADDED_LAYER, PADDED_SELF):
        (plain, quiet), (large, low) = visibility.scaled_cases(case)
        assert plain is case
        assert (quiet, low) == (100, 1)
        assert np.array_equal(large.queries, 30 * case.queries)


def test_outputs_of_padding_do_not_count():
    assert visibility.padding(lambda x, memory, keep: x, PADDED_SELF).ok


def test_noise_is_only_in_masked_tokens():
    hidden = np.arange(7) >= np.array([7, 3])[:, None]
    k, v = visibility.with_noise(KERNEL.sources, hidden, 1e6)
    for new, old in zip((k, v), KERNEL.sources, strict=True):
        changed = (new != old).any(axis=-1)
        assert np.array_equal(changed, np.broadcast_to(hidden[:, None], (2, 3, 7)))
    assert v[1, :, 3:].std() == pytest.approx(1e6, rel=0.2)
    assert k[1, :, 3:].std() == pytest.approx(1, rel=0.2)
    memory, = visibility.with_noise(LAYER.sources, hidden, 100)
    assert memory[1, 3:].std() == pytest.approx(100, rel=0.3)


@pytest.mark.parametrize("mask", [-1e4, -1e9])
def test_a_mask_that_is_added_passes_if_it_is_large_enough(mask):
    def add(q, k, v, keep):
        return reference.attention(q, k, v, bias=np.where(keep, 0.0, mask))

    def program(x, memory, keep):
        return reference.merge_heads(add(*reference.project(x, memory, WEIGHTS, 3), keep)[0])
    for seed in range(5):
        assert visibility.padding(add, padded(kernel_case(seed), LENGTHS)).ok
        assert visibility.padding(program, padded(layer_case(seed), LENGTHS)).ok


# --- fully masked rows

def test_nan_in_a_fully_masked_row_is_found():
    def plain(q, k, v, keep):
        scores = reference.attention_scores(q, k, keep)
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return exps / exps.sum(axis=-1, keepdims=True) @ v
    found = visibility.fully_masked_row(plain, PADDED)
    assert (found.ok, found.where) == (False, "example 0")
    assert found.sentence == "A fully masked row gets NaN or infinity."


def test_a_fully_masked_example_that_changes_another_is_found():
    def program(q, k, v, keep):
        context, _ = attention(q, k, v, keep)
        return context + (~keep.any(axis=-1)).sum()
    found = visibility.fully_masked_row(program, PADDED)
    assert (found.ok, found.measured > 0.1) == (False, True)
    assert found.sentence.startswith("A fully masked example changes another one: ")
    assert found.where.startswith("example 1")


# --- with few keys and no mask, SDPA on a CPU turns a NaN in a query into zeros

def sdpa(q, k, v, keep, leak=True):
    """Give each example's unmasked keys to SDPA; the mean of all keys is added to q if leak."""
    q = q + k.mean(axis=-2, keepdims=True) if leak else q
    q, k, v, keep = (torch.tensor(x) for x in (q, k, v, keep))
    v = v[..., :q.shape[-1]]  # with another size, with three axes or a mask, another kernel runs
    return torch.cat([F.scaled_dot_product_attention(
        q[b:b + 1], k[b:b + 1, :, seen], v[b:b + 1, :, seen])
        for b, seen in enumerate(keep[:, 0, 0])]).numpy()


@pytest.mark.parametrize("planted", [None, np.nan, 1e6])
def test_padding_that_leaks_into_the_queries_of_sdpa_is_found(planted, monkeypatch):
    if planted is not None:
        monkeypatch.setattr(visibility, "noise", lambda x: np.full_like(x, planted))
    assert visibility.padding(lambda *args: sdpa(*args, leak=False), PADDED).ok
    assert not visibility.padding(sdpa, PADDED).ok


def test_a_token_that_leaks_into_the_queries_of_sdpa_is_found():
    def program(x, leak=True):
        q = x + x.mean(dim=1, keepdim=True) if leak else x
        return torch.cat([F.scaled_dot_product_attention(
            q[:, None, i:i + 1], x[:, None, :i + 1], x[:, None, :i + 1])
            for i in range(5)], dim=2)[:, 0]

    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    assert leaks(lambda x: program(x, leak=False), x) == []
    found = leaks(program, x)  # the one key of query 0 gets all the weight, whatever is asked
    assert found == [[i, j] for i in range(1, 5) for j in range(i + 1, 5)]
