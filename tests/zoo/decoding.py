"""Causal attention of one more chunk, with what was kept of the earlier ones."""

import numpy as np
import torch
import torch.nn.functional as F

from utils import frameworks
from zoo.specimen import specimen

tf = frameworks.tensorflow()


@specimen("decoding")
def concatenated(q, k, v, cache):
    """Append the new keys and values; hang the triangle from the bottom right."""
    if cache is not None:
        k, v = (torch.cat(pair, dim=-2) for pair in zip(cache, (k, v), strict=True))
    n_q, n_k = q.size(-2), k.size(-2)
    keep = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep), (k, v)


@specimen("decoding", framework="numpy")
def written_into_a_buffer(q, k, v, cache, max_len=64):
    """Reserve room for all keys and values, write each at its position."""
    if cache is None:
        cache = {"n": 0, "k": np.zeros((*k.shape[:2], max_len, k.shape[3])),
                 "v": np.zeros((*v.shape[:2], max_len, v.shape[3]))}
    start, end = cache["n"], cache["n"] + k.shape[2]
    cache["k"][:, :, start:end], cache["v"][:, :, start:end], cache["n"] = k, v, end
    scores = q @ cache["k"].swapaxes(2, 3) / np.sqrt(q.shape[3])
    seen = np.arange(max_len) <= np.arange(start, end)[:, None]
    exps = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True)), 0.0)
    return exps / exps.sum(-1, keepdims=True) @ cache["v"], cache


@specimen("decoding", framework="tensorflow")
def list_of_chunks(q, k, v, cache):
    """Keep the chunks in lists and join them when they are needed."""
    keys, values = ([], []) if cache is None else cache
    keys, values = [*keys, k], [*values, v]
    k, v = tf.concat(keys, axis=2), tf.concat(values, axis=2)
    n_q, n_k = q.shape[2], k.shape[2]
    scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(tf.cast(q.shape[3], q.dtype))
    future = tf.range(n_k) > tf.range(n_k - n_q, n_k)[:, None]
    scores = tf.where(future, tf.cast(-1e9, q.dtype), scores)
    return tf.matmul(tf.nn.softmax(scores), v), (keys, values)


@specimen("decoding", fault="cache position",
          source="https://github.com/pytorch/pytorch/issues/103082",
          note="is_causal hangs from the top left: one new query sees the first key only",
          fixed=("is_causal=True", "attn_mask=torch.ones(q.size(2), k.size(2), "
                                    "dtype=torch.bool).tril(k.size(2) - q.size(2))"))
def is_causal_with_a_cache(q, k, v, cache):
    """Say that it is causal and leave the mask to PyTorch."""
    if cache is not None:
        k = torch.cat([cache[0], k], dim=2)
        v = torch.cat([cache[1], v], dim=2)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), (k, v)


@specimen("decoding", fault="cache position",
          note="one new query sees all, but is_causal hangs several new ones from the top left",
          fixed=("is_causal=q.size(2) > 1", "attn_mask=torch.ones(q.size(2), k.size(2), "
                                             "dtype=torch.bool).tril(k.size(2) - q.size(2))"))
def is_causal_for_several(q, k, v, cache):
    """A single new query has no future: a mask is needed only for more than one."""
    if cache is not None:
        k, v = (torch.cat(pair, dim=2) for pair in zip(cache, (k, v), strict=True))
    return F.scaled_dot_product_attention(q, k, v, is_causal=q.size(2) > 1), (k, v)


@specimen("decoding", fault="unmasked prompt",
          source="https://github.com/Mikyx-1/TinyLLM/issues/17",
          note="the triangle is left out whenever there is a cache, and there always is",
          fixed=("if past is None:", "if past is not None:"))
def mask_for_training_only(q, k, v, cache):
    """Mask in training; a new token with a cache has no later keys to mask."""
    past = {"k": k[:, :, :0], "v": v[:, :, :0]} if cache is None else cache
    k, v = torch.cat([past["k"], k], dim=2), torch.cat([past["v"], v], dim=2)
    scores = q @ k.transpose(2, 3) / q.size(-1) ** 0.5
    if past is None:
        future = torch.ones_like(scores).triu(1 + k.size(2) - q.size(2)).bool()
        scores = scores.masked_fill(future, float("-inf"))
    return scores.softmax(dim=-1) @ v, {"k": k, "v": v}


@specimen("decoding", fault="unmasked prompt", framework="numpy",
          note="the first chunk has no cache and gets no mask; later chunks get one",
          fixed=("if cache is None else np.tri", "if False else np.tri"))
def mask_begins_with_the_cache(q, k, v, cache):
    """Read the prompt in one go, mask while writing."""
    old_k, old_v = (k[:, :, :0], v[:, :, :0]) if cache is None else cache
    k, v = np.concatenate([old_k, k], axis=2), np.concatenate([old_v, v], axis=2)
    n_q, n_k = q.shape[2], k.shape[2]
    keep = np.ones((n_q, n_k), bool) \
        if cache is None else np.tri(n_q, n_k, n_k - n_q, dtype=bool)
    exps = np.exp(np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[3])) * keep
    return np.einsum("bhij,bhjd->bhid", exps / exps.sum(-1, keepdims=True), v), (k, v)


@specimen("decoding", fault="cache not appended",
          note="the cache of the prompt is given back unchanged: later chunks are forgotten",
          fixed=("(k, v) if cache is None else cache", "(k, v)"))
def cache_of_the_prompt(q, k, v, cache):
    """Make the cache from the prompt, then use it."""
    if cache is not None:
        past_k, past_v = cache
        k, v = torch.cat([past_k, k], dim=-2), torch.cat([past_v, v], dim=-2)
    hidden = torch.ones(q.size(-2), k.size(-2)).triu(k.size(-2) - q.size(-2) + 1) > 0
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5
    context = scores.masked_fill(hidden, -1e9).softmax(-1) @ v
    return context, (k, v) if cache is None else cache


@specimen("decoding", fault="cache overwritten", framework="tensorflow",
          note="gives back the new chunk alone, not all keys and values",
          fixed=("(k, v)", "(all_k, all_v)"))
def newest_chunk_kept(q, k, v, cache):
    """Give back keys and values for the next step."""
    all_k = k if cache is None else tf.concat([cache[0], k], axis=2)
    all_v = v if cache is None else tf.concat([cache[1], v], axis=2)
    n_q, n_k = q.shape[2], all_k.shape[2]
    keep = tf.linalg.band_part(tf.ones((n_q, n_k)), -1, n_k - n_q) > 0
    logits = tf.einsum("bhid,bhjd->bhij", q, all_k) / tf.sqrt(tf.cast(q.shape[3], q.dtype))
    weights = tf.nn.softmax(tf.where(keep, logits, tf.cast(-1e9, q.dtype)))
    return tf.einsum("bhij,bhjd->bhid", weights, all_v), (k, v)


@specimen("decoding", fault="cache overwritten", framework="numpy",
          note="every chunk is written to the front of the buffer; its rest stays zero",
          fixed=("[:, :, :new]", "[:, :, end - new:end]"))
def front_of_the_buffer(q, k, v, cache):
    """Write keys and values into one buffer, (2, b, h, max_len, d), read up to the end."""
    new, d = k.shape[2], k.shape[3]
    if cache is None:
        cache = (0, np.zeros((*k.shape[:2], 64, d + v.shape[3])))
    end, buffer = cache[0] + new, cache[1]
    buffer[:, :, :new] = np.concatenate([k, v], axis=-1)
    k, v = np.split(buffer[:, :, :end], [d], axis=-1)
    keep = np.arange(end) <= np.arange(end - new, end)[:, None]
    exps = np.exp(np.where(keep, q @ k.swapaxes(2, 3) / d ** 0.5, -np.inf))
    return exps @ v / exps.sum(-1, keepdims=True), (end, buffer)


@specimen("decoding", fault="keys cached, values not",
          note="the weights of earlier keys are cut off, their values are gone",
          fixed=(("    n_new =", "    v = v if cache is None else torch.cat([cache[1], v], 2)\n"
                                  "    n_new ="),
                  ("[..., -n_new:] @ v, keys", " @ v, (keys, v)"),
                  ("[cache, k]", "[cache[0], k]")))
def cached_keys(q, k, v, cache):
    """Cache the keys: they are what every new query is compared with."""
    keys = k if cache is None else torch.cat([cache, k], dim=2)
    n_new = q.size(2)
    scores = q @ keys.mT / q.size(3) ** 0.5
    future = torch.ones(n_new, keys.size(2), dtype=torch.bool).triu(keys.size(2) - n_new + 1)
    weights = scores.masked_fill(future, -torch.inf).softmax(dim=-1)
    return weights[..., -n_new:] @ v, keys


@specimen("decoding", fault="new keys are put before the old ones", listed=False,
          note="the order in the cache is not the order of the positions, as the mask assumes",
          fixed=(("[k, cache[0]]", "[cache[0], k]"), ("[v, cache[1]]", "[cache[1], v]")))
def newest_first(q, k, v, cache):
    """Join the new keys and the old."""
    if cache is not None:
        k, v = torch.cat([k, cache[0]], dim=2), torch.cat([v, cache[1]], dim=2)
    n_q, n_k = q.size(2), k.size(2)
    keep = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep), (k, v)


@specimen("decoding", fault="the cache is rounded to bfloat16", listed=False,
          note="keys and values lose digits when they are stored, not when they are new",
          fixed=("k.bfloat16(), v.bfloat16()", "k, v"))
def small_cache(q, k, v, cache):
    """Store the cache in half the memory."""
    if cache is not None:
        k = torch.cat([cache[0].to(k.dtype), k], dim=2)
        v = torch.cat([cache[1].to(v.dtype), v], dim=2)
    n_q, n_k = q.size(2), k.size(2)
    keep = torch.ones(n_q, n_k, dtype=torch.bool).tril(n_k - n_q)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep), (k.bfloat16(), v.bfloat16())
