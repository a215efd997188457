"""Attention of all examples and heads at once, in NumPy."""

import numpy as np

from zoo.specimen import specimen


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@specimen("kernel", framework="numpy")
def einsum_with_safe_division(q, k, v, keep):
    """Return zeros for a fully masked row."""
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    exps = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    weights = exps / np.maximum(exps.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    return np.einsum("bhij,bhjd->bhid", weights, v), weights


@specimen("kernel", framework="numpy", fully_masked="unmasked")
def scaled_on_both_sides(q, k, v, keep):
    """Share the scale between q and k, so that neither grows; add the mask."""
    quarter = q.shape[-1] ** -0.25
    scores = (q * quarter) @ (k * quarter).swapaxes(-1, -2)
    if keep is not None:
        scores = scores - 1e9 * ~keep
    weights = softmax(scores)
    return weights @ v, weights


@specimen("kernel", framework="numpy", fully_masked="average")
def powers_of_two(q, k, v, keep):
    """Use exp2, which is faster: the logarithm of e goes into the scale."""
    scores = q @ k.swapaxes(-1, -2) * (np.log2(np.e) / np.sqrt(q.shape[-1]))
    scores = scores if keep is None else np.where(keep, scores, -1e9)
    exps = np.exp2(scores - scores.max(-1, keepdims=True))
    return exps @ v / exps.sum(-1, keepdims=True)


@specimen("kernel", framework="numpy", grouped=True, fully_masked="average")
def groups_of_queries(q, k, v, keep):
    """Give every k/v head its group of query heads, without copying k and v."""
    b, h, i, d = q.shape
    groups = k.shape[1]
    q = q.reshape(b, groups, h // groups, i, d)
    scores = np.einsum("bgrid,bgjd->bgrij", q, k).reshape(b, h, i, -1) / np.sqrt(d)
    if keep is not None:
        scores = np.where(keep, scores, np.finfo(scores.dtype).min)
    weights = softmax(scores).reshape(b, groups, h // groups, i, -1)
    return np.einsum("bgrij,bgje->bgrie", weights, v).reshape(b, h, i, -1)


@specimen("kernel", fault="no scale", framework="numpy", note="q kᵀ goes into softmax as it is",
          fully_masked="average", fixed=("q, k)", "q, k) / np.sqrt(q.shape[-1])"))
def plain_dot_product(q, k, v, keep):
    """Compare queries with keys, normalise, mix the values."""
    similarity = np.einsum("bhid,bhjd->bhij", q, k)
    if keep is not None:
        similarity = np.where(keep, similarity, -1e9)
    return np.einsum("bhij,bhjd->bhid", softmax(similarity), v)


@specimen("kernel", fault="mask value too high", framework="numpy",
          note="-1 is larger than many scores", fully_masked="average", fixed=("-1.0", "-1e9"))
def minus_one_for_the_forbidden(q, k, v, keep):
    """Give the masked keys a negative score."""
    scores = q @ k.transpose(0, 1, 3, 2) / q.shape[-1] ** 0.5
    if keep is not None:
        scores = np.where(keep, scores, -1.0)
    return softmax(scores) @ v


@specimen("kernel", fault="mask after softmax", framework="numpy",
          note="the weights are not normalised again", fully_masked="zeros",
          fixed=("weights = weights * keep",
                  "weights = weights * keep\n"
                  "        total = weights.sum(-1, keepdims=True)\n"
                  "        weights = weights / np.where(total == 0, 1, total)"))
def weights_times_mask(q, k, v, keep):
    """Switch off what may not be seen: multiply its weight by zero."""
    weights = softmax(np.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5)
    if keep is not None:
        weights = weights * keep
    return np.einsum("bhqk,bhkd->bhqd", weights, v), weights


@specimen("kernel", fault="k and v swapped", framework="numpy", equal_features=True,
          note="the call has v before k", fully_masked="average", fixed=("(q, v, k)", "(q, k, v)"))
def arguments_by_position(q, k, v, keep):
    """Call the helper with query, key and value."""
    def attend(query, key, value):
        scores = query @ key.swapaxes(-2, -1) / np.sqrt(query.shape[-1])
        scores = scores if keep is None else np.where(keep, scores, -1e30)
        return softmax(scores) @ value

    return attend(q, v, k)


@specimen("kernel", fault="tile for repeat", framework="numpy", grouped=True,
          source="https://github.com/onnx/onnx/pull/7274",
          note="query head h reads k/v head h % groups", fully_masked="average",
          fixed=(("np.tile(k, (1, copies, 1, 1))", "np.repeat(k, copies, axis=1)"),
                  ("np.tile(v, (1, copies, 1, 1))", "np.repeat(v, copies, axis=1)")))
def copies_of_the_heads(q, k, v, keep):
    """Copy k and v until there are as many heads as in q."""
    copies = q.shape[1] // k.shape[1]
    k = np.tile(k, (1, copies, 1, 1))
    v = np.tile(v, (1, copies, 1, 1))
    scores = q @ np.moveaxis(k, -1, -2) / np.sqrt(q.shape[-1])
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    return softmax(scores) @ v


@specimen("kernel", fault="writes into its input", listed=False, framework="numpy",
          note="q /= … changes the caller's array: a second call gets a smaller q",
          fully_masked="average", fixed=("q /= np.sqrt", "q = q / np.sqrt"))
def scaled_in_place(q, k, v, keep):
    """Scale the queries first: they are smaller than the scores."""
    q /= np.sqrt(q.shape[-1])
    scores = np.einsum("...id,...jd->...ij", q, k)
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    return np.einsum("...ij,...jd->...id", softmax(scores), v)


@specimen("kernel", fault="the mean of the values is subtracted", listed=False, framework="numpy",
          note="v is centred over the keys", fully_masked="average",
          fixed=("v - v.mean(axis=-2, keepdims=True)", "v"))
def centred_values(q, k, v, keep):
    """Centre the values, so that no direction is preferred."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    return softmax(scores) @ (v - v.mean(axis=-2, keepdims=True))


@specimen("kernel", fault="only the three best keys count", listed=False, framework="numpy",
          note="scores below the third largest become -inf", fully_masked="average",
          fixed=("scores < third", "scores < -np.inf"))
def three_best(q, k, v, keep):
    """Keep the noise of the far keys out."""
    scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    if keep is not None:
        scores = np.where(keep, scores, -1e9)
    third = np.sort(scores, axis=-1)[..., -3, None]
    weights = softmax(np.where(scores < third, -np.inf, scores))
    return np.einsum("bhij,bhjd->bhid", weights, v)
