"""The figure of three tokens computes attention, whichever arrow is moved and however."""

import json

import numpy as np
import pytest
from first import first
from interactive import choose, drag_a_finger, plain_softmax

from utils.plots import explore

TOKENS = ("the", "river", "bank")
Q = np.array([[0, 0.5], [-1.2, 1], [1, -2]])
K = np.array([[0.3, 1], [2, -0.1], [1.5, 1]])
V = np.array([[0, -3], [4, 0.7], [-2, 2.5]])
READ = """() => {
  const root = document.querySelector('[data-explore]').shadowRoot;
  const rows = [...root.querySelectorAll('#sums tbody tr')];
  const values = n => rows.map(row => Number(row.cells[n].dataset.value));
  return {scores: values(2), weights: values(3),
    cells: rows.map(row => [...row.cells].map(cell => cell.textContent)),
    context: JSON.parse(root.getElementById('verdict').dataset.value),
    said: root.getElementById('verdict').textContent};
}"""


def assert_computes(page, query, k=K, v=V):
    seen = page.evaluate(READ)
    weights = plain_softmax(k @ query)
    assert np.allclose(seen["scores"], k @ query, atol=1e-12)
    assert np.allclose(seen["weights"], weights, atol=1e-12)
    assert np.allclose(seen["context"], weights @ v, atol=1e-12)
    for row, key, score, weight in zip(seen["cells"], k, k @ query, weights, strict=True):
        assert row[1:4] == [f"({key[0]:g}, {key[1]:g})".replace("-", "−"),
                            f"{score:.2f}".replace("-", "−"), f"{weight:.3f}"]
    shown = ", ".join(f"{x:.2f}" for x in weights @ v).replace("-", "−")
    assert seen["said"].endswith(f"= ({shown})")


@pytest.mark.site
def test_every_query_gets_its_weights_and_its_context(show):
    with show(explore.three_tokens(TOKENS, Q, K, V)) as page:
        for i in range(3):
            choose(page, "query", i)
            assert_computes(page, Q[i])


@pytest.mark.site
def test_keys_move_an_arrow_and_the_button_puts_it_back(show):
    with show(explore.three_tokens(TOKENS, Q, K, V)) as page:
        arrow = page.get_by_role("slider", name="key of river")
        arrow.focus()
        for key in ("ArrowLeft", "ArrowUp", "ArrowUp", "Shift+ArrowDown"):
            page.keyboard.press(key)
        k = K.copy()
        k[1] = 1.9, -0.9
        assert_computes(page, Q[2], k)
        assert arrow.get_attribute("aria-valuetext") == "(1.9, −0.9)"
        for _ in range(9):
            page.keyboard.press("Shift+ArrowRight")
        k[1, 0] = 4                                       # the end of the plane
        assert_computes(page, Q[2], k)
        page.get_by_role("button", name="Back to the start").click()
        assert_computes(page, Q[2])


@pytest.mark.site
@pytest.mark.parametrize("touch", first([False, True]))
def test_arrows_are_dragged_by_mouse_and_by_finger(show, touch):
    with show(explore.three_tokens(TOKENS, Q, K, V), width=390) as page:
        unit = page.locator("#match").bounding_box()["width"] / 9
        for name, side, row in (("query of bank", Q, 2), ("value of the", V, 0)):
            grip = page.get_by_role("slider", name=name).locator(".grip")
            grip.scroll_into_view_if_needed()
            if touch:
                drag_a_finger(page, grip, unit, -unit)
            else:
                box = grip.bounding_box()
                x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
                page.mouse.move(x, y)
                page.mouse.down()
                page.mouse.move(x + unit, y - unit, steps=5)
                page.mouse.up()
                page.mouse.move(x, y)                     # let go: this moves nothing
            assert page.get_by_role("slider", name=name).get_attribute("aria-valuetext") == \
                f"({side[row, 0] + 1:g}, {side[row, 1] + 1:g})".replace("-", "−")
        v = V.copy()
        v[0] += 1
        assert_computes(page, Q[2] + 1, v=v)


@pytest.mark.parametrize(("change", "message"), [
    ({"tokens": ("a", "b")}, "this figure draws three tokens with vectors of two dimensions: got "
                             "2 tokens and q (3, 2)"),
    ({"k": K[:2]}, "this figure draws three tokens with vectors of two dimensions: got 3 tokens "
                   "and k (2, 2)"),
    ({"v": V * np.nan}, "the elements of v must be in -4 .. 4 to be drawn"),
    ({"q": Q * 3}, "the elements of q must be in -4 .. 4 to be drawn"),
])
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole message is compared
        explore.three_tokens(**{"tokens": TOKENS, "q": Q, "k": K, "v": V} | change)
    assert str(error.value) == message


def test_the_figure_holds_what_it_was_given():
    text = explore.three_tokens(TOKENS, Q, K, V).html.replace("&quot;", '"')
    start = text.index('{"tokens"')
    config, _ = json.JSONDecoder().raw_decode(text[start:])
    assert config == {"tokens": list(TOKENS), "q": Q.tolist(), "k": K.tolist(), "v": V.tolist()}
