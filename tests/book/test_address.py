"""The address of the course is the same wherever it stands, and `make address` changes it there."""

import re
import shutil

import nbformat
import pytest
from notebook_page import ROOT

from scripts import address
from scripts.execute import notebooks

OLD = ("https://github.com/OWNER/one-equation-many-programs", "main")
NEW = ("https://github.com/me/my.fork", "v1.2")


@pytest.fixture
def course(tmp_path):
    """Return a copy of every file that bears the address."""
    for path in [ROOT / name for name in address.TEXTS] + notebooks() + sorted(
            (ROOT / "chapters").rglob("*.md")):
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    url, ref = address.current(tmp_path)
    (tmp_path / "chapters" / "extra.md").write_text(f"[code]({url}/blob/{ref}/utils/masks.py)\n")
    return tmp_path


def contents(course):
    """Return every file of a course, path -> text."""
    return {path.relative_to(course): path.read_text(encoding="utf-8")
            for path in sorted(course.rglob("*")) if path.is_file()}


def test_every_link_to_the_course_uses_the_address_of_config():
    slug = address.slug(address.current()[0])
    name = slug.partition("/")[2]
    for path, text in contents(ROOT / "chapters").items():
        for found in re.findall(rf"[\w.-]+/{re.escape(name)}(?![\w-])", text):
            assert found == slug, path
    for file in address.TEXTS:
        text = (ROOT / file).read_text(encoding="utf-8")
        assert f"github.com/{slug}" in text, file
        assert set(re.findall(rf"github\.com/([\w.-]+/{re.escape(name)})(?![\w-])", text)) == {slug}


def test_setup_cell_fetches_from_the_address_of_config():
    url, ref = address.current()
    source = (ROOT / "scripts" / "setup_cell.py").read_text(encoding="utf-8")
    assert re.findall(r'url="(.*)"', source) == [url]
    assert re.findall(r"--branch=(\S+)", source) == [ref]


def test_new_address_replaces_the_old_one_everywhere(course):
    old_slug = address.slug(address.current(course)[0])
    address.rewrite(course, *NEW)
    assert address.current(course) == NEW
    after = contents(course)
    assert not [path for path, text in after.items() if old_slug in text]
    for path in course.rglob("*.ipynb"):
        nb = nbformat.read(path, as_version=4)
        link = address.colab(path.relative_to(course).as_posix(), course)
        assert link.startswith("https://colab.research.google.com/github/me/my.fork/blob/v1.2/")
        assert f"[Open in Colab]({link})" in nb.cells[0].source
        assert "--branch=v1.2 {url}" in nb.cells[1].source
        assert f'url="{NEW[0]}"' in nb.cells[1].source


def test_writing_an_address_twice_changes_nothing_and_the_old_one_comes_back(course):
    before, present = contents(course), address.current(course)
    address.rewrite(course, *present)
    assert contents(course) == before
    address.rewrite(course, *NEW)
    once = contents(course)
    address.rewrite(course, *NEW)
    assert contents(course) == once
    address.rewrite(course, *present)
    assert contents(course) == before


def test_other_addresses_are_left_alone():
    text = ("https://github.com/pytorch/pytorch/blob/main/a.py https://github.com/OWNER/other "
            "https://github.com/OWNER/one-equation-many-programs-2")
    assert address.replace(text, OLD, NEW) == text


def test_setup_cell_that_drifted_is_mended(course):
    path = next(course.rglob("*.ipynb"))
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("--depth=1", "--depth=2"), encoding="utf-8")
    address.rewrite(course, *address.current(course))
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("url", ["https://gitlab.com/me/fork", "me/fork", "https://github.com/me",
                                 "https://github.com/me/fork/tree/main", ""])
def test_address_that_colab_cannot_open_is_refused(url):
    with pytest.raises(ValueError, match=r"is not of the form https://github\.com/OWNER/NAME"):
        address.slug(url)


@pytest.mark.parametrize("url", ["https://github.com/me/fork", "https://github.com/me/fork.git",
                                 "https://github.com/me/fork/"])
def test_common_ways_to_write_an_address_are_understood(url):
    assert address.slug(url) == "me/fork"
