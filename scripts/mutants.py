"""Break every public function of `utils` on purpose, and see the tests notice.

    python scripts/mutants.py [MODULE …]      (default: all)

Each mutant of ``scripts/mutations.py`` is put into a copy of the course, never into the working
tree, and the tests that should notice run there. Prints killed / total for each module. Fails when
one survives, no longer applies, or breaks more than values, and when a function has no mutant.
"""

import ast
import multiprocessing
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.mutations import MUTATIONS, TESTS  # noqa: E402

WORKERS = os.cpu_count() or 1
FAILED, PASSED = 1, 0  # pytest's exit status; others mean that the tests could not run
# Every run is forked from a process that has imported these: they take longer than the tests.
IMPORTED = ["numpy", "torch", "onnx", "matplotlib.pyplot", "playwright.sync_api"]


class Mutant(NamedTuple):
    """One change: in ``module.function``, ``old`` becomes ``new``, and ``tests`` should fail."""

    module: str
    function: str
    old: str
    new: str
    tests: str

    def __str__(self):
        return f"{self.module}.{self.function}: {self.old!r} -> {self.new!r} ({self.tests})"


def public_functions(source):
    """Return {name: node} of the functions and methods of a module that its users may call."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{method.name}": method for method in node.body
                      if isinstance(method, ast.FunctionDef)}
    return {name: node for name, node in found.items()
            if not any(part.startswith("_") and part != "__init__" for part in name.split("."))}


def mutants(modules):
    """Return the mutants of the modules named."""
    return [Mutant(*name.split(".", 1), *mutation, *[TESTS[name.split(".")[0]]][len(mutation) - 2:])
            for name, mutations in MUTATIONS.items() if name.split(".")[0] in modules
            for mutation in mutations]


def mutated(mutant):
    """Return the source of the module with the change; ValueError when it does not apply."""
    lines = (ROOT / "utils" / f"{mutant.module}.py").read_text("utf-8").splitlines(keepends=True)
    node = public_functions("".join(lines))[mutant.function]
    start, end = node.lineno - 1, node.end_lineno
    body = "".join(lines[start:end])
    if body.count(mutant.old) != 1:
        raise ValueError(f"{mutant}: {mutant.old!r} stands there {body.count(mutant.old)} times")
    return "".join((*lines[:start], body.replace(mutant.old, mutant.new), *lines[end:]))


def copy_course(folder):
    """Copy the course, without what is installed, built or recorded, to ``folder``."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(
        ".git", ".venv", "_build", "__pycache__", ".*_cache", ".ipynb_checkpoints"))


def pytest_in(folder, tests, log):
    """Run tests in a copy of the course, and write to ``log`` what pytest says and its status."""
    os.chdir(folder)
    with open(log, "w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    import pytest
    options = "-x -q -p no:cacheprovider --tb=line --hypothesis-profile=mutants"
    status = pytest.main([*options.split(), *(f"tests/{name}" for name in tests)])
    print(int(status), flush=True)
    os._exit(0)  # what it imported has nothing more to say


def run_tests(folder, tests):
    """Return pytest's exit status and output in a copy of the course."""
    log = folder.with_suffix(".log")
    process = multiprocessing.get_context("forkserver").Process(
        target=pytest_in, args=(folder, tests, log))
    process.start()
    process.join()
    output = log.read_text(encoding="utf-8")
    last = output.strip().rpartition("\n")[2]
    return int(last) if last.isdigit() else None, output


def verdict(mutant, folders):
    """Return "killed", "survived" or what else happened, in one of the free copies."""
    try:
        source = mutated(mutant)
    except (KeyError, ValueError) as error:
        return f"does not apply: {error}"
    folder = folders.get()
    target = folder / "utils" / f"{mutant.module}.py"
    original = target.read_bytes()
    try:
        target.write_text(source, encoding="utf-8")
        status, output = run_tests(folder, [mutant.tests])
    finally:
        target.write_bytes(original)
        folders.put(folder)
    return {FAILED: "killed", PASSED: "survived"}.get(status, f"could not run:\n{output}")


def without_mutant(modules):
    """Return the public functions that no mutant breaks."""
    return [f"{module}.{name}" for module in modules
            for name in public_functions((ROOT / "utils" / f"{module}.py").read_text("utf-8"))
            if not MUTATIONS.get(f"{module}.{name}")]


def report(modules, verdicts):
    """Print killed / total for each module and what went wrong; return whether all is well."""
    for module in modules:
        mine = [v for mutant, v in verdicts if mutant.module == module]
        print(f"{module:16} {mine.count('killed'):3} / {len(mine)}")
    print(f"{'all':16} {[v for _, v in verdicts].count('killed'):3} / {len(verdicts)} killed")
    wrong = [f"{mutant}\n    {v}" for mutant, v in verdicts if v != "killed"]
    wrong += [f"{name}: no mutant breaks it" for name in without_mutant(modules)]
    if wrong:
        print(*wrong, sep="\n")
    return not wrong


def main(modules):
    """Run the mutants of the modules named, or of all."""
    modules = modules or sorted(path.stem for path in (ROOT / "utils").glob("*.py")
                                if path.stem != "__init__")
    todo = mutants(modules)
    os.environ.update(PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE")
    multiprocessing.get_context("forkserver").set_forkserver_preload(IMPORTED)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        folders = SimpleQueue()
        for worker in range(WORKERS):
            copy_course(Path(folder, str(worker)))
            folders.put(Path(folder, str(worker)))
        healthy = folders.get()
        status, output = run_tests(healthy, sorted({mutant.tests for mutant in todo}))
        if status != PASSED:
            raise SystemExit(f"the tests fail without any mutant:\n{output}")
        folders.put(healthy)
        verdicts = list(zip(todo, pool.map(lambda m: verdict(m, folders), todo), strict=True))
    if not report(modules, verdicts):
        raise SystemExit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
