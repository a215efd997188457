"""The model on disk: what is read is what was written, and nothing else is read."""

import numpy as np
import pytest
import torch
from exact import raises

from utils.models import char_model, corpus, language_model, ngrams, training
from utils.models.language_model import LanguageModel
from utils.models.regrouped import regrouped

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
    assert char_model.about(path) == {"kind": "LanguageModel", "sizes": SIZES, "steps": 7,
                                      "vocabulary": "abcde", "held_out": TEXT.passages}
    assert char_model.held_out(path) == TEXT.passages
    assert list(path.parent.iterdir()) == [path]


def test_a_file_of_any_name_holds_all_of_a_model(saved, tmp_path):
    model, _ = saved
    char_model.save(model, TEXT, tmp_path / "m.json")
    assert torch.equal(char_model.load(tmp_path / "m.json")[0].embedding.weight,
                       model.embedding.weight)


def test_a_model_with_shared_keys_and_its_dtype_come_back(tmp_path):
    torch.manual_seed(0)
    model = LanguageModel(5, 24, 4, 2).double()
    for weight in model.parameters():
        torch.nn.init.normal_(weight)
    model = regrouped(model, 2, lambda heads: heads.mean(dim=1))
    char_model.save(model, TEXT, tmp_path / "model")
    read, _ = char_model.load(tmp_path / "model")
    tokens = torch.randint(5, (2, 9))
    assert torch.equal(read(tokens), model(tokens))
    assert read(tokens).dtype == torch.float64
    assert type(read.blocks[1].attention) is type(model.blocks[1].attention)
    assert char_model.about(tmp_path / "model")["sizes"]["n_kv_heads"] == 2


def test_a_loaded_model_can_be_trained_on(saved):
    model, _ = char_model.load(saved[1])
    run = training.new_run(model, language_model.optimisers(model), 2)
    training.train(run, lambda model, generator: language_model.next_token_loss(
        model, torch.randint(5, (4, 8), generator=generator)))
    assert not torch.equal(model.embedding.weight, saved[0].embedding.weight)


class Deeper(LanguageModel):
    pass


def windowed():
    model = LanguageModel(**SIZES)
    model.blocks[1].attention.window = 3
    return model


@pytest.mark.parametrize(("model", "message"), [
    (lambda: torch.nn.Linear(5, 5), "model must be a LanguageModel, got Linear"),
    (lambda: Deeper(**SIZES), "model must be a LanguageModel, got Deeper"),
    (windowed, "model cannot be saved, because load would not restore blocks.1.attention.window=3, "
               "but None"),
])
def test_a_model_that_would_come_back_as_another_is_not_saved(model, message, tmp_path):
    with raises(TypeError, message):
        char_model.save(model(), TEXT, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_facts_and_vocabulary_are_checked(tmp_path):
    model, path = LanguageModel(**SIZES), tmp_path / "model"
    with raises(ValueError, "facts must have other names than sizes, vocabulary"):
        char_model.save(model, TEXT, path, vocabulary="x", steps=1, sizes=2)
    with raises(ValueError, "the vocabulary has 4 characters, but the model has 5 tokens; was it "
                            "trained on another text?"):
        char_model.save(model, TEXT._replace(vocabulary="abcd"), path)
    with raises(TypeError, "a fact must be a number, str, list or dict, got {3}"):
        char_model.save(model, TEXT, path, steps={3})
    assert not path.exists()
    char_model.save(model, TEXT, path, bits=np.float32(0.5), loss=torch.tensor(2))
    assert [char_model.about(path)[name] for name in ("bits", "loss")] == [0.5, 2]


def test_two_parameters_in_the_same_memory_are_not_saved_as_two(tmp_path):
    model = LanguageModel(**SIZES)
    model.unembedding.weight = model.embedding.weight
    with raises(ValueError, f"the model cannot be saved to {tmp_path / 'model'}, because load "
                            "would not restore parameters that share their memory"):
        char_model.save(model, TEXT, tmp_path / "model")


def refused(path):
    with raises(ValueError, f"{path} is not a model that char_model.save wrote: it is damaged, "
                            "incomplete or another kind of file. If it is one of data/, delete it, "
                            "and `make train` writes a new one"):
        char_model.load(path)


def test_a_flipped_bit_anywhere_is_noticed(saved):
    _, path = saved
    data = path.read_bytes()
    bits = np.random.default_rng(0).choice(8 * len(data), 200, replace=False)
    for bit in (*range(64), *bits):  # the first 64 are the length of the header
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        refused(path)


def test_what_is_no_whole_file_is_refused(saved):
    _, path = saved
    data = path.read_bytes()
    for damaged in (b"", data[:5], data[:300], data[:-1], data + b"x", b"hello\n" * 99,
                    b"\2\0\0\0\0\0\0\0{}", b"\4\0\0\0\0\0\0\0null", bytes(500)):
        path.write_bytes(damaged)
        refused(path)


def test_another_kind_of_model_is_refused(saved, monkeypatch):
    model, path = saved
    monkeypatch.setattr(char_model, "KIND", "Mamba")
    char_model.save(model, TEXT, path)
    monkeypatch.undo()
    refused(path)


def test_a_missing_file_says_what_to_do(saved):
    _, path = saved
    path.unlink()
    with raises(FileNotFoundError, f"{path} does not exist; `make train`, or char_model.save, "
                                   "writes it"):
        char_model.load(path)


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
    about, passages = char_model.about(path), char_model.held_out(path)
    reached = language_model.bits(model, corpus.rows(passages, vocabulary))
    assert reached == pytest.approx(about["bits"], abs=1e-3)
    text = corpus.split(corpus.manual())
    if text.passages == passages:  # the manual of this Python is the one it learned
        counted = min(ngrams.NGrams(text.train, 6, vocabulary).bits(passages))
        assert reached < counted - 0.15


def stop_at(train, step):
    return lambda *args, **kwargs: train(*args, until=step, **kwargs)
