"""The model on disk: what is read is what was written, and nothing else is read."""

import json

import pytest
import torch

from utils.models import char_model, corpus, language_model, ngrams
from utils.models.language_model import LanguageModel

pytestmark = pytest.mark.slow

TEXT = corpus.Corpus("abcde" * 3, ["abc", "cde"], 1, "abcde")
SIZES = {"n_tokens": 5, "d_model": 12, "n_heads": 3, "n_layers": 2}


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    model = LanguageModel(**SIZES)
    torch.nn.init.normal_(model.unembedding.weight)
    path = tmp_path / "new" / "model.safetensors"
    char_model.save(model, TEXT, path, steps=7)
    return model, path


def test_what_is_read_is_what_was_written(saved):
    model, path = saved
    read, vocabulary = char_model.load(path)
    tokens = torch.randint(5, (2, 9))
    assert vocabulary == "abcde"
    assert not read.training
    assert torch.equal(read(tokens), model(tokens))
    assert (read(tokens) != 0).any()
    about = json.loads(path.with_suffix(".json").read_text("utf-8"))
    assert about["sizes"] == SIZES
    assert about["steps"] == 7
    assert len(about["sha256"]) == 64
    assert char_model.held_out(path) == TEXT.passages


def test_other_weights_are_refused(saved):
    _, path = saved
    spoilt = bytearray(path.read_bytes())
    spoilt[-1] ^= 1
    path.write_bytes(spoilt)
    with pytest.raises(ValueError, match=r"the file is incomplete, or of another model; `make"):
        char_model.load(path)


def test_a_file_cut_short_is_refused(saved):
    _, path = saved
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"must have SHA-256 [0-9a-f]{64}, got [0-9a-f]{64}: the"):
        char_model.load(path)


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_a_missing_file_says_what_to_do(saved, suffix):
    _, path = saved
    path.with_suffix(suffix).unlink()
    with pytest.raises(FileNotFoundError, match=rf"model\{suffix} is missing; `make train`"):
        char_model.load(path)


def test_sha256_is_that_of_the_bytes(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    assert char_model.sha256(tmp_path / "abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")  # FIPS 180-2, B.1


def small_text():
    return corpus.split("the cat sat on the mat. " * 40 + "a dog and a cat, that is that. " * 20,
                        length=129, share=0.4, gram=129)


def test_training_lowers_the_bits_and_stops_and_goes_on(tmp_path, monkeypatch):
    text, path = small_text(), tmp_path / "checkpoint"
    small = lambda n_tokens: LanguageModel(n_tokens, 12, 3, 1)  # noqa: E731
    monkeypatch.setattr(char_model, "LanguageModel", small)
    whole = char_model.train(text, 20)
    assert [entry["step"] for entry in whole.history] == [20]
    passages = corpus.rows(text.passages, text.vocabulary)
    assert whole.history[0]["bits"] == pytest.approx(language_model.bits(whole.model, passages))
    assert whole.history[0]["bits"] < 3.8  # log2 of the alphabet is 4
    monkeypatch.setattr(char_model.training, "train", stop_at(char_model.training.train, 11))
    char_model.train(text, 20, path)
    monkeypatch.undo()
    monkeypatch.setattr(char_model, "LanguageModel", small)
    resumed = char_model.train(text, 20, path)
    assert [entry["step"] for entry in resumed.history] == [11, 20]
    assert all(map(torch.equal, resumed.model.parameters(), whole.model.parameters()))


def test_the_seed_decides_where_a_run_begins(monkeypatch):
    text = small_text()
    monkeypatch.setattr(char_model.training, "train", lambda run, *_, **__: run)
    run = char_model.train(text, 2, seed=3)
    torch.manual_seed(3)
    expected = LanguageModel(len(text.vocabulary)).embedding.weight
    assert torch.equal(run.model.embedding.weight.cpu(), expected)


def test_pieces_that_repeat_themselves_are_half_of_those_asked_for(monkeypatch):
    seen = []
    monkeypatch.setattr(char_model, "next_token_loss", lambda model, pieces: seen.append(pieces))
    text, generator = torch.arange(1000), torch.Generator().manual_seed(0)
    char_model.draw_loss(torch.nn.Linear(1, 1), generator, text, 10, 129, again=0.5)
    rises = (seen[0].diff(dim=1) == 1).all(dim=1)
    assert rises.tolist() == [False] * 5 + [True] * 5
    assert (seen[0][:5, 0] == seen[0][:5].amin(dim=1)).all()


def test_a_run_learns_what_was_said_again_when_it_is_asked_to(tmp_path, monkeypatch):
    monkeypatch.setattr(char_model, "LanguageModel", lambda n: LanguageModel(n, 12, 3, 1))
    plain, again = (char_model.train(small_text(), 2, again=share) for share in (0.0, 0.5))
    assert not all(map(torch.equal, plain.model.parameters(), again.model.parameters()))


@pytest.mark.parametrize("path", [char_model.PATH, char_model.TWIN])
def test_the_trained_models_beat_all_counts_on_what_they_have_never_seen(path):
    model, vocabulary = char_model.load(path)
    about = json.loads(path.with_suffix(".json").read_text("utf-8"))
    passages = char_model.held_out(path)
    reached = language_model.bits(model, corpus.rows(passages, vocabulary))
    assert reached == pytest.approx(about["bits"], abs=1e-3)
    text = corpus.split(corpus.manual())
    if text.passages == passages:  # the manual of this Python is the one it learned
        counted = min(ngrams.NGrams(text.train, 6, vocabulary).bits(passages))
        assert reached < counted - 0.15


def stop_at(train, step):
    return lambda *args, **kwargs: train(*args, until=step, **kwargs)
