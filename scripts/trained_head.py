"""Write data/trained_head.json: the queries and keys of one head of a trained encoder.

    python scripts/trained_head.py

The encoder is ``utils.models.pretrained``, head 1 of layer 3. Chapter `self_attention` computes its
attention weights from the file, so that the page runs without the encoder.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from utils import files  # noqa: E402
from utils.attention.heads import split_heads  # noqa: E402
from utils.models import pretrained  # noqa: E402

PATH = ROOT / "data" / "trained_head.json"
SENTENCE, LAYER, HEAD = "the students lost their dog yesterday", 3, 1


def computed():
    """Return what is stored: the source, the tokens, queries (i, d) and keys (j, d)."""
    encoder = pretrained.load_encoder()
    ids, real, tokens = pretrained.tokenise([SENTENCE])
    hidden, _ = encoder(ids, real)  # (b, layer, i, e)
    layer = encoder.blocks[LAYER].attention
    sides = layer.W_qkv(hidden[:, LAYER]).chunk(3, dim=-1)
    q, k, _ = (split_heads(side, layer.n_heads)[0, HEAD].double() for side in sides)
    return {"source": f"https://huggingface.co/{pretrained.REPOSITORY}", "layer": LAYER,
            "head": HEAD, "tokens": tokens[0], "q": q.numpy().round(4).tolist(),
            "k": k.numpy().round(4).tolist()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    stored = computed()
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in stored.items()]
    files.write(PATH, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
