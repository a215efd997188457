"""Attempts at the exercises on the decoder's mask."""

import numpy as np
import torch

from utils import masks

AHEAD = {"running_mean": False, "batch_norm": True, "over_queries": True, "counting": True,
         "jumps": "counting"}
MASKED_ROWS = {"empty": 3, "ours": "bias", "filled": "all"}


def left(lengths, n):
    words = np.arange(n) >= n - np.asarray(lengths)[:, None]
    return masks.causal(n) & words[:, None, None, :]


def flipped_padding(lengths, n):
    keep = torch.as_tensor(masks.padding(lengths, n)).flip(-1)
    return keep & torch.ones(n, n, dtype=torch.bool).tril()


def is_token(lengths, n):
    return np.arange(n) >= n - np.asarray(lengths)[:, None]


def written(read=-1, feed=lambda tokens, prompt: tokens, choose=lambda logits: logits.argmax(-1),
            more=0, only_new=False):
    """Return a program that writes; the options are mistakes."""
    def write(model, prompt, n):
        tokens = prompt
        for _ in range(n + more):
            logits = model(feed(tokens, prompt))
            tokens = torch.cat([tokens, choose(logits[:, read])[:, None]], dim=1)
        return tokens[:, prompt.shape[1]:] if only_new else tokens
    return write


def draws(logits):
    return torch.multinomial(logits.softmax(-1), 1)[:, 0]


def in_a_list(model, prompt, n):
    rows = prompt.tolist()
    for _ in range(n):
        for row, logits in zip(rows, model(torch.tensor(rows)), strict=True):
            row.append(logits[-1].argmax().item())
    return rows


def into_a_buffer(model, prompt, n):
    length = prompt.shape[1]
    tokens = torch.zeros(len(prompt), length + n, dtype=torch.long)
    tokens[:, :length] = prompt
    for place in range(length, length + n):
        tokens[:, place] = model(tokens)[:, place - 1].argmax(-1)
    return tokens


def without_prompt(model, prompt, n):
    return torch.cat([0 * prompt, written()(model, prompt, n)[:, 3:]], dim=1)


def in_place(model, prompt, n):
    prompt[:, -1] = model(prompt)[:, -1].argmax(-1)
    return prompt


def logits_too(model, prompt, n):
    return torch.cat([prompt, model(prompt)[:, -1, :n]], dim=1)


def nothing_back(model, prompt, n):
    written()(model, prompt, n)


RIGHT = {
    "who_looks_ahead": [AHEAD, AHEAD | {"running_mean": np.False_, "batch_norm": np.True_}],
    "let_it_write": [written(), in_a_list, into_a_buffer],
    "nothing_to_the_left": [MASKED_ROWS | {"keep": left}, MASKED_ROWS | {"keep": flipped_padding},
                            MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n) & is_token(
                                lengths, n)[:, None, :, None]}]}

WRONG = {
    "who_looks_ahead": [
        (AHEAD | {"running_mean": True}, "Which positions has cumsum added up"),
        (AHEAD | {"batch_norm": False, "over_queries": False},
         "by what is a weight of position 0 divided"),
        (AHEAD | {"counting": False}, "Over which axis does it count"),
        (AHEAD | {"jumps": "batch_norm"}, "A mean changes a little"),
        (AHEAD | {"jumps": None}, "Still open: jumps"),
        (AHEAD | {"running_mean": 0}, "running_mean: 0 is not correct"),
        (AHEAD | {"jumps": "d"}, "the name of one of the four functions"),
        (["d"], "a dict with the keys")],
    "let_it_write": [
        (written(read=0), "which are for token 1"),
        (written(read=-2), "that is already there"),
        (written(feed=lambda tokens, prompt: prompt), "what it has written"),
        (written(feed=lambda tokens, prompt: tokens[:, -1:]), "gets only the last token"),
        (written(feed=lambda tokens, prompt: tokens[:, -3:]), "only the last three tokens"),
        (written(choose=lambda logits: logits.argmin(-1)), "the *least* likely"),
        (written(choose=lambda logits: logits[:1].argmax(-1).expand(2)), "Example 0 decides"),
        (written(choose=draws), "do not draw"),
        (written(choose=lambda logits: logits.argmax(-1) + 1), "which of its logits you read"),
        (written(more=-1), "one token too few"),
        (written(more=1), "one token too many"),
        (written(more=3), "(2, 10), not (2, 7)"),
        (written(only_new=True), "the prompt comes first"),
        (without_prompt, "must begin with the prompt"),
        (in_place, "changes the prompt in place"),
        (logits_too, "tokens are integers"),
        (nothing_back, "is the `return` missing"),
        (lambda model, prompt: prompt, "raises TypeError")],
    "nothing_to_the_left": [
        (MASKED_ROWS | {"keep": left, "empty": 0},
         "To which positions may position 0 of example 1"),
        (MASKED_ROWS | {"keep": left, "ours": "zeros"}, "What does the decoder still add"),
        (MASKED_ROWS | {"keep": left, "filled": "words"}, "The words are later positions"),
        (MASKED_ROWS | {"keep": None}, "Still open: keep"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.decoder(lengths, n)},
         "padding on the right"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n)[:, 0]},
         "axis of heads is missing"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n).astype(int)},
         "bool, not int64"),
        (MASKED_ROWS | {"keep": lambda lengths, n: ~left(lengths, n)}, "yours is inverted"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.causal(n) | is_token(lengths, n)[
            :, None, None]}, "Here both must allow it: use &"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.causal(n) & is_token(lengths, n)[
            :, None, :, None]}, "masks rows, not columns"),
        (MASKED_ROWS | {"keep": lambda lengths, n: masks.causal(n) & (np.arange(n) >= np.asarray(
            lengths)[:, None])[:, None, None]}, "begin *earlier*"),
        (MASKED_ROWS | {"keep": lambda lengths, n: np.broadcast_to(is_token(lengths, n)[
            :, None, None], (len(lengths), 1, n, n))}, "later positions are not masked"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths - 1, n)},
         "the first token of every sequence is masked"),
        (MASKED_ROWS | {"keep": lambda lengths, n: is_token(lengths, n)[
            :, None, None] & ~masks.causal(n) | is_token(lengths, n)[:, None, None] & np.eye(
            n, dtype=bool)}, "the triangle is transposed"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(lengths, n) | np.eye(n, dtype=bool)},
         "with length 4 of 6, position 0 may not attend to position 0"),
        (MASKED_ROWS | {"keep": lambda lengths, n: left(n, lengths)}, "raises"),
        (left, "with the keys")]}
