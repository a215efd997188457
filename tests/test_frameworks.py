"""TensorFlow, JAX and ONNX are imported without a word, or missed with one that helps."""

import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest
from exact import raises
from first import first

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


@pytest.mark.slow
def test_pytorch_can_import_triton_after_tensorflow():
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    done = run("from utils import frameworks\n"
               "frameworks.tensorflow()\n"
               "import torch.utils.flop_counter\n"
               "print('alive')\n")
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


def test_a_missing_tensorflow_is_named_with_the_command_that_installs_it():
    done = run("import sys\n"
               "sys.modules['tensorflow'] = None\n"
               "from utils import frameworks\n"
               "frameworks.tensorflow()\n")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1
    package = setup.pinned("tensorflow-cpu")
    assert last == f"ImportError: TensorFlow is missing: pip install {package}"


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


def test_jax_computes_on_the_processor_without_a_word():
    done = run("import warnings\n"
               "warnings.simplefilter('error')\n"
               "from utils import frameworks\n"
               "jax = frameworks.jax()\n"
               "print(jax.numpy.ones(2).sum(), jax.default_backend())\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "2.0 cpu\n", "")


def test_jax_keeps_float64_inside_the_context_alone():
    jax, numbers = frameworks.jax(), [1 / 3]
    with frameworks.jax_float64():
        assert jax.numpy.asarray(numbers).dtype == "float64"
    assert jax.numpy.asarray(numbers).dtype == "float32"


def test_jax_before_0_8_had_another_name_for_the_context(monkeypatch):
    older = ModuleType("jax.experimental")
    older.enable_x64 = lambda: "the older one"
    monkeypatch.delattr(frameworks.jax(), "enable_x64")
    monkeypatch.setitem(sys.modules, "jax.experimental", older)
    assert frameworks.jax_float64() == "the older one"


def test_a_missing_jax_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with raises(ImportError, f"JAX is missing: pip install {setup.pinned('jax')}"):
        frameworks.jax()


def test_mlx_may_be_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlx", None)
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    assert frameworks.mlx() is None


def test_transformers_may_be_missing_or_too_old(monkeypatch):
    for number, found in ("5.0.0", True), ("10.1", True), ("4.57.1", False):
        there = ModuleType("transformers")
        there.__version__ = number
        monkeypatch.setitem(sys.modules, "transformers", there)
        assert (frameworks.transformers() is there) == found
        assert found or frameworks.transformers() is None
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert frameworks.transformers() is None


@pytest.mark.slow
def test_after_tensorflow_alone_pytorch_does_without_triton():
    done = run("import sys, tensorflow\n"
               "from utils import frameworks\n"
               "frameworks.without_triton()\n"
               "import torch, torch.utils.flop_counter\n"
               "torch.optim.AdamW([torch.ones(2, requires_grad=True)])\n"
               "print(sys.modules['triton'], frameworks.triton())\n")
    assert (done.returncode, done.stdout) == (0, "None (None, None)\n"), done.stderr


def test_triton_may_be_missing(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setitem(sys.modules, "triton", None)
    assert frameworks.triton() == (None, None)


@pytest.mark.parametrize("before", first(["import triton.language\n", ""]))
def test_a_triton_kernel_runs_on_the_processor_even_if_triton_was_imported_before(before, tmp_path):
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    program = tmp_path / "doubled.py"   # Triton reads the source of a kernel
    program.write_text(before + """
import torch
from utils import frameworks
triton, tl = frameworks.triton()

@triton.jit
def kernel(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    row = tl.load(x + i)
    tl.store(out + i, row * tl.sum(row, 0) + tl.zeros([n], row.dtype))

x, out = torch.tensor([1.0, 2.0]), torch.empty(2)
kernel[1,](x, out, 2)
print(out.tolist())
""")
    done = run(f"import runpy; runpy.run_path({str(program)!r})")
    assert done.stdout.splitlines()[-1] == "[3.0, 6.0]", done.stderr


def test_onnx_comes_with_its_reference():
    assert frameworks.onnx().reference.ReferenceEvaluator


def test_a_missing_onnx_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(setup, "install", pytest.fail)
    with raises(ImportError, f"ONNX is missing: pip install {setup.pinned('onnx')}"):
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
    assert asked == [([setup.pinned("onnx")], [("numpy", version("numpy"))])]
    frameworks.onnx()
    assert len(asked) == 1


def test_importing_utils_imports_no_framework():
    done = run("import sys, utils\n"
               "from utils import checks, masks, parity, reference, sizes\n"
               "from utils.attention import numpy as numpy_attention\n"
               "from utils.models import norms\n"
               "masks.causal(3), checks.check_close([1.0], [1.0])\n"
               "frameworks = {'torch', 'tensorflow', 'keras', 'matplotlib', 'jax', 'mlx'}\n"
               "print(frameworks & set(sys.modules))\n")
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


def test_keras_layers_get_the_dtype_asked_for_and_others_do_not():
    keras = frameworks.tensorflow().keras
    before = keras.layers.Dense(1).compute_dtype, keras.config.floatx()
    with frameworks.keras_dtype("float64"):
        assert keras.layers.Dense(1).compute_dtype == keras.config.floatx() == "float64"
    with frameworks.keras_dtype("float16"):
        assert keras.layers.Dense(1).compute_dtype == keras.config.floatx() == "float16"
    assert (keras.layers.Dense(1).compute_dtype, keras.config.floatx()) == before
