"""Captioning decoder: image features in, words out."""
import os
import re

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.applications import efficientnet

IMAGE_SIZE = (299, 299)
VOCAB_SIZE = 10000
SEQ_LENGTH = 25
EMBED_DIM = 512


class CausalAttention(layers.Layer):
    def __init__(self, embed_dim, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.key_dim = embed_dim // num_heads
        self.q_dense = layers.Dense(embed_dim)
        self.k_dense = layers.Dense(embed_dim)
        self.v_dense = layers.Dense(embed_dim)
        self.out_dense = layers.Dense(embed_dim)

    def get_causal_mask(self, n):
        i = tf.range(n)[:, tf.newaxis]
        j = tf.range(n)
        return tf.cast(j <= i + 1, tf.float32)

    def separate(self, x):
        shape = tf.shape(x)
        x = tf.reshape(x, (shape[0], shape[1], self.num_heads, self.key_dim))
        return tf.transpose(x, [0, 2, 1, 3])

    def call(self, inputs):
        n = tf.shape(inputs)[1]
        q = self.separate(self.q_dense(inputs))
        k = self.separate(self.k_dense(inputs))
        v = self.separate(self.v_dense(inputs))
        scores = tf.matmul(q, k, transpose_b=True) * (self.key_dim ** -0.5)
        scores = scores - 1e9 * (1.0 - self.get_causal_mask(n))
        weights = tf.nn.softmax(scores, axis=-1)
        x = tf.transpose(tf.matmul(weights, v), [0, 2, 1, 3])
        x = tf.reshape(x, (tf.shape(inputs)[0], n, self.embed_dim))
        return self.out_dense(x)


class DecoderBlock(layers.Layer):
    def __init__(self, embed_dim, ff_dim, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.attention_1 = CausalAttention(embed_dim, num_heads)
        self.attention_2 = layers.MultiHeadAttention(num_heads=num_heads, key_dim=embed_dim // num_heads)
        self.ffn = keras.Sequential([layers.Dense(ff_dim, activation="relu"), layers.Dense(embed_dim)])
        self.ln1, self.ln2, self.ln3 = (layers.LayerNormalization() for _ in range(3))

    def call(self, inputs, encoder_outputs):
        x = self.ln1(inputs + self.attention_1(inputs))
        x = self.ln2(x + self.attention_2(x, encoder_outputs))
        return self.ln3(x + self.ffn(x))


def get_cnn_model():
    base = efficientnet.EfficientNetB0(input_shape=(*IMAGE_SIZE, 3), include_top=False, weights="imagenet")
    base.trainable = False
    out = layers.Reshape((-1, base.output.shape[-1]))(base.output)
    return keras.models.Model(base.input, out)


def custom_standardization(s):
    return tf.strings.regex_replace(tf.strings.lower(s), "[%s]" % re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~1234567890"), "")


if __name__ == "__main__":
    cnn = get_cnn_model()
    captions = np.load(os.path.join("flickr8k", "captions.npy"), allow_pickle=True)
    vectorization = layers.TextVectorization(max_tokens=VOCAB_SIZE, standardize=custom_standardization)
    vectorization.adapt(captions)
