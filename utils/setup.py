"""What the setup cell of every notebook runs once it has found this file."""

import importlib
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]  # the folder that holds utils, chapters and data
PACKAGE = Path(__file__).resolve().parent.name  # "utils"; "one_equation" where it was installed

# TensorFlow has two distribution names; requirements.txt asks for the smaller build if it exists.
ALIASES = {"tensorflow": ("tensorflow", "tensorflow-cpu")}


def pins(file):
    """Return {package: version} of a requirements file; {} where the course was installed."""
    path = COURSE / file
    text = path.read_text("utf-8") if path.is_file() else ""
    return dict(re.findall(r"^([\w-]+)==([\w.]+)", text, re.MULTILINE))


def pinned(name):
    """Return a package as requirements.txt pins it, such as "jax==0.10.2", for a message."""
    version = pins("requirements.txt").get(name)
    return f"{name}=={version}" if version else name


# The oldest supported versions: those of Colab, which `make test-colab` runs, of what the pages
# import. Of torch, a newer one runs there, as older builds for the CPU cannot be had everywhere.
FLOORS = {name: version for name, version in pins("requirements-colab.txt").items()
          if name not in ("tensorflow-cpu", "ipykernel", "onnx", "triton")} | {"torch": "2.11.0"}


def installed(name):
    """Return (distribution, version) of an installed package, or None, without importing it."""
    for distribution in ALIASES.get(name, (name,)):
        try:
            return distribution, metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return None


def numbers(version):
    """Return a version as a tuple of integers to compare, "2.13.0+cpu" -> (2, 13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def on_colab():
    """Return True on Colab, whose kernel imports google.colab before it runs any cell."""
    return "google.colab" in sys.modules


def install(missing, present):
    """Install packages with pip without changing ``present``, (distribution, version) pairs.

    Raises RuntimeError with pip's error message when pip fails.
    """
    # Pinning the present versions makes pip fail rather than change them.
    kept = [f"{distribution}=={version}" for distribution, version in present]
    pip = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *missing, *kept],
                         capture_output=True, text=True, check=False)
    if pip.returncode:
        raise RuntimeError(f"could not install {', '.join(missing)}: {pip.stderr.strip()}")
    importlib.invalidate_caches()


def importable(home):
    """Put the folder ``home`` first on the path, so that ``import utils`` finds the course's.

    Raises ImportError, with the file, when another ``utils`` has been imported already.
    """
    home = Path(home).resolve()
    if str(home) not in sys.path:
        sys.path.insert(0, str(home))
    origin = getattr(importlib.import_module("utils"), "__file__", None) or "(no file)"
    if Path(origin).resolve().parent != (home / "utils").resolve():
        raise ImportError(f"`utils` was imported from {origin}, not from {home}: restart the "
                          "kernel and run the setup cell first")


def ready(home=COURSE, floors=None):
    """Make ``import utils`` find the course in ``home``, and say what is missing or too old.

    On Colab, installs what is missing. Prints one line for each problem, nothing when all is well.
    ``floors`` maps packages to the oldest versions supported (default ``FLOORS``). Raises
    ImportError when another ``utils`` has been imported already, RuntimeError when pip fails.
    """
    importable(home)
    floors = FLOORS if floors is None else floors
    present = {name: found for name in floors if (found := installed(name))}
    missing = [name for name in floors if name not in present]
    if missing and on_colab():
        install(missing, present.values())
    elif missing:
        print(f"not installed: {', '.join(missing)}; pages that use it raise an ImportError. To "
              f"install: pip install {' '.join(missing)}")
    for name, (distribution, version) in present.items():
        if numbers(version) < numbers(floors[name]):
            print(f"{name} {version} is older than {floors[name]}, the oldest supported: "
                  f"pip install --upgrade {distribution}, then restart the kernel")
