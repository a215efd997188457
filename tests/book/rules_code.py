"""Rules on the code of a notebook: length, imports, seeds, checks, what it shares with utils."""

import ast
import re
import sys
from collections import Counter
from functools import cache

from notebook_page import ROOT, rule, tags
from rules_form import SETUP, checks_something, parse

# What a page may import besides the standard library: what requirements.txt lists for it.
PACKAGES = {"numpy", "torch", "matplotlib", "keras", "einops", "tqdm", "IPython", "utils"}
NETWORK = {"urllib", "http", "socket", "ftplib", "requests", "ssl"}
MACHINERY = re.compile(r"^[%!]\w|get_ipython|\bsys\.path|\bos\.(chdir|environ)|pip install"
                       r"|__file__|\binput\(|filterwarnings|simplefilter", re.MULTILINE)
SAVE = re.compile(r"#@save utils\.([a-z_.]+)\n")
MOST_LINES = 35   # of a cell


@rule
def cells_fit_the_page(page):
    """At most 35 lines of 79 columns; nine cells in ten at most 20 besides docstrings."""
    for n, cell in page.code:
        lines = cell.source.splitlines()
        if len(lines) > MOST_LINES:
            yield f"cell {n} has {len(lines)} lines, at most {MOST_LINES}"
        if cell.source != SETUP and max(map(len, lines), default=0) > 79:
            yield f"cell {n} has a line of {max(map(len, lines))} columns, at most 79"
        if any(line != line.rstrip() or "\t" in line for line in lines):
            yield f"cell {n} has a tab, or blanks at the end of a line"
    long = [n for n, cell in page.shown
            if len(cell.source.splitlines()) - docstring_lines(cell.source) > 20]
    if len(long) * 10 > len(page.shown) + 9:
        yield f"cells {long} have more than 20 lines: more than one in ten"


@rule
def page_has_a_readable_number_of_cells(page):
    """Eight to thirty code cells; the guide is 8 to 20 without the solutions."""
    if not 8 <= len(page.shown) <= 30:
        yield f"{len(page.shown)} code cells besides setup and solutions, not 8 to 30"


@rule
def at_most_two_code_cells_in_a_row(page):
    """A third one needs a sentence before it."""
    kinds = "".join("c" if cell.cell_type == "code" else " " for _, cell in page.cells)
    for match in re.finditer("ccc+", kinds):
        yield f"cells {match.start()} to {match.end() - 1} are code without a word between them"


@rule
def imports_stand_in_one_cell(page):
    """The first code cell after the setup; a solution may bring its own.

    On the page for one hour, whose visible cells need NumPy alone, so may every folded cell.
    """
    hidden = {n for n, _ in page.solutions}
    if page.path.stem == "in_one_hour":
        hidden = {n for n, cell in page.code if {"hide-cell", "hide-input"} & {*tags(cell)}}
    for place, (n, cell) in enumerate(page.code[1:]):
        for node in ast.walk(parse(cell.source)):
            if not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) \
                else [node.module]
            if place and n not in hidden:
                yield f"cell {n} imports {', '.join(names)}"
            for name in {name.partition(".")[0] for name in names}:
                if name in NETWORK or name not in PACKAGES | set(sys.stdlib_module_names):
                    yield f"cell {n} imports {name} (TensorFlow: utils.frameworks)"


@rule
def code_leaves_the_machine_alone(page):
    """No magic, pip, path handling, question or silenced warning."""
    for n, cell in page.code[1:]:
        found = MACHINERY.search(cell.source)
        if found:
            yield f"cell {n}: {found.group().strip()}"


@rule
def randomness_has_a_seed(page):
    """In the first code cell after the setup; the old global generator of NumPy stays unused."""
    sources = {n: cell.source for n, cell in page.code[1:]}
    first = next(iter(sources.values()), "")
    everything = "\n".join(sources.values())
    if re.search(r"default_rng\(\s*\)|Random\(\s*\)", everything):
        yield "a generator without a seed"
    if re.search(r"np\.random\.(?!default_rng|Generator|SeedSequence)\w", everything):
        yield "np.random without default_rng"
    if re.search(r"\btorch\.(rand|randn|randint|randperm|bernoulli|multinomial)\w*\(|\bnn\.[A-Z]",
                 everything) and "torch.manual_seed(" not in first:
        yield "torch draws numbers, and the first code cell has no torch.manual_seed"
    if re.search(r"\brandom\.(random|choice|shuffle|sample|randint)\(",
                 re.sub(r"(np|numpy)\.random\.", "", everything)) and (
                     "random.seed(" not in first):
        yield "random draws numbers, and the first code cell has no random.seed"


@rule
def page_meets_the_reference(page):
    """Its values are compared with utils.reference at least once, in a cell that checks."""
    if not any(re.search(r"\breference\.\w+\(", cell.source) for _, cell in page.code[1:]):
        yield "utils.reference is never called"


@rule
def sections_check_values(page):
    """Each section with code has a cell that asserts or compares."""
    section, checked = None, {}
    for n, cell in page.cells:
        for at, level, title in page.headings():
            if at == n and level == 2:
                section = title
        if section and cell.cell_type == "code":
            checked[section] = checked.get(section, False) or checks_something(cell.source)
    yield from (f"nothing is checked in “{title}”" for title, good in checked.items() if not good)


@rule
def solutions_fold_run_and_assert(page):
    """Solutions and checks of the text are tagged, titled and assert; two solutions or more."""
    for n, cell in page.code[1:]:
        folded = cell.source.startswith(("# @title Solution\n", "# @title Check\n"))
        if folded != ("hide-cell" in tags(cell)):
            yield f"cell {n}: the tag hide-cell and “# @title Solution” or Check go together"
        elif folded and cell.metadata.get("cellView") != "form":
            yield f"cell {n}: a folded cell needs cellView form"
        elif folded and not checks_something(cell.source):
            yield f"cell {n}: the folded cell asserts nothing"
    if len(page.solutions) < 2:
        yield f"{len(page.solutions)} solutions, at least two"


@rule
def saved_code_is_the_code_in_utils(page):
    """A definition marked #@save equals the one in utils and stands once.

    Docstrings are compared by their first lines; those of private methods are optional, and so are
    those of all methods in a cell that has as many lines as it may have.
    """
    everywhere = Counter(saved for other in page.book or [page] for saved in saves(other))
    for n, cell in page.code:
        found = SAVE.match(cell.source)
        if "#@save" in cell.source and (not found or cell.source.count("#@save") > 1):
            yield f"cell {n}: #@save utils.<module> is the first line, once"
        if not found:
            continue
        module = ROOT.joinpath("utils", *found[1].split(".")).with_suffix(".py")
        source = module.read_text(encoding="utf-8") if module.exists() else ""
        theirs, ours = definitions(source), definitions(cell.source)
        if not ours:
            yield f"cell {n} saves no definition"
        for name, tree in ours.items():
            if theirs.get(name) != tree:
                yield f"cell {n}: {name} is not the one in utils.{found[1]}"
            if everywhere[found[1], name] > 1:
                yield f"cell {n}: {name} is taught twice"
        documented, full = first_lines(source), len(cell.source.splitlines()) >= MOST_LINES
        for name, line in first_lines(cell.source).items():
            expected, optional = documented.get(name), full and "." in name and line is None
            if line != expected and not optional:
                yield f"cell {n}: {name} must have the docstring {expected!r}, got {line!r}"


def saves(page):
    """Return (module, name) for every definition that a page marks #@save."""
    return [(found[1], name) for _, cell in page.code
            if (found := SAVE.match(cell.source)) for name in definitions(cell.source)]


@cache     # each page is compared with all the others
def definitions(source):
    """Return the functions, classes and constants of a source, name -> syntax tree as text."""
    found = {}
    for node in parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.dump(without_docstrings(node))
        elif isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = ast.dump(node)
    return found


def first_lines(source):
    """Return the first lines of docstrings, {name: line or None}, private methods left out."""
    found = {}
    for node in parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = first_line(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{method.name}": first_line(method) for method in node.body
                      if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")}
    return found


def first_line(node):
    """Return the first line of a docstring, or None."""
    docstring = ast.get_docstring(node)
    return docstring.splitlines()[0] if docstring else None


def docstring_lines(source):
    """Return how many lines of a source are docstrings of functions and classes."""
    return sum(node.body[0].end_lineno - node.body[0].lineno + 1 for node in ast.walk(parse(source))
               if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node))


def without_docstrings(tree):
    """Return the tree without the docstrings of its functions and classes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
