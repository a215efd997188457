"""A trained model on disk: a character model of Python's manual.

`make train` makes it, as chapter `language_model` does with fewer steps, and writes its weights
and, beside them, what is needed to read them: sizes, vocabulary, the SHA-256 of the weights.
"""

import hashlib
import json
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from utils import corpus, training
from utils.language_model import LanguageModel, bits, next_token_loss, optimisers

PATH = Path(__file__).resolve().parents[1] / "data" / "char_model.safetensors"


def draw_loss(model, generator, tokens, batch=16, length=129):
    """Return the loss of a model on random pieces of a text, integers (n,)."""
    pieces = corpus.draw(tokens, batch, length, generator)
    return next_token_loss(model, pieces.to(next(model.parameters()).device))


def train(text, steps, path=None, seed=0):
    """Return the training.Run of a LanguageModel that has learned a Corpus.

    Every hundred steps ``history`` gets the bits per character of the passages held out and, with a
    ``path``, the run is saved there; it goes on from there if the file exists.
    """
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = LanguageModel(len(text.vocabulary)).to(device)
    tokens = corpus.encode(text.train, text.vocabulary)
    passages = corpus.rows(text.passages, text.vocabulary).to(device)
    run = training.new_run(model, optimisers(model), steps, seed)
    if path is not None and Path(path).is_file():
        training.load(run, path)
    return training.train(run, partial(draw_loss, tokens=tokens), every=100, path=path,
                          measure=lambda model: {"bits": bits(model, passages)})


def save(model, vocabulary, path=PATH, **facts):
    """Write a model's weights to ``path`` and, beside it as .json, all that is needed to read them.

    That is its sizes, its vocabulary, the SHA-256 of the weights, and ``facts`` about the training.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: part.detach().cpu().contiguous() for name, part in
               model.state_dict().items()}, path)
    sizes = {"n_tokens": model.embedding.num_embeddings,
             "d_model": model.embedding.embedding_dim,
             "n_heads": model.blocks[0].attention.n_heads, "n_layers": len(model.blocks)}
    about = {"sha256": sha256(path), "sizes": sizes, "vocabulary": vocabulary, **facts}
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def load(path=PATH):
    """Return (model, vocabulary) as ``save`` wrote them, the model in evaluation.

    Raises FileNotFoundError when one of the two files is missing, ValueError when the weights are
    not those that were written; both say what to do.
    """
    path = Path(path)
    for file in (path, path.with_suffix(".json")):
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: `make train` writes it")
    about = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if sha256(path) != about["sha256"]:
        raise ValueError(f"{path} has SHA-256 {sha256(path)}, where {about['sha256']} is expected: "
                         "cut short, or another model; `make train` writes it anew")
    model = LanguageModel(**about["sizes"])
    model.load_state_dict(load_file(path))
    return model.eval(), about["vocabulary"]


def sha256(path):
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
