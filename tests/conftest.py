"""What all tests share: the course on the path, and a small, repeatable number of examples."""

import os
import subprocess
import sys
from pathlib import Path

import browser
import pytest
from hypothesis import settings
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("MPLBACKEND", "Agg")

settings.register_profile("quick", max_examples=20, deadline=None, derandomize=True, database=None)
# pytest --hypothesis-profile=thorough: many examples, others each time.
settings.register_profile("thorough", max_examples=1000, deadline=None, database=None)
settings.load_profile("quick")


# --- the site (tests marked `site`): built once, opened in one browser

@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Build the book from nothing, any warning an error; return the folder of its html."""
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [str(Path(sys.executable).with_name("jupyter-book")), "build", str(ROOT), "--path-output", str(out),
         "-W", "-n", "--keep-going"], capture_output=True, text=True)
    if built.returncode:
        log = built.stdout + built.stderr
        pytest.fail("the site does not build:\n" + "\n".join(
            line for line in log.splitlines() if "WARNING" in line or "ERROR" in line) or log[-3000:],
            pytrace=False)
    return out / "_build" / "html"


@pytest.fixture(scope="session")
def site_url(site):
    """Serve the built site on this machine; return its address, ending in /."""
    with browser.served(site) as url:
        yield url


@pytest.fixture(scope="session")
def chromium():
    """Return the installed browser, started once for all tests."""
    with sync_playwright() as playwright:
        program = browser.launch(playwright)
        yield program
        program.close()
