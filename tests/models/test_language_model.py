"""The decoder that writes: equal to plain formulas, blind to the future, the same with a cache."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from utils import checks, reference
from utils.attention import positions
from utils.doctor.probes.leaks import leaks
from utils.models import language_model, norms
from utils.models.language_model import Block, LanguageModel, RotaryAttention

TOKENS, D_MODEL, HEADS, LAYERS = 19, 24, 3, 2


def random_model(seed=0, **sizes):
    """Return a float64 model in which no matrix is zero."""
    torch.manual_seed(seed)
    model = LanguageModel(**{"n_tokens": TOKENS, "d_model": D_MODEL, "n_heads": HEADS,
                             "n_layers": LAYERS} | sizes).double()
    for p in model.parameters():
        torch.nn.init.normal_(p, std=p.shape[-1] ** -0.5 if p.ndim == 2 else 2)
    return model


def rms(x):
    return norms.rms_norm(x, eps=torch.finfo(torch.float64).eps)


def plain_attention(layer, x, where):
    """Return what the layer should, from the reference: loops, float64, an explicit mask."""
    q, k, v = (side.detach().numpy() for side in layer.project(x))
    cos, sin = (a.numpy() for a in positions.rotary(torch.as_tensor(where).double(), q.shape[-1]))

    def turned(side):
        a, b = np.split(rms(side), 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    gain = layer.gain.detach().numpy()  # (h, 1, 1)
    keep = np.asarray(where) <= np.asarray(where)[:, None]
    context, _ = reference.attention(gain * turned(q), turned(k), v, keep)
    return reference.merge_heads(context) @ layer.W_o.weight.detach().numpy().T


@pytest.mark.parametrize("where", [range(7), range(40, 47), [3, 4, 9, 10, 11, 30, 31]])
def test_attention_equals_the_reference_with_turned_and_normalised_q_and_k(where):
    torch.manual_seed(1)
    layer = RotaryAttention(D_MODEL, HEADS).double()
    torch.nn.init.uniform_(layer.gain, 1, 3)
    x, where = torch.randn(2, 7, D_MODEL, dtype=torch.float64), list(where)
    expected = plain_attention(layer, x, where)
    assert np.abs(layer(x, torch.tensor(where)).detach().numpy() - expected).max() < 1e-12
    if where == list(range(7)):
        assert np.abs(layer(x).detach().numpy() - expected).max() < 1e-12


def test_only_distances_count():
    layer = random_model().blocks[0].attention
    x = torch.randn(2, 6, D_MODEL, dtype=torch.float64)
    gap = layer(x, torch.arange(6)) - layer(x, torch.arange(100, 106))
    assert gap.abs().max() < 1e-12


def test_a_block_adds_attention_and_then_a_squared_relu_layer():
    block = random_model().blocks[0]
    x = torch.randn(2, 5, D_MODEL, dtype=torch.float64)
    middle = x + block.attention(rms(x))
    hidden = (rms(middle) @ block.up.weight.T).clamp(min=0) ** 2
    assert torch.allclose(block(x), middle + hidden @ block.down.weight.T, atol=1e-12)


def test_a_new_block_is_the_identity_and_a_new_model_is_undecided():
    torch.manual_seed(0)
    x = torch.randn(2, 5, D_MODEL)
    assert torch.equal(Block(D_MODEL, HEADS)(x), x)
    model = LanguageModel(TOKENS, D_MODEL, HEADS, LAYERS)
    passages = torch.randint(TOKENS, (3, 9))
    assert (model(passages) == 0).all()
    assert math.isclose(language_model.bits(model, passages), math.log2(TOKENS), rel_tol=1e-6)


def test_a_model_is_embedding_blocks_and_unembedding_each_after_a_norm():
    model, tokens = random_model(), torch.randint(TOKENS, (2, 6))
    x = rms(model.embedding.weight[tokens])
    for block in model.blocks:
        x = block(x)
    assert torch.allclose(model(tokens), rms(x) @ model.unembedding.weight.T, atol=1e-12)


def test_no_place_hears_a_later_one():
    model = random_model()
    x = torch.randn(2, 7, D_MODEL, dtype=torch.float64)
    assert leaks(torch.nn.Sequential(*model.blocks), x) == []


@settings(deadline=None, max_examples=40)
@given(chunks=st.lists(st.integers(1, 4), min_size=1, max_size=5), seed=st.integers(0, 99),
       layers=st.integers(1, 3), padded=st.integers(0, 3))
def test_a_text_read_in_chunks_gives_the_logits_of_one_pass(chunks, seed, layers, padded):
    model, length = random_model(seed, n_layers=layers), sum(chunks) + padded
    tokens = torch.randint(TOKENS, (2, length))
    where = torch.stack([torch.arange(length), torch.arange(length) - padded]).clamp(min=-1)
    caches = model.caches()
    parts = [model(part, at, caches) for part, at in zip(
        tokens.split([padded, *chunks] if padded else chunks, dim=1),
        where.split([padded, *chunks] if padded else chunks, dim=1), strict=True)]
    found = torch.cat(parts, dim=1)
    assert (found[0] - model(tokens[:1])[0]).abs().max() < 1e-10
    assert (found[1, padded:] - model(tokens[1:, padded:])[0]).abs().max() < 1e-10


def test_the_loss_is_that_of_the_next_token_in_nats():
    model, tokens = random_model(), torch.randint(TOKENS, (3, 8))
    logits = model(tokens).detach().numpy()
    chances = reference.softmax(logits)
    surprise = [-math.log(chances[b, n, tokens[b, n + 1]]) for b in range(3) for n in range(7)]
    assert math.isclose(language_model.next_token_loss(model, tokens).item(), np.mean(surprise),
                        rel_tol=1e-10)
    many = torch.randint(TOKENS, (150, 5))  # more than are asked at once
    assert math.isclose(language_model.bits(model, many),
                        language_model.next_token_loss(model, many).item() / math.log(2),
                        rel_tol=1e-10)


@pytest.mark.parametrize("temperature", [0, 0.5, 1.0])
def test_cached_text_equals_uncached_text(temperature):
    model, start = random_model(), torch.randint(TOKENS, (3, 4))
    texts = [language_model.write(model, start, 12, temperature, torch.Generator().manual_seed(5),
                                  cached) for cached in (True, False)]
    assert torch.equal(*texts)
    assert texts[0].shape == (3, 16)
    assert torch.equal(texts[0][:, :4], start)


def test_temperature_0_takes_the_likeliest_and_others_draw_as_often_as_they_should():
    model, start = random_model(), torch.randint(TOKENS, (1, 4))
    logits = model(start)[0, -1].detach()
    assert language_model.write(model, start, 1, 0)[0, -1] == logits.argmax()
    for temperature in (0.7, 2.0):
        many = language_model.write(model, start.expand(20_000, -1), 1, temperature,
                                    torch.Generator().manual_seed(0))[:, -1]
        shares = torch.bincount(many, minlength=TOKENS) / 20_000
        assert (shares - (logits / temperature).softmax(dim=-1)).abs().max() < 0.012


def test_a_negative_temperature_is_refused():
    with pytest.raises(ValueError, match="temperature must be at least 0, got -1"):
        language_model.write(random_model(), torch.zeros(1, 1).long(), 1, -1)


def test_matrices_of_blocks_go_to_muon_and_all_else_to_adamw():
    model = LanguageModel(TOKENS, D_MODEL, HEADS, LAYERS)
    muon, adamw = language_model.optimisers(model, 0.03, 0.005)
    groups = {id(p): name for name, optimiser in (("muon", muon), ("adamw", adamw))
              for group in optimiser.param_groups for p in group["params"]}
    assert {name: groups[id(p)] for name, p in model.named_parameters()} == {
        name: "muon" if name.startswith("blocks") and "gain" not in name else "adamw"
        for name, _ in model.named_parameters()}
    assert isinstance(muon, torch.optim.Muon)
    assert isinstance(adamw, torch.optim.AdamW)
    assert (muon.param_groups[0]["lr"], adamw.param_groups[0]["lr"]) == (0.03, 0.005)


def test_a_new_head_is_neither_blunt_nor_sharp():
    layer = language_model.RotaryAttention(24, 3)
    q, k, _ = layer.heads_at(torch.randn(2, 5, 24), torch.arange(5))  # (b, h, i, d)
    assert torch.allclose(q.square().mean(dim=-1).sqrt(), torch.tensor(2.0), atol=1e-4)
    assert torch.allclose(k.square().mean(dim=-1), torch.tensor(1.0), atol=1e-4)


def test_under_autocast_the_logits_are_those_of_float32_within_bfloat16():
    torch.manual_seed(0)
    model = LanguageModel(7, 16, 2, 1)
    torch.nn.init.normal_(model.unembedding.weight)
    tokens = torch.randint(7, (2, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(tokens)
    assert logits.dtype == torch.bfloat16
    assert 0 < checks.difference(logits, model(tokens)) < 0.05
