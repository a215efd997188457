# Day 12 of 30: attention, one sequence at a time, no batches
import math

import torch

torch.manual_seed(42)

sentence = "the quick brown fox jumps over the lazy dog".split()
vocab = {w: i for i, w in enumerate(sorted(set(sentence)))}
D = 16


def causal_attend(q, k, v):
    """
    q, k, v: tensors of shape (seq_len, d)
    every word looks at itself and at the words before it
    """
    n, d = q.shape
    scores = q @ k.T / math.sqrt(d)
    allowed = torch.tril(torch.ones(n, n), diagonal=-1)
    scores[allowed == 0] = -1e9
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


def embed(words):
    table = torch.randn(len(vocab), D)
    ids = torch.tensor([vocab[w] for w in words])
    return table[ids]


def main():
    x = embed(sentence)
    w_q = torch.randn(D, D) / D ** 0.5
    w_k = torch.randn(D, D) / D ** 0.5
    w_v = torch.randn(D, D) / D ** 0.5
    out = causal_attend(x @ w_q, x @ w_k, x @ w_v)
    for word, vec in zip(sentence, out):
        print(f"{word:>6}  {vec[:4].tolist()}")


if __name__ == "__main__":
    main()
