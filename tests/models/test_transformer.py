"""The encoder-decoder against torch's own layers on the same weights; masks, places, writing."""

import pytest
import torch
import torch.nn.functional as F
from exact import raises
from torch import nn

from utils import checks, masks, sizes
from utils.attention.positions import sinusoidal
from utils.doctor.probes.leaks import leaks
from utils.models.transformer import (
    DecoderLayer,
    EncoderDecoder,
    EncoderLayer,
    FeedForward,
    Residual,
    translate,
)

E, HEADS, HIDDEN, N_TOKENS = sizes.D_MODEL, sizes.HEADS, 17, 11
KEEP = torch.as_tensor(masks.padding([7, 4], 7))                       # (b, 1, 1, j)
TORCH = {"self_attention.W_qkv.": "self_attn.in_proj_", "self_attention.W_o": "self_attn.out_proj",
         "cross_attention.W_qkv.": "multihead_attn.in_proj_",
         "cross_attention.W_o": "multihead_attn.out_proj",
         "feed_forward.up": "linear1", "feed_forward.down": "linear2",
         "residuals.0.norm": "norm1", "residuals.1.norm": "norm2", "residuals.2.norm": "norm3"}
each_order = pytest.mark.parametrize("norm_first", [True, False], ids=["before", "after"])


def close(got, expected):
    assert tuple(got.shape) == tuple(expected.shape)
    assert checks.difference(got, expected) <= 1e-12


def randomised(module, seed=0):
    """Return the module in float64 with no weight at its initial value, norms and biases too."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in module.double().named_parameters():
        with torch.no_grad():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=p.dtype) / p.shape[-1] ** 0.5
                    + ("norm" in name and "weight" in name))
    return module


def renamed(state):
    """Return weights under the names that torch's layers have for them."""
    for ours, theirs in TORCH.items():
        state = {name.replace(ours, theirs): w for name, w in state.items()}
    return state


def sides():
    return [torch.as_tensor(side).requires_grad_() for side in sizes.sides(d_in=E)]


def tokens(batch, n, seed=0):
    return torch.randint(N_TOKENS, (batch, n), generator=torch.Generator().manual_seed(seed))


def new_model(n_encoder=2, n_decoder=3):
    torch.manual_seed(0)
    return randomised(EncoderDecoder(N_TOKENS, E, HEADS, HIDDEN, n_encoder, n_decoder))


def clocks(n):
    return sinusoidal(torch.arange(n), E).double()


def future(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)  # torch: True = drop


# --- the parts

def test_the_feed_forward_layer_is_two_matrices_and_a_relu():
    layer, (x, _) = randomised(FeedForward(E, HIDDEN)), sides()
    hidden = x @ layer.up.weight.T + layer.up.bias
    assert (hidden > 0).any()
    assert (hidden < 0).any()
    close(layer(x), torch.where(hidden > 0, hidden, 0) @ layer.down.weight.T + layer.down.bias)


def test_the_feed_forward_layer_sees_one_place_at_a_time():
    layer, (x, _) = randomised(FeedForward(E, HIDDEN)), sides()
    for i in range(5):
        close(layer(x)[:, i], layer(x[:, i]))


def test_a_norm_stands_before_the_sublayer_or_after_the_sum():
    x, _ = sides()
    for norm_first in (True, False):
        residual = randomised(Residual(E, norm_first))

        def norm(x, ours=residual.norm):
            return F.layer_norm(x, (E,), ours.weight, ours.bias)

        want = x + norm(x).sin() if norm_first else norm(x + x.sin())
        close(residual(x, torch.sin), want)


def test_norm_first_is_what_one_gets_unasked():
    assert Residual(E).norm_first
    assert all(r.norm_first for r in EncoderLayer(E, HEADS, HIDDEN).residuals)
    assert all(r.norm_first for r in DecoderLayer(E, HEADS, HIDDEN).residuals)


# --- the layers, judged by torch's

def both(ours, theirs, norm_first):
    """Return our layer and torch's, with the same random weights."""
    ours = randomised(ours(E, HEADS, HIDDEN, norm_first))
    theirs = theirs(E, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=norm_first,
                    dtype=torch.float64)
    theirs.load_state_dict(renamed(ours.state_dict()))
    return ours, theirs


@each_order
@pytest.mark.parametrize("keep", [None, KEEP], ids=["all", "padded"])
def test_an_encoder_layer_equals_torch_s(norm_first, keep):
    ours, theirs = both(EncoderLayer, nn.TransformerEncoderLayer, norm_first)
    _, x = sides()
    drop = None if keep is None else ~keep[:, 0, 0]
    real = torch.ones(2, 7, dtype=torch.bool) if keep is None else keep[:, 0, 0]
    got, want = ours(x, keep), theirs(x, src_key_padding_mask=drop)
    close(got[real], want[real])
    same_gradients(got[real], want[real], ours, theirs, [x])


@each_order
@pytest.mark.parametrize("keep", [None, KEEP], ids=["all", "padded"])
def test_a_decoder_layer_equals_torch_s(norm_first, keep):
    ours, theirs = both(DecoderLayer, nn.TransformerDecoderLayer, norm_first)
    x, memory = sides()
    drop = None if keep is None else ~keep[:, 0, 0]
    got = ours(x, memory, keep)
    want = theirs(x, memory, tgt_mask=future(5), memory_key_padding_mask=drop)
    close(got, want)
    same_gradients(got, want, ours, theirs, [x, memory])


def same_gradients(got, want, ours, theirs, inputs):
    """Check the gradients of the inputs and of all weights, in a random direction."""
    direction = torch.randn(got.shape, dtype=got.dtype,
                            generator=torch.Generator().manual_seed(1))
    mine, torchs = (renamed(dict(ours.named_parameters())), dict(theirs.named_parameters()))
    assert mine.keys() == torchs.keys()
    for a, b in zip(torch.autograd.grad(got, [*inputs, *mine.values()], direction),
                    torch.autograd.grad(want, [*inputs, *(torchs[name] for name in mine)],
                                        direction), strict=True):
        close(a, b)


def test_a_whole_model_equals_torch_s_stacks():
    model, source, target = new_model(), tokens(2, 7), tokens(2, 5, 1)
    settings = {"d_model": E, "nhead": HEADS, "dim_feedforward": HIDDEN, "dropout": 0.0,
                "batch_first": True, "norm_first": True, "dtype": torch.float64}
    norms = [nn.LayerNorm(E, dtype=torch.float64) for _ in range(2)]
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**settings), 2, norms[0],
                                    enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**settings), 3, norms[1])
    for stack, name, norm in ((encoder, "encoder", model.norms[0]),
                              (decoder, "decoder", model.norms[1])):
        state = renamed(getattr(model, name).state_dict())
        stack.load_state_dict({f"layers.{key}": w for key, w in state.items()}
                              | {f"norm.{key}": w for key, w in norm.state_dict().items()})
    drop = ~KEEP[:, 0, 0]
    embedded = [model.embedding(side) + clocks(side.shape[1]) for side in (source, target)]
    memory = encoder(embedded[0], src_key_padding_mask=drop)
    out = decoder(embedded[1], memory, tgt_mask=future(5), memory_key_padding_mask=drop)
    close(model(source, target, KEEP), model.unembedding(out))
    close(model.encode(source, KEEP)[KEEP[:, 0, 0]], memory[KEEP[:, 0, 0]])


def test_heads_must_divide_the_model():
    with raises(ValueError, "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest "
                            "divisors: 2, 3, 4, 6"):
        EncoderDecoder(N_TOKENS, E, 5, HIDDEN, 1, 1)


# --- what the model may hear

def test_padding_of_the_source_is_not_heard():
    model, source, target = new_model(), tokens(2, 7), tokens(2, 5, 1)
    other = source.where(KEEP[:, 0, 0], (source + 1) % N_TOKENS)
    assert not torch.equal(source, other)
    assert torch.equal(model(source, target, KEEP), model(other, target, KEEP))
    assert not torch.equal(model(source, target), model(other, target))


def test_an_example_answers_as_it_does_alone_and_without_padding():
    model, source, target = new_model(), tokens(2, 7), tokens(2, 5, 1)
    close(model(source, target, KEEP)[1], model(source[1:, :4], target[1:])[0])


def test_every_word_of_the_source_is_heard_at_every_place():
    model, source, target = new_model(), tokens(2, 7), tokens(2, 5, 1)
    before = model(source, target, KEEP)
    for j in range(4):
        changed = source.clone()
        changed[:, j] = (source[:, j] + 1) % N_TOKENS
        assert (model(changed, target, KEEP) != before).any(-1).all()


def test_the_decoder_does_not_look_ahead():
    model, (x, memory) = new_model(), sides()

    def decoder(x):
        for layer in model.decoder:
            x = layer(x, memory.detach(), KEEP)
        return x

    assert leaks(decoder, x.detach()) == []


def test_places_count_on_both_sides():
    model, source, target = new_model(), tokens(1, 7), tokens(1, 5, 1)
    out = model(source, target)
    assert checks.difference(model(source.flip(1), target), out) > 1e-3
    same = torch.full((1, 5), 3)
    assert checks.difference(model.decode(same, model.encode(source))[:, 0],
                             model.decode(same, model.encode(source))[:, 4]) > 1e-3


def test_the_embedding_is_that_of_the_character_plus_the_clocks():
    model, source = new_model(), tokens(2, 7)
    close(model.embed(source), model.embedding.weight[source] + clocks(7))


def test_gradients_reach_every_weight():
    model = new_model()
    out = model(tokens(2, 7), tokens(2, 5, 1), KEEP)
    out.backward(torch.randn(out.shape, dtype=out.dtype))
    assert all(p.grad.any() for p in model.parameters())


# --- writing

def test_each_written_token_is_the_likeliest_after_those_before_it():
    model, source = new_model(), tokens(2, 7)
    written = translate(model, source, 4, 6, KEEP)
    assert written.shape == (2, 6)
    assert written.dtype == torch.int64
    start = torch.full((2, 1), 4)
    logits = model(source, torch.cat([start, written], dim=1)[:, :-1], KEEP)
    assert torch.equal(logits.argmax(-1), written)
    assert len(written.unique()) > 1


def test_writing_depends_on_start_and_mask_and_keeps_no_gradient():
    model, source = new_model(), tokens(4, 7)
    keep = masks.padding([3, 2, 7, 5], 7)
    written = translate(model, source, 4, 9, keep)
    assert not torch.equal(written, translate(model, source, 5, 9, keep))
    assert not torch.equal(written, translate(model, source, 4, 9))
    for b, length in enumerate([3, 2, 7, 5]):
        assert torch.equal(written[b:b + 1], translate(model, source[b:b + 1, :length], 4, 9))
    assert all(p.grad is None for p in model.parameters())


def test_writing_counts_its_steps_and_reads_once():
    class Counting:
        reads = 0

        def encode(self, source, keep):
            self.reads += 1
            return source

        def decode(self, written, memory, keep):  # the next number, whatever the source says
            return F.one_hot((written + 1) % 5, 5)

    model = Counting()
    assert translate(model, torch.tensor([[3], [1]]), 2, 4).tolist() == [[3, 4, 0, 1]] * 2
    assert model.reads == 1
    assert translate(model, torch.tensor([[3]]), 2, 0).shape == (1, 0)
