"""The parameters of the live model, which its figure fetches from the site when they are needed."""

import json
import sys
from pathlib import Path

from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from utils.plots import _model_data  # noqa: E402


def write(app, error):
    """Write the parameters of the trained model in float16 into ``_static``."""
    if error or app.builder.name != "html":
        return
    data = (ROOT / "data" / "char_model.safetensors").read_bytes()
    head = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    vocabulary = json.loads(head["__metadata__"]["about"])["vocabulary"]
    packed = _model_data.packed(safetensors.load(data), vocabulary)
    Path(app.outdir, "_static", _model_data.name(packed)).write_bytes(packed)


def setup(app):
    """Connect it."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
