# Sentiment of reviews, Kaggle notebook
import os
import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow.keras import backend as K
from tensorflow.keras.layers import (Layer, Dense, Embedding, LSTM, Bidirectional, Input,
                                     GlobalAveragePooling1D)
from tensorflow.keras.models import Model

MAX_LEN = 120
MAX_WORDS = 20000


class Self_Attention(Layer):

    def __init__(self, output_dim, **kwargs):
        self.output_dim = output_dim
        super(Self_Attention, self).__init__(**kwargs)

    def build(self, input_shape):
        self.kernel = self.add_weight(name='kernel',
                                      shape=(3, input_shape[2], self.output_dim),
                                      initializer='uniform',
                                      trainable=True)
        super(Self_Attention, self).build(input_shape)

    def call(self, x):
        WQ = tf.matmul(x, self.kernel[0])
        WK = tf.matmul(x, self.kernel[1])
        WV = tf.matmul(x, self.kernel[2])
        QK = tf.matmul(WQ, tf.transpose(WK, [0, 2, 1]))
        QK = tf.nn.softmax(QK)
        return tf.matmul(QK, WV)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[1], self.output_dim)


class BahdanauAttention(Layer):
    """Additive attention of one decoder state over the encoder states."""

    def __init__(self, units):
        super(BahdanauAttention, self).__init__()
        self.W1 = Dense(units)
        self.W2 = Dense(units)
        self.V = Dense(1)

    def call(self, query, values):
        hidden = tf.expand_dims(query, 1)
        score = self.V(tf.nn.tanh(self.W1(hidden) + self.W2(values)))
        attention_weights = tf.nn.softmax(score, axis=1)
        context_vector = tf.reduce_sum(attention_weights * values, axis=1)
        return context_vector, attention_weights


def build_model(units=64):
    inp = Input(shape=(MAX_LEN,))
    x = Embedding(MAX_WORDS, 100)(inp)
    x = Bidirectional(LSTM(units, return_sequences=True))(x)
    x = Self_Attention(2 * units)(x)
    x = GlobalAveragePooling1D()(x)
    out = Dense(1, activation='sigmoid')(x)
    model = Model(inp, out)
    model.compile('adam', 'binary_crossentropy', metrics=['accuracy'])
    return model


if __name__ == '__main__':
    train = pd.read_csv(os.path.join('..', 'input', 'train.csv'))
    vec = tf.keras.layers.TextVectorization(MAX_WORDS, output_sequence_length=MAX_LEN)
    vec.adapt(train['review'].values)
    model = build_model()
    model.fit(vec(train['review'].values), np.array(train['label']), epochs=3,
              validation_split=0.1)
    K.clear_session()
