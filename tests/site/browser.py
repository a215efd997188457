"""The built book in a real browser: served from this machine, and cut off from every other.

``build_book`` builds it, ``served`` serves it, ``launch`` starts the browser, and ``open_page``
gives a page that writes down whatever went wrong on it: errors in its console, failed requests,
requests to another host (which are refused). Playwright drives the Chromium or Chrome that is
installed; it downloads nothing.
"""

import gzip
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_ext"))

import site_address

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ELSEWHERE = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
             "/Applications/Chromium.app/Contents/MacOS/Chromium")
MISSING = ("the site is tested in a real browser, and there is neither Chromium nor Chrome on this "
           "machine; on Debian and Ubuntu: sudo apt-get install chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-component-update", "--no-first-run")
# The next frame; a browser without a window may draw none for a while, so no longer than a second.
FRAME = """Promise.race([new Promise(requestAnimationFrame),
                         new Promise(after => setTimeout(after, 1000))])"""
# What moves by the clock: a table that fades where it goes on is moved by scrolling, without end.
# Looked at, not awaited: without a frame, no animation says that it has finished.
MOVING = """document.getAnimations().filter(
  one => one.timeline === document.timeline && one.playState === 'running')"""
# Until nothing fades in any more: half-faded text has half the contrast.
SETTLED = f"""async () => {{
  await {FRAME};
  for (let n = 0; n < 300 && {MOVING}.length; n++) await {FRAME};
}}"""
# Observers of sizes are called between a layout and its painting: after two frames they have run.
# The side bars slide in and out, and each of their frames is a new layout.
LAID_OUT = f"""async () => {{
  for (let still = 0, n = 0; still < 3 && n < 300; n++) {{
    await {FRAME};
    still = {MOVING}.length ? 0 : still + 1;
  }}
}}"""
READY = "() => document.fonts.ready.then(() => true)"


def build_book(source, out):
    """Build a book from nothing, any warning an error; return the folder of its html."""
    program = Path(sys.executable).with_name("jupyter-book")
    built = subprocess.run([program, "build", source, "--path-output", out, "-W", "-n",
                            "--keep-going"], capture_output=True, text=True)
    if built.returncode:
        lines = (built.stdout + built.stderr).splitlines()
        wrong = [line for line in lines if "WARNING:" in line or "ERROR:" in line] or lines[-30:]
        pytest.fail("\n".join(["the site does not build:", *wrong]), pytrace=False)
    return out / "_build" / "html"


def prefix(root):
    """Return the path under which the book in ``root`` will be served, ending in /."""
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    address = config["html"].get("baseurl") or site_address.of(config["repository"]["url"])
    return urlsplit(address).path or "/"


class Handler(SimpleHTTPRequestHandler):
    """Serves a site as GitHub does: under a prefix, compressed, 404.html for what is not there."""

    prefix = "/"

    def translate_path(self, path):
        """Return the file for an address, none for one outside the prefix."""
        inside = path.startswith(self.prefix)
        return super().translate_path("/" + path[len(self.prefix):] if inside else "/outside")

    def do_GET(self):
        """Answer with the file, or its page; text compressed."""
        path = Path(self.translate_path(urlsplit(self.path).path))
        if path.suffix not in (".html", ".css", ".js", ".svg", ".json") or not path.is_file():
            super().do_GET()
            return
        body = gzip.compress(path.read_bytes(), 6)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code, message=None, explain=None):
        """Answer with the site's own page for a wrong address."""
        page = Path(self.directory, "404.html")
        if code != 404 or not page.exists():
            super().send_error(code, message, explain)
            return
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        """Be quiet."""


class Server(ThreadingHTTPServer):
    """Does not mind a browser that hangs up before it has heard everything."""

    def handle_error(self, request, client_address):
        """Report errors other than that one."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def served(folder, prefix="/"):
    """Serve a folder on this machine alone; yields the address, ending in /."""
    handler = partial(type("Prefixed", (Handler,), {"prefix": prefix}), directory=str(folder))
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}{prefix}"
        server.shutdown()
        thread.join()


def launch(playwright):
    """Return the installed Chromium or Chrome, started. Fails the test when there is none."""
    found = [shutil.which(name) for name in NAMES]
    found += [path for path in ELSEWHERE if Path(path).exists()]
    path = next(filter(None, found), None)
    if path is None:
        pytest.fail(MISSING, pytrace=False)
    return playwright.chromium.launch(executable_path=path, args=FLAGS)


@contextmanager
def open_page(browser, url, theme="light", width=1300, height=900, touch=False):
    """Open an address; yields the page, whose ``problems`` lists what went wrong, as text.

    ``theme``: light or dark, what the reader's system asks for; ``touch``: fingers, no mouse.
    """
    host = urlsplit(url).netloc
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme,
                                  has_touch=touch)
    context.set_default_timeout(20_000)
    page = context.new_page()
    page.problems = problems = []

    def allow(route):
        target = urlsplit(route.request.url)
        if target.netloc == host or target.scheme in ("data", "blob"):
            route.continue_()
        else:
            problems.append(f"asks another host: {route.request.url}")
            route.abort()

    def failed(response):
        if response.status >= 400:
            problems.append(f"answered {response.status}: {response.url}")

    context.route("**/*", allow)
    page.on("response", failed)
    # What the browser itself gives up when the reader moves on has not failed.
    page.on("requestfailed", lambda request: request.failure != "net::ERR_ABORTED" and
            problems.append(f"request failed: {request.url}"))
    page.on("pageerror", lambda error: problems.append(f"script error: {error}"))
    page.on("console", lambda message: message.type in ("error", "warning") and problems.append(
        f"console {message.type}: {message.text}"))
    page.goto(url)
    page.evaluate(READY)
    try:
        yield page
    finally:
        context.close()


def resize(page, width, height=900):
    """Give the page more or less room, and wait until its scripts have seen the new layout."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(LAID_OUT)


def open_all(page):
    """Open whatever is folded, and wait until it has faded in."""
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true })")
    page.evaluate(SETTLED)


def until(page, condition):
    """Wait until a condition is true, at most 10 s: playwright's own way is forbidden by a page's
    Content-Security-Policy, because it evaluates text."""
    page.evaluate(f"""async () => {{
      const end = performance.now() + 10000;
      while (!({condition})) {{
        if (performance.now() > end) throw new Error('not within 10 s');
        await {FRAME};
      }}
    }}""")


def turn(page, theme):
    """Let the reader's system turn light or dark, and wait until the page has followed."""
    page.emulate_media(color_scheme=theme)
    until(page, f"document.documentElement.dataset.theme === '{theme}'")
    page.evaluate(SETTLED)
