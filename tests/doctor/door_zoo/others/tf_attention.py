import tensorflow as tf


def create_padding_mask(seq):
  seq = tf.cast(tf.math.equal(seq, 0), tf.float32)
  return seq[:, tf.newaxis, tf.newaxis, :]


def create_look_ahead_mask(size):
  # 1 above the diagonal: entries that must not be used
  return 1 - tf.linalg.band_part(tf.ones((size, size)), -1, 0)


def scaled_dot_product_attention(q, k, v, mask):
  """q (..., n_q, depth), k (..., n_k, depth), v (..., n_k, depth_v)

  mask broadcasts to (..., n_q, n_k), or is None; ones are hidden.
  """
  logits = tf.matmul(q, k, transpose_b=True)

  dk = tf.cast(tf.shape(k)[-1], tf.float32)
  logits = logits / tf.math.sqrt(dk)

  if mask is not None:
    logits += (mask * -1e9)

  weights = tf.nn.softmax(logits, axis=-1)
  return tf.matmul(weights, v), weights


class MultiHeadAttention(tf.keras.layers.Layer):
  def __init__(self, d_model, num_heads):
    super().__init__()
    assert d_model % num_heads == 0
    self.num_heads = num_heads
    self.d_model = d_model
    self.depth = d_model // num_heads

    self.wq = tf.keras.layers.Dense(d_model)
    self.wk = tf.keras.layers.Dense(d_model)
    self.wv = tf.keras.layers.Dense(d_model)
    self.dense = tf.keras.layers.Dense(d_model)

  def split_heads(self, x, batch_size):
    x = tf.reshape(x, (batch_size, -1, self.num_heads, self.depth))
    return tf.transpose(x, perm=[0, 2, 1, 3])

  def call(self, v, k, q, mask=None):
    batch_size = tf.shape(q)[0]

    q = self.split_heads(self.wq(q), batch_size)
    k = self.split_heads(self.wk(k), batch_size)
    v = self.split_heads(self.wv(v), batch_size)

    context, weights = scaled_dot_product_attention(q, k, v, mask)
    context = tf.transpose(context, perm=[0, 2, 1, 3])
    context = tf.reshape(context, (batch_size, -1, self.d_model))
    return self.dense(context), weights


if __name__ == '__main__':
  layer = MultiHeadAttention(d_model=128, num_heads=4)
  tokens = tf.random.normal((3, 20, 128))
  out, attn = layer(tokens, tokens, tokens, create_look_ahead_mask(20))
  print(out.shape, attn.shape)
