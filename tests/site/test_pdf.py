"""The book as one PDF: every page, formula and line of code is in it, and its numbers are right."""

import re
import unicodedata
from collections import Counter

import pytest
from bs4 import BeautifulSoup
from pypdf import PdfReader
from site_pages import PAGES

from scripts import pdf

pytestmark = [pytest.mark.site, pytest.mark.slow, pytest.mark.xdist_group("pdf")]
MEGABYTE = 1_000_000
SHEET = {"width": 643, "height": 900}   # 170 mm between the margins, in CSS pixels
TEXT_FONTS = re.compile("STIXGeneral|DejaVu")   # all others draw formulas


def flat(text):
    """Return a text without spaces, and with one way to write each letter."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


@pytest.fixture(scope="session")
def printed(chromium, site, tmp_path_factory):
    """Print the book; return the PDF's reader, and the HTML that was printed."""
    work = tmp_path_factory.mktemp("pdf")
    pdf.make(chromium, site, work, work / pdf.NAME)
    return PdfReader(work / pdf.NAME), work / "book.html"


@pytest.fixture(scope="session")
def sheets(printed):
    """Return the text of each sheet below its head and its number, without spaces."""
    furniture = re.compile(r"\A(.*\n)?\d+\n")
    # Upright text only: what is turned in the head of a table comes between two halves of a line.
    return [flat(furniture.sub("", sheet.extract_text(orientations=(0,)), count=1))
            for sheet in printed[0].pages]


@pytest.fixture(scope="session")
def span(printed):
    """Return a function: a page's own sheets, as numbers from 0."""
    reader = printed[0]
    starts = {name.removeprefix("/"): reader.get_destination_page_number(place)
              for name, place in reader.named_destinations.items()}
    order = sorted({starts[pdf.anchor(page)] for page in PAGES} | {starts["solutions"]})
    return lambda page: range(starts[pdf.anchor(page)], next(
        n for n in order if n > starts[pdf.anchor(page)]))


def article(site, page):
    """Return what a reader of the site sees of a page, without what is folded."""
    text = (site / f"{page}.html").read_text(encoding="utf-8")
    seen = BeautifulSoup(text, "html.parser").select_one("article.bd-article")
    for element in seen.select("details, .headerlink, .aid, .suggest, [data-explore], script, "
                               "style"):
        element.decompose()
    return seen


def test_the_book_is_printed_by_one_worker(request):
    """Two printed it when pytest-xdist lost the group of these tests, see tests/conftest.py."""
    assert request.node.nodeid.endswith("@pdf") == request.config.getoption("loadgroup", False)


def test_every_page_stands_where_the_contents_say(printed, sheets, span):
    book = BeautifulSoup(printed[1].read_text(encoding="utf-8"), "html.parser")
    said = {row["data-page-of"]: int(row.text) for row in book.select(".contents [data-page-of]")}
    for page in PAGES:
        first = span(page)[0]
        assert said[pdf.anchor(page)] == first + 1
        title = flat(book.select_one(f"#{pdf.anchor(page)} h2").text)
        assert title in sheets[first]
        assert f"{title}{first + 1}" in sheets[1]


def test_links_lead_where_their_numbers_say(printed):
    reader, book = printed[0], BeautifulSoup(printed[1].read_text(encoding="utf-8"), "html.parser")
    places = {name.removeprefix("/"): reader.get_destination_page_number(place) + 1
              for name, place in reader.named_destinations.items()}
    inside = [link["href"][1:] for link in book.select("a[href^='#']")]
    assert len(inside) > 600
    assert set(inside) == set(places)
    assert len(book.select("[id]")) == len({element["id"] for element in book.select("[id]")})
    for row in book.select("[data-page-of]"):
        assert int(row.text) == places[row["data-page-of"]]


@pytest.mark.parametrize("page", PAGES)
def test_no_line_is_missing(site, sheets, span, page):
    seen, there = article(site, page), "".join(sheets[n] for n in span(page))
    lines = [line for pre in seen.select("pre") for line in pre.text.splitlines()]
    words = [text.text for text in seen.select("p, h1, h2, h3, figcaption")
             if not text.select("math") and not text.find_parent("pre")]
    missing = [line for line in lines if flat(line) not in there]
    assert not missing
    missing = [text for text in words if flat(text) not in there]
    assert not missing


def test_no_formula_is_missing(site, printed, span):
    for page in PAGES:
        drawn = Counter()

        def collect(text, _, __, font, ___, drawn=drawn):
            if font and not TEXT_FONTS.search(font["/BaseFont"]):
                drawn.update(filter(str.isalnum, flat(text)))

        for n in span(page):
            printed[0].pages[n].extract_text(visitor_text=collect)
        wanted = Counter()
        for formula in article(site, page).select("math"):
            wanted.update(filter(str.isalnum, flat(formula.text)))
        assert drawn == wanted, page


def test_every_solution_is_in_the_appendix(site, printed, sheets, span):
    there = "".join(sheets[span(PAGES[-1])[-1] + 1:])
    for page in PAGES:
        text = (site / f"{page}.html").read_text(encoding="utf-8")
        for details in BeautifulSoup(text, "html.parser").select("article .cell details"):
            if details.summary.text.strip() == "Solution":
                code = details.select_one("pre").text.splitlines()[1:]
                assert all(flat(line) in there for line in code), page


def test_nothing_is_cut_at_the_margin(chromium, printed):
    with chromium.new_page(viewport=SHEET) as page:
        page.emulate_media(media="print")
        page.goto(printed[1].as_uri())
        wide = page.evaluate("""() => [...document.querySelectorAll('main *')].filter(element =>
          element.getBoundingClientRect().right > innerWidth + 1 ||
          element.scrollWidth > element.clientWidth + 1 && element.matches('pre, table, td'))
          .map(element => element.outerHTML.slice(0, 120))""")
        undrawn = page.evaluate("""() => [...document.images].filter(
          image => !image.naturalWidth).map(image => image.src)""")
    assert wide == undrawn == []


def test_it_is_light_and_can_be_read_aloud(printed, site):
    reader, book = printed[0], BeautifulSoup(printed[1].read_text(encoding="utf-8"), "html.parser")
    assert reader.stream.seek(0, 2) < 25 * MEGABYTE
    assert reader.root_object["/MarkInfo"]["/Marked"]
    assert reader.root_object["/Lang"] == "en"
    figures = sum((site / f"{page}.html").read_text(encoding="utf-8").count("<div data-explore=")
                  for page in PAGES)
    assert len(book.select(".interactive img[alt]")) == figures > 5
    titles, headings = [], book.find_all(re.compile(r"h\d"))

    def walk(entries):
        for entry in entries:
            walk(entry) if isinstance(entry, list) else titles.append(entry.title)

    walk(reader.outline)
    assert titles == [heading.text for heading in headings]
