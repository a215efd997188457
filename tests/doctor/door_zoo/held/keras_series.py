import keras
from keras import layers, ops


class MultiHeadSeriesAttention(layers.Layer):
    """Self-attention over the steps of a series, (batch, steps, features)."""

    def __init__(self, embed_dim, num_heads=4, **kwargs):
        super().__init__(**kwargs)
        if embed_dim % num_heads:
            raise ValueError("embed_dim is no multiple of num_heads")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = layers.Dense(embed_dim, name="q")
        self.k_proj = layers.Dense(embed_dim, name="k")
        self.v_proj = layers.Dense(embed_dim, name="v")
        self.out_proj = layers.Dense(embed_dim, name="out")

    def _heads(self, x, batch, steps):
        return ops.reshape(x, (batch, self.num_heads, steps, self.head_dim))

    def call(self, x):
        batch, steps = ops.shape(x)[0], ops.shape(x)[1]
        q = self._heads(self.q_proj(x), batch, steps)
        k = self._heads(self.k_proj(x), batch, steps)
        v = self._heads(self.v_proj(x), batch, steps)
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2)))
        weights = ops.softmax(scores / self.head_dim ** 0.5, axis=-1)
        out = ops.reshape(ops.matmul(weights, v), (batch, steps, self.embed_dim))
        return self.out_proj(out)

    def get_config(self):
        config = super().get_config()
        config.update({"embed_dim": self.embed_dim, "num_heads": self.num_heads})
        return config


def transformer_block(x, embed_dim, num_heads, ff_dim, rate=0.1):
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    y = MultiHeadSeriesAttention(embed_dim, num_heads)(y)
    x = layers.Add()([x, layers.Dropout(rate)(y)])
    y = layers.LayerNormalization(epsilon=1e-6)(x)
    y = layers.Dense(ff_dim, activation="gelu")(y)
    y = layers.Dense(embed_dim)(y)
    return layers.Add()([x, layers.Dropout(rate)(y)])


def make_model(steps, features, horizon, embed_dim=32, blocks=2):
    inputs = keras.Input((steps, features))
    x = layers.Dense(embed_dim)(inputs)
    for _ in range(blocks):
        x = transformer_block(x, embed_dim, 4, 4 * embed_dim)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(horizon)(x))


if __name__ == "__main__":
    model = make_model(96, 7, 24)
    model.compile("adam", "mse")
    model.summary()
