"""What all tests share: the course on the path, and a small, repeatable number of examples."""

import os
import sys
from pathlib import Path

import browser
import pytest
from filelock import FileLock
from hypothesis import Phase, settings
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("quick", max_examples=20, deadline=None, derandomize=True, database=None)
# make mutants: a failure is enough, nobody reads the smallest example.
settings.register_profile("mutants", settings.get_profile("quick"), phases=(Phase.generate,))
# pytest --hypothesis-profile=thorough: many examples, others each time.
settings.register_profile("thorough", max_examples=1000, deadline=None, database=None)
settings.load_profile("quick")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Show pytest-xdist its groups, and begin with a test that builds the site.

    pytest-xdist 3.8 writes the group of a test where pytest 9.2 no longer reads it (its issue
    1386), and each worker would print the book. While one worker builds the site, the other has
    the tests that need none.
    """
    if config.getoption("loadgroup", False):
        for item in items:
            mark = item.get_closest_marker("xdist_group")
            if mark and not item.nodeid.endswith(f"@{mark.args[0]}"):
                item._id = type(item._id).parse(f"{item.nodeid}@{mark.args[0]}")
    builder = next((n for n, item in enumerate(items) if "site" in item.fixturenames), 0)
    items[:builder + 1] = [*items[builder:builder + 1], *items[:builder]]


@pytest.fixture
def float64():
    """Make float64 what PyTorch takes by default, for one test."""
    import torch
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


# --- the site (tests marked `site`): built once, opened in one browser

@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """Build this book, once for all workers; return the folder of its html."""
    if worker_id == "master":
        return browser.build_book(ROOT, tmp_path_factory.mktemp("site"))
    out = tmp_path_factory.getbasetemp().parent / "site"
    with FileLock(f"{out}.lock"):
        built, html = out / "built", out / "_build" / "html"
        if not built.exists():
            html = browser.build_book(ROOT, out)
            built.touch()
    return html


@pytest.fixture(scope="session")
def site_url(site):
    """Serve this book on this machine, where its own address says; return that, ending in /."""
    with browser.served(site, browser.prefix(ROOT)) as url:
        yield url


@pytest.fixture(scope="session")
def chromium():
    """Return the installed browser, started once for all tests."""
    with sync_playwright() as playwright:
        program = browser.launch(playwright)
        yield program
        program.close()
