"""Rules on the form of a notebook: its file, metadata, cells, stored outputs and figures."""

import ast
import json
import math
import re
import subprocess
import sys
from itertools import pairwise

from notebook_page import ROOT, data, prose, rule, streams, tags, text

from scripts.execute import CELL_METADATA, KERNELSPEC

SETUP = (ROOT / "scripts" / "setup_cell.py").read_text(encoding="utf-8").rstrip("\n")
TAGS = {"hide-cell", "hide-input", "nbval-ignore-output", "raises-exception"}
MIME_TYPES = {"text/plain", "text/markdown", "text/html", "image/png"}


@rule
def file_is_small_and_plainly_named(page):
    """At most 400 kB, lower case, no spaces."""
    size = len(json.dumps(page.nb, ensure_ascii=False).encode())
    if size > 400_000:
        yield f"{size // 1000} kB, at most 400"
    if not re.fullmatch(r"[a-z0-9_]+\.ipynb", page.path.name):
        yield f"{page.path.name!r}: lower case letters, digits and _ only"


@rule
def format_is_4_5_with_ids(page):
    """Every cell has an id of its own."""
    if (page.nb.nbformat, page.nb.nbformat_minor) != (4, 5):
        yield f"nbformat {page.nb.nbformat}.{page.nb.nbformat_minor}, not 4.5"
    ids = [cell.get("id") for _, cell in page.cells]
    if None in ids or len(set(ids)) < len(ids):
        yield "a cell without an id, or two with the same"


@rule
def metadata_is_minimal(page):
    """Nothing of Colab, widgets or one machine's kernel."""
    if page.nb.metadata != {"kernelspec": KERNELSPEC, "language_info": {"name": "python"}}:
        yield f"the notebook's metadata is {dict(page.nb.metadata)}"
    for n, cell in page.cells:
        if set(cell.metadata) - set(CELL_METADATA):
            yield f"cell {n}: metadata {sorted(cell.metadata)}"
        if set(tags(cell)) - TAGS:
            yield f"cell {n}: tags {tags(cell)}"


@rule
def setup_cell_is_the_one(page):
    """The second cell is scripts/setup_cell.py, folded."""
    setup = page.nb.cells[1] if len(page.nb.cells) > 1 else None
    if setup is None or setup.cell_type != "code" or setup.source != SETUP:
        yield "cell 1 is not scripts/setup_cell.py to the byte (make address puts it there)"
    elif tags(setup) != ["hide-cell"] or setup.metadata.get("cellView") != "form":
        yield "cell 1 does not fold: tag hide-cell, cellView form"


@rule
def no_cell_is_empty(page):
    """An empty cell is a slip."""
    for n, cell in page.cells:
        if not cell.source.strip():
            yield f"cell {n} is empty"


@rule
def cells_ran_from_top_to_bottom(page):
    """nbval compares only cells that have been run."""
    counts = [cell.execution_count for _, cell in page.code]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts {counts}: make execute NB={page.path}"


@rule
def no_error_is_stored(page):
    """Unless the cell says that it raises."""
    for n, cell in page.code:
        raised = any(output.output_type == "error" for output in cell.outputs)
        if raised and "raises-exception" not in tags(cell):
            yield f"cell {n} stores an error"


@rule
def nothing_is_written_to_stderr(page):
    """Warnings and progress bars are noise to a reader."""
    for n, cell in page.code:
        if streams(cell, "stderr"):
            yield f"cell {n} wrote to stderr: {streams(cell, 'stderr')[:60]!r}"


@rule
def what_is_printed_in_a_row_is_one_output(page):
    """Lines that came slowly would stand in boxes of their own."""
    for n, cell in page.code:
        for before, after in pairwise(cell.outputs):
            if before.output_type == "stream" and before.get("name") == after.get("name"):
                yield f"cell {n}: its output came in pieces; scripts/execute.py joins them"


@rule
def outputs_are_text_png_or_html(page):
    """No widget state, no vector graphics; HTML fetches only from the site, Markdown is text."""
    for n, cell in page.code:
        for bundle in data(cell):
            if set(bundle) - MIME_TYPES:
                yield f"cell {n} shows {sorted(set(bundle) - MIME_TYPES)}"
            if re.search(r"(src|href)\s*=\s*[\"']?(https?:)?//|@import|url\((?!#|data:)"
                         r"|\bfetch\((?!onSite\()",
                         bundle.get("text/html", "")):
                yield f"cell {n}: its HTML asks another host"
            if re.search(r"!\[|</?[a-zA-Z]", bundle.get("text/markdown", "")):
                yield f"cell {n}: its Markdown brings an image or HTML"


@rule
def outputs_are_short(page):
    """Nobody reads more than thirty lines."""
    for n, cell in page.code:
        if len(text(cell).splitlines()) > 30:
            yield f"cell {n} prints {len(text(cell).splitlines())} lines"


@rule
def outputs_repeat_on_any_machine(page):
    """No address, no float tensor as it comes, no long tail of digits, no rounding error."""
    for n, cell in page.code:
        shown = text(cell)
        if re.search(r"0x[0-9a-fA-F]{6,}", shown):
            yield f"cell {n} shows a memory address"
        if re.search(r"\b(tensor|array|tf\.Tensor)\([^)]*\d\.", shown):
            yield f"cell {n} shows a raw float tensor"
        if "nbval-ignore-output" in tags(cell):
            continue
        if re.search(r"\d\.\d{6,}", shown):
            yield f"cell {n} shows more than five decimals"
        for error in re.findall(r"(?<!<)(?<!within)(?<!≤) ([\d.]+e-(?:09|[1-9]\d))", shown):
            yield f"cell {n} shows {error}: differences under 1e-9 print as “< 1e-9”"


@rule
def few_outputs_go_uncompared(page):
    """One cell in eight (one in four in Parts 4 and 5), by its tag; each, or the next, asserts."""
    ignored = [(n, cell) for n, cell in page.code if "nbval-ignore-output" in tags(cell)]
    quota = 4 if page.part in (4, 5) else 8
    if len(ignored) > math.ceil(len(page.code) / quota):
        yield f"{len(ignored)} of {len(page.code)} code cells are not compared"
    for n, cell in ignored:
        after = page.nb.cells[n + 1] if n + 1 < len(page.nb.cells) else None
        folded = after and {"hide-cell", "hide-input"} & {*tags(after)}
        if not any(checks_something(one.source) for one in (cell, *([after] if folded else []))):
            yield (f"cell {n} is neither compared, nor does it or the folded cell after it assert")
    for n, cell in page.code:
        if re.search(r"#\s*(NBVAL_|PYTEST_VALIDATE)", cell.source):
            yield f"cell {n} steers nbval by a comment"


@rule
def figures_have_alt_text_and_caption(page):
    """One PNG a cell; alt text of 20 characters or more that no other figure has."""
    alts = [alt_text(cell) for other in page.book or [page] for _, cell in other.code]
    for n, cell in page.code:
        images = sum("image/png" in bundle for bundle in data(cell))
        if images > 1:
            yield f"cell {n} shows {images} figures"
        if not images:
            continue
        alt = alt_text(cell)
        if len(alt) < 20:
            yield f"cell {n}: alt text {alt!r} (mystnb.image.alt)"
        elif alts.count(alt) > 1:
            yield f"cell {n}: another figure has the same alt text"
        if len(cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "")) < 10:
            yield f"cell {n} has no caption (mystnb.figure.caption)"


@rule
def figures_show_what_is_asserted(page):
    """A picture alone proves nothing: its cell, or the one before it, checks the numbers."""
    for (_, before), (n, cell) in pairwise(page.code):
        if any("image/png" in bundle for bundle in data(cell)) and not (
                checks_something(cell.source) or checks_something(before.source)):
            yield f"cell {n} draws what nothing asserts"


@rule
def words_are_spelt_right(page):
    """As codespell knows them."""
    words = "\n".join(prose(cell.source) for _, cell in page.markdown)
    spell = subprocess.run([sys.executable, "-m", "codespell_lib", "-"], input=words, text=True,
                           capture_output=True, cwd=ROOT, encoding="utf-8", check=False)
    yield from re.findall(r"\S+ ==> .*", spell.stdout)


def alt_text(cell):
    """Return a figure's alternative text, "" when there is none."""
    return cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")


def parse(source):
    """Return the syntax tree of a cell; an empty one for a cell that is not plain Python."""
    try:
        return ast.parse(source)
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def checks_something(source):
    """Return True when a cell asserts, or compares with a function that raises."""
    tree = parse(source)
    return any(isinstance(node, ast.Assert)
               or (isinstance(node, ast.Call)
                   and ast.unparse(node.func).rpartition(".")[2].startswith(("check", "assert_")))
               for node in ast.walk(tree))
