# Worked example: how one attention head turns words into context vectors.
import torch
import torch.nn.functional as F

d, d_q, d_v = 16, 24, 28


def tokenize(text):
    words = text.replace(",", "").split()
    index = {w: i for i, w in enumerate(sorted(words))}
    return torch.tensor([index[w] for w in words]), index


def self_attention(x, w_q, w_k, w_v):
    """x: (n, d); w_q and w_k: (d, d_q); w_v: (d, d_v)"""
    queries = x.matmul(w_q)
    keys = x.matmul(w_k)
    values = x.matmul(w_v)

    omega = queries.matmul(keys.T)
    alpha = F.softmax(omega / keys.shape[-1] ** 0.5, dim=-1)
    return alpha.matmul(values)


def head_by_hand(x, w_q, w_k, w_v, i):
    """the context vector of word i only, to compare with"""
    q_i = x[i] @ w_q
    e = torch.stack([q_i.dot(x_j @ w_k) for x_j in x])
    a = F.softmax(e / d_q ** 0.5, dim=0)
    return sum(a_j * (x_j @ w_v) for a_j, x_j in zip(a, x))


if __name__ == "__main__":
    torch.manual_seed(123)
    ids, _ = tokenize("Rain fell on the quiet town, all night")
    emb = torch.nn.Embedding(len(ids), d)
    x = emb(ids).detach()
    w_q, w_k, w_v = torch.rand(d, d_q), torch.rand(d, d_q), torch.rand(d, d_v)
    context = self_attention(x, w_q, w_k, w_v)
    print(context.shape)
    print(torch.allclose(context[1], head_by_hand(x, w_q, w_k, w_v, 1), atol=1e-5))
