"""The ladder: equal to the reference, blind to the future, and the reader's own file."""

import ast
import contextlib
import itertools
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from exact import raises
from torch import nn

from utils import masks, reference, sizes
from utils.attention import positions
from utils.checks import difference
from utils.doctor.probes.leaks import leaks
from utils.models import corpus, ladder, ladder_results
from utils.models.ladder import Attention, Block, CharacterModel, RotaryAttention, transformer

E, HEADS, TOKENS = 12, 3, 7
CAUSAL = masks.causal(5)
NAMES = ("q", "k", "v", "o")


def filled(layer, weights):
    """Return a layer of attention with the weights of ``sizes.weights``."""
    for name in NAMES:
        linear = getattr(layer, f"W_{name}")
        linear.load_state_dict({"weight": torch.as_tensor(weights[f"W_{name}"].T),
                                "bias": torch.as_tensor(weights[f"b_{name}"])})
    return layer


def random_model(n_blocks=2):
    """Return a float64 model in which every parameter is random."""
    torch.manual_seed(0)
    model = transformer(TOKENS, E, HEADS, n_blocks).double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.4)
    return model


def test_attention_is_the_reference_with_its_gradients(float64):
    weights = sizes.weights(d_in=E, d_out=E)
    layer = filled(Attention(E, HEADS), weights)
    x, grad_out = torch.randn(2, 5, E, requires_grad=True), torch.randn(2, 5, E)
    out = layer(x)
    out.backward(grad_out)
    memory = x.detach().numpy()
    expected, _ = reference.multi_head_attention(memory, memory, weights, HEADS, CAUSAL)
    grads = reference.multi_head_attention_gradient(memory, memory, weights, HEADS,
                                                    grad_out.numpy(), CAUSAL)
    assert difference(out, expected) < 1e-12
    assert difference(x.grad, grads["x"] + grads["memory"]) < 1e-12
    for name in NAMES:
        linear = getattr(layer, f"W_{name}")
        assert difference(linear.weight.grad.T, grads[f"W_{name}"]) < 1e-12
        assert difference(linear.bias.grad, grads[f"b_{name}"]) < 1e-12


def test_rotary_attention_is_the_reference_on_rotated_q_and_k(float64):
    weights = sizes.weights(d_in=E, d_out=E)
    layer, x = filled(RotaryAttention(E, HEADS), weights), torch.randn(2, 5, E)
    q, k, v = reference.project(x.numpy(), x.numpy(), weights, HEADS)
    angles = positions.rotary(torch.arange(5.0), E // HEADS)
    q, k = (positions.rotate(torch.as_tensor(side), *angles).numpy() for side in (q, k))
    context, _ = reference.attention(q, k, v, CAUSAL)
    expected = reference.merge_heads(context) @ weights["W_o"] + weights["b_o"]
    assert difference(layer(x), expected) < 1e-12


def test_only_distances_count_for_rope(float64):
    layer, x = RotaryAttention(E, HEADS), torch.randn(2, 9, E)
    out, (q, k, _) = layer(x), layer.project(x)
    layer.start = 100
    later_q, later_k, _ = layer.project(x)
    assert difference(later_q, q) > 0.1
    assert difference(later_q @ later_k.mT, q @ k.mT) < 1e-12
    assert difference(layer(x), out) < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_rotation_is_that_of_the_course(dtype):
    x, places = torch.randn(2, 3, 5, 8, dtype=dtype), torch.tensor([0, 3, 2, 40, 7], dtype=dtype)
    for base in (10_000, 500):
        ours = ladder.rotate(x, *ladder.rotary(places, 8, base))
        expected = positions.rotate(x, *positions.rotary(places, 8, base))
        assert ours.dtype == dtype
        assert difference(ours, expected) < (1e-12 if dtype == torch.float64 else 1e-4)


def library(block):
    """Return PyTorch's own layer with the parameters of a block."""
    layer = nn.TransformerEncoderLayer(E, HEADS, 4 * E, dropout=0.0, activation="gelu",
                                       batch_first=True, norm_first=True)
    part = block.attention
    packed = [torch.cat([getattr(getattr(part, f"W_{name}"), kind) for name in "qkv"])
              for kind in ("weight", "bias")]
    state = {"self_attn.in_proj_weight": packed[0], "self_attn.in_proj_bias": packed[1]}
    for ours, theirs in ((part.W_o, "self_attn.out_proj"), (block.feed_forward[0], "linear1"),
                         (block.feed_forward[2], "linear2"), (block.norm_1, "norm1"),
                         (block.norm_2, "norm2")):
        state |= {f"{theirs}.{name}": p for name, p in ours.named_parameters()}
    layer.load_state_dict(state)
    return layer


def test_a_block_is_pytorchs_own_layer_with_its_gradients(float64):
    torch.manual_seed(1)
    block = Block(Attention(E, HEADS), E)
    for p in block.parameters():
        nn.init.normal_(p, std=0.4)
    layer, grad_out, later = library(block), torch.randn(2, 5, E), torch.as_tensor(~CAUSAL)
    ours, theirs = torch.randn(2, 5, E).repeat(2, 1, 1, 1).unbind()
    ours, theirs = ours.requires_grad_(), theirs.requires_grad_()
    out, expected = block(ours), layer(theirs, src_mask=later, is_causal=True)
    out.backward(grad_out)
    expected.backward(grad_out)
    assert difference(out, expected) < 1e-12
    assert difference(ours.grad, theirs.grad) < 1e-12
    assert difference(block.feed_forward[0].weight.grad, layer.linear1.weight.grad) < 1e-12
    assert difference(block.norm_1.bias.grad, layer.norm1.bias.grad) < 1e-12
    assert difference(block.attention.W_v.weight.grad,
                      layer.self_attn.in_proj_weight.grad[2 * E:]) < 1e-12


def test_a_model_is_embedding_layers_and_unembedding(float64):
    model, tokens = random_model(), torch.randint(TOKENS, (2, 6))
    x = model.embedding.weight[tokens]
    for block in list(model.layers)[:2]:
        x = block(x)
    expected = model.layers[2](x) @ model.unembedding.weight.T + model.unembedding.bias
    assert difference(model(tokens), expected) < 1e-12
    bare = CharacterModel(TOKENS, E)
    assert difference(bare(tokens), bare.unembedding(bare.embedding(tokens))) == 0


@pytest.mark.parametrize("layer", [lambda: Attention(E, HEADS), lambda: RotaryAttention(E, HEADS),
                                   lambda: random_model().layers])
def test_no_output_depends_on_a_later_token(layer, float64):
    layer, x = layer(), torch.randn(2, 6, E)
    assert leaks(layer, x) == []
    assert difference(layer(x), layer(x.flip(1)).flip(1)) > 0.1  # and on the earlier ones it does


def test_bits_are_the_mean_surprise(float64):
    model, tokens = random_model(), torch.randint(TOKENS, (70, 6))
    chances = reference.softmax(model(tokens).detach().numpy())
    surprise = [-math.log2(chances[b, n, tokens[b, n + 1]]) for b in range(70) for n in range(5)]
    assert math.isclose(ladder.bits(model, tokens), np.mean(surprise), rel_tol=1e-12)


def test_learning_repeats_with_its_seed_and_needs_fewer_bits():
    words = torch.arange(TOKENS).repeat(60)
    histories = []
    for seed in (0, 0, 1):
        torch.manual_seed(0)
        model = transformer(TOKENS, E, HEADS, 1)
        histories.append(ladder.learn(model, words, steps=30, batch=2, seed=seed))
    assert len(histories[0]) == 30
    assert histories[0] == histories[1] != histories[2]
    assert histories[0][-1] < 1 < histories[0][0]
    assert ladder.bits(model, words[None, :129]) < 1


def test_learning_draws_the_whole_text_with_a_rate_that_falls_to_zero():
    seen, states = set(), []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.logits = nn.Parameter(torch.zeros(140))

        def forward(self, tokens):
            seen.update(tokens[:, 0].tolist())
            states.append(self.logits.detach().clone())
            assert tokens.shape == (16, 128)
            return self.logits.expand(*tokens.shape, -1)

    history = ladder.learn(Spy(), torch.arange(132), steps=20, rate=0.5)
    assert seen == {0, 1, 2, 3}
    assert history[0] == pytest.approx(math.log2(140))
    changes = [(after - before).abs().max() for before, after in itertools.pairwise(states)]
    assert changes[0] == pytest.approx(0.5, rel=1e-3)  # Adam's first step is as long as the rate
    assert changes[-1] < 0.1


def test_writing_reads_the_last_128_characters():
    read = []

    def model(tokens):
        read.append(tokens[0].tolist())
        return torch.eye(3)[(tokens + 1) % 3] * 1e4  # a, b, c, a, …

    start = "abc" * 42  # 126 characters
    assert ladder.write(model, "abc", start, 5) == start + "abcab"
    assert [len(tokens) for tokens in read] == [126, 127, 128, 128, 128]
    assert read[-1] == [(n + 2) % 3 for n in range(128)]


def test_writing_draws_from_the_model_and_repeats_with_its_seed():
    model, letters = random_model().float(), "abcdefg"
    one, again, other = (ladder.write(model, letters, "cab", 150, 1.0, seed) for seed in (4, 4, 5))
    assert one == again != other
    assert one.startswith("cab")
    assert len(one) == 153
    with torch.no_grad():
        logits = model(torch.tensor([[letters.index(c) for c in one[-129:-1]]]))[0, -1]
    cold = ladder.write(model, letters, one[:-1], 1, 1e-4)
    assert cold == one[:-1] + letters[logits.argmax()]


@pytest.mark.parametrize(("start", "unknown"), [("", "[]"), ("caxyx", "['x', 'y']")])
def test_a_start_that_cannot_be_read_is_named(start, unknown):
    with raises(ValueError, "start must hold one known character or more; unknown are " + unknown):
        ladder.write(random_model().float(), "abcdefg", start)


@pytest.fixture
def saved(tmp_path):
    model = random_model().float()
    ladder.save(model, "abc de\n", tmp_path)
    return model, tmp_path / "my_model.npz"


def test_what_is_loaded_is_what_was_saved(saved):
    model, path = saved
    read, vocabulary = ladder.load(path)
    tokens = torch.randint(TOKENS, (2, 9))
    assert vocabulary == "abc de\n"
    assert torch.equal(read(tokens), model(tokens))
    assert sorted(file.name for file in path.parent.iterdir()) == ["my_model.npz", "my_model.py"]


@pytest.mark.parametrize("layers", [[], [Attention(E, HEADS)],
                                    [Block(Attention(E, HEADS), E), nn.LayerNorm(E)],
                                    [Block(RotaryAttention(E, HEADS), E)]])
def test_a_model_that_would_come_back_as_another_is_not_saved(layers, tmp_path):
    with raises(ValueError, "load could not build this model again: transformer has other parts"):
        ladder.save(CharacterModel(TOKENS, E, *layers), "abcdefg", tmp_path)
    with raises(ValueError, "load could not build this model again: transformer has other parts"):
        ladder.save(transformer(TOKENS, E, HEADS), "abc", tmp_path)
    assert not list(tmp_path.iterdir())


def refused(path):
    with raises(ValueError, f"{path} is missing, damaged or not a model that save wrote"):
        ladder.load(path)


def test_damaged_files_are_told_in_one_sentence(saved):
    model, path = saved
    data, tokens = path.read_bytes(), torch.randint(TOKENS, (2, 9))
    for damaged in (b"", data[:100], data[:-1], b"hello\n" * 99):
        path.write_bytes(damaged)
        refused(path)
    np.savez(path, sizes=[E, HEADS, 2], vocabulary="abc")
    refused(path)
    path.write_bytes(data.replace(b"a\0\0\0b", b"b\0\0\0a"))
    refused(path)
    for place in np.random.default_rng(0).choice(len(data), 60, replace=False):
        damaged = bytearray(data)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with contextlib.suppress(ValueError):
            read, _ = ladder.load(path)  # if so, the bit says nothing, such as a date
            assert torch.equal(read(tokens), model(tokens))
    path.unlink()
    refused(path)


def test_my_model_is_a_file_of_its_own():
    tree = ast.parse(Path(ladder.__file__).read_text())
    imported = {alias.name.partition(".")[0] for node in ast.walk(tree)
                if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module.partition(".")[0] for node in ast.walk(tree)
                 if isinstance(node, ast.ImportFrom)}
    assert imported == {"math", "sys", "pathlib", "numpy", "torch"}
    assert "utils" not in Path(ladder.__file__).read_text()


def test_my_model_writes_alone(saved, tmp_path_factory):
    model, path = saved
    folder = tmp_path_factory.mktemp("alone")
    for name in ("my_model.py", "my_model.npz"):
        shutil.copy(path.with_name(name), folder)
    run = [sys.executable, "my_model.py"]
    quiet = {"cwd": folder, "capture_output": True, "text": True, "check": False,
             "env": {**os.environ, "PYTHONPATH": ""}}
    wrote = subprocess.run([*run, "bad c"], **quiet)
    assert wrote.stdout == ladder.write(model, "abc de\n", "bad c") + "\n", wrote.stderr
    (folder / "my_model.npz").write_bytes(b"no model")
    wrote = subprocess.run([*run, "bad c"], **quiet)
    assert wrote.returncode == 1
    assert wrote.stderr == (f"{folder / 'my_model.npz'} is missing, damaged or not a model that "
                            "save wrote\n")


def test_every_rung_of_the_results_needs_fewer_bits_than_the_one_before():
    found = ladder_results.load()
    assert found["rungs"] == list(ladder_results.RUNGS)
    assert {*found["bits"]} == {*ladder_results.RUNGS, *ladder_results.BESIDE}
    assert found["options"] == ladder_results.OPTIONS
    assert found["seeds"] == list(ladder_results.SEEDS) == [0, 1, 2]
    rows = [found["bits"][name] for name in found["rungs"]]
    for before, after in itertools.pairwise(rows):
        assert min(before) - max(after) > 0.05  # whatever the seeds
    assert max(rows[-1]) < found["best count"]
    for name in ladder_results.RUNGS:
        assert max(found["seconds"][name]) < (90 if name == ladder_results.BIGGEST else 20)


def test_twelve_blocks_need_fewer_bits_than_one_once_they_have_enough_steps():
    bits = ladder_results.load()["bits"]
    assert min(bits["twelve blocks"]) > max(bits["one block, 80 steps"])
    assert max(bits["twelve blocks, 600 steps"]) < min(bits["block"]) - 0.05
    assert max(bits["two blocks"]) < min(bits["one block, 1000 steps"]) - 0.05


def test_each_rung_wrote_200_characters_after_the_same_start():
    wrote = ladder_results.load()["wrote"]
    assert [*wrote] == list(ladder_results.RUNGS)
    assert all(text.startswith("The ") and len(text) == 204 for text in wrote.values())


def test_results_that_were_changed_are_refused(tmp_path):
    path = tmp_path / "ladder.json"
    ladder_results.save({"bits": {"block": [2.5, 2.25]}}, path)
    assert ladder_results.load(path) == {"bits": {"block": [2.5, 2.25]}}
    for damaged in (path.read_text().replace("2.25", "2.24"), "[1]", '{"bits": {}}'):
        path.write_text(damaged)
        with raises(ValueError, f"{path} was changed after it was written: its seal is another "
                                "one; delete it, and `make train` measures again"):
            ladder_results.load(path)


def test_the_models_beside_the_ladder_lack_what_their_names_say():
    made = {name: make(TOKENS) for name, make in ladder_results.BESIDE.items()}
    sizes = {name: (sum(isinstance(part, Block) for part in model.modules()),
                    sum(isinstance(part, nn.LayerNorm) for part in model.modules()))
             for name, model in made.items()}
    assert sizes == {
        "one head": (0, 0), "without residuals": (1, 3), "without norms": (1, 0),
        "without feed-forward": (1, 3), "residuals after norms": (1, 3),
        "one block, 80 steps": (1, 3), "one block, 1000 steps": (1, 3),
        "twelve blocks, 600 steps": (12, 25), "twelve blocks": (12, 25),
        "twelve without residuals": (12, 25), "twelve without norms": (12, 0)}
    x = torch.randn(2, 5, 64)
    whole = ladder_results.RUNGS["block"](TOKENS).layers[0]
    for name in ("without residuals", "without feed-forward", "residuals after norms"):
        made[name].layers[0].load_state_dict(whole.state_dict())
    middle = whole.attention(whole.norm_1(x))
    assert torch.equal(made["without feed-forward"].layers[0](x), x + middle)
    assert torch.equal(made["without residuals"].layers[0](x),
                       whole.feed_forward(whole.norm_2(middle)))
    late = whole.norm_2(whole.norm_1(x) + middle)
    assert torch.equal(made["residuals after norms"].layers[0](x), late + whole.feed_forward(late))
    assert made["one head"].layers[0].n_heads == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ladder_results.RUNGS)
def test_a_rung_trained_again_needs_as_many_bits(name):
    """Another processor rounds differently; over 600 steps that changes the bits a little."""
    found, text = ladder_results.load(), corpus.split(corpus.manual())
    passages = corpus.rows(text.passages, text.vocabulary)
    reached = ladder.bits(ladder_results.trained(name, text, 0), passages)
    assert reached == pytest.approx(found["bits"][name][0], abs=0.03)
