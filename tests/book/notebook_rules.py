"""All rules on notebooks, together; each is a function of a page that yields what is wrong."""

import rules_code  # noqa: F401 - entering their rules is what they are imported for
import rules_exercises  # noqa: F401
import rules_form  # noqa: F401
import rules_text  # noqa: F401
from notebook_page import ROOT, RULES, Page, problems, read

from scripts.execute import notebooks

__all__ = ["ROOT", "RULES", "Page", "book", "problems", "read"]


def book():
    """Return the pages of all notebooks, each knowing the others."""
    pages = [read(path) for path in notebooks()]
    for page in pages:
        page.book = pages
    return pages
