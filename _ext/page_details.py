"""Small things that every page needs and no option of the theme gives."""

import re
from functools import partial
from pathlib import Path, PurePosixPath

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from PIL import Image

PICTURE = re.compile(
    r'<img (?P<rest>(?=[^>]*src="(?P<src>[^"]+)")(?=(?P<sized>[^>]*\bwidth=)?)[^>]*>)')
TITLE = re.compile(r"# @title (.+)")
# A page loads nothing from another host. Its scripts and styles may stand in it: the theme's and
# those of the interactive figures do, also the script of the live model's worker.
POLICY = ("default-src 'self'; script-src 'self' 'unsafe-inline'; "
          "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
          "worker-src blob:; object-src 'none'; base-uri 'self'; form-action 'self'")
IDLE = re.compile("thebe|togglebutton|design-tabs", re.IGNORECASE)
# What a preview of a link shows, and the icon.
PREVIEW = re.compile(r"""<title>.*?</title>
                     |<meta[^>]*(?:name="description"|property="og:|name="twitter:)[^>]*>
                     |<link[^>]*rel="(?:icon|canonical)"[^>]*>""", re.DOTALL | re.VERBOSE)


def name_folded_cells(app, doctree):
    """Give a folded cell the title that Colab shows, its first line ``# @title …``."""
    for cell in doctree.findall(nodes.container):
        title = TITLE.match(cell.astext()) if cell.get("hide_mode") else None
        if title:
            cell["prompt_show"] = cell["prompt_hide"] = title[1].replace("`", "")


def open_folded(translator, node):
    """Write the summary as text: a label would hide the title from screen readers."""
    classes = " ".join(["admonition", "hide", *node["classes"]])
    translator.body.append(
        f'<details class="{classes}">\n<summary><p class="admonition-title">'
        f'{translator.encode(node["prompt_show"])}</p></summary>\n')


def close_folded(translator, node):
    """End what ``open_folded`` began."""
    translator.body.append("</details>\n")


def head(app, pagename, templatename, context, doctree):
    """Forbid other hosts, offer the favicon as SVG, too, and drop idle scripts and styles.

    The name of the course stands once in the title of the first page. jupyter-book always loads
    what Thebe, toggle buttons and tabs need, which this book does not use, and Thebe's scripts
    twice: the second definition of a constant is an error in every reader's console.
    """
    href = context["pathto"]("_static/favicon.svg", resource=True)
    context["metatags"] = (
        f'\n<meta http-equiv="Content-Security-Policy" content="{POLICY}" />\n'
        f'{context.get("metatags") or ""}'
        f'\n<link rel="icon" type="image/svg+xml" sizes="any" href="{href}" />\n')
    if pagename == app.config.root_doc:
        context["docstitle"] = "multi-head attention, proven"
    scripts = {(str(script.filename), script.attributes.get("body")): script
               for script in context["script_files"]}
    context["script_files"] = [script for key, script in scripts.items()
                               if not IDLE.search(repr(key))]
    cards = 'class="sd-' in (context.get("body") or "")
    context["css_files"] = [style for style in context["css_files"]
                            if not IDLE.search(str(style.filename))
                            and (cards or "sphinx-design" not in str(style.filename))]


def size_pictures(app, pagename, templatename, context, doctree):
    """Say how large pictures are, so that no text jumps; load those further down when needed."""
    above, heading, below = context.get("body", "").partition("<h2")
    files = {name: path for path, name in app.builder.images.items()}

    def sized(picture, rest=""):
        name = PurePosixPath(picture["src"]).name
        if name not in files or picture["sized"]:
            return picture[0]
        with Image.open(Path(app.srcdir, files[name])) as image:
            width, height = image.size
        return f'<img width="{width}" height="{height}" {rest}{picture["rest"]}'

    if above:
        context["body"] = (PICTURE.sub(sized, above) + heading
                           + PICTURE.sub(partial(sized, rest='loading="lazy" '), below))


def root(app, error):
    """Write index.html, which leads to the front page and bears its title, icon and description."""
    front = f"{app.config.root_doc}.html"
    if error or app.builder.name != "html" or front == "index.html":
        return
    up = "../" * front.count("/")
    head = "\n".join(PREVIEW.findall(Path(app.outdir, front).read_text(encoding="utf-8")))
    Path(app.outdir, "index.html").write_text(
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta http-equiv="refresh" content="0; url={front}">\n{head.replace(up, "")}\n</head>\n'
        f'<body><p><a href="{front}">One Equation, Many Programs</a></p></body>\n</html>\n',
        encoding="utf-8")


def setup(app):
    """Connect them."""
    app.connect("doctree-read", name_folded_cells)
    # After sphinx-notfound-page, which makes the addresses of its page absolute.
    app.connect("html-page-context", head, priority=600)
    app.connect("html-page-context", size_pictures, priority=600)
    app.connect("build-finished", root, priority=400)  # before jupyter-book writes a bare one
    app.add_node(HideCodeCellNode, override=True, html=(open_folded, close_folded))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
