"""TensorFlow and ONNX are imported without a word, or missed with one that helps."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from exact import raises

from utils import frameworks, setup

COURSE = Path(__file__).resolve().parents[1]


def run(code):
    """Run code in a fresh interpreter that finds the course."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False, cwd=COURSE, timeout=300)


@pytest.mark.slow
def test_import_is_silent_and_leaves_stderr_open():
    done = run("import sys\n"
               "from utils import frameworks\n"
               "tf = frameworks.tensorflow()\n"
               "print(tf.reduce_sum([1.0, 2.0]).numpy(), tf is frameworks.tensorflow())\n"
               "print('still open', file=sys.stderr)\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3.0 True\n", "still open\n")


def test_a_missing_tensorflow_is_named_with_the_command_that_installs_it():
    done = run("import sys\n"
               "sys.modules['tensorflow'] = None\n"
               "from utils import frameworks\n"
               "frameworks.tensorflow()\n")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    assert last == "ImportError: TensorFlow is missing: pip install tensorflow-cpu==2.21.0"


def test_a_failing_import_leaves_no_file_open_and_stderr_as_it_was(monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("counts open files through /proc")
    before = len(list(descriptors.iterdir()))
    for _ in range(3):
        with pytest.raises(ImportError, match="TensorFlow is missing"):
            frameworks.tensorflow()
    assert len(list(descriptors.iterdir())) == before
    print("still open", file=sys.stderr)
    assert capfd.readouterr().err == "still open\n"


def test_onnx_comes_with_its_reference():
    assert frameworks.onnx().reference.ReferenceEvaluator


def test_a_missing_onnx_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(setup, "install", pytest.fail)
    with raises(ImportError, "ONNX is missing: pip install onnx==1.23.2"):
        frameworks.onnx()


def test_a_missing_onnx_is_installed_on_colab_beside_what_is_there(monkeypatch):
    asked, here = [], sys.modules.get("onnx") or import_module("onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(setup, "on_colab", lambda: True)
    monkeypatch.setattr(setup, "FLOORS", {"numpy": "1.0", "no_such_package": "1.0"})

    def install(missing, present):
        asked.append((missing, list(present)))
        monkeypatch.setitem(sys.modules, "onnx", here)
    monkeypatch.setattr(setup, "install", install)
    assert frameworks.onnx() is here
    assert asked == [(["onnx==1.23.2"], [("numpy", version("numpy"))])]
    frameworks.onnx()
    assert len(asked) == 1


def test_importing_utils_imports_no_framework():
    done = run("import sys, utils\n"
               "from utils import checks, masks, parity, reference, sizes\n"
               "from utils.attention import numpy as numpy_attention\n"
               "from utils.models import norms\n"
               "masks.causal(3), checks.check_close([1.0], [1.0])\n"
               "print({'torch', 'tensorflow', 'keras', 'matplotlib'} & set(sys.modules))\n")
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


def test_keras_layers_get_the_dtype_asked_for_and_others_do_not():
    keras = frameworks.tensorflow().keras
    before = keras.layers.Dense(1).compute_dtype, keras.config.floatx()
    with frameworks.keras_dtype("float64"):
        assert keras.layers.Dense(1).compute_dtype == keras.config.floatx() == "float64"
    with frameworks.keras_dtype("float16"):
        assert keras.layers.Dense(1).compute_dtype == keras.config.floatx() == "float16"
    assert (keras.layers.Dense(1).compute_dtype, keras.config.floatx()) == before
