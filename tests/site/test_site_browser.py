"""The site in a browser: what a reader finds, on every page, light and dark, phone and desk."""

import re
from io import BytesIO

import browser
import page_audit
import pytest
from first import first
from pypdf import PdfReader
from site_pages import PAGES, REDIRECTS, read

pytestmark = pytest.mark.site

WIDTHS = (390, 1300)
READ = [*PAGES, "search", "404"]
FIRST = {page.rpartition("/")[0]: page for page in reversed(PAGES)}  # of each part


@pytest.mark.parametrize("page", [
    page if page in (*FIRST.values(), *READ[-2:]) else pytest.param(page, marks=pytest.mark.slow)
    for page in READ])
def test_a_reader_with_a_phone_finds_nothing_broken(chromium, site_url, page):
    with browser.open_page(chromium, f"{site_url}{page}.html", width=WIDTHS[0]) as tab:
        browser.open_all(tab)
        problems = (page_audit.raw_maths(tab) + page_audit.pictures(tab)
                    + page_audit.pale_code(tab) + page_audit.too_wide(tab) + page_audit.icons(tab)
                    + page_audit.astray(tab)
                    + page_audit.accessibility(tab, contrast=False) + tab.problems)
    assert not problems


@pytest.mark.slow
@pytest.mark.parametrize("page", READ)
def test_a_reader_at_a_desk_light_and_dark_finds_nothing_broken(chromium, site_url, page):
    with browser.open_page(chromium, f"{site_url}{page}.html", width=WIDTHS[1]) as tab:
        browser.open_all(tab)
        problems = (page_audit.too_wide(tab) + page_audit.astray(tab)
                    + page_audit.accessibility(tab))
        browser.turn(tab, "dark")
        problems += [f"dark: {what}" for what in page_audit.pale_code(tab)
                     + page_audit.accessibility(tab, others=False)]
        problems += tab.problems
    assert not problems


def test_a_table_that_grows_can_be_reached_by_keyboard(chromium, site_url):
    page = "chapters/7_field_guide/cheat_sheet"
    with browser.open_page(chromium, f"{site_url}{page}.html") as tab:
        assert not tab.evaluate("""[...document.querySelectorAll('.pst-scrollable-table-container')]
            .filter(box => box.scrollWidth > box.clientWidth).length""")
        box = tab.locator(".pst-scrollable-table-container").first
        stops = []
        for width in ("100%", "3000px", "100%"):
            box.locator("table").evaluate("(table, width) => { table.style.minWidth = width }",
                                          width)
            tab.evaluate(browser.LAID_OUT)
            stops.append(box.evaluate("box => box.tabIndex"))
        assert stops == [-1, 0, -1]


def test_a_formula_that_is_too_long_begins_on_the_left(chromium, site_url):
    page = "chapters/7_field_guide/cheat_sheet"
    with browser.open_page(chromium, f"{site_url}{page}.html", width=WIDTHS[0]) as tab:
        first, room = tab.evaluate("""(() => {
          const box = document.querySelector('div.math'), formula = box.querySelector('math');
          const [a, b] = [box, formula].map(e => e.getBoundingClientRect());
          return [b.left - a.left, a.width - b.width]; })()""")
        assert room < 0 <= first < 2


def test_without_scripts_the_text_the_formulas_and_the_answers_can_be_read(chromium, site_url):
    page = "chapters/1_one_head/scaled_dot_product"
    context = chromium.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{site_url}{page}.html")
    assert tab.locator("article p").first.inner_text().startswith("Attention can use")
    assert tab.locator("math mfrac").first.bounding_box()["height"] > 20
    answer = tab.locator("details", has_text="Solution").first
    assert not answer.locator("div.highlight").first.is_visible()
    answer.locator("summary").click()
    assert answer.locator("div.highlight").first.is_visible()
    ink, paper = (tab.locator(where).first.evaluate(f"e => getComputedStyle(e).{what}")
                  for where, what in (("article p", "color"), ("body", "backgroundColor")))
    assert ink != paper != "rgba(0, 0, 0, 0)"
    context.close()


def test_every_sign_in_a_formula_is_in_the_font_of_the_site(chromium, site_url, site):
    text = "".join((site / f"{page}.html").read_text(encoding="utf-8") for page in PAGES)
    signs = sorted(set(re.findall(r"<(?:mi|mo|mn|mtext)[ >].*?</\w+>", text)))
    with browser.open_page(chromium, f"{site_url}chapters/7_field_guide/cheat_sheet.html") as tab:
        tab.locator("article").evaluate(
            "(e, signs) => { e.innerHTML = signs.map(s => `<math>${s}</math>`).join(' ') }", signs)
        line = tab.context.new_cdp_session(tab)
        line.send("DOM.enable")
        line.send("CSS.enable")
        root = line.send("DOM.getDocument")["root"]["nodeId"]
        nodes = line.send("DOM.querySelectorAll", {"nodeId": root, "selector": "math > *"})
        fonts = [[(font["familyName"], font["isCustomFont"]) for font in line.send(
            "CSS.getPlatformFontsForNode", {"nodeId": node})["fonts"]] for node in nodes["nodeIds"]]
    others = [(sign, used) for sign, used in zip(signs, fonts, strict=True)
              if used not in ([("STIX Two Math", True)], [])]
    assert not others
    assert sum(used != [] for used in fonts) > 50


def test_formulas_are_set_where_the_source_has_them(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html") as tab:
        assert tab.locator(".math math mfrac").count() >= 1


@pytest.mark.parametrize("width", first(WIDTHS))
def test_search_finds_the_page_that_has_the_word(chromium, site_url, width):
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html", width=width) as tab:
        tab.keyboard.press("Control+K")
        field = tab.locator("input[type=search]:visible").first
        field.wait_for()
        field.fill("contiguous")
        field.press("Enter")
        tab.wait_for_url("**/search.html?q=contiguous")
        result = tab.locator("#search-results li a", has_text="transpose").first
        result.wait_for()
        result.click()
        tab.wait_for_url("**/view_and_transpose.html*")
        assert tab.locator("article h1").count() == 1
        assert not tab.problems


def test_next_and_previous_can_be_clicked(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{PAGES[1]}.html") as tab:
        tab.locator("a.right-next").click()
        tab.wait_for_url(f"**/{PAGES[2]}.html")
        tab.locator("a.left-prev").click()
        tab.wait_for_url(f"**/{PAGES[1]}.html")


def test_the_theme_button_goes_dark_and_stays_dark(chromium, site_url):
    look = "[document.documentElement.dataset.theme, getComputedStyle(document.body).background]"
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html", theme="light") as tab:
        light = tab.evaluate(look)
        for _ in range(3):      # it goes round: the system's, light, dark
            if tab.evaluate("document.documentElement.dataset.mode") != "dark":
                tab.locator("button.theme-switch-button:visible").click()
        tab.evaluate(browser.SETTLED)
        dark = tab.evaluate(look)
        assert (light[0], dark[0]) == ("light", "dark")
        assert light[1] != dark[1]
        tab.reload()
        assert tab.evaluate(look) == dark


def test_in_the_dark_the_white_of_a_figure_becomes_the_ground_of_the_page(chromium, site_url):
    look = """["filter", "backgroundColor"].map((one, n) => getComputedStyle(
        document.querySelector(["article figure img", "body"][n]))[one])"""
    with browser.open_page(chromium, f"{site_url}chapters/1_one_head/masks.html") as tab:
        assert tab.evaluate(look) == ["none", "rgb(255, 255, 255)"]
        browser.turn(tab, "dark")
        inverted, ground = tab.evaluate(look)
    share = float(re.fullmatch(r"invert\(([\d.]+)\) hue-rotate\(180deg\)", inverted)[1])
    assert ground == "rgb({0}, {0}, {0})".format(round(255 * (1 - share)))


def test_the_first_address_leads_to_the_first_page(chromium, site_url):
    tab = chromium.new_page()
    tab.goto(site_url)
    tab.wait_for_url(f"**/{PAGES[0]}.html")
    tab.close()


@pytest.mark.parametrize("old", first([next(iter(REDIRECTS)), list(REDIRECTS)[-1]]))
def test_an_old_address_leads_to_the_same_place_of_the_new_page(chromium, site_url, old):
    with browser.open_page(chromium, f"{site_url}{old}.html?q=1#takeaways") as tab:
        tab.wait_for_url(f"**/{old.rpartition('/')[2]}.html?q=1#takeaways")
        assert tab.url.removeprefix(site_url).split("?")[0].removesuffix(".html") in PAGES
        assert not tab.problems


def test_a_page_loads_nothing_from_another_host_even_if_a_script_asks(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html") as tab:
        blocked = tab.evaluate("""async () => {
          const found = [];
          addEventListener('securitypolicyviolation', e => found.push(e.effectiveDirective));
          for (const [tag, link] of [['script', 'src'], ['img', 'src'], ['iframe', 'src'],
                                     ['link', 'href']]) {
            const element = document.createElement(tag);
            if (tag === 'link') element.rel = 'stylesheet';
            element[link] = 'https://other.invalid/x';
            document.head.append(element);
          }
          await fetch('https://other.invalid/x').catch(() => 0);
          await new Promise(done => setTimeout(done, 200));
          return found;
        }""")
        assert sorted(blocked) == ["connect-src", "frame-src", "img-src", "script-src-elem",
                                   "style-src-elem"]
        told = [what for what in tab.problems if "Content Security Policy" in what]
        assert len(told) >= 5
        assert not [what for what in tab.problems if what.startswith("asks another host")]


def test_pages_opened_as_files_look_the_same(chromium, site):
    with browser.open_page(chromium, (site / f"{PAGES[0]}.html").as_uri()) as tab:
        assert tab.evaluate("document.fonts.size") > 0
        assert tab.evaluate("document.styleSheets.length") > 1
        assert not [what for what in tab.problems if "Content Security Policy" in what]


def test_a_wrong_address_gets_a_page_that_leads_home(chromium, site_url):
    wrong = f"{site_url}chapters/9_nowhere/nothing.html"
    with browser.open_page(chromium, wrong) as tab:
        assert tab.locator("article h1").text_content().startswith("Page not found")
        assert tab.evaluate("document.styleSheets.length") == 1
        tab.locator("a.navbar-brand").click()
        tab.wait_for_url(f"**/{PAGES[0]}.html")
        # The one complaint is about the address itself.
        answers = [what for what in tab.problems if not what.startswith("console")]
        assert answers == [f"answered 404: {wrong}"]


def test_the_cheat_sheet_prints_on_one_sheet(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}chapters/7_field_guide/cheat_sheet.html") as tab:
        assert len(PdfReader(BytesIO(tab.pdf(prefer_css_page_size=True))).pages) == 1


@pytest.mark.slow
def test_the_cheat_sheet_prints_on_one_page_of_either_paper(chromium, site_url):
    page = chromium.new_page()
    page.goto(f"{site_url}chapters/7_field_guide/cheat_sheet.html", wait_until="networkidle")
    for paper in ("A4", "Letter"):
        printed = page.pdf(format=paper)
        assert len(re.findall(rb"/Type */Page\b", printed)) == 1, paper
    page.close()


def test_the_favicon_is_served_and_is_a_picture(chromium, site_url, site):
    icons = read(site / f"{PAGES[0]}.html").rel["icon"]
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html") as tab:
        sizes = tab.evaluate("""icons => Promise.all(icons.map(async icon => {
          const image = new Image(); image.src = icon; await image.decode();
          return image.naturalWidth; }))""", icons)
    assert len(icons) == 2
    assert min(sizes) >= 16
