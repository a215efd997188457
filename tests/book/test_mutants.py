"""The score of the mutants, read from what mutmut writes."""

import json

import pytest

from scripts import mutants

SURVIVED, KILLED, NO_TESTS, SEGFAULT, TIMEOUT, NOT_RUN = 0, 1, 33, -11, 36, 255


def test_a_module_has_a_row_and_only_mutants_that_were_run_count(tmp_path, capsys):
    every = [KILLED, SURVIVED, NO_TESTS, TIMEOUT, SEGFAULT, NOT_RUN, None]
    for name, codes in (("utils/a.py", every), ("utils/masks/b.py", [KILLED] * 3),
                        ("utils/c.py", [None])):
        path = tmp_path / f"{name}.meta"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"exit_code_by_key": dict(enumerate(codes))}))
    assert mutants.main(tmp_path) == 1
    printed = capsys.readouterr()
    assert [line.split() for line in printed.out.splitlines()[2:]] == [
        ["utils/a.py", "3", "1", "6", "50.0"], ["utils/masks/b.py", "3", "0", "3", "100.0"],
        ["total", "6", "1", "9", "66.7"]]
    assert printed.err.startswith("Below 95 %.")


@pytest.mark.parametrize(("survivors", "status"), [(5, 0), (6, 1)])
def test_95_per_cent_are_enough(survivors, status, tmp_path):
    codes = [KILLED] * (100 - survivors) + [SURVIVED] * survivors
    (tmp_path / "a.py.meta").write_text(json.dumps({"exit_code_by_key": dict(enumerate(codes))}))
    assert mutants.main(tmp_path) == status
