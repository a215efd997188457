"""Train what chapters read and write it to data/: character models, a twin, small models.

    python scripts/train.py

About two hours in all on two cores. The small models differ in the number of their heads, in the
modern parts that they have, or they are rungs of the ladder. It can be interrupted: it goes on
where it was last saved, and what is finished is left alone until its file is deleted.
"""

import json
import platform
import sys
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from utils import files  # noqa: E402
from utils.models import (  # noqa: E402
    ablation,
    char_model,
    corpus,
    ladder,
    ladder_results,
    ngrams,
    one_hour,
    training,
)
from utils.models.language_model import LanguageModel, bits, optimisers  # noqa: E402

HEAD_COUNTS, SEEDS = (1, 4, 16), (0, 1, 2)
SMALL = {"d_model": 64, "n_layers": 2, "steps": 600, "batch": 16}
ABLATION = {**ablation.SIZES, "steps": 400, "batch": 16, "seeds": SEEDS, "tuning_seed": 3,
            "scales": (1, 2, 4)}
# Steps, and the share of pieces that repeat themselves. Of the others, both see as many.
MODELS = {char_model.PATH: (3000, 0.5), char_model.TWIN: (1500, 0.0)}


def main():
    """Train, save, and say how the models compare with counting."""
    text = corpus.split(corpus.manual())
    counted = min(ngrams.NGrams(text.train, 6, text.vocabulary).bits(text.passages))
    print(f"{counted:.3f} bits per character: the best count")
    for path, (steps, again) in MODELS.items():
        if path.is_file():
            print(f"{path.name} is there")
            continue
        checkpoint = path.with_suffix(".checkpoint")
        checkpoint.parent.mkdir(exist_ok=True)
        run = char_model.train(text, steps, checkpoint, again=again)
        reached = run.history[-1]["bits"]
        char_model.save(run.model, text, path, steps=steps, again=again,
                        bits=round(reached, 4), python=platform.python_version(),
                        torch=torch.__version__)
        checkpoint.unlink()
        print(f"{reached:.3f} bits per character: {path.name} after {steps} steps")
    train_for_one_hour(text, one_hour.PATH)
    compare_head_counts(text, char_model.PATH.with_name("head_counts.json"))
    compare_parts(text, ablation.PATH)
    climb(text, ladder_results.PATH)


def climb(text, path):
    """Train each rung of the ladder with three seeds, on one thread, and write its bits down.

    {"bits": {rung: [of each seed]}, "seconds": {rung: [of the processor, of each seed]}, "wrote":
    {rung: text, of the first seed}, …}; the file is written, with its seal, after each run.
    """
    by_order = ngrams.NGrams(text.train, 7, text.vocabulary).bits(text.passages)
    found = {"torch": torch.__version__, "python": platform.python_version(),
             "vocabulary": len(text.vocabulary), "passages": len(text.passages),
             "rungs": list(ladder_results.RUNGS), "options": ladder_results.OPTIONS,
             "seeds": list(SEEDS), "bigram": round(by_order[2], 4),
             "best count": round(min(by_order), 4), "bits": {}, "seconds": {}, "wrote": {}}
    if path.is_file():
        found |= ladder_results.load(path) | {"options": ladder_results.OPTIONS}
    passages = corpus.rows(text.passages, text.vocabulary)
    torch.set_num_threads(1)
    for name in (*ladder_results.RUNGS, *ladder_results.BESIDE):
        reached, seconds = (found[of].setdefault(name, []) for of in ("bits", "seconds"))
        for seed in SEEDS[len(reached):]:
            start = time.process_time()
            model = ladder_results.trained(name, text, seed)
            seconds.append(round(time.process_time() - start, 1))
            reached.append(round(ladder.bits(model, passages), 4))
            ladder_results.save(found, path)
        print(f"{name}: {reached} bits")
        if name in ladder_results.RUNGS and name not in found["wrote"]:
            model = ladder_results.trained(name, text, SEEDS[0])
            found["wrote"][name] = ladder.write(model, text.vocabulary, "The ")
            ladder_results.save(found, path)


def train_for_one_hour(text, path):
    """Train the decoder of the page for one hour, and save it without its checkpoint."""
    if path.is_file():
        print(f"{path.name} is there")
        return
    checkpoint = path.with_suffix(".checkpoint")
    run = one_hour.train(text, path=checkpoint)
    one_hour.save(run.model, text.vocabulary, path)
    checkpoint.unlink()
    print(f"{run.history[-1]['bits']:.3f} bits per character: {path.name} after {run.steps} steps")


def compare_head_counts(text, path):
    """Train small models that differ in the number of their heads, and write their bits down.

    One more is written after each run: {"bits": {n_heads: [of each seed]}, …}.
    """
    found = {**SMALL, "seeds": SEEDS, "bits": {}}
    if path.is_file():
        found["bits"] = files.read_json(path, "`make train`, once it is deleted,")["bits"]
    for n_heads in HEAD_COUNTS:
        reached = found["bits"].setdefault(str(n_heads), [])
        for seed in SEEDS[len(reached):]:
            reached.append(round(small_bits(text, n_heads, seed), 4))
            files.write(path, (json.dumps(found, indent=1) + "\n").encode())
        print(f"{n_heads} heads: {reached} bits")


def compare_parts(text, path):
    """Train small models with some of the modern parts, and write their bits down.

    Each first looks for its learning rates, with a seed of its own. One result is written after
    each run: {"tuning": {model: [of each scale]}, "bits": {model: [of each seed]}, …}.
    """
    found = {**ABLATION, "torch": torch.__version__, "tuning": {}, "bits": {}}
    if path.is_file():
        found |= files.read_json(path, "`make train`, once it is deleted,")
    for name, parts in ablation.variants().items():
        train_with = partial(ablation.trained_bits, text, parts, steps=ABLATION["steps"])
        tuned = found["tuning"].setdefault(name, [])
        for scale in ABLATION["scales"][len(tuned):]:
            tuned.append(round(train_with(scale, ABLATION["tuning_seed"]), 4))
            files.write(path, (json.dumps(found, indent=1) + "\n").encode())
        best = ABLATION["scales"][tuned.index(min(tuned))]
        reached = found["bits"].setdefault(name, [])
        for seed in SEEDS[len(reached):]:
            reached.append(round(train_with(best, seed), 4))
            files.write(path, (json.dumps(found, indent=1) + "\n").encode())
        print(f"{name}: {tuned}, then {reached} bits")


def small_bits(text, n_heads, seed):
    """Return the bits per character of a small model after its training."""
    torch.manual_seed(seed)
    model = LanguageModel(len(text.vocabulary), SMALL["d_model"], n_heads, SMALL["n_layers"])
    run = training.new_run(model, optimisers(model), SMALL["steps"], seed)
    training.train(run, partial(char_model.draw_loss, batch=SMALL["batch"],
                                tokens=corpus.encode(text.train, text.vocabulary)))
    return bits(model.eval(), corpus.rows(text.passages, text.vocabulary))


if __name__ == "__main__":
    main()
