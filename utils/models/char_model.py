"""Train, save and load a character model of Python's manual.

`make train` trains it with the optimisers of chapter `language_model`. Half of the sequences repeat
their beginning. A twin was trained on as many sequences of which none was changed to repeat itself.
A file of ``save`` holds the parameters, what describes the model, and the SHA-256 of both.
"""

import hashlib
import json
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, torch as safetensors

from .. import files, setup
from . import corpus, training
from .language_model import LanguageModel, bits, next_token_loss, optimisers
from .regrouped import GroupedRotary

PATH = setup.COURSE / "data" / "char_model.safetensors"
TWIN = PATH.with_name("char_model_twin.safetensors")
KIND = "LanguageModel"
BLANK = "0" * 64  # stands for the SHA-256 of a file while it is computed


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
    """Write a model, its options and what it was trained on to ``path``, whole or not at all.

    ``model`` is a LanguageModel, also one of ``regrouped``, and ``text`` its Corpus, of which the
    vocabulary and the held-out passages are stored, with ``facts`` about the training. Raises
    TypeError or ValueError, before anything is written, for what ``load`` could not restore.
    """
    path = Path(path)
    stored = {"kind": KIND, "sizes": _sizes(model), "vocabulary": text.vocabulary,
              "held_out": text.passages}
    if both := sorted(stored.keys() & facts.keys()):
        raise ValueError(f"facts must have other names than {', '.join(both)}")
    if len(text.vocabulary) != stored["sizes"]["n_tokens"]:
        raise ValueError(f"the vocabulary has {len(text.vocabulary)} characters, but the model has "
                         f"{stored['sizes']['n_tokens']} tokens; was it trained on another text?")
    about = json.dumps({**stored, **facts}, default=_plain)
    try:
        data = safetensors.save({name: part.detach().cpu().contiguous() for name, part in
                                 model.state_dict().items()}, {"about": about, "sha256": BLANK})
    except RuntimeError as error:
        raise ValueError(f"the model cannot be saved to {path}, because load would not restore "
                         "parameters that share their memory") from error
    data = data.replace(BLANK.encode(), _digest(data).encode(), 1)
    _parsed(data)  # so that nothing is written that cannot be read
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, data)


def load(path=PATH):
    """Return (model, vocabulary) as ``save`` wrote them, the model in evaluation.

    Raises FileNotFoundError when there is no file, ValueError when it is damaged or another kind of
    file.
    """
    about, tensors = _read(path)
    model = _built(**about["sizes"])
    model.load_state_dict(tensors, assign=True)  # assigned, they keep their dtype
    return model.eval(), about["vocabulary"]


def about(path=PATH):
    """Return what is stored beside the parameters in ``path``, a dict.

    That is its kind, sizes, vocabulary and held-out passages, and facts such as steps, bits per
    character and versions. Raises as ``load``.
    """
    return _read(path)[0]


def held_out(path=PATH):
    """Return the passages that the model was not trained on, a list of str of one length.

    Raises as ``load``.
    """
    return about(path)["held_out"]


def _read(path):
    """Return (description, {name: tensor}) of a file of ``save``. Raises as ``load``."""
    data = files.read(path, "`make train`, or char_model.save,")
    try:
        return _parsed(data)
    except (ValueError, LookupError, TypeError, SafetensorError) as error:
        raise ValueError(f"{path} is not a model that char_model.save wrote: it is damaged, "
                         "incomplete or another kind of file. If it is one of data/, delete it, "
                         "and `make train` writes a new one") from error


def _parsed(data):
    """Return (description, {name: tensor}); raises some error if one bit is not as written."""
    head = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    if _digest(data.replace(head["sha256"].encode(), BLANK.encode(), 1)) != head["sha256"]:
        raise ValueError("the SHA-256 is another one")
    about = json.loads(head["about"])
    if about["kind"] != KIND:
        raise ValueError(f"the kind is {about['kind']}")
    return about, safetensors.load(data)


def _digest(data):
    return hashlib.sha256(data).hexdigest()


def _plain(number):
    """Return a number of NumPy or PyTorch as Python's, for JSON."""
    if getattr(number, "shape", None) != ():
        raise TypeError(f"a fact must be a number, str, list or dict, got {number!r}")
    return number.item()


def _sizes(model):
    """Return what ``_built`` needs for a model like this one. Raises TypeError if it cannot."""
    if type(model) is not LanguageModel:
        raise TypeError(f"model must be a LanguageModel, got {type(model).__name__}")
    attention = model.blocks[0].attention
    sizes = {"n_tokens": model.embedding.num_embeddings, "d_model": model.embedding.embedding_dim,
             "n_heads": attention.n_heads, "n_layers": len(model.blocks)}
    if isinstance(attention, GroupedRotary):
        sizes["n_kv_heads"] = attention.n_kv_heads
    ours, built = _options(model), _options(_built(**sizes))
    for name in {**ours, **built}:
        if ours.get(name) != built.get(name):
            raise TypeError(f"model cannot be saved, because load would not restore {name}="
                            f"{ours.get(name)}, but {built.get(name)}")
    return sizes


def _built(n_kv_heads=None, **sizes):
    """Return a new LanguageModel; with ``n_kv_heads``, one of ``regrouped``."""
    model = LanguageModel(**sizes)
    if n_kv_heads is not None:
        for block in model.blocks:
            block.attention = GroupedRotary(sizes["d_model"], sizes["n_heads"], n_kv_heads)
    return model


def _options(model):
    """Return the type and the public attributes of each module, {name: str}."""
    return {f"{name}.{key}": repr(value) for name, module in model.named_modules()
            for key, value in {"type": type(module).__name__, **vars(module)}.items()
            if key[0] != "_" and key != "training"}
