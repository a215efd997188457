"""Headline generation, utilities."""
import tensorflow as tf
import sentencepiece as spm

PAD_ID = 0


def load_tokenizer(path):
    sp = spm.SentencePieceProcessor()
    sp.Load(path)
    return sp


def pad_mask(ids):
    """(batch, length) -> (batch, 1, length), one for a word and zero for padding"""
    return tf.cast(ids != PAD_ID, tf.float32)[:, None, :]


def masked_dot_attention(query, key, value, mask=None):
    """
    query: (batch, n_q, depth)
    key, value: (batch, n_k, depth)
    mask: (batch, n_q or 1, n_k), one for a word and zero for padding
    """
    depth = tf.cast(tf.shape(key)[-1], query.dtype)
    scores = tf.einsum("bqd,bkd->bqk", query, key) * tf.math.rsqrt(depth)
    if mask is not None:
        scores += tf.cast(mask, scores.dtype)
    weights = tf.nn.softmax(scores, axis=-1)
    return tf.einsum("bqk,bkd->bqd", weights, value)


def summarize(article_states, article_ids, title_states):
    context = masked_dot_attention(title_states, article_states, article_states,
                                   pad_mask(article_ids))
    return tf.concat([title_states, context], axis=-1)


class Generator(tf.keras.Model):

    def __init__(self, vocab, units):
        super().__init__()
        self.embed = tf.keras.layers.Embedding(vocab, units)
        self.encoder = tf.keras.layers.GRU(units, return_sequences=True)
        self.decoder = tf.keras.layers.GRU(units, return_sequences=True)
        self.logits = tf.keras.layers.Dense(vocab)

    def call(self, inputs):
        article, title = inputs
        memory = self.encoder(self.embed(article))
        states = self.decoder(self.embed(title))
        return self.logits(summarize(memory, article, states))


if __name__ == "__main__":
    tok = load_tokenizer("news.model")
    model = Generator(tok.GetPieceSize(), 256)
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
