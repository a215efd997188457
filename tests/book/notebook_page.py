"""One notebook as the rules see it, and the register that the rules enter themselves in."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
RULES = {}   # name -> function(page) that yields what is wrong, one sentence each

_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`[^`\n]+`|\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)


def rule(function):
    """Enter a rule under its own name."""
    RULES[function.__name__] = function
    return function


@dataclass
class Page:
    """A notebook, where it lies in the course, and all pages of the book (itself included)."""

    path: Path                                # relative to the root of the course
    nb: nbformat.NotebookNode
    book: list = field(default_factory=list)

    @property
    def cells(self):
        """Return (number, cell) for every cell; numbers start at 0, as in the file."""
        return list(enumerate(self.nb.cells))

    @property
    def code(self):
        """Return (number, cell) for every code cell, setup and solutions included."""
        return [(n, cell) for n, cell in self.cells if cell.cell_type == "code"]

    @property
    def markdown(self):
        """Return (number, cell) for every Markdown cell."""
        return [(n, cell) for n, cell in self.cells if cell.cell_type == "markdown"]

    @property
    def solutions(self):
        """Return (number, cell) for the solutions of the exercises."""
        return [(n, cell) for n, cell in self.code[1:]
                if cell.source.startswith("# @title Solution\n")]

    @property
    def shown(self):
        """Return (number, cell) for the code cells that a reader reads on the way."""
        return [(n, cell) for n, cell in self.code[1:] if "hide-cell" not in tags(cell)]

    @property
    def first_source(self):
        """Return the text of the first cell."""
        return self.nb.cells[0].source if self.nb.cells else ""

    @property
    def part(self):
        """Return the number of the part that the page belongs to, an integer (0 for none)."""
        return int(self.path.parent.name[0]) if self.path.parent.name[:1].isdigit() else 0

    def headings(self):
        """Return (number of the cell, level, text) for every heading."""
        return [(n, len(hashes), text.strip()) for n, cell in self.markdown
                for hashes, text in re.findall(r"^(#+)\s+(.*)$", _FENCE.sub("", cell.source),
                                               re.MULTILINE)]


def read(path):
    """Return the page at ``path``, absolute or relative to the root."""
    path = (ROOT / path).resolve()
    return Page(path.relative_to(ROOT), nbformat.read(path, as_version=4))


def tags(cell):
    """Return a cell's tags."""
    return cell.metadata.get("tags", [])


def prose(source):
    """Return Markdown without code and formulas."""
    return _INLINE.sub("", _FENCE.sub("", source))


def streams(cell, name="stdout"):
    """Return all a code cell wrote to a stream, one string."""
    return "".join(output.text for output in cell.outputs
                   if output.output_type == "stream" and output.name == name)


def data(cell):
    """Return the MIME bundles a code cell displayed, a list of dicts."""
    return [output.data for output in cell.outputs
            if output.output_type in ("display_data", "execute_result")]


def text(cell):
    """Return all a reader reads under a code cell."""
    return streams(cell) + "\n".join(
        bundle.get("text/markdown", bundle.get("text/plain", "")) for bundle in data(cell))


def problems(page, rules=None):
    """Return what is wrong with a page, name of the rule -> list of sentences."""
    found = {name: list(check(page)) for name, check in (rules or RULES).items()}
    return {name: sentences for name, sentences in found.items() if sentences}
