"""Rules on the text of a notebook: its first cell, Markdown, links, sections and rhythm."""

import copy
import re

from notebook_page import ROOT, prose, rule, tags

from scripts import address
from scripts.execute import TIMES, write_times

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
LONG_RUNS = {"language_model": 120,   # seconds: it trains a model for a minute
             "multi_head_layer": 60,   # it trains nine small ones
             "decoder_mask": 60,   # it trains ten
             "one_equation": 40, "jax_arrays": 40}  # they compile programs of JAX
LAST_SECTIONS = ["Takeaways", "Exercises", "Further reading"]
# What shows as raw text in Colab, and the name to report it under.
NOT_PLAIN = {
    "a MyST directive": r"^\s*(```+|~~~+|:::+)\s*\{",
    "a MyST role": r"\{[a-zA-Z][\w:.+-]*\}`",
    "a MyST label": r"^\([\w-]+\)=",
    "a colon fence": r"^\s*:::",
    "a footnote": r"\[\^[^\]]+\]",
    "an HTML tag": r"</?[a-zA-Z][a-zA-Z0-9]*(\s[^<>]*)?/?>",
    "an image": r"!\[",
    "a cell break": r"^\+\+\+",
}
AMERICAN = re.compile(r"\b(colors?|colored|behaviors?|centers?|centered|neighbors?|favorites?|gray|"
                      r"labeled|modeling|catalogs?)\b", re.IGNORECASE)
HYPE = re.compile(r"\b(delve|seamless\w*|unleash\w*|game.chang\w+|cutting.edge|state.of.the.art|"
                  r"in this (section|chapter|notebook),? (we|you) will|simply put|needless to say|"
                  r"TODO|FIXME|XXX|PLACEHOLDER|lorem)\b", re.IGNORECASE)
EMOJI = re.compile("[\U0001F300-\U0001FAFF\u2600-\u26FF\u2705\u274C]")


@rule
def first_cell_promises(page):
    """Title, the problem, what is built, what is needed, in this order."""
    parts = {"# title": r"\A# \S", "the problem": r"^(?![#*])\S|^\*[^*\n]+\?\*$",
             "**You will build**": r"^\*\*You will build\*\* \S",
             "**You will need**": r"^\*\*You will need\*\* \S"}
    found = {name: re.search(part, page.first_source, re.MULTILINE)
             for name, part in parts.items()}
    yield from (f"the first cell lacks {name}" for name, match in found.items() if not match)
    places = [match.start() for match in found.values() if match]
    if places != sorted(places):
        yield "the parts of the first cell are out of order"


@rule
def first_cell_tells_time_and_difficulty(page):
    """Minutes from the length of the page, seconds from the clock, ●○○ to ●●●."""
    found = TIMES.search(page.first_source)
    if not found:
        yield "the first cell lacks “N minutes to read, N seconds to run”"
        return
    nb = copy.deepcopy(page.nb)
    write_times(nb)
    if nb.cells[0].source != page.first_source:
        yield f"“{found[0]}”, by its length “{TIMES.search(nb.cells[0].source)[0]}”: make execute"
    seconds = int(re.search(r"(\d+) seconds? to run", found[0])[1])
    limit = LONG_RUNS.get(page.path.stem, 90 if page.part >= 4 else 20)
    if not 1 <= seconds <= limit:
        yield f"{seconds} seconds to run, at most {limit}"
    if not re.search(r"difficulty (●○○|●●○|●●●)( |$)", page.first_source, re.MULTILINE):
        yield "the first cell lacks the difficulty, ●○○ to ●●●"
    if 0 < page.part < 7 and not re.search(r" · (main|side) road · ", page.first_source):
        yield "the first cell does not say “main road” or “side road”"


@rule
def first_cell_opens_in_colab(page):
    """A plain link to this very notebook at the address of the course."""
    want = f"[Open in Colab]({address.colab(page.path.as_posix())})"
    if page.first_source.count(want) != 1:
        yield f"the first cell lacks {want}"


@rule
def markdown_is_plain(page):
    """Nothing that Colab would show as raw text."""
    for n, cell in page.markdown:
        source = prose(cell.source)
        for name, pattern in NOT_PLAIN.items():
            where = cell.source if name in ("a MyST directive", "a MyST role") else source
            found = re.search(pattern, where, re.MULTILINE)
            if found:
                yield f"cell {n}: {name}: {found.group().strip()!r}"


@rule
def links_lead_somewhere(page):
    """Absolute, or to a page (and a heading) in the tree."""
    for n, cell in page.markdown:
        for target in LINK.findall(prose(cell.source)):
            if re.match(r"https?://[\w.-]+\.\w+", target):
                continue
            name, _, heading = target.partition("#")
            path = (ROOT / page.path.parent / name).resolve() if name else ROOT / page.path
            if path.suffix not in (".ipynb", ".md") or not (path.exists() or not name):
                yield f"cell {n}: nothing at {target}"
            elif heading and heading not in slugs(page, path):
                yield f"cell {n}: no heading #{heading} in {path.name}"


@rule
def headings_are_in_order(page):
    """One title, at the top; below it no level is skipped, no emoji, no full stop."""
    levels = [level for _, level, _ in page.headings()]
    if levels[:1] != [1] or levels.count(1) != 1:
        yield "one heading of level 1, the first"
    for before, (n, level, title) in zip(levels, page.headings()[1:], strict=False):
        if level > before + 1:
            yield f"cell {n}: “{title}” skips a level"
    for n, _, title in page.headings():
        if EMOJI.search(title) or title.endswith("."):
            yield f"cell {n}: “{title}” ends in a full stop or bears a picture"


@rule
def page_ends_as_all_do(page):
    """Takeaways, Exercises, Going deeper if there is any, Further reading."""
    titles = [title for _, level, title in page.headings() if level == 2]
    last = [title for title in titles if title != "Going deeper"][-3:]
    if last != LAST_SECTIONS or ("Going deeper" in titles and titles[-2:-1] != ["Going deeper"]):
        yield f"the last sections are {titles[-4:]}, not {LAST_SECTIONS}"


@rule
def main_text_is_short(page):
    """At most 1,300 words and 14 visible code cells before the last sections.

    The page for one hour is a course of its own: 24 cells, and 3,500 words with those in code.
    """
    end = min(n for n, level, title in page.headings() if level == 2 and title in LAST_SECTIONS)
    code = [cell.source for n, cell in page.shown if n < end and "hide-input" not in tags(cell)]
    words = sum(len(cell.source.split()) for n, cell in page.markdown if n < end)
    most = (1300, 14)
    if page.path.stem == "in_one_hour":
        words, most = words + sum(len(source.split()) for source in code), (3500, 24)
    if words > most[0] or len(code) > most[1]:
        yield f"{words} words and {len(code)} code cells in the main text, at most {most}"


@rule
def reader_is_asked_to_guess(page):
    """At least once, in bold, before the cell that tells."""
    if not any(re.search(r"\*\*(Guess|Predict)\b", cell.source) for _, cell in page.markdown):
        yield "no “**Guess first.**” on the page"


@rule
def words_are_the_house_s(page):
    """British spelling, no filler, nothing left to do."""
    for n, cell in page.markdown:
        for pattern in (AMERICAN, HYPE):
            yield from (f"cell {n}: “{found.group()}”" for found in pattern.finditer(
                re.sub(r"\]\([^)]*\)", "]", prose(cell.source))))


def slugs(page, path):
    """Return the anchors of the headings of a page, as GitHub makes them."""
    if path == ROOT / page.path:
        titles = [title for _, _, title in page.headings()]
    else:
        source = path.read_text(encoding="utf-8")
        titles = re.findall(r"^(?:\s*\")?#+ (.*?)(?:\\n\",?|\",?)?$", source, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
