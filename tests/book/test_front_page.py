"""What the front page says: the four programs, and the answers to the six questions."""

import math
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from scripts import execute, front_page
from utils import frameworks, masks, reference, sizes
from utils.attention import numpy as numpy_attention, torch as torch_attention
from utils.checks import TOLERANCES, difference

PAGE = Path(__file__).resolve().parents[2] / "chapters" / "index.md"
N, HEADS, D_HEAD, D_MODEL = sizes.N_Q, sizes.HEADS, sizes.D_HEAD, sizes.D_MODEL


def torn(x):
    """Return the torn split of the fourth program, (i, e) -> (h, i, d)."""
    return x.view(HEADS, N, D_HEAD)


def torn_layer(x, keep=None):
    """Return causal self-attention with torn heads, (i, e) -> (i, e)."""
    heads = torch_attention.attention(*(torn(x) for _ in "qkv"), keep)[0]
    return heads.view(N, D_MODEL)


@pytest.fixture(scope="module")
def keras():
    """Return Keras on TensorFlow, imported without its start-up messages."""
    frameworks.tensorflow()
    import keras
    return keras


# --- the picture

def test_the_arcs_are_what_the_trained_head_computes():
    tokens, weights = front_page.attention_of_a_word()
    said = re.search(r"“(\w+)” gets (\d+) %", PAGE.read_text(encoding="utf-8"))
    assert tokens[int(weights.argmax())] == said[1]
    assert abs(100 * weights.max() - int(said[2])) < 0.5
    assert abs(weights.sum() - 1) < 1e-5


def test_the_hours_of_the_main_road_are_those_of_its_pages():
    pages = [nbformat.read(path, as_version=4) for path in execute.notebooks()]
    minutes = [execute.reading_minutes(nb) for nb in pages
               if " · main road · " in nb.cells[0].source]
    said = re.search(r"about (\d+) hours to read, and (\d+) more", PAGE.read_text(encoding="utf-8"))
    read, _, exercises = (round(sum(column) / 60) for column in zip(*minutes, strict=True))
    assert (int(said[1]), int(said[2])) == (read, exercises)


# --- the four programs

def test_three_programs_of_the_front_page_are_the_equation_and_the_fourth_is_not():
    q, k, v = (reference.split_heads(x.numpy()[None], HEADS) for x in front_page.inputs())
    expected = reference.merge_heads(reference.attention(q, k, v)[0])[0]
    loop, view, einsum, sick = front_page.outputs()
    assert difference(loop, expected) < TOLERANCES["float64"]
    assert max(np.abs(loop - view).max(), np.abs(loop - einsum).max()) < 1e-15
    page = PAGE.read_text(encoding="utf-8")
    said = float(re.search(r"difference from the loop is \*\*([\d.]+)\*\*", page)[1])
    assert sick.shape == loop.shape
    assert round(np.abs(sick - loop).max(), 1) == said


# --- the six questions

def test_the_scale_is_the_width_of_a_head():
    rng = np.random.default_rng(0)
    heads, d_head = 12, 64
    q, k = rng.standard_normal((2, heads, 100, d_head))
    scores = q @ k.swapaxes(-2, -1)
    assert abs(scores.std() - 8) < 0.1
    flat = reference.softmax(scores / math.sqrt(heads * d_head))
    steep = reference.softmax(scores)
    # Nearly uniform: no key gets three times its share. Saturated: one key gets most of it.
    assert np.median(flat.max(axis=-1)) < 3 / 100
    assert np.median(steep.max(axis=-1)) > 0.7


def test_shuffled_words_give_the_same_outputs_shuffled():
    layer = torch_attention.MultiHeadAttention(D_MODEL, HEADS).double()
    x, order = torch.randn(1, N, D_MODEL, dtype=torch.float64), torch.tensor([3, 0, 4, 1, 2])
    out = layer(x)
    assert difference(layer(x[:, order]), out[:, order]) < TOLERANCES["float64"]
    assert difference(layer(x[:, order]), out) > 0.01
    # Keys and values shuffled together change no answer.
    assert difference(layer(x, x[:, order]), out) < TOLERANCES["float64"]


def test_true_in_a_mask_depends_on_who_reads_it(keras):
    keep = masks.causal(N)
    x = torch.randn(1, N, D_MODEL)
    alone = (slice(None), 0)        # with True = attend, word 0 sees only itself
    sdpa = F.scaled_dot_product_attention(x, x, x, attn_mask=torch.as_tensor(keep))
    assert torch.allclose(sdpa[alone], x[alone])
    mha = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    weights = mha(x, x, x, attn_mask=torch.as_tensor(keep))[1]
    assert weights[0, 1, :2].abs().max() == 0      # True = drop: word 1 sees 2, 3, 4 alone
    layer = keras.layers.MultiHeadAttention(HEADS, D_HEAD)
    scores = layer(x.numpy(), x.numpy(), attention_mask=keep[None],
                   return_attention_scores=True)[1]
    assert np.abs(np.asarray(scores)[0, :, 0, 1:]).max() == 0


def test_adding_minus_1e9_to_a_whole_row_masks_nothing_in_float64_and_all_alike_in_float32():
    scores = np.random.default_rng(0).standard_normal(sizes.N_K) * 2
    plain = numpy_attention.softmax(scores)
    assert difference(numpy_attention.softmax(scores - 1e9), plain) < 1e-6
    single = numpy_attention.softmax(scores.astype(np.float32) - np.float32(1e9))
    assert (single == np.float32(1 / sizes.N_K)).all()
    with np.errstate(invalid="ignore"):
        assert np.isnan(numpy_attention.softmax(scores - np.inf)).all()


def test_heads_share_the_width_and_cost_no_parameters(keras):
    def count(layer):
        return sum(parameter.numel() for parameter in layer.parameters())
    assert count(nn.MultiheadAttention(512, 8)) == count(nn.MultiheadAttention(512, 16))
    few, many = (keras.layers.MultiHeadAttention(heads, key_dim=16) for heads in (2, 4))
    for layer in few, many:
        layer.build((1, N, 32), (1, N, 32))
    assert many.count_params() > 1.9 * few.count_params()


def test_only_the_values_notice_torn_heads():
    x = torch.randn(N, D_MODEL, dtype=torch.float64)
    keep = torch.as_tensor(masks.causal(N))
    well = x.view(N, HEADS, D_HEAD).transpose(0, 1)
    assert torn(x).shape == well.shape
    assert torch.equal(torn(x).view(N, D_MODEL), x)             # there and back again
    changed = x.clone()
    changed[-1] += 1
    out = torn_layer(x, keep)
    assert torch.equal(torn_layer(changed, keep)[:-1], out[:-1])     # no look-ahead
    expected = torch_attention.attention(well, well, well, keep)[0]
    assert difference(out, expected.transpose(0, 1).reshape(N, D_MODEL)) > 0.1
