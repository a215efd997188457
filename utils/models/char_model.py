"""Train, save and load a character model of Python's manual.

`make train` trains it as chapter `language_model` does, with more steps, and with one difference:
half of the sequences repeat their beginning. It saves the parameters and, beside them, sizes,
vocabulary, held-out passages and the SHA-256 of the parameters. A twin was trained on as many
sequences of which none was changed to repeat itself.
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

    The fraction ``again`` of the pieces repeat their beginning; chapter `reading_heads` says why.
    """
    pieces = corpus.draw(tokens, batch, length, generator)
    repeated = round(again * batch)
    pieces[:repeated] = corpus.say_again(pieces[:repeated], generator)
    return next_token_loss(model, pieces.to(next(model.parameters()).device))


def train(text, steps, path=None, seed=0, again=0.0):
    """Return the training.Run of a LanguageModel that has learned a Corpus.

    ``again`` as in ``draw_loss``. Every hundred steps, the bits per character of the held-out
    passages are appended to ``history``. With a ``path``, the run is saved there every hundred
    steps, and continues from that file if it exists.
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
    """Write a model's parameters to ``path`` and a description to a .json file beside it.

    The description holds the sizes of the model, the vocabulary and the held-out passages of its
    Corpus, the SHA-256 of the parameters, and ``facts`` about the training.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: part.detach().cpu().contiguous() for name, part in
               model.state_dict().items()}, path)
    sizes = {"n_tokens": model.embedding.num_embeddings,
             "d_model": model.embedding.embedding_dim,
             "n_heads": model.blocks[0].attention.n_heads, "n_layers": len(model.blocks)}
    stored = {"sha256": sha256(path), "sizes": sizes, "vocabulary": text.vocabulary, **facts,
              "held_out": text.passages}
    path.with_suffix(".json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def load(path=PATH):
    """Return (model, vocabulary) as ``save`` wrote them, the model in evaluation.

    Raises FileNotFoundError when one of the two files is missing, ValueError when the SHA-256 of
    the parameters differs.
    """
    path, stored = Path(path), about(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; `make train` writes it")
    if sha256(path) != stored["sha256"]:
        raise ValueError(f"{path} must have SHA-256 {stored['sha256']}, got {sha256(path)}: the "
                         "file is incomplete, or of another model; `make train` writes a new one")
    model = LanguageModel(**stored["sizes"])
    model.load_state_dict(load_file(path))
    return model.eval(), stored["vocabulary"]


def about(path=PATH):
    """Return what is stored beside the parameters at ``path``, a dict.

    That is its sizes, vocabulary, steps, bits per character, versions and held-out passages. Raises
    FileNotFoundError when the file is missing.
    """
    beside = Path(path).with_suffix(".json")
    if not beside.is_file():
        raise FileNotFoundError(f"{beside} is missing; `make train` writes it")
    return json.loads(beside.read_text(encoding="utf-8"))


def held_out(path=PATH):
    """Return the passages that the model was not trained on, a list of str of one length.

    Raises FileNotFoundError when the file beside the weights is missing.
    """
    return about(path)["held_out"]


def sha256(path):
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
