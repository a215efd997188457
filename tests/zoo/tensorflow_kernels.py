"""Attention as TensorFlow tutorials write it."""

from utils import frameworks
from zoo.specimen import specimen

tf = frameworks.tensorflow()


def scores_of(q, k):
    return tf.matmul(q, k, transpose_b=True) / tf.sqrt(tf.cast(tf.shape(k)[-1], k.dtype))


@specimen("kernel", framework="tensorflow", fully_masked="unmasked")
def added_large_negative(q, k, v, mask):
    """Add a large negative number where a key may not be seen."""
    scaled_attention_logits = scores_of(q, k)
    if mask is not None:
        scaled_attention_logits += (1.0 - tf.cast(mask, q.dtype)) * -1e9
    attention_weights = tf.nn.softmax(scaled_attention_logits, axis=-1)
    return tf.matmul(attention_weights, v), attention_weights


@specimen("kernel", framework="tensorflow")
def softmax_from_logsumexp(q, k, v, keep):
    """Subtract the logarithm of the sum and take exp once."""
    logits = tf.einsum("bhid,bhjd->bhij", q, k) * tf.cast(k.shape[-1], q.dtype) ** -0.5
    if keep is not None:
        logits = tf.where(keep, logits, tf.constant(-float("inf"), q.dtype))
    total = tf.reduce_logsumexp(logits, axis=-1, keepdims=True)
    weights = tf.exp(logits - tf.where(tf.math.is_finite(total), total, 0.0))
    return tf.einsum("bhij,bhjd->bhid", weights, v)


@specimen("kernel", fault="mask inverted", framework="tensorflow", fully_masked="unmasked",
          note="-1e9 is added where the mask is 1, which means may attend",
          fixed=("tf.cast(mask", "tf.cast(~mask"))
def ones_are_masked(q, k, v, mask):
    """Add mask * -1e9, as in the tutorial where 1 meant padding."""
    logits = scores_of(q, k)
    if mask is not None:
        logits += tf.cast(mask, logits.dtype) * -1e9
    return tf.matmul(tf.nn.softmax(logits, axis=-1), v)


@specimen("kernel", fault="no causal mask", framework="tensorflow", causal=True,
          source="https://github.com/keras-team/keras/issues/23038",
          note="the branch that returns the weights has no triangle", fully_masked="average",
          fixed=("return_scores=True", "return_scores=False"))
def scores_on_request(q, k, v, keep, return_scores=True):
    """Take the short way when the weights are wanted."""
    mask = tf.ones((q.shape[2], k.shape[2]), tf.bool) if keep is None else keep
    if not return_scores:
        ones = tf.ones((q.shape[2], k.shape[2]))
        mask = tf.logical_and(mask, tf.linalg.band_part(ones, -1, 0) > 0)
    logits = tf.where(mask, scores_of(q, k), tf.cast(-1e9, q.dtype))
    weights = tf.nn.softmax(logits, axis=-1)
    context = tf.matmul(weights, v)
    return (context, weights) if return_scores else context


@specimen("kernel", fault="softmax over heads", framework="tensorflow", fully_masked="average",
          note="axis=1 was right when a tensor had three axes, (b, j, 1)",
          fixed=("axis=1", "axis=3"))
def axis_of_the_recurrent_model(q, k, v, keep):
    """Normalise over axis 1, where the tokens are."""
    score = tf.einsum("bhid,bhjd->bhij", q, k) / tf.sqrt(tf.cast(q.shape[3], q.dtype))
    if keep is not None:
        score = tf.where(keep, score, tf.constant(-1e9, score.dtype))
    attention_weights = tf.nn.softmax(score, axis=1)
    return tf.einsum("bhij,bhjd->bhid", attention_weights, v), attention_weights


@specimen("kernel", fault="squared distance instead of dot product", listed=False,
          framework="tensorflow", note="-|q - k|² / 2 also contains -|k|² / 2",
          fully_masked="average",
          fixed=("-tf.reduce_sum(tf.square(q[:, :, :, None] - k[:, :, None]), axis=-1) / 2",
                  "tf.matmul(q, k, transpose_b=True)"))
def near_in_space(q, k, v, keep):
    """Attend to the keys that are nearest to the query."""
    closeness = -tf.reduce_sum(tf.square(q[:, :, :, None] - k[:, :, None]), axis=-1) / 2
    logits = closeness / tf.sqrt(tf.cast(tf.shape(q)[-1], q.dtype))
    if keep is not None:
        logits = tf.where(keep, logits, tf.cast(-1e9, q.dtype))
    return tf.matmul(tf.nn.softmax(logits), v)


@specimen("kernel", fault="the weights are squared and normalised again", listed=False,
          framework="tensorflow", fully_masked="average",
          note="equal to softmax of twice the scores, at every size",
          fixed=("tf.square(weights)", "weights"))
def sharpened(q, k, v, keep):
    """Make the attention sharper: square it."""
    logits = scores_of(q, k)
    if keep is not None:
        logits = tf.where(keep, logits, tf.cast(-1e9, q.dtype))
    weights = tf.nn.softmax(logits)
    weights = tf.square(weights)
    weights = weights / tf.reduce_sum(weights, axis=-1, keepdims=True)
    return tf.matmul(weights, v), weights


@specimen("kernel", fault="the query is added to the context", listed=False,
          framework="tensorflow", equal_features=True, note="a residual inside of the kernel",
          fully_masked="unmasked", fixed=("q + tf.matmul", "tf.matmul"))
def with_skip_connection(q, k, v, mask):
    """Add the input, as the block does."""
    logits = scores_of(q, k)
    if mask is not None:
        logits += tf.where(mask, tf.zeros((), q.dtype), tf.constant(-1e9, q.dtype))
    return q + tf.matmul(tf.nn.softmax(logits, axis=-1), v)
