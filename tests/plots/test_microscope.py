"""The reshape microscope puts every element where PyTorch has it."""

import pytest
from first import first
from interactive import choose, tensors

from utils.plots import explore

READ_MICROSCOPE = """() => {
  const root = document.querySelector('[data-explore]').shadowRoot;
  const grid = id => {
    const rows = [...root.querySelectorAll(`#${id} [role=grid] > .row`)];
    const cells = rows.map(row => [...row.querySelectorAll('.cell')]);
    const chosen = cells.flatMap((row, i) => row.flatMap(
      (cell, c) => cell.classList.contains('chosen') ? [[i, c]] : []));
    return {offsets: cells.map(row => row.map(cell => Number(cell.textContent))), chosen,
            words: cells.map(row => row.map(cell => Number(cell.dataset.token))),
            colours: cells.map(row => row.map(cell => cell.style.background))};
  };
  const rows = id => [...root.querySelectorAll(`#${id} tbody tr`)].map(
    row => [...row.cells].map(cell => cell.textContent));
  const text = id => root.getElementById(id).textContent;
  return {x: grid('x'), view: grid('view'), panels: grid('panels'), index: rows('index'),
    rows: rows('rows'), facts: text('facts'), status: text('status'), code: text('code'),
    verdict: text('verdict'), inPlace: Number(root.getElementById('verdict').dataset.inPlace),
    held: [...root.querySelectorAll('#panels .head')].map(head => Number(head.dataset.tokens)),
    strip: [...root.querySelectorAll('#strip i')].findIndex(
      cell => cell.classList.contains('chosen'))};
}"""
SETTINGS = ({}, {"batch": 3, "length": 4, "heads": 2, "d_head": 3},
            {"batch": 1, "length": 3, "heads": 1, "d_head": 5})


@pytest.mark.site
@pytest.mark.parametrize("setting", first(SETTINGS))
@pytest.mark.parametrize("mode", first(["false", "true"]))
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
    assert f"token {i}, dimension {e} of example {b}" in seen["facts"]
    _, head, row, _ = (expected[-1] == offset).nonzero()[0].tolist()
    assert f"head {head}, row {row}" in seen["status"]


@pytest.mark.site
@pytest.mark.parametrize("setting", first(SETTINGS))
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


@pytest.mark.slow
@pytest.mark.site
def test_the_torn_view_says_what_the_chapter_says(show):
    with show(explore.reshape_microscope()) as page:
        assert page.evaluate(READ_MICROSCOPE)["code"] == (
            "split = x.view(2, 5, 3, 4).transpose(1, 2)")
        choose(page, "mode", "true")
        seen = page.evaluate(READ_MICROSCOPE)
        assert seen["code"] == "torn = x.view(2, 3, 5, 4)"
        assert seen["verdict"] == ("Same shape (2, 3, 5, 4), torn heads: head 0 holds 2 of 5 "
                                   "tokens, and 20 % of the numbers are in place.")


@pytest.mark.slow
@pytest.mark.site
def test_a_colour_is_a_word(show):
    with show(explore.reshape_microscope(length=8, heads=2, d_head=3)) as page:
        choose(page, "mode", "true")
        seen = page.evaluate(READ_MICROSCOPE)
        pairs = {pair for name in ("x", "panels") for words, colours in zip(
            seen[name]["words"], seen[name]["colours"], strict=True)
            for pair in zip(words, colours, strict=True)}
        assert len(pairs) == len({word for word, _ in pairs}) == len({c for _, c in pairs}) == 8


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("touch", first([False, True]))
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
