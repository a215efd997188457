"""What a first visit costs a reader with a slow line: bytes, requests, seconds, moving text."""

import browser
import pytest
from first import first
from site_pages import PAGES

pytestmark = pytest.mark.site

LINE = {"offline": False, "latency": 150, "downloadThroughput": 1.6e6 / 8,
        "uploadThroughput": 0.75e6 / 8}
WATCH = """
  window.seen = {paint: 0, shift: 0};
  new PerformanceObserver(list => {
    for (const entry of list.getEntriesByName('first-contentful-paint'))
      seen.paint = entry.startTime;
  }).observe({type: 'paint', buffered: true});
  new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) seen.shift += entry.value;
  }).observe({type: 'layout-shift', buffered: true});
"""


def visit(chromium, url, width=390):
    """Open a page for the first time over a slow line.

    Returns:
        dict: ``paint``, milliseconds until the first text; ``shift``, how far what was drawn has
        moved; ``sizes``, the bytes received for each address.
    """
    context = chromium.new_context(viewport={"width": width, "height": 800})
    tab = context.new_page()
    line = context.new_cdp_session(tab)
    addresses, sizes = {}, {}
    line.on("Network.requestWillBeSent",
            lambda said: addresses.update({said["requestId"]: said["request"]["url"]}))
    line.on("Network.loadingFinished", lambda said: sizes.update(
        {addresses[said["requestId"]]: said["encodedDataLength"]}))
    line.send("Network.enable")
    line.send("Network.setCacheDisabled", {"cacheDisabled": True})
    line.send("Network.emulateNetworkConditions", LINE)
    tab.add_init_script(WATCH)
    tab.goto(url, wait_until="networkidle")
    tab.evaluate(browser.READY)
    seen = tab.evaluate("seen")
    context.close()
    return {**seen, "sizes": {url: size for url, size in sizes.items()
                              if url.startswith("http")}}


@pytest.mark.parametrize("page", first(PAGES))
def test_a_first_visit_over_a_slow_line(chromium, site_url, page):
    seen = [visit(chromium, f"{site_url}{page}.html")]
    while seen[-1]["paint"] >= 2000 and len(seen) < 3:       # other work on this machine delays it
        seen.append(visit(chromium, f"{site_url}{page}.html"))
    sizes = {url: size for url, size in seen[0]["sizes"].items() if "/_images/" not in url}
    print(f"{page}: {min(one['paint'] for one in seen):.0f} ms, {sum(sizes.values()) / 1000:.0f} "
          f"kB in {len(sizes)} requests, shift {seen[0]['shift']:.3f}")
    assert sum(sizes.values()) <= 350_000, sizes
    assert 3 <= len(sizes) <= 20, sizes
    assert 0 < min(one["paint"] for one in seen) < 2000
    assert max(one["shift"] for one in seen) <= 0.1


@pytest.mark.slow
def test_the_line_of_the_test_is_slow(chromium, site_url):
    """The text comes after two round trips and 60 kB: the line is as slow as it says."""
    url = f"{site_url}chapters/index.html"
    seen = visit(chromium, url)
    assert seen["paint"] > 400
