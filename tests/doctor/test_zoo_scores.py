"""The score of the doctor as its page shows it."""

import json

import pytest

from utils.doctor import zoo_scores


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Put small scores in the place of the file."""
    now = {level: dict.fromkeys(zoo_scores.COLUMNS, 0) for level in zoo_scores.LEVELS}
    now["kernel"]["named"], now["layer"]["named"], now["layer"]["missed"] = 5, 2, 1
    file = tmp_path / "scores.json"
    file.write_text(json.dumps({"now": now, "held out": {
        "kernel": [3, 3], "layer": [4, 7], "decoding": [5, 6]}}))
    monkeypatch.setattr(zoo_scores, "FILE", file)


def test_every_column_has_its_line_and_the_last_is_the_sum(small):
    lines = zoo_scores.scores().splitlines()
    assert lines[0].split("|")[1:-1] == [
        " programs of the zoo              ", "   kernel ", "   layer ", "   decoding ", "   all "]
    assert len(lines) == 2 + len(zoo_scores.COLUMNS)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert ["listed fault, named", "5", "2", "0", "7"] in cells
    assert cells[-1] == ["sick, not caught", "0", "1", "0", "1"]


def test_the_first_score_is_told_in_a_sentence(small):
    assert zoo_scores.held_out() == (
        "On the half that it had not seen, the first edition was right on 3 of 3 kernels, 4 of 7 "
        "layers and 5 of 6 decoders.")


def test_the_file_is_read(small):
    assert zoo_scores.load_scores()["held out"]["layer"] == [4, 7]
