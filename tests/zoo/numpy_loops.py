"""Attention one number, one query or one head at a time, in NumPy."""

import math

import numpy as np

from zoo.specimen import specimen


def everywhere(keep, q, k):
    """Return keep for every query and key, (b, h, i, j), all True when it is None."""
    return np.broadcast_to(True if keep is None else keep, (*q.shape[:3], k.shape[2]))


def softmax(scores):
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True)


@specimen("kernel", framework="numpy")
def number_by_number(q, k, v, keep):
    """Do what the formula says with nothing but sums and math.exp."""
    keep, context = everywhere(keep, q, k), np.zeros((*q.shape[:3], v.shape[3]))
    for b, h, i in np.ndindex(*q.shape[:3]):
        total = 0.0
        for j in range(k.shape[2]):
            if not keep[b, h, i, j]:
                continue
            dot = sum(q[b, h, i, c] * k[b, h, j, c] for c in range(q.shape[3]))
            weight = math.exp(dot / math.sqrt(q.shape[3]))
            total += weight
            for c in range(v.shape[3]):
                context[b, h, i, c] += weight * float(v[b, h, j, c])
        if total > 0:
            context[b, h, i] /= total
    return context


@specimen("kernel", framework="numpy")
def only_the_keys_it_may_see(q, k, v, keep):
    """Leave masked keys out of the sum instead of masking their scores."""
    keep, context = everywhere(keep, q, k), np.zeros((*q.shape[:3], v.shape[3]))
    for b, h, i in np.ndindex(*q.shape[:3]):
        seen = np.flatnonzero(keep[b, h, i])
        if seen.size:
            scores = k[b, h, seen] @ q[b, h, i] / np.sqrt(q.shape[3])
            context[b, h, i] = softmax(scores) @ v[b, h, seen]
    return context


@specimen("kernel", framework="numpy")
def running_maximum(q, k, v, keep):
    """Read the keys in blocks of three and rescale what was summed so far, as tiled kernels do."""
    keep = everywhere(keep, q, k)
    top = np.full((*q.shape[:3], 1), -1e300)
    total, context = np.zeros_like(top), np.zeros((*q.shape[:3], v.shape[3]))
    for j in range(0, k.shape[2], 3):
        block = slice(j, j + 3)
        scores = q @ k[:, :, block].swapaxes(2, 3) * q.shape[3] ** -0.5
        scores = np.where(keep[..., block], scores, -np.inf)
        new_top = np.maximum(top, scores.max(axis=-1, keepdims=True))
        exps, shrink = np.exp(scores - new_top), np.exp(top - new_top)
        total = total * shrink + exps.sum(axis=-1, keepdims=True)
        context = context * shrink + exps @ v[:, :, block]
        top = new_top
    return context / np.where(total > 0, total, 1.0)


@specimen("kernel", fault="constant scale", framework="numpy",
          source="https://github.com/BobMcDear/attorch/issues/14",
          note="0.5 is right for heads of four features only", fully_masked="nan",
          fixed=("0.5", "q.shape[3] ** -0.5"))
def head_by_head(q, k, v, keep):
    """Scale as in the example that was tried, where d was 4."""
    context = np.zeros((*q.shape[:3], v.shape[3]))
    for b, h in np.ndindex(*q.shape[:2]):
        scores = 0.5 * (q[b, h] @ k[b, h].T)
        scores[~everywhere(keep, q, k)[b, h]] = -np.inf
        with np.errstate(invalid="ignore"):
            context[b, h] = softmax(scores) @ v[b, h]
    return context


@specimen("kernel", fault="softmax over queries", framework="numpy", fully_masked="zeros",
          note="axis=0 of (i, j) is the queries", fixed=(("axis=0", "axis=1"),))
def sums_down_the_columns(q, k, v, keep):
    """Divide every exponential by the sum of its axis."""
    keep, context = everywhere(keep, q, k), np.zeros((*q.shape[:3], v.shape[3]))
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = np.dot(q[b, h], k[b, h].T) / np.sqrt(q.shape[-1])
            exps = np.exp(scores) * keep[b, h]
            weights = exps / np.maximum(np.sum(exps, axis=0, keepdims=True), 1e-300)
            context[b, h] = np.dot(weights, v[b, h])
    return context


@specimen("kernel", fault="window", framework="numpy",
          note="reads at most two keys to either side of the query's own position",
          fixed=("range(max(0, i - 2), min(n_k, i + 3))", "range(n_k)"))
def neighbours(q, k, v, keep):
    """Let each token attend to the tokens around it."""
    (n_b, n_h, n_q, d), n_k = q.shape, k.shape[2]
    keep, context = everywhere(keep, q, k), np.zeros((n_b, n_h, n_q, v.shape[3]))
    for b, h, i in np.ndindex(n_b, n_h, n_q):
        near = [j for j in range(max(0, i - 2), min(n_k, i + 3)) if keep[b, h, i, j]]
        if near:
            context[b, h, i] = softmax(k[b, h, near] @ q[b, h, i] / d ** 0.5) @ v[b, h, near]
    return context


@specimen("kernel", fault="the last key is never read", listed=False, framework="numpy",
          note="range(n_k - 1)", fixed=("range(n_k - 1)", "range(n_k)"))
def keys_up_to_the_last(q, k, v, keep):
    """Walk over the keys from the first to the last."""
    n_k, d = k.shape[2:]
    keep = everywhere(keep, q, k)
    total, context = np.zeros((*q.shape[:3], 1)), np.zeros((*q.shape[:3], v.shape[3]))
    for j in range(n_k - 1):
        dots = np.einsum("bhid,bhd->bhi", q, k[:, :, j]) / np.sqrt(d)
        weight = np.where(keep[..., j], np.exp(dots), 0.0)[..., None]
        total += weight
        context += weight * v[:, :, j, None]
    return np.divide(context, total, out=np.zeros_like(context), where=total > 0)


@specimen("kernel", fault="the first head is counted twice, the last one dropped", listed=False,
          framework="numpy", note="the loop starts at 1 and takes head h - 1",
          fully_masked="average", fixed=("(h - 1)", "(h)"))
def first_head_before_the_loop(q, k, v, keep):
    """Compute the first head, then all the others."""
    def head(h):
        scores = q[:, h] @ k[:, h].transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        return softmax(np.where(everywhere(keep, q, k)[:, h], scores, -1e9)) @ v[:, h]

    heads = [head(0)]
    for h in range(1, q.shape[1]):
        heads.append(head(h - 1))
    return np.stack(heads, axis=1)
