import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def linear(x, w, b):  # [m, in], [in, out], [out] -> [m, out]
    return x @ w + b


def ffn(x, c_fc, c_proj):
    return linear(gelu(linear(x, **c_fc)), **c_proj)


def attention(q, k, v, mask):  # [n_q, d], [n_k, d], [n_k, d_v], [n_q, n_k] -> [n_q, d_v]
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, c_attn, c_proj, n_head):  # [n_seq, n_embd] -> [n_seq, n_embd]
    q, k, v = np.split(linear(x, **c_attn), 3, axis=-1)
    causal_mask = (1 - np.tri(x.shape[0], dtype=x.dtype)) * -1e10
    heads = zip(*(np.split(t, n_head, axis=-1) for t in (q, k, v)))
    out = np.hstack([attention(*head, causal_mask) for head in heads])
    return linear(out, **c_proj)


def transformer_block(x, mlp, attn, ln_1, ln_2, n_head):
    x = x + mha(layer_norm(x, **ln_1), **attn, n_head=n_head)
    return x + ffn(layer_norm(x, **ln_2), **mlp)


def gpt2(inputs, wte, wpe, blocks, ln_f, n_head):
    x = wte[inputs] + wpe[:len(inputs)]
    for block in blocks:
        x = transformer_block(x, **block, n_head=n_head)
    return layer_norm(x, **ln_f) @ wte.T


def main(prompt: str, n_tokens_to_generate: int = 40, model_size: str = "124M"):
    from utils_gpt2 import load_encoder_hparams_and_params

    encoder, hparams, params = load_encoder_hparams_and_params(model_size, "models")
    ids = encoder.encode(prompt)
    for _ in range(n_tokens_to_generate):
        ids.append(int(np.argmax(gpt2(ids, **params, n_head=hparams["n_head"])[-1])))
    return encoder.decode(ids)


if __name__ == "__main__":
    import fire

    fire.Fire(main)
