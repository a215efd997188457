"""Sampling with temperature, top-k and top-p: as transformers restricts, and until an end token."""

import itertools

import numpy as np
import pytest
import torch
import transformers
from exact import raises
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from utils.checks import difference
from utils.models import hugging_face, language_model, sampling
from utils.models.language_model import LanguageModel

LOGITS = torch.as_tensor(np.random.default_rng(0).normal(size=(5, 17)) * 3)


def judged(logits, temperature, top_k, top_p):
    """Return the probabilities of transformers' processors, in the order of its ``generate``."""
    if temperature != 1:
        logits = TemperatureLogitsWarper(temperature)(None, logits)
    if top_k is not None:
        logits = TopKLogitsWarper(top_k)(None, logits)
    if top_p is not None:
        logits = TopPLogitsWarper(top_p)(None, logits)
    return logits.softmax(dim=-1)


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), list(
    itertools.product((1.0, 0.3, 2.5), (None, 1, 4, 17, 99), (None, 0.05, 0.6, 0.95, 1.0))))
def test_the_chances_are_those_of_transformers(temperature, top_k, top_p):
    found = sampling.chances(LOGITS, temperature, top_k, top_p)
    want = judged(LOGITS, temperature, top_k, top_p)
    assert difference(found, want) < 1e-14
    assert ((found > 0) == (want > 0)).all()


def test_the_order_is_temperature_then_top_k_then_top_p():
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    found = sampling.chances(logits, top_k=2, top_p=0.6)  # of 0.625 and 0.375
    assert difference(found, torch.tensor([1.0, 0, 0, 0])) < 1e-6
    sharp = sampling.chances(logits, temperature=0.5, top_p=0.9)  # squares: 0.685, 0.247, …
    assert difference(sharp, torch.tensor([25 / 34, 9 / 34, 0, 0])) < 1e-6


def test_tokens_as_likely_as_the_last_are_kept():
    found = sampling.chances(torch.tensor([1.0, 2.0, 1.0, 0.0]), top_k=2)
    assert (found > 0).tolist() == [True, True, True, False]


def test_temperature_zero_leaves_the_likeliest():
    found = sampling.chances(LOGITS, 0)
    assert found.tolist() == torch.nn.functional.one_hot(LOGITS.argmax(-1), 17).tolist()


def model_of(seed=0):
    torch.manual_seed(seed)
    model = LanguageModel(11, 12, 3, 2)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=1.0 if p.ndim == 2 else 2.0)
    return model


PROMPT = torch.tensor([[3, 1, 4], [1, 5, 9], [2, 6, 5]])


def test_without_restrictions_the_draws_are_those_of_the_language_model():
    model = model_of()
    for temperature in (0, 0.7):
        want = language_model.write(model, PROMPT, 9, temperature,
                                    torch.Generator().manual_seed(3))
        found = sampling.write(model, PROMPT, 9, temperature,
                               generator=torch.Generator().manual_seed(3))
        assert found.tolist() == want.tolist()


def test_only_likely_tokens_are_drawn():
    model, generator = model_of(), torch.Generator().manual_seed(0)
    seen = [sampling.write(model, PROMPT, 1, 2.0, top_k=3, generator=generator)[:, -1].tolist()
            for _ in range(60)]
    with torch.no_grad():
        best = model(PROMPT)[:, -1].topk(3).indices.tolist()
    for row, three in zip(zip(*seen, strict=True), best, strict=True):
        assert {*row} == {*three}


def test_a_sequence_that_has_ended_repeats_its_end():
    model = model_of()
    free = sampling.write(model, PROMPT, 12, 0)
    ends = [int(free[0, 5]), int(free[1, 7])]
    found = sampling.write(model, PROMPT, 12, 0, end=ends)
    for row, whole in zip(found.tolist(), free.tolist(), strict=True):
        stop = next((n for n in range(3, len(whole)) if whole[n] in ends), len(whole))
        kept = whole[:stop + 1]
        assert row == kept + [kept[-1]] * (found.shape[1] - len(kept))
    lengths = [next((n + 1 for n in range(3, 15) if whole[n] in ends), 15)
               for whole in free.tolist()]
    assert found.shape[1] == max(lengths)
    assert min(lengths) < max(lengths)


def test_writing_stops_when_all_have_ended():
    model = model_of()
    first = [int(token) for token in sampling.write(model, PROMPT, 1, 0)[:, -1]]
    assert sampling.write(model, PROMPT, 50, 0, end=first).shape == (3, 4)
    assert sampling.write(model, PROMPT, 0).tolist() == PROMPT.tolist()
    assert sampling.write(model, PROMPT[:1], 50, 0, end=first[0]).shape == (1, 4)


def test_an_end_token_in_the_prompt_ends_nothing():
    model = model_of()
    free = sampling.write(model, PROMPT, 6, 0)
    end = next(token for token in range(11) if token in PROMPT and token not in free[:, 3:])
    assert sampling.write(model, PROMPT, 6, 0, end=end).tolist() == free.tolist()


def test_greedy_text_is_that_of_generate():
    config = transformers.Qwen3Config(
        vocab_size=31, hidden_size=24, intermediate_size=40, num_hidden_layers=2, head_dim=8,
        num_attention_heads=6, num_key_value_heads=2, pad_token_id=0, attn_implementation="eager")
    torch.manual_seed(1)
    judge = transformers.Qwen3ForCausalLM(config).double().eval()
    for p in judge.parameters():
        torch.nn.init.normal_(p, std=0.5)
    tokens, ours = torch.randint(1, 31, (4, 5)), hugging_face.load(
        config.to_dict(), judge.state_dict())
    free = sampling.write(ours, tokens, 20, 0)
    end = [int(free[0, 8]), int(free[1, 11])]
    want = judge.generate(tokens, max_new_tokens=20, do_sample=False, eos_token_id=end)
    found = sampling.write(ours, tokens, 20, 0, end=end)
    ended = (torch.isin(found[:, 5:], torch.tensor(end)).cumsum(dim=1) > 1)
    found[:, 5:] = found[:, 5:].masked_fill(ended, 0)  # there, padding follows the end
    assert found.tolist() == want.tolist()
    assert ended.any()


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"temperature": -1}, ValueError, "temperature must be at least 0, got -1"),
    ({"top_k": 0}, ValueError, "top_k must be at least 1, got 0"),
    ({"top_k": 2.0}, TypeError, "top_k must be an integer, got 2.0"),
    ({"top_p": 0}, ValueError, "top_p must be greater than 0 and at most 1, because it is a share "
     "of the probability, got 0"),
    ({"top_p": 1.5}, ValueError, "top_p must be greater than 0 and at most 1, because it is a "
     "share of the probability, got 1.5"),
    ({"top_p": "0.9"}, TypeError, "top_p must be a number, got '0.9'"),
])
def test_options_out_of_range_are_refused(options, error, message):
    with raises(error, message):
        sampling.chances(LOGITS, **options)
    with raises(error, message):
        sampling.write(model_of(), PROMPT, 1, **options)


def test_an_end_must_be_a_token():
    with raises(TypeError, "end must be an integer, got 'x'"):
        sampling.write(model_of(), PROMPT, 1, end=["x"])
    with raises(TypeError, "logits must hold floating-point numbers, got int64: the results are "
                "fractions"):
        sampling.chances(PROMPT)
