"""The two figures that readers move: what they say is what NumPy and PyTorch compute."""

import re
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from browser import open_page, served
from page_audit import accessibility, too_wide

from utils import explore, masks, numpy_attention, reference, sizes

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

FIGURES = (explore.reshape_microscope, explore.mask_painter)


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
    assert [repr(make()) for make in FIGURES] == ["<reshape microscope>", "<mask painter>"]


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
    (lambda: explore.reshape_microscope(length=9), "length=9 is too large to draw, at most 8"),
    (lambda: explore.reshape_microscope(heads=4, d_head=5),
     "heads * d_head=20 is too large to draw, at most 16"),
    (lambda: explore.mask_painter(Q, K[..., :3]),
     "array 2 should be (b, j, d), got (2, 7, 3): axis d is 3 here and 4 before"),
    (lambda: explore.mask_painter(Q, K, V[:, :6]),
     "array 3 should be (b, j, c), got (2, 6, 8): axis j is 6 here and 7 before"),
    (lambda: explore.mask_painter(Q, K, lengths=[6, 8]),
     "lengths must be 2 integers in 0 .. n_k=7, got [6, 8]"),
    (lambda: explore.mask_painter(Q, K, lengths=[6]),
     "lengths must be 2 integers in 0 .. n_k=7, got [6]"),
    (lambda: explore.mask_painter(Q, K, lengths=[6.5, 7.0]),
     "lengths must be 2 integers in 0 .. n_k=7, got [6.5, 7.0]"),
    (lambda: explore.mask_painter(Q, v=V),
     "q and k come together: pass both, or none of q, k and v"),
    (lambda: explore.mask_painter(Q, K * np.inf), "k holds numbers that are not finite"),
    (lambda: explore.mask_painter(np.repeat(Q, 2, axis=1), K),
     "n_q=10 is too large to draw, at most 8"),
    (lambda: explore.mask_painter(Q, K, np.repeat(V, 3, axis=2)),
     "d_v=24 is too large to draw, at most 16"),
    (lambda: explore.mask_painter(Q, K, empty_query=5),
     "empty_query=5 is not one of the n_q=5 queries"),
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
    figures = explore.reshape_microscope(), explore.mask_painter()
    with show(*figures, html=f'data-theme="{theme}"', width=width) as page:
        page.emulate_media(reduced_motion="reduce")  # colours are there at once
        assert accessibility(page) == []
        choose(page, "mode", "true")
        choose(page, "fill", "-inf")
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
            assert page.locator(".cell").count() > 70


@pytest.mark.site
@pytest.mark.parametrize(("make", "reached"), [
    (explore.reshape_microscope, {"example", "strip", "x", "mode", "view", "panels", "index"}),
    (explore.mask_painter, {"example", "length", "causal", "clear", "weights", "fill", "add",
                            "dtype"}),
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
