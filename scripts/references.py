"""Write the page of references, chapters/7_field_guide/references.md, from what the chapters cite.

    python scripts/references.py

Every link to another host in the text of a chapter comes in, with the pages that cite it. Titles
and what a thing is cited for stand in ``scripts/references.yml``. A thread is called by its
repository and number; without an entry, it is cited for the sentence in which it is cited.
"""

import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.execute import notebooks  # noqa: E402
from utils.doctor.faults import FAULTS  # noqa: E402

PAGE = ROOT / "chapters" / "7_field_guide" / "references.md"
OTHERS = ("index.md", "notation.md", "7_field_guide/cheat_sheet.md",
          "7_field_guide/for_teachers.md")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((https?://[^)\s]+)\)")
OWN = ("https://colab.research.google.com/", "https://github.com/OWNER/")
THREAD = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull|discussions)/(\d+)")
HEAD = """# References

The course relies on these papers, manuals and programs, and on threads in which real bugs were
found and fixed. Each entry says what it is cited for, and names the pages that cite it. Papers are
sorted by author, manuals and programs by name, and threads by repository and number. The year of a
paper is that of its first version. A *case* is a program with a fault that the doctor can name; a
case without a page is linked by the doctor alone.
"""
BY_HAND = yaml.safe_load((ROOT / "scripts" / "references.yml").read_text(encoding="utf-8"))
GROUPS = {"Papers": "papers", "Manuals": "manuals", "Programs and texts": "programs"}


def text(path):
    """Return the Markdown of a page."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8") if path.exists() else ""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def pages():
    """Return the paths of all pages that may cite, in the order of the book."""
    return [Path(path) for path in notebooks()] + [ROOT / "chapters" / name for name in OTHERS]


def citations():
    """Return {address: [(page, the sentence around it)]} of all links to other hosts."""
    found = {}
    for path in pages():
        for paragraph in re.split(r"\n\s*\n|\n(?=[-|] )", text(path)):
            for match in LINK.finditer(paragraph):
                if not match[2].startswith(OWN):
                    place = path, sentence(paragraph, match)
                    found.setdefault(match[2], []).append(place)
    return found


def sentence(paragraph, match):
    """Return the sentence that a link stands in, without its links, "" in a table."""
    if paragraph.lstrip().startswith("|"):
        return ""
    marked = paragraph[:match.start()] + "\0" + paragraph[match.start():]
    plain = LINK.sub(r"\1", marked).replace("**", "").replace("\n", " ")
    parts = re.split(r"(?<=[.!?])\)? (?=[“(A-Z\0`-])", plain)
    mine = next(part for part in parts if "\0" in part).replace("\0", "")
    return re.sub(r"^[-\d.( ]+", "", mine).strip(" .)")


def purpose(address, cited):
    """Return what a thread is cited for, in sentences."""
    told = BY_HAND["threads"].get(address)
    if not told and cited:
        told = max((said for _, said in cited), key=len) + "."
        told = told[0].upper() + told[1:]
    cases = [f"*{fault.name}*" for fault in FAULTS.values() if fault.case == address]
    case = cases and f"It is a case of {' and of '.join(cases)}."
    return " ".join(filter(None, (told, case)))


def by_name(title):
    """Return the key by which a title is sorted, as text without marks."""
    return title.replace("`", "").casefold()


def by_number(address):
    """Return the key by which a thread is sorted: its repository and its number."""
    match = THREAD.match(address)
    return (match[1].casefold(), int(match[2])) if match else (address.casefold(), 0)


def line(address, title, why, cited):
    """Return the line of one reference."""
    names = dict.fromkeys(path for path, _ in cited)
    links = ", ".join(f"[{path.stem}]({where(path)})" for path in names)
    return f"- [{title}]({address})" + f": {why}" * bool(why) + f" ({links})" * bool(links)


def where(path):
    """Return how the page of references links to another page."""
    path = path.resolve().relative_to(ROOT / "chapters")
    return path.name if path.parent.name == PAGE.parent.name else f"../{path.as_posix()}"


def page():
    """Return the text of the page."""
    found, parts = citations(), [HEAD]
    for heading, group in GROUPS.items():
        ordered = sorted(BY_HAND[group].items(), key=lambda item: by_name(item[1]["title"]))
        mine = [line(address, known["title"], known["for"], found.pop(address))
                for address, known in ordered if address in found]
        parts.append(f"## {heading}\n\n" + "\n".join(mine) + "\n")
    for fault in FAULTS.values():
        if fault.case:
            found.setdefault(fault.case, [])
    threads = {address: THREAD.match(address) for address in sorted(found, key=by_number)}
    mine = [line(address, f"{match[1]} #{match[2]}", purpose(address, found[address]),
                 found[address]) for address, match in threads.items() if match]
    parts.append("## Threads\n\n" + "\n".join(mine) + "\n")
    rest = [line(address, address.partition("//")[2], "", found[address])
            for address, match in threads.items() if not match]
    return "\n".join(parts + (["## Elsewhere\n\n" + "\n".join(rest) + "\n"] if rest else []))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT))
