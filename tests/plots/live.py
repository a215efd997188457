"""What the tests of the live model share: the models, what Python computes, and the figure."""

import functools
import math
from contextlib import ExitStack

import numpy as np
import torch
from browser import until

from utils.models import char_model, corpus
from utils.models.head_scores import ablated, all_weights
from utils.models.language_model import LanguageModel
from utils.plots import explore

HEADS = [(layer, head) for layer in range(4) for head in range(4)]
TEXT = "print(len(items"
IDLE = """document.querySelector('[data-explore=live-model]').shadowRoot
  .querySelector('.figure').ariaBusy === 'false'"""


@functools.cache
def trained():
    """Return (model, vocabulary) of `data`, its parameters rounded to float16."""
    model, vocabulary = char_model.load()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
    return model, vocabulary


def small():
    """Return a live model of two layers with two heads and five characters."""
    torch.manual_seed(0)
    return explore.live_model(LanguageModel(5, d_model=8, n_heads=2, n_layers=2), "abc (", "a (b")


@functools.cache
def figure():
    """Return the figure of the trained model, which starts at head 3.2."""
    return explore.live_model(*trained(), TEXT, start=(3, 2))


@torch.no_grad()
def computed(text, off=()):
    """Return (logits (i, vocabulary), weights (head, i, j)) without the heads ``off``."""
    model, vocabulary = trained()
    tokens = corpus.encode(text, vocabulary)[None]
    with ExitStack() as stack:
        for layer, head in off:
            stack.enter_context(ablated(model, layer, head))
        return model(tokens)[0], all_weights(model, tokens)[:, 0].flatten(0, 1)


def chances(text, off=()):
    """Return the probability of each character of the vocabulary after a text, a dict."""
    last = computed(text, off)[0][-1].softmax(dim=-1).tolist()
    return dict(zip(trained()[1], last, strict=True))


def surprise(text, off=()):
    """Return the bits of each character of a text but the first, a list."""
    logits, tokens = computed(text, off)[0], corpus.encode(text, trained()[1])
    logs = logits[:-1].log_softmax(dim=-1)
    return (-logs.gather(1, tokens[1:, None])[:, 0] / math.log(2)).tolist()


def idle(page):
    """Wait until the figure has computed all that it was asked for."""
    until(page, IDLE)


def enter(page, text, n=0):
    """Put a text into the figure's first or second field, as a reader does who pastes."""
    page.locator("textarea").nth(n).fill(text)
    idle(page)


def listed(page, n=0):
    """Return the figure's list of next characters, [(character, all heads, now)]."""
    idle(page)
    return [(c, float(a), float(b)) for c, a, b in page.locator(".next table").nth(n).locator(
        "tbody tr").evaluate_all("rows => rows.map(row => [row.dataset.character, row.dataset.all, "
                                 "row.dataset.now])")]


def assert_listed(rows, text, off=()):
    """Compare a list of next characters with Python: eight, the likeliest first."""
    all_on, now = chances(text), chances(text, off)
    likeliest = sorted(all_on, key=lambda c: -max(all_on[c], now[c]))[:8]
    assert [c for c, _, _ in rows] == likeliest
    np.testing.assert_allclose([row[1:] for row in rows],
                               [(all_on[c], now[c]) for c in likeliest], atol=1e-5)
