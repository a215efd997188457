"""A small notebook that keeps every rule, and for each rule the ways to break it."""

import copy
import re

import nbformat
from notebook_rules import ROOT, Page
from rules_form import SETUP

from scripts import address
from scripts.execute import KERNELSPEC, TIMES, write_times

PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5E"
       "rkJggg==")
WORDS = "Each row is one query, and its votes sum to 1 whatever the scores were before. " * 3


def code(source, *, tags=None, outputs=()):
    """Return a code cell; ``outputs`` are MIME bundles, or strings that it printed."""
    metadata = {"tags": tags} if tags else {}
    if tags == ["hide-cell"]:
        metadata["cellView"] = "form"
    return nbformat.v4.new_code_cell(source, metadata=metadata, outputs=[
        nbformat.v4.new_output("stream", name="stdout", text=output) if isinstance(output, str)
        else nbformat.v4.new_output("display_data", data=output) for output in outputs])


def exercise(name, answer):
    """Return the stub of an exercise and its solution."""
    stub = code(f'answer = None\ncheck("{name}", answer)', outputs=[
        {"text/plain": f"{name}: not attempted yet."}])
    return stub, code(f'# @title Solution\nassert check("{name}", {answer})', tags=["hide-cell"])


def good_page():
    """Return a page that keeps every rule: six sections, two solutions, one figure."""
    path = ROOT / "chapters" / "1_one_head" / "good.ipynb"
    first = ("# Good: a page\n\n*What is good?*\n\n**You will build** one.\n\n**You will need** "
             "[notation](../notation.md).\n\n5 minutes to read, 3 for the exercises, 1 second to "
             "run · difficulty ●○○ · main road · "
             f"[Open in Colab]({address.colab(path.relative_to(ROOT).as_posix())})")
    text = nbformat.v4.new_markdown_cell
    cells = [text(first), code(SETUP, tags=["hide-cell"]),
             code("import numpy as np\nimport torch\n\nfrom utils import reference\n"
                  "from utils.checks import check_close\n\ntorch.manual_seed(0)\n"
                  "rng = np.random.default_rng(0)")]
    for n in range(6):
        cells += [text(f"## Section {n}\n\n{WORDS}\n\n> **Guess first.** How many?"),
                  code(f"scores = rng.standard_normal(({n + 2}, 7))\nassert scores.size")]
    cells += [text(WORDS),
              code("softened = reference.softmax(scores)\ncheck_close(softened, softened)",
                   outputs=["equal: (7, 7) float64, largest difference within 1e-12\n"]),
              text(WORDS),
              code("assert scores.ndim == 2\nplt.show()", outputs=[{"image/png": PNG}])]
    cells[-1].metadata["mystnb"] = {"image": {"alt": "A square of one single blue pixel"},
                                    "figure": {"caption": "One pixel, seen closely."}}
    cells += [text(f"## Takeaways\n\n- {WORDS}"),
              text("## Exercises\n\n`check.hint(\"add\")` helps.\n\n"
                   "**1. Add** (1 minutes, ●○○). One and one?"),
              *exercise("add", 2),
              text("**2. Subtract** (2 minutes, ●●○). One from one?"), *exercise("subtract", 0),
              text("## Further reading\n\n- [Paper](https://arxiv.org/abs/1706.03762)")]
    nb = nbformat.v4.new_notebook(cells=cells, metadata={
        "kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    nb.nbformat_minor = 5
    return renumber(Page(path.relative_to(ROOT), nb))


def save_of_utils(module, name):
    """Return a cell that teaches the last definition of a module of utils as it stands there."""
    path = ROOT.joinpath("utils", *module.split(".")).with_suffix(".py")
    source = path.read_text(encoding="utf-8")
    return code(f"#@save utils.{module}\n" + source[source.index(f"def {name}"):])


def redocumented(module, start, old, new):
    """Return a cell with the end of a module, its docstrings cut to a line and changed."""
    path = ROOT.joinpath("utils", *module.split(".")).with_suffix(".py")
    source = path.read_text(encoding="utf-8")
    source = re.sub(r'("""[^\n]+)\n.*?"""\n', r'\1"""\n', source[source.index(start):],
                    flags=re.DOTALL)
    assert old in source
    return code(f"#@save utils.{module}\n" + source.replace(old, new))


def renumber(page):
    """Count the cells as if they had run in order, and write the reading time."""
    for count, (_, cell) in enumerate(page.code, start=1):
        cell.execution_count = count
    if TIMES.search(page.first_source):
        write_times(page.nb, 1)
    return page


def edit(old, new, where=0):
    """Return a damage: replace ``old`` by ``new`` in cell ``where``."""
    def damage(page):
        assert old in page.nb.cells[where].source
        page.nb.cells[where].source = page.nb.cells[where].source.replace(old, new)
    return damage


def add(cell, where=4):
    """Return a damage: put a cell in."""
    return lambda page: page.nb.cells.insert(where, copy.deepcopy(cell))


def markdown(source):
    """Return a damage: one more paragraph."""
    return edit("## Section 0", f"## Section 0\n\n{source}", where=3)


def printed(output):
    """Return a damage: a cell that prints."""
    return lambda page: page.nb.cells[4].outputs.append(
        nbformat.v4.new_output("stream", name="stdout", text=output))


def shown(bundle):
    """Return a damage: a cell that displays a MIME bundle."""
    return lambda page: page.nb.cells[4].outputs.append(
        nbformat.v4.new_output("display_data", data=bundle))


def meta(where, **changes):
    """Return a damage: change the metadata of a cell; None removes a key."""
    def damage(page):
        for key, value in changes.items():
            page.nb.cells[where].metadata[key] = value
            if value is None:
                del page.nb.cells[where].metadata[key]
    return damage


def put(name, value):
    """Return a damage: set something of the whole notebook."""
    return lambda page: setattr(page.nb, name, value)


def many(*damages):
    """Return all damages as one."""
    return lambda page: [damage(page) for damage in damages]


FIGURE, EXERCISE = 18, 20
STUB, SOLUTION = EXERCISE + 1, EXERCISE + 2
ERROR = nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[])
STDERR = nbformat.v4.new_output("stream", name="stderr", text="warning\n")
SAVED = code("#@save utils.attention.heads\ndef merge_heads(x):\n    return x")

DAMAGES = {
    "file_is_small_and_plainly_named": [
        markdown("word " * 90_000),
        lambda page: setattr(page, "path", page.path.with_name("A b.ipynb"))],
    "format_is_4_5_with_ids": [
        put("nbformat_minor", 4), lambda page: page.nb.cells[4].update(id=page.nb.cells[3].id)],
    "metadata_is_minimal": [
        lambda page: page.nb.metadata.update(widgets={}),
        lambda page: page.nb.metadata.kernelspec.update(name="conda"),
        meta(4, colab={}), meta(4, tags=["skip-me"])],
    "setup_cell_is_the_one": [
        edit("    home = ", "    home =", where=1), meta(1, tags=[]), meta(1, cellView=None)],
    "no_cell_is_empty": [add(code(" "))],
    "cells_ran_from_top_to_bottom": [
        lambda page: page.nb.cells[4].update(execution_count=None),
        lambda page: page.nb.cells[4].update(execution_count=9)],
    "no_error_is_stored": [lambda page: page.nb.cells[4].outputs.append(ERROR)],
    "nothing_is_written_to_stderr": [lambda page: page.nb.cells[4].outputs.append(STDERR)],
    "what_is_printed_in_a_row_is_one_output": [
        lambda page: [printed(line)(page) for line in ("one\n", "two\n")]],
    "outputs_are_text_png_or_html": [
        shown({"application/vnd.jupyter.widget-view+json": {}}), shown({"image/svg+xml": "<svg/>"}),
        shown({"text/html": '<script src="https://cdn.example.org/a.js"></script>'}),
        shown({"text/markdown": "![map](https://example.org/map.png)"}),
        shown({"text/markdown": "| a | <b>b</b> |"})],
    "outputs_are_short": [printed("line\n" * 31)],
    "outputs_repeat_on_any_machine": [
        printed("<object at 0x7f12ab34>\n"), printed("tensor([[0.5, 0.25]])\n"),
        printed("0.1234567\n"), printed("difference 2.2e-16\n"),
        shown({"text/markdown": "| gap | 0.1234567 |", "text/plain": "<Markdown object>"})],
    "few_outputs_go_uncompared": [
        many(*(meta(n, tags=["nbval-ignore-output"]) for n in (4, 6, 8))),
        many(meta(4, tags=["nbval-ignore-output"]), edit("assert scores.size", "scores", where=4)),
        edit("assert", "# NBVAL_IGNORE_OUTPUT\nassert", where=4)],
    "figures_have_alt_text_and_caption": [
        meta(FIGURE, mystnb={"figure": {"caption": "One pixel, seen closely."}}),
        meta(FIGURE, mystnb={"image": {"alt": "A square of one single blue pixel"}}),
        lambda page: page.nb.cells[FIGURE].outputs.append(page.nb.cells[FIGURE].outputs[0]),
        lambda page: page.nb.cells.append(page.nb.cells[FIGURE])],
    "figures_show_what_is_asserted": [
        many(edit("assert scores.ndim == 2\n", "", where=FIGURE),
             edit("check_close(softened, softened)", "softened.shape", where=FIGURE - 2))],
    "words_are_spelt_right": [markdown("We rec" + "ieve a key.")],
    "cells_fit_the_page": [
        add(code("x = 1\n" * 35 + "x")), add(code("x = " + "1" * 76)), add(code("x = 1 \ny")),
        many(*(add(code("x = 1\n" * 20 + "x")) for _ in range(3)))],
    "page_has_a_readable_number_of_cells": [
        lambda page: page.nb.cells.__delitem__(slice(4, 11)),
        lambda page: page.nb.cells.extend([code("x = 1")] * 30)],
    "at_most_two_code_cells_in_a_row": [many(add(code("x = 1")), add(code("x = 2")))],
    "imports_stand_in_one_cell": [
        edit("assert", "import math\nassert", where=4),
        edit("import numpy", "import pandas", where=2),
        edit("import numpy", "import tensorflow", where=2),
        edit("import numpy", "import urllib.request", where=2)],
    "code_leaves_the_machine_alone": [
        edit("scores", source, where=4) for source in (
            "%matplotlib inline\nscores", "!ls\nscores", "sys.path.append('..')\nscores",
            "os.environ['A'] = 'b'\nscores", "warnings.filterwarnings('ignore')")],
    "randomness_has_a_seed": [
        edit("default_rng(0)", "default_rng()", where=2),
        edit("rng.standard", "np.random.standard", where=4),
        many(edit("torch.manual_seed(0)\n", "", where=2),
             edit("scores.size", "torch.rand(3)", where=4)),
        edit("scores.size", "random.choice([1])", where=4)],
    "page_meets_the_reference": [edit("reference.softmax", "softmax", where=16)],
    "sections_check_values": [edit("assert ", "", where=4)],
    "solutions_fold_run_and_assert": [
        meta(SOLUTION, tags=[]), meta(SOLUTION, cellView=None),
        edit('assert check("add", 2)', "answer = 2", where=SOLUTION),
        edit("# @title Solution\n", "", where=SOLUTION),
        lambda page: page.nb.cells.pop(SOLUTION)],
    "exercises_are_timed_and_rated": [
        edit("(1 minutes, ●○○)", "(easy)", where=EXERCISE), edit("**1. ", "**2. ", where=EXERCISE),
        edit("**1. ", "**Also: ", where=EXERCISE)],
    "exercises_have_a_stub_a_check_and_a_solution": [
        lambda page: page.nb.cells.pop(STUB), lambda page: page.nb.cells.pop(SOLUTION),
        edit('check("add", answer)', "answer", where=STUB),
        edit('check("add", answer)', 'check("add", answer)\nprint(1)', where=STUB),
        lambda page: page.nb.cells[STUB].outputs.clear(),
        edit("add", "subtract", where=SOLUTION)],
    "first_exercise_tells_of_the_check": [edit("check.hint", "help", where=EXERCISE)],
    "saved_code_is_the_code_in_utils": [
        add(SAVED), add(code("x = 1\n#@save utils.attention.heads")),
        add(code("#@save utils.attention.heads\nmerge_heads(1)")),
        add(code("#@save utils.nowhere\ndef merge_heads(x):\n    return x")),
        add(redocumented("attention.heads", "def merge_heads", '"""Merge', '"""Join')),
        add(redocumented("attention.heads", "def merge_heads", '"""', "# ")),
        add(redocumented("attention.einsum", "class Multi", '"""Multi', '"""A multi')),
        add(redocumented("attention.einsum", "class Multi", '"""Return (output', '"""(output')),
        add(redocumented("attention.einsum", "class Multi", '        """Return (output, attn), '
                         '(b, i, e) and (h, b, i, j)."""\n', ""))],
    "first_cell_promises": [
        edit("# Good", "Good"), edit("*What is good?*\n\n", ""),
        edit("**You will build** one", "Nothing"), edit("**You will need** ", "See "),
        many(edit("**You will build** one.", ""),
             edit("[notation]", "x\n\n**You will build** [notation]"))],
    "first_cell_tells_time_and_difficulty": [
        edit("5 minutes to read, ", ""), edit("5 minutes", "45 minutes"),
        edit("1 second ", "21 seconds "), edit("●○○", "easy"), edit("●○○", "○○●"),
        edit("main road", "by-road")],
    "first_cell_opens_in_colab": [
        edit("/1_one_head/good.ipynb)", "/good.ipynb)"),
        edit("[Open in Colab]", "[Open elsewhere]"),
        edit("colab.research", "example")],
    "markdown_is_plain": [
        markdown(source) for source in (
            "```{note}\nText\n```", ":::{tip}\nText\n:::", "See {ref}`masks`.", "(label)=",
            "A note.[^1]", "<div>Text</div>", "![map](map.png)")],
    "links_lead_somewhere": [
        markdown("[x](../nowhere.ipynb)"), markdown("[x](/etc/passwd)"), markdown("[x](#nowhere)"),
        markdown("[x](../notation.md#nowhere)")],
    "headings_are_in_order": [
        markdown("# Another title"), markdown("#### Too deep"), markdown("### Ends in a stop."),
        edit("## Section 1", "## \U0001F680 Section 1", where=5)],
    "page_ends_as_all_do": [
        edit("## Takeaways", "## Summary", where=19),
        edit("## Further", "## Further\n\n## Further", where=-1)],
    "text_and_code_take_turns": [
        markdown("word " * 4000),
        lambda page: [cell.update(source=re.sub(r"Each row.*", "", cell.source))
                      for _, cell in page.markdown]],
    "reader_is_asked_to_guess": [
        lambda page: [cell.update(source=cell.source.replace("**Guess", "**Think"))
                      for _, cell in page.markdown]],
    "words_are_the_house_s": [markdown("One color bar."), markdown("Let us delve into it."),
                              markdown("TODO: more.")],
}
