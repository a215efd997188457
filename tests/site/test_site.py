"""The site as files: every page there, every link alive, nothing asked of another host."""

import json
import re
import shutil
import subprocess

import browser
import pytest
import site_address
from PIL import Image
from site_pages import ADDED, CONFIG, PAGES, REDIRECTS, ROOT, read, resolve

from scripts import pdf

pytestmark = pytest.mark.site

NOTEBOOKS = [page for page in PAGES if (ROOT / f"{page}.ipynb").exists()]
MEGABYTE = 1_000_000


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


def test_every_page_of_the_contents_is_built_and_no_other(site):
    built = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")
             if "_static" not in path.parts}
    assert built == {*PAGES, *ADDED, *REDIRECTS}


def test_every_old_address_leads_to_the_page_that_stood_there(site):
    for old in REDIRECTS:
        target, = read(site / f"{old}.html").rel["canonical"]
        file, _ = resolve(site, site / f"{old}.html", target)
        assert file.is_file()
        assert file.stem == old.rpartition("/")[2]


def test_the_root_bears_what_a_preview_of_the_front_page_shows(site):
    front, root = (site.joinpath(f"{page}.html").read_text("utf-8") for page in (PAGES[0], "index"))
    for shown in (r"<title>.*?</title>", r'<meta content="[^"]*" name="description" />'):
        assert re.findall(shown, root) == re.findall(shown, front) != []
    icons = read(site / "index.html").rel["icon"]
    assert len(icons) == 2
    assert all((site / icon).is_file() for icon in icons)


def test_pictures_have_their_room_before_they_come(site):
    count = 0
    for page in PAGES:
        html = (site / f"{page}.html").read_text(encoding="utf-8")
        above, _, below = html.partition("<article")[2].partition("<h2")
        for text, lazy in ((above, False), (below, True)):
            for picture in re.findall(r'<img [^>]*src="[^"]*_images/[^>]*>', text):
                said = dict(re.findall(r'(\w+)="([^"]*)"', picture))
                with Image.open((site / page).parent / said["src"]) as image:
                    assert image.size == (int(said["width"]), int(said["height"]))
                assert (said.get("loading") == "lazy") == lazy
                count += 1
    assert count == len(list(site.glob("_images/*")))


def test_no_page_shows_a_traceback(site):
    shown = [path.name for path in site.rglob("*.html")
             if "Traceback (most recent call last)" in path.read_text(encoding="utf-8")]
    assert not shown


def test_every_link_inside_the_site_leads_to_a_file_and_a_place_in_it(site):
    broken = []
    for path in (site / f"{page}.html" for page in PAGES + ADDED):
        for link in read(path).links + read(path).loads:
            file, fragment = resolve(site, path, link) or (path, "")
            if not file.is_file() and file != site / pdf.NAME:  # made by `make pdf`
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
    for folder in ("data", "utils"):  # of the live model
        (root / folder).symlink_to(ROOT / folder)
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    here = CONFIG["repository"]["url"]
    (root / "_config.yml").write_text(config.replace(here, "https://github.com/ada/course"))
    (root / "_toc.yml").write_text("format: jb-book\nroot: page\nchapters: [file: other]\n")
    for name in ("page", "other"):
        (root / f"{name}.md").write_text(f"# The {name}\n\nOne sentence.\n")
    return browser.build_book(root, root / "out")


@pytest.mark.xdist_group("published")
def test_with_an_address_every_page_says_where_it_belongs(published):
    text = (published / "page.html").read_text(encoding="utf-8")
    site = "https://ada.github.io/course/"
    assert read(published / "page.html").rel["canonical"] == [f"{site}page.html"]
    assert f'property="og:image" content="{site}_static/social-card.png"' in text
    assert f'property="og:url" content="{site}page.html"' in text
    assert (published / "_static" / "social-card.png").exists()
    assert f'property="og:image" content="{site}_static/social-card.png"' in (
        published / "index.html").read_text(encoding="utf-8")
    assert f"<loc>{site}page.html</loc>" in (published / "sitemap.xml").read_text(encoding="utf-8")


@pytest.mark.xdist_group("published")
def test_with_an_address_a_wrong_one_still_gets_the_whole_page(chromium, published):
    with (browser.served(published, "/course/") as url,
          browser.open_page(chromium, f"{url}deep/down/nothing.html") as tab):
        answers = [what for what in tab.problems if not what.startswith("console")]
        assert answers == [f"answered 404: {url}deep/down/nothing.html"]
        assert tab.locator("a.navbar-brand").get_attribute("href") == "/course/page.html"
