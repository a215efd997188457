import math

import keras
from keras import layers, ops

from keras_hub.api_export import keras_hub_export


def bert_kernel_initializer(stddev=0.02):
    return keras.initializers.TruncatedNormal(stddev=stddev)


@keras.saving.register_keras_serializable(package="tiny_bert")
class EncoderSelfAttention(layers.Layer):
    """Bidirectional self-attention.

    Args:
        hidden_size: width of the model.
        num_heads: number of heads.
        dropout: rate for the attention weights.
    """

    def __init__(self, hidden_size, num_heads, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.dropout_rate = dropout
        self.head_size = hidden_size // num_heads

    def build(self, input_shape):
        shape = (None, self.num_heads, self.head_size)
        kw = dict(output_shape=shape, bias_axes="nh", kernel_initializer=bert_kernel_initializer())
        self.query = layers.EinsumDense("btd,dnh->btnh", name="query", **kw)
        self.key = layers.EinsumDense("btd,dnh->btnh", name="key", **kw)
        self.value = layers.EinsumDense("btd,dnh->btnh", name="value", **kw)
        self.output_dense = layers.EinsumDense(
            "btnh,nhd->btd", output_shape=(None, self.hidden_size), bias_axes="d", name="attention_output"
        )
        for lay in (self.query, self.key, self.value):
            lay.build(input_shape)
        self.output_dense.build((*input_shape[:2], self.num_heads, self.head_size))
        self.drop = layers.Dropout(self.dropout_rate)
        self.built = True

    def call(self, hidden_states, attention_mask=None, training=False):
        q = self.query(hidden_states)
        k = self.key(hidden_states)
        v = self.value(hidden_states)
        scores = ops.einsum("bqnh,bknh->bnqk", q, k) / math.sqrt(self.head_size)
        if attention_mask is not None:
            # (batch, length): 1 for tokens, 0 for padding
            bias = (1.0 - ops.cast(attention_mask, scores.dtype)) * -1e9
            scores = scores + bias[:, None, None, :]
        probs = self.drop(ops.softmax(scores, axis=-1), training=training)
        return self.output_dense(ops.einsum("bnqk,bknh->bqnh", probs, v))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "hidden_size": self.hidden_size,
            "num_heads": self.num_heads,
            "dropout": self.dropout_rate,
        }


@keras_hub_export("tiny_bert.TinyBertBackbone")
class TinyBertBackbone(keras.Model):
    def __init__(self, vocab=30522, hidden=128, heads=2, depth=2, **kwargs):
        ids = keras.Input((None,), dtype="int32", name="token_ids")
        mask = keras.Input((None,), dtype="int32", name="padding_mask")
        x = layers.Embedding(vocab, hidden)(ids)
        for _ in range(depth):
            x = layers.LayerNormalization()(x + EncoderSelfAttention(hidden, heads)(x, mask))
        super().__init__(inputs=[ids, mask], outputs=x, **kwargs)
