"""The trained head of chapter `self_attention`: its file holds what the encoder computes."""

import json

import numpy as np
import pytest
import torch

from scripts import trained_head
from utils import reference
from utils.models import pretrained


@pytest.fixture(scope="module")
def stored():
    return json.loads(trained_head.PATH.read_text(encoding="utf-8"))


def test_the_file_holds_what_the_encoder_computes(stored):
    again = trained_head.computed()
    for name in stored:
        if name in "qk":
            np.testing.assert_allclose(stored[name], again[name], rtol=0, atol=2e-3)
        else:
            assert stored[name] == again[name]
    assert stored.keys() == again.keys()


def test_its_queries_and_keys_give_the_weights_of_the_encoder(stored):
    ids, real, tokens = pretrained.tokenise([trained_head.SENTENCE])
    with torch.no_grad():
        _, maps = pretrained.load_encoder()(ids, real)  # (b, layer, h, i, j)
    q, k = (np.array(stored[name]) for name in ("q", "k"))
    _, weights = reference.attention(q, k, k)  # of any values
    assert stored["tokens"] == tokens[0]
    np.testing.assert_allclose(
        weights, maps[0, trained_head.LAYER, trained_head.HEAD], rtol=0, atol=1e-3)
