"""Attention in TensorFlow, with the names of Dive into Deep Learning. Taught in `transpose_qkv`.

Heads are folded into the batch axis, (b * h, i, d), and masks are lengths: ``valid_lens`` is the
number of keys, counted from the first, that a query may attend to. The equation is the same as in
all other modules.
"""

import math

from .. import checks, frameworks

tf = frameworks.tensorflow()


def masked_softmax(X, valid_lens):
    """Return softmax over the first ``valid_lens`` keys, (b, i, j).

    ``valid_lens`` are integers 0 .. n_k, one for each example, (b,), or for each query, (b, i);
    None = all keys. A row with length 0 is zero, and so is its gradient. Raises TypeError or
    ValueError for lengths that do not fit.
    """
    if valid_lens is None:
        return tf.nn.softmax(X, axis=-1)
    checks.valid_lens(valid_lens, X)
    lens = tf.cast(valid_lens, tf.int32)
    lens = tf.reshape(lens, (tf.shape(lens)[0], -1, 1))  # (b, 1 or i, 1)
    keep = tf.range(tf.shape(X)[-1]) < lens  # (b, 1 or i, j)
    X = tf.where(lens > 0, tf.where(keep, X, -math.inf), 0.0)
    return tf.where(lens > 0, tf.nn.softmax(X, axis=-1), 0.0)


class DotProductAttention(tf.keras.layers.Layer):
    """Scaled dot-product attention, (b, i, d) -> (b, i, d_v).

    Keys are (b, j, d), values are (b, j, d_v). ``dropout`` acts on the attention weights, in
    training only. ``attention_weights`` holds those of the last call, (b, i, j), before dropout.
    Source: https://arxiv.org/abs/1706.03762, equation 1.
    """

    def __init__(self, dropout, **kwargs):  # pragma: no mutate block (Keras reads the arguments)
        super().__init__(**kwargs)
        self.dropout = tf.keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.built = True  # nothing is left to be made later

    def call(self, queries, keys, values, valid_lens, training=None):
        """Return the context; ``valid_lens`` as in ``masked_softmax``."""
        scores = queries @ tf.transpose(keys, perm=(0, 2, 1))  # (b, i, j)
        scores = scores / math.sqrt(queries.shape[-1])
        self.attention_weights = masked_softmax(scores, valid_lens)
        dropped = self.dropout(self.attention_weights, training=training)
        return dropped @ values


class AdditiveAttention(tf.keras.layers.Layer):
    """Additive attention, (b, i, query_size) -> (b, i, d_v).

    Keys are (b, j, key_size), values are (b, j, d_v). The score of a pair is w_v · tanh(q W_q + k
    W_k), with ``num_hiddens`` dimensions inside the tanh. ``dropout`` and ``attention_weights`` as
    in ``DotProductAttention``. Source: https://arxiv.org/abs/1409.0473, appendix A.1.2.
    """

    def __init__(self, key_size, query_size, num_hiddens, dropout, **kwargs):
        # pragma: no mutate block
        super().__init__(**kwargs)
        policy = self.dtype_policy
        self.W_k = dense("W_k", key_size, num_hiddens, False, policy)
        self.W_q = dense("W_q", query_size, num_hiddens, False, policy)
        self.w_v = dense("w_v", num_hiddens, 1, False, policy)
        self.dropout = tf.keras.layers.Dropout(dropout, dtype=policy)
        self.built = True

    def call(self, queries, keys, values, valid_lens, training=None):
        """Return the context; ``valid_lens`` as in ``masked_softmax``."""
        queries = self.W_q(queries)[:, :, None]  # (b, i, 1, hidden)
        keys = self.W_k(keys)[:, None]  # (b, 1, j, hidden)
        scores = self.w_v(tf.tanh(queries + keys))[..., 0]  # (b, i, j)
        self.attention_weights = masked_softmax(scores, valid_lens)
        dropped = self.dropout(self.attention_weights, training=training)
        return dropped @ values


def dense(name, size_in, size_out, bias, dtype):
    """Return a built Keras Dense layer, (…, size_in) -> (…, size_out).

    ``kernel`` is (size_in, size_out); inputs of another size raise an error. ``dtype`` is a dtype
    or a policy.
    """
    layer = tf.keras.layers.Dense(size_out, use_bias=bias, name=name, dtype=dtype)
    layer.build((None, size_in))
    return layer


def transpose_qkv(X, num_heads):
    """Fold the heads into the batch axis, (b, i, h * d) -> (b * h, i, d).

    Row ``b * num_heads + h`` is head h of example b. Raises ValueError when num_heads does not
    divide the last axis.
    """
    d = checks.heads(X, num_heads)
    batch, n = tf.shape(X)[0], tf.shape(X)[1]
    X = tf.reshape(X, (batch, n, num_heads, d))
    X = tf.transpose(X, perm=(0, 2, 1, 3))  # (b, h, i, d)
    return tf.reshape(X, (batch * num_heads, n, d))


def transpose_output(X, num_heads):
    """Merge the heads, (b * h, i, d) -> (b, i, h * d)."""
    n, d = tf.shape(X)[1], X.shape[2]
    X = tf.reshape(X, (-1, num_heads, n, d))  # (b, h, i, d)
    X = tf.transpose(X, perm=(0, 2, 1, 3))  # (b, i, h, d)
    return tf.reshape(X, (-1, n, num_heads * d))


class MultiHeadAttention(tf.keras.layers.Layer):
    """Multi-head attention, (b, i, query_size) -> (b, i, num_hiddens).

    ``keys`` are (b, j, key_size), ``values`` are (b, j, value_size). ``dropout`` acts on the
    attention weights, in training only; they are stored, (b * h, i, j), in
    ``attention.attention_weights``. Raises ValueError when num_heads does
    not divide num_hiddens. Source: https://arxiv.org/abs/1706.03762, section 3.2.2.
    """

    def __init__(self, key_size, query_size, value_size, num_hiddens,
                 num_heads, dropout, bias=False, **kwargs):  # pragma: no mutate block
        super().__init__(**kwargs)
        checks.divisible(num_hiddens, num_heads)
        self.num_heads = num_heads
        policy = self.dtype_policy
        self.attention = DotProductAttention(dropout, dtype=policy)
        self.W_q = dense("W_q", query_size, num_hiddens, bias, policy)
        self.W_k = dense("W_k", key_size, num_hiddens, bias, policy)
        self.W_v = dense("W_v", value_size, num_hiddens, bias, policy)
        self.W_o = dense("W_o", num_hiddens, num_hiddens, bias, policy)
        self.built = True

    def call(self, queries, keys, values, valid_lens, training=None):
        """Return out; ``valid_lens`` as in ``masked_softmax``."""
        queries = transpose_qkv(self.W_q(queries), self.num_heads)
        keys = transpose_qkv(self.W_k(keys), self.num_heads)
        values = transpose_qkv(self.W_v(values), self.num_heads)
        if valid_lens is not None:  # each length once for each head
            valid_lens = tf.repeat(valid_lens, self.num_heads, axis=0)
        context = self.attention(queries, keys, values, valid_lens, training=training)
        return self.W_o(transpose_output(context, self.num_heads))
