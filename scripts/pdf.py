"""Print the whole book as one PDF, from the site that was built last.

    make pdf        (writes _build/html/multi-head-attention.pdf)

All pages are put into one HTML document, in the order of ``_toc.yml``, and Chromium prints it: so
links lead to other pages of the document, and headings become its outline. What is folded on the
site is left out, except for solutions, which move into an appendix. An interactive figure becomes
a picture of itself. The document is printed twice: only then is it known where each page begins.
"""

import html
import re
import sys
from pathlib import Path
from posixpath import dirname, join, normpath
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import matplotlib
from bs4 import BeautifulSoup
from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tests" / "site"), str(ROOT / "_ext")]

import browser  # noqa: E402
import site_address  # noqa: E402
from site_pages import CONFIG, PAGES, TOC  # noqa: E402

SITE = ROOT / "_build" / "html"
NAME = "multi-head-attention.pdf"   # in the site
TITLE = "One Equation, Many Programs"
FONTS = Path(matplotlib.get_data_path(), "fonts", "ttf")
# For scripts, buttons and marks that make no sense on paper.
IDLE = ("script, style, .headerlink, .toctree-wrapper, .sd-summary-state-marker, .copybtn, .aid, "
        ".suggest")
# Each element costs some 100 bytes in a tagged document; black names need none.
PLAIN = ("pre span:is(.n, .nn, .o, .p, .w), pre > span:empty, span:is(.pre, .std, .caption-text), "
         ".heading")
LONG = 30   # lines: a longer cell may break between code and output
EXERCISE = re.compile(r"\d+\. ")


def anchor(page, place=""):
    """Return the id, in the whole document, of a part, a page or a place on it."""
    name = re.sub(r"\W+", "-", page.rpartition("/")[2])
    return f"{name}--{place}" if place else name


def is_exercise(element):
    """Say whether an element names an exercise or a question: "1. Steer"."""
    return element.name in ("h2", "h3", "strong") and EXERCISE.match(element.get_text())


class Document:
    """The HTML of the whole book, as far as it has been put together."""

    def __init__(self, site, figures, address):
        self.soup = BeautifulSoup("<main></main>", "html.parser")
        self.site, self.figures, self.address = site, figures, address
        self.heads, self.solutions = [], []
        self.soup.main.append(self.page(PAGES[0], ""))
        for part in TOC["parts"]:
            caption = part["caption"]
            title = self.tag("h1", caption, id=anchor(caption))
            self.soup.main.append(self.tag("div", title, **{"class": "part"}))
            self.soup.main.extend([self.page(page["file"], caption) for page in part["chapters"]])
        self.append_solutions()

    def tag(self, name, *children, **attributes):
        """Return a new element."""
        element = self.soup.new_tag(name, attrs=attributes)
        element.extend(children)
        return element

    def page(self, page, caption):
        """Return the article of one page, as it stands on paper."""
        text = (self.site / f"{page}.html").read_text(encoding="utf-8")
        article = BeautifulSoup(text, "html.parser").select_one("article.bd-article")
        for element in article.select(IDLE):
            element.decompose()
        for element in article.select(PLAIN):
            element.unwrap()
        article.smooth()
        for element in article.select("[id]"):
            element["id"] = anchor(page, element["id"])
        for image in article.select("img"):
            image.attrs.pop("loading", None)
            image["src"] = (self.site / dirname(page) / image["src"]).resolve().as_uri()
        for element in article.select("[data-explore]"):
            element.replace_with(self.picture(page, element))
        for link in article.select("a[href]"):
            link["href"] = self.target(page, link["href"])
        for cell in article.select(".cell"):
            if cell.img or cell.get_text().count("\n") > LONG:
                cell["class"].append("long")
        title = article.h1.get_text()
        self.unfold(article, page, title)
        for level in (3, 2, 1):  # the parts are on the first level
            for heading in article.select(f"h{level}"):
                heading.name = f"h{level + 1}"
        article["id"] = anchor(page)
        self.named(article, caption, title)
        return article

    def named(self, article, left, right):
        """Give an article the heads of its sheets."""
        article["style"] = f"page: sheet{len(self.heads)}"
        self.heads.append((left, right))

    def target(self, page, href):
        """Return where a link leads to: into this document, to the site, or away."""
        url = urlsplit(href)
        if url.scheme or url.netloc:
            return href
        path = normpath(join(dirname(page), url.path)) if url.path else f"{page}.html"
        to = path.removesuffix(".html")
        if to in PAGES:
            return "#" + anchor(to, url.fragment)
        return self.address + path + (f"#{url.fragment}" if url.fragment else "")

    def picture(self, page, element):
        """Return what stands for an interactive figure: its picture, and where it moves."""
        name = element["data-explore"]
        said = element.p.get_text().partition(" It moves ")[0]
        image = self.tag("img", src=self.figures[page, name].as_uri(), alt=said)
        link = self.tag("a", "on its page of the site", href=f"{self.address}{page}.html")
        return self.tag("figure", image, self.tag("figcaption", f"{said} It moves ", link, "."),
                        **{"class": "interactive"})

    def unfold(self, article, page, title):
        """Leave out what is folded, but for solutions: they go to the appendix."""
        places = {}  # by the name of the exercise or question
        for details in article.select("details"):
            cell, summary = details.find_parent(class_="cell"), details.summary.get_text(strip=True)
            if cell and not summary.startswith("Solution"):
                (details if cell.select_one(".cell_output") else cell).decompose()
                continue
            exercise = details.find_previous(is_exercise).get_text()
            if exercise not in places:
                places[exercise] = anchor(page, f"solution-{len(places) + 1}")
                self.solutions.append((title, exercise, places[exercise], []))
            if cell:
                cell.replace_with(self.reference("solution", places[exercise]))
                details.summary.decompose()
                details.find("span", class_="c1").decompose()  # the title, as a comment
                details.unwrap()
            else:  # one of several answers, which were in its place: their first lines stay
                if details.find_next_sibling("details") is None:
                    details.insert_after(self.reference("answers", places[exercise]))
                details.replace_with(self.tag("p", "○ " + summary, **{"class": "option"}))
                cell = details.select_one(".sd-summary-content").extract()
                cell.name, cell.attrs = "div", {"class": "answer"}
                cell.insert(0, self.tag("p", self.tag("strong", summary)))
            self.solutions[-1][-1].append(cell)

    def reference(self, what, place):
        """Return the line that leads to a solution, with a gap for the number of its sheet."""
        link = self.tag("a", f"{what} on page ", href=f"#{place}")
        link.append(self.tag("span", "000", **{"data-page-of": place}))
        return self.tag("p", "→ ", link, **{"class": "see"})

    def append_solutions(self):
        """Append the solutions, by page and exercise."""
        article, before = self.tag("article", id="solutions"), None
        article.append(self.tag("h1", "Solutions and answers"))
        for title, exercise, place, moved in self.solutions:
            if title != before:
                article.append(self.tag("h2", title))
                before = title
            article.append(self.tag("h3", exercise, id=place))
            article.extend(moved)
        self.named(article, "Appendix", "Solutions and answers")
        self.soup.main.append(article)


def contents(document):
    """Return the contents: parts and pages, each with a place for the number of its sheet."""
    rows = []
    for heading in document.soup.select("main h1, main > article > section > h2"):
        to = heading.get("id") or heading.find_parent("article")["id"]
        rows.append(f'<li class="{heading.name}"><a href="#{to}"><span>'
                    f'{html.escape(heading.get_text())}</span>'
                    f'<span data-page-of="{to}">000</span></a></li>')
    return "\n".join(rows)


def whole(document, pages):
    """Return the HTML to be printed; ``pages`` are the numbers of sheets, by id."""
    def quoted(text):
        return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'

    heads = "\n".join(
        f"@page sheet{n} {{ @top-left {{ content: {quoted(left)}; }}"
        f" @top-right {{ content: {quoted(right)}; }} }}"
        for n, (left, right) in enumerate(document.heads))
    text = (ROOT / "scripts" / "pdf.html").read_text(encoding="utf-8")
    said = {"heads": heads, "contents": contents(document), "body": str(document.soup.main),
            "style": (ROOT / "scripts" / "pdf.css").read_text(encoding="utf-8"),
            "fonts": FONTS.as_uri(), "static": (document.site / "_static").as_uri(),
            "address": document.address, "title": TITLE}
    for _ in range(2):  # the style has gaps, too
        text = re.sub(r"\{\{(\w+)\}\}", lambda gap: said[gap[1]], text)
    return re.sub(r'(data-page-of="([^"]+)">)000',
                  lambda gap: gap[1] + str(pages[gap[2]] if pages else "000"), text)


def photograph(program, site, work):
    """Return the paths of pictures of the interactive figures, by page and name."""
    taken = {}
    pages = [page for page in PAGES
             if "data-explore=" in (site / f"{page}.html").read_text(encoding="utf-8")]
    for page in pages:
        with browser.served(site) as address, program.new_page(
                viewport={"width": 1100, "height": 900}, device_scale_factor=2) as window:
            window.goto(f"{address}{page}.html")
            window.evaluate("dispatchEvent(new Event('beforeprint'))")
            window.wait_for_timeout(500)
            for button in window.locator("[data-explore=live-model] #run").all():
                button.click()
                window.locator("[data-explore=live-model] [aria-busy=false]").wait_for()
            for host in window.locator("[data-explore]").all():
                name = host.get_attribute("data-explore")
                taken[page, name] = work / f"{anchor(page)}-{name}.png"
                host.locator(".figure").screenshot(path=taken[page, name], animations="disabled")
    return taken


def print_once(program, text, work, result):
    """Print the document, and return the number of the sheet on which each id stands."""
    source = work / "book.html"
    source.write_text(text, encoding="utf-8")
    with program.new_page() as window:
        window.set_default_timeout(180_000)
        window.goto(source.as_uri())
        window.evaluate("document.fonts.ready.then(() => true)")
        window.pdf(path=result, prefer_css_page_size=True, outline=True, tagged=True,
                   print_background=True)
    reader = PdfReader(result)
    return {name.removeprefix("/"): reader.get_destination_page_number(place) + 1
            for name, place in reader.named_destinations.items()}


def entries(node):
    """Yield the entries of an outline below a node, in the order of the document."""
    child = node.get("/First")
    while child:
        yield (entry := child.get_object())
        yield from entries(entry)
        child = entry.get("/Next")


def finish(document, result):
    """Write the outline's titles: Chromium writes some twice, or without a space."""
    writer = PdfWriter(result, incremental=True)
    headings = document.soup.find_all(re.compile(r"h\d"))
    for entry, heading in zip(entries(writer.root_object["/Outlines"]), headings, strict=True):
        entry[NameObject("/Title")] = TextStringObject(heading.get_text())
    writer.page_mode = "/UseOutlines"
    writer.add_metadata({"/Title": TITLE, "/Author": "the contributors",
                         "/Subject": "Multi-head attention, proven"})
    writer.write(result)


def make(program, site, work, result):
    """Print the book.

    Args:
        program: playwright's browser.
        site (Path): the folder of the built site.
        work (Path): an empty folder; ``book.html`` in it will be what was printed.
        result (Path): the PDF that is written.

    Raises:
        SystemExit: the numbers of sheets changed when they were filled in.
    """
    repository = CONFIG["repository"]["url"]
    document = Document(site, photograph(program, site, work),
                        site_address.of(repository) or f"{repository}/")
    first = print_once(program, whole(document, {}), work, result)
    second = print_once(program, whole(document, first), work, result)
    if first != second:
        raise SystemExit("The numbers of the pages moved when they were filled in.")
    finish(document, result)


def main():
    """Print the site that was built last."""
    with TemporaryDirectory() as work, sync_playwright() as playwright:
        program = browser.launch(playwright)
        make(program, SITE, Path(work), SITE / NAME)
        program.close()
    print(f"The PDF is at {SITE / NAME}")


if __name__ == "__main__":
    main()
