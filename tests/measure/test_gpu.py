"""`scripts/gpu.py`: what it measures and writes, what is refused; never how fast anything is."""

import copy
import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from notebook_page import ROOT

from scripts import gpu as command, gpu_cases
from utils import checks, masks, reference
from utils.measure import gpu


def row(program, case, **numbers):
    return {"part": "SDPA", "program": program, "case": case, "why": "",
            **dict.fromkeys((*gpu.SPREADS, *gpu.NUMBERS)), **numbers}


SPREAD = {"median": 0.0025, "low": 0.002, "high": 0.003, "least": 0.001, "repeats": 5}
FILE = {"format": 1, "small": False, "sizes": {"repeats": 5}, "machine": {
    "device": "cuda", "name": "Voodoo2", "torch": "2.13.0", "cuda": "13.0", "cudnn": 92000,
    "triton": None, "python": "3.11.7", "date": "1998-02-01"}, "rows": [
    row("flash", "is_causal", forward=SPREAD, backward=SPREAD | {"median": 0.00725}, rate=3.4e12,
        difference=0.00125, grad_difference=0.0625, not_finite=7),
    row("flash", "bool mask", why="no | mask"),
    row("math", "is_causal", forward=SPREAD, difference=0.5, not_finite=0) | {"part": "more"}]}


@pytest.fixture
def path(tmp_path):
    gpu.write(FILE, tmp_path / "gpu.json")
    return tmp_path / "gpu.json"


# --- the file

def test_a_file_is_read_as_it_was_written(path):
    found = gpu.load(path)
    assert found.pop("seal") == gpu.seal(FILE) == gpu.seal(FILE | {"seal": "another"})
    assert found == FILE


def changed(text, old, new):
    assert text.count(old) >= 1
    return text.replace(old, new, 1)


@pytest.mark.parametrize(("damage", "message"), [
    (lambda text: changed(text, "0.00725", "0.00625"), "its seal does not fit its contents"),
    (lambda text: changed(text, "0.00725", "NaN"), "its seal does not fit its contents"),
    (lambda text: changed(text, "2.13.0", "2.14.0"), "its seal does not fit its contents"),
    (lambda text: changed(text, '"seal": "', '"seal": "0'), "its seal does not fit its contents"),
    (lambda text: text[:-200], "is not JSON"),
    (lambda text: changed(text, '"format": 1', '"format": 2'), "its format must be 1, got 2"),
    (lambda text: changed(text, '"format": 1', '"format": true'), "must be 1, got True"),
    (lambda text: changed(text, '"small"', '"large"'), "unknown keys: large, small"),
    (lambda text: "[]", "its format must be 1, got None"),
])
def test_a_damaged_file_is_refused(path, damage, message):
    path.write_text(damage(path.read_text("utf-8")), "utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        gpu.load(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("; `python scripts/gpu.py` writes a new one")


@pytest.mark.parametrize("damage", [
    lambda file: file["machine"].pop("name"), lambda file: file["rows"][0].pop("rate"),
    lambda file: file["rows"][0].update(rate="fast"), lambda file: file["rows"].append(3),
    lambda file: file["rows"][0].update(forward={"least": 1}), lambda file: file.update(rows=3),
    lambda file: file["rows"][1].update(why=None), lambda file: file.update(small=0)])
def test_a_sealed_file_without_what_the_table_needs_is_refused(path, damage):
    file = copy.deepcopy(FILE)
    damage(file)
    gpu.write(file, path)
    with pytest.raises(ValueError, match="cannot be read, because"):
        gpu.load(path)


def test_small_results_are_read_only_if_asked_for(path):
    gpu.write(FILE | {"small": True}, path)
    with pytest.raises(ValueError, match="written by --small, so its results are not meaningful"):
        gpu.load(path)
    assert gpu.load(path, small=True)["rows"] == FILE["rows"]


def test_a_number_that_json_has_not_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        gpu.write(FILE | {"sizes": {"n": float("nan")}}, tmp_path / "gpu.json")
    assert not list(tmp_path.iterdir())


def test_no_file_says_what_writes_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`python scripts/gpu.py` writes it"):
        gpu.load(tmp_path / "gpu.json")


def test_a_committed_file_can_be_shown():
    if gpu.OURS.exists():
        found = gpu.load()
        assert all(gpu.table(found, part) for part in gpu.parts(found))


# --- the table

def test_the_table_shows_milliseconds_and_reasons(path):
    found = gpu.load(path)
    assert gpu.parts(found) == ["SDPA", "more"]
    assert gpu.table(found, "SDPA").split("\n")[2:] == [
        "| flash | is_causal | 2.500 | 7.250 | 3400 | 1.3e-03 | 6.2e-02 | 7 |  |",
        "| flash | bool mask | – | – | – | – | – | – | no \\| mask |"]
    assert gpu.table(found, "more").endswith("| 2.500 | – | – | 5.0e-01 | – | 0 |  |")
    assert {line.replace("\\|", "").count("|") for line in gpu.table(
        found, "SDPA").split("\n")} == {len(gpu.HEAD) + 1}
    with pytest.raises(ValueError, match=r"'x' was not measured; the parts are: 'SDPA', 'more'"):
        gpu.table(found, "x")


def test_the_report_of_a_file_has_every_table_and_that_of_none_is_a_sentence(path, tmp_path):
    found = gpu.load(path)
    assert gpu.report(path).split("\n\n") == [
        gpu.describe(FILE), "**SDPA**", gpu.table(found, "SDPA"), "**more**",
        gpu.table(found, "more")]
    assert gpu.report(tmp_path / "none.json") == (
        "No GPU was measured yet; `python scripts/gpu.py` writes the file.")
    path.write_text(path.read_text("utf-8")[:-9], "utf-8")
    with pytest.raises(ValueError, match="is not JSON"):
        gpu.report(path)


def test_the_device_is_described_in_one_sentence():
    assert gpu.describe(FILE) == ("Measured on 1998-02-01 on Voodoo2 (cuda) with PyTorch 2.13.0, "
                                  "CUDA 13.0 and Python 3.11.7.")
    machine = FILE["machine"] | {"cuda": None, "device": "cpu"}
    assert "(cpu) with PyTorch 2.13.0 and" in gpu.describe(FILE | {"machine": machine})


# --- what is measured

@pytest.mark.filterwarnings("ignore")  # those of FlexAttention, uncompiled
def test_everything_runs_on_a_cpu_and_agrees_with_float64(tmp_path):
    path = tmp_path / "gpu.json"
    done = subprocess.run([sys.executable, "scripts/gpu.py", "--device", "cpu", "--small", "--out",
                           str(path)], cwd=ROOT, capture_output=True, text=True, check=True)
    found = gpu.load(path, small=True)
    todo = gpu_cases.cases(command.SMALL)
    assert [[row[key] for key in ("part", "program", "case")] for row in found["rows"]] == [
        list(names) for *names, _, _ in todo]
    assert f"Written to {path}." in done.stdout
    for row, (*_, needs_gpu, _) in zip(found["rows"], todo, strict=True):
        if needs_gpu:
            assert (row["why"], row["forward"]) == ("needs a GPU", None)
        elif (row["program"], row["case"]) == ("flash", "d_v ≠ d"):
            assert row["why"].startswith("Flash attention requires q,k,v to have the same last dim")
        else:
            assert row["difference"] < 1e-4, row
            assert row["not_finite"] == 0, row
            assert 0 < row["forward"]["low"] <= row["forward"]["median"]
            trains = row["part"].startswith("SDPA")
            assert (row["backward"] is not None) == trains, row
            assert not trains or row["grad_difference"] < 1e-3, row
            assert (row["rate"] is not None) == ("decoding" in (row["part"], row["case"]))
            assert (row["why"] != "") == (row["part"] == "FlexAttention")


@pytest.mark.parametrize(("how", "h_kv", "d_v"), [
    ("no mask", 6, 5), ("is_causal", 2, 7), ("is_causal", 6, 5)])
def test_what_is_expected_is_the_reference_s_first_example(how, h_kv, d_v):
    q, k, v, grad_out = (torch.randn(2, h, 9, d, requires_grad=True) for h, d in (
        (6, 5), (h_kv, 5), (h_kv, d_v), (6, d_v)))
    keep = gpu_cases.causal(9, "cpu") if how == "is_causal" else None
    out, *grads = gpu_cases.expected(q, k, v, keep, grad_out)
    sides = [x[:1].double().detach().requires_grad_() for x in (q, k, v)]
    full = [x.repeat_interleave(6 // x.shape[1], dim=1) for x in sides]
    want = reference.attention(*(x.detach().numpy() for x in full),
                               None if keep is None else masks.causal(9))[0]
    assert checks.difference(out, want) < 1e-12
    scores = full[0] @ full[1].mT / 5**0.5
    weights = (scores if keep is None else scores.masked_fill(~keep, -torch.inf)).softmax(-1)
    for found, right in zip(grads, torch.autograd.grad(weights @ full[2], sides, grad_out[:1]),
                            strict=True):
        assert checks.difference(found, right) < 1e-12


def test_a_window_holds_the_last_keys():
    assert gpu_cases.causal(4, "cpu", 2).int().tolist() == [
        [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_scores_near_minus_120_are_beyond_the_exponentials_of_float32():
    size = command.SMALL["sdpa"]
    q, k, v = gpu_cases.low_scores(None, 64, True, size, "cpu", torch.float32).inputs
    scores = q @ k.mT / size["d"]**0.5
    assert scores.max() < -110
    assert torch.exp(-scores).isinf().all()


def test_differences_are_those_of_the_first_example_and_bad_elements_of_all():
    want = [torch.zeros(1, 3, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)]
    found = [torch.tensor([[0.5, torch.nan, -0.75], [9, torch.inf, 9]]), torch.ones(2, 2)]
    assert command.compared(found, want) == (0.75, 2)
    assert command.compared([torch.full((1, 3), torch.nan)], want[:1]) == (None, 3)


# --- what fails, and what is left out

def blank(*todo):
    return {"format": 1, "small": True, "machine": FILE["machine"], "sizes": {
        "repeats": 2, "in_a_row": 3}, "rows": [row(name, "") for name, *_ in todo]}


def ones():
    x = torch.ones(2, 3, requires_grad=True)
    return x, gpu_cases.Work(lambda: 2 * x, (x,), lambda: [torch.full((1, 3), 2.0)] * 2,
                             torch.ones(2, 3), moved=24, why="half of it")


def test_a_row_that_fails_says_why_and_the_next_is_measured(path):
    def fails(device, dtype):
        raise RuntimeError("out of luck\nand more")

    def fails_backward(device, dtype):
        return ones()[1]._replace(inputs=(torch.ones(3),))

    todo = [("a", "", "", False, fails), ("b", "", "", False, fails_backward),
            ("c", "", "", True, fails), ("d", "", "", False, lambda device, dtype: ones()[1])]
    found = blank(*todo)
    command.run(found, todo, "cpu", 1, path)
    a, b, c, d = gpu.load(path, small=True)["rows"]
    assert (a["why"], a["forward"]) == ("out of luck", None)
    assert b["why"].startswith("backward: One of the differentiated Tensors does not require grad")
    assert (b["difference"], b["backward"], b["not_finite"]) == (0, None, 0)
    assert c["why"] == "needs a GPU"
    assert (d["why"], d["difference"], d["grad_difference"]) == ("half of it", 0, 0)
    assert d["rate"] == pytest.approx(24 / d["forward"]["median"], rel=0.01)
    assert d["backward"]["repeats"] == 2


def test_no_row_begins_after_its_time(path):
    todo = [("a", "", "", False, lambda device, dtype: ones()[1])] * 2
    command.run(blank(*todo), todo, "cpu", -1, path)
    assert [row["why"] for row in gpu.load(path, small=True)["rows"]] == [
        "left out, because -1 minutes had passed"] * 2


def test_preparing_is_not_timed(monkeypatch):
    now, made = [0.0], iter(range(100))
    monkeypatch.setattr(command.time, "perf_counter", lambda: now[0])

    def pass_time(seconds, result=None):
        now[0] += seconds
        return result

    spread, last = command.seconds(lambda x: pass_time(6, x), lambda: pass_time(50, next(made)),
                                   {"repeats": 2, "in_a_row": 3}, "cpu")
    assert (spread["median"], spread["least"], spread["repeats"], last) == (6, 6, 2, 8)


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "there is no CUDA GPU here"), (["--small", "--out", "x"], "there is no CUDA GPU here"),
    (["--device", "cpu"], "on a CPU, only --small"),
    (["--device", "cpu", "--small"], "--small needs --out FILE")])
def test_what_cannot_be_measured_is_refused_before_anything_is(arguments, message, monkeypatch,
                                                               capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(command, "run", None)
    with pytest.raises(SystemExit) as left:
        command.main(arguments)
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith(message)


# --- the kernel of the page

INTERPRETED = """
import sys, torch
from scripts import gpu_cases
from utils import reference, masks, checks
kernel = gpu_cases.page_kernel(sys.argv[1])
q, k, v = (torch.randn(2, 3, 22, d) for d in (4, 4, 8))
out = kernel.triton_forward(q, k, v, causal=True, tile=8)
print(checks.difference(out, reference.attention(q.numpy(), k.numpy(), v.numpy(),
                                                 masks.causal(22))[0]) < 1e-5)
"""


def test_the_page_s_kernel_is_found_and_computes_the_equation(tmp_path, monkeypatch):
    if find_spec("triton") is None:
        pytest.skip("Triton is for Linux")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = subprocess.run([sys.executable, "-c", INTERPRETED, str(tmp_path)], cwd=ROOT, check=True,
                          capture_output=True, text=True)
    assert done.stdout == "True\n"


def test_a_page_without_the_kernel_is_refused(tmp_path, monkeypatch):
    page = json.loads(gpu_cases.PAGE.read_text("utf-8"))
    for cell in page["cells"]:
        cell["source"] = ["".join(cell["source"]).replace("frameworks.triton()", "None, None")]
    monkeypatch.setattr(gpu_cases, "PAGE", tmp_path / "page.ipynb")
    gpu_cases.PAGE.write_text(json.dumps(page), "utf-8")
    with pytest.raises(ValueError, match=r"must begin with frameworks\.triton"):
        gpu_cases.page_kernel(tmp_path)
