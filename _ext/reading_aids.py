"""Marks, controls and links for a reader on the way through the course.

The first cell of a chapter says how long it takes, and whether it is on the main road. From that
follow the marks in the sidebar and a second pair of previous and next. What a reader has read and
solved is remembered by ``_static/reading_aids.js``; the controls for it have the class ``aid``, and
are hidden without scripts and on paper.
"""

import html
import re
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import quote, urlencode

from docutils import nodes

HEAD = re.compile(r"minutes? to read,.*?(?:· (main|side) road|$)")
EXERCISE = re.compile(r"<p><strong>(\d+\. .+?)</strong> \(\d+ minutes?, [●○]+\)\.")
HEADING = re.compile(r'<h2[^>]*>(.+?)<a class="headerlink".*?</h2>')
TAG = re.compile("<[^>]+>")
HIDDEN = "visually-hidden"
# A browser that forbids storage raises an error at its name, also in the theme's scripts. The road
# is chosen before anything is drawn.
EARLY = """
<script>
  for (const name of ["localStorage", "sessionStorage"]) {
    try { window[name].getItem(""); } catch {
      Object.defineProperty(window, name, {value: Object.create({
        getItem(key) { return this[key] ?? null; },
        setItem(key, value) { this[key] = value; },
        removeItem(key) { delete this[key]; },
      })});
    }
  }
  document.documentElement.dataset.road = localStorage.getItem("one-equation/road") || "all";
</script>"""
PRINT = {"type": "javascript", "javascript": "window.print()", "tooltip": "Print this page",
         "icon": "fas fa-print", "label": "print-button aid"}


def note_road(app, doctree):
    """Note "main", "side" or "" for a page whose first cell says how long it takes to read."""
    for paragraph in doctree.findall(nodes.paragraph):
        if head := HEAD.search(paragraph.astext()):
            app.env.metadata[app.env.docname]["road"] = head[1] or ""
            return


def name(page):
    """Return the name under which a page is remembered: it stays when the page moves."""
    return PurePosixPath(page).stem


def text(markup):
    """Return what a reader sees of a piece of HTML."""
    return html.unescape(TAG.sub("", markup))


def mark(navigation, here, roads):
    """Give the entries of the sidebar their road, and room for a tick."""
    for link in navigation.select("li.toctree-l1 > a"):
        page = name(here if link["href"] == "#" else link["href"])
        if page in roads:
            link.parent["data-page"] = page
            if roads[page]:
                link.parent["class"].append(f"{roads[page]}-road")
                link.append(hidden := navigation.new_tag("span", attrs={"class": HIDDEN}))
                hidden.string = f", {roads[page]} road"
            link.append(hidden := navigation.new_tag("span", attrs={
                "class": f"{HIDDEN} if-read", "hidden": ""}))
            hidden.string = ", read"
    return navigation


def neighbours(here, pages, roads):
    """Return the pages before and after one, for a reader who stays on the main road.

    Args:
        here (str): a chapter or the front page. From a side road, the main one is reached again.
        pages (list of str): all pages in order, the front page first.
        roads (dict): "main" or "side" for each chapter, by its name.

    Returns:
        tuple: two pages; None before the front page and after the last one of the main road.
    """
    place = pages.index(here)
    road = [number for number, page in enumerate(pages)
            if number == 0 or roads.get(name(page)) == "main"]
    before = [pages[number] for number in road if number < place]
    after = [pages[number] for number in road if number > place]
    if not after and place not in road:
        after = pages[place + 1:]
    return before[-1] if before else None, after[0] if after else None


def link(app, here, page):
    """Return what the template of previous and next needs to know of a page."""
    return page and {"link": app.builder.get_relative_uri(here, page),
                     "title": app.builder.render_partial(app.env.titles[page])["title"]}


def suggest(heading, repository, title, file):
    """Return a heading of a section and beside it a link to a new issue about the section."""
    section = text(heading[1])
    said = {"title": f"{title} / {section}", "body": f"{file}, section “{section}”:\n\n"}
    address = html.escape(f"{repository}/issues/new?{urlencode(said, quote_via=quote)}")
    # Search results leave out what has the class "headerlinks".
    return (f'<div class="heading">{heading[0]}<a class="suggest headerlinks" href="{address}">'
            f'<i class="fas fa-comment"></i><span>Suggest a change'
            f'<span class="{HIDDEN}"> to “{html.escape(section)}”</span></span></a></div>')


def solved(exercise, page):
    """Return the head of an exercise and behind it a box to tick."""
    title = text(exercise[1])
    key = html.escape(f"{page}/{nodes.make_id(title.partition('. ')[2])}")
    return (f'{exercise[0]} <label class="aid solved headerlinks"><input type="checkbox" '
            f'data-done="{key}" aria-label="Solved: {html.escape(title)}">Solved</label>')


def page(app, pagename, templatename, context, doctree):
    """Add to a page what a reader uses on it."""
    context["metatags"] = (context.get("metatags") or "") + EARLY
    roads = {name(page): meta["road"] for page, meta in app.env.metadata.items() if "road" in meta}
    navigation = context["generate_toctree_html"]
    context["generate_toctree_html"] = cache(
        lambda **options: mark(navigation(**options), pagename, roads))
    if pagename not in app.env.found_docs:
        return
    here = name(pagename)
    pages = [app.config.root_doc]
    while following := app.builder.relations[pages[-1]][2]:
        pages.append(following)
    if roads.get(here) or pagename == pages[0]:
        prev, next_ = (link(app, pagename, page) for page in neighbours(pagename, pages, roads))
        context["main_road"] = {"prev": prev, "next": next_}
    context["read_as"] = here if here in roads else ""
    about = (app.config.html_theme_options["repository_url"],
             app.env.titles[pagename].astext(), app.env.doc2path(pagename, base=False))
    body = HEADING.sub(lambda heading: suggest(heading, *about), context["body"])
    context["body"] = EXERCISE.sub(lambda exercise: solved(exercise, here), body)
    for group in context["header_buttons"]:
        if group["type"] == "group":
            group["buttons"] = [button for button in group["buttons"]
                                if button.get("label") != "download-pdf-button"]
    context["header_buttons"].append(PRINT)


def setup(app):
    """Connect it, after the theme has made the sidebar and the buttons."""
    app.connect("doctree-read", note_road)
    app.connect("html-page-context", page, priority=550)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
