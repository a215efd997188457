"""Every interactive figure: stable, small, accessible, and at home on any page."""

import re

import numpy as np
import pytest
import torch
from first import first
from interactive import (
    CHANCES,
    HOSTILE,
    K,
    Q,
    V,
    choose,
    head_browser,
    luminance,
    plain_softmax,
    three_tokens,
)
from live import small
from page_audit import accessibility, too_wide

from utils import sizes
from utils.plots import explore

FIGURES = (three_tokens, explore.reshape_microscope, explore.mask_painter, head_browser,
           explore.cost_crossing, small)


@pytest.mark.parametrize("make", FIGURES)
def test_same_arguments_give_same_bytes(make):
    assert make()._repr_html_() == make()._repr_html_()


@pytest.mark.parametrize("make", FIGURES)
def test_a_figure_is_small_and_asks_no_host(make):
    text = make()._repr_html_()
    assert len(text.encode()) < 50_000
    for loads in ("http:", "https:", "src=", "href", "url(", "@import", "import("):
        assert loads not in text, loads
    assert not re.search(r"\bfetch\((?!onSite\()", text)


def test_plain_text_is_short_and_stable():
    assert [repr(make()) for make in FIGURES] == [
        "<three tokens>", "<reshape microscope>", "<mask painter>", "<head browser>",
        "<cost crossing>", "<live model>"]


def test_figures_do_not_change_their_arguments():
    q, k, v = (side[:, 0] for side in sizes.qkv(4))
    lengths, before = sizes.lengths(4), [side.copy() for side in (q, k, v)]
    explore.mask_painter(q, k, v, lengths)
    assert all((a == b).all() for a, b in zip((q, k, v), before, strict=True))


def test_tensors_make_the_same_figure_as_arrays():
    q, k, v = (side[:, 0] for side in sizes.qkv(4))
    tensors = map(torch.as_tensor, (q, k, v))
    assert explore.mask_painter(*tensors).html == explore.mask_painter(q, k, v).html


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


@pytest.mark.site
@pytest.mark.parametrize("theme", first(["light", "dark"]))
@pytest.mark.parametrize("width", first([1300, 390]))
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


@pytest.mark.site
@pytest.mark.parametrize("theme", first(["light", "dark"]))
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


@pytest.mark.slow
@pytest.mark.site
def test_two_figures_on_a_page_do_not_interfere(show):
    twins = [explore.mask_painter(), explore.mask_painter(), explore.reshape_microscope(),
             explore.reshape_microscope(length=4)]
    with show(*twins) as page:
        hosts = page.locator("[data-explore]")
        for n in range(4):  # each starts when it comes near
            hosts.nth(n).scroll_into_view_if_needed()
            hosts.nth(n).locator(".figure").wait_for()
        before = [hosts.nth(n).locator(".figure").inner_text() for n in range(4)]
        assert before[0] == before[1] != before[2] != before[3]
        hosts.nth(1).locator("#fill input[value='zeros']").check()
        hosts.nth(1).locator(".paint").first.click()
        hosts.nth(3).locator("#mode input[value='true']").check()
        after = [hosts.nth(n).locator(".figure").inner_text() for n in range(4)]
        assert [a == b for a, b in zip(after, before, strict=True)] == [True, False, True, False]


@pytest.mark.slow
@pytest.mark.site
@pytest.mark.parametrize("make", first(FIGURES))
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
            page.locator(".figure").wait_for()
            assert page.locator(".figure *").count() > 70


@pytest.mark.site
def test_a_figure_starts_when_it_is_near_or_printed(show):
    far = f"<div style='height: 5000px'></div>{explore.mask_painter()._repr_html_()}"
    figure = "[data-explore] .figure"
    with show(body=far) as page:
        page.wait_for_timeout(300)
        assert page.locator(figure).count() == 0
        page.mouse.wheel(0, 3600)  # it is still below the window, less than a screen away
        page.locator(figure).wait_for()
        assert page.locator(figure).bounding_box()["y"] > page.viewport_size["height"]
    with show(body=far) as page:
        page.pdf()
        assert page.locator(figure).count() == 1


@pytest.mark.site
@pytest.mark.parametrize(("make", "reached"), [
    (explore.reshape_microscope, {"example", "strip", "x", "mode", "view", "panels", "index"}),
    (explore.mask_painter, {"example", "length", "causal", "clear", "weights", "fill", "add",
                            "dtype"}),
    (head_browser, {"score", "overview", "cursor", "by", "strips"}),
    (explore.cost_crossing, {"model", "heads", "plane"}),
    (small, {"texts", "shading", "temperature", "compare", "overview"}),
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


@pytest.mark.slow
@pytest.mark.site
def test_colours_fade_only_for_those_who_want_motion(show):
    with show(explore.reshape_microscope()) as page:
        duration = "e => getComputedStyle(e).transitionDuration"
        assert page.locator("#x .cell").first.evaluate(duration) != "0s"
        page.emulate_media(reduced_motion="reduce")
        assert page.locator("#x .cell").first.evaluate(duration) == "0s"
