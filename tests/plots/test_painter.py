"""The mask painter computes what the reference computes from the mask that is painted."""

import numpy as np
import pytest
from first import first
from interactive import CHANCES, K, Q, V, choose, drag_a_finger, plain_softmax, read

from utils import masks, reference
from utils.attention import numpy as numpy_attention
from utils.plots import explore


def assert_reference(seen, keep, b=0):
    """Compare the painter's numbers with the reference, to 1e-6; ``keep`` is (i, j)."""
    context, weights = reference.attention(Q[b], K[b], V[b], keep)
    assert (seen["keep"] == keep).all()
    assert (seen["empty"] == ~keep.any(axis=1)).all()
    np.testing.assert_allclose(seen["weights"], weights, rtol=0, atol=1e-6)
    np.testing.assert_allclose(seen["context"], context, rtol=0, atol=1e-6)
    np.testing.assert_allclose(seen["sums"], weights.sum(axis=1), rtol=0, atol=1e-6)


def paint(page, i, j, device):
    """Press the cell of query i and key j with a mouse, a finger or the keyboard."""
    cell = page.get_by_role("gridcell", name=f"query {i}, key {j}:")
    if device == "mouse":
        cell.click()
    elif device == "touch":
        cell.tap()
    else:
        page.locator(".paint[tabindex='0']").focus()
        for key in ["ArrowUp"] * 5 + ["ArrowLeft"] * 7 + ["ArrowDown"] * i + ["ArrowRight"] * j:
            page.keyboard.press(key)
        page.keyboard.press("Space")


@pytest.mark.site
@pytest.mark.parametrize("device", first(["keyboard", "mouse", "touch"]))
def test_a_painted_mask_gives_the_numbers_of_the_reference(show, device):
    painter = explore.mask_painter(lengths=[6, 7], empty_query=None)
    with show(painter, touch=device == "touch", width=390 if device == "touch" else 1300) as page:
        choose(page, "fill", "zeros")
        choose(page, "dtype", "float64")
        keep = masks.padding([6, 7], 7)[0, 0, 0] & np.ones((5, 1), dtype=bool)  # (i, j)
        assert_reference(read(page), keep)
        rng = np.random.default_rng(0)
        for i, j in zip(rng.integers(5, size=6), rng.integers(7, size=6), strict=True):
            paint(page, i, j, device)
            keep[i, j] = not keep[i, j]
            assert_reference(read(page), keep)
        page.get_by_role("button", name="query 2:").press("Enter")
        keep[2] = not keep[2].any()
        assert_reference(read(page), keep)
        page.get_by_role("button", name="Undo painting").click()
        assert_reference(read(page), np.broadcast_to(np.arange(7) < 6, (5, 7)))


@pytest.mark.site
@pytest.mark.parametrize("align", first([None, "top_left", "bottom_right"]))
def test_lengths_and_causal_give_the_masks_of_utils(show, align):
    with show(explore.mask_painter(empty_query=None)) as page:
        choose(page, "fill", "zeros")
        choose(page, "dtype", "float64")
        choose(page, "causal", align or "off")
        causal = masks.causal(5, 7, align=align) if align else np.ones((5, 7), dtype=bool)
        for b in (1, 0):
            choose(page, "example", b)
            page.locator("#length").focus()
            page.keyboard.press("End")
            for length in range(7, -1, -1):
                assert_reference(read(page), causal & (np.arange(7) < length), b)
                page.keyboard.press("ArrowLeft")
        seen = read(page)
        assert seen["fate"] == "zeros"
        assert "masks.padding([0, 0], n_k=7)" in seen["code"]
        assert (f'& masks.causal(5, 7, align="{align}")' in seen["code"]) == bool(align)


def numpy_row(keep, fill, add, dtype):
    """Return weights (i, j) of example 0 as NumPy computes them in ``dtype``."""
    scores = (Q[0] @ K[0].T / 2).astype(dtype)
    if fill == "zeros":
        weights = plain_softmax(np.where(keep | ~keep.any(axis=1, keepdims=True), scores, -np.inf))
        return np.where(keep.any(axis=1, keepdims=True), weights, 0)
    number = {"-inf": -np.inf, "-1e9": -1e9, "lowest": np.finfo(dtype).min}[fill]
    with np.errstate(over="ignore"):
        number = np.asarray(number).astype(dtype)
    masked = np.where(keep, scores, scores + number if add else number)
    assert masked.dtype == dtype
    return plain_softmax(masked)


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("dtype", first(CHANCES))
@pytest.mark.parametrize("fill", first(["-1e9", "-inf", "lowest", "zeros"]))
def test_an_empty_row_meets_the_fate_it_has_in_numpy(show, fill, dtype):
    keep = np.broadcast_to(np.arange(7) < 6, (5, 7)).copy()
    keep[3] = False
    with show(explore.mask_painter()) as page:
        for add in (False, True):
            choose(page, "fill", "-inf")  # the switch is disabled where it means nothing
            choose(page, "add", str(add).lower())
            choose(page, "dtype", dtype)
            choose(page, "fill", fill)
            seen, expected = read(page), numpy_row(keep, fill, add, dtype).astype(float)
            np.testing.assert_allclose(seen["weights"], expected, rtol=0, atol=CHANCES[dtype])
            np.testing.assert_allclose(seen["context"], expected @ V[0], atol=30 * CHANCES[dtype])
            row = expected[3]
            unmasked = plain_softmax(Q[0] @ K[0].T / 2)[3]
            fate = ("nan" if np.isnan(row).all() else "zeros" if (row == 0).all() else
                    "uniform" if np.ptp(row) == 0 else
                    "unmasked" if np.allclose(row, unmasked, atol=1e-6) else "mixed")
            assert seen["fate"] == fate
            assert fate == FATES.get((fill, add, dtype), FATES.get(fill)), (fill, add, dtype)
            assert seen["shown"][3] == ["NaN" if np.isnan(w) else "0" if w == 0 else f"{w:.2f}"
                                        for w in row]


# What the chapter teaches: two exceptions to "−1e9 gives uniform", and why fp16 has one of them.
FATES = {"-inf": "nan", "-1e9": "uniform", "lowest": "uniform", "zeros": "zeros",
         ("-1e9", True, "float64"): "unmasked",
         ("-1e9", True, "float16"): "nan", ("-1e9", False, "float16"): "nan"}


@pytest.mark.slow
@pytest.mark.site
def test_without_an_empty_row_every_fill_agrees(show):
    with show(explore.mask_painter(empty_query=None)) as page:
        choose(page, "dtype", "float64")
        for fill in ("-inf", "-1e9", "lowest", "zeros"):
            choose(page, "fill", fill)
            seen = read(page)
            assert_reference(seen, np.broadcast_to(np.arange(7) < 6, (5, 7)))
            assert seen["fate"] == "none"


@pytest.mark.slow
@pytest.mark.site
def test_a_stroke_paints_all_it_crosses(show):
    with show(explore.mask_painter(empty_query=None)) as page:
        boxes = [page.locator(".paint").nth(n).bounding_box() for n in range(7, 12)]
        page.mouse.move(boxes[0]["x"] + 9, boxes[0]["y"] + 9)
        page.mouse.down()
        page.mouse.move(boxes[4]["x"] + 9, boxes[4]["y"] + 9, steps=30)
        page.mouse.up()
        page.mouse.move(boxes[4]["x"] + 9, boxes[4]["y"] + 99, steps=5)  # no button: no paint
        assert read(page)["keep"].tolist() == [
            [j < 6 and (i != 1 or j > 4) for j in range(7)] for i in range(5)]


@pytest.mark.slow
@pytest.mark.site
def test_a_finger_paints_across_and_scrolls_down(show):
    with show(explore.mask_painter(empty_query=None), touch=True, width=390, height=500) as page:
        page.locator("#weights").scroll_into_view_if_needed()
        before, top = read(page)["keep"], page.evaluate("scrollY")
        cell = page.locator(".paint").nth(2 * 7 + 1)
        drag_a_finger(page, cell, right=3 * cell.bounding_box()["width"])
        painted = read(page)["keep"]
        assert np.argwhere(painted != before).tolist() == [[2, 1], [2, 2], [2, 3], [2, 4]]
        drag_a_finger(page, cell, down=-150)
        page.wait_for_function(f"scrollY > {top} + 100")
        assert (read(page)["keep"] == painted).all()


@pytest.mark.slow
@pytest.mark.site
def test_the_table_says_what_the_map_draws(show):
    with show(explore.mask_painter()) as page:
        for fill in ("-inf", "-1e9"):
            choose(page, "fill", fill)
            seen = read(page)
            drawn = np.column_stack([seen["weights"], seen["sums"], seen["context"]])
            table = np.array([[float(text.strip("[]")) for text in row] for row in seen["numbers"]])
            np.testing.assert_allclose(table, drawn, rtol=1e-5)
            brackets = [[text.startswith("[") for text in row[:7]] for row in seen["numbers"]]
            assert (np.array(brackets) == ~seen["keep"]).all()


@pytest.mark.slow
@pytest.mark.site
def test_without_v_no_context_is_drawn(show):
    with show(explore.mask_painter(Q, K)) as page:
        assert page.locator("#context").count() == 0
        assert page.locator(".paint").count() == 35


@pytest.mark.slow
@pytest.mark.site
def test_a_cell_painted_back_counts_as_unpainted(show):
    with show(explore.mask_painter(empty_query=None)) as page:
        painted = []
        for _ in range(2):
            paint(page, 1, 2, "mouse")
            painted.append((page.locator(".by-hand").count(), page.locator("#clear").is_enabled(),
                            "# … and 1 cell painted by hand" in read(page)["code"]))
        assert painted == [(1, True, True), (0, False, False)]


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("theme", first(["light", "dark"]))
def test_more_weight_is_further_from_the_paper(show, theme):
    shades = """cells => cells.map(cell => [Number(cell.dataset.value), Math.abs(
      cell.style.background.match(/\\d+/g).reduce((a, n) => a + Number(n), 0) - paper)])"""
    paper = sum((242, 244, 247) if theme == "light" else (31, 38, 47))
    with show(explore.mask_painter(), theme=theme) as page:
        pairs = page.locator(".paint").evaluate_all(shades.replace("paper", str(paper)))
    distances = [distance for _, distance in sorted(pairs)]
    assert distances == sorted(distances)
    assert distances[0] == 0
    assert distances[-1] > 50


@pytest.mark.site
@pytest.mark.parametrize("dtype", first(CHANCES))
@pytest.mark.parametrize("fill", first(["-inf", "-1e9", "lowest", "zeros"]))
def test_the_code_on_show_gives_the_weights_on_show(show, fill, dtype):
    scores = (Q @ K.swapaxes(-2, -1) / 2).astype(dtype)[:, None]  # (b, h, i, j)
    names = {"np": np, "masks": masks, "softmax": plain_softmax,
             "masked_softmax": numpy_attention.masked_softmax, "scores": scores}
    with show(explore.mask_painter(Q, K, lengths=[0, 4], empty_query=None)) as page:
        choose(page, "causal", "top_left")
        choose(page, "dtype", dtype)
        for add in ("false", "true"):
            choose(page, "fill", "-inf")  # the switch is disabled where it means nothing
            choose(page, "add", add)
            choose(page, "fill", fill)
            for b in range(2):
                choose(page, "example", b)
                seen = read(page)
                with np.errstate(over="ignore", invalid="ignore"):
                    exec(seen["code"], names)
                assert names["weights"].dtype == dtype
                np.testing.assert_allclose(seen["weights"], names["weights"][b, 0].astype(float),
                                           rtol=0, atol=CHANCES[dtype])
