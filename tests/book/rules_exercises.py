"""Rules on the exercises of a chapter: told, tried, helped, solved."""

import re

from notebook_page import rule, text

EXERCISE = re.compile(r"^\*\*(\d+)\. [^*]+\*\* \(\d+ minutes, (●○○|●●○|●●●)\)\. \S", re.MULTILINE)
COUNTS = {"your_own_transformer": (7, 7)}  # its milestones are its exercises; others: two or three
CHECK = re.compile(r'^check\("(\w+)", \w+\)$', re.MULTILINE)


def exercises(page):
    """Return [(number of the cell, its text, the cells up to the next Markdown cell)]."""
    start = next((n for n, level, title in page.headings() if (level, title) == (2, "Exercises")),
                 len(page.cells))
    found = []
    for n, cell in page.cells[start:]:
        if cell.cell_type == "markdown":
            found.append((n, cell.source, []))
        elif found:
            found[-1][2].append(cell)
    return [one for one in found if re.search(r"^\*\*\d+\. ", one[1], re.MULTILINE)]


def has_checks(page):
    """Return whether a page is a chapter, not a page to look things up."""
    return page.part < 7 or page.path.stem == "bug_clinic"


@rule
def exercises_are_timed_and_rated(page):
    """Two or three in a chapter, or as COUNTS says: a number, a title, minutes, ●○○ to ●●●."""
    if not has_checks(page):
        return
    found = exercises(page)
    fewest, most = COUNTS.get(page.path.stem, (2, 3))
    if not fewest <= len(found) <= most:
        yield f"{len(found)} exercises, not {fewest} to {most}"
    for place, (n, source, _) in enumerate(found, start=1):
        start = EXERCISE.search(source)
        if not start or int(start[1]) != place:
            yield f"cell {n} does not begin “**{place}. Title** (N minutes, ●●○). …”"


@rule
def exercises_have_a_stub_a_check_and_a_solution(page):
    """Untouched, the stub is told “not attempted yet”; the solution passes the same check."""
    if not has_checks(page):
        return
    for n, _, cells in exercises(page):
        if len(cells) != 2:
            yield f"after cell {n}: a stub and a solution, not {len(cells)} cells"
            continue
        stub, solution = cells
        names = CHECK.findall(stub.source)
        if len(names) != 1 or not CHECK.match(stub.source.splitlines()[-1]):
            yield f"after cell {n}: the stub does not end in one check(\"name\", answer)"
        elif f"{names[0]}: not attempted yet" not in text(stub):
            yield f"after cell {n}: the stub is not told “not attempted yet”"
        elif f'assert check("{names[0]}", ' not in solution.source:
            yield f"after cell {n}: the solution does not assert check(\"{names[0]}\", …)"


@rule
def first_exercise_tells_of_the_check(page):
    """What check and check.hint do is said before the first exercise."""
    if has_checks(page) and "check.hint(" not in "".join(
            source for _, source, _ in exercises(page)[:1]):
        yield "the section Exercises does not say what check.hint(…) does"
