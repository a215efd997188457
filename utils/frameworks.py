"""Import frameworks that may be missing, and guess which one a program uses."""

import contextlib
import importlib
import os
import sys
import warnings
from importlib.util import find_spec
from types import ModuleType

from . import setup

NAMES = ("torch", "tensorflow", "numpy")


def tensorflow():
    """Import TensorFlow without its start-up messages on the terminal, and return it.

    File descriptor 2 leads to the null device meanwhile, because some messages are written before
    ``TF_CPP_MIN_LOG_LEVEL`` is read. If Triton is installed, it is imported first: PyTorch imports
    it later, for an optimizer for example, and after TensorFlow that ends the process
    (https://github.com/tensorflow/tensorflow/issues/124205). Raises ImportError, with the command
    that installs it, when TensorFlow is missing.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        with contextlib.suppress(ImportError):
            import triton  # noqa: F401
        import tensorflow as tf
    except ImportError as error:
        raise ImportError("TensorFlow is missing: pip install "
                          f"{setup.pinned('tensorflow-cpu')}") from error
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
    return tf


def without_triton():
    """Let PyTorch do without Triton if TensorFlow was imported before it.

    Otherwise PyTorch may import Triton later, which ends the process (see ``tensorflow``).
    """
    if "tensorflow" in sys.modules and "triton" not in sys.modules:
        sys.modules["triton"] = None  # `import triton` then raises ImportError


def jax():
    """Import JAX, on the processor, and return it.

    On other devices it multiplies float32 with fewer digits, and it warns about devices that it
    cannot use; so ``JAX_PLATFORMS`` is "cpu" unless the environment says otherwise. Raises
    ImportError, with the command that installs it, when JAX is missing.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import jax
    except ImportError as error:
        raise ImportError(f"JAX is missing: pip install {setup.pinned('jax')}") from error
    return jax


def jax_float64():
    """Return a context in which JAX keeps float64; without it, JAX makes float32 of it."""
    module = jax()
    if hasattr(module, "enable_x64"):
        return module.enable_x64(True)
    from jax.experimental import enable_x64  # before JAX 0.8
    return enable_x64()


def mlx():
    """Import ``mlx.core`` and return it, or None where MLX is not installed, as on Colab."""
    try:
        import mlx.core
    except ImportError:
        return None
    return mlx.core


def transformers():
    """Import Hugging Face's ``transformers`` and return it, or None without version 5 or later.

    The pages of mask conventions and of weights show what its version 5 does. Its import may warn
    that there are no widgets for progress bars; nothing here shows one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import transformers as found
    except ImportError:
        return None
    return found if int(found.__version__.partition(".")[0]) >= 5 else None


@contextlib.contextmanager
def keras_dtype(dtype):
    """Make Keras use this dtype, such as "float64", for layers that are made inside the block.

    ``set_floatx`` alone has no effect once a first layer has been made in the process.
    """
    config = tensorflow().keras.config
    floatx, policy = config.floatx(), config.dtype_policy()
    config.set_floatx(dtype)
    config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        config.set_floatx(floatx)
        config.set_dtype_policy(policy)


def onnx():
    """Import ONNX with its reference evaluator and return it; on Colab, install it first.

    Only one page needs ONNX, so the setup cell does not check for it. Raises ImportError, with the
    command that installs it, when it is missing elsewhere.
    """
    package = setup.pinned("onnx")
    if find_spec("onnx") is None and setup.on_colab():
        setup.install([package], filter(None, map(setup.installed, setup.FLOORS)))
    try:
        import onnx.reference
    except ImportError as error:
        raise ImportError(f"ONNX is missing: pip install {package}") from error
    return onnx


def triton():
    """Import Triton with its interpreter; return (triton, triton.language), or two None without it.

    ``TRITON_INTERPRET=1`` makes kernels run on the processor, without a compiler. Triton reads it
    while it is imported, and PyTorch's counter of operations imports Triton. So the functions that
    Triton itself has written in its language are defined again if it was imported before.
    """
    before = "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1"
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        import triton
        import triton.language
    except ImportError:
        return None, None
    if before:
        for name in ("triton.language.standard", "triton.language.random", "triton.language"):
            importlib.reload(sys.modules[name])
    return triton, triton.language


def guesses(program):
    """Return the frameworks that a program may be written in, the likeliest first.

    NumPy and PyTorch are always included; TensorFlow is only if the program or its file names it.
    """
    used, around = _mentions(getattr(program, "program", program))
    order = [name for name in NAMES if name in used]
    order += [name for name in NAMES if name in around and name not in order]
    return order + [name for name in ("numpy", "torch") if name not in order]


def _mentions(program):
    """Return the frameworks that a program's code names, and those that its module imports."""
    function = program if hasattr(program, "__code__") else getattr(
        program, "forward", getattr(program, "call", type(program).__call__))
    code = getattr(function, "__code__", None)
    scope = getattr(function, "__globals__", {})
    names = set()
    stack = [code] if code else []
    while stack:
        code = stack.pop()
        names |= {*code.co_names}
        stack += [const for const in code.co_consts if hasattr(const, "co_names")]
    bases = {base.__module__ for base in type(program).__mro__}
    used = {_root(scope[name]) for name in names if name in scope}
    used |= {name.partition(".")[0].replace("keras", "tensorflow") for name in bases}
    return used, {_root(value) for value in scope.values() if isinstance(value, ModuleType)}


def _root(value):
    """Return the framework that a module, function or class comes from."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return (name or "").partition(".")[0].replace("keras", "tensorflow")
