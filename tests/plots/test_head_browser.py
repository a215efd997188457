"""The head browser shows the weights that the model has."""

import base64
import json
import re
from html import unescape

import numpy as np
import pytest
import torch
from first import first
from interactive import (
    SCORES,
    choose,
    drag_a_finger,
    head_browser,
    head_maps,
    luminance,
)
from page_audit import accessibility, too_wide

from utils import masks
from utils.plots import _head_data, explore


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
@pytest.mark.parametrize("device", first(["keyboard", "mouse", "touch"]))
@pytest.mark.parametrize("case", first(CASES))
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


@pytest.mark.slow
@pytest.mark.site
def test_the_browser_starts_where_it_is_told(show):
    with show(head_browser()) as page:
        seen = page.evaluate(READ_HEADS)
        names = {side: list("to␣be,↵or") for side in ("query", "key")}
        weights = head_maps(3, 4, 9, 9, masks.causal(9))
        assert seen["status"] == ""    # nobody has asked
        seen["status"] = "Layer 1, head 2. Query 5: , weight " + written(seen["value"]) + "."
        assert_line(seen, weights, 1, 2, "query", 5, names)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.site
def test_without_scores_there_is_nothing_to_choose(show):
    with show(explore.head_browser("abcde", HEADS)) as page:
        assert page.locator("#score").count() == 0


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("width", first([1300, 390]))
@pytest.mark.parametrize("case", first(CASES))
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


@pytest.mark.slow
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
@pytest.mark.parametrize("theme", first(["light", "dark"]))
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


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("theme", first(["light", "dark"]))
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


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("width", first([1300, 390, 320]))
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


@pytest.mark.slow
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
