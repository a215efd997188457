"""The cost figure shows what the formulas of `utils.measure.costs` say."""

import numpy as np
import pytest
from first import first
from interactive import choose, place

from utils.measure import costs
from utils.plots import explore

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


def wanted(n, d_model, n_heads):
    """Return (rows, matrices, share) of the operations and of the elements held, by `costs`."""
    part = costs.flops(n, d_model)
    held = costs.held(n, d_model, n_heads)
    pairs = ((part["projections"] + part["output"], part["scores"] + part["context"]),
             (held["rows"], held["matrices"]))
    return [[rows, matrices, matrices / (rows + matrices)] for rows, matrices in pairs]


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
@pytest.mark.parametrize("start", first([{}, {"d_model": 8192, "n_heads": 1, "n": 2**17},
                                         {"d_model": 768, "n_heads": 32, "n": 8}]))
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


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("touch", first([False, True]))
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


@pytest.mark.slow
@pytest.mark.site
def test_costs_say_what_the_chapter_says(show):
    with show(explore.cost_crossing()) as page:
        seen = page.evaluate(READ_COSTS)
        assert seen["shown"] == [["537 M", "134 M", "20 %"], ["786 k", "1.05 M", "57 %"]]
        assert seen["verdict"] == ("n = 256: the attention matrices have 20 % of the operations "
                                   "and 57 % of the memory.")
        assert seen["caption"] == ("256 tokens, d_model 512, 8 heads of 64; in float32 7.34 MB at "
                                   "the peak")
        assert page.locator("#mark-arithmetic").text_content() == "2 · d_model = 1024"
        assert page.locator("#mark-memory").text_content() == "3 · d_head = 192"


@pytest.mark.slow
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
