# @title Setup: finds the course's `utils` (run it, then read on)
import importlib.util
import subprocess
import sys
from pathlib import Path

ADDRESS = "https://github.com/OWNER/one-equation-many-programs"
REF = "main"

folders = [Path.cwd(), *Path.cwd().parents, Path(Path(ADDRESS).name).resolve()]
course = [f for f in folders if (f / "utils" / "setup.py").exists()][:1]
if not course and importlib.util.find_spec("google"):  # Colab has this
    clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", REF]
    subprocess.run([*clone, ADDRESS, str(folders[-1])], check=True)
    course = folders[-1:]
if not course:
    raise ModuleNotFoundError(f"this notebook needs the course beside it: "
                              f"git clone --branch {REF} {ADDRESS}")
sys.path.insert(0, str(course[0]))
from utils import setup

setup.ready(course[0])
