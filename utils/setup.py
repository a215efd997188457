"""Check the installed packages; the setup cell of every notebook calls ``ready``."""

import importlib.util
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]  # the folder that holds utils, chapters and data

# The oldest supported versions: those of Colab, which `make test-colab` runs. For torch it is a
# newer one, because older builds for the CPU are not available everywhere.
FLOORS = {"numpy": "2.1.3", "torch": "2.11.0", "matplotlib": "3.10.0", "tqdm": "4.67.1",
          "einops": "0.8.1", "tensorflow": "2.20.0", "keras": "3.13.2", "safetensors": "0.6.2",
          "tokenizers": "0.22.1", "huggingface-hub": "0.36.0",
          "tabulate": "0.9.0"}
# TensorFlow has two distribution names; requirements.txt asks for the smaller build if it exists.
ALIASES = {"tensorflow": ("tensorflow", "tensorflow-cpu")}


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
    """Return True on Colab, that is, if the package ``google.colab`` exists."""
    return bool(importlib.util.find_spec("google") and importlib.util.find_spec("google.colab"))


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


def ready(floors=None):
    """Print which packages are missing or too old, one line each; on Colab, install missing ones.

    Prints nothing when all are there. ``floors`` maps packages to versions (default ``FLOORS``).
    Raises RuntimeError when an installation fails.
    """
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
