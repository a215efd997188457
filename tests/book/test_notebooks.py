"""Every notebook keeps every rule."""

import copy

import notebook_rules
import pytest
from notebook_rules import RULES

BOOK = notebook_rules.book()


@pytest.mark.parametrize("page", BOOK, ids=lambda page: page.path.stem)
def test_notebook_keeps_every_rule(page):
    found = notebook_rules.problems(page)
    assert not found, "\n".join(f"{name}: {sentence}" for name, sentences in found.items()
                                for sentence in sentences)


@pytest.mark.parametrize(("old", "new"), [
    (".transpose(1, 2)", ".transpose(2, 1)"),                              # the code
    ('"""Split a tensor', '"""Cut a tensor'),                              # the first line
    ("#@save utils.attention.heads", "#@save utils.attention.torch")])     # the module
def test_a_taught_definition_that_is_not_the_one_in_utils_is_noticed(old, new):
    page = copy.deepcopy(next(page for page in BOOK if page.path.stem == "view_and_transpose"))
    rule = RULES["saved_code_is_the_code_in_utils"]
    assert not list(rule(page))
    cells = [cell for _, cell in page.code if "#@save" in cell.source and old in cell.source]
    cells[0].source = cells[0].source.replace(old, new)
    assert list(rule(page))
