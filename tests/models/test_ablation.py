"""A language model with some of its modern parts."""

import math

import pytest
import torch
from torch import nn

from utils import files
from utils.checks import check_close
from utils.models import ablation, corpus
from utils.models.language_model import LanguageModel

TOKENS = torch.randint(0, 23, (2, 7), generator=torch.Generator().manual_seed(0))


def random_model(parts):
    """Return a PartialModel in float64 without zeros."""
    torch.manual_seed(1)
    model = ablation.PartialModel(23, parts, d_model=24, n_heads=3, n_layers=2).double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)
    return model


def gradients(model):
    """Return the logits and the gradient of the embedding, for a fixed upstream gradient."""
    logits = model(TOKENS)
    logits.backward(torch.randn(logits.shape, generator=torch.Generator().manual_seed(2)).double())
    return logits.detach(), model.embedding.weight.grad


def test_with_all_parts_it_is_the_model_of_the_chapter():
    ours = random_model(ablation.PARTS)
    theirs = LanguageModel(23, d_model=24, n_heads=3, n_layers=2).double()
    theirs.load_state_dict(ours.state_dict())
    for a, b in zip(gradients(ours), gradients(theirs), strict=True):
        check_close(a, b)


class FromLibrary(nn.Module):
    """A decoder of PyTorch's own layers, (b, i) -> logits."""

    def __init__(self, ours):
        super().__init__()
        self.embedding, self.position = ours.embedding, ours.position
        self.first, self.last, self.unembedding = *ours.norms, ours.unembedding
        self.layers = nn.ModuleList()
        for block in ours.blocks:
            layer = nn.TransformerEncoderLayer(24, 3, 96, dropout=0.0, activation="gelu",
                                               batch_first=True, norm_first=True).double()
            side = block.attention
            biases = ("self_attn.in_proj_bias", "self_attn.out_proj.bias", "linear1.bias",
                      "linear2.bias")
            state = {name: torch.zeros_like(layer.get_parameter(name)) for name in biases}
            state |= {"self_attn.in_proj_weight": side.W_qkv.weight,
                      "self_attn.out_proj.weight": side.W_o.weight,
                      "linear1.weight": block.up.weight, "linear2.weight": block.down.weight}
            for n, norm in enumerate(block.norms, 1):
                state |= {f"norm{n}.{name}": p for name, p in norm.state_dict().items()}
            layer.load_state_dict(state)
            self.layers.append(layer)

    def forward(self, tokens):
        """Return the logits."""
        n = tokens.shape[1]
        x = self.first(self.embedding(tokens) + self.position.weight[:n])
        for layer in self.layers:
            x = layer(x, src_mask=torch.ones(n, n).triu(1).bool(), is_causal=True)
        return self.unembedding(self.last(x))


def test_with_no_part_it_is_a_stack_of_pytorchs_layers():
    ours = random_model(())
    logits, gradient = gradients(ours)
    ours.embedding.weight.grad = None
    for a, b in zip((logits, gradient), gradients(FromLibrary(ours)), strict=True):
        check_close(a, b)


@pytest.mark.parametrize("part", ablation.PARTS)
def test_each_part_changes_the_model_or_its_training(part):
    rest = [p for p in ablation.PARTS if p != part]
    whole, less = random_model(ablation.PARTS), random_model(rest)
    kinds = [[type(o).__name__ for o in ablation.optimisers(m)] for m in (whole, less)]
    less.load_state_dict(whole.state_dict(), strict=False)
    fresh = [ablation.PartialModel(23, p, 24, 3, 2)(TOKENS).abs().max() for p in
             (ablation.PARTS, rest)]
    assert (kinds == [["Muon", "AdamW"], ["AdamW"]]) == (part == "Muon")
    assert fresh[0] == 0
    assert (fresh[1] > 0) == (part == "zero init")
    with torch.no_grad():
        differs = (whole(TOKENS) - less(TOKENS)).abs().max() > 1e-3
    assert differs == (part not in ("zero init", "Muon"))


def test_the_optimisers_hold_each_parameter_once_and_scale_both_rates():
    for parts in ((), ("Muon",), ablation.PARTS):
        model = random_model(parts)
        groups = [g for o in ablation.optimisers(model, 0.5) for g in o.param_groups]
        held = [p for g in groups for p in g["params"]]
        assert len(held) == len(list(model.parameters())) == len({id(p) for p in held})
        assert [g["lr"] for g in groups] == ([0.01, 0.003] if "Muon" in parts else [0.003])


def test_an_unknown_part_is_named():
    with pytest.raises(ValueError, match="got rope"):
        ablation.PartialModel(23, ["rope"])


def test_a_short_training_repeats_and_learns():
    words = "the cat sat on the mat. " * 40
    text = corpus.Corpus(words, [words[:129]] * 2, 0, sorted(set(words)))
    few = {"steps": 12, "batch": 2, "sizes": {"d_model": 24, "n_heads": 3, "n_layers": 1}}
    reached = [ablation.trained_bits(text, ablation.PARTS, 1, seed, **few) for seed in (0, 0, 1)]
    assert reached[0] == reached[1] != reached[2]
    assert max(reached) < math.log2(len(text.vocabulary)) - 0.3


def test_a_run_that_diverges_is_infinite(monkeypatch):
    def diverges(*args, **options):
        raise FloatingPointError
    monkeypatch.setattr(ablation.training, "train", diverges)
    text = corpus.Corpus("ab" * 200, ["ab" * 64 + "a"], 0, ["a", "b"])
    assert ablation.trained_bits(text, (), 1, 0, steps=1) == math.inf


def test_what_is_stored_is_complete():
    found = files.read_json(ablation.PATH, "make train")
    assert set(found["bits"]) == set(found["tuning"]) == set(ablation.variants())
    assert all(len(n) == len(found["scales"]) for n in found["tuning"].values())
    assert all(len(n) == len(found["seeds"]) >= 3 for n in found["bits"].values())
    assert all(0 < n < 6.7 for row in found["bits"].values() for n in row)
