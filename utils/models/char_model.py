"""A trained model on disk: a character model of Python's manual.

`make train` makes it, as chapter `language_model` does with fewer steps, but for half of the
pieces, which say their beginning again and again. It writes its weights and, beside them, what is
needed to read and to test them: sizes, vocabulary, the passages held out, the SHA-256 of the
weights. A twin was trained on as many fresh pieces, and nothing was said again to it.
"""

import hashlib
import json
from functools import partial
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from utils import setup
from utils.models import corpus, training
from utils.models.language_model import LanguageModel, bits, next_token_loss, optimisers

PATH = setup.COURSE / "data" / "char_model.safetensors"
TWIN = PATH.with_name("char_model_twin.safetensors")


def draw_loss(model, generator, tokens, batch=16, length=129, again=0.0):
    """Return the loss of a model on random pieces of a text, integers (n,).

    The share ``again`` of them say their beginning again and again: chapter `reading_heads` tells
    what for.
    """
    pieces = corpus.draw(tokens, batch, length, generator)
    repeated = round(again * batch)
    pieces[:repeated] = corpus.say_again(pieces[:repeated], generator)
    return next_token_loss(model, pieces.to(next(model.parameters()).device))


def train(text, steps, path=None, seed=0, again=0.0):
    """Return the training.Run of a LanguageModel that has learned a Corpus.

    ``again`` as in ``draw_loss``. Every hundred steps ``history`` gets the bits per character of
    the passages held out and, with a ``path``, the run is saved there; it goes on from there if the
    file exists.
    """
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = LanguageModel(len(text.vocabulary)).to(device)
    tokens = corpus.encode(text.train, text.vocabulary)
    passages = corpus.rows(text.passages, text.vocabulary).to(device)
    run = training.new_run(model, optimisers(model), steps, seed)
    if path is not None and Path(path).is_file():
        training.load(run, path)
    return training.train(run, partial(draw_loss, tokens=tokens, again=again), every=100,
                          path=path, measure=lambda model: {"bits": bits(model, passages)})


def save(model, text, path=PATH, **facts):
    """Write a model's weights to ``path`` and, beside it as .json, what is needed to use them.

    That is its sizes, the vocabulary and the passages held out of the Corpus that it has learned,
    the SHA-256 of the weights, and ``facts`` about the training.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: part.detach().cpu().contiguous() for name, part in
               model.state_dict().items()}, path)
    sizes = {"n_tokens": model.embedding.num_embeddings,
             "d_model": model.embedding.embedding_dim,
             "n_heads": model.blocks[0].attention.n_heads, "n_layers": len(model.blocks)}
    about = {"sha256": sha256(path), "sizes": sizes, "vocabulary": text.vocabulary, **facts,
             "held_out": text.passages}
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def load(path=PATH):
    """Return (model, vocabulary) as ``save`` wrote them, the model in evaluation.

    Raises FileNotFoundError when one of the two files is missing, ValueError when the weights are
    not those that were written; both say what to do.
    """
    path, about = Path(path), _about(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: `make train` writes it")
    if sha256(path) != about["sha256"]:
        raise ValueError(f"{path} has SHA-256 {sha256(path)}, where {about['sha256']} is expected: "
                         "cut short, or another model; `make train` writes it anew")
    model = LanguageModel(**about["sizes"])
    model.load_state_dict(load_file(path))
    return model.eval(), about["vocabulary"]


def held_out(path=PATH):
    """Return the passages that the model has never seen, a list of str of one length.

    Raises FileNotFoundError when the file beside the weights is missing.
    """
    return _about(path)["held_out"]


def _about(path):
    """Return what stands beside the weights at ``path``, a dict."""
    beside = Path(path).with_suffix(".json")
    if not beside.is_file():
        raise FileNotFoundError(f"{beside} is missing: `make train` writes it")
    return json.loads(beside.read_text(encoding="utf-8"))


def sha256(path):
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
