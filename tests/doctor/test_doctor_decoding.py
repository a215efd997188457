"""The doctor examines decoding with a cache."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from utils import doctor, masks, reference, sizes
from utils.checks import difference
from utils.doctor import faulty
from utils.doctor._search import Switch
from utils.doctor.faulty.kernel import Band
from utils.doctor.levels import decoding as decoding_level, kernel_switches
from utils.doctor.levels.decoding import CHUNKS, SWITCHES, Decoder
from utils.doctor.levels.kernel_cases import Form
from utils.doctor.levels.kernel_switches import Options

Q, K, V = sizes.qkv(n_q=7, n_k=7)


def one_pass(keep):
    return reference.attention(Q, K, V, keep)[0]


def sick(settings):
    """Return a decoder with these settings, which keeps all that it was given in its cache."""
    def program(q, k, v, cache):
        chunks, *past = cache or ((), q[:, :, :0], k[:, :, :0], v[:, :, :0])
        past = [np.concatenate(pair, axis=2) for pair in zip(past, (q, k, v), strict=True)]
        chunks = (*chunks, q.shape[2])
        context = faulty.decoding.decode(*past, chunks, **settings)
        return context[:, :, -q.shape[2]:], (chunks, *past)
    return program


# --- the faulty decoder

@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
def test_without_a_switch_it_is_one_causal_pass(chunks):
    assert difference(faulty.decoding.decode(Q, K, V, chunks), one_pass(masks.causal(7))) < 1e-15


def rows(*allowed):
    """Return keep (7, 7) of the keys that each chunk of 4, 2, 1 positions is allowed to see."""
    keep = np.zeros((7, 7), bool)
    starts = (0, 4, 6, 7)
    for n, columns in enumerate(allowed):
        keep[starts[n]:starts[n + 1], columns] = True
    return keep


@pytest.mark.parametrize(("settings", "keep"), [
    ({"cache": "none"}, rows(slice(0, 4), slice(4, 6), slice(6, 7)) & masks.causal(7)),
    ({"cache": "last only"}, rows(slice(0, 4), slice(0, 6), slice(4, 7)) & masks.causal(7)),
    ({"cache": "first only"}, rows(slice(0, 4), slice(0, 6), [0, 1, 2, 3, 6]) & masks.causal(7)),
    ({"masked": "after the first chunk"}, rows(slice(0, 4)) | masks.causal(7)),
    ({"masked": "in the first chunk"}, rows([], slice(0, 6), slice(0, 7)) | masks.causal(7)),
    ({"masked": "never"}, rows(slice(0, 4), slice(0, 6), slice(0, 7))),
    ({"masked": "one too late"},
     masks.causal(7) | rows([], slice(0, 6)) & np.tri(7, k=1, dtype=bool)),
    ({"masked": "one too early"},
     masks.causal(7) & (rows(slice(0, 4)) | np.tri(7, k=-1, dtype=bool))),
    ({"band": Band(1, 0)}, masks.window(7, 7, 1))], ids=lambda x: str(x)[:40])
def test_a_cache_or_mask_lets_through_what_it_says(settings, keep):
    got = faulty.decoding.decode(Q, K, V, (4, 2, 1), **settings)
    assert difference(got, one_pass(keep)) < 1e-15


def test_a_mask_with_the_wrong_alignment_masks_the_past():
    got = faulty.decoding.decode(Q, K, V, (4, 2, 1), align="top_left")
    keep = masks.causal(7)
    keep[4:6] = masks.causal(2, 7, "top_left")
    keep[6] = masks.causal(1, 7, "top_left")
    assert difference(got, one_pass(keep)) < 1e-15
    got = faulty.decoding.decode(Q, K, V, (4, 2, 1), align="top_left of several")
    keep[6] = True
    assert difference(got, one_pass(keep)) < 1e-15


def test_a_cache_written_over_from_its_start_loses_what_stood_there():
    got = faulty.decoding.decode(Q, K, V, (4, 2, 1), cache="overwritten", masked="never")
    for queries, keys in ((slice(4, 6), [4, 5, 2, 3]), (slice(6, 7), [6, 5, 2, 3])):
        want = reference.attention(Q[:, :, queries], K[:, :, keys], V[:, :, keys])[0]
        assert difference(got[:, :, queries], want) < 1e-15


def test_a_buffer_written_at_its_front_is_empty_behind():
    got = faulty.decoding.decode(Q, K, V, (4, 2, 1), cache="front", masked="never")
    for queries, places in ((slice(4, 6), [4, 5, 2, 3, None, None]),
                            (slice(6, 7), [6, 5, 2, 3, None, None, None])):
        keys, values = (np.stack([0 * x[:, :, 0] if n is None else x[:, :, n] for n in places],
                                 axis=2) for x in (K, V))
        want = reference.attention(Q[:, :, queries], keys, values)[0]
        assert difference(got[:, :, queries], want) < 1e-15


def test_a_cache_of_keys_counts_old_values_as_zero():
    got = faulty.decoding.decode(Q, K, V, (4, 3), cache="keys only")
    _, weights = reference.attention(Q, K, V, masks.causal(7))
    assert difference(got[:, :, 4:], weights[:, :, 4:, 4:] @ V[:, :, 4:]) < 1e-15


def test_a_chunk_that_is_cached_too_late_does_not_see_itself():
    got = faulty.decoding.decode(Q, K, V, (4, 1), cache="old only")
    want = reference.attention(Q[:, :, 4:5], K[:, :, :4], V[:, :, :4])[0]
    assert difference(got[:, :, 4:5], want) < 1e-15


# --- the doctor

def test_every_single_switch_is_named_up_to_its_class():
    options = Options(True, "bottom_right", square=True)
    inside = [s for s in kernel_switches.switches(Form(square=True), options)
              if "masking" not in s.settings or s.settings["masking"].part == "causal"]
    constants = [Switch("constant scale", {"scale": 0.3}), Switch("window", {"band": Band(2, 0)})]
    for switch in [*SWITCHES, *inside, *constants]:
        if switch.settings.get("roles"):
            continue  # with a cache there are more keys than queries
        report = doctor.examine(sick(switch.settings), "decoding", framework="numpy")
        assert (report.verdict, (switch.fault,) in report.names) == ("sick", True), switch


def test_two_faults_are_found_together():
    report = doctor.examine(sick({"align": "top_left", "scale": "none"}), "decoding",
                            framework="numpy")
    assert report.names == [("cache position", "no scale")]


def fused(q, k, v, cache):
    """Decode with the library's kernel and a mask of its own."""
    if cache is not None:
        k, v = (torch.cat(pair, dim=2) for pair in zip(cache, (k, v), strict=True))
    keep = torch.as_tensor(masks.causal(q.shape[2], k.shape[2], "bottom_right"))
    return F.scaled_dot_product_attention(q, k, v, keep), (k, v)


def test_a_healthy_decoder_is_called_so_and_is_a_function_of_its_chunks():
    assert doctor.examine(fused, "decoding").verdict == "healthy"
    got = Decoder(fused)(*map(torch.tensor, (Q, K, V)), (2, 5))
    assert difference(got, one_pass(masks.causal(7))) < 1e-14


@pytest.mark.parametrize(("program", "verdict", "words"), [
    (lambda q, k, v, cache: q, "could not examine",
     "it raises TypeError: expected (context, cache), got Tensor."),
    (lambda q, k, v, cache: (v[..., :2], None), "sick", "it returns shape"),
    (lambda q, k, v, cache: (2 * fused(q, k, v, cache)[0], fused(q, k, v, cache)[1]),
     "unexplained", "no fault with a name explains it")])
def test_what_is_no_decoder_gets_a_sentence(program, verdict, words):
    report = doctor.examine(program, "decoding", framework="torch")
    assert (report.verdict, report.names) == (verdict, [])
    assert words in report.headline


def test_every_way_of_cutting_is_tried_and_others_confirm():
    kind = decoding_level.levels(Options())[0]
    assert {case.args[3] for case in kind.search_cases()} > set(CHUNKS)
    assert {case.args[3] for case in kind.confirmation_cases()} == {(3, 2, 1), (1, 4, 1)}


def test_dropout_of_a_decoder_is_told():
    def program(q, k, v, cache):
        context, cache = fused(q, k, v, cache)
        return F.dropout(context, 0.3), cache
    assert doctor.examine(program, "decoding").names == [("dropout in eval",)]


def test_values_must_be_as_wide_as_keys_only_where_the_program_says_so():
    def narrow(q, k, v, cache):
        if q.shape[3] != v.shape[3]:
            raise ValueError("one width")
        return fused(q, k, v, cache)
    report = doctor.examine(narrow, "decoding", framework="torch")
    assert report.notes == ["It was examined only with d_v == d: it takes no other sizes, "
                            "which is no fault."]
    forms = [level.form.equal_features for level in decoding_level.levels(Options())]
    assert forms == [False, True]


def test_the_cache_is_probed_when_nothing_matches():
    def program(q, k, v, cache):
        context, cache = fused(q, k, v, cache)
        return context, tuple(x.half().double() for x in cache)
    report = doctor.examine(program, "decoding")
    assert any(finding.startswith("cache: ") for finding in report.findings)


def test_a_decoder_whose_softmax_overflows_gets_a_note():
    def program(q, k, v, cache):
        if cache is not None:
            k, v = (np.concatenate(pair, axis=2) for pair in zip(cache, (k, v), strict=True))
        scores = reference.attention_scores(q, k)
        weights = np.exp(scores) * masks.causal(q.shape[2], k.shape[2], "bottom_right")
        return weights / weights.sum(axis=-1, keepdims=True) @ v, (k, v)
    report = doctor.examine(program, "decoding", framework="numpy")
    assert report.verdict == "healthy"
    assert "subtract the largest score before exp" in report.notes[0]
