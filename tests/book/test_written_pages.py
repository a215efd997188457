"""Pages that scripts write, references and the list of `utils`, are up to date and complete."""

import ast
import re

import pytest
from notebook_page import ROOT, read

from scripts import api, references
from scripts.execute import notebooks
from utils.doctor.faults import FAULTS

REFERENCES = references.PAGE.read_text(encoding="utf-8")
API = api.PAGE.read_text(encoding="utf-8")


def outside(text):
    """Return the links of a Markdown text to other hosts, those to the course itself aside."""
    found = set(re.findall(r"\]\((https?://[^)\s]+)\)", text))
    return {link for link in found if not link.startswith(references.OWN)}


@pytest.mark.parametrize("script", [references, api])
def test_the_page_is_as_its_script_writes_it(script):
    name = script.__name__.replace(".", "/")
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), f"run: python {name}.py"


def test_what_the_chapters_cite_is_what_the_references_list():
    cited = set()
    for path in notebooks():
        for _, cell in read(path).markdown:
            cited |= outside(cell.source)
    assert len(cited) > 90
    others = {fault.case for fault in FAULTS.values() if fault.case}
    for name in references.OTHERS:
        others |= outside(references.text(ROOT / "chapters" / name))
    assert cited <= outside(REFERENCES) == cited | others


def test_every_reference_says_what_it_is_for_and_where():
    for line in re.findall(r"^- .*", REFERENCES, re.MULTILINE):
        address = re.search(r"\]\((http[^)]+)\)", line)[1]
        assert re.search(r"\)(: \S.+)", line), line
        case = any(address == fault.case for fault in FAULTS.values())
        assert case or re.search(r" \(\[\w+\]\([\w./]+\)(, \[\w+\]\([\w./]+\))*\)$", line), line


def test_every_entry_by_hand_is_a_sentence():
    told = list(references.BY_HAND["threads"].values())
    told += [entry["for"] for group in references.GROUPS.values()
             for entry in references.BY_HAND[group].values()]
    assert len(told) > 150
    for one in told:
        assert re.fullmatch(r"[A-Z`].*\.", one), f"not a sentence: {one}"


def test_references_are_sorted():
    parts = re.split(r"^## .*\n", REFERENCES, flags=re.MULTILINE)[1:]
    entries = [re.findall(r"^- \[((?:[^\[\]]|\[[^\]]*\])*)\]\((\S+)\):", part, re.MULTILINE)
               for part in parts]
    assert [len(some) > 20 for some in entries] == [True] * 4
    for some in entries[:3]:
        titles = [references.by_name(title) for title, _ in some]
        assert titles == sorted(titles)
    numbers = [references.by_number(address) for _, address in entries[3]]
    assert numbers == sorted(numbers)
    first, second = (f"https://github.com/pytorch/pytorch/{kind}" for kind in (
        "pull/99282", "issues/103082"))
    assert REFERENCES.index("pytorch #99282") < REFERENCES.index("pytorch #103082")
    assert references.by_number(first) < references.by_number(second)


def test_the_order_of_what_is_written_by_hand_does_not_matter(monkeypatch):
    turned = {group: dict(reversed(mine.items())) for group, mine in references.BY_HAND.items()}
    monkeypatch.setattr(references, "BY_HAND", turned)
    assert references.page() == REFERENCES


def test_a_paper_has_one_year_on_all_pages():
    years = {address: re.search(r"\((\d{4})\)", known["title"])
             for address, known in references.BY_HAND["papers"].items()}
    for path in references.pages():
        text = references.text(path)
        for match in references.LINK.finditer(text):
            near = re.findall(r"\((\d{4})\)", text[max(0, match.start() - 50):match.start()])
            if years.get(match[2]) and near:
                assert near[-1] == years[match[2]][1], f"{path.stem}: {match[0]}"


def test_what_a_case_is_a_case_of_is_said():
    assert references.purpose("https://github.com/BobMcDear/attorch/issues/14", []).endswith(
        "It is a case of *constant scale* and of *shared head*.")
    assert references.purpose("https://a.b", [("", "short"), ("", "the long one")]) == (
        "The long one.")


def test_titles_by_hand_are_all_cited():
    assert {address for group in references.BY_HAND.values() for address in group} <= outside(
        REFERENCES)
    assert "## Elsewhere" not in REFERENCES, "give it a title in scripts/references.yml"


@pytest.mark.parametrize(("paragraph", "said"), [
    ("First. A [thing](https://a.b) is *so*. Last.", "A thing is *so*"),
    ("- One (2017), [thing](https://a.b): what for.", "One (2017), thing: what for"),
    ("| [thing](https://a.b) | cell |", "")])
def test_the_sentence_around_a_link_is_found(paragraph, said):
    assert references.sentence(paragraph, references.LINK.search(paragraph)) == said


def test_a_link_of_the_references_leads_to_a_page_of_the_book():
    for text, page in ((REFERENCES, references.PAGE), (API, api.PAGE)):
        links = set(re.findall(r"\]\(((?!http)[^)]+)\)", text))
        assert len(links) > 5
        for link in links:
            assert (page.parent / link).resolve().exists(), link


def test_every_public_name_of_a_room_to_read_is_listed():
    for room in set(api.rooms()) - set(api.MACHINERY):
        for path in (ROOT / "utils" / room).glob("[!_]*.py"):
            listed = API.partition(f"### `{api.dotted(path)}`\n")[2].partition("\n#")[0]
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    found = re.search(rf"^- `{node.name}[(`].*", listed, re.MULTILINE)
                    assert bool(found) == (not node.name.startswith("_")), node.name


def test_an_entry_shows_arguments_first_line_and_chapter():
    assert ("- `causal(n_q, n_k=None, align=None)`: Return keep (i, j): True where key j does not "
            "follow query i. → [masks](../1_one_head/masks.ipynb)") in API
    assert "- `Report(program, level, verdict, headline, names, " in API
    tree = ast.parse('def f(x, *, y=2):\n    """Return ``x[1]`` of a < b, *so*.\n\n    More."""')
    line, = api.entries("m", tree, {})
    assert line == "`f(x, *, y=2)`: Return `x[1]` of a \\< b, *so*."
