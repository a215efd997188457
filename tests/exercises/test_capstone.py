"""The judge of a whole transformer, in the shell: files that are right, wrong, or do not run."""

import ast
import importlib.util
import json
import re
import time
from pathlib import Path

import pytest
from attempts import your_own_transformer as attempts

from utils.exercises.capstone import command, heads, milestones, solution, training, writing
from utils.exercises.your_own_transformer import check

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(solution.__file__).read_text(encoding="utf-8")
RIGHT = sorted((Path(__file__).parent / "right_files").glob("*.py"))
ATTENTION, REST = SOURCE.split("def causal(n):")


def judged(capsys, file, *options):
    """Return (exit status, what the command prints, in one line)."""
    status = command.main([str(file), *options])
    return status, " ".join(capsys.readouterr().out.split())


def file_of(folder, text):
    """Return the path of a file with this text."""
    path = folder / "my_model.py"
    path.write_text(text, encoding="utf-8")
    return path


# --- right files

@pytest.mark.slow
@pytest.mark.parametrize("file", [*RIGHT, Path(solution.__file__)], ids=lambda file: file.stem)
def test_right_files_in_different_styles_pass_all_seven(capsys, file):
    status, said = judged(capsys, file)
    assert said.count(": right.") == 7
    end = re.search(r"7 of 7 milestones hold\. After 150 steps, your model needs (\d\.\d+) bits .*"
                    r"; counting single characters needs (\d\.\d+)\. It writes: The ", said)
    assert float(end[1]) < float(end[2]) - training.MARGIN
    assert status == 0


@pytest.mark.parametrize("file", RIGHT, ids=lambda file: file.stem)
def test_the_parts_of_right_files_are_right_one_by_one(file):
    spec = importlib.util.spec_from_loader(file.stem, loader=None)
    module = importlib.util.module_from_spec(spec)
    exec(file.read_text(encoding="utf-8").partition("\ntext = ")[0], vars(module))
    for name, milestone in milestones.MILESTONES.items():
        more = [module.Model] if milestone.with_model else []
        if name != "training":
            assert milestone.judge(getattr(module, milestone.defines), *more) == ""


def test_three_right_files_or_more():
    assert len(RIGHT) >= 3


# --- the first milestone that fails

@pytest.mark.parametrize(("text", "held", "words"), [
    ("", 0, "attention: not yet. my_model.py does not define attention(q, k, v, keep)."),
    (ATTENTION, 1, "mask: not yet. my_model.py does not define causal(n)."),
    ("def attention(q, k, v, keep):\n    return q @ k\n", 0,
     "It raises RuntimeError, at `return q @ k`: "),
    (ATTENTION + "import os\n\n\ndef causal(n):\n    os._exit(0)\n", 1,
     "mask: not yet. the process that ran it ended in the middle."),
    (ATTENTION + "def causal(n):\n    return torch.ones(n, n).tril(1).bool()\n", 1,
     "Your mask is off by one: each query also attends to the next key"),
    *(pytest.param(*row, marks=pytest.mark.slow) for row in (
        ("def attention(q, k, v, keep):\n    ...\n", 0,
         "attention(q, k, v, keep) is still empty."),
        ("def attention(q, k, v, keep):\n    raise NotImplementedError\n", 0,
         "raises NotImplementedError."),
        ("def attention(q, k, v, keep):\n    raise SystemExit\n", 0, "It raises SystemExit."),
        ("import torchh\n\n\ndef attention(q, k, v, keep):\n    return torchh.bmm(q, k)\n", 0,
         "needs torchh, which is not installed")))])
def test_the_first_milestone_that_fails_is_named_in_a_sentence(capsys, tmp_path, text, held, words):
    status, said = judged(capsys, file_of(tmp_path, text))
    assert words in said
    assert said.endswith(f"{held} of 7 milestones hold.")
    assert status == 1


@pytest.mark.slow
def test_a_hang_is_one_sentence_and_ends(capsys, tmp_path):
    text = ATTENTION + "def causal(n):\n    while True:\n        pass\n"
    start = time.perf_counter()
    status, said = judged(capsys, file_of(tmp_path, text), "--seconds", "30")
    assert time.perf_counter() - start < 60
    assert said.startswith("attention: right. mask: not yet. it did not finish within 30 seconds")
    assert status == 1


@pytest.mark.slow
def test_a_right_train_and_a_model_that_cannot_learn_are_told_apart(monkeypatch):
    class Deaf(solution.Model):
        def forward(self, tokens):
            return super().forward(tokens) * 1e-6

    monkeypatch.setattr(training, "STEPS", 60)
    monkeypatch.setattr(training, "_trained", training._trained.__wrapped__)  # nothing is kept
    monkeypatch.setattr(training, "_counted", lambda: 5.3)
    assert "the fault is in your model" in training.training(solution.train, Deaf)


# --- faults that show only together with the reader's own model

def test_pieces_that_are_longer_than_the_context_are_counted():
    build = attempts.changed("Model", *attempts.LEARNED, (
        attempts.WHERE, f"{attempts.WHERE} + self.where(torch.arange(tokens.shape[1]))"))
    train = attempts.changed("train", ("length = model.context + 1", "length = model.context + 3"))
    said = training.training(train, build)
    assert said.startswith("train gives the model 130 tokens at once, and its context is 128.")


def test_dropout_must_be_off_in_writing():
    build = attempts.changed("Model", (
        attempts.WHERE, "x = F.dropout(self.embedding(tokens), 0.1, self.training)"))
    quiet = attempts.changed("write", ("    for _ in range(n):", "    model.eval()\n"
                                       "    for _ in range(n):"))
    assert "call model.eval() first in write" in writing.writing(solution.write, build)
    assert writing.writing(quiet, build) == ""


def test_no_message_speaks_of_the_roles_of_the_doctor():
    torn = attempts.changed("MultiHead", ("rotate(k), v", "rotate(k), rotate(v)"))
    said = heads.heads(torn)
    assert "RoPE on values" in said
    assert "roles" not in said


# --- what cannot be run

@pytest.mark.parametrize(("name", "text", "words"), [
    ("my_model.py", "def attention(:\n", "my_model.py is not Python: "),
    ("my_model.txt", "", "expected FILE.py or FILE.ipynb"),
    ("none.py", None, "there is no file ")])
def test_a_file_that_cannot_be_run_is_status_2(capsys, tmp_path, name, text, words):
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    status, said = judged(capsys, tmp_path / name)
    assert said.startswith("The file could not be judged: ")
    assert words in said
    assert status == 2


def test_an_unknown_option_is_status_2(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["my_model.py", "--fast"])
    assert ended.value.code == 2
    assert "--fast" in capsys.readouterr().err


# --- the page, the solution and the messages agree

def test_the_names_are_the_same_everywhere():
    assert tuple(milestones.MILESTONES) == command.NAMES == tuple(check.exercises)
    for name, milestone in milestones.MILESTONES.items():
        assert re.search(rf"^  {name} +{re.escape(milestone.defines)}\("
                         rf"{re.escape(milestone.arguments)}\)$", command.EPILOG, re.MULTILINE)
        assert check.exercises[name].judge is milestone.judge


def test_the_solutions_of_the_page_are_the_file():
    page = ROOT / "chapters" / "4_transformer" / "your_own_transformer.ipynb"
    cells = ["".join(cell["source"]) for cell in json.loads(page.read_text("utf-8"))["cells"]]
    solved = "\n".join(cell for cell in cells if cell.startswith("# @title Solution"))

    def definitions(text):
        return {node.name: ast.unparse(node) for node in ast.parse(text).body
                if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    assert definitions(solved) == definitions(SOURCE)


def test_every_chapter_that_a_message_names_exists():
    sources = (ROOT / "utils" / "exercises" / "capstone").glob("*.py")
    named = {name for path in sources for name in re.findall(
        r"→ (?:\"\s+\")?chapter (?:\"\s+\")?(\w+)", path.read_text(encoding="utf-8"))}
    assert len(named) > 5
    assert named <= {path.stem for path in (ROOT / "chapters").glob("*/*.ipynb")}
