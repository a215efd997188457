"""Arguments of a call of each public function of what is measured, for test_public.py."""

from pathlib import Path

from utils import parity, weights

CASE = parity.case()
MACHINE = {"processor": "Z80", "cores": 2, "threads": 2, "gibibytes": 0.064, "gpu": None,
           "device": "cpu", "system": "CP/M", "python": "3.11.7", "torch": "2.13.0",
           "tensorflow": None, "keras": None, "numpy": "2.4.6", "date": "1976-07-01"}
SECONDS = {"median": 1.0, "low": 0.5, "high": 2.0, "least": 0.5, "repeats": 3}
FILE = {"format": 1, "quick": False, "machine": MACHINE, "sizes": {}, "roofs": {}, "left_out": [],
        "fast": [], "grouped": [], "sweep": [
            {"program": "a", "n": n, "seconds": SECONDS, "mebibytes": None} for n in (64, 32)]}

CALLS = {
    "adapters.torch_inference": (CASE, lambda x, memory: x),
    "adapters.torch_tensors": (CASE.weights,),
    "measured.check": (FILE, Path("bench.json")),
    "measured.describe": (FILE,),
    "measured.programs": (FILE,),
    "measured.series": (FILE, "a"),
    "measured.slope": ([32, 64, 128], [1.0, 2.0, 8.0]),
    "programs.packed": (CASE.x, CASE.memory, weights.to_gpt2(CASE.weights), 3, CASE.keep),
    "timing.turns": ({"a": list}, 1),
}
NOTHING_TO_MODIFY = {"measured.load"}
