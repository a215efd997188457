"""Executing a notebook in place stores what readers need and nothing else."""

import os
import subprocess
import sys

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from notebook_page import ROOT
from rules_form import SETUP

from scripts import colab, execute

FIRST = "# A page\n\n5 minutes to read, 99 seconds to run · difficulty ●○○"


def notebook(path, *sources):
    """Write a notebook whose first cell is FIRST and whose second is the setup cell."""
    nb = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_markdown_cell(FIRST),
        nbformat.v4.new_code_cell(SETUP, metadata={"tags": ["hide-cell"], "colab": {}}),
        *(nbformat.v4.new_code_cell(source) for source in sources)])
    nb.metadata["widgets"] = {}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)
    return path


@pytest.mark.slow
def test_outputs_counts_and_seconds_are_stored_and_foreign_metadata_is_not(tmp_path):
    (tmp_path / "utils").symlink_to(ROOT / "utils", target_is_directory=True)
    path = notebook(tmp_path / "chapters" / "page.ipynb", "print(6 * 7)",
                    "import os; print(os.environ['TQDM_DISABLE'])")
    subprocess.run([sys.executable, str(ROOT / "scripts" / "execute.py"), str(path)], check=True,
                   capture_output=True, cwd=tmp_path,
                   env={key: value for key, value in os.environ.items() if key != "TQDM_DISABLE"})
    nb = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in nb.cells[1:]] == [1, 2, 3]
    assert [cell.outputs[0].text for cell in nb.cells[2:]] == ["42\n", "1\n"]
    assert nb.metadata == {"kernelspec": execute.KERNELSPEC, "language_info": {"name": "python"}}
    assert nb.cells[1].metadata == {"tags": ["hide-cell"]}
    assert "99 seconds" not in nb.cells[0].source


def test_what_is_printed_in_a_row_is_joined_and_nothing_else():
    def said(name, text):
        return nbformat.v4.new_output("stream", name=name, text=text)

    shown = nbformat.v4.new_output("display_data", data={"text/plain": "seven"})
    given = [said("stdout", "one\n"), said("stdout", "two\n"), said("stderr", "three\n"),
             said("stdout", "four\n"), shown, said("stdout", "five\n"), said("stdout", "six\n")]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("f()", outputs=given)])
    found = execute.normalise(nb).cells[0].outputs
    assert [(o.get("name"), o.get("text")) for o in found] == [
        ("stdout", "one\ntwo\n"), ("stderr", "three\n"), ("stdout", "four\n"), (None, None),
        ("stdout", "five\nsix\n")]


def test_reading_time_counts_words_and_visible_code_and_rounds_to_five_minutes(tmp_path):
    nb = nbformat.read(notebook(tmp_path / "page.ipynb"), as_version=4)
    assert execute.reading_minutes(nb) == (5, 0, 0)
    nb.cells.append(nbformat.v4.new_markdown_cell("word " * 1000))          # ten minutes
    assert execute.reading_minutes(nb) == (10, 0, 0)
    nb.cells.append(nbformat.v4.new_code_cell("x = 1\n" * 50))              # five more
    assert execute.reading_minutes(nb) == (15, 0, 0)
    nb.cells[-1].metadata["tags"] = ["hide-cell"]
    assert execute.reading_minutes(nb) == (10, 0, 0)


def test_exercises_and_what_goes_deeper_are_counted_apart(tmp_path):
    nb = nbformat.read(notebook(tmp_path / "page.ipynb"), as_version=4)
    nb.cells[0].source += "\n\n" + "word " * 590 + "## A heading"
    nb.cells += [nbformat.v4.new_markdown_cell(text) for text in (
        "## Exercises\n\n**1. Add** (7 minutes, ●○○). " + "word " * 900,
        "## Going deeper\n\n### One\n\n" + "word " * 890,
        "**2. Subtract** (8 minutes, ●●○). Why?",
        "## Further reading\n\n" + "word " * 900)]
    assert execute.reading_minutes(nb) == (5, 10, 15)
    short = nbformat.from_dict({**nb, "cells": [*nb.cells[:-3], nbformat.v4.new_markdown_cell(
        "## Going deeper\n\n" + "word " * 60)]})
    assert execute.reading_minutes(short) == (5, 5, 7)
    execute.write_times(nb)
    assert nb.cells[0].source.startswith(
        "# A page\n\n5 minutes to read, 10 to go deeper, 15 for the exercises, 99 seconds to run")
    execute.write_times(nb, 1)
    assert "15 for the exercises, 1 second to run ·" in nb.cells[0].source


def test_first_cell_without_a_place_for_the_times_is_an_error(tmp_path):
    nb = nbformat.read(notebook(tmp_path / "page.ipynb"), as_version=4)
    nb.cells[0].source = "# A page"
    with pytest.raises(ValueError, match="the first cell must say"):
        execute.write_times(nb, 3)


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Return a folder where a kernel named "colab" is this Python, as if on Colab."""
    monkeypatch.setenv("JUPYTER_PATH", "")
    colab.install_kernel(tmp_path, colab.environment(tmp_path), python=sys.executable)
    (tmp_path / "empty").mkdir()
    return tmp_path


@pytest.mark.slow
def test_notebook_alone_runs_on_colab_and_its_assertions_count(stage):
    path = notebook(stage / "page.ipynb", "from utils import sizes", "assert sizes.HEADS == 4")
    with pytest.raises(CellExecutionError, match=r"sizes\.HEADS == 4"):
        colab.run_alone(path, stage / "empty")


@pytest.mark.slow
def test_setup_cell_that_speaks_on_colab_is_a_failure(stage):
    path = notebook(stage / "page.ipynb", "1")
    nb = nbformat.read(path, as_version=4)
    nb.cells[1].source += "; print(7)"
    nbformat.write(nb, path)
    with pytest.raises(RuntimeError, match="the setup cell speaks"):
        colab.run_alone(path, stage / "empty")
