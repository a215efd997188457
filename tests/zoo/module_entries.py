"""Modules as their authors wrote them: norms with an eps of their own, dropout by other names."""

import math

import torch
from torch import nn
from torch.nn.functional import dropout, softmax

from utils import frameworks
from zoo.specimen import specimen

tf = frameworks.tensorflow()
keras = tf.keras
LINEAR = {"q": "to_q", "k": "to_k", "v": "to_v", "o": "to_out"}


def of_x(module, x, memory, keep):
    return module(x, keep)


class Base(nn.Module):
    """Self-attention in which a family of modules differs by one method."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, nn.Identity()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(width, width) for _ in range(4))

    def weights(self, q, k, keep):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.size(-1))
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        return softmax(scores, dim=-1)

    def forward(self, x, keep=None):
        x = self.norm(x)
        q, k, v = (part(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for part in (self.to_q, self.to_k, self.to_v))
        context = torch.einsum("bhij,bhjd->bhid", self.weights(q, k, keep), v)
        return self.to_out(context.transpose(1, 2).flatten(2))


@specimen("layer", module=True, self_attention=True, roles=LINEAR, call=of_x, fully_masked="nan",
          pre_norm=True, epsilon=1e-6)
class VisionNorm(Base):
    """A LayerNorm first, with the eps of vision transformers."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)


@specimen("layer", "dropout in eval", module=True, self_attention=True, roles=LINEAR, call=of_x,
          fully_masked="nan", note="the function is imported by name, and is not told of eval()",
          fixed=(", 0.2)", ", 0.2, self.training)"))
class DropoutByName(Base):
    """Drop some of the weights by a function."""

    def weights(self, q, k, keep):
        return dropout(Base.weights(self, q, k, keep), 0.2)


@specimen("layer", "dropout in eval", module=True, self_attention=True, roles=LINEAR, call=of_x,
          fully_masked="nan", note="torch.dropout is told that it is training, always",
          fixed=("0.1, True", "0.1, self.training"))
class DropoutOfTorch(Base):
    """Drop some of the weights by torch.dropout, which wants to be told."""

    def weights(self, q, k, keep):
        return torch.dropout(Base.weights(self, q, k, keep), 0.1, True)


class NormFirst(Base):
    """A LayerNorm first, with PyTorch's eps."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)


@specimen("layer", "constant scale", module=True, self_attention=True, roles=LINEAR, call=of_x,
          fully_masked="nan", pre_norm=True, note="√64, whatever the width of a head",
          fixed=("/ 8.0", "/ math.sqrt(q.size(-1))"))
class NormedEighth(NormFirst):
    """The scale of a model whose heads have 64 features."""

    def weights(self, q, k, keep):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / 8.0
        if keep is not None:
            scores = scores.masked_fill(~keep, float("-inf"))
        return softmax(scores, dim=-1)


@specimen("layer", "mask value too high", module=True, self_attention=True, roles=LINEAR, call=of_x,
          fully_masked="average", pre_norm=True, note="1e-9 where -1e9 was meant",
          fixed=("keep, 1e-9", "keep, -1e9"))
class NormedSmall(NormFirst):
    """A slip of the pen in what is filled in."""

    def weights(self, q, k, keep):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.size(-1))
        if keep is not None:
            scores = scores.masked_fill(~keep, 1e-9)
        return softmax(scores, dim=-1)


class Dense(keras.layers.Layer):
    """Self-attention in Keras."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norm = heads, tf.identity
        self.to_q, self.to_k, self.to_v, self.to_out = (
            keras.layers.Dense(width) for _ in range(4))

    def drop(self, weights):
        return weights

    def call(self, x, attention_mask=None):
        x = self.norm(x)
        q, k, v = (tf.transpose(tf.reshape(part(x), (*x.shape[:2], self.heads, -1)), (0, 2, 1, 3))
                   for part in (self.to_q, self.to_k, self.to_v))
        scores = tf.matmul(q, k, transpose_b=True) / math.sqrt(q.shape[-1])
        if attention_mask is not None:
            scores += (1.0 - tf.cast(attention_mask, scores.dtype)) * -1e9
        context = tf.transpose(self.drop(tf.nn.softmax(scores)) @ v, (0, 2, 1, 3))
        return self.to_out(tf.reshape(context, x.shape))


@specimen("layer", framework="tensorflow", module=True, self_attention=True, roles=LINEAR,
          call=of_x, fully_masked="unmasked", pre_norm=True, epsilon=1e-3)
class KerasNorm(Dense):
    """A LayerNormalization first, as Keras makes it."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.norm = keras.layers.LayerNormalization(center=False, scale=False)


@specimen("layer", "dropout in eval", framework="tensorflow", module=True, self_attention=True,
          roles=LINEAR, call=of_x, fully_masked="unmasked",
          note="training=True is written into the call",
          fixed=("training=True", "training=False"))
class KerasDropout(Dense):
    """Drop some of the weights by a layer of Keras."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.dropout = keras.layers.Dropout(0.2)

    def drop(self, weights):
        return self.dropout(weights, training=True)
