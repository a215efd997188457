"""Every notebook keeps every rule, and every rule has been seen to fail.

The second half damages one small, good notebook in one way at a time and asks for the rule that
must notice, by name.
"""

import notebook_rules
import pytest
from notebook_damages import DAMAGES, good_page, save_of_utils
from notebook_rules import RULES

BOOK = notebook_rules.book()
CASES = [pytest.param(name, damage, id=f"{name}-{n}")
         for name, damages in DAMAGES.items() for n, damage in enumerate(damages)]


@pytest.mark.parametrize("page", BOOK, ids=lambda page: page.path.stem)
def test_notebook_keeps_every_rule(page):
    found = notebook_rules.problems(page)
    assert not found, "\n".join(f"{name}: {sentence}" for name, sentences in found.items()
                                for sentence in sentences)


def test_good_page_keeps_every_rule():
    assert notebook_rules.problems(good_page()) == {}


def test_every_rule_has_a_damage():
    assert set(DAMAGES) == set(RULES)


@pytest.mark.parametrize(("name", "damage"), CASES)
def test_rule_sees_the_damage(name, damage):
    page = good_page()
    damage(page)
    assert list(RULES[name](page))


def test_code_saved_as_utils_has_it_is_accepted_once():
    page, rule = good_page(), RULES["saved_code_is_the_code_in_utils"]
    page.nb.cells.insert(4, save_of_utils("attention.heads", "merge_heads"))
    assert not list(rule(page))
    page.nb.cells.insert(7, save_of_utils("attention.heads", "merge_heads"))
    assert [sentence for sentence in rule(page) if "twice" in sentence]
