"""The healthy pass every probe that fits them, and what the sick fail says where to look."""

import numpy as np
import pytest

from utils import masks, reference, sizes
from utils.doctor import probes
from utils.doctor.probes import run as probe_run
from utils.doctor.probes.case import Finding, kernel_case, layer_case

WEIGHTS = sizes.weights(d_in=12, d_out=12)
EVERY = ["shape", "determinism", "untouched", "causality", "dependence", "padding", "equivariance",
         "batch independence", "query independence", "finiteness", "fully masked row"]
KERNEL = [*EVERY, "row sums", "head independence", "weights match", "variance"]
LAYER = [*EVERY, "same tokens"]


def attention(causal=False, align=None, **faults):
    """Return a kernel that masks by itself, if ``causal``, and insists on what it was promised."""
    def program(q, k, v, keep):
        n_q, n_k = q.shape[2], k.shape[2]
        if causal:
            own = masks.causal(n_q, n_k, None if n_q == n_k else align)
            keep = own if keep is None else keep & own
        return reference.attention(q, k, v, keep, **faults)
    return program


def layer(x, memory, keep):
    return reference.multi_head_attention(x, memory, WEIGHTS, 3, keep)[0]


def decoder(q, k, v, cache):
    if cache:
        k, v = (np.concatenate(pair, axis=2) for pair in zip(cache, (k, v), strict=True))
    keep = masks.causal(q.shape[2], k.shape[2], "bottom_right")
    return reference.attention(q, k, v, keep)[0], (k, v)


def names(found):
    return [finding.probe for finding in found]


def failed(found):
    return [finding.probe for finding in found if not finding.ok]


@pytest.mark.parametrize(("options", "asked"), [
    ({}, KERNEL), ({"grouped": True}, KERNEL), ({"square": True}, KERNEL), ({"d_v": 4}, KERNEL),
    ({"masks": "padding"}, [n for n in KERNEL if n != "causality"]),
    ({"masks": "none"},
     [n for n in KERNEL if n not in ("causality", "padding", "fully masked row")]),
    ({"causal": True}, [n for n in KERNEL if n != "equivariance"]),
    ({"causal": True, "align": "top_left"}, [n for n in KERNEL if n != "equivariance"]),
    ({"causal": True, "align": "bottom_right", "masks": "none"},
     [n for n in KERNEL if n not in ("equivariance", "padding", "fully masked row")])], ids=str)
def test_a_healthy_kernel_passes_all_probes_that_fit_it(options, asked):
    program = attention(options.get("causal", False), options.get("align"))
    for seed in range(3):
        found = probes.probe_kernel(program, seed=seed, **options)
        assert names(found) == asked
        assert failed(found) == []


@pytest.mark.parametrize(("options", "asked"), [
    ({}, LAYER), ({"square": True}, LAYER),
    ({"self_attention": True}, [n for n in LAYER if n != "query independence"]),
    ({"masks": "padding"}, [n for n in LAYER if n != "causality"]),
    ({"masks": "none"},
     [n for n in LAYER if n not in ("causality", "padding", "fully masked row")])],
    ids=str)
def test_a_healthy_layer_passes_all_probes_that_fit_it(options, asked):
    for seed in range(3):
        found = probes.probe_layer(layer, seed=seed, **options)
        assert names(found) == asked
        assert failed(found) == []


def test_a_healthy_causal_layer_passes():
    def program(x, memory, keep):
        own = masks.causal(x.shape[1], memory.shape[1])
        return layer(x, memory, own if keep is None else keep & own)
    found = probes.probe_layer(program, causal=True)
    assert failed(found) == []
    assert names(found) == [n for n in LAYER if n not in ("equivariance", "same tokens")]
    assert failed(probes.probe_layer(program, causal=True, self_attention=True)) == []
    assert "causality" in failed(probes.probe_layer(layer, causal=True))


def test_a_healthy_decoder_passes():
    for seed in range(3):
        found = probes.probe_decoding(decoder, seed=seed)
        assert failed(found) == []
    assert names(found) == [n for n in KERNEL if n not in (
        "equivariance", "padding", "fully masked row")] + ["cache"]


def test_a_decoder_that_reads_ahead_fails_as_a_kernel_and_one_that_forgets_by_its_cache():
    def ahead(q, k, v, cache):
        return reference.attention(q, k, v)[0], None
    found = failed(probes.probe_decoding(ahead))
    assert "causality" in found
    assert "cache" in found
    assert failed(probes.probe_decoding(lambda q, k, v, cache: decoder(q, k, v, None))) == ["cache"]


# --- programs see the sizes and masks that they were promised

def seen(ask, **options):
    """Return the shapes of q and v, or x and memory, and of the masks that a program is given."""
    shapes, keeps = set(), set()

    def program(*args):
        *sides, keep = args
        shapes.add((sides[0].shape, sides[-1].shape))
        keeps.add(None if keep is None else keep.shape)
        return sides[0]
    ask(program, **options)
    return shapes, keeps


@pytest.mark.parametrize(("options", "q", "v"), [
    ({}, (2, 3, 5, 4), (2, 3, 7, 8)), ({"d_v": 4}, (2, 3, 5, 4), (2, 3, 7, 4)),
    ({"square": True}, (2, 3, 7, 4), (2, 3, 7, 8)),
    ({"causal": True}, (2, 3, 7, 4), (2, 3, 7, 8)),
    ({"causal": True, "align": "top_left"}, (2, 3, 5, 4), (2, 3, 7, 8)),
    ({"grouped": True}, (2, 6, 5, 4), (2, 2, 7, 8))], ids=str)
def test_a_kernel_is_asked_in_the_sizes_it_can(options, q, v):
    assert (q, v) in seen(probes.probe_kernel, **options)[0]
    assert (q[2] == v[2]) == all(q[2] == v[2] for q, v in seen(probes.probe_kernel, **options)[0])


@pytest.mark.parametrize(("options", "x", "memory"), [
    ({}, (2, 5, 12), (2, 7, 12)), ({"d_in": 11}, (2, 5, 11), (2, 7, 11)),
    ({"square": True}, (2, 7, 12), (2, 7, 12)), ({"causal": True}, (2, 7, 12), (2, 7, 12)),
    ({"self_attention": True}, (2, 7, 12), (2, 7, 12))], ids=str)
def test_a_layer_is_asked_in_the_sizes_it_can(options, x, memory):
    alone = (1, *x[1:]), (1, *memory[1:])
    assert seen(probes.probe_layer, **options)[0] == {(x, memory), alone}



@pytest.mark.parametrize("ask", [probes.probe_kernel, probes.probe_layer], ids=["kernel", "layer"])
def test_a_program_is_given_masks_that_it_takes(ask):
    padding = {None, (2, 1, 1, 7), (1, 1, 1, 7)}
    assert seen(ask)[1] == padding | {(1, 1, 5, 7)}
    assert seen(ask, causal=True)[1] == padding
    assert seen(ask, masks="padding")[1] == padding
    assert seen(ask, masks="none")[1] == {None}


def test_padding_that_is_given_is_never_shuffled():
    def program(q, k, v, keep):
        if keep is not None:
            lengths = keep.sum(axis=-1)[:, 0, 0]
            assert np.array_equal(keep, masks.padding(lengths, k.shape[2]))
        return reference.attention(q, k, v, keep)
    assert failed(probes.probe_kernel(program, masks="padding")) == []


# --- what else a program may do

def test_a_program_in_float32_passes_with_its_own_tolerance():
    def single(q, k, v, keep):
        q, k, v = (x.astype("float32") for x in (q, k, v))
        scores = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
        scores = scores if keep is None else np.where(keep, scores, np.float32(-1e9))
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return exps / exps.sum(axis=-1, keepdims=True) @ v
    assert failed(probes.probe_kernel(single, tolerance=1e-5)) == []
    assert "row sums" in failed(probes.probe_kernel(single))


@pytest.mark.parametrize("ask", [probes.probe_kernel, probes.probe_layer, probes.probe_decoding])
def test_a_program_that_raises_could_not_be_asked(ask):
    def program(*args):
        raise ValueError(" mat1 and mat2 cannot be multiplied ")
    found = ask(program)
    assert {finding.ok for finding in found} == {None}
    assert {finding.sentence for finding in found} == {
        "The probe could not run: the program raised ValueError: "
        "mat1 and mat2 cannot be multiplied"}
    assert names(found)[-1] in ("variance", "same tokens", "cache")


def test_only_the_probe_that_could_not_ask_says_so():
    def no_batch_of_one(q, k, v, keep):
        if len(q) == 1:
            raise IndexError("x" * 500)
        return reference.attention(q, k, v, keep)
    found = {finding.probe: finding for finding in probes.probe_kernel(no_batch_of_one)}
    assert failed(found.values()) == ["batch independence"]
    assert found["batch independence"] == Finding(
        "batch independence", None, pytest.approx(np.nan, nan_ok=True), 0, "",
        "The probe could not run: the program raised IndexError: " + "x" * 200)


def test_a_wrong_shape_is_the_first_thing_said():
    found = probes.probe_kernel(lambda q, k, v, keep: q[:, :, :1])
    assert (found[0].probe, found[0].ok) == ("shape", False)


def test_probes_without_a_case_are_left_out():
    cases = probe_run.kinds(kernel_case(), False, None, "none", 0)
    assert sorted(cases) == ["average", "cross", "plain", "set", "usual"]
    assert "cross" not in probe_run.kinds(layer_case(self_attention=True), False, None, "any", 0)


def test_one_example_is_short_and_one_is_shorter():
    lengths = {tuple(probe_run.kinds(kernel_case(), False, None, "any", seed)["padded"].keep.sum(
        axis=-1).ravel().tolist()) for seed in range(20)}
    assert lengths == {(5, 2), (2, 5), (5, 3), (3, 5)}


def test_where_any_mask_is_taken_a_token_follows_the_padding():
    def keep(promise):
        return probe_run.kinds(kernel_case(), True, "top_left", promise, 0)["padded"].keep
    assert sorted(keep("any")[:, 0, 0].tolist()) == [
        [1, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 0, 0, 1]]
    assert sorted(keep("padding")[:, 0, 0].tolist()) == [
        [1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0, 0]]


def test_a_layer_that_gets_its_weights_is_asked_whether_it_uses_them():
    def program(x, memory, weights, n_heads, keep):
        return reference.multi_head_attention(x, memory, weights, n_heads, keep)[0]
    for options in ({}, {"self_attention": True}):
        found = probes.probe_layer(program, weights=WEIGHTS, **options)
        assert failed(found) == []
        assert names(found)[-1] == "weights used"
    found = probes.probe_layer(lambda x, memory, weights, *rest: program(x, memory, WEIGHTS, *rest),
                         weights=WEIGHTS)
    assert failed(found) == ["weights used"]


@pytest.mark.parametrize("n_heads", [2, 4])
def test_a_layer_is_told_how_many_heads(n_heads):
    def program(x, memory, weights, heads, keep):
        assert heads == n_heads
        return reference.multi_head_attention(x, memory, weights, heads, keep)[0]
    assert failed(probes.probe_layer(program, weights=WEIGHTS, n_heads=n_heads)) == []

