"""The figures that readers move: what they say is what NumPy and PyTorch compute."""

import base64
import json
import re
from contextlib import contextmanager
from html import unescape

import numpy as np
import pytest
import torch
from browser import open_page, served
from page_audit import accessibility, too_wide

from utils import masks, reference, sizes
from utils.attention import numpy as numpy_attention
from utils.measure import costs
from utils.plots import _head_data, explore

PAGE = """<!doctype html><html lang="en" {html}><head><meta charset="utf-8"><title>Figures</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,"><style>{css}</style></head>
<body><main><h1>Figures</h1>{body}</main></body></html>"""
HOSTILE = "* { color: red; font: 30px serif; letter-spacing: 9px } span, td { padding: 50px }"


@pytest.fixture
def show(chromium, tmp_path):
    """Return a context manager: figures on one page, which must end without any problem."""
    @contextmanager
    def shown(*figures, html="", css="", body="", **how):
        body = body or "<p>between</p>".join(figure._repr_html_() for figure in figures)
        (tmp_path / "page.html").write_text(PAGE.format(html=html, css=css, body=body),
                                            encoding="utf-8")
        with served(tmp_path) as address, open_page(chromium, address + "page.html", **how) as page:
            yield page
            assert page.problems == []
    return shown


def choose(page, name, value):
    """Press the segment of a switch that has this value."""
    page.locator(f"#{name} input[value='{value}']").check()


# --- what needs no browser

def head_maps(layers, heads, n_q, n_k, keep=None, seed=0):
    """Return weights (layer, h, i, j) of random scores, float32: some heads sharp, some flat."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((layers, heads, n_q, n_k)) * rng.uniform(
        0.5, 5, size=(layers, heads, 1, 1))
    keep = np.ones((n_q, n_k), dtype=bool) if keep is None else keep
    return numpy_attention.masked_softmax(scores, keep).astype(np.float32)


TEXT = list("to be,\nor")
SCORES = {"first token": head_maps(3, 4, 9, 9, masks.causal(9))[..., 0].mean(axis=-1),
          "change of loss": np.random.default_rng(1).standard_normal((3, 4))}


def head_browser():
    """Return a head browser of three layers, four heads each, and nine letters, causal."""
    return explore.head_browser(TEXT, head_maps(3, 4, 9, 9, masks.causal(9)), scores=SCORES,
                                start=(1, 2))


FIGURES = (explore.reshape_microscope, explore.mask_painter, head_browser, explore.cost_crossing)


@pytest.mark.parametrize("make", FIGURES)
def test_same_arguments_give_same_bytes(make):
    assert make()._repr_html_() == make()._repr_html_()


@pytest.mark.parametrize("make", FIGURES)
def test_a_figure_is_small_and_asks_no_host(make):
    text = make()._repr_html_()
    assert len(text.encode()) < 40_000
    for loads in ("http:", "https:", "src=", "href", "url(", "@import", "fetch(", "import("):
        assert loads not in text, loads


def test_plain_text_is_short_and_stable():
    assert [repr(make()) for make in FIGURES] == ["<reshape microscope>", "<mask painter>",
                                                 "<head browser>", "<cost crossing>"]


def test_figures_do_not_change_their_arguments():
    q, k, v = (side[:, 0] for side in sizes.qkv(4))
    lengths, before = sizes.lengths(4), [side.copy() for side in (q, k, v)]
    explore.mask_painter(q, k, v, lengths)
    assert all((a == b).all() for a, b in zip((q, k, v), before, strict=True))


def test_tensors_make_the_same_figure_as_arrays():
    q, k, v = (side[:, 0] for side in sizes.qkv(4))
    tensors = map(torch.as_tensor, (q, k, v))
    assert explore.mask_painter(*tensors).html == explore.mask_painter(q, k, v).html


Q, K, V = (side[:, 0] for side in sizes.qkv())


@pytest.mark.parametrize(("make", "message"), [
    (lambda: explore.reshape_microscope(heads=0), "heads must be at least 1, got 0"),
    (lambda: explore.reshape_microscope(length=9), "length must be at most 8 to be drawn, got 9"),
    (lambda: explore.reshape_microscope(heads=4, d_head=5),
     "heads * d_head must be at most 16 to be drawn, got 20"),
    (lambda: explore.mask_painter(Q, K[..., :3]),
     "array 2 must be (b, j, d), got (2, 7, 3): axis d has size 3 here, and 4 in an earlier array"),
    (lambda: explore.mask_painter(Q, K, V[:, :6]),
     "array 3 must be (b, j, c), got (2, 6, 8): axis j has size 6 here, and 7 in an earlier array"),
    (lambda: explore.mask_painter(Q, K, lengths=[6, 8]),
     "lengths must be (2,) integers in 0 .. n_k=7, got [6, 8]"),
    (lambda: explore.mask_painter(Q, K, lengths=[6]),
     "lengths must be (2,) integers in 0 .. n_k=7, got [6]"),
    (lambda: explore.mask_painter(Q, K, lengths=[6.5, 7.0]),
     "lengths must be (2,) integers in 0 .. n_k=7, got [6.5, 7.0]"),
    (lambda: explore.mask_painter(Q, v=V),
     "q and k must be given together: pass both, or none of q, k and v"),
    (lambda: explore.mask_painter(Q, K * np.inf), "k has elements that are not finite"),
    (lambda: explore.mask_painter(np.repeat(Q, 2, axis=1), K),
     "n_q must be at most 8 to be drawn, got 10"),
    (lambda: explore.mask_painter(Q, K, np.repeat(V, 3, axis=2)),
     "d_v must be at most 16 to be drawn, got 24"),
    (lambda: explore.mask_painter(Q, K, empty_query=5),
     "empty_query must be None or in 0 .. 4, got 5"),
    (lambda: explore.cost_crossing(d_model=500),
     "d_model must be one of 128, 256, 512, 768, 1024, 2048, 4096, 8192, got 500"),
    (lambda: explore.cost_crossing(n_heads=3), "n_heads must be one of 1, 2, 4, 8, 16, 32, got 3"),
    (lambda: explore.cost_crossing(n=7), "n must be in 8 .. 131072, got 7"),
    (lambda: explore.cost_crossing(n=2**17 + 1), "n must be in 8 .. 131072, got 131073"),
])
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole message is compared
        make()
    assert str(error.value) == message


# --- the reshape microscope

READ_MICROSCOPE = """() => {
  const root = document.querySelector('[data-explore]').shadowRoot;
  const grid = id => {
    const rows = [...root.querySelectorAll(`#${id} [role=grid] > .row`)];
    const cells = rows.map(row => [...row.querySelectorAll('.cell')]);
    const chosen = cells.flatMap((row, i) => row.flatMap(
      (cell, c) => cell.classList.contains('chosen') ? [[i, c]] : []));
    return {offsets: cells.map(row => row.map(cell => Number(cell.textContent))), chosen,
            words: cells.map(row => row.map(cell => Number(cell.dataset.word))),
            colours: cells.map(row => row.map(cell => cell.style.background))};
  };
  const rows = id => [...root.querySelectorAll(`#${id} tbody tr`)].map(
    row => [...row.cells].map(cell => cell.textContent));
  const text = id => root.getElementById(id).textContent;
  return {x: grid('x'), view: grid('view'), panels: grid('panels'), index: rows('index'),
    rows: rows('rows'), facts: text('facts'), status: text('status'), code: text('code'),
    verdict: text('verdict'), inPlace: Number(root.getElementById('verdict').dataset.inPlace),
    held: [...root.querySelectorAll('#panels .head')].map(head => Number(head.dataset.words)),
    strip: [...root.querySelectorAll('#strip i')].findIndex(
      cell => cell.classList.contains('chosen'))};
}"""
SETTINGS = ({}, {"batch": 3, "length": 4, "heads": 2, "d_head": 3},
            {"batch": 1, "length": 3, "heads": 1, "d_head": 5})


def tensors(mode, batch=2, length=5, heads=3, d_head=4):
    """Return PyTorch's own x, x.view and the heads, each holding its offsets in memory."""
    x = torch.arange(batch * length * heads * d_head).view(batch, length, heads * d_head)
    view = x.view(batch, length, heads, d_head)
    split = view.transpose(1, 2)
    return (x, view, split) if mode == "false" else (x, x.view(split.shape))


@pytest.mark.site
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("mode", ["false", "true"])
def test_every_element_is_where_pytorch_has_it(show, setting, mode):
    expected = tensors(mode, **setting)
    batch, length, features = expected[0].shape
    with show(explore.reshape_microscope(**setting)) as page:
        choose(page, "mode", mode)
        for b in range(batch):
            choose(page, "example", b)
            page.locator("#x .chosen").focus()
            for _ in range(length):
                page.keyboard.press("ArrowUp")
            for i in range(length):
                page.keyboard.press("Home")
                for e in range(features):
                    assert_reports(page.evaluate(READ_MICROSCOPE), expected, b, i, e)
                    page.keyboard.press("ArrowRight")
                page.keyboard.press("ArrowDown")


def assert_reports(seen, expected, b, i, e):
    """Compare all that the microscope says of element (b, i, e) with PyTorch's tensors."""
    offset = int(expected[0][b, i, e])
    length, features = expected[0].shape[1:]
    by_head = expected[-1][b].transpose(0, 1).reshape(length, features)  # (i, h * d) as drawn
    assert seen["x"]["offsets"] == expected[0][b].tolist()
    assert seen["view"]["offsets"] == expected[0][b].tolist()
    assert seen["panels"]["offsets"] == by_head.tolist()
    assert seen["panels"]["words"] == (by_head // features % length).tolist()
    assert seen["x"]["chosen"] == seen["view"]["chosen"] == [[i, e]]
    assert seen["panels"]["chosen"] == (by_head == offset).nonzero().tolist()
    assert seen["strip"] == i * features + e
    assert len(seen["index"]) == len(expected)
    for row, tensor in zip(seen["index"], expected, strict=True):
        index = (tensor == offset).nonzero()[0].tolist()
        terms = " + ".join(f"{n}·{s}" for n, s in zip(index, tensor.stride(), strict=True))
        assert row[1:] == [str(tuple(tensor.shape)), str(tensor.stride()),
                           "yes" if tensor.is_contiguous() else "no", str(index),
                           f"{terms} = {offset}"]
    assert f"word {i}, feature {e} of example {b}" in seen["facts"]
    _, head, row, _ = (expected[-1] == offset).nonzero()[0].tolist()
    assert f"head {head}, row {row}" in seen["status"]


@pytest.mark.site
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_torn_heads_are_counted_as_numpy_counts_them(show, setting):
    with show(explore.reshape_microscope(**setting)) as page:
        for mode in ("false", "true"):
            choose(page, "mode", mode)
            seen = page.evaluate(READ_MICROSCOPE)
            heads, right = tensors(mode, **setting)[-1][0], tensors("false", **setting)[-1][0]
            n_heads, length, d_head = heads.shape
            words = heads // (n_heads * d_head)
            assert seen["held"] == [len(words[h].unique()) for h in range(n_heads)]
            assert seen["inPlace"] == pytest.approx((heads == right).double().mean().item())
            expected_rows = [
                [f"head {h}, row {i}", " ".join(map(str, heads[h, i].tolist())),
                 " and ".join(map(str, words[h, i].unique().tolist()))]
                for h in range(n_heads) for i in range(length)]
            assert seen["rows"] == expected_rows


@pytest.mark.site
def test_the_torn_view_says_what_the_chapter_says(show):
    with show(explore.reshape_microscope()) as page:
        assert page.evaluate(READ_MICROSCOPE)["code"] == (
            "split = x.view(2, 5, 3, 4).transpose(1, 2)")
        choose(page, "mode", "true")
        seen = page.evaluate(READ_MICROSCOPE)
        assert seen["code"] == "torn = x.view(2, 3, 5, 4)"
        assert seen["verdict"] == ("Same shape (2, 3, 5, 4), torn words: head 0 holds 2 of 5 "
                                   "words, and 20 % of the numbers are in place.")


@pytest.mark.site
def test_a_colour_is_a_word(show):
    with show(explore.reshape_microscope(length=8, heads=2, d_head=3)) as page:
        choose(page, "mode", "true")
        seen = page.evaluate(READ_MICROSCOPE)
        pairs = {pair for name in ("x", "panels") for words, colours in zip(
            seen[name]["words"], seen[name]["colours"], strict=True)
            for pair in zip(words, colours, strict=True)}
        assert len(pairs) == len({word for word, _ in pairs}) == len({c for _, c in pairs}) == 8


@pytest.mark.site
@pytest.mark.parametrize("touch", [False, True])
def test_pointers_pick_in_every_drawing(show, touch):
    with show(explore.reshape_microscope(), touch=touch, width=390 if touch else 1300) as page:
        for name, place, offset in (("x", 17, 17), ("view", 33, 33), ("panels", 58, 58)):
            cell = page.locator(f"#{name} .cell").nth(place)
            cell.tap() if touch else cell.click()
            assert f"Offset {offset}:" in page.locator("#status").text_content()
        page.locator("#strip").scroll_into_view_if_needed()
        box = page.locator("#strip").bounding_box()
        at = (box["x"] + box["width"] * 25.5 / 60, box["y"] + 5)
        page.touchscreen.tap(*at) if touch else page.mouse.click(*at)
        assert page.evaluate(READ_MICROSCOPE)["strip"] == 25
        if not touch:
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] * 41.5 / 60, at[1])
            page.mouse.up()
            assert page.evaluate(READ_MICROSCOPE)["strip"] == 41
            for key, place in (("PageUp", 53), ("ArrowLeft", 52), ("PageDown", 40), ("Home", 0),
                               ("ArrowDown", 0), ("ArrowRight", 1), ("End", 59)):
                page.keyboard.press(key)
                assert page.evaluate(READ_MICROSCOPE)["strip"] == place


# --- the mask painter

READ_PAINTER = """() => {
  const root = document.querySelector('[data-explore=mask-painter]').shadowRoot;
  const rows = (table, what) => [...root.querySelectorAll(`#${table} tbody tr`)].map(what);
  const values = kind => row => [...row.querySelectorAll(kind)].map(
    cell => Number(cell.dataset.value));
  return {weights: rows('weights', values('.cell')), context: rows('context', values('.cell')),
    sums: rows('weights', values('.sum')).flat(),
    keep: rows('weights', row => [...row.querySelectorAll('.cell')].map(
      cell => cell.getAttribute('aria-selected') === 'true')),
    shown: rows('weights', row => [...row.querySelectorAll('.cell')].map(
      cell => cell.textContent)),
    empty: rows('weights', row => row.classList.contains('empty')),
    numbers: rows('numbers', row => [...row.cells].slice(1).map(cell => cell.textContent)),
    fate: root.getElementById('verdict').dataset.fate,
    verdict: root.getElementById('verdict').textContent,
    code: root.getElementById('code').textContent};
}"""


def read(page):
    """Return what the painter shows, numbers as arrays."""
    seen = page.evaluate(READ_PAINTER)
    for name in ("weights", "context", "sums", "keep", "empty"):
        seen[name] = np.array(seen[name])
    return seen


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
@pytest.mark.parametrize("device", ["mouse", "touch", "keyboard"])
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
@pytest.mark.parametrize("align", [None, "top_left", "bottom_right"])
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


def plain_softmax(scores):
    """Return the softmax that everyone writes, in the dtype of the scores, NaN and all."""
    with np.errstate(invalid="ignore"):
        exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return exps / exps.sum(axis=-1, keepdims=True)


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


CHANCES = {"float64": 1e-12, "float32": 1e-6, "float16": 1e-3}  # a rounding or two of exp


@pytest.mark.site
@pytest.mark.parametrize("dtype", CHANCES)
@pytest.mark.parametrize("fill", ["-inf", "-1e9", "lowest", "zeros"])
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


@pytest.mark.site
def test_without_an_empty_row_every_fill_agrees(show):
    with show(explore.mask_painter(empty_query=None)) as page:
        choose(page, "dtype", "float64")
        for fill in ("-inf", "-1e9", "lowest", "zeros"):
            choose(page, "fill", fill)
            seen = read(page)
            assert_reference(seen, np.broadcast_to(np.arange(7) < 6, (5, 7)))
            assert seen["fate"] == "none"


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


def drag_a_finger(page, cell, right=0, down=0):
    """Touch the middle of a cell, move in twelve steps, let go: touch events, as a screen's."""
    box = cell.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    send = page.context.new_cdp_session(page).send
    send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for n in range(1, 13):
        at = {"x": x + right * n / 12, "y": y + down * n / 12}
        send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [at]})
    send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


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


@pytest.mark.site
def test_without_v_no_context_is_drawn(show):
    with show(explore.mask_painter(Q, K)) as page:
        assert page.locator("#context").count() == 0
        assert page.locator(".paint").count() == 35


@pytest.mark.site
def test_a_cell_painted_back_counts_as_unpainted(show):
    with show(explore.mask_painter(empty_query=None)) as page:
        painted = []
        for _ in range(2):
            paint(page, 1, 2, "mouse")
            painted.append((page.locator(".by-hand").count(), page.locator("#clear").is_enabled(),
                            "# … and 1 cell painted by hand" in read(page)["code"]))
        assert painted == [(1, True, True), (0, False, False)]


@pytest.mark.site
@pytest.mark.parametrize("theme", ["light", "dark"])
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
@pytest.mark.parametrize("dtype", CHANCES)
@pytest.mark.parametrize("fill", ["-inf", "-1e9", "lowest", "zeros"])
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


# --- the head browser: its data

def unpacked(html):
    """Return the data in the HTML of a figure as a dict."""
    return json.loads(unescape(re.search(r'data-config="([^"]*)"', html)[1]))


def floats(text):
    """Return the float32 numbers that a base64 text holds."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def test_every_weight_is_shipped_as_it_is():
    weights = head_maps(2, 3, 5, 7)
    data = unpacked(explore.head_browser("abcde", weights, keys="uvwxyzz").html)
    assert (floats(data["weights"]).reshape(weights.shape) == weights).all()
    assert (data["tokens"], data["keys"]) == (list("abcde"), list("uvwxyzz"))
    assert (data["shape"], data["causal"], data["scores"]) == ([2, 3, 5, 7], False, {})


def test_of_causal_weights_the_triangle_is_shipped():
    weights = head_maps(2, 3, 6, 6, masks.causal(6))
    data = unpacked(explore.head_browser("abcdef", weights).html)
    rows = [weights[layer, head, i, :i + 1] for layer in range(2) for head in range(3)
            for i in range(6)]
    assert data["causal"]
    assert (floats(data["weights"]) == np.concatenate(rows)).all()
    weights[1, 2, 0, :2] = 0.5   # one query looks ahead
    data = unpacked(explore.head_browser("abcdef", weights).html)
    assert not data["causal"]
    assert (floats(data["weights"]).reshape(weights.shape) == weights).all()


@pytest.mark.parametrize(("shape", "causal"), [((4, 4, 48, 48), True), ((6, 12, 14, 14), False)])
def test_the_heads_of_a_chapter_fit_on_its_page(shape, causal):
    weights = head_maps(*shape, masks.causal(48) if causal else None)
    scores = {name: weights[..., 0].mean(axis=-1) for name in "ab"}
    figure = explore.head_browser(["token"] * shape[-1], weights, scores=scores)
    assert len(figure.html.encode()) < 150_000


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_heads_come_in_any_dtype(dtype):
    weights = torch.as_tensor(head_maps(2, 3, 40, 60)).requires_grad_().to(dtype)
    figure = explore.head_browser(["q"] * 40, weights, ["k"] * 60)
    shipped = floats(unpacked(figure.html)["weights"])
    assert (shipped == weights.detach().float().numpy().ravel()).all()
    assert figure.html == explore.head_browser(["q"] * 40, shipped.reshape(2, 3, 40, 60),
                                               ["k"] * 60).html


HEADS = head_maps(2, 3, 5, 5)


def damaged(place, number, weights=HEADS):
    """Return a copy of weights with another number at a place."""
    weights = weights.copy()
    weights[place] = number
    return weights


@pytest.mark.parametrize(("make", "message"), [
    (lambda: explore.head_browser("abcde", HEADS[0]),
     "weights must be (layer, h, i, j), got (3, 5, 5)"),
    (lambda: explore.head_browser("abcd", HEADS), "weights have n_q=5, got 4 tokens"),
    (lambda: explore.head_browser("abcde", HEADS, "uvwxyz"),
     "weights have n_k=5, got 6 keys"),
    (lambda: explore.head_browser("abcde", head_maps(2, 3, 5, 7)),
     "weights have n_q=5 queries and n_k=7 keys: pass keys as well"),
    (lambda: explore.head_browser("abcde", damaged((1, 2, 3, 4), np.nan)),
     "weights of layer 1, head 2: row 3 has elements that are not finite"),
    (lambda: explore.head_browser("abcde", damaged((1, 2, 3, 4), np.inf)),
     "weights of layer 1, head 2: row 3 has elements that are not finite"),
    (lambda: explore.head_browser("abcde", damaged((1, 0, 3), [0.5, 0.75, -0.25, 0, 0])),
     "weights of layer 1, head 0: row 3 has a negative weight"),
    (lambda: explore.head_browser("abcde", damaged((1, 0, 4), 0.3)),
     "weights of layer 1, head 0: row 4 must sum to 1, or to 0 if fully masked, got 1.500"),
    (lambda: explore.head_browser("abcde", damaged((0, 2, 1), 0.01)),
     "weights of layer 0, head 2: row 1 must sum to 1, or to 0 if fully masked, got 0.050"),
    (lambda: explore.head_browser("x" * 65, np.eye(65)[None, None]),
     "the number of tokens must be in 1 .. 64, got 65"),
    (lambda: explore.head_browser("abcde", np.ones((1, 1, 5, 65)) / 65, "x" * 65),
     "the number of keys must be in 1 .. 64, got 65"),
    (lambda: explore.head_browser("abcde", np.repeat(HEADS, 6, axis=1)),
     "the number of heads must be in 1 .. 16, got 18"),
    (lambda: explore.head_browser("abcde", np.repeat(HEADS, 9, axis=0)),
     "the number of layers must be in 1 .. 16, got 18"),
    (lambda: explore.head_browser("", np.ones((1, 1, 0, 0))),
     "the number of tokens must be in 1 .. 64, got 0"),
    (lambda: explore.head_browser("x" * 64, np.full((4, 5, 64, 64), 1 / 64)),
     "the weights must take at most 300 kB, got 437 kB: pass fewer tokens, layers or heads"),
    (lambda: explore.head_browser("abcde", HEADS, scores={"a": np.ones((3, 2))}),
     "scores['a'] must be (layer, h) = (2, 3), got (3, 2)"),
    (lambda: explore.head_browser("abcde", HEADS, scores={"a": np.full((2, 3), np.nan)}),
     "scores['a'] has elements that are not finite"),
    (lambda: explore.head_browser("abcde", HEADS, start=(2, 1)),
     "start must be (layer, head), at most (1, 2), got (2, 1)"),
    (lambda: explore.head_browser("abcde", HEADS, start=(1, 3)),
     "start must be (layer, head), at most (1, 2), got (1, 3)"),
    (lambda: explore.head_browser("abcde", HEADS, start=(-1, 0)),
     "start must be (layer, head), at most (1, 2), got (-1, 0)"),
    (lambda: explore.head_browser("abcde", HEADS, start=(0.0, 1)),
     "start must be (layer, head), at most (1, 2), got (0.0, 1)"),
])
def test_bad_heads_are_named(make, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole message is compared
        make()
    assert str(error.value) == message


@pytest.mark.parametrize(("arguments", "message"), [
    (([*"abcd", 5], HEADS), "tokens[4] must be a str, got int"),
    (("abcde", HEADS, [*"abc", None, "e"]), "keys[3] must be a str, got NoneType"),
])
def test_a_token_that_is_no_text_is_refused(arguments, message):
    with pytest.raises(TypeError) as error:
        explore.head_browser(*arguments)
    assert str(error.value) == message


def test_an_empty_row_and_the_largest_figure_are_welcome():
    explore.head_browser("abcde", damaged((1, 0, 4), 0))
    causal = np.broadcast_to(np.tri(64) / np.arange(1, 65)[:, None], (6, 4, 64, 64))
    html = explore.head_browser("x" * 64, causal).html   # the triangle is all that counts
    assert _head_data.MOST_BYTES * 0.8 < len(html) < _head_data.MOST_BYTES * 1.1


# --- the head browser: in the browser

READ_HEADS = """() => {
  const root = document.querySelector('[data-explore=head-browser]').shadowRoot;
  const all = selector => [...root.querySelectorAll(selector)];
  const picked = items => items.findIndex(e => e.getAttribute('aria-selected') === 'true');
  const thumbs = all('#overview .row').slice(1).map(row => [...row.querySelectorAll('.head')]);
  const list = root.querySelector('[role=listbox]');
  const shaded = all('.strip').find(e => e.firstChild.dataset.value !== '');
  const cursor = root.getElementById('cursor');
  return {heads: thumbs.flatMap((row, layer) => row.flatMap((thumb, head) =>
      thumb.getAttribute('aria-selected') === 'true' ? [[layer, head]] : [])),
    name: root.getElementById('name').textContent, chosen: picked([...list.children]),
    line: [...shaded.children].map(e => Number(e.dataset.value)),
    spoken: [...shaded.children].map(e => e.getAttribute('aria-label')),
    at: [Number(cursor.dataset.i), Number(cursor.dataset.j)], value: Number(cursor.dataset.value),
    cell: root.getElementById('cell').textContent, cursor: cursor.getAttribute('aria-label'),
    listed: all('#numbers tbody tr').map(row => Number(row.dataset.n)),
    values: all('#numbers tbody tr').map(row => Number(row.dataset.value)),
    written: all('#numbers tbody tr').map(row => row.lastChild.textContent),
    tokens: all('#numbers .token').map(e => e.textContent),
    caption: root.querySelector('#numbers caption').textContent,
    foot: all('#numbers tfoot td').map(e => e.textContent),
    status: root.getElementById('status').textContent};
}"""


def written(weight):
    """Return a weight as the head browser writes it."""
    return "0" if weight == 0 else "< 0.001" if weight < 0.0005 else f"{weight:.3f}"


def assert_line(seen, weights, layer, head, side, n, names):
    """Compare what is read of query n (its row) or key n (its column) with weights."""
    line = weights[layer, head, n] if side == "query" else weights[layer, head, :, n]
    order = np.argsort(-line, kind="stable")
    most = [j for j in order[:5] if line[j] > 0]
    assert (seen["heads"], seen["name"]) == ([[layer, head]], f"Layer {layer}, head {head}")
    assert seen["chosen"] == n
    np.testing.assert_allclose(seen["line"], line, rtol=0, atol=1e-7)
    assert [text.split(", weight ")[1] for text in seen["spoken"]] == [written(w) for w in line]
    assert seen["listed"] == most
    np.testing.assert_allclose(seen["values"], line[most], rtol=0, atol=1e-7)
    assert seen["written"] == [written(line[j]) for j in most]
    assert seen["tokens"] == [names["key" if side == "query" else "query"][j] for j in most]
    assert seen["caption"].startswith(f"{side} {n} “{names[side][n]}”")
    assert ("nothing" in seen["caption"]) == (not most)
    rest = (line > 0).sum() - len(most)
    if side == "key":
        assert float(seen["foot"][1].replace("< ", "")) == pytest.approx(line.sum(), abs=1e-3)
    elif rest:
        assert seen["foot"][0] == (f"{rest} more keys together" if rest > 1 else "1 more key")
        assert float(seen["foot"][1].replace("< ", "")) == pytest.approx(
            line.sum() - line[most].sum(), abs=1e-3)
    else:
        assert seen["foot"] == []
    assert_cell(seen, weights, layer, head, *((n, order[0]) if side == "query" else (order[0], n)))


def assert_cell(seen, weights, layer, head, i, j):
    """Compare what is read of one cell of the large map with weights."""
    assert seen["at"] == [i, j]
    assert seen["value"] == pytest.approx(weights[layer, head, i, j], abs=1e-7)
    number = written(weights[layer, head, i, j])
    assert seen["cell"].endswith(f": {number}")
    assert seen["cursor"].startswith(f"query {i}: ")
    assert seen["cursor"].endswith(f", weight {number}")
    assert f", key {j}: " in seen["cursor"]
    assert seen["status"].startswith(f"Layer {layer}, head {head}. Query {i}: ")
    assert seen["status"].endswith(f", weight {number}.")


def press(page, element, device):
    """Click or tap an element."""
    element.tap() if device == "touch" else element.click()


def pick_head(page, layer, head, device):
    """Choose a head in the overview."""
    if device != "keyboard":
        row = page.locator("#overview .row").nth(layer + 1)
        press(page, row.locator(".head").nth(head), device)
        return
    page.locator(".head[tabindex='0']").focus()
    for key in ["ArrowUp"] * 5 + ["Home"] + ["ArrowDown"] * layer + ["ArrowRight"] * head:
        page.keyboard.press(key)


def pick_token(page, n, device):
    """Choose a token in the text."""
    if device != "keyboard":
        press(page, page.locator("[role='option']").nth(n), device)
        return
    page.locator("[role='option'][tabindex='0']").focus()
    for key in ["Home"] + ["ArrowRight"] * n:
        page.keyboard.press(key)


def pick_cell(page, i, j, n_q, n_k, device):
    """Choose a cell of the large map."""
    if device == "keyboard":
        page.locator("#cursor").focus()
        for key in ["Home", "PageUp"] + ["ArrowDown"] * i + ["ArrowRight"] * j:
            page.keyboard.press(key)
        return
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    at = (box["x"] + box["width"] * (j + 0.5) / n_k, box["y"] + box["height"] * (i + 0.5) / n_q)
    page.touchscreen.tap(*at) if device == "touch" else page.mouse.click(*at)


WORDS = ["[CLS]", "mask", "##ing", "is", ",", "[SEP]", "[PAD]", "[PAD]"]
CASES = {   # tokens, keys, mask, weights
    "causal": (list("to be or not"), None, head_maps(3, 4, 12, 12, masks.causal(12))),
    "padded": (WORDS, None, head_maps(2, 5, 8, 8, np.arange(8) < 6)),
    "cross": (WORDS[:5], list("abcdefg"), head_maps(3, 2, 5, 7, (np.arange(5) != 2)[:, None])),
}


@pytest.mark.site
@pytest.mark.parametrize("device", ["mouse", "touch", "keyboard"])
@pytest.mark.parametrize("case", CASES)
def test_what_is_read_is_what_the_model_has(show, case, device):
    tokens, keys, weights = CASES[case]
    names = {side: [token.replace(" ", "␣") for token in some]
             for side, some in (("query", tokens), ("key", keys or tokens))}
    layers, heads, n_q, n_k = weights.shape
    how = {"touch": device == "touch", "width": 390 if device == "touch" else 1300}
    rng, told = np.random.default_rng(2), set()
    with show(explore.head_browser(tokens, weights, keys), **how) as page:
        for turn in range(8):
            layer, head, i, j = (int(rng.integers(n)) for n in weights.shape)
            side = ("query", "key")[turn % 2]
            choose(page, "by", side)
            pick_head(page, layer, head, device)
            n = 2 if turn == 0 else i if side == "query" else j    # in "cross", row 2 is empty
            pick_token(page, n, device)
            seen = page.evaluate(READ_HEADS)
            assert_line(seen, weights, layer, head, side, n, names)
            told.add(seen["status"])
            pick_cell(page, i, j, n_q, n_k, device)
            assert_cell(page.evaluate(READ_HEADS), weights, layer, head, i, j)
    assert len(told) == 8


@pytest.mark.site
def test_the_browser_starts_where_it_is_told(show):
    with show(head_browser()) as page:
        seen = page.evaluate(READ_HEADS)
        names = {side: list("to␣be,↵or") for side in ("query", "key")}
        weights = head_maps(3, 4, 9, 9, masks.causal(9))
        assert seen["status"] == ""    # nobody has asked
        seen["status"] = "Layer 1, head 2. Query 5: , weight " + written(seen["value"]) + "."
        assert_line(seen, weights, 1, 2, "query", 5, names)


@pytest.mark.site
def test_a_mouse_shows_and_only_a_click_chooses(show):
    weights = CASES["padded"][2]
    with show(explore.head_browser(WORDS, weights)) as page:
        before = page.evaluate(READ_HEADS)
        page.locator("[role='option']").nth(1).hover()
        seen = page.evaluate(READ_HEADS)
        assert (seen["chosen"], seen["status"]) == (1, "")
        assert seen["line"] == pytest.approx(weights[0, 0, 1], abs=1e-7)
        box = page.locator("#map").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 3.5 / 8, box["y"] + box["height"] * 6.5 / 8)
        seen = page.evaluate(READ_HEADS)
        assert (seen["at"], seen["chosen"]) == ([6, 3], 6)
        assert seen["line"] == pytest.approx(weights[0, 0, 6], abs=1e-7)
        page.mouse.move(5, 5)
        assert page.evaluate(READ_HEADS) == before
        page.locator("[role='option']").nth(2).click()
        page.mouse.move(5, 5)
        assert page.evaluate(READ_HEADS)["chosen"] == 2
        page.locator("[role='option']").nth(5).hover()
        page.keyboard.press("ArrowRight")   # the keyboard goes on from what was chosen
        assert page.evaluate(READ_HEADS)["chosen"] == 3


@pytest.mark.site
def test_a_finger_chooses_where_it_lets_go_and_scrolls_down(show):
    figure = explore.head_browser(WORDS, CASES["padded"][2])
    with show(figure, touch=True, width=390, height=700) as page:
        page.locator("#strips").scroll_into_view_if_needed()
        token = page.locator("[role='option']").nth(1)
        third = page.locator("[role='option']").nth(3).bounding_box()
        right = third["x"] + third["width"] / 2 - (
            token.bounding_box()["x"] + token.bounding_box()["width"] / 2)
        drag_a_finger(page, token, right=right)
        assert page.evaluate(READ_HEADS)["chosen"] == 3
        before, top = page.evaluate(READ_HEADS), page.evaluate("scrollY")
        drag_a_finger(page, token, down=150)
        page.wait_for_function(f"scrollY < {top} - 80")
        assert page.evaluate(READ_HEADS) == before
        drag_a_finger(page, page.locator("#map"), down=-150)
        page.wait_for_function(f"scrollY > {top} - 80")
        assert page.evaluate(READ_HEADS) == before


@pytest.mark.site
def test_white_space_can_be_seen_and_heard(show):
    tokens = [" ", "\n", "\t", "", "a b", "<i>&\"'"]
    with show(explore.head_browser(tokens, head_maps(1, 1, 6, 6))) as page:
        for strip in (".strip", "#queries", "#keys"):
            assert page.locator(f"{strip} span").all_text_contents() == [
                "␣", "↵", "⇥", "∅", "a␣b", "<i>&\"'"]
        heard = [text.split(": ", 1)[1].split(", weight")[0]
                 for text in page.evaluate(READ_HEADS)["spoken"]]
        assert heard == ["space", "newline", "tab", "empty", "a b", "<i>&\"'"]


@pytest.mark.site
def test_scores_are_laid_over_the_overview(show):
    read = """e => e.map(x => [Number(x.dataset.score), x.querySelector('.score').textContent,
      x.querySelector('.bar i').getBoundingClientRect().width
        / (x.querySelector('.bar').getBoundingClientRect().width || 1),
      x.classList.contains('top'), x.getAttribute('aria-label')])"""
    with show(head_browser()) as page:
        assert not page.locator(".bar").first.is_visible()
        assert page.locator("#ranks").inner_text() == ""
        for name, score in SCORES.items():
            choose(page, "score", name)
            values, texts, bars, tops, labels = zip(
                *page.locator(".head").evaluate_all(read), strict=True)
            flat = score.ravel()
            np.testing.assert_allclose(values, flat, rtol=1e-12)
            assert list(texts) == [f"{x:.2f}".replace("-", "−") for x in flat]
            np.testing.assert_allclose(bars, np.maximum(flat, 0) / flat.max(), atol=0.02)
            assert np.flatnonzero(tops).tolist() == [flat.argmax()]
            assert labels[5].startswith(f"layer 1, head 1, {name} ")
            best = [[int(n) for n in divmod(n, 4)] for n in np.argsort(-flat)[:3]]
            ranks = page.locator("#ranks button")
            assert ranks.evaluate_all("e => e.map(x => x.dataset.head.split(',').map(Number))"
                                      ) == best
            for n in range(3):
                ranks.nth(n).press("Enter")
                assert ranks.nth(n).evaluate("e => e.matches(':focus')")
                assert page.evaluate(READ_HEADS)["heads"] == [best[n]]
        choose(page, "score", "")
        assert not page.locator(".bar").first.is_visible()
        assert ranks.count() == 0


@pytest.mark.site
def test_without_scores_there_is_nothing_to_choose(show):
    with show(explore.head_browser("abcde", HEADS)) as page:
        assert page.locator("#score").count() == 0


@pytest.mark.site
@pytest.mark.parametrize("width", [1300, 390])
@pytest.mark.parametrize("case", CASES)
def test_nothing_moves_away_from_under_a_pointer(show, case, width):
    tokens, keys, weights = CASES[case]
    boxes = """() => {
      const root = document.querySelector('[data-explore]').shadowRoot;
      const {x, y, height} = root.querySelector('.figure').getBoundingClientRect();
      const boxes = [...root.querySelectorAll('#map, .strip span, #numbers')].map(
        e => e.getBoundingClientRect());
      return [height, ...boxes.map(box => [box.x - x, box.y - y])];
    }"""
    with show(explore.head_browser(tokens, weights, keys), width=width) as page:
        for side in ("query", "key"):
            choose(page, "by", side)
            before = page.evaluate(boxes)
            for n in range(page.locator("[role='option']").count()):
                page.locator("[role='option']").nth(n).hover()
                assert page.evaluate(READ_HEADS)["chosen"] == n
                assert page.evaluate(boxes) == before


@pytest.mark.site
def test_what_a_causal_head_cannot_see_is_grey(show):
    tokens, _, weights = CASES["causal"]
    grey = "e => e.flatMap((x, n) => x.classList.contains('later') ? [n] : [])"
    with show(explore.head_browser(tokens, weights)) as page:
        for side, never in (("query", range(5, 12)), ("key", range(4))):
            choose(page, "by", side)
            pick_token(page, 4, "mouse")
            assert page.locator(".strip span").evaluate_all(grey) == list(never)


PIXELS = """(canvas, [rows, columns]) => {
  const copy = document.createElement('canvas'), side = canvas.width / columns;
  Object.assign(copy, {width: canvas.width, height: canvas.height});
  const context = copy.getContext('2d', {willReadFrequently: true});
  context.drawImage(canvas, 0, 0);
  return [...Array(rows).keys()].map(i => [...Array(columns).keys()].map(j =>
    [...context.getImageData((j + 0.5) * side, (i + 0.5) * side, 1, 1).data]));
}"""


def assert_painted(pixels, weights, theme):
    """Check that more weight is darker by day, lighter by night; nothing where none can be."""
    pixels = np.array(pixels)
    causal = (np.arange(12) > np.arange(12)[:, None]).ravel()
    assert ((pixels[..., 3].ravel() == 0) == causal).all()
    colours = pixels[..., :3].reshape(-1, 3).tolist()
    light = np.array([luminance(str(colour)) for colour in colours])
    steps = np.diff(light[~causal][np.argsort(weights.ravel()[~causal])])
    assert ((steps <= 1e-3) if theme == "light" else (steps >= -1e-3)).all()
    assert np.ptp(light[~causal]) > 0.2


@pytest.mark.site
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_maps_are_painted_by_weight(show, theme):
    tokens, _, weights = CASES["causal"]
    opposite = {"light": "dark", "dark": "light"}[theme]
    with show(explore.head_browser(tokens, weights), html=f'data-theme="{opposite}"') as page:
        page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        page.wait_for_timeout(50)     # it is repainted
        for layer in range(3):
            for head in range(4):
                thumb = page.locator(".head canvas").nth(layer * 4 + head)
                assert_painted(thumb.evaluate(PIXELS, [12, 12]), weights[layer, head], theme)
        for layer, head in ((2, 1), (0, 3)):
            pick_head(page, layer, head, "mouse")
            canvas = page.locator("#map canvas")
            assert_painted(canvas.evaluate(PIXELS, [12, 12]), weights[layer, head], theme)


@pytest.mark.site
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_token_is_readable_on_its_colour(show, theme):
    look = "e => e.map(x => getComputedStyle(x)).map(s => [s.color, s.backgroundColor])"
    weights = np.concatenate([np.linspace(0, 1, 21), [0] * 43])[None, None, None] / 10.5
    weights = np.concatenate([weights, np.eye(64)[None, None, :1]], axis=2)
    with show(explore.head_browser("ab", weights, "x" * 64), theme=theme) as page:
        colours = page.locator("#scale i").evaluate_all(look)
        for n in range(2):
            pick_token(page, n, "mouse")
            colours += page.locator("[role='listitem']").evaluate_all(look)
    for pair in {tuple(pair) for pair in colours}:
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair


@pytest.mark.site
@pytest.mark.parametrize("width", [1300, 390, 320])
def test_the_largest_browser_fits(show, width):
    causal = np.tri(64) / np.arange(1, 65)[:, None]
    figures = (explore.head_browser("x" * 64, np.broadcast_to(causal, (2, 12, 64, 64))),
               explore.head_browser(["a-very-long-word"] * 16, np.full((2, 16, 16, 16), 1 / 16)))
    with show(*figures, width=width) as page:
        assert too_wide(page) == []
        assert accessibility(page) == []
        assert min(page.locator(".head").evaluate_all(
            "e => e.map(x => x.getBoundingClientRect().width)")) >= (12 if width == 320 else 17)
        inside = """() => [...document.querySelectorAll('[data-explore]')].every(host => {
          const box = host.getBoundingClientRect();
          return [...host.shadowRoot.querySelectorAll('.panes *')].every(
            e => e.getBoundingClientRect().right <= box.right + 1);
        })"""
        assert page.evaluate(inside)


@pytest.mark.site
def test_the_map_is_drawn_anew_when_there_is_less_room(show):
    tokens, _, weights = CASES["causal"]
    with show(explore.head_browser(tokens, weights)) as page:
        wide = page.locator("#map").bounding_box()["width"]
        page.set_viewport_size({"width": 360, "height": 900})
        page.wait_for_timeout(50)
        assert page.locator("#map").bounding_box()["width"] < min(wide, 330)
        assert_painted(page.locator("#map canvas").evaluate(PIXELS, [12, 12]), weights[0, 0],
                       "light")
        pick_cell(page, 9, 4, 12, 12, "mouse")
        assert_cell(page.evaluate(READ_HEADS), weights, 0, 0, 9, 4)


# --- the cost crossing

READ_COSTS = """() => {
  const root = document.querySelector('[data-explore=cost-crossing]').shadowRoot;
  const get = id => root.getElementById(id), plane = get('plane').getBoundingClientRect();
  const at = (id, edge) => {
    const box = get(id).getBoundingClientRect();
    return edge === 'x' ? (box.x + box.width / 2 - plane.x) / plane.width
                        : 1 - (box.y + box.height / 2 - plane.y) / plane.height;
  };
  const kinds = ['arithmetic', 'memory'];
  return {n: Number(get('plane').getAttribute('aria-valuenow')),
    numbers: [...get('numbers').tBodies[0].rows].map(
      row => [...row.cells].slice(1).map(cell => Number(cell.dataset.value))),
    shown: [...get('numbers').tBodies[0].rows].map(
      row => [...row.cells].slice(1).map(cell => cell.textContent)),
    crossings: kinds.map(kind => Number(get(`mark-${kind}`).dataset.n)),
    lines: kinds.map(kind => Number(get(`cross-${kind}`).getAttribute('x1')) / 100),
    curves: kinds.map(kind => get(`curve-${kind}`).getAttribute('d').slice(1).split('L').map(
      point => point.split(' ').map(Number))),
    dots: kinds.map(kind => [at(`dot-${kind}`, 'x'), at(`dot-${kind}`, 'y')]),
    caption: get('numbers').caption.textContent, verdict: get('verdict').textContent,
    status: get('status').textContent, width: get('width').textContent};
}"""


def place(n):
    """Return where a length is on the axis of the chart, 0 .. 1."""
    return (np.log2(n) - 3) / 14


def wanted(n, d_model, n_heads):
    """Return (rows, tables, share) of the operations and of the numbers held, by `costs`."""
    part = costs.flops(n, d_model)
    held = costs.held(n, d_model, n_heads)
    pairs = ((part["projections"] + part["output"], part["scores"] + part["context"]),
             (held["rows"], held["tables"]))
    return [[rows, tables, tables / (rows + tables)] for rows, tables in pairs]


def assert_costs(seen, n, d_model, n_heads):
    """Compare all that the figure says and draws with the formulas."""
    expected = wanted(n, d_model, n_heads)
    assert seen["n"] == n
    np.testing.assert_allclose(seen["numbers"], expected, rtol=1e-12)
    assert seen["crossings"] == [2 * d_model, 3 * d_model / n_heads]
    np.testing.assert_allclose(seen["lines"], place(np.array(seen["crossings"])), atol=1e-9)
    for curve, column in zip(seen["curves"], range(2), strict=True):
        lengths = 2 ** np.linspace(3, 17, 113)
        shares = [wanted(x, d_model, n_heads)[column][2] for x in lengths]
        points = np.stack([100 * place(lengths), 100 - 100 * np.array(shares)], axis=1)
        np.testing.assert_allclose(curve, points, atol=0.006)
    dots = [[place(n), share] for *_, share in expected]
    np.testing.assert_allclose(seen["dots"], dots, atol=0.012)
    assert f"{d_model}, {n_heads} head" in seen["caption"]
    assert seen["verdict"] == seen["status"]


@pytest.mark.site
@pytest.mark.parametrize("start", [{}, {"d_model": 8192, "n_heads": 1, "n": 2**17},
                                   {"d_model": 768, "n_heads": 32, "n": 8}])
def test_costs_are_those_of_the_formulas(show, start):
    first = {"d_model": 512, "n_heads": 8, "n": 256} | start
    with show(explore.cost_crossing(**start)) as page:
        assert_costs(page.evaluate(READ_COSTS), first["n"], first["d_model"], first["n_heads"])
        page.locator("#model").focus()
        page.keyboard.press("Home")
        for d_model in explore.COST_WIDTHS:
            for n_heads in explore.COST_HEADS:
                choose(page, "heads", n_heads)
                assert_costs(page.evaluate(READ_COSTS), first["n"], d_model, n_heads)
            page.locator("#model").focus()
            page.keyboard.press("ArrowRight")


@pytest.mark.site
@pytest.mark.parametrize("touch", [False, True])
def test_the_length_is_dragged_across_the_chart(show, touch):
    with show(explore.cost_crossing(), touch=touch, width=390 if touch else 1300) as page:
        page.locator("#plane").scroll_into_view_if_needed()
        box = page.locator("#plane").bounding_box()
        at = (box["x"] + box["width"] * place(1024), box["y"] + 50)
        page.touchscreen.tap(*at) if touch else page.mouse.click(*at)
        assert_costs(page.evaluate(READ_COSTS), 1024, 512, 8)
        if not touch:
            page.mouse.move(*at)
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] * place(64), at[1] + 300)
            assert_costs(page.evaluate(READ_COSTS), 64, 512, 8)
            page.mouse.move(box["x"] - 100, at[1])
            page.mouse.up()
            assert page.evaluate(READ_COSTS)["n"] == 8
            page.mouse.move(*at)                       # let go: it follows no longer
            assert page.evaluate(READ_COSTS)["n"] == 8


@pytest.mark.site
def test_the_length_is_moved_with_keys(show):
    with show(explore.cost_crossing()) as page:
        page.locator("#plane").focus()
        for key, n in (("PageUp", 512), ("ArrowRight", 558), ("ArrowLeft", 512), ("ArrowUp", 558),
                       ("ArrowDown", 512), ("PageDown", 256), ("Home", 8), ("ArrowLeft", 8),
                       ("End", 2**17), ("PageUp", 2**17)):
            page.keyboard.press(key)
            assert page.evaluate(READ_COSTS)["n"] == n


@pytest.mark.site
def test_costs_say_what_the_chapter_says(show):
    with show(explore.cost_crossing()) as page:
        seen = page.evaluate(READ_COSTS)
        assert seen["shown"] == [["537 M", "134 M", "20 %"], ["786 k", "1.05 M", "57 %"]]
        assert seen["verdict"] == ("n = 256: the tables have 20 % of the operations and 57 % of "
                                   "the memory.")
        assert seen["caption"] == ("256 words, d_model 512, 8 heads of 64; in float32 7.34 MB at "
                                   "the peak")
        assert page.locator("#mark-arithmetic").text_content() == "2 · d_model = 1024"
        assert page.locator("#mark-memory").text_content() == "3 · d_head = 192"


@pytest.mark.site
def test_large_numbers_get_three_digits_and_a_prefix(show):
    source = (explore.TEMPLATES / "cost_crossing.js").read_text(encoding="utf-8")
    lines = source[source.index("const short"):source.index("const percent")]
    numbers = [7, 999, 1000, 1234, 999499, 999600, 10**9, 123456789012, 8 * 8192**3]
    with show(body="<p></p>") as page:
        got = page.evaluate(
            "([lines, numbers]) => new Function('numbers', `${lines}; return numbers.map(short)`)("
            "numbers)", [lines, numbers])
    assert got == ["7", "999", "1.00 k", "1.23 k", "999 k", "1.00 M", "1.00 G", "123 G", "4.40 T"]


# --- rounding, in the browser and in NumPy

def evaluate(page, expression, numbers):
    """Return a JavaScript expression of ``numbers`` (numerics.js is loaded) as float64."""
    source = (explore.TEMPLATES / "numerics.js").read_text(encoding="utf-8")
    text = page.evaluate(
        "([source, expression, text]) => new Function('numbers', `${source}; return ("
        "${expression})`)(text.split(' ').map(Number)).map("
        "x => Object.is(x, -0) ? '-0' : String(x)).join(' ')",
        [source, expression, " ".join(map(repr, np.asarray(numbers).tolist()))])
    return np.array([float(word) for word in text.split(" ")])


@pytest.mark.site
def test_float16_rounds_as_numpy_does(show):
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(float)  # all from 0 up
    ties = (halves[:-1] + halves[1:]) / 2
    rng = np.random.default_rng(0)
    random = rng.standard_normal(2000) * 2.0 ** rng.integers(-30, 20, size=2000)
    numbers = np.concatenate([halves, ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf),
                              random, [65519.99, 65520, 1e9, 1e300, 5e-324, 2.0 ** -25]])
    numbers = np.concatenate([numbers, -numbers])
    with np.errstate(over="ignore"):
        expected = numbers.astype(np.float16).astype(float)
    with show(body="<p></p>") as page:
        got = evaluate(page, "numbers.map(float16)", numbers)
    assert (got == expected).all()
    assert (np.signbit(got) == np.signbit(expected)).all()


@pytest.mark.site
@pytest.mark.parametrize("dtype", CHANCES)
def test_softmax_rounds_as_numpy_does(show, dtype):
    rows = (np.random.default_rng(1).standard_normal((200, 7)) * 8).astype(dtype)
    with show(body="<p></p>") as page:
        got = evaluate(page, f"[...Array(200).keys()].flatMap(n => "
                             f"softmax(numbers.slice(7 * n, 7 * n + 7), '{dtype}'))",
                       rows.astype(float).ravel())
    expected = plain_softmax(rows).astype(float).ravel()
    spacing = np.spacing(expected.astype(dtype)).astype(float)
    assert (got.astype(dtype) == got).all()           # every number is one of the dtype
    assert (np.abs(got - expected) <= 4 * spacing).all()


# --- on a page

@pytest.mark.site
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390])
def test_figures_fit_and_are_accessible(show, theme, width):
    with show(*(make() for make in FIGURES), html=f'data-theme="{theme}"', width=width) as page:
        page.emulate_media(reduced_motion="reduce")  # colours are there at once
        assert accessibility(page) == []
        choose(page, "mode", "true")
        choose(page, "fill", "-inf")
        choose(page, "score", "first token")
        choose(page, "by", "key")
        for details in page.locator("summary").all():
            details.click()
        assert accessibility(page) == []
        for narrower in (width, width - 50):
            page.set_viewport_size({"width": narrower, "height": 900})
            assert too_wide(page) == []


def luminance(colour):
    """Return the relative luminance, 0 .. 1, of a colour such as "rgb(0, 114, 178)" (WCAG 2)."""
    parts = np.array([int(n) / 255 for n in re.findall(r"\d+", colour)[:3]])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.site
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_number_is_readable_on_its_colour(show, theme):
    # axe does not judge text on a hatched cell.
    figures = explore.reshape_microscope(length=8), explore.mask_painter()
    look = "e => e.map(x => getComputedStyle(x)).map(s => [s.color, s.backgroundColor])"
    with show(*figures, theme=theme) as page:
        page.emulate_media(reduced_motion="reduce")
        choose(page, "fill", "-1e9")
        colours = page.locator(".cell").evaluate_all(look)
        choose(page, "fill", "-inf")
        colours += page.locator(".cell").evaluate_all(look)
    for pair in {tuple(pair) for pair in colours}:
        low, high = sorted(map(luminance, pair))
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair


@pytest.mark.site
def test_two_figures_on_a_page_do_not_interfere(show):
    twins = [explore.mask_painter(), explore.mask_painter(), explore.reshape_microscope(),
             explore.reshape_microscope(length=4)]
    with show(*twins) as page:
        hosts = page.locator("[data-explore]")
        before = [hosts.nth(n).locator(".figure").inner_text() for n in range(4)]
        assert before[0] == before[1] != before[2] != before[3]
        hosts.nth(1).locator("#fill input[value='zeros']").check()
        hosts.nth(1).locator(".paint").first.click()
        hosts.nth(3).locator("#mode input[value='true']").check()
        after = [hosts.nth(n).locator(".figure").inner_text() for n in range(4)]
        assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True, False]


@pytest.mark.site
@pytest.mark.parametrize("make", FIGURES)
def test_styles_of_the_page_stay_outside(show, make):
    look = """() => [...document.querySelector('[data-explore]').shadowRoot
      .querySelectorAll('.figure *')].map(e => getComputedStyle(e))
      .map(s => [s.color, s.fontSize, s.letterSpacing, s.padding])"""
    with show(make()) as page:
        alone = page.evaluate(look)
    with show(make(), css=HOSTILE) as page:
        assert page.evaluate(look) == alone


@pytest.mark.site
@pytest.mark.parametrize(("element", "attribute", "dark", "light"), [
    ("documentElement", "data-theme", "dark", "light"),          # the course's site
    ("documentElement", "theme", "dark", "light"),               # Colab
    ("body", "data-jp-theme-light", "false", "true"),            # JupyterLab
])
def test_figures_follow_the_theme_of_the_page(show, element, attribute, dark, light):
    paper = """() => getComputedStyle(
      document.querySelector('[data-explore]').shadowRoot.querySelector('.figure')
    ).backgroundColor"""
    with show(explore.mask_painter(), theme="dark") as page:
        assert page.evaluate(paper) == "rgb(22, 27, 34)"   # nobody says more: the system's theme
        for value, colour in ((light, "rgb(255, 255, 255)"), (dark, "rgb(22, 27, 34)")):
            page.evaluate(f"document.{element}.setAttribute('{attribute}', '{value}')")
            page.wait_for_timeout(50)
            assert page.evaluate(paper) == colour


@pytest.mark.site
@pytest.mark.parametrize("make", FIGURES)
def test_figures_start_when_a_notebook_inserts_them(show, make):
    with show(body="<div id='output'></div>") as page:
        for _ in range(2):  # the cell is run again
            page.evaluate("""html => {
              const output = document.getElementById('output');
              output.innerHTML = html;
              new Function(output.querySelector('script').textContent)();
            }""", make()._repr_html_())
            assert page.locator(".figure").count() == 1
            assert page.locator(".figure *").count() > 70


@pytest.mark.site
@pytest.mark.parametrize(("make", "reached"), [
    (explore.reshape_microscope, {"example", "strip", "x", "mode", "view", "panels", "index"}),
    (explore.mask_painter, {"example", "length", "causal", "clear", "weights", "fill", "add",
                            "dtype"}),
    (head_browser, {"score", "overview", "cursor", "by", "strips"}),
    (explore.cost_crossing, {"model", "heads", "plane"}),
])
def test_tab_reaches_every_control_and_shows_where_it_is(show, make, reached):
    where = """() => {
      const element = document.querySelector('[data-explore]').shadowRoot.activeElement;
      if (!element) return null;
      const shown = element.matches('input[type=radio]') ? element.nextSibling : element;
      const owner = element.closest('[id]') ?? element.firstElementChild;
      return [owner?.id, getComputedStyle(shown).outlineStyle];
    }"""
    with show(make()) as page:
        stops = []
        for _ in range(20):
            page.keyboard.press("Tab")
            stops.append(page.evaluate(where))
        stops = [stop for stop in stops if stop]
    assert reached <= {owner for owner, _ in stops}
    assert all(style != "none" for _, style in stops)


@pytest.mark.site
def test_colours_fade_only_for_those_who_want_motion(show):
    with show(explore.reshape_microscope()) as page:
        duration = "e => getComputedStyle(e).transitionDuration"
        assert page.locator("#x .cell").first.evaluate(duration) != "0s"
        page.emulate_media(reduced_motion="reduce")
        assert page.locator("#x .cell").first.evaluate(duration) == "0s"
