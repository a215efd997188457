"""The judge of `let_it_write` in chapter `decoder_mask`: a model writes token by token."""

import torch

from ._judges import recognise

LETTERS, NEW = 11, 4


def model(tokens):
    """Return logits (b, i, letter): the most likely next token depends on all tokens so far."""
    tokens = torch.as_tensor(tokens)
    places = torch.arange(1, tokens.shape[1] + 1)
    following = ((places * tokens).cumsum(dim=1) + 3 * places) % LETTERS     # (b, i)
    distance = (torch.arange(LETTERS) - following[..., None]).abs()
    return -0.5 * distance.double()                                         # (b, i, letter)


def judge(write):
    """Judge write(model, prompt, n)."""
    prompt = torch.tensor([[3, 1, 4], [2, 7, 8]])                           # (b, i)
    given = prompt.clone()
    got = write(model, given, NEW)
    if not torch.equal(given, prompt):
        return "It changes the prompt in place. Make a new tensor, with torch.cat."
    if got is None:
        return "It returns None: is the `return` missing?"
    got = torch.as_tensor(got)
    if got.is_floating_point():
        return "It returns floats, and tokens are integers. argmax gives the number of a letter."
    message = recognise(got, _known(prompt))
    if message is not None:
        return message
    if got.shape != (2, 3 + NEW):
        return (f"For a prompt (2, 3) and n = {NEW} it returns {tuple(got.shape)}, not "
                f"(2, {3 + NEW}).")
    if not torch.equal(got[:, :3], prompt):
        return "The result must begin with the prompt."
    if not torch.equal(torch.as_tensor(write(model, prompt.clone(), NEW)), got):
        return "Two identical calls write different tokens: take the most likely one, do not draw."
    return ("The new tokens are wrong. Write down what the model gets in each step, and which of "
            "its logits you read.")


def _known(prompt):
    """Yield (tokens, message) of the right loop and of known mistakes."""
    right = _loop(prompt)
    yield right, ""
    yield right[:, 3:], "It returns the new tokens only: the prompt comes first."
    yield (_loop(prompt, read=0),
           "It reads the logits of position 0, which are for token 1. Which position's logits are "
           "for the token after the last one?")
    yield (_loop(prompt, read=-2),
           "It reads the logits of the last position but one, which are for the last token that is "
           "already there.")
    yield (_loop(prompt, feed=lambda tokens: prompt),
           "The model gets the same prompt in every step: it must also get what it has written.")
    yield (_loop(prompt, feed=lambda tokens: tokens[:, -1:]),
           "The model gets only the last token: without a cache it needs all of them.")
    yield (_loop(prompt, feed=lambda tokens: tokens[:, -3:]),
           "The model gets only the last three tokens: it needs all of them.")
    yield (_loop(prompt, choose=lambda logits: logits[:1].argmax(-1).expand(2)),
           "Example 0 decides for both examples.")
    yield (_loop(prompt, choose=lambda logits: logits.argmin(-1)),
           "Each new token is the *least* likely one.")
    yield (_loop(prompt, n=NEW - 1), "It writes one token too few.")
    yield (_loop(prompt, n=NEW + 1), "It writes one token too many.")


def _loop(prompt, n=NEW, read=-1, feed=lambda tokens: tokens,
          choose=lambda logits: logits.argmax(-1)):
    tokens = prompt
    for _ in range(n):
        logits = model(feed(tokens))
        following = choose(logits[:, max(read, -logits.shape[1])])          # (b,)
        tokens = torch.cat([tokens, following[:, None]], dim=1)
    return tokens
