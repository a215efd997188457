"""What is wrong with a page that stands in a browser: each function returns lines of text.

Axe knows the rules of accessibility; the others here are what it does not look at, or slowly.
"""

from axe_playwright_python.sync_playwright import Axe

# Words in code by colour: the contrast ratio of WCAG 2.2 between each and what lies behind it.
PALE_CODE = """() => {
  const rgb = text => text.match(/[0-9.]+/g).map(Number);
  const light = text => {
    const [r, g, b] = rgb(text).map(c => (c /= 255) <= 0.04045 ? c / 12.92
                                                               : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => { while (/, 0\\)|transparent/.test(getComputedStyle(e).backgroundColor))
    e = e.parentElement; return getComputedStyle(e).backgroundColor; };
  const found = {};
  for (const e of document.querySelectorAll('.highlight pre span')) {
    if (!e.textContent.trim()) continue;
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found[e.className] ??= ratio.toFixed(2) + ', ' + e.textContent.slice(0, 30);
  }
  return Object.entries(found).map(([name, what]) => '.' + name + ' ' + what);
}"""
# What reaches beyond the right edge without standing in a box that scrolls.
TOO_WIDE = """() => {
  const page = document.documentElement;
  if (page.scrollWidth <= page.clientWidth) return [];
  const inBox = e => { for (e = e.parentElement; e && e !== document.body; e = e.parentElement)
    if (getComputedStyle(e).overflowX !== 'visible') return true; return false; };
  const wide = [...document.querySelectorAll('main *')].filter(
    e => e.getBoundingClientRect().right > page.clientWidth + 1 && !inBox(e));
  return [page.scrollWidth + ' px on ' + page.clientWidth,
          ...wide.slice(-3).map(e => e.tagName + '.' + e.className + ' '
                                     + e.textContent.trim().slice(0, 40))];
}"""

# Signs that belong to the code or formula before them, and stand on the line after it.
ASTRAY = """() => [...document.querySelectorAll('article :is(p, li) :is(code, math)')].flatMap(
  one => {
    const after = (one.closest('span.math') ?? one).nextSibling;
    const line = [...one.getClientRects()].pop();
    if (after?.nodeType !== Node.TEXT_NODE || !/^[,.;:)]/.test(after.data) || !line) return [];
    const sign = document.createRange();
    sign.setStart(after, 0);
    sign.setEnd(after, 1);
    return sign.getBoundingClientRect().left < line.right - 1
      ? ['a line begins with ' + after.data.slice(0, 20) + ', after ' + one.textContent] : [];
  })"""
# Boxes that scroll sideways, and that the keyboard cannot reach.
UNREACHABLE = """() => [...document.querySelectorAll('article *')].filter(
  e => /auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1
       && e.tabIndex !== 0).map(e => 'no keyboard reaches ' + e.tagName + '.' + e.className + ' '
                                     + e.textContent.trim().slice(0, 40))"""
# Where TeX still stands as text: nothing outside code should hold these.
RAW_MATHS = """() => {
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  const raw = [];
  for (let node; (node = walk.nextNode());)
    if (!node.parentElement.closest('pre, code, script, style, math')
        && /\\$\\$|\\\\[(\\[]|\\\\(frac|sqrt|mathrm|top)|\\$[^ $][^$]*\\$/.test(node.data))
      raw.push('TeX left as text: ' + node.data.trim().slice(0, 60));
  for (const formula of document.querySelectorAll('.math'))
    if (!formula.querySelector('math')?.getBoundingClientRect().width)
      raw.push('formula not set: ' + formula.textContent.slice(0, 60));
  return raw;
}"""
# Those further down are loaded when the reader comes near: decoding is to be near.
PICTURES = """async () => (await Promise.all([...document.querySelectorAll('article img')].map(
  async image => {
    image.loading = 'eager';
    await image.decode().catch(() => null);
    return [...(image.naturalWidth ? [] : ['picture not there: ' + image.src]),
      ...(image.alt.length >= 20 ? [] : ['alt text too short: ' + image.alt + ' ' + image.src])];
  }))).flat()"""

# Icons are drawn by _static/icons.css, and the site has no icon font.
ICONS = """() => {
  const found = [];
  for (const e of document.querySelectorAll('.fa-solid, .fas, .fab, .fa'))
    if (!getComputedStyle(e).getPropertyValue('--icon'))
      found.push('icon not drawn: ' + e.className);
  for (const e of document.querySelectorAll('body *'))
    for (const side of ['::before', '::after']) {
      const style = getComputedStyle(e, side);
      if (/[\uE000-\uF8FF]/.test(style.content) && style.display !== 'none'
          && e.checkVisibility())
        found.push('sign of an icon font: ' + e.tagName + '.' + e.className + side);
    }
  return found;
}"""


def pale_code(page):
    """Return the words in code whose contrast to their background is under 4.5, as text."""
    return [f"contrast in code: {what}" for what in page.evaluate(PALE_CODE)]


def too_wide(page):
    """Return what makes a page scroll sideways, and boxes that do but only for a mouse, as text."""
    return ([f"scrolls sideways: {what}" for what in page.evaluate(TOO_WIDE)]
            + page.evaluate(UNREACHABLE))


def astray(page):
    """Return the lines that begin with a sign of the code or formula before them, as text."""
    return page.evaluate(ASTRAY)


def accessibility(page, contrast=True, others=True):
    """Return the serious and critical violations that axe finds, one line each.

    ``contrast`` is one rule, which takes as long as all ``others``. Sees code without its colours:
    for a thousand words of it axe needs seconds, and ``pale_code`` none.
    """
    page.evaluate("document.querySelectorAll('.highlight pre').forEach("
                  "pre => { pre.textContent = pre.textContent })")
    only = ({"runOnly": ["color-contrast"]} if not others else
            {"rules": {"color-contrast": {"enabled": contrast}}})
    found = Axe().run(page, options={"preload": False, "resultTypes": ["violations"], **only})
    return [f"axe {rule['impact']}, {rule['id']}: {len(rule['nodes'])} times, first at "
            f"{rule['nodes'][0]['html'][:160]}"
            for rule in found.response["violations"] if rule["impact"] in ("serious", "critical")]


def raw_maths(page):
    """Return the formulas that still stand there as TeX, as text."""
    return page.evaluate(RAW_MATHS)


def pictures(page):
    """Return the pictures that are not there, or of which nothing is said, as text."""
    return page.evaluate(PICTURES)


def icons(page):
    """Return the icons that the page asks for and nothing draws, as text."""
    return page.evaluate(ICONS)
