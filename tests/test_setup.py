"""What the setup cell calls says what is missing or too old, and installs only on Colab."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from notebook_page import ROOT

from utils import setup


def versions(monkeypatch, **have):
    """Pretend that exactly these packages are installed."""
    monkeypatch.setattr(setup, "installed",
                        lambda name: (name, have[name]) if name in have else None)


def test_ready_says_nothing_when_all_is_well(capsys):
    setup.ready()
    assert capsys.readouterr().out == ""


def test_ready_names_an_older_version_and_the_line_that_mends_it(monkeypatch, capsys):
    versions(monkeypatch, numpy="1.26.4", torch="2.11.0+cu128")
    setup.ready(floors={"numpy": "2.1.3", "torch": "2.11.0"})
    assert capsys.readouterr().out == (
        "numpy 1.26.4 is older than 2.1.3, the oldest supported: "
        "pip install --upgrade numpy, then restart the kernel\n")


def test_ready_compares_versions_as_numbers_not_as_text(monkeypatch, capsys):
    versions(monkeypatch, matplotlib="3.9.2", torch="2.13.0")
    setup.ready(floors={"matplotlib": "3.10.0", "torch": "2.2.0"})
    assert capsys.readouterr().out == (
        "matplotlib 3.9.2 is older than 3.10.0, the oldest supported: "
        "pip install --upgrade matplotlib, then restart the kernel\n")


def test_ready_leaves_colab_alone_when_nothing_is_missing(monkeypatch, capsys):
    versions(monkeypatch, numpy="2.1.3")
    monkeypatch.setattr(setup, "on_colab", lambda: True)
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    setup.ready(floors={"numpy": "2.1.3"})
    assert capsys.readouterr().out == ""


def test_ready_installs_nothing_on_a_reader_s_own_machine(monkeypatch, capsys):
    versions(monkeypatch, numpy="2.4.6")
    monkeypatch.setattr(setup, "on_colab", lambda: False)
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    setup.ready(floors={"numpy": "2.1.3", "keras": "3.13.2"})
    assert capsys.readouterr().out == (
        "not installed: keras; pages that use it raise an ImportError. To install: pip install "
        "keras\n")


def test_ready_installs_on_colab_only_what_is_missing_and_keeps_the_rest(monkeypatch, capsys):
    versions(monkeypatch, numpy="2.1.3", torch="2.11.0+cu128")
    monkeypatch.setattr(setup, "on_colab", lambda: True)
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: asked.append(command)
                        or SimpleNamespace(returncode=0))
    setup.ready(floors={"numpy": "2.1.3", "keras": "3.13.2", "torch": "2.11.0"})
    assert [command[1:] for command in asked] == [
        ["-m", "pip", "install", "--quiet", "keras", "numpy==2.1.3", "torch==2.11.0+cu128"]]
    assert capsys.readouterr().out == ""


def test_ready_repeats_what_pip_says_when_it_fails(monkeypatch):
    versions(monkeypatch)
    monkeypatch.setattr(setup, "on_colab", lambda: True)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(
        returncode=1, stderr="No matching distribution\n"))
    with pytest.raises(RuntimeError, match=r"^could not install keras: No matching distribution$"):
        setup.ready(floors={"keras": "3.13.2"})


def test_colab_is_known_by_its_own_package_not_by_others_of_google(monkeypatch):
    monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    monkeypatch.setitem(sys.modules, "google.cloud", SimpleNamespace())
    assert not setup.on_colab()
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    assert setup.on_colab()


@pytest.mark.parametrize(("text", "expected"), [
    ("2.13.0+cpu", (2, 13, 0)), ("2.2.0rc1", (2, 2, 0)), ("4.67+2", (4, 67)),
    ("3.10.0", (3, 10, 0)),
])
def test_versions_compare_as_numbers(text, expected):
    assert setup.numbers(text) == expected


def test_installed_knows_both_names_of_tensorflow(monkeypatch):
    def only_cpu(name):
        if name != "tensorflow-cpu":
            raise setup.metadata.PackageNotFoundError(name)
        return "2.20.0"
    monkeypatch.setattr(setup.metadata, "version", only_cpu)
    assert setup.installed("tensorflow") == ("tensorflow-cpu", "2.20.0")
    assert setup.installed("numpy") is None


def test_floors_are_the_versions_of_colab():
    ours, theirs = map(setup.pins, ("requirements.txt", "requirements-colab.txt"))
    for name, floor in setup.FLOORS.items():
        assert setup.numbers(floor) <= setup.numbers(ours[name])
        if name != "torch":
            assert floor == theirs[name]


def test_a_package_is_named_as_it_is_pinned_and_without_a_version_elsewhere(monkeypatch, tmp_path):
    (tmp_path / "requirements.txt").write_text("# all\njax==0.10.2  # for one page\nonnx==1\n")
    monkeypatch.setattr(setup, "COURSE", tmp_path)
    assert [setup.pinned(name) for name in ("jax", "onnx", "numpy")] == [
        "jax==0.10.2", "onnx==1", "numpy"]
    monkeypatch.setattr(setup, "COURSE", tmp_path / "nowhere")
    assert setup.pinned("jax") == "jax"


def test_numpy_of_the_package_is_the_oldest_supported():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'dependencies = ["numpy>={setup.FLOORS["numpy"]}"]' in text


def test_every_package_of_colab_s_list_that_pages_import_has_a_floor():
    pinned = set(setup.pins("requirements-colab.txt")) - {"ipykernel", "tensorflow-cpu"}
    # frameworks.onnx() installs the first, and a page does without the second
    assert pinned == {*setup.FLOORS, "onnx", "triton"}


def test_onnx_is_the_same_everywhere():
    ours, theirs = map(setup.pins, ("requirements.txt", "requirements-colab.txt"))
    assert ours["onnx"] == theirs["onnx"]   # the page that reads it asserts what it does
