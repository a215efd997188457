import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float32)


def split_heads(x, num_heads):
    b, n, d = x.shape
    return x.reshape(b, n, num_heads, d // num_heads).transpose(1, 2)


def merge_heads(x):
    b, h, n, d = x.shape
    return x.transpose(1, 2).reshape(b, n, h * d)


def masked_multi_head_attention(x, Wq, Wk, Wv, Wo, num_heads):
    """
    Decoder self-attention without nn.Module.
    x: (batch, seq, d_model), all weights: (d_model, d_model), used as x @ W
    """
    Q = split_heads(x @ Wq, num_heads)
    K = split_heads(x @ Wk, num_heads)
    V = split_heads(x @ Wv, num_heads)

    scores = Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5
    seq = x.shape[1]
    mask = torch.tril(torch.ones(seq, seq), diagonal=-1).bool()
    scores = scores.masked_fill(mask.to(x.device), float('-inf'))
    attn = F.softmax(scores, dim=-1)
    return merge_heads(attn @ V) @ Wo


def feed_forward(x, W1, b1, W2, b2):
    return F.relu(x @ W1 + b1) @ W2 + b2


def decoder_layer(x, p, num_heads):
    d = x.shape[-1]
    a = masked_multi_head_attention(F.layer_norm(x, (d,)), p['Wq'], p['Wk'], p['Wv'],
                                    p['Wo'], num_heads)
    x = x + a
    return x + feed_forward(F.layer_norm(x, (d,)), p['W1'], p['b1'], p['W2'], p['b2'])


def make_layer(d, ff):
    p = {name: torch.randn(d, d) / d ** 0.5 for name in ('Wq', 'Wk', 'Wv', 'Wo')}
    p.update(W1=torch.randn(d, ff) / d ** 0.5, b1=torch.zeros(ff),
             W2=torch.randn(ff, d) / ff ** 0.5, b2=torch.zeros(d))
    for t in p.values():
        t.requires_grad_()
    return p


def train(tokens, vocab, d=64, num_heads=4, steps=100, lr=1e-2):
    emb = (torch.randn(vocab, d) * 0.1).requires_grad_()
    layers = [make_layer(d, 4 * d) for _ in range(2)]
    params = [emb] + [t for p in layers for t in p.values()]
    for i in range(steps):
        h = emb[tokens[:, :-1]]
        for p in layers:
            h = decoder_layer(h, p, num_heads)
        loss = F.cross_entropy((h @ emb.T).transpose(1, 2), tokens[:, 1:])
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for t, g in zip(params, grads):
                t -= lr * g
    return loss.item()


if __name__ == '__main__':
    print(train(torch.randint(0, 20, (8, 17)), 20))
