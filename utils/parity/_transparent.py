"""Layers whose projections change nothing, for ``utils.parity.mask_arguments``.

Their matrices are identities and their biases zeros, so that q, k and v reach the equation as they
are. Making them leaves PyTorch's generator as it was.
"""

from functools import cache

import numpy as np
import torch
from torch import nn

from .. import frameworks
from . import weights

HEADS, D_HEAD = 3, 8
D_MODEL = HEADS * D_HEAD


@cache
def keras_layer():
    """Return Keras' layer with identities for matrices."""
    made = frameworks.tensorflow().keras.layers.MultiHeadAttention(HEADS, key_dim=D_HEAD)
    made.build((2, 5, D_MODEL), (2, 7, D_MODEL))
    return weights.load(made, weights.to_keras(_clear(), HEADS))


@cache
def torch_layer():
    """Return ``nn.MultiheadAttention`` with identities for matrices."""
    with torch.random.fork_rng():
        made = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    return weights.load(made, weights.to_in_proj(_clear()))


@cache
def whole_layers():
    """Return {beginning of a name: (layer, its attention, the number of its inputs)}."""
    sizes_, options = (D_MODEL, HEADS, 32), {"batch_first": True, "dropout": 0.0}
    with torch.random.fork_rng():
        encoder = nn.TransformerEncoderLayer(*sizes_, **options)
        decoder = nn.TransformerDecoderLayer(*sizes_, **options)
    found = {"src": (encoder, encoder.self_attn, 1), "tgt": (decoder, decoder.self_attn, 2),
             "memory": (decoder, decoder.multihead_attn, 2)}
    for _, attention, _ in found.values():
        weights.load(attention, weights.to_in_proj(_clear()))
    return found


def bert(how, decoder):
    """Return a new BERT of one layer that computes its attention as told, "sdpa" or "eager"."""
    library = frameworks.transformers()
    with torch.random.fork_rng():
        config = library.BertConfig(
            vocab_size=9, hidden_size=D_MODEL, num_hidden_layers=1, num_attention_heads=HEADS,
            intermediate_size=32, is_decoder=decoder, attn_implementation=how)
        return library.BertModel(config, add_pooling_layer=False).eval()


def _clear():
    """Return weights of a layer that changes nothing, without biases."""
    return {f"W_{side}": np.eye(D_MODEL) for side in "qkvo"}
