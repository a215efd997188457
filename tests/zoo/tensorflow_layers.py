"""Layers in TensorFlow as plain functions of a weight set."""

from utils import frameworks
from zoo.specimen import specimen

tf = frameworks.tensorflow()


def split_heads(x, n_heads):
    x = tf.reshape(x, (tf.shape(x)[0], -1, n_heads, x.shape[-1] // n_heads))
    return tf.transpose(x, perm=[0, 2, 1, 3])


def attention_of(q, k, v, mask=None):
    """The mask is 1 where a key is hidden."""
    logits = tf.matmul(q, k, transpose_b=True) / tf.math.sqrt(tf.cast(k.shape[-1], k.dtype))
    if mask is not None:
        logits += tf.cast(mask, logits.dtype) * -1e9
    return tf.matmul(tf.nn.softmax(logits, axis=-1), v)


def projections(x, memory, weights, n_heads):
    return [split_heads(tf.matmul(side, weights[f"W_{n}"]) + weights[f"b_{n}"], n_heads)
            for side, n in ((x, "q"), (memory, "k"), (memory, "v"))]


@specimen("layer", framework="tensorflow", fully_masked="average")
def einsum_with_heads_in_the_weights(x, memory, weights, n_heads, keep):
    """Lay the weights out as Keras does, (e, h, d) and (h, d, o)."""
    def project(side, name):
        W, b = weights[f"W_{name}"], weights[f"b_{name}"]
        return (tf.einsum("abc,cde->abde", side, tf.reshape(W, (W.shape[0], n_heads, -1)))
                + tf.reshape(b, (n_heads, -1)))
    q, k, v = project(x, "q"), project(memory, "k"), project(memory, "v")
    scores = tf.einsum("aecd,abcd->acbe", k, q) * tf.math.rsqrt(tf.cast(q.shape[-1], q.dtype))
    if keep is not None:
        scores = tf.where(keep, scores, scores.dtype.min)
    context = tf.einsum("acbe,aecd->abcd", tf.nn.softmax(scores), v)
    W_o = tf.reshape(weights["W_o"], (n_heads, q.shape[-1], -1))
    return tf.einsum("abcd,cde->abe", context, W_o) + weights["b_o"]


@specimen("layer", "merge without transpose", framework="tensorflow", fully_masked="unmasked",
          note="tf.reshape of (b, h, i, d) to (b, i, e): no transposition before it",
          fixed=("context = attention_of(q, k, v, mask)",
                  "context = tf.transpose(attention_of(q, k, v, mask), (0, 2, 1, 3))"))
def reshaped_to_the_queries(x, memory, weights, n_heads, keep):
    """The output has the shape of the queries, so give it that shape."""
    q, k, v = projections(x, memory, weights, n_heads)
    mask = None if keep is None else tf.logical_not(keep)
    context = attention_of(q, k, v, mask)
    context = tf.reshape(context, (x.shape[0], x.shape[1], -1))
    return tf.matmul(context, weights["W_o"]) + weights["b_o"]


@specimen("layer", "transposed weight", framework="tensorflow", equal_widths=True,
          fully_masked="unmasked", note="transpose_b for W_o, as if it were (out, in)",
          fixed=(', weights["W_o"], transpose_b=True', ', weights["W_o"]'))
def output_from_a_torch_checkpoint(x, memory, weights, n_heads, keep):
    """Weights that come from elsewhere are (out, in)."""
    q, k, v = projections(x, memory, weights, n_heads)
    mask = None if keep is None else tf.logical_not(keep)
    context = tf.transpose(attention_of(q, k, v, mask), (0, 2, 1, 3))
    context = tf.reshape(context, (x.shape[0], x.shape[1], -1))
    return tf.matmul(context, weights["W_o"], transpose_b=True) + weights["b_o"]


@specimen("layer", "missing bias", framework="tensorflow", fully_masked="unmasked",
          note="the projections have theirs, b_o is forgotten",
          fixed=('weights["W_o"])', 'weights["W_o"]) + weights["b_o"]'))
def no_bias_at_the_end(x, memory, weights, n_heads, keep):
    """Put the heads side by side by concat and mix them."""
    q, k, v = projections(x, memory, weights, n_heads)
    mask = None if keep is None else tf.logical_not(keep)
    heads = tf.unstack(attention_of(q, k, v, mask), axis=1)
    return tf.matmul(tf.concat(heads, axis=-1), weights["W_o"])


@specimen("layer", "LayerNorm over time", framework="tensorflow", pre_norm=True,
          self_attention=True, causal=True, masks="none",
          source="https://github.com/MorvanZhou/NLP-Tutorials/issues/10",
          note="axis=1 of (b, i, e) is time: each token is normalised with later tokens",
          fixed=("axis=1", "axis=-1"))
def normalised_first(x, memory, weights, n_heads, keep):
    """Normalise the tokens, then attend to earlier ones."""
    x = tf.keras.layers.LayerNormalization(
        axis=1, epsilon=1e-5, center=False, scale=False, dtype=x.dtype)(x)
    q, k, v = projections(x, x, weights, n_heads)
    future = 1 - tf.linalg.band_part(tf.ones((x.shape[1], x.shape[1])), -1, 0)
    context = tf.transpose(attention_of(q, k, v, future), (0, 2, 1, 3))
    context = tf.reshape(context, (x.shape[0], x.shape[1], -1))
    return tf.matmul(context, weights["W_o"]) + weights["b_o"]
