"""Marks in the sidebar, what is remembered, the main road, links to suggest a change, printing."""

import json
import re
from pathlib import PurePosixPath
from urllib.parse import parse_qs, urlsplit

import browser
import page_audit
import pytest
from bs4 import BeautifulSoup
from first import first
from site_pages import CONFIG, PAGES, ROOT, resolve

pytestmark = pytest.mark.site

NOTEBOOKS = [page for page in PAGES if (ROOT / f"{page}.ipynb").exists()]


def cells(page):
    """Return the cells of a notebook."""
    return json.loads((ROOT / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]


# "main" or "side" for each chapter, as its first cell says.
ROADS = {page: said[1] for page in NOTEBOOKS if (said := re.search(
    r" · (main|side) road · ", "".join(cells(page)[0]["source"])))}
MAIN = [PAGES[0], *(page for page in ROADS if ROADS[page] == "main")]
MASKS, EINSUM = "chapters/1_one_head/masks", "chapters/2_many_heads/einsum"
LAYER = "chapters/2_many_heads/multi_head_layer"        # a main road and a side road go on
FUSED = "chapters/2_many_heads/packed_and_fused"        # the side road
LIGHT = "chapters/7_field_guide/pytorch_in_one_page"    # few things for axe to look at
CONTROLS = ".road-choice, .read-button, .solved, .forget, .road-legend .read, .btn-print-button"
TICKED = "[...document.querySelectorAll('li.read > a')].map(a => a.textContent)"


def source(site, page):
    """Return a page of the site as text."""
    return (site / f"{page}.html").read_text(encoding="utf-8")


def soup(text):
    """Return text as HTML."""
    return BeautifulSoup(text, "html.parser")


def target(site, page, link):
    """Return the page to which a link of a page leads; None for no link."""
    if link:
        file, _ = resolve(site, site / f"{page}.html", link["href"])
        return file.resolve().relative_to(site).with_suffix("").as_posix()
    return None


def take(tab, road):
    """Choose a road in the sidebar."""
    tab.locator(f".road-choice input[value={road}]").check()


def visible(tab, selector):
    """Return how many of the elements can be seen."""
    return tab.locator(f":is({selector}):visible").count()


@pytest.mark.parametrize("page", [PAGES[0], MASKS, "404"])
def test_the_sidebar_shows_the_road_that_each_first_cell_names(site, page):
    shown, ticks = {}, set()
    for entry in soup(source(site, page)).select("nav.bd-links li"):
        to = MASKS if entry.a["href"] == "#" else target(site, page, entry.a)
        text = entry.a.get_text()
        for road in ("main", "side"):
            assert (f"{road}-road" in entry["class"]) == (f", {road} road" in text)
            if f", {road} road" in text:
                shown[to] = road
        if entry.select(".if-read[hidden]"):
            ticks.add(to)
    assert shown == ROADS
    assert set(ROADS.values()) == {"main", "side"}
    assert ticks == set(NOTEBOOKS)


@pytest.mark.slow
def test_what_is_remembered_has_a_name_of_its_own(site):
    names = []
    for page in PAGES:
        own = re.findall(r'data-done="([^"]+)"', source(site, page))
        assert {name.partition("/")[0] for name in own} <= {PurePosixPath(page).name}
        names += own
    exercise = re.compile(r"^\*\*\d+\. .*?\*\* \(\d+ minutes?, [●○]+\)", re.MULTILINE)
    exercises = sum(len(exercise.findall("".join(cell["source"])))
                    for page in NOTEBOOKS for cell in cells(page))
    assert len(names) == len(set(names)) == len(NOTEBOOKS) + exercises > 100


def test_a_page_marked_as_read_stays_ticked_until_it_is_forgotten(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{MASKS}.html") as tab:
        assert tab.evaluate(TICKED) == []
        button = tab.locator(".read-button")
        button.focus()
        tab.keyboard.press("Enter")
        ticked, = tab.evaluate(TICKED)
        assert "Masks" in ticked
        assert ticked.endswith(", main road, read")
        tab.goto(f"{site_url}{EINSUM}.html")
        assert tab.evaluate(TICKED) == [ticked]
        tab.go_back()
        assert (button.text_content(), button.get_attribute("aria-pressed")) == (
            "Marked as read", "true")
        button.click()
        assert tab.evaluate(TICKED) == []
        button.click()
        take(tab, "main")
        tab.evaluate("localStorage.setItem('of another site', 1)")
        for answer, left in (("dismiss", [ticked]), ("accept", [])):
            tab.once("dialog", lambda dialog, answer=answer: getattr(dialog, answer)())
            tab.locator(".forget button").click()
            assert tab.evaluate(TICKED) == left
        assert button.text_content() == "Mark as read"
        assert tab.locator(".road-choice input[value=all]").is_checked()
        assert tab.evaluate("Object.keys(localStorage).filter(k => !/^(mode|theme)$/.test(k))") == [
            "of another site"]
        assert not tab.problems


@pytest.mark.slow
def test_a_solved_exercise_stays_solved_and_no_other(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{MASKS}.html") as tab:
        boxes = tab.get_by_role("checkbox", name=re.compile(r"^Solved: \d\. "))
        assert boxes.count() == 3
        boxes.nth(1).check()
        tab.reload()
        assert [boxes.nth(n).is_checked() for n in range(3)] == [False, True, False]
        assert tab.evaluate(TICKED) == []
        tab.goto(f"{site_url}{EINSUM}.html")
        assert not any(box.is_checked() for box in boxes.all())
        assert not tab.problems


@pytest.mark.slow
def test_another_tab_shows_what_this_one_has_marked(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{MASKS}.html") as tab:
        other = tab.context.new_page()
        other.goto(f"{site_url}{MASKS}.html")
        other.locator(".read-button").click()
        browser.until(tab, f"{TICKED}.length === 1")


@pytest.mark.slow
def test_next_leads_along_the_main_road_for_who_has_chosen_it(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html") as tab:
        tab.context.route("**/_images/**", lambda route: route.abort())     # not looked at here
        following = tab.locator(".prev-next-area a[title='next page']:visible")
        assert PAGES[1] in (to := following.evaluate("link => link.href")), to
        take(tab, "main")
        walked = [PAGES[0]]
        while following.count():
            following.click()
            tab.wait_for_url(lambda url, before=walked[-1]: before not in url,
                             wait_until="domcontentloaded")
            walked.append(tab.url.removeprefix(site_url).removesuffix(".html"))
        assert walked == MAIN
        assert "main road ends here" in tab.locator("p.road-next:visible").text_content()
        take(tab, "all")
        assert PAGES[PAGES.index(MAIN[-1]) + 1] in following.evaluate("link => link.href")


@pytest.mark.slow
def test_previous_leads_back_and_side_roads_lead_to_the_main_one(site):
    for place, page in enumerate(PAGES):
        text = source(site, page)
        areas = soup(text[text.index("prev-next-footer"):]).select(".prev-next-area")
        if page not in (*ROADS, PAGES[0]):
            assert len(areas) == 1      # the field guide
            continue
        before, after = (target(site, page, areas[-1].select_one(f"a[title='{to} page']"))
                         for to in ("previous", "next"))
        ahead = [other for other in MAIN if other in PAGES[place + 1:]]
        behind = [other for other in MAIN if other in PAGES[:place]]
        assert before == (behind[-1] if behind else None)
        if ahead:
            assert after == ahead[0]
        else:       # no main road any more
            assert after == (None if page == MAIN[-1] else PAGES[place + 1])


def test_without_scripts_marks_and_links_are_there_and_no_control(chromium, site_url):
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{site_url}{LAYER}.html")
    hidden = f"{CONTROLS}, .road-next"
    assert tab.locator(f":is({hidden})").count() > 5
    assert visible(tab, hidden) == 0
    assert visible(tab, ".road-legend > span") == 2
    assert visible(tab, "nav.bd-links li.side-road") > 10
    tab.locator("a.right-next").click()
    tab.wait_for_url(f"**/{FUSED}.html")
    context.close()


@pytest.mark.slow
def test_a_browser_that_stores_nothing_shows_everything_and_forgets(chromium, site_url):
    forbid = """for (const name of ['localStorage', 'sessionStorage'])
      Object.defineProperty(window, name, {configurable: true, get() {
        throw new DOMException('Access is denied for this document.', 'SecurityError'); }})"""
    with browser.open_page(chromium, f"{site_url}{LAYER}.html") as tab:
        tab.add_init_script(forbid)
        tab.reload()
        tab.locator(".read-button").click()
        take(tab, "main")
        tab.locator(".solved input").first.check()
        assert len(tab.evaluate(TICKED)) == visible(tab, ".main-road .road-prev") == 1
        tab.locator("button.theme-switch-button:visible").click()
        tab.reload()
        assert tab.evaluate(TICKED) == []
        assert not tab.problems


@pytest.mark.parametrize("page", [PAGES[0], MASKS, "chapters/7_field_guide/api"])
def test_each_section_has_a_link_that_names_it_its_page_and_its_file(site, page):
    whole = soup(source(site, page))
    sections, shown = whole.select("article h2"), whole.h1.get_text()    # no number before it
    file, = (path.relative_to(ROOT).as_posix() for path in ROOT.glob(f"{page}.*"))
    assert len(sections) >= 3
    for heading in sections:
        title = heading.get_text().removesuffix("#")
        link = heading.find_next_sibling("a", class_="suggest")
        assert link.get_text() == f"Suggest a change to “{title}”"
        address = urlsplit(link["href"])
        assert address._replace(query="").geturl() == f"{CONFIG['repository']['url']}/issues/new"
        assert parse_qs(address.query) == {"title": [f"{shown} / {title}"],
                                           "body": [f"{file}, section “{title}”:\n\n"]}


@pytest.mark.slow
def test_the_link_of_a_section_is_seen_with_a_pointer_the_keyboard_and_a_finger(chromium, site_url):
    opacity = "link => getComputedStyle(link).opacity"
    with browser.open_page(chromium, f"{site_url}{MASKS}.html") as tab:
        link, heading = tab.locator(".suggest").first, tab.locator(".heading h2").first
        assert link.evaluate(opacity) == "0"
        heading.hover()
        assert link.evaluate(opacity) == "1"
        tab.mouse.move(0, 0)
        heading.locator(".headerlink").focus()
        tab.keyboard.press("Tab")
        tab.wait_for_function("() => document.querySelector('.suggest').matches(':focus-visible')")
        assert link.evaluate(opacity) == "1"
    with browser.open_page(chromium, f"{site_url}{MASKS}.html", width=390, touch=True) as tab:
        link = tab.locator(".suggest").first
        assert link.evaluate(opacity) == "1"
        box = link.bounding_box()
        assert min(box["width"], box["height"]) >= 24


@pytest.mark.slow
def test_the_print_button_prints_and_paper_shows_no_control(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{MASKS}.html") as tab:
        tab.evaluate("() => { window.printed = 0; window.print = () => { window.printed++ } }")
        tab.get_by_role("button", name="Print this page").click()
        assert tab.evaluate("window.printed") == 1
        assert tab.locator("[onclick*=print]").count() == 1
        assert visible(tab, CONTROLS) > 5
        tab.emulate_media(media="print")
        assert visible(tab, f"{CONTROLS}, .suggest, .road-legend") == 0


@pytest.mark.parametrize("width", first([1300, 390]))
def test_with_all_controls_shown_nothing_is_broken(chromium, site_url, width):
    with browser.open_page(chromium, f"{site_url}{LIGHT}.html", width=width,
                           touch=width == 390) as tab:
        tab.locator(".read-button").click()
        if width == 390:
            tab.locator("button.primary-toggle").click()
        take(tab, "main")
        tab.add_style_tag(content=".suggest { opacity: 1 !important }")
        tab.evaluate("scrollTo(0, 0)")      # the theme's button "Back to top" would fade in
        tab.evaluate(browser.SETTLED)
        assert visible(tab, CONTROLS) > 5
        problems = (page_audit.too_wide(tab) + page_audit.icons(tab)
                    + page_audit.accessibility(tab, others=width == 390))
        browser.turn(tab, "dark")
        problems += page_audit.accessibility(tab, others=False) + tab.problems
    assert not problems


@pytest.mark.slow
def test_the_buttons_fit_the_smallest_screen(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{LIGHT}.html", width=320, touch=True) as tab:
        assert visible(tab, ".article-header-buttons .btn") > 5
        assert not page_audit.too_wide(tab)
