"""Healthy layers of the libraries and of this course, called by their own signatures."""

from torch import nn

from utils import frameworks
from utils.attention import (
    decoder,
    einsum as einsum_attention,
    numpy as numpy_attention,
    sequence_first,
    tensorflow as tf_attention,
    torch as torch_attention,
)
from utils.parity import weights
from zoo.layer_masks import folded, four_axes, of_all_heads, of_keys, of_lengths
from zoo.specimen import specimen

tf = frameworks.tensorflow()
IN_PROJ = {"module": True, "packed": "in_proj_weight", "roles": {"o": "out_proj"},
           "reads": lambda module: weights.from_in_proj(module.state_dict())}


@specimen("layer", **IN_PROJ, call=lambda mha, x, memory, keep: mha(
    x, memory, memory, need_weights=False,
    attn_mask=None if keep is None else ~folded(keep, x, memory, mha.num_heads))[0])
def torch_mha(d_model, n_heads):
    """PyTorch's layer, batch first, without weights; its mask is True = drop."""
    return nn.MultiheadAttention(d_model, n_heads, batch_first=True)


def sequence_first_mha(mha, x, memory, keep):
    """Call PyTorch's layer with its defaults: the sequence first, a padding mask, weights too."""
    keep = of_keys(keep, len(memory), memory.shape[1])
    out, _ = mha(x.transpose(0, 1), memory.transpose(0, 1), memory.transpose(0, 1),
                 key_padding_mask=None if keep is None else ~keep)
    return out.transpose(0, 1)


@specimen("layer", **IN_PROJ, masks="padding", fully_masked="nan", call=sequence_first_mha)
def torch_mha_with_defaults(d_model, n_heads):
    """PyTorch's layer as it comes."""
    return nn.MultiheadAttention(d_model, n_heads, dropout=0.1)


@specimen("layer", framework="tensorflow", module=True, fully_masked="average", tolerance=1e-6,
          roles={"q": "query_dense", "k": "key_dense", "v": "value_dense", "o": "output_dense"},
          reads=lambda layer: weights.from_keras(layer.get_weights()),
          note="the scale 1 / sqrt(d) is rounded to float32",
          call=lambda layer, x, memory, keep: layer(x, memory, attention_mask=four_axes(keep)))
def keras_mha(d_model, n_heads):
    """Keras' layer, whose key_dim is the width of one head."""
    return tf.keras.layers.MultiHeadAttention(n_heads, d_model // n_heads)


@specimen("layer", module=True, packed="W_qkv", roles={"o": "W_o"},
          call=lambda module, x, memory, keep: module(
              x, None if memory is x else memory, keep=keep))
def course_torch(d_model, n_heads):
    """The course's module over SDPA."""
    return torch_attention.MultiHeadAttention(d_model, n_heads, dropout=0.2)


@specimen("layer", module=True, masks="heads alike",
          roles={"q": "query.linear", "k": "key.linear", "v": "value.linear", "o": "output"},
          call=lambda module, x, memory, keep: module(
              query=x.transpose(0, 1), key=memory.transpose(0, 1), value=memory.transpose(0, 1),
              mask=None if keep is None else of_all_heads(keep).permute(1, 2, 0)).transpose(0, 1))
def course_sequence_first(d_model, n_heads):
    """The course's module in labml's style."""
    return sequence_first.MultiHeadAttention(n_heads, d_model)


@specimen("layer", module=True, masks="heads alike",
          roles={"q": "w_qs", "k": "w_ks", "v": "w_vs", "o": "fc"},
          call=lambda module, x, memory, keep: module(
              x, memory, memory, None if keep is None else ~of_all_heads(keep))[0])
def course_einsum(d_model, n_heads):
    """The course's einsum module, residual and LayerNorm switched off; True = drop."""
    d = d_model // n_heads
    return einsum_attention.MultiHeadAttentionNew(
        n_heads, d_model, d, d, residual=False, layer_norm=False)


@specimen("layer", "the query is added to the output, and the sum is normalised", listed=False,
          module=True, masks="heads alike",
          roles={"q": "w_qs", "k": "w_ks", "v": "w_vs", "o": "fc"},
          note="residual and LayerNorm of the block are inside the layer, and on by default",
          call=lambda module, x, memory, keep: module(
              x, memory, memory, None if keep is None else ~of_all_heads(keep))[0],
          fixed=course_einsum)
def course_einsum_with_its_defaults(d_model, n_heads):
    """The same module as its source has it: the layer is half a transformer block."""
    d = d_model // n_heads
    return einsum_attention.MultiHeadAttentionNew(n_heads, d_model, d, d)


@specimen("layer", framework="tensorflow", module=True, masks="padding",
          roles={n: f"W_{n}" for n in "qkvo"}, call=lambda layer, x, memory, keep: layer(
              x, memory, memory, of_lengths(keep, len(memory))))
def course_tensorflow(d_model, n_heads):
    """The course's Keras layer in d2l's style; masks are lengths."""
    return tf_attention.MultiHeadAttention(
        d_model, d_model, d_model, d_model, n_heads, 0.5, bias=True)


@specimen("layer", framework="numpy", self_attention=True, masks="heads alike")
def course_numpy(x, memory, weights_, n_heads, keep):
    """The course's NumPy program, with GPT-2's packed weights."""
    return numpy_attention.mha(x, *weights.to_gpt2(weights_), n_heads, of_all_heads(keep))


@specimen("layer", causal=True, self_attention=True)
def course_decoder(x, memory, weights_, n_heads, keep):
    """The course's masked self-attention of a decoder."""
    def layer(name):
        return lambda side: side @ weights_[f"W_{name}"] + weights_[f"b_{name}"]
    return decoder.masked_multi_head_self_attention(
        x, *map(layer, "qkvo"), n_heads, four_axes(keep))
