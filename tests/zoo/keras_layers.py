"""Layers in TensorFlow and Keras: tutorials, d2l, subclasses of Layer."""

from utils import frameworks
from zoo.layer_masks import of_lengths
from zoo.specimen import specimen

tf = frameworks.tensorflow()
keras = tf.keras
DENSE = {"q": "wq", "k": "wk", "v": "wv", "o": "dense"}


def split_heads(x, n_heads):
    x = tf.reshape(x, (tf.shape(x)[0], -1, n_heads, x.shape[-1] // n_heads))
    return tf.transpose(x, perm=[0, 2, 1, 3])


def attention_of(q, k, v, mask=None):
    """The mask is 1 where a key is hidden."""
    logits = tf.matmul(q, k, transpose_b=True) / tf.math.sqrt(tf.cast(k.shape[-1], k.dtype))
    if mask is not None:
        logits += tf.cast(mask, logits.dtype) * -1e9
    return tf.matmul(tf.nn.softmax(logits, axis=-1), v)


@specimen("layer", framework="tensorflow", module=True, fully_masked="unmasked", roles=DENSE,
          call=lambda layer, x, memory, keep: layer(
              memory, memory, x, None if keep is None else ~keep))
class TutorialAttention(keras.layers.Layer):
    """Values come first in the signature, and the mask is 1 where a key is hidden."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.d_model = num_heads, d_model
        self.wq, self.wk = keras.layers.Dense(d_model), keras.layers.Dense(d_model)
        self.wv, self.dense = keras.layers.Dense(d_model), keras.layers.Dense(d_model)

    def call(self, v, k, q, mask=None):
        q, k, v = (split_heads(layer(side), self.num_heads)
                   for layer, side in ((self.wq, q), (self.wk, k), (self.wv, v)))
        out = tf.transpose(attention_of(q, k, v, mask), perm=[0, 2, 1, 3])
        return self.dense(tf.reshape(out, (tf.shape(out)[0], -1, self.d_model)))


@specimen("layer", "GELU after the output projection", listed=False, framework="tensorflow",
          module=True, fully_masked="unmasked", roles=DENSE,
          note="the Dense layer of the output has an activation",
          call=lambda layer, x, memory, keep: layer(
              x, memory, None if keep is None else ~keep),
          fixed=('activation="gelu"', "activation=None"))
class ActivatedAttention(keras.layers.Layer):
    """Every Dense layer of this model has an activation."""

    def __init__(self, units, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv = (keras.layers.Dense(units) for _ in range(3))
        self.dense = keras.layers.Dense(units, activation="gelu")

    def call(self, inputs, memory, mask=None):
        context = attention_of(split_heads(self.wq(inputs), self.heads),
                               split_heads(self.wk(memory), self.heads),
                               split_heads(self.wv(memory), self.heads), mask)
        context = tf.transpose(context, (0, 2, 1, 3))
        return self.dense(tf.reshape(context, tf.shape(inputs)))


def transpose_qkv(X, num_heads):
    X = tf.reshape(X, shape=(X.shape[0], X.shape[1], num_heads, -1))
    X = tf.transpose(X, perm=(0, 2, 1, 3))
    return tf.reshape(X, shape=(-1, X.shape[2], X.shape[3]))


def transpose_output(X, num_heads):
    X = tf.reshape(X, shape=(-1, num_heads, X.shape[1], X.shape[2]))
    X = tf.transpose(X, perm=(0, 2, 1, 3))
    return tf.reshape(X, shape=(X.shape[0], X.shape[1], -1))


def masked_softmax(X, valid_lens):
    if valid_lens is None:
        return tf.nn.softmax(X, axis=-1)
    mask = tf.range(X.shape[-1])[None, None] < valid_lens[:, None, None]
    return tf.nn.softmax(tf.where(mask, X, tf.cast(-1e6, X.dtype)), axis=-1)


class FoldedAttention(keras.layers.Layer):
    """Heads are folded into the batch, and masks are lengths."""

    def __init__(self, num_hiddens, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            keras.layers.Dense(num_hiddens, use_bias=True) for _ in range(4))

    def for_every_head(self, valid_lens):
        return tf.repeat(valid_lens, repeats=self.num_heads, axis=0)

    def call(self, queries, keys, values, valid_lens=None):
        queries = transpose_qkv(self.W_q(queries), self.num_heads)
        keys = transpose_qkv(self.W_k(keys), self.num_heads)
        values = transpose_qkv(self.W_v(values), self.num_heads)
        if valid_lens is not None:
            valid_lens = self.for_every_head(valid_lens)
        scores = tf.matmul(queries, keys, transpose_b=True) / tf.math.sqrt(
            tf.cast(queries.shape[-1], queries.dtype))
        output = tf.matmul(masked_softmax(scores, valid_lens), values)
        return self.W_o(transpose_output(output, self.num_heads))


FOLDED = {"framework": "tensorflow", "module": True, "masks": "padding", "fully_masked": "average",
          "roles": {n: f"W_{n}" for n in "qkvo"},
          "call": lambda layer, x, memory, keep: layer(
              x, memory, memory, of_lengths(keep, len(memory)))}
specimen("layer", **FOLDED)(FoldedAttention)


@specimen("layer", "other example's mask", **FOLDED,
          note="rows are (b, h), and tile counts through the lengths as if they were (h, b)",
          fixed=("tf.tile(valid_lens, (self.num_heads,))",
                  "tf.repeat(valid_lens, self.num_heads)"))
class TiledLengths(FoldedAttention):
    """Repeat the lengths, once for each head."""

    def for_every_head(self, valid_lens):
        return tf.tile(valid_lens, (self.num_heads,))
