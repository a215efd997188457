"""Attention layers for the turbine load forecast."""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
from tensorflow.keras import layers

WINDOW = 96
N_FEATURES = 12


class SeriesSelfAttention(layers.Layer):
    """One head over the time steps of a window. `mask` is the Keras mask, True = use."""

    def __init__(self, units=32, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.supports_masking = True

    def build(self, input_shape):
        dim = int(input_shape[-1])
        self.Wq = self.add_weight(name="Wq", shape=(dim, self.units),
                                  initializer="glorot_uniform")
        self.Wk = self.add_weight(name="Wk", shape=(dim, self.units),
                                  initializer="glorot_uniform")
        self.Wv = self.add_weight(name="Wv", shape=(dim, self.units),
                                  initializer="glorot_uniform")
        super().build(input_shape)

    def call(self, inputs, mask=None, training=None):
        q = tf.tensordot(inputs, self.Wq, axes=1)
        k = tf.tensordot(inputs, self.Wk, axes=1)
        v = tf.tensordot(inputs, self.Wv, axes=1)
        e = tf.matmul(q, k, transpose_b=True) / tf.sqrt(float(self.units))
        if mask is not None:
            keep = tf.cast(mask, e.dtype)[:, tf.newaxis, :]
            e -= 1e9 * (1.0 - keep)
        return tf.matmul(tf.nn.softmax(e, axis=-1), v)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


class ScaledSelfAttention(layers.Layer):
    """Scaled dot-product self-attention, Attention Is All You Need eq. (1), with output layer."""

    def __init__(self, d_model, **kwargs):
        super().__init__(**kwargs)
        self.d_model = d_model

    def build(self, input_shape):
        self.query = layers.Dense(self.d_model, use_bias=False)
        self.key = layers.Dense(self.d_model, use_bias=False)
        self.value = layers.Dense(self.d_model, use_bias=False)
        self.out = layers.Dense(self.d_model)
        super().build(input_shape)

    def call(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = tf.matmul(q, k, transpose_b=True)
        weights = tf.nn.softmax(scores, axis=-1)
        return self.out(tf.matmul(weights, v))


def build_model():
    inp = layers.Input((WINDOW, N_FEATURES))
    x = layers.Dense(32)(inp)
    x = SeriesSelfAttention(32)(x)
    x = ScaledSelfAttention(32)(x)
    x = layers.GlobalAveragePooling1D()(x)
    return tf.keras.Model(inp, layers.Dense(1)(x))


if __name__ == "__main__":
    model = build_model()
    model.compile("adam", "mae")
    model.summary()
