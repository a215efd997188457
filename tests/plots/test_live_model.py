"""A reader types, chooses and switches, and the live model shows what Python computes."""

import re

import numpy as np
import pytest
import torch
from first import first
from interactive import choose, luminance
from live import (
    HEADS,
    TEXT,
    assert_listed,
    chances,
    computed,
    enter,
    figure,
    idle,
    listed,
    surprise,
    trained,
)
from page_audit import accessibility, too_wide

from utils.models import char_model, corpus
from utils.models.language_model import write

pytestmark = pytest.mark.site
PHONE = {"width": 390, "touch": True}


@pytest.fixture
def page(show):
    """Yield a page at a desk with the figure, which has computed its first text."""
    with show(figure()) as page:
        idle(page)
        yield page


@pytest.fixture
def phone(show):
    """Yield a page on a phone with the figure, which has computed its first text."""
    with show(figure(), **PHONE) as page:
        idle(page)
        yield page


def press_power(page, layer, head):
    """Switch a head off or on by its name."""
    page.locator(".power").nth(4 * layer + head).click()
    idle(page)


def told(page, n=0):
    """Return the line below a text."""
    return page.locator(".told").nth(n).inner_text()


def shades(page, n=0):
    """Return the number that shades each character of a text, NaN for none."""
    values = page.locator(".strip").nth(n).locator("span").evaluate_all(
        "items => items.map(item => item.dataset.value)")
    return np.array([float(value or "nan") for value in values])


# --- the next character

def test_typing_changes_the_probabilities_and_they_are_those_of_python(page):
    assert_listed(listed(page), TEXT)
    page.locator("textarea").press("End")
    page.keyboard.type("[0]) or ")
    rows = listed(page)
    assert_listed(rows, TEXT + "[0]) or ")
    shown = page.locator(".next tbody tr").evaluate_all(
        "rows => rows.map(row => [row.cells[0].textContent, row.cells[2].textContent])")
    assert shown == [[c.replace(" ", "␣").replace("\n", "↵"), f"{p:.3f}"] for c, p, _ in rows]
    bars = page.locator(".length i").evaluate_all(
        "bars => bars.map(bar => bar.clientWidth / bar.parentNode.clientWidth)")
    np.testing.assert_allclose(bars, [p for _, p, _ in rows], atol=0.02)


@pytest.mark.slow
def test_each_character_is_shaded_by_its_bits_and_their_mean_is_told(page):
    text = "If the object is a class instance"
    enter(page, text)
    bits = surprise(text)
    np.testing.assert_allclose(shades(page)[1:], bits, atol=1e-4)
    assert np.isnan(shades(page)[0])
    colours = page.locator(".strip span").evaluate_all(
        "items => items.map(item => item.style.backgroundColor)")
    light = np.array([luminance(colour) for colour in colours[1:]])
    assert (np.diff(light[np.argsort(bits)]) <= 0).all()
    assert light.max() > 2 * light.min()
    assert told(page).startswith(f"Mean {np.mean(bits):.2f} bits per character. Character 32 “e”:")
    page.locator(".strip span").nth(20).click()
    assert f"Character 20 “l”: probability {2 ** -bits[19]:.3f}, {bits[19]:.1f} bits." in told(page)


UNREADABLE = [   # what is typed, what is said of it, what is read
    ("π and\té", "The model does not know “π”, “\t”, “é” and reads the text without them.", " and"),
    ("cost: 5$", "The model does not know “$” and reads the text without it.", "cost: 5"),
    ("ab" * 64 + "(x,y", "The model was trained on short texts: it reads the first 128 characters, "
     "and not the other 4.", "ab" * 64),
    ("", "Type a character: the model predicts what follows it.", "")]


@pytest.mark.slow
def test_what_the_model_cannot_read_is_said(page):
    for text, said, read in [*UNREADABLE, ("a", "", "a")]:
        enter(page, text)
        assert page.locator(".notice").text_content() == said
        assert page.locator(".strip span").count() == len(read)
        assert page.locator(".one").is_disabled() == (len(read) in (0, 128))
        if read:
            assert_listed(listed(page), read)


# --- the heads

@pytest.mark.slow
@pytest.mark.parametrize("device", first(["keyboard", "mouse", "touch"]))
def test_a_chosen_head_shades_the_text_by_its_weights(show, device):
    weights = computed(TEXT)[1]
    with show(figure(), **(PHONE if device == "touch" else {})) as page:
        idle(page)
        head, item = page.locator(".head").nth(6), page.locator(".strip span").nth(11)
        if device == "keyboard":
            page.locator(".head[tabindex='0']").focus()
            for key in ("End", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowLeft"):
                page.keyboard.press(key)
            page.locator(".strip span[tabindex='0']").focus()
            for key in ("End", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
                page.keyboard.press(key)
        else:
            for element in (head.locator(".maps"), item):
                element.tap() if device == "touch" else element.click()
        assert head.get_attribute("aria-selected") == "true"
        assert item.get_attribute("aria-selected") == "true"
        np.testing.assert_allclose(shades(page)[:12], weights[6, 11, :12], atol=1e-5)
        assert np.isnan(shades(page)[12:]).all()
        key = int(weights[6, 11, :12].argmax())
        assert page.locator("#reading").inner_text().startswith(
            f"Head 1.2 at 11 “t” attends to {key} “{TEXT[key]}” {weights[6, 11, key]:.3f}, ")


@pytest.mark.slow
def test_all_maps_are_drawn_from_the_weights(page):
    pixels = page.locator("canvas.a").evaluate_all("""maps => maps.map(map => {
      const {data} = map.getContext('2d').getImageData(0, 0, map.width, map.height);
      return [...Array(data.length / 4).keys()].map(n => data[4 * n + 3] ? 255 - data[4 * n] : 0);
    })""")
    weights = computed(TEXT)[1].numpy()
    ink = np.array(pixels).reshape(weights.shape)
    assert (ink[:, *np.triu_indices(15, 1)] == 0).all()
    for head, drawn in zip(weights, ink, strict=True):
        rows = np.tril_indices(15)
        order = np.argsort(head[rows], kind="stable")
        # Red falls as a weight grows, by one step at least unless rounding hides it.
        assert (np.diff(drawn[rows][order]) >= -1).all()
        assert drawn[rows].max() > 200


@pytest.mark.slow
def test_a_head_that_is_switched_off_and_on_again_changes_nothing(page):
    before = listed(page)
    press_power(page, 3, 2)
    assert_listed(listed(page), TEXT, [(3, 2)])
    assert chances(TEXT, [(3, 2)])[")"] < 0.01 < 0.7 < chances(TEXT)[")"]
    assert page.locator(".head").nth(14).get_attribute("aria-label") == "layer 3, head 2, off"
    assert page.locator(".head.off").count() == 1
    press_power(page, 0, 1)
    assert_listed(listed(page), TEXT, [(3, 2), (0, 1)])
    assert f", with all heads {np.mean(surprise(TEXT)):.2f}." in told(page)
    press_power(page, 3, 2)
    assert_listed(listed(page), TEXT, [(0, 1)])
    page.locator("#all-on").click()
    assert listed(page) == before
    assert page.locator(".head.off").count() == 0


def test_the_keyboard_switches_the_chosen_head(page):
    page.locator(".head[tabindex='0']").focus()
    page.keyboard.press("Space")
    assert_listed(listed(page), TEXT, [(3, 2)])
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    assert_listed(listed(page), TEXT, [(3, 2), (3, 0)])
    shown = page.evaluate("""() => {
      const head = document.querySelector('[data-explore]').shadowRoot.activeElement;
      return [head.getAttribute('aria-label'), getComputedStyle(head).outlineStyle];
    }""")
    assert shown == ["layer 3, head 0, off", "solid"]


# --- writing

def set_temperature(page, value):
    """Move the slider of the temperature."""
    page.locator("#temperature").fill(str(value))


def test_temperature_0_writes_what_python_writes(page):
    model, vocabulary = trained()
    set_temperature(page, 0)
    enter(page, start := "def f(x):\n    return x")
    page.locator(".one").click()
    idle(page)
    page.locator(".ten").click()
    idle(page)
    tokens = write(model, corpus.encode(start, vocabulary)[None], 11, temperature=0)
    assert page.locator("textarea").input_value() == corpus.decode(tokens[0], vocabulary)
    for expected in (11, 10, 0)[1:]:
        before = len(start) + (1 if expected == 10 else 0)
        page.locator(".undo").click()
        idle(page)
        assert page.locator("textarea").input_value() == corpus.decode(tokens[0, :before],
                                                                       vocabulary)
    assert page.locator(".undo").is_disabled()
    assert_listed(listed(page), start)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", first([0.5, 1.7]))
def test_a_character_is_drawn_from_the_distribution_with_its_temperature(page, temperature):
    logits, vocabulary = computed(TEXT, [(3, 2)])[0][-1], trained()[1]
    total = (logits.double() / temperature).softmax(dim=-1).cumsum(dim=-1)
    press_power(page, 3, 2)
    set_temperature(page, temperature)
    seen = set()
    for drawn in (0.05, 0.4, 0.9, 0.995):
        page.evaluate("drawn => { Math.random = () => drawn }", drawn)
        page.locator(".one").click()
        idle(page)
        expected = vocabulary[int(torch.searchsorted(total, drawn))]
        assert page.locator("textarea").input_value() == TEXT + expected
        page.locator(".undo").click()
        idle(page)
        seen.add(expected)
    assert len(seen) >= 2


@pytest.mark.slow
def test_writing_ends_where_the_model_can_read_no_more(page):
    enter(page, char_model.held_out()[0][:123])
    page.locator(".ten").click()
    idle(page)
    assert len(page.locator("textarea").input_value()) == 128
    assert page.locator(".ten").is_disabled()
    page.locator("textarea").press("End")
    page.keyboard.press("Backspace")
    idle(page)
    assert page.locator(".ten").is_enabled()
    assert page.locator(".undo").is_disabled()    # what would come back is not what was typed


# --- two texts

@pytest.mark.slow
@pytest.mark.parametrize("width", first([390, 1300]))
def test_two_texts_are_compared_side_by_side_and_the_divider_moves(show, width):
    with show(figure(), width=width) as page:
        idle(page)
        page.locator("#compare").focus()
        page.keyboard.press("Space")
        idle(page)
        assert page.locator("textarea").nth(1).input_value() == TEXT
        enter(page, other := "the list [1, 2", 1)
        assert_listed(listed(page, 0), TEXT)
        assert_listed(listed(page, 1), other)
        left, right = (page.locator(".next table").nth(n).bounding_box() for n in range(2))
        assert left["y"] == right["y"]
        assert left["x"] + left["width"] <= right["x"]
        clips = """() => [...document.querySelector('[data-explore]').shadowRoot.querySelectorAll(
          'canvas')].slice(0, 2).map(map => getComputedStyle(map).clipPath)"""
        assert page.evaluate(clips) == ["inset(0px 50% 0px 0px)", "inset(0px 0px 0px 50%)"]
        page.locator("#divider").focus()
        for _ in range(20):
            page.keyboard.press("ArrowRight")
        percent = [re.findall(r"[\d.]+%", clip) for clip in page.evaluate(clips)]
        assert percent == [["30%"], ["70%"]]
        page.locator("#compare").uncheck()
        assert page.locator("textarea").count() == page.locator(".next table").count() == 1
        assert not page.locator("canvas.b").first.is_visible()


@pytest.mark.slow
def test_each_text_is_written_and_read_by_itself(phone):
    phone.locator("#compare").tap()
    set_temperature(phone, 0)
    enter(phone, "[1, 2, 3", 1)
    phone.locator(".one").nth(1).tap()
    idle(phone)
    fields = phone.locator("textarea").evaluate_all("fields => fields.map(field => field.value)")
    assert fields == [TEXT, "[1, 2, 3]"]
    phone.locator(".strip").nth(1).locator("span").nth(3).tap()
    chosen = phone.locator(".strip span[aria-selected='true']")
    assert chosen.evaluate_all("items => items.map(item => item.textContent)") == ["s", "␣"]


# --- for everyone

@pytest.mark.slow
def test_the_tables_say_in_text_what_the_figure_shows(page):
    press_power(page, 1, 1)
    page.locator("summary").click()
    rows = [[cell.inner_text() for cell in row.locator("th, td").all()]
            for row in page.locator("#tables table").nth(1).locator("tbody tr").all()]
    weights = computed(TEXT, [(1, 1)])[1][:, -1]
    for (name, is_on, key, weight), (layer, head), row in zip(rows, HEADS, weights, strict=True):
        most = int(row.argmax())
        assert (name, is_on) == (f"{layer}.{head}", "off" if (layer, head) == (1, 1) else "on")
        assert key == f"{most} {TEXT[most]}"
        assert float(weight) == pytest.approx(float(row[most]), abs=1e-3)
    named = {" ": "space", "\n": "newline"}
    head, *body = page.locator("#tables table").first.locator("tr").all()
    assert head.inner_text().split("\t") == ["character", "all heads on", "some off"]
    assert [row.locator("th").inner_text() for row in body] == [named.get(c, c) for c, _, _ in
                                                               listed(page)]


@pytest.mark.slow
def test_what_comes_next_is_said_aloud(page):
    enter(page, "the (value")
    now = chances("the (value")
    assert page.locator("#status").text_content() == (
        f"After the text: {max(now, key=now.get)}, probability {max(now.values()):.3f}.")


@pytest.mark.parametrize("theme", first(["dark", "light"]))
@pytest.mark.parametrize("width", first([390, 1300]))
def test_it_fits_and_is_accessible(show, theme, width):
    with show(figure(), theme=theme, width=width) as page:
        idle(page)
        assert accessibility(page) == []
        press_power(page, 3, 2)
        page.locator("#compare").check()
        choose(page, "shading", "head")
        enter(page, "é" + char_model.held_out()[3][:127] + "abc", 1)
        page.locator("summary").click()
        assert accessibility(page) == []
        for narrower in (width, width - 50):
            page.set_viewport_size({"width": narrower, "height": 900})
            assert too_wide(page) == []


@pytest.mark.slow
def test_colours_follow_the_theme(page):
    look = "() => getComputedStyle(document.querySelector('[data-explore]').shadowRoot" \
           ".querySelectorAll('.strip span')[7]).backgroundColor"
    light = page.evaluate(look)
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(50)
    assert page.evaluate(look) != light
