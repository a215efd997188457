"""PyTorch kernels by people who wanted something slightly different from softmax(q kᵀ) v."""

import math

import torch
import torch.nn.functional as F

from zoo.specimen import specimen


def scaled_scores(q, k, keep, fill=-1e9):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return scores if keep is None else scores.masked_fill(~keep, fill)


@specimen("kernel", fault="ReLU instead of exp", listed=False, fully_masked="nan",
          note="relu(scores) divided by its sum",
          fixed=("F.relu(scores)", "torch.exp(scores - scores.amax(-1, keepdim=True))"))
def relu_weights(q, k, v, keep):
    """Use ReLU, which is cheaper than exp and gives exact zeros."""
    scores = scaled_scores(q, k, keep, -torch.inf)
    weights = F.relu(scores)
    return (weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-12)) @ v


@specimen("kernel", fault="sigmoid instead of softmax", listed=False, fully_masked="average",
          note="the weights of a query do not sum to 1",
          fixed=("torch.sigmoid(scores)", "torch.softmax(scores, dim=-1)"))
def gates(q, k, v, keep):
    """Decide for every key by itself whether it is attended to."""
    scores = scaled_scores(q, k, keep)
    weights = torch.sigmoid(scores)
    return weights @ v, weights


@specimen("kernel", fault="cosine instead of dot product", listed=False, fully_masked="average",
          note="q and k are normalised to length 1 before they are compared",
          fixed=("F.normalize(q, dim=-1), F.normalize(k, dim=-1)", "q, k"))
def cosine_scores(q, k, v, keep):
    """Compare directions, not lengths."""
    q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
    return scaled_scores(q, k, keep).softmax(dim=-1) @ v


@specimen("kernel", fault="plus one in the denominator of softmax", listed=False,
          note="a query may attend to nothing: weights sum to less than 1",
          fixed=("exps.sum(dim=-1, keepdim=True) + torch.exp(-top)",
                  "exps.sum(dim=-1, keepdim=True).clamp(min=1e-300)"))
def quiet_softmax(q, k, v, keep):
    """Allow a head to say nothing."""
    scores = scaled_scores(q, k, keep, -torch.inf)
    top = scores.amax(dim=-1, keepdim=True).clamp(min=-700.0)
    exps = torch.exp(scores - top)
    weights = exps / (exps.sum(dim=-1, keepdim=True) + torch.exp(-top))
    return weights @ v, weights


@specimen("kernel", fault="a distance bias that nobody asked for", listed=False,
          note="-0.25 for each position between query and key", fully_masked="average",
          fixed=("- 0.25 * distance", ""))
def nearer_is_better(q, k, v, keep):
    """Prefer near keys a little."""
    distance = (torch.arange(q.size(-2))[:, None] - torch.arange(k.size(-2))).abs()
    scores = q @ k.mT * q.size(-1) ** -0.5 - 0.25 * distance
    if keep is not None:
        scores = torch.where(keep, scores, -1e9)
    return scores.softmax(dim=-1) @ v


@specimen("kernel", fault="the values are squashed", listed=False, fully_masked="average",
          note="tanh(v) is mixed, not v", fixed=("torch.tanh(v)", "v"))
def bounded_values(q, k, v, keep):
    """Keep the values between -1 and 1, as recurrent networks do."""
    return scaled_scores(q, k, keep).softmax(dim=-1) @ torch.tanh(v)


@specimen("kernel", fault="scores and weights rounded to half precision", listed=False,
          note="q and k are halved in precision before they are compared", fully_masked="nan",
          fixed=("q.half(), k.half()", "q, k"))
def half_on_the_way(q, k, v, keep):
    """Save memory where it is needed: in the scores."""
    weights = scaled_scores(q.half(), k.half(), keep, -torch.inf).softmax(dim=-1)
    return weights.to(v.dtype) @ v


@specimen("kernel", fault="noise on the scores", listed=False, fully_masked="average",
          note="noise meant for training is always on", fixed=("0.1 *", "0.0 *"))
def jittered(q, k, v, keep):
    """Break ties between equal keys."""
    scores = scaled_scores(q, k, keep)
    scores = scores + 0.1 * torch.randn_like(scores)
    return scores.softmax(dim=-1) @ v
