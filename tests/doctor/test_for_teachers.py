"""The page for teachers: its commands do what it shows, and what it promises of the book holds."""

import re
import shlex
import subprocess
import sys

import pytest
import submissions
import yaml
from notebook_page import ROOT, read
from test_homework import filled

from scripts.execute import notebooks
from utils.doctor.homework import grade, programs as homework_programs

PAGE = ROOT / "chapters" / "7_field_guide" / "for_teachers.md"
TEXT = PAGE.read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n\$ (.*)\n([^`]*)```", TEXT)
PROBES = {"Ada Lovelace": submissions.STRICT, "Ben Okafor": submissions.ROW_SUMS,
          "Cyd Ngo": submissions.ALL, "Dora Lee": submissions.UNTOUCHED}
FIRST, LAST = re.compile(r"\d{8}"), "12345678"  # numbers depend on what faults there are


def said(command, folder):
    """Run a command of the page in ``folder``, as if the course stood there; return its output."""
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "utils.doctor.homework"]
    return subprocess.run([sys.executable, *words[1:]], cwd=folder, capture_output=True, text=True,
                          check=True, env={"PYTHONPATH": str(ROOT)}).stdout


def test_the_commands_print_what_the_page_shows(tmp_path):
    (tmp_path / "class.txt").write_text("\n".join(PROBES), encoding="utf-8")
    (tmp_path / "phrase.txt").write_text("tea at five", encoding="utf-8")
    (hand_out, handed), (grading, graded) = CONSOLE
    assert said(hand_out, tmp_path) == handed
    for student, probe in PROBES.items():
        path = tmp_path / "homework" / f"{student.replace(' ', '_')}.py"
        fault = homework_programs.chosen(grade.fields(path)["PROGRAM"]).fault
        filled(path, probe, {"A": fault, "B": "no causal mask"}.get(student[0], ""))
    printed = said(grading, tmp_path)
    assert FIRST.sub(LAST, printed) == FIRST.sub(LAST, graded), printed


def test_the_probe_on_the_page_is_the_one_that_was_graded():
    shown, = re.findall(r"```python\n(def probe.*?)```", TEXT, re.DOTALL)
    assert shown.strip() == submissions.ROW_SUMS[len(submissions.HEAD):].strip()


def test_the_program_on_the_page_says_what_the_page_says():
    code, = re.findall(r"```python\n(from utils\.doctor\.homework.*?)```", TEXT, re.DOTALL)
    known = {}
    exec(code, known)
    assert f"# {known['program']!r}\n" in code


def test_reveal_and_handing_out_need_numpy_alone(tmp_path):
    (tmp_path / "class.txt").write_text("Ada", encoding="utf-8")
    (tmp_path / "phrase.txt").write_text("tea at five", encoding="utf-8")
    code = ("import sys; from utils.doctor.homework import command; command.main(sys.argv[1:]); "
            "print(sorted({'torch', 'tensorflow', 'matplotlib'} & sys.modules.keys()))")
    words = shlex.split(CONSOLE[0][0])[3:]
    for arguments in (words, ["reveal", "1234"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=tmp_path, text=True,
                              env={"PYTHONPATH": str(ROOT)}, capture_output=True, check=True)
        assert done.stdout == "[]\n"


def test_every_chapter_has_its_objective():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = [page["file"] for part in toc["parts"] if part["caption"].startswith("Part")
                for page in part["chapters"]]
    rows = TEXT.partition("| chapter |")[2].partition("\n\n")[0]
    for chapter in chapters:
        assert f"({chapter.replace('chapters', '..')}.ipynb)" in rows, chapter


def test_sections_that_the_schedule_names_are_there():
    headings = {title.lower() for path in notebooks() for _, _, title in read(path).headings()}
    schedule = TEXT.partition("| class |")[2].partition("\n\n")[0]
    named = re.findall(r"(?<!\*)\*([^*|]+)\*(?!\*)", schedule)
    assert len(named) >= 5
    for name in named:
        assert name.lower() in headings, name
    assert len(re.findall(r"^\| [1-6] \|", schedule, re.MULTILINE)) == 6


def test_the_promised_times_hold():
    seconds = [int(re.search(r"(\d+) seconds? to run", read(path).first_source)[1])
               for path in notebooks() if path.parent.name[0] in "123"]
    promised = int(re.search(r"Parts 1 to 3 run in at most (\d+) seconds each", TEXT)[1])
    assert max(seconds) <= promised


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(((?!http)[^)#]+)", TEXT))))
def test_links_lead_somewhere(link):
    assert (PAGE.parent / link).resolve().exists()
