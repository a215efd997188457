# @title Setup: finds the course's `utils` (run this cell first)
def find_course():
    import subprocess
    import sys
    from importlib.util import find_spec
    from pathlib import Path

    address = "https://github.com/OWNER/one-equation-many-programs"
    ref = "main"
    clone = ["git", "clone", "-q", "--depth=1", f"--branch={ref}", address]
    here = Path.cwd()
    places = [here, *here.parents, here / address.rpartition("/")[2]]
    found = [p for p in places if (p / "utils" / "setup.py").is_file()]
    if not found and find_spec("google") and find_spec("google.colab"):
        git = subprocess.run(clone, capture_output=True, text=True)
        if git.returncode:
            raise RuntimeError(f"could not fetch the course: {git.stderr}")
        found = places[-1:]
    if not found:
        raise ModuleNotFoundError(
            "this notebook needs the course around it; fetch it with\n"
            f"    {' '.join(clone)}\nand open the notebook in there")
    sys.path.insert(0, str(found[0]))
    import utils
    origin = Path(getattr(utils, "__file__", None) or "(no file)").resolve()
    if origin.parent != (found[0] / "utils").resolve():
        raise ImportError(f"`utils` was imported from {origin}, not from "
                          f"{found[0]}: restart the kernel, run this first")
    from utils import setup
    setup.ready()


find_course()
