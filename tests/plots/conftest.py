"""A page in the browser that holds interactive figures."""

from contextlib import contextmanager

import pytest
from browser import open_page, served
from interactive import PAGE


@pytest.fixture
def show(chromium, tmp_path):
    """Return a context manager: figures on one page, which must end without any problem."""
    @contextmanager
    def shown(*figures, html="", css="", body="", **how):
        body = body or "<p>between</p>".join(figure._repr_html_() for figure in figures)
        (tmp_path / "page.html").write_text(PAGE.format(html=html, css=css, body=body),
                                            encoding="utf-8")
        with served(tmp_path) as address, open_page(chromium, address + "page.html", **how) as page:
            if figures:
                page.locator("[data-explore] .figure:not([aria-busy='true'])").first.wait_for()
            yield page
            assert page.problems == []
    return shown
