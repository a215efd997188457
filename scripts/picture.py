"""Photograph the built site for the README: the torn reshape, under the microscope.

    make book && .venv/bin/python scripts/picture.py      (writes _static/readme.png)
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "site"))

import browser  # noqa: E402

PAGE = "chapters/2_many_heads/view_and_transpose.html"


def main():
    """Open the page, switch the figure to torn, and save what a reader sees."""
    with (browser.served(ROOT / "_build" / "html", browser.prefix(ROOT)) as address,
          sync_playwright() as playwright):
        program = browser.launch(playwright)
        with browser.open_page(program, address + PAGE, width=1300, height=1060) as page:
            figure = page.locator("[data-explore]")
            figure.get_by_label("torn: view alone").check()
            page.evaluate("""() => window.scrollBy(0,
                document.querySelector('[data-explore]').getBoundingClientRect().top - 76)""")
            page.wait_for_timeout(500)  # scrolling is smooth
            page.screenshot(path=ROOT / "_static" / "readme.png")
        program.close()


if __name__ == "__main__":
    main()
