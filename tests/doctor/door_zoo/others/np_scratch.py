"""
Attention from scratch
======================
No libraries except numpy. Companion code to my blog post.
"""
import numpy as np

np.set_printoptions(precision=3, suppress=True)


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1))
    return e / np.sum(e, axis=-1)


def attention(Q, K, V):
    """Q, K, V: one row per word"""
    d_k = Q.shape[-1]
    scores = np.dot(Q, K.T) / np.sqrt(d_k)
    weights = softmax(scores)
    output = np.dot(weights, V)
    return output, weights


def one_hot(word, words):
    v = np.zeros(len(words))
    v[words.index(word)] = 1.0
    return v


def print_table(weights, words):
    width = max(len(w) for w in words) + 2
    print(" " * width + "".join(w.rjust(width) for w in words))
    for w, row in zip(words, weights):
        print(w.rjust(width) + "".join(f"{a:.2f}".rjust(width) for a in row))


if __name__ == "__main__":
    words = ["my", "cat", "sat", "there"]
    X = np.stack([one_hot(w, words) for w in words])
    rng = np.random.default_rng(0)
    Wq, Wk, Wv = rng.normal(size=(3, 4, 3))
    out, weights = attention(X @ Wq, X @ Wk, X @ Wv)
    print_table(weights, words)
    print(out)
