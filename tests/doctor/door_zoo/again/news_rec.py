"""Layers of the news encoder and the user encoder."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

from recommenders.params import HParams


class AttLayer(layers.Layer):
    """Additive attention that pools the words of a title."""

    def __init__(self, dim=200, seed=0, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.seed = seed

    def build(self, input_shape):
        init = keras.initializers.GlorotUniform(seed=self.seed)
        self.W = self.add_weight(name="W", shape=(int(input_shape[-1]), self.dim), initializer=init)
        self.b = self.add_weight(name="b", shape=(self.dim,), initializer="zeros")
        self.q = self.add_weight(name="q", shape=(self.dim, 1), initializer=init)

    def call(self, inputs):
        a = tf.tanh(tf.matmul(inputs, self.W) + self.b)
        a = tf.nn.softmax(tf.matmul(a, self.q), axis=1)
        return tf.reduce_sum(inputs * a, axis=1)


class SelfAttention(layers.Layer):
    """Multi-head self-attention as in NRMS: no output projection.

    Args:
        multiheads (int): the number of heads.
        head_dim (int): dimension of each head.
    """

    def __init__(self, multiheads, head_dim, seed=0, **kwargs):
        super(SelfAttention, self).__init__(**kwargs)
        self.multiheads = multiheads
        self.head_dim = head_dim
        self.output_dim = multiheads * head_dim
        self.seed = seed

    def build(self, input_shape):
        init = keras.initializers.GlorotUniform(seed=self.seed)
        self.WQ = self.add_weight(name="WQ", shape=(int(input_shape[0][-1]), self.output_dim), initializer=init)
        self.WK = self.add_weight(name="WK", shape=(int(input_shape[1][-1]), self.output_dim), initializer=init)
        self.WV = self.add_weight(name="WV", shape=(int(input_shape[2][-1]), self.output_dim), initializer=init)

    def _split(self, x):
        x = tf.reshape(x, (-1, tf.shape(x)[1], self.multiheads, self.head_dim))
        return tf.transpose(x, (0, 2, 1, 3))

    def call(self, QKVs):
        if len(QKVs) == 3:
            Q_seq, K_seq, V_seq = QKVs
            V_len = None
        else:
            Q_seq, K_seq, V_seq, V_len = QKVs
        Q = self._split(tf.matmul(Q_seq, self.WQ))
        K = self._split(tf.matmul(K_seq, self.WK))
        V = self._split(tf.matmul(V_seq, self.WV))
        A = tf.matmul(Q, K, transpose_b=True) / np.sqrt(self.head_dim)
        if V_len is not None:
            keep = tf.sequence_mask(V_len, tf.shape(V_seq)[1], dtype=A.dtype)
            A -= (1.0 - keep[:, None, None, :]) * 1e12
        A = tf.nn.softmax(A, axis=-1)
        O = tf.transpose(tf.matmul(A, V), (0, 2, 1, 3))
        return tf.reshape(O, (-1, tf.shape(O)[1], self.output_dim))

    def get_config(self):
        config = super().get_config()
        config.update({"multiheads": self.multiheads, "head_dim": self.head_dim, "seed": self.seed})
        return config


def build_user_encoder(hparams, titleencoder):
    his = keras.Input(shape=(hparams.his_size, hparams.title_size), dtype="int32")
    click_title = layers.TimeDistributed(titleencoder)(his)
    y = SelfAttention(hparams.head_num, hparams.head_dim, seed=hparams.seed)([click_title] * 3)
    return keras.Model(his, AttLayer(hparams.attention_hidden_dim)(y), name="user_encoder")
