"""SmolLM2-135M: its sizes, and how it is loaded, with a tiny model in the place of its files."""

import json

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models

from utils.checks import difference
from utils.models import configuration, hugging_face, small_decoder
from utils.models.decoder import Decoder


def test_its_configuration_has_134_million_parameters():
    with torch.device("meta"):
        model = Decoder(small_decoder.CONFIG)
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    assert model.plan == configuration.read(small_decoder.CONFIG)


def test_without_files_and_without_a_download_there_is_none(monkeypatch):
    import huggingface_hub

    def absent(*_, local_files_only, **__):
        assert local_files_only
        raise FileNotFoundError
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", absent)
    assert small_decoder.find() is None
    assert small_decoder.load() is None


def test_its_files_are_read(monkeypatch, tmp_path):
    import huggingface_hub
    config = {**small_decoder.CONFIG, "hidden_size": 12, "intermediate_size": 20, "vocab_size": 19,
              "num_attention_heads": 6, "num_hidden_layers": 2}
    state = {name: part.bfloat16() for name, part in hugging_face.random_state(config).items()}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(state, tmp_path / "model.safetensors")
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a")).save(str(tmp_path / "tokenizer.json"))
    asked = []

    def fetch(repository, name, **options):
        asked.append((repository, name, options["local_files_only"]))
        return str(tmp_path / name)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    model, tokenizer = small_decoder.load(download=True)
    assert asked == [(small_decoder.REPOSITORY, name, False) for name in small_decoder.FILES]
    tokens = torch.tensor([[3, 1, 4]])
    want = hugging_face.load(config, {name: part.float() for name, part in state.items()})(tokens)
    assert difference(model(tokens), want) < 1e-5
    assert tokenizer.encode("b").ids == [1]
