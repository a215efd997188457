"""Train the character model of chapter `language_model` for longer, and write it to data/.

    python scripts/train.py [STEPS]

About ten minutes on two cores. It can be interrupted: it goes on where it was last saved.
"""

import platform
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from utils import char_model, corpus, ngrams  # noqa: E402

STEPS = 3000


def main(steps=STEPS):
    """Train, save, and say how the model compares with counting."""
    text = corpus.split(corpus.manual())
    checkpoint = ROOT / "data" / "char_model.checkpoint"
    checkpoint.parent.mkdir(exist_ok=True)
    run = char_model.train(text, steps, checkpoint)
    counted = min(ngrams.NGrams(text.train, 6, text.vocabulary).bits(text.passages))
    reached = run.history[-1]["bits"]
    char_model.save(run.model, text.vocabulary, steps=steps, bits=round(reached, 4),
                    python=platform.python_version(), torch=torch.__version__)
    checkpoint.unlink()
    print(f"{reached:.3f} bits per character after {steps} steps; the best count, {counted:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
