# CS 4782 homework 3, problem 2: attention
# Student solution
import numpy as np


def softmax(x, axis=0):
    """Numerically stable softmax."""
    x = x - np.max(x, axis=axis, keepdims=True)
    return np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)


def positional_encoding(length, depth):
    pos = np.arange(length)[:, None]
    i = np.arange(depth)[None, :]
    angle = pos / np.power(10000, (2 * (i // 2)) / depth)
    angle[:, 0::2] = np.sin(angle[:, 0::2])
    angle[:, 1::2] = np.cos(angle[:, 1::2])
    return angle


def attention_forward(Q, K, V):
    """
    Scaled dot-product attention (no mask in this problem).

    Inputs:
    - Q: queries (T, d)
    - K: keys (S, d)
    - V: values (S, m)

    Returns:
    - out: (T, m)
    - cache: what the backward pass needs
    """
    d = Q.shape[1]
    # YOUR CODE HERE
    scores = Q.dot(K.T) / np.sqrt(d)
    A = softmax(scores)
    out = A.dot(V)
    # END OF YOUR CODE
    cache = (Q, K, V, A)
    return out, cache


def affine_forward(x, w, b):
    return x.dot(w) + b, (x, w, b)


def relu_forward(x):
    return np.maximum(x, 0), x


def rel_error(a, b):
    return np.max(np.abs(a - b) / np.maximum(1e-8, np.abs(a) + np.abs(b)))


if __name__ == "__main__":
    np.random.seed(231)
    Q = np.random.randn(4, 8)
    K = np.random.randn(5, 8)
    V = np.random.randn(5, 3)
    out, _ = attention_forward(Q, K, V)
    print("out shape", out.shape)
    print("pe", positional_encoding(6, 8).round(2)[:2])
