"""The live model computes in the browser what the model computes in Python."""

import base64
import json

import numpy as np
import pytest
import torch
from first import first
from live import HEADS, computed, trained
from safetensors.numpy import load

from utils.models import char_model, corpus
from utils.models.language_model import LanguageModel, bits
from utils.plots import _model_data, explore

ASK = """
const worker = new Worker(URL.createObjectURL(new Blob([`(${liveWorker})()`])));
const waiting = {};
worker.onmessage = ({data}) => waiting[data.id](data);
let last = 0;
window.ask = (request) => new Promise((done) => {
  waiting[++last] = done;
  worker.postMessage({...request, id: last});
});
window.bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
window.text = async (arrays) => {
  const url = await new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(new Blob(arrays));
  });
  return url.split(',')[1];
};
null;
"""
COMPUTE = """async ([tokens, off]) => {
  const found = await ask({name: 'A', tokens, off, longest: 128});
  return [await text([found.logits]), await text(found.weights)];
}"""


def worker(page):
    """Start the worker in a page, with the trained model."""
    page.evaluate((explore.TEMPLATES / "live_worker.js").read_text(encoding="utf-8") + ASK)
    data = _model_data.packed(trained()[0].state_dict(), trained()[1])
    said = page.evaluate("async (file) => (await ask({file: bytes(file)})).vocabulary.join('')",
                         base64.b64encode(data).decode())
    assert said == trained()[1]


def asked(page, text, off=()):
    """Return (logits (i, vocabulary), weights (head, i, j)) of the worker."""
    n, tokens = len(text), corpus.encode(text, trained()[1]).tolist()
    found = page.evaluate(COMPUTE, [tokens, [4 * layer + head for layer, head in off]])
    logits, rows = (np.frombuffer(base64.b64decode(part), dtype="<f4") for part in found)
    weights = np.zeros((16, n, n))
    weights[:, *np.tril_indices(n)] = rows.reshape(16, -1)
    return logits.reshape(n, -1), weights


def texts(seed, count=20):
    """Yield random texts, held-out ones, and such that begin as the text before."""
    rng, vocabulary, passages = np.random.default_rng(seed), trained()[1], char_model.held_out()
    before = ""
    for n in range(count):
        length = int(rng.integers(1, 129))
        text = ("".join(rng.choice(list(vocabulary), length)) if n % 2 else
                passages[rng.integers(len(passages))][:length])
        if n % 3 == 2:
            text = (before[:int(rng.integers(len(before) + 1))] + text)[:length]
        yield (before := text)


@pytest.mark.site
@pytest.mark.parametrize("seed", first(range(5)))
def test_logits_and_weights_are_those_of_python_with_any_heads_off(show, seed):
    rng, apart = np.random.default_rng(seed + 100), []
    with show(body="<p></p>") as page:
        worker(page)
        for text in texts(seed):
            off = [HEADS[n] for n in rng.permutation(16)[:rng.choice([0, 0, 1, 2, 16])]]
            apart.append([np.abs(ours - theirs.numpy()).max() for ours, theirs in zip(
                asked(page, text, off), computed(text, off), strict=True)])
    print(f"largest difference: logits {max(apart)[0]:.1e}, weights "
          f"{max(weights for _, weights in apart):.1e}")
    assert np.max(apart) < 1e-3


@pytest.mark.site
def test_a_new_character_costs_one_token(show):
    tokens = corpus.encode(char_model.held_out()[0][:128], trained()[1]).tolist()
    other = [*tokens[:127], (tokens[127] + 1) % 103]
    asked_for = [tokens[:n] for n in range(100, 129)] + [other, tokens[:50], tokens]
    with show(body="<p></p>") as page:
        worker(page)
        steps, seconds = page.evaluate("""async (texts) => {
          const steps = [], seconds = [];
          for (const tokens of texts) {
            const start = performance.now();
            const found = await ask({name: 'A', tokens, off: [], longest: 128});
            steps.push(found.steps);
            seconds.push(performance.now() - start);
          }
          return [steps, seconds];
        }""", asked_for)
    print(f"{np.median(seconds[1:29]):.1f} ms for a token after more than 100 others")
    assert steps == [100, *[1] * 28, 1, 0, 78]


def test_float16_costs_hardly_a_bit():
    (model, vocabulary), (rounded, _) = char_model.load(), trained()
    passages = corpus.rows(char_model.held_out()[:64], vocabulary)
    stored, ours = bits(model, passages), bits(rounded, passages)
    print(f"{stored:.5f} bits per character, with parameters in float16 {ours:.5f}")
    assert abs(ours - stored) < 1e-4


def test_the_file_holds_the_parameters_in_float16_and_what_describes_them():
    (model, vocabulary), (rounded, _) = char_model.load(), trained()
    data = _model_data.packed(model.state_dict(), vocabulary)
    assert data == _model_data.packed(rounded.state_dict(), vocabulary)
    assert 1_600_000 < len(data) < 1_700_000
    state = rounded.state_dict()
    for name, part in load(data).items():
        assert part.dtype == np.float16
        assert (part == state.pop(name).numpy()).all()
    assert not state
    head = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    assert json.loads(head["__metadata__"]["about"]) == {"vocabulary": vocabulary, "sizes": {
        "n_layers": 4, "n_heads": 4, "d_model": 128, "n_tokens": 103}}


def changed(**parts):
    """Return the state dict of a small model with other parameters."""
    torch.manual_seed(0)
    state = LanguageModel(5, d_model=8, n_heads=2, n_layers=2).state_dict()
    return state | {name.replace("__", "."): part for name, part in parts.items()}


@pytest.mark.parametrize(("make", "message"), [
    (lambda: explore.live_model(changed(), "abcd"),
     "embedding.weight must be (4, 8), got (5, 8)"),
    (lambda: explore.live_model(changed(extra=torch.zeros(3)), "abcde"),
     "extra must be None, got (3,)"),
    (lambda: explore.live_model({"weight": torch.zeros(2)}, "abcde"),
     "state must be the state dict of a LanguageModel, got the parameters weight, …"),
    (lambda: explore.live_model(changed(embedding__weight=torch.full((5, 8), 1e5)), "abcde"),
     "embedding.weight has elements that are not finite in float16"),
    (lambda: explore.live_model(changed(), "abcde", "abz"), "not in the vocabulary: 'z'"),
    (lambda: explore.live_model(changed(), "abcde", ""),
     "text must have 1 .. 128 characters, got 0"),
    (lambda: explore.live_model(changed(), "abcde", "a" * 129),
     "text must have 1 .. 128 characters, got 129"),
    (lambda: explore.live_model(changed(), "abcde", "a", start=(2, 0)),
     "start must be (layer, head), at most (1, 1), got (2, 0)"),
])
def test_what_the_figure_cannot_show_is_named(make, message):
    with pytest.raises(ValueError) as error:  # noqa: PT011, the whole message is compared
        make()
    assert str(error.value) == message
