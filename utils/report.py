"""What the doctor says of a program: for the terminal, a notebook, and other programs."""

import html
from dataclasses import asdict, dataclass, field

from utils.faults import FAULTS

VERDICTS = ("healthy", "note", "sick", "could not examine")


@dataclass(frozen=True)
class Report:
    """A verdict, and why.

    ``names``: the sets of faults, tuples of names, each of which explains all answers. Several sets
    mean that no input that the program takes can tell them apart; none, that nothing matches.
    """

    program: str
    level: str
    verdict: str
    headline: str
    names: list = field(default_factory=list)
    details: dict = field(default_factory=dict)     # what is special here, by name of the fault
    findings: list = field(default_factory=list)    # sentences: what is wrong besides
    notes: list = field(default_factory=list)       # sentences: choices, and what was not asked
    evidence: str = ""

    def to_dict(self):
        """Return the report as a dict of text, numbers, lists and dicts."""
        return asdict(self) | {"names": [list(some) for some in self.names]}

    def lines(self):
        """Return [(kind, text)] of the report: heading, fault, look, or item."""
        found = [("heading", f"{self.program}: {self.verdict}. {self.headline}")]
        for name in dict.fromkeys(name for some in self.names for name in some):
            fault, detail = FAULTS[name], self.details.get(name)
            here = f" Here: {detail}." if detail else ""
            found.append(("fault", f"{name}: {fault.sentence}{here}"))
            found.append(("look", f"Look at {fault.look} → chapter {fault.chapter}"
                          + (f"; a real case: {fault.case}" if fault.case else "")))
        items = [*self.findings, *(f"Note: {note}" for note in self.notes)]
        return found + [("item", text) for text in [*items, *filter(None, [self.evidence])]]

    def __str__(self):
        indent = {"heading": "", "fault": "  ", "look": "    ", "item": "  "}
        return "\n".join(indent[kind] + text for kind, text in self.lines())

    def _repr_html_(self):
        (_, heading), *rest = self.lines()
        colour = {"healthy": "#1a7f37", "note": "#9a6700"}.get(self.verdict, "#b42318")
        items = "".join(f"<li>{html.escape(text)}</li>" for _, text in rest)
        return (f'<div style="border-left: 4px solid {colour}; padding-left: 0.8em">'
                f"<p><strong>{html.escape(heading)}</strong></p><ul>{items}</ul></div>")
