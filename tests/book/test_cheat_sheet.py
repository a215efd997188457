"""Every fact of the cheat sheet is run, counted, or read off what the chapters computed."""

import json
import math
import re

import numpy as np
import pytest
import torch
from notebook_page import ROOT

from utils import frameworks, masks, reference, sizes
from utils.attention.torch import attention
from utils.doctor import tables

PAGE = ROOT / "chapters" / "7_field_guide" / "cheat_sheet.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
SIZES = {"batch": sizes.BATCH, "heads": sizes.HEADS, "n_q": sizes.N_Q, "n_k": sizes.N_K,
         "d_head": sizes.D_HEAD, "d_model": sizes.D_MODEL}


def table(heading):
    """Return the rows of the table whose first column has this heading, cells as text."""
    lines = TEXT.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def computed(heading):
    """Return {row: cells} of a table that the page on mask conventions computed and stored."""
    notebook = json.loads((PAGE.parent / "mask_conventions.ipynb").read_text(encoding="utf-8"))
    shown = ["".join(output["data"]["text/markdown"]) for cell in notebook["cells"]
             for output in cell.get("outputs", []) if "text/markdown" in output.get("data", {})]
    text = next(text for text in shown if text.startswith(heading))
    rows = [line.strip("| ").split(" | ") for line in text.splitlines()[2:]]
    return {name: cells for name, *cells in rows}


@pytest.mark.parametrize("block", [0, 1, 2])
def test_the_four_lines_are_the_equation(block):
    q, k, v = sizes.qkv()
    keep = masks.padding([7, 4], 7)
    known = {"np": np, "math": math, "q": q, "k": k, "v": v, "keep": keep}
    if block == 1:
        known |= {name: torch.as_tensor(known[name]) for name in ("q", "k", "v", "keep")}
    if block == 2:
        tf = frameworks.tensorflow()
        known |= {name: tf.constant(known[name]) for name in ("q", "k", "v", "keep")}
        known["tf"] = tf
    exec(BLOCKS[block], known)
    expected, _ = reference.attention(q, k, v, keep)
    np.testing.assert_allclose(np.asarray(known["context"]), expected, atol=1e-12)


def test_heads_are_split_and_merged_as_the_reference_does():
    weights = {name: torch.as_tensor(w) for name, w in sizes.weights(
        d_in=12, d_out=12, bias=False).items()}
    x, _ = map(torch.as_tensor, sizes.sides(d_in=12))
    known = SIZES | weights | {"x": x}
    first, second = BLOCKS[3].splitlines()
    exec(first, known)
    q, k, v = (torch.as_tensor(side) for side in reference.project(x, x, weights, 3))
    np.testing.assert_allclose(known["q"], q, atol=1e-12)
    exec(second, known | {"context": attention(q, k, v)[0]}, known)
    expected, _ = reference.multi_head_attention(x, x, weights, 3)
    np.testing.assert_allclose(known["out"], expected, atol=1e-12)


def test_the_corners_are_those_of_utils():
    for n_q, n_k in ((5, 7), (7, 5), (4, 4)):
        known = {"torch": torch, "n_q": n_q, "n_k": n_k}
        exec(BLOCKS[4], known)
        for corner in ("bottom_right", "top_left"):
            assert np.array_equal(known[corner], masks.causal(n_q, n_k, corner))


def test_opened_rows_get_zeros_and_a_finite_gradient():
    q, k, v = (torch.tensor(x, requires_grad=True) for x in sizes.qkv())
    keep = torch.as_tensor(masks.padding([7, 0], 7))

    def attend(q, k, v, keep):
        scores = (q @ k.mT / 2).masked_fill(~keep, -math.inf)
        return scores.softmax(dim=-1) @ v

    known = {"q": q, "k": k, "v": v, "keep": keep, "attend": attend}
    exec(BLOCKS[5], known)
    np.testing.assert_allclose(known["context"].detach(), reference.attention(
        q, k, v, keep)[0], atol=1e-12)
    known["context"].square().sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    bias = torch.as_tensor(masks.to_additive(keep))
    added = (q @ k.mT / 2 + bias).softmax(dim=-1) @ v
    nan = added.nan_to_num(0)
    assert torch.autograd.grad(nan.square().sum(), q)[0].isnan().any()
    assert len(BLOCKS) == 6


def test_the_masks_are_those_that_the_chapter_computed():
    true, by_hand = computed("| argument | bool"), computed("| for |")
    empty, rows = computed("| argument | out |"), table("argument")
    assert len(rows) == 5
    for name, word, line, floats, row, asked in rows:
        name = {"SDPA `attn_mask`": "SDPA", "Keras `attention_mask`": "Keras",
                "ONNX `attn_mask`": "ONNX"}.get(name, name)
        bools, _, zeros_and_ones, _ = true[name]
        assert (word.strip("*"), floats) == (bools, zeros_and_ones)
        assert line == by_hand[name][0]
        without = name == "SDPA"  # it returns no weights
        assert [row, asked] == [empty[name][0], "–" if without else empty[name][1]]


def test_is_causal_is_aligned_as_the_sheet_says():
    flags = computed("| call |")
    assert [flags[name][0] for name in ("SDPA", "Keras", "MHA")] == [
        "upper left", "upper left", "error"]
    assert flags["MHA"][1] == "flag only"


def test_the_counts_are_those_of_arrays():
    counts = dict(table("what"))
    every, general, weights, cache = counts.values()
    square, biases = every.split(", with biases ")
    for heads in (1, 3, 6):
        w = sizes.weights(d_in=12, d_out=12)
        matrices = sum(array.size for name, array in w.items() if name[0] == "W")
        assert eval(square.strip("`"), SIZES | {"heads": heads}) == matrices
        assert eval((square + biases).replace("`", " "), dict(SIZES)) == sum(
            array.size for array in w.values())
    w = sizes.weights()
    assert eval(general.strip("`"), SIZES | {"d_in": 11, "d_out": 13}) == sum(
        array.size for name, array in w.items() if name[0] == "W")
    q, k, v = sizes.qkv(heads=6, kv_heads=2, d_v=sizes.D_HEAD)
    grouped = SIZES | {"heads": 6, "kv_heads": 2}
    assert eval(cache.strip("`"), grouped) == k.size + v.size
    assert eval(weights.strip("`"), grouped) == reference.attention(q, k, v)[1].size


@pytest.mark.slow
def test_each_check_catches_all_programs_with_its_faults():
    rows = {row.fault: row for row in tables.table()}
    listed = table("faults, as the doctor calls them")
    assert len(listed) == 10
    seen = [(name, probe.strip("`")) for names, _, probe in listed for name in names.split(", ")]
    assert len({name for name, _ in seen}) == len(seen) > 20
    for name, probe in seen:
        assert rows[name].caught[probe] == 1, (name, probe)
    assert rows["transposed weight"].missed == rows["transposed weight"].programs
    assert rows["packed order"].missed > 0
    assert not any(row.caught["shape"] for row in rows.values())
