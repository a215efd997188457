"""The decoder of the page for one hour: its file, and the same logits from transformers' GPT-2."""

import io

import numpy as np
import pytest
import torch
import transformers
from exact import raises

from utils.doctor.probes.leaks import leaks
from utils.models import corpus, ngrams, one_hour

SIZES = {"n_context": 11, "d_model": 12, "n_heads": 3, "n_layers": 2}
VOCABULARY = "abcde"


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    model = one_hour.SmallDecoder(len(VOCABULARY), **SIZES)
    for p in model.parameters():
        if p.requires_grad:
            torch.nn.init.normal_(p)
            p.data = p.data.half().float()  # what the file can hold
    one_hour.save(model, VOCABULARY, tmp_path / "model.npz")
    return model.eval(), tmp_path / "model.npz"


def test_what_is_read_is_what_was_written(saved):
    model, path = saved
    read, vocabulary = one_hour.load(path)
    tokens = torch.randint(5, (2, 9))
    assert vocabulary == VOCABULARY
    assert torch.equal(read(tokens), model(tokens))
    assert model(tokens).std() > 0.1


def test_the_arrays_need_no_pickles_and_no_names_of_pytorch(saved):
    with np.load(saved[1], allow_pickle=False) as file:
        shapes = {name: file[name].shape for name in file}
    assert shapes == {
        "embedding": (5, 12), "positions": (11, 12), "W_q": (2, 12, 12), "W_k": (2, 12, 12),
        "W_v": (2, 12, 12), "W_o": (2, 12, 12), "W_up": (2, 12, 48), "W_down": (2, 48, 12),
        "characters": (5,), "n_heads": (), "sha256": ()}


@pytest.mark.parametrize("damage", ["a weight", "a name", "cut", "another file", "a missing array"])
def test_a_damaged_file_is_refused_in_one_sentence(saved, damage):
    path = saved[1]
    with np.load(path) as file:
        arrays = dict(file)
    if damage == "a weight":
        arrays["W_q"][1, 2, 3] += 1
    if damage == "a name":
        arrays["W_q"], arrays["W_k"] = arrays["W_k"], arrays["W_q"]
    if damage == "a missing array":
        del arrays["positions"]
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = {"cut": buffer.getvalue()[:-100], "another file": b"{}"}.get(damage, buffer.getvalue())
    path.write_bytes(data)
    with raises(ValueError, f"{path} is not a model that one_hour.save wrote: it is damaged, "
                "incomplete or another kind of file. Delete it, and `make train` writes a new one"):
        one_hour.load(path)


def test_a_missing_file_is_named(tmp_path):
    with raises(FileNotFoundError, f"{tmp_path / 'no.npz'} does not exist; `make train` writes it"):
        one_hour.load(tmp_path / "no.npz")


def test_no_logit_depends_on_a_later_character(saved):
    model = saved[0].double()
    x = torch.randn(2, 9, 12).double()
    ahead = torch.nn.Transformer.generate_square_subsequent_mask(9, dtype=torch.float64)
    assert leaks(lambda x: model.blocks(x, mask=ahead, is_causal=True), x) == []
    assert leaks(lambda x: model.blocks(x), x)


def gpt2(model, vocabulary):
    """Return GPT-2 of transformers with the weights of a SmallDecoder, biases 0, gains 1."""
    layers = model.blocks.layers
    n_context, d_model = model.positions.weight.shape
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=len(vocabulary), n_positions=n_context, n_embd=d_model, n_layer=len(layers),
        n_head=layers[0].self_attn.num_heads, activation_function="relu")).eval()
    with torch.no_grad():
        for name, p in theirs.named_parameters():
            p.fill_(float("ln_" in name and name.endswith("weight")))
        theirs.transformer.wte.weight.copy_(model.embedding.weight)
        theirs.transformer.wpe.weight.copy_(model.positions.weight)
        for ours, block in zip(layers, theirs.transformer.h, strict=True):
            block.attn.c_attn.weight.copy_(ours.self_attn.in_proj_weight.mT)
            block.attn.c_proj.weight.copy_(ours.self_attn.out_proj.weight.mT)
            block.mlp.c_fc.weight.copy_(ours.linear1.weight.mT)
            block.mlp.c_proj.weight.copy_(ours.linear2.weight.mT)
    return theirs


def test_gpt2_of_transformers_gives_the_same_logits():
    model, vocabulary = one_hour.load()
    tokens = corpus.encode("the dog found the ball and it barked", vocabulary)[None]
    with torch.no_grad():
        ours, theirs = model(tokens), gpt2(model, vocabulary)(tokens).logits
    assert (ours - theirs).abs().max() < 1e-4 < ours.std()


def test_the_file_is_small_and_the_model_better_than_counting():
    assert one_hour.PATH.stat().st_size < 2_000_000
    model, vocabulary = one_hour.load()
    text = corpus.split(corpus.manual())
    counted = ngrams.NGrams(text.train, 5, text.vocabulary).bits(text.passages)
    known = [p for p in text.passages if not set(p) - set(vocabulary)]
    assert one_hour.bits(model, corpus.rows(known, vocabulary)) < min(counted) - 0.1


@pytest.mark.slow
def test_training_lowers_the_bits_and_goes_on_where_it_was(tmp_path):
    text = corpus.split(corpus.manual())
    whole = one_hour.train(text, 4, batch=3)
    assert whole.history[-1]["bits"] < 6.6
    again = one_hour.train(text, 4, path=tmp_path / "run", batch=3)
    assert torch.equal(whole.model.embedding.weight, again.model.embedding.weight)
    assert one_hour.train(text, 4, path=tmp_path / "run", batch=3).step == 4
