"""Run each notebook the way Colab would: alone in an empty folder, with Colab's versions.

    .venv/bin/python scripts/colab.py

The setup cell must fetch the course (here: this working tree, behind the course's address), find
its `utils` and have nothing to say; then every cell must run, and what it asserts must hold.
Outputs are not compared: other versions may print other digits.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from scripts import address  # noqa: E402
from scripts.execute import notebooks  # noqa: E402

PYTHON = ROOT / ".venv-colab" / "bin" / "python"
FOUND_HERE = """from pathlib import Path
import utils
assert Path(utils.__file__).resolve().is_relative_to(Path.cwd().resolve()), utils.__file__"""


def git(*arguments, folder=None):
    """Run git in ``folder`` (default: the course) and return what it prints."""
    return subprocess.run(["git", "-C", str(folder or ROOT), *arguments], check=True, text=True,
                          capture_output=True).stdout


def publish(target):
    """Make ``target`` a repository that holds the working tree as it is, ignored files left out."""
    for name in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)   # with its mode: .ci/run is executable
    git("init", "--quiet", f"--initial-branch={address.current()[1]}", folder=target)
    git("add", "--all", "--force", folder=target)
    git("-c", "user.name=course", "-c", "user.email=course@localhost", "commit", "--quiet",
        "--no-verify", "--message=working tree", folder=target)


def environment(stage):
    """Return the variables that make a kernel believe it is on Colab; writes below ``stage``.

    `google.colab` has been imported, and the address of the course leads to a clone of this tree.
    """
    stand_in, clone = stage / "stand_in", stage / "course"
    (stand_in / "google" / "colab").mkdir(parents=True)
    (stand_in / "google" / "colab" / "__init__.py").write_text("")
    (stand_in / "google" / "colab" / "output.py").write_text("")  # JAX's debugger imports it
    (stand_in / "sitecustomize.py").write_text("import google.colab\n")  # as Colab's kernel does
    clone.mkdir()
    publish(clone)
    return {"PYTHONPATH": str(stand_in), "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": address.current()[0],
            "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf", "GIT_TERMINAL_PROMPT": "0",
            "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "TQDM_DISABLE": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1"}


def install_kernel(stage, variables, python=PYTHON):
    """Write a kernel named "colab" that runs ``python`` with ``variables``, for this process."""
    folder = stage / "jupyter" / "kernels" / "colab"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Colab", "language": "python", "env": variables}))
    os.environ["JUPYTER_PATH"] = str(stage / "jupyter")


def run_alone(path, folder):
    """Run a notebook in the empty ``folder``.

    Raises whatever its cells raise, and RuntimeError when the setup cell has something to say.
    """
    nb = nbformat.read(path, as_version=4)
    nb.cells.append(nbformat.v4.new_code_cell(FOUND_HERE))
    NotebookClient(nb, timeout=1800, kernel_name="colab",
                   resources={"metadata": {"path": str(folder)}}).execute()
    setup = next(cell for cell in nb.cells if cell.cell_type == "code")
    if setup.outputs:
        raise RuntimeError(f"the setup cell speaks: {setup.outputs}")


def report(path, stage):
    """Run one notebook, print a line on it, and return True when all went well."""
    folder, start = stage / path.stem, time.perf_counter()
    folder.mkdir()
    try:
        run_alone(path, folder)
    except Exception as error:
        print(f"FAILED  {path.stem}: {error}", flush=True)
        return False
    print(f"ok      {path.stem}, {time.perf_counter() - start:.0f} s", flush=True)
    return True


def main():
    """Run all notebooks, two at a time; return 1 when one fails."""
    paths = notebooks()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        stage = Path(folder).resolve()
        install_kernel(stage, environment(stage))
        good = list(pool.map(lambda path: report(path, stage), paths))
    print(f"{sum(good)} of {len(good)} notebooks run alone with the versions of Colab")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
