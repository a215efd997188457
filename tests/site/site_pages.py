"""The pages of the book, and what the html of each points to."""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import browser
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PAGES = [TOC["root"], *(page["file"] for part in TOC["parts"] for page in part["chapters"])]
# Where pages stood before: each holds the address of the page of today.
REDIRECTS = CONFIG["sphinx"]["config"]["redirects"]
# Pages that Sphinx and its extensions add.
ADDED = ["404", "genindex", "index", "search"]
PREFIX = browser.prefix(ROOT)
# Elements and the attribute by which a browser loads something without being asked to.
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src",
         "audio": "src", "embed": "src", "object": "data", "link": "href"}


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
