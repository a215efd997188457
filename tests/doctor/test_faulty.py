"""The faulty attention: without a switch the reference, and each switch does what it says."""

import numpy as np
import pytest

from utils import masks, reference, sizes
from utils.checks import difference
from utils.doctor import faulty
from utils.doctor.faulty.kernel import BATCH, HEADS, KEYS, QUERIES, Band, Masking

Q, K, V = sizes.qkv(d_v=6)
KEEP = np.random.default_rng(1).random((2, 3, 5, 7)) < 0.6
KEEP[..., 0] = True
SCORES = Q @ K.swapaxes(-1, -2)
SQUARE = sizes.qkv(n_q=7, d_v=4)


def weights(q=Q, k=K, v=V, keep=KEEP, **settings):
    return faulty.kernel.attention(q, k, v, keep, **settings)[1]


def context_of(scores, v=V, axis=-1):
    return reference.softmax(scores, axis) @ v


@pytest.mark.parametrize("keep", [None, KEEP, masks.padding([7, 3], 7), KEEP[0, 0],
                                  masks.padding([7, 0], 7)], ids=lambda keep: np.shape(keep))
def test_without_a_switch_it_is_the_reference(keep):
    for got, want in zip(faulty.kernel.attention(Q, K, V, keep), reference.attention(Q, K, V, keep),
                         strict=True):
        assert difference(got, want) < 1e-15


def test_fewer_heads_of_k_and_v_are_repeated():
    q, k, v = sizes.qkv(heads=6, kv_heads=2)
    assert difference(faulty.kernel.attention(q, k, v)[0], reference.attention(q, k, v)[0]) < 1e-15


def test_tiled_heads_of_k_and_v_are_paired_in_turn():
    q, k, v = sizes.qkv(heads=6, kv_heads=2)
    got = faulty.kernel.attention(q, k, v, tile=True)[0]
    assert difference(got, reference.attention(q, *(x[:, [0, 1] * 3] for x in (k, v)))[0]) < 1e-15


@pytest.mark.parametrize(("scale", "factor"), [
    ("none", 1), ("model", 12 ** -0.5), ("twice", 1 / 4), (0.3, 0.3)])
def test_a_scale_multiplies_the_products(scale, factor):
    got, _ = faulty.kernel.attention(Q, K, V, scale=scale)
    assert difference(got, context_of(factor * SCORES)) < 1e-15


@pytest.mark.parametrize("axes", [(KEYS,), (QUERIES,), (HEADS,), (HEADS, KEYS), (BATCH,)])
def test_weights_sum_to_one_over_the_axes(axes):
    got = weights(keep=None, axes=axes)
    assert np.allclose(got.sum(axis=axes), 1, atol=1e-15)
    ratio = np.log(got) - SCORES / 2
    assert np.ptp(ratio, axis=axes).max() < 1e-12


def test_roles_are_exchanged():
    q, k, v = SQUARE
    assert difference(faulty.kernel.attention(q, k, v, roles="kqv")[0],
                      reference.attention(k, q, v)[0]) < 1e-15
    assert difference(faulty.kernel.attention(q, k, v, roles="qvk")[0],
                      reference.attention(q, v, k)[0]) < 1e-15


@pytest.mark.parametrize(("masking", "scores"), [
    (Masking("ignore"), SCORES / 2),
    (Masking("invert"), np.where(KEEP, -np.inf, SCORES / 2)),
    (Masking("fill", value=-1.0), np.where(KEEP, SCORES / 2, -1)),
    (Masking("fill", value=-1.0, scaled=True), np.where(KEEP, SCORES, -1) / 2),
    (Masking("add", value=-1.0), SCORES / 2 + KEEP),
    (Masking("add", value=-1.0, scaled=True), (SCORES + KEEP) / 2),
    (Masking("add", value=1.0), SCORES / 2 + ~KEEP)], ids=str)
def test_a_mask_is_used_as_it_says(masking, scores):
    assert difference(weights(masking=masking), reference.softmax(scores)) < 1e-15


def test_a_mask_after_softmax_leaves_sums_below_one():
    got = weights(masking=Masking("after"))
    assert difference(got, reference.softmax(SCORES / 2) * KEEP) < 1e-15


@pytest.mark.parametrize(("part", "seen"), [
    ("keep", masks.causal(5, 7, "top_left")), ("causal", KEEP),
    ("both", np.ones((5, 7), dtype=bool))])
def test_a_part_of_the_mask_can_be_ignored_alone(part, seen):
    got = weights(band=Band(None, 0), masking=Masking("ignore", part))
    assert difference(got, reference.attention(Q, K, V, seen)[1]) < 1e-15


@pytest.mark.parametrize(("align", "first"), [("top_left", 0), ("bottom_right", 2)])
@pytest.mark.parametrize("band", [Band(None, 0), Band(None, 1), Band(0, None), Band(2, 1)],
                         ids=str)
def test_a_band_has_its_alignment(band, align, first):
    got = weights(keep=None, band=band, align=align)
    offset = np.arange(7) - (first + np.arange(5))[:, None]
    seen = np.full((5, 7), True)
    seen &= offset >= (-np.inf if band.left is None else -band.left)
    seen &= offset <= (np.inf if band.right is None else band.right)
    assert difference(got, reference.attention(Q, K, V, seen)[1]) < 1e-15


@pytest.mark.parametrize(("empty", "want"), [
    ("zeros", np.zeros(7)), ("nan", np.full(7, np.nan)), ("average", np.full(7, 1 / 7)),
    ("unmasked", reference.softmax(SCORES[1, 2, 3] / 2))])
def test_a_fully_masked_row_gets_what_the_option_says(empty, want):
    got = weights(keep=masks.padding([7, 0], 7), fully_masked=empty)
    assert difference(got[1, 2, 3], want) < 1e-15
    assert difference(got[0], weights(keep=None)[0]) < 1e-15
