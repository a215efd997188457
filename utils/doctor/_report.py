"""The report on a program: for the terminal, for a notebook, and as data."""

import html
import textwrap
from dataclasses import asdict, dataclass, field, replace

from .faults import FAULTS

# The first line continues like this after the name of the program.
VERDICTS = {"healthy": "is healthy", "sick": "is sick", "unexplained": "is unexplained",
            "could not examine": "could not be examined"}
COLOURS = {"healthy": "#2f8f46", "sick": "#d1453b"}  # readable on white and on black
OTHER_COLOUR = "#a87400"
WIDTH = 78


@dataclass(frozen=True, repr=False)
class Report:
    """A verdict and the reasons for it.

    ``verdict``: a key of VERDICTS; "unexplained" is a program that differs from the reference in a
    way that no fault explains. ``names``: a list of tuples of fault names; each tuple explains all
    answers. Several tuples mean that no input that the program takes can distinguish them.
    """

    program: str
    level: str
    verdict: str
    headline: str       # what is wrong, for the first line of the text
    names: list = field(default_factory=list)
    details: dict = field(default_factory=dict)     # {fault: what is special about it here}
    findings: list = field(default_factory=list)    # sentences: what else is wrong
    notes: list = field(default_factory=list)       # sentences: what was not tested, or assumed
    asides: list = field(default_factory=list)      # sentences: what ``full`` and --verbose add
    evidence: str = ""
    called: str = ""    # how the program was built and called, if the doctor had to find out
    adapter: str = ""   # code to complete where that could not be found out
    then: str = ""      # how to examine it with this code

    def to_dict(self):
        """Return the report as a dict of text, numbers, lists and dicts."""
        return asdict(self) | {"names": [list(some) for some in self.names]}

    def full(self):
        """Return the text of the report with its asides."""
        return str(replace(self, notes=self.notes + self.asides, asides=[]))

    def lines(self):
        """Return [(kind, text)] of the report: heading, fault, look, case, item or code.

        Characters that would control a terminal are escaped.
        """
        found = [("heading", f"{self.program} {VERDICTS[self.verdict]}: {self.headline}")]
        found += [("item", f"{self.called}.")] if self.called else []
        faults = self._faults()
        for name in faults:
            if len(faults) > 1:
                found.append(("fault", f"{name}: {described(name, self.details)}"))
            found.append(("look", f"Look at {FAULTS[name].look} → chapter {FAULTS[name].chapter}"))
            if FAULTS[name].case:
                found.append(("case", f"A real case: {FAULTS[name].case}"))
        items = [text for text in self.findings if text[1:] not in self.headline]
        assumed = self.asides if self.verdict == "unexplained" else []
        items += [f"Note: {note}" for note in self.notes + assumed] + [self.evidence]
        found += [("item", text) for text in items if text]
        if self.adapter:
            found += [("item", "Add this below the program, with your own code in place of ...:"),
                      ("code", self.adapter), ("item", "Then:"), ("code", self.then)]
        return [(kind, printable(text)) for kind, text in found]

    def _faults(self):
        return list(dict.fromkeys(name for some in self.names for name in some))

    def _under_fault(self):
        """Return the kinds of lines that are indented, as they belong to the fault above them."""
        return ("look", "case") if len(self._faults()) > 1 else ()

    def __str__(self):
        indents = {"heading": 0} | dict.fromkeys(self._under_fault(), 4)
        return "\n".join(textwrap.indent(text, " " * 6) if kind == "code" else
                         wrapped(text, indents.get(kind, 2)) for kind, text in self.lines())

    __repr__ = __str__

    def _repr_html_(self):
        (_, heading), *rest = ((kind, html.escape(text)) for kind, text in self.lines())
        items = ""
        for kind, text in rest:
            if kind == "code":
                items = items.removesuffix("</li>") + f"<pre>{text}</pre></li>"
                continue
            style = ' style="margin-left: 1.5em"' if kind in self._under_fault() else ""
            if kind == "fault":
                text = f"<strong>{text.replace(':', '</strong>:', 1)}"
            items += f"<li{style}>{text}</li>"
        colour = COLOURS.get(self.verdict, OTHER_COLOUR)
        return (f'<div class="doctor" style="border-left: 4px solid {colour}; color: inherit; '
                f'padding-left: 0.8em; overflow-wrap: anywhere"><p><strong>{heading}</strong></p>'
                f"<ul>{items}</ul></div>")


def printable(text):
    """Return text in which every character that cannot be printed is escaped, but line ends."""
    return "".join(c if c.isprintable() or c in "\n\xa0" else repr(c)[1:-1] for c in text)


def described(name, details):
    """Return what a fault does, and what is special about it here; details is {fault: text}."""
    here = f" Here: {details[name]}." if name in details else ""
    return FAULTS[name].sentence + here


def enumerated(names):
    """Return names as "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def wrapped(text, indent):
    """Return text in indented lines, the later ones by two more; an address is not broken."""
    whole = text.replace("→ chapter ", "→\xa0chapter\xa0")
    return textwrap.fill(whole, WIDTH, initial_indent=" " * indent, break_long_words=False,
                         subsequent_indent=" " * (indent + 2), break_on_hyphens=False,
                         ).replace("\xa0", " ")
