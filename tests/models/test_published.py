"""What models keep of a token: closed forms and the numbers that their papers tell."""

import pytest

from utils.models.published import MODELS, Config, bytes_per_token, cache_bytes, outweighs

KIB = 1024


@pytest.mark.parametrize(("name", "kib"), [
    ("GPT-3 175B", 4608), ("Llama 2 7B", 512), ("Llama 2 70B", 320), ("Llama 3 8B", 128),
    ("Llama 3 405B", 504), ("Mistral 7B", 128), ("Falcon 7B", 8), ("Gemma 2 9B", 336),
    ("DeepSeek-V2", 67.5)])
def test_bytes_per_token(name, kib):
    assert bytes_per_token(MODELS[name]) == kib * KIB
    assert bytes_per_token(MODELS[name], width=1) == kib * KIB / 2


def test_a_window_stops_the_growth_of_its_layers_only():
    mistral, gemma = MODELS["Mistral 7B"], MODELS["Gemma 2 9B"]
    assert cache_bytes(mistral, 4095) == 4095 * 128 * KIB
    assert cache_bytes(mistral, 4096) == cache_bytes(mistral, 10**6) == 2**29
    assert cache_bytes(gemma, 8192) == (8192 + 4096) * 168 * KIB
    assert cache_bytes(gemma, 8192, width=4) == 2 * cache_bytes(gemma, 8192)


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_at_the_length_told_cache_and_weights_weigh_the_same(config):
    tokens, weights = outweighs(config), 2e9 * config.weights
    if tokens is None:
        assert cache_bytes(config, 10**12) < weights
    else:
        assert cache_bytes(config, tokens) == pytest.approx(weights)


def test_narrower_numbers_make_both_lighter():
    falcon = MODELS["Falcon 7B"]
    assert outweighs(falcon, width=1) == outweighs(falcon) == pytest.approx(7.2e9 / 4096)


def test_a_light_model_is_outweighed_before_its_window_is_full():
    light = Config("light", "", 0.001, 2, 4, 4, 64, 1000, 2)
    assert outweighs(light) == pytest.approx(1e6 / (2 * 2 * 4 * 64))
    assert outweighs(light) < 1000
    assert outweighs(light._replace(weights=0.1)) is None
    assert outweighs(light._replace(weights=0.1, windowed=1)) == pytest.approx(
        (1e8 - 512 * 1000) / 512)


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_the_sizes_are_possible(config):
    assert config.heads % config.kv_heads == 0
    assert (config.window is None) == (config.windowed == 0)
    assert config.windowed <= config.layers
    assert config.source.startswith("https://arxiv.org/abs/")
