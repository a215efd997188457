"""The program of the page for one hour, copied into an empty folder with NumPy and its weights."""

import shutil
import subprocess
import sys

import notebook_rules
import pytest

from utils.models import one_hour

PAGE = notebook_rules.read("chapters/in_one_hour.ipynb")
IMPORTS = "import numpy as np\n\n\n"
ALONE = """
import sys
assert not {"torch", "utils", "matplotlib"} & set(sys.modules), "more than NumPy"
"""


def program():
    """Return what a reader copies: the imports and the cells that begin with “# the program”."""
    cells = [cell.source for _, cell in PAGE.code if cell.source.startswith("# the program, ")]
    assert [cell.split("\n")[0] for cell in cells] == [
        f"# the program, {n} of {len(cells)}" for n in range(1, len(cells) + 1)]
    return IMPORTS + "\n\n\n".join(cells) + "\n"


def run(folder, source):
    (folder / "program.py").write_text(source, encoding="utf-8")
    return subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True,
                          text=True, encoding="utf-8", check=False)


@pytest.fixture
def folder(tmp_path):
    shutil.copy(one_hour.PATH, tmp_path)
    return tmp_path


def test_the_program_has_about_sixty_lines():
    assert 55 <= sum(bool(line.strip()) for line in program().splitlines()) <= 65


def test_copied_it_writes_what_the_page_shows(folder):
    call, = (cell for _, cell in PAGE.code if cell.source.startswith("print(write("))
    done = run(folder, program() + "model = load()\n" + call.source + ALONE)
    assert done.returncode == 0, done.stderr
    assert done.stdout == call.outputs[0].text
    assert len(done.stdout) > 200


@pytest.mark.slow
def test_all_visible_cells_of_the_main_text_need_numpy_alone(folder):
    end = min(n for n, _, title in PAGE.headings() if title == "Takeaways")
    cells = [cell.source for n, cell in PAGE.shown
             if n < end and not cell.source.startswith("# @title")]
    assert len(cells) > 15
    done = run(folder, "path = 'one_hour.npz'\n" + "\n".join(cells) + ALONE)
    assert done.returncode == 0, done.stderr


def test_a_character_that_the_model_does_not_know_is_one_sentence(folder):
    done = run(folder, program() + "write('dog 犬', 3, load(), np.random.default_rng(0))")
    assert done.stderr.splitlines()[-1] == (
        "ValueError: begin with characters that the model knows, not with ['犬']")


def test_a_missing_file_is_one_sentence(tmp_path):
    done = run(tmp_path, program() + "load()")
    assert done.stderr.splitlines()[-1] == (
        "FileNotFoundError: [Errno 2] No such file or directory: 'one_hour.npz'")


def test_long_texts_are_cut_to_the_places_that_there_are(folder):
    source = ("model, rng = load(), np.random.default_rng(0)\n"
              "print(len(write('a' * 300, 3, model, rng)))")
    assert run(folder, program() + source).stdout == "303\n"
