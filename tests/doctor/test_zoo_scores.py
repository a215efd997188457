"""The score of the doctor as its page shows it."""

import json

import pytest

from utils.doctor import tables


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Put small scores in the place of the file."""
    now = {level: dict.fromkeys(tables.COLUMNS, 0) for level in tables.LEVELS}
    now["kernel"]["named"], now["layer"]["named"], now["layer"]["missed"] = 5, 2, 1
    file = tmp_path / "scores.json"
    file.write_text(json.dumps({"now": now, "held out": {
        "kernel": [3, 3], "layer": [4, 7], "decoding": [5, 6]}}))
    monkeypatch.setattr(tables, "FILE", file)


def test_every_column_has_its_line_and_the_last_is_the_sum(small):
    lines = tables.scores().splitlines()
    assert lines[0] == "| of the zoo's programs | kernel | layer | decoding | all |"
    assert len(lines) == 2 + len(tables.COLUMNS)
    assert "| listed fault, named | 5 | 2 | 0 | 7 |" in lines
    assert lines[-1] == "| sick, not noticed | 0 | 1 | 0 | 1 |"


def test_the_first_score_is_told_in_a_sentence(small):
    assert tables.held_out() == (
        "The first edition, on the half that it had not seen: right on 3 of 3 kernels, 4 of 7 "
        "layers, 5 of 6 decoding.")


def test_the_file_is_read(small):
    assert tables.load_scores()["held out"]["layer"] == [4, 7]
