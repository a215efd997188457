"""One style sheet and one script for each page, in place of nine and nine.

A phone waits for each file: of 24 requests, 18 were for sheets and scripts that every page has.
The theme's icon fonts are left out; ``_static/icons.css`` draws the icons.
"""

import hashlib
import re
from pathlib import Path

# What the theme's own templates load; the macros in _ext/templates load the bundles instead.
THEME_SHEETS = ["basic.css", "styles/bootstrap.css", "styles/pydata-sphinx-theme.css"]
THEME_SCRIPTS = ["scripts/bootstrap.js", "scripts/pydata-sphinx-theme.js"]
# Few pages have cards: they load what draws them by itself.
APART = "sphinx-design"
SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*$", re.MULTILINE)


def bundle(app, suffix, files):
    """Return the address of the file that will hold ``files`` one after the other.

    Its name changes with what they hold, so that no browser shows an old one.
    """
    if (address := app.bundles.get(tuple(files))) is None:
        static = Path(app.outdir, "_static")
        known = [static / file for file in files if (static / file).is_file()]  # all but MyST-NB's
        held = b"".join([repr(files).encode(), *(file.read_bytes() for file in known)])
        address = f"_static/site.{hashlib.sha256(held).hexdigest()[:8]}.{suffix}"
        app.bundles[tuple(files)] = address
    return address


def names(files):
    """Return the paths in ``_static`` of Sphinx's entries, without inline scripts."""
    return [str(file.filename).removeprefix("_static/").partition("?")[0] for file in files
            if file.filename]


def page(app, pagename, templatename, context, doctree):
    """Give the page's template the addresses of its sheet and its script."""
    sheets, scripts = context["css_files"], context["script_files"]
    context["css_files"] = [sheet for sheet in sheets if APART in str(sheet.filename)]
    context["script_files"] = []
    for suffix, key, files in (
            ("css", "site_sheet", THEME_SHEETS + names(
                sheet for sheet in sheets if APART not in str(sheet.filename))),
            ("js", "site_script", names(scripts) + THEME_SCRIPTS)):
        context[key] = bundle(app, suffix, files)


def write(app, error):
    """Write the bundles, once all that goes into them is there."""
    for files, address in () if error else app.bundles.items():
        texts = [Path(app.outdir, "_static", file).read_text(encoding="utf-8") for file in files]
        between = ";\n" if address.endswith(".js") else "\n"
        Path(app.outdir, address).write_text(SOURCE_MAP.sub("", between.join(texts)),
                                             encoding="utf-8")


def setup(app):
    """Connect it, after all that adds sheets and scripts to a page."""
    app.bundles = {}
    app.connect("html-page-context", page, priority=900)
    app.connect("build-finished", write, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
