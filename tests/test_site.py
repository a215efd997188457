"""The site: what a reader's browser finds, on every page, light and dark, desk and phone."""

import json
import shutil
import subprocess
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import browser
import pytest
import site_address
import yaml

pytestmark = pytest.mark.site

ROOT = Path(__file__).resolve().parents[1]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PAGES = [TOC["root"], *(page["file"] for part in TOC["parts"] for page in part["chapters"])]
NOTEBOOKS = [page for page in PAGES if (ROOT / f"{page}.ipynb").exists()]
# Pages that Sphinx and its extensions add.
ADDED = ["404", "genindex", "index", "search"]
WIDTHS = (390, 1300)
PREFIX = browser.prefix(ROOT)
MEGABYTE = 1_000_000
# Elements and the attribute by which a browser loads something without being asked to.
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src",
         "audio": "src", "embed": "src", "object": "data", "link": "href"}
# Where TeX still stands as text: nothing outside code should hold these.
RAW_MATHS = """() => {
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const raw = [];
  for (let node; (node = walk.nextNode());)
    if (!node.parentElement.closest('pre, code, script, style, mjx-container')
        && /\\$\\$|\\\\[(\\[]|\\\\(frac|sqrt|mathrm|top)|\\$[^ $][^$]*\\$/.test(node.data))
      raw.push('TeX left as text: ' + node.data.trim().slice(0, 60));
  for (const formula of document.querySelectorAll('.math'))
    if (!formula.querySelector('mjx-container mjx-math'))
      raw.push('formula not set: ' + formula.textContent.slice(0, 60));
  for (const error of document.querySelectorAll('mjx-merror'))
    raw.push('formula with an error: ' + error.textContent.slice(0, 60));
  return raw;
}"""
PICTURES = """() => [...document.querySelectorAll('article img')].flatMap(image =>
  [...(image.naturalWidth ? [] : ['picture not there: ' + image.src]),
   ...(image.alt.length >= 20 ? [] : ['alt text too short: ' + image.alt + ' ' + image.src])])"""


class Page(HTMLParser):
    """What a page of html points to: ids, links (also by class), and what it loads unasked."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.rel, self.classes = set(), [], [], {}, {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note ids, links and loads."""
        attrs = dict(attrs)
        self.ids.update(attrs[name] for name in ("id", "name") if attrs.get(name))
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
            self.classes.update(dict.fromkeys((attrs.get("class") or "").split(), attrs["href"]))
        elif attrs.get(LOADS.get(tag, "")):
            (self.links if attrs.get("rel") in ("next", "prev", "search", "index") else
             self.loads).append(attrs[LOADS[tag]])
        if tag == "link":
            self.rel.setdefault(attrs.get("rel"), []).append(attrs["href"])


@cache
def read(path):
    """Return the parsed page in a file of html."""
    return Page(path.read_text(encoding="utf-8"))


def resolve(site, path, link):
    """Return (file, fragment) that a link on a page points to; None for another host."""
    address = f"http://here{PREFIX}{path.relative_to(site).as_posix()}"
    target = urlsplit(urljoin(address, link))
    if target.netloc != "here" or target.scheme != "http":
        return None
    return site / unquote(target.path).removeprefix(PREFIX), unquote(target.fragment)


def colab(page):
    """Return the address at which Colab opens a page's notebook."""
    where = CONFIG["repository"]
    repository = where["url"].removeprefix("https://github.com/")
    return (f"https://colab.research.google.com/github/{repository}/blob/{where['branch']}/"
            f"{page}.ipynb")


def tracked():
    """Return the files of the git tree, new ones that git does not ignore included."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                            cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


# --- as files

def test_every_page_of_the_contents_is_built_and_no_other(site):
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")
             if "_static" not in path.parts}
    assert built == {*PAGES, *ADDED}


def test_no_page_shows_a_traceback(site):
    shown = [path.name for path in site.rglob("*.html")
             if "Traceback (most recent call last)" in path.read_text(encoding="utf-8")]
    assert not shown


def test_every_link_inside_the_site_leads_to_a_file_and_a_place_in_it(site):
    broken = []
    for path in (site / f"{page}.html" for page in PAGES + ADDED):
        for link in read(path).links + read(path).loads:
            file, fragment = resolve(site, path, link) or (path, "")
            if not file.is_file():
                broken.append(f"{path.stem}: {link}: no such file")
            elif fragment and file.suffix == ".html" and fragment not in read(file).ids:
                broken.append(f"{path.stem}: {link}: no such place")
    assert not broken


def test_no_page_and_no_style_loads_anything_from_another_host(site):
    foreign = [f"{path.stem}: {load}" for path in site.rglob("*.html")
               if "_static" not in path.parts for load in read(path).loads
               if not load.startswith("data:") and resolve(site, path, load) is None]
    for path in site.joinpath("_static").rglob("*.css"):
        style = path.read_text(encoding="utf-8").replace('"', "").replace("'", "").replace(" ", "")
        foreign += [f"{path.name}: {mark}" for mark in ("url(http", "url(//", "@importhttp",
                                                        "@import//") if mark in style]
    assert not foreign


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_colab_opens_this_very_notebook(site, page):
    found = {link for link in read(site / f"{page}.html").links if "colab.research" in link}
    assert found == {colab(page)}
    assert f"{page}.ipynb" in tracked()


@pytest.mark.parametrize("page", NOTEBOOKS)
def test_the_download_button_gives_this_very_notebook(site, page):
    path = site / f"{page}.html"
    downloads = {resolve(site, path, link)[0] for link in read(path).links
                 if link.endswith(".ipynb") and resolve(site, path, link)}
    assert [json.loads(file.read_text(encoding="utf-8"))["cells"] for file in downloads] == [
        json.loads((ROOT / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_weighs_under_a_megabyte(site, page):
    path = site / f"{page}.html"
    own = {resolve(site, path, load)[0] for load in read(path).loads if "_images/" in load}
    assert path.stat().st_size + sum(file.stat().st_size for file in own) < MEGABYTE


# --- the address

@pytest.mark.parametrize(("repository", "address"), [
    ("https://github.com/OWNER/one-equation-many-programs", ""),
    ("https://github.com/Ada/one-equation-many-programs",
     "https://ada.github.io/one-equation-many-programs/"),
    ("https://github.com/Ada/ada.github.io", "https://ada.github.io/")])
def test_the_address_of_the_site_follows_from_that_of_the_course(repository, address):
    assert site_address.of(repository) == address


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Build a book of two pages as it will be once it has an address; return its html."""
    root = tmp_path_factory.mktemp("published")
    for folder in ("_ext", "_static"):
        shutil.copytree(ROOT / folder, root / folder)
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    here = CONFIG["repository"]["url"]
    (root / "_config.yml").write_text(config.replace(here, "https://github.com/ada/course"))
    (root / "_toc.yml").write_text("format: jb-book\nroot: page\nchapters: [file: other]\n")
    for name in ("page", "other"):
        (root / f"{name}.md").write_text(f"# The {name}\n\nOne sentence.\n")
    return browser.build_book(root, root / "out")


def test_with_an_address_every_page_says_where_it_belongs(published):
    text = (published / "page.html").read_text(encoding="utf-8")
    site = "https://ada.github.io/course/"
    assert read(published / "page.html").rel["canonical"] == [f"{site}page.html"]
    assert f'property="og:image" content="{site}_static/social-card.png"' in text
    assert f'property="og:url" content="{site}page.html"' in text
    assert (published / "_static" / "social-card.png").exists()
    assert f"<loc>{site}page.html</loc>" in (published / "sitemap.xml").read_text(encoding="utf-8")


def test_with_an_address_a_wrong_one_still_gets_the_whole_page(chromium, published):
    with (browser.served(published, "/course/") as url,
          browser.open_page(chromium, f"{url}deep/down/nothing.html") as tab):
        answers = [what for what in tab.problems if not what.startswith("console")]
        assert answers == [f"answered 404: {url}deep/down/nothing.html"]
        assert tab.locator("a.navbar-brand").get_attribute("href") == "/course/page.html"


# --- in a browser

@pytest.mark.parametrize("page", [*PAGES, "search", "404"])
def test_a_reader_finds_nothing_broken(chromium, site_url, page):
    problems = []
    with browser.open_page(chromium, f"{site_url}{page}.html", width=WIDTHS[0]) as tab:
        tab.evaluate(browser.OPEN_ALL)
        problems += tab.evaluate(RAW_MATHS) + tab.evaluate(PICTURES)
        for theme in ("light", "dark"):
            browser.turn(tab, theme)
            problems += [f"{theme}: {what}" for what in browser.pale_code(tab)]
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            browser.turn(tab, "dark")
            dark = browser.accessibility(tab, ["color-contrast"])
            browser.turn(tab, "light")
            light = browser.too_wide(tab) + browser.accessibility(tab)
            problems += [f"{width} px, {theme}: {what}" for theme, found in
                         (("dark", dark), ("light", light)) for what in found]
        problems += tab.problems
    assert not problems


def test_formulas_are_set_where_the_source_has_them(chromium, site_url):
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html") as tab:
        assert tab.locator(".math mjx-container mjx-mfrac").count() >= 1


@pytest.mark.parametrize("width", WIDTHS)
def test_search_finds_the_page_that_has_the_word(chromium, site_url, width):
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html", width=width) as tab:
        tab.keyboard.press("Control+K")
        tab.keyboard.type("contiguous")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**/search.html?q=contiguous")
        result = tab.locator("#search-results li a", has_text="transpose").first
        result.wait_for()
        result.click()
        tab.wait_for_url("**/view_and_transpose.html*")
        assert tab.locator("article h1").count() == 1
        assert not tab.problems


def walk(site, page, button):
    """Return the pages that a button leads through, from ``page`` on."""
    path, pages = site / f"{page}.html", [page]
    while button in read(path).classes:
        path = resolve(site, path, read(path).classes[button])[0].resolve()
        pages.append(path.relative_to(site).with_suffix("").as_posix())
    return pages


def test_next_leads_through_all_pages_in_order_and_previous_back(site):
    assert walk(site, PAGES[0], "right-next") == PAGES
    assert walk(site, PAGES[-1], "left-prev") == PAGES[::-1]


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


def test_the_first_address_leads_to_the_first_page(chromium, site_url):
    tab = chromium.new_page()
    tab.goto(site_url)
    tab.wait_for_url(f"**/{PAGES[0]}.html")
    tab.close()


def test_a_wrong_address_gets_a_page_that_leads_home(chromium, site_url):
    wrong = f"{site_url}chapters/9_nowhere/nothing.html"
    with browser.open_page(chromium, wrong) as tab:
        assert tab.locator("article h1").text_content().startswith("Page not found")
        assert tab.evaluate("document.styleSheets.length") > 3
        tab.locator("a.navbar-brand").click()
        tab.wait_for_url(f"**/{PAGES[0]}.html")
        # The one complaint is about the address itself.
        answers = [what for what in tab.problems if not what.startswith("console")]
        assert answers == [f"answered 404: {wrong}"]


def test_the_favicon_is_served_and_is_a_picture(chromium, site_url, site):
    icons = read(site / f"{PAGES[0]}.html").rel["icon"]
    with browser.open_page(chromium, f"{site_url}{PAGES[0]}.html") as tab:
        sizes = tab.evaluate("""icons => Promise.all(icons.map(async icon => {
          const image = new Image(); image.src = icon; await image.decode();
          return image.naturalWidth; }))""", icons)
    assert len(icons) == 2
    assert min(sizes) >= 16
