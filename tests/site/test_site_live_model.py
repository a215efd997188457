"""The live model on the site: its parameters come when they are needed, and only then."""

import browser
import pytest
from live import TEXT, assert_listed, enter, idle, listed
from site_pages import PAGES

pytestmark = pytest.mark.site
SHOWN = ["chapters/7_field_guide/live_model", "chapters/4_transformer/reading_heads"]


@pytest.fixture
def visit(chromium, site_url):
    """Return a function that opens a page; ``page.fetched`` are the parameters that it fetched."""
    opened = []

    def at(page):
        context = browser.open_page(chromium, f"{site_url}{page}.html")
        opened.append(context)
        tab = context.__enter__()
        tab.fetched = []
        tab.on("request", lambda request: tab.fetched.append(request.url)
               if request.url.endswith(".safetensors") else None)
        tab.locator("[data-explore='live-model']").scroll_into_view_if_needed()
        tab.locator("[data-explore='live-model'] .figure").wait_for()
        return tab
    yield at
    for context in opened:
        context.__exit__(None, None, None)


@pytest.mark.parametrize("page", SHOWN)
def test_nothing_is_fetched_before_the_first_keystroke_and_one_file_after_it(visit, page):
    tab = visit(page)
    figure = tab.locator("[data-explore='live-model']")
    figure.locator("textarea").click()
    tab.wait_for_timeout(500)
    assert tab.fetched == []
    assert figure.locator(".next tr").count() == 0
    figure.locator("textarea").press("End")
    tab.keyboard.type("[0]")
    idle(tab)
    assert_listed(listed(tab), TEXT + "[0]")
    enter(tab, TEXT)
    assert_listed(listed(tab), TEXT)
    assert len(tab.fetched) == 1
    assert not figure.locator("#run").is_visible()
    assert tab.problems == []


@pytest.mark.parametrize("press", ["#run", ".one", ".power >> nth=14", "#compare"])
def test_a_button_that_needs_the_parameters_fetches_them(visit, press):
    tab = visit(SHOWN[0])
    tab.locator("[data-explore='live-model']").locator(press).click()
    idle(tab)
    assert len(tab.fetched) == 1
    assert len(listed(tab)) == 8
    assert tab.problems == []


def test_parameters_that_do_not_come_are_missed_in_a_sentence_and_can_come_later(visit):
    tab = visit(SHOWN[0])
    tab.route("**/*.safetensors", lambda route: route.abort())
    tab.locator("#run").click()
    idle(tab)
    assert tab.locator("#said").inner_text() == "The model could not be loaded."
    tab.unroute("**/*.safetensors")
    tab.locator("#run").click()
    idle(tab)
    assert_listed(listed(tab), TEXT)


def test_the_pages_with_the_figure_are_in_the_book(site):
    assert set(SHOWN) < set(PAGES)
    assert len(list((site / "_static").glob("live_model.*.safetensors"))) == 1
    for page in SHOWN:
        assert 'data-weights=""' in (site / f"{page}.html").read_text(encoding="utf-8")
