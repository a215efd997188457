"""Each probe of a layer passes what is healthy, and sees the fault that it is for."""

import numpy as np
import pytest

from utils import reference, sizes
from utils.doctor.probes import layer as layer_probes
from utils.doctor.probes.case import layer_case, padded
from utils.models import norms

WEIGHTS = sizes.weights(d_in=12, d_out=12)
LAYER, SELF = layer_case(), layer_case(self_attention=True)
PADDED, PADDED_SELF = padded(LAYER, [7, 3]), padded(SELF, [7, 3])
CASES = pytest.mark.parametrize("case", [LAYER, PADDED, SELF, PADDED_SELF],
                                ids=["plain", "padded", "self", "padded self"])


def of_weights(x, memory, weights, n_heads, keep):
    return reference.multi_head_attention(x, memory, weights, n_heads, keep)[0]


def layer(x, memory, keep):
    return of_weights(x, memory, WEIGHTS, 3, keep)


@CASES
def test_what_is_healthy_passes(case):
    found = [layer_probes.same_tokens(layer, case),
             layer_probes.weights_on_off(layer, lambda *args: (layer(*args), None), case),
             layer_probes.weights_used(of_weights, case, WEIGHTS, 3)]
    assert [f.ok for f in found] == [True] * 3
    assert [f.probe for f in found] == ["same tokens", "weights on/off", "weights used"]


# --- equal tokens

def test_softmax_over_queries_gives_equal_tokens_different_outputs():
    def program(x, memory, keep):
        q, k, v = reference.project(x, memory, WEIGHTS, 3)
        weights = reference.softmax(reference.attention_scores(q, k), axis=-2)
        return reference.merge_heads(weights @ v)
    found = layer_probes.same_tokens(program, LAYER)
    assert found.ok is False
    assert found.sentence.startswith("All tokens are equal, but one output is ")


@pytest.mark.parametrize("case", [PADDED, PADDED_SELF], ids=["cross", "self"])
def test_a_mask_after_softmax_loses_a_share(case):
    def program(x, memory, keep):
        q, k, v = reference.project(x, memory, WEIGHTS, 3)
        weights = reference.attention(q, k, v)[1] * (1 if keep is None else keep)
        return reference.merge_heads(weights @ v)
    found = layer_probes.same_tokens(program, case)
    assert found.ok is False
    assert found.where.startswith("example 1")


def test_a_query_that_joins_its_answer_is_seen():
    assert not layer_probes.same_tokens(
        lambda x, memory, keep: layer(x, memory, keep) + x, LAYER).ok
    assert not layer_probes.same_tokens(
        lambda x, memory, keep: layer(x, memory, keep) + np.arange(7)[:, None], SELF).ok


def test_equal_tokens_are_the_first_of_the_first_example():
    def program(x, memory, keep):
        assert np.array_equal(memory, np.broadcast_to(LAYER.sources[0][:1, :1], memory.shape))
        assert np.array_equal(x, LAYER.queries)
        return layer(x, memory, keep)
    assert layer_probes.same_tokens(program, LAYER).ok


# --- weights on request

def test_another_path_for_the_weights_is_found():
    asking = lambda x, memory, keep: (layer(x, memory, None), "weights")  # noqa: E731
    found = layer_probes.weights_on_off(layer, asking, PADDED)
    assert found.ok is False
    assert found.sentence.startswith("Asked for its weights, it returns the output ")
    assert found.where.startswith("example 1")
    assert layer_probes.weights_on_off(layer, asking, LAYER).ok


def test_fully_masked_rows_do_not_count():
    allowed = PADDED.allowed & (np.arange(5) != 1)[:, None]
    case = PADDED.with_mask(allowed[:, None], allowed)

    def other(x, memory, keep):
        return np.where(keep[:, 0].any(axis=-1)[..., None], layer(x, memory, keep), 5.0)
    assert layer_probes.weights_on_off(layer, other, case).ok


# --- parameters

def test_the_parameters_are_counted_whatever_the_heads():
    count = sum(w.size for w in sizes.weights(d_in=11, d_model=12, d_out=11).values())
    found = layer_probes.parameter_count(count, 11, 12)
    assert found == ("parameter count", True, count, count, "",
                     f"It has {count} parameters, as expected.")
    assert layer_probes.parameter_count(4 * 12 * 12, 12, 12, biased="").ok
    assert layer_probes.parameter_count(4 * 12 * 12 + 4 * 12, 12, 12).ok
    assert layer_probes.parameter_count(4 * 11 * 12 + 12 + 11, 11, 12, "ko").ok


@pytest.mark.parametrize(("biased", "expected"), [
    ("qkvo", " and their biases have 624"), ("qv", " and their biases have 600"),
    ("", " have 576")])
def test_a_missing_projection_is_counted(biased, expected):
    found = layer_probes.parameter_count(3 * 12 * 12, 12, 12, biased=biased)
    assert found.ok is False
    assert found.sentence == f"It has 432 parameters; W_q, W_k, W_v, W_o{expected}."


# --- which weights are used

def without(name):
    return lambda x, memory, weights, n_heads, keep: of_weights(
        x, memory, weights | {name: WEIGHTS[name]}, n_heads, keep)


@pytest.mark.parametrize("name", [name for name in WEIGHTS if name != "b_k"])
def test_a_weight_that_is_not_used_is_named(name):
    found = layer_probes.weights_used(without(name), LAYER, WEIGHTS, 3)
    assert (found.ok, found.where) == (False, name)
    said = "Changing b_k changes" if name == "b_k" else f"Changing a part of {name} changes no"
    assert found.sentence.startswith(said)


def test_the_bias_of_k_changes_no_output():
    assert layer_probes.weights_used(without("b_k"), LAYER, WEIGHTS, 3).ok
    found = layer_probes.weights_used(
        lambda x, memory, weights, *rest: of_weights(x, memory, weights, *rest) + weights["b_k"],
        LAYER, WEIGHTS, 3)
    assert (found.ok, found.measured, found.where) == (False, 1, "b_k")


def test_heads_that_share_a_projection_leave_the_others_unused():
    def shared(x, memory, weights, n_heads, keep):
        one = {name: np.tile(w[..., :4], 3) for name, w in weights.items() if name in "W_q b_q"}
        return of_weights(x, memory, weights | one, n_heads, keep)
    found = layer_probes.weights_used(shared, LAYER, WEIGHTS, 3)
    assert (found.ok, found.measured, found.where) == (False, 6, "W_q")  # two of three columns


def test_input_split_before_the_projection_uses_the_diagonal():
    def split_first(x, memory, weights, n_heads, keep):
        diagonal = np.kron(np.eye(3), np.ones((4, 4)))
        cut = {name: diagonal * weights[name] for name in ("W_q", "W_k", "W_v")}
        return of_weights(x, memory, weights | cut, n_heads, keep)
    found = layer_probes.weights_used(split_first, LAYER, WEIGHTS, 3)
    assert (found.ok, found.measured, found.where) == (False, 18, "W_q, W_k, W_v")


def test_a_change_is_found_behind_a_norm():
    def program(x, memory, weights, n_heads, keep):
        x, memory = map(norms.layer_norm, (x, memory))
        return norms.layer_norm(of_weights(x, memory, weights, n_heads, keep))
    assert layer_probes.weights_used(program, LAYER, WEIGHTS, 1).ok


def test_blocks_are_the_shares_of_the_heads_and_miss_nothing():
    seen = {name: np.zeros_like(w) for name, w in sizes.weights().items()}
    for name, index in layer_probes.blocks(sizes.weights(), 3):
        seen[name][index] += 1
    assert all((count == 1).all() for count in seen.values())
    assert len([*layer_probes.blocks(sizes.weights(), 3)]) == 4 * 9 + 4


@pytest.mark.parametrize(("n_heads", "count"), [(4, 16), (5, 10), (6, 12)])
def test_of_many_heads_each_is_asked_with_itself_and_the_next(n_heads, count):
    found = [index for _, index in layer_probes.blocks({"W_q": np.ones((60, 30))}, n_heads)]
    assert len(found) == count
    for place, size in enumerate((60, 30)):  # all rows and all columns
        assert len(set(np.concatenate([index[place].ravel() for index in found]))) == size
    if n_heads > 4:
        firsts = {(rows[0, 0] // (60 // n_heads), columns[0, 0] // (30 // n_heads))
                  for rows, columns in found}
        assert firsts == {(n, (n + step) % n_heads) for n in range(n_heads) for step in (0, 1)}
