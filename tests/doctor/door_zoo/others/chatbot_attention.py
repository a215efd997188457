import tensorflow as tf

PAD_ID = 0


def create_padding_mask(x):
    """(batch_size, length), 1.0 for a padded token"""
    return tf.cast(tf.math.equal(x, PAD_ID), tf.float32)


def attention(query, key, value, mask=None):
    """query, key, value: (batch_size, num_heads, length, depth)

    mask: (batch_size, length) from create_padding_mask; padded keys get no weight
    """
    scale = tf.math.rsqrt(tf.cast(tf.shape(key)[-1], tf.float32))
    logits = tf.matmul(query * scale, key, transpose_b=True)

    if mask is not None:
        mask = mask[:, tf.newaxis, :, tf.newaxis]
        logits += mask * -1e9

    return tf.matmul(tf.nn.softmax(logits, axis=-1), value)


class PositionalEmbedding(tf.keras.layers.Layer):
    def __init__(self, vocab_size, d_model, max_len=256):
        super().__init__()
        self.d_model = d_model
        self.tokens = tf.keras.layers.Embedding(vocab_size, d_model)
        self.positions = tf.keras.layers.Embedding(max_len, d_model)

    def call(self, x):
        n = tf.shape(x)[1]
        return self.tokens(x) * self.d_model ** 0.5 + self.positions(tf.range(n))[tf.newaxis]


def loss_function(y_true, y_pred):
    loss = tf.keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
    keep = tf.cast(tf.not_equal(y_true, PAD_ID), tf.float32)
    return tf.reduce_sum(loss * keep) / tf.reduce_sum(keep)


if __name__ == "__main__":
    ids = tf.constant([[7, 3, 9, 0, 0], [2, 8, 0, 0, 0]])
    h = tf.random.normal((2, 4, 5, 16))
    print(attention(h, h, h, create_padding_mask(ids)).shape)
