"""Each probe of a kernel passes what is healthy, and sees the fault that it is for."""

import numpy as np
import pytest

from utils import masks, reference
from utils.doctor.probes import kernel as kernel_probes
from utils.doctor.probes.case import causal, kernel_case, padded

KERNEL = kernel_case()
PADDED = padded(KERNEL, [7, 3])
GROUPED = padded(kernel_case(grouped=True), [7, 3])
CAUSAL = causal(KERNEL, "top_left", itself=True)
PROBES = [kernel_probes.row_sums, kernel_probes.head_independence, kernel_probes.weights_match,
          kernel_probes.variance]


def attention(q, k, v, keep):
    return reference.attention(q, k, v, keep)


def causal_attention(q, k, v, keep):
    return attention(q, k, v, masks.causal(q.shape[2], k.shape[2], "top_left"))


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
@pytest.mark.parametrize(("program", "case"), [
    (attention, KERNEL), (attention, PADDED), (attention, GROUPED), (causal_attention, CAUSAL)],
    ids=["plain", "padded", "grouped", "causal"])
def test_what_is_healthy_passes(probe, program, case):
    found = probe(program, case)
    assert found.ok is True
    assert found.probe == probe.__name__.replace("_", " ")


def test_a_fully_masked_row_does_not_count_for_the_sums_or_a_head_alone():
    allowed = PADDED.allowed & (np.arange(5) != 1)[:, None]
    case = PADDED.with_mask(allowed[:, None], allowed)
    for probe in PROBES[:2]:
        assert probe(lambda q, k, v, keep: np.where(
            keep.any(axis=-1)[..., None], attention(q, k, v, keep)[0], np.nan), case).ok


@pytest.mark.parametrize("axis", [-2, 1, 0], ids=["queries", "heads", "batch"])
def test_softmax_over_another_axis_does_not_sum_to_one(axis):
    def program(q, k, v, keep):
        return reference.softmax(reference.attention_scores(q, k), axis=axis) @ v
    found = kernel_probes.row_sums(program, KERNEL)
    assert found.ok is False
    assert found.sentence.startswith("The weights of a query sum to ")


def test_a_sum_that_is_wrong_in_one_row_is_named():
    def program(q, k, v, keep):
        context, _ = attention(q, k, v, keep)
        context[1, 2, 3] *= 0.75
        return context
    found = kernel_probes.row_sums(program, KERNEL)
    assert found == ("row sums", False, pytest.approx(0.25), 1e-9, "example 1, head 2, query 3",
                     "The weights of a query sum to 0.75; expected 1 (example 1, head 2, query 3).")


def test_heads_that_share_a_softmax_are_not_alone():
    def program(q, k, v, keep):
        scores = reference.attention_scores(q, k)
        flat = reference.softmax(scores.swapaxes(1, 2).reshape(2, 5, -1))
        return flat.reshape(2, 5, q.shape[1], 7).swapaxes(1, 2) @ v
    assert kernel_probes.head_independence(program, KERNEL).ok is False


def test_tiled_heads_are_found_by_asking_a_group_alone():
    def tiled(q, k, v, keep):
        times = q.shape[1] // k.shape[1]
        return attention(q, np.tile(k, (1, times, 1, 1)), np.tile(v, (1, times, 1, 1)), keep)
    found = kernel_probes.head_independence(tiled, GROUPED)
    assert found.ok is False
    assert found.sentence.startswith("Beside other heads, the output of a head is ")
    assert kernel_probes.row_sums(tiled, GROUPED).ok


# --- returned weights

def test_no_weights_are_no_fault():
    for program in (lambda *args: attention(*args)[0], lambda *args: (attention(*args)[0], None)):
        found = kernel_probes.weights_match(program, KERNEL)
        assert (found.ok, found.sentence) == (True, "It returns no weights.")


def test_weights_that_were_not_used_are_found():
    def after_dropout(q, k, v, keep):
        context, weights = attention(q, k, v, keep)
        return context, weights * (weights < 0.5) * 2
    assert kernel_probes.weights_match(after_dropout, KERNEL).ok is False


def test_weights_in_another_shape_are_found():
    found = kernel_probes.weights_match(
        lambda *args: (attention(*args)[0], np.ones((2, 3, 7, 5))), KERNEL)
    assert (found.ok, found.sentence) == (
        False, "The weights are (2, 3, 7, 5); expected (b, h, 5, 7), one for each query and key.")


# --- the scale

@pytest.mark.parametrize(("scale", "seen"), [
    (lambda d: 1.0, "4 at d = 4, 16 at d = 16, 64 at d = 64"),
    (lambda d: 1 / d, "0.25 at d = 4, 0.0625 at d = 16, 0.0156 at d = 64"),
    (lambda d: (3 * d) ** -0.5, "0.333 at d = 4, 0.333 at d = 16, 0.333 at d = 64"),
    (lambda d: 0.25, "0.25 at d = 4, 1 at d = 16, 4 at d = 64"),
    (lambda d: d ** -0.5 * 1.001, "1 at d = 4, 1 at d = 16, 1 at d = 64")],
    ids=["none", "twice", "d_model", "constant", "one in a thousand"])
def test_another_scale_is_measured_at_each_width(scale, seen):
    def program(q, k, v, keep):
        return reference.attention(q, k, v, keep, scale=scale(q.shape[-1]))
    found = kernel_probes.variance(program, KERNEL)
    assert (found.ok, found.bound) == (False, 1e-3)
    assert found.sentence == (
        f"The scores have variance {seen}; expected 1: is the scale 1 / sqrt(d)?")


def test_the_worst_ratio_is_seen():
    def program(scale):
        return lambda q, k, v, keep: reference.attention(q, k, v, keep, scale=scale)
    assert kernel_probes.variance(program(0.2), KERNEL).measured == pytest.approx(0.16)
    assert kernel_probes.variance(program(0.125), CAUSAL).ok is False
    assert kernel_probes.variance(program(1.0), GROUPED).measured == pytest.approx(64)


def test_spread_uses_the_allowed_scores_of_causal_programs():
    for d in (4, 16):
        assert kernel_probes.spread(causal_attention, CAUSAL, d) == pytest.approx(1)
        assert kernel_probes.spread(attention, KERNEL, d) == pytest.approx(1)


def test_weights_of_zero_have_no_spread_to_measure():
    found = kernel_probes.variance(causal_attention, KERNEL)
    assert found.ok is False
    assert not np.isfinite(found.measured)


def test_no_spread_is_worse_than_a_wrong_one():
    def program(q, k, v, keep):
        keep = np.arange(k.shape[2]) > (0 if k.shape[2] == 64 else -1)
        return reference.attention(q, k, v, keep, scale=1.0)
    assert not np.isfinite(kernel_probes.variance(program, KERNEL).measured)


def test_within_takes_each_query_by_itself():
    scores = np.array([[1.0, 3.0, 50.0], [10.0, 10.0, 16.0]])
    assert kernel_probes.within(scores, np.array([[1, 1, 0], [1, 1, 1]], bool)) == pytest.approx(
        (1 + 1 + 4 + 4 + 16) / 5)


# --- decoding

SQUARE = kernel_case(n_q=7)


def decoder(align="bottom_right", append=True):
    def program(q, k, v, cache):
        if cache and append:
            k, v = (np.concatenate(pair, axis=2) for pair in zip(cache, (k, v), strict=True))
        keep = masks.causal(q.shape[2], k.shape[2], align)
        return attention(q, k, v, keep)[0], (k, v)
    return program


def test_a_healthy_cache_passes_in_chunks():
    found = kernel_probes.cache(decoder(), SQUARE)
    assert (found.ok, found.probe) == (True, "cache")
    assert kernel_probes.cache(decoder(), SQUARE, chunks=(7, 6, 1)).ok


@pytest.mark.parametrize("options", [{"align": "top_left"}, {"append": False}], ids=str)
def test_a_faulty_cache_is_found(options):
    found = kernel_probes.cache(decoder(**options), SQUARE)
    assert found.ok is False
    assert found.sentence.startswith("In chunks of 1, it gives ")
    assert kernel_probes.cache(decoder(**options), SQUARE, chunks=(7,)).ok


def test_a_fault_of_longer_chunks_is_found():
    def program(q, k, v, cache):
        context, cache = decoder()(q, k, v, cache)
        return context * (1 + (q.shape[2] == 3)), cache
    assert kernel_probes.cache(program, SQUARE).sentence.startswith("In chunks of 3, it gives ")
    assert kernel_probes.cache(program, SQUARE, chunks=(1, 2)).ok


def test_a_cache_that_raises_is_a_fault():
    def program(q, k, v, cache):
        if cache:
            raise ValueError("shapes differ")
        return decoder()(q, k, v, cache)
    found = kernel_probes.cache(program, SQUARE)
    assert (found.ok, found.where) == (False, "chunks of 1")
    assert found.sentence == "In chunks of 1, it raises ValueError: shapes differ"


def test_decoding_in_one_pass_is_causal_attention():
    context, error = kernel_probes.decoded(decoder(), SQUARE, 7)
    expected, _ = reference.attention(SQUARE.queries, *SQUARE.sources, masks.causal(7))
    assert error is None
    assert np.array_equal(context, expected)


def test_what_raises_at_once_cannot_be_asked():
    with pytest.raises(ZeroDivisionError):
        kernel_probes.cache(lambda q, k, v, cache: 1 / 0, SQUARE)


def test_what_gives_no_weights_is_told_so_and_no_number():
    finding = kernel_probes.variance(lambda q, k, v, keep: -v.mean(axis=2, keepdims=True) + 0 * q,
                                     kernel_case())
    assert finding.ok is False
    assert finding.sentence.endswith("some weights are 0 or less.")
