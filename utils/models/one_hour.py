"""The small decoder of chapter `in_one_hour`, in PyTorch's parts; the page runs it in NumPy.

Its parts are those of GPT-2, on characters: learned positions, blocks that normalise first, and the
embedding as the last matrix. To keep the program short, it has no biases and no gains, and its
nonlinear function is ReLU. `make train` trains it on the manual of Python.
"""

import hashlib
import io
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from .. import files, setup
from . import corpus, training
from .language_model import bits, next_token_loss
from .muon import Muon

PATH = setup.COURSE / "data" / "one_hour.npz"
SIZES = {"n_context": 128, "d_model": 128, "n_heads": 4, "n_layers": 4}
# What the file calls the matrices of a block, and where PyTorch has them.
MATRICES = {"W_o": "self_attn.out_proj.weight", "W_up": "linear1.weight",
            "W_down": "linear2.weight"}


class SmallDecoder(nn.Module):
    """A decoder of PyTorch's own blocks, (b, i) -> logits (b, i, vocabulary)."""

    def __init__(self, n_tokens, n_context, d_model, n_heads, n_layers):
        super().__init__()
        self.embedding = nn.Embedding(n_tokens, d_model)
        self.positions = nn.Embedding(n_context, d_model)
        block = nn.TransformerEncoderLayer(d_model, n_heads, 4 * d_model, dropout=0.0, bias=False,
                                           batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, n_layers, nn.LayerNorm(d_model, bias=False),
                                            enable_nested_tensor=False)
        for name, p in self.named_parameters():
            if "norm" in name:
                p.requires_grad_(False)  # the gains stay 1
            else:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens):
        """Return the logits of each next token, for tokens (b, i) with i at most n_context."""
        n = tokens.shape[1]
        x = self.embedding(tokens) + self.positions.weight[:n]
        ahead = nn.Transformer.generate_square_subsequent_mask(n, device=x.device, dtype=x.dtype)
        return self.blocks(x, mask=ahead, is_causal=True) @ self.embedding.weight.mT


def train(text, steps=2000, path=None, seed=0, batch=16):
    """Return the training.Run of a SmallDecoder that has learned a Corpus; ``path`` as in training.

    Muon changes the matrices of the blocks, AdamW the embedding and the positions.
    """
    torch.manual_seed(seed)
    model = SmallDecoder(len(text.vocabulary), **SIZES)
    matrices = [p for p in model.blocks.parameters() if p.requires_grad]
    vectors = [model.embedding.weight, model.positions.weight]
    optimisers = [Muon(matrices, lr=0.02, weight_decay=0.0),
                  torch.optim.AdamW(vectors, lr=0.003, betas=(0.9, 0.95), weight_decay=0.0)]
    tokens = corpus.encode(text.train, text.vocabulary)
    passages = corpus.rows(text.passages, text.vocabulary)
    run = training.new_run(model, optimisers, steps, seed)
    if path is not None and Path(path).is_file():
        training.load(run, path)
    return training.train(run, partial(_loss, tokens=tokens, batch=batch), every=100, path=path,
                          measure=lambda model: {"bits": bits(model, passages)})


def _loss(model, generator, tokens, batch):
    return next_token_loss(model, corpus.draw(tokens, batch, SIZES["n_context"] + 1, generator))


def save(model, vocabulary, path=PATH):
    """Write a SmallDecoder and its vocabulary, a str, to ``path``, whole or not at all.

    The file is NumPy's npz without pickles: ``embedding`` (token, e), ``positions`` (n, e), and the
    matrices of all blocks, W_q to W_down (block, in, out), in float16; ``characters`` (token,),
    ``n_heads`` and ``sha256``, the seal.
    """
    arrays = {"embedding": model.embedding.weight, "positions": model.positions.weight}
    blocks = [dict(layer.named_parameters()) for layer in model.blocks.layers]
    packed = torch.stack([block["self_attn.in_proj_weight"] for block in blocks])
    arrays |= dict(zip(("W_q", "W_k", "W_v"), packed.chunk(3, dim=1), strict=True))
    arrays |= {ours: torch.stack([block[theirs] for block in blocks])
               for ours, theirs in MATRICES.items()}
    half = {name: (a.mT if name[:2] == "W_" else a).detach().cpu().numpy().astype(np.float16)
            for name, a in arrays.items()}
    half |= {"characters": np.array(list(vocabulary)),
             "n_heads": np.array(model.blocks.layers[0].self_attn.num_heads)}
    file = io.BytesIO()
    np.savez(file, **half, sha256=np.array(seal(half)))
    files.write(path, file.getvalue())


def load(path=PATH):
    """Return (SmallDecoder, vocabulary) as ``save`` wrote them, the model in evaluation.

    Raises FileNotFoundError when there is no file, ValueError when it is not as ``save`` wrote it.
    """
    data = files.read(path, "`make train`")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = dict(file)
        if arrays.pop("sha256") != seal(arrays):
            raise ValueError("the SHA-256 is another one")
        return _model(arrays).eval(), "".join(arrays["characters"])
    except (ValueError, LookupError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a model that one_hour.save wrote: it is damaged, "
                         "incomplete or another kind of file. Delete it, and `make train` writes a "
                         "new one"
                         ) from error


def seal(arrays):
    """Return the SHA-256 of named arrays, 64 hexadecimal digits."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def _model(arrays):
    """Return a SmallDecoder with the arrays of a file."""
    weights = {name: torch.from_numpy(a).float() for name, a in arrays.items()
               if a.dtype == np.float16}
    model = SmallDecoder(*weights["embedding"].shape[:1], *weights["positions"].shape,
                         int(arrays["n_heads"]), len(weights["W_q"]))
    packed = torch.cat([weights[name] for name in ("W_q", "W_k", "W_v")], dim=2)
    with torch.no_grad():
        model.embedding.weight.copy_(weights["embedding"])
        model.positions.weight.copy_(weights["positions"])
        for n, layer in enumerate(model.blocks.layers):
            layer.self_attn.in_proj_weight.copy_(packed[n].mT)
            for ours, theirs in MATRICES.items():
                layer.get_parameter(theirs).copy_(weights[ours][n].mT)
    return model
