"""Draw the next token from a restricted distribution, and stop at an end token.

Sources: top-k, https://arxiv.org/abs/1805.04833; top-p, https://arxiv.org/abs/1904.09751. Taught in
chapter `todays_decoder`.
"""

import math

import torch

from .. import checks
from ..checks import sampling as sampling_checks
from .decoder import Decoder


def chances(logits, temperature=1.0, top_k=None, top_p=None):
    """Return the probability of each token, (…, token), 0 if unlikely.

    ``logits`` are divided by ``temperature``; with 0, only the likeliest token is left. ``top_k``
    keeps the k likeliest tokens, and those as likely as the last of them. ``top_p`` then keeps the
    fewest tokens whose probabilities add up to top_p or more. Raises ValueError or TypeError for
    values out of range.
    """
    sampling_checks.options(logits, temperature, top_k, top_p)
    if temperature == 0:
        top_k, temperature = 1, 1.0
    logits = logits / temperature
    if top_k is not None:
        kth = logits.topk(min(top_k, logits.shape[-1])).values[..., -1:]
        logits = logits.masked_fill(logits < kth, -math.inf)
    if top_p is not None and top_p < 1:  # 1 keeps all, whatever the rounding
        falling, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
        before = falling.cumsum(dim=-1) - falling  # what the likelier tokens add up to
        unlikely = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits = logits.masked_fill(unlikely, -math.inf)
    return logits.softmax(dim=-1)


@torch.no_grad()
def write(model, tokens, length, temperature=1.0, top_k=None, top_p=None, end=(), generator=None):
    """Append at most ``length`` drawn tokens, (b, i) -> (b, at most i + length).

    ``model`` is a ``LanguageModel`` or a ``Decoder``; ``temperature``, ``top_k`` and ``top_p`` as
    in ``chances``. With temperature 0, the likeliest token is taken. A sequence that has drawn one
    of the tokens ``end`` repeats it; when all have, nothing more is drawn. ``generator`` is on the
    CPU. Raises ValueError or TypeError for values out of range.
    """
    checks.count(length, "length", 0)
    ends = torch.as_tensor(sampling_checks.end(end), dtype=torch.long, device=tokens.device)
    caches, unread = model.caches(), tokens
    options = {"last_only": True} if isinstance(model, Decoder) else {}
    done = torch.zeros(len(tokens), 1, dtype=torch.bool, device=tokens.device)
    for _ in range(length):
        logits = model(unread, caches=caches, **options)[:, -1].float().cpu()
        if temperature == 0:
            sampling_checks.options(logits, temperature, top_k, top_p)
            drawn = logits.argmax(dim=-1, keepdim=True)
        else:
            drawn = torch.multinomial(chances(logits, temperature, top_k, top_p), 1,
                                      generator=generator)
        drawn = torch.where(done, tokens[:, -1:], drawn.to(tokens))  # (b, 1)
        tokens, unread = torch.cat((tokens, drawn), dim=1), drawn
        done = done | torch.isin(drawn, ends)
        if done.all():
            break
    return tokens
