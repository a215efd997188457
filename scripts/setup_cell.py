# @title Setup: finds the course's `utils` (run this cell first)
def find_course(url="https://github.com/OWNER/one-equation-many-programs"):
    import pathlib, runpy, subprocess, sys  # noqa: E401, I001
    here, said = pathlib.Path.cwd(), ""
    places = [here, *here.parents, here / url.rpartition("/")[2]]
    home = next((p for p in places if (p / "utils/setup.py").exists()), places[-1])
    clone = f"git clone -q --depth=1 --branch=main {url}"
    if not home.exists() and "google.colab" in sys.modules:
        said = f": {subprocess.getoutput(clone)}"
    assert home.exists(), f"this notebook needs the course around it; {clone}{said}"
    runpy.run_path(str(home / "utils/setup.py"))["ready"](home)
find_course()
