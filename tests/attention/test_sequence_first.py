"""The programs of chapter `sequence_first`: (seq, batch, …), scores (i, j, b, h)."""

import numpy as np
import pytest
import torch
from exact import raises
from hypothesis import given, strategies as st

from utils import checks, masks, reference, sizes
from utils.attention.positions import alibi_bias
from utils.attention.sequence_first import (
    AlibiMultiHeadAttention,
    MultiHeadAttention,
    PrepareForMultiHeadAttention,
    masked_softmax,
)

BATCH, N_Q, N_K, HEADS, D_MODEL = sizes.BATCH, sizes.N_Q, sizes.N_K, sizes.HEADS, sizes.D_MODEL
WEIGHTS = sizes.weights(1, d_in=D_MODEL, d_out=D_MODEL)
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
FREE = np.random.default_rng(5).random((BATCH, 1, N_Q, N_K)) < 0.6
FREE[..., 0] = True
KEEPS = {  # as `keep`, one for all heads
    "none": None,
    "padding": masks.padding([4, N_K], N_K),                                   # (b, 1, 1, j)
    "causal": masks.causal(N_Q, N_K, align="bottom_right")[None, None],        # (1, 1, i, j)
    "both": masks.causal(N_Q, N_K, align="bottom_right") & masks.padding([4, N_K], N_K),
    "free": FREE,
}


def to_mask(keep):
    """Return keep (1 or b, 1, 1 or i, j) in the seed's layout, (1 or i, j, 1 or b)."""
    return None if keep is None else keep[:, 0].transpose(1, 2, 0)


def program(cls=MultiHeadAttention, dtype=torch.float64, weights=WEIGHTS, heads=HEADS, **options):
    """Return a module with the weights of ``sizes.weights``, and its parameters by house names."""
    module = cls(heads, len(weights["W_q"]), dropout_prob=0.0, **options).to(dtype)
    linears = dict(zip("qkvo", (module.query.linear, module.key.linear, module.value.linear,
                                module.output), strict=True))
    for name, linear in linears.items():
        linear.weight.data = torch.as_tensor(weights[f"W_{name}"].T.copy()).to(dtype)
        if linear.bias is not None:
            linear.bias.data = torch.as_tensor(weights[f"b_{name}"]).to(dtype)
    return module, linears


def sequence(array, dtype=torch.float64):
    """Return (b, seq, e) as a leaf (seq, b, e)."""
    array = array.swapaxes(0, 1).copy()
    return torch.as_tensor(array).to(dtype).requires_grad_()


def close(got, expected, tolerance=1e-12):
    assert tuple(got.shape) == tuple(expected.shape)
    assert checks.difference(got, expected) <= tolerance


def run(keep, dtype=torch.float64, x=None, memory=None, weights=WEIGHTS, heads=HEADS):
    """Return the module, its parts, x, memory and out of one call on the teaching sizes."""
    sides = sizes.sides(2, d_in=D_MODEL)
    x, memory = (side if given is None else given
                 for side, given in zip(sides, (x, memory), strict=True))
    module, linears = program(dtype=dtype, weights=weights, heads=heads)
    x, memory = sequence(x, dtype), sequence(memory, dtype)
    out = module(query=x, key=memory, value=memory, mask=to_mask(keep))
    return module, linears, x, memory, out


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
def test_output_and_weights_equal_the_reference(keep, dtype):
    module, _, x, memory, out = run(keep, dtype)
    arrays = [side.detach().numpy().swapaxes(0, 1) for side in (x, memory)]
    expected, weights = reference.multi_head_attention(*arrays, WEIGHTS, HEADS, keep)
    assert out.dtype == module.attn.dtype == dtype
    close(out, expected.swapaxes(0, 1), TOLERANCE[dtype])
    close(module.attn, weights.transpose(2, 3, 0, 1), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("keep", KEEPS.values(), ids=KEEPS)
def test_gradients_of_inputs_and_weights_equal_the_reference_gradient(keep, dtype):
    _, linears, x, memory, out = run(keep, dtype)
    direction = np.random.default_rng(3).standard_normal((BATCH, N_Q, D_MODEL))
    (out * sequence(direction, dtype)).sum().backward()
    arrays = [side.detach().numpy().swapaxes(0, 1) for side in (x, memory)]
    grads = reference.multi_head_attention_gradient(*arrays, WEIGHTS, HEADS, direction, keep)
    for side, name in ((x, "x"), (memory, "memory")):
        close(side.grad, grads[name].swapaxes(0, 1), TOLERANCE[dtype])
    for name, linear in linears.items():
        close(linear.weight.grad, grads[f"W_{name}"].T, TOLERANCE[dtype])
        close(linear.bias.grad, grads[f"b_{name}"], TOLERANCE[dtype])


@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 2, 3, 6]),
       st.integers(0, 999))
def test_any_sizes_and_any_mask_equal_the_reference(batch, n_q, n_k, heads, seed):
    rng = np.random.default_rng(seed)
    x, memory = sizes.sides(seed, batch=batch, n_q=n_q, n_k=n_k, d_in=6)
    weights = sizes.weights(seed, d_in=6, d_model=6, d_out=6)
    shape = rng.choice([1, batch]), 1, rng.choice([1, n_q]), n_k
    keep = rng.random(shape) < 0.7  # some rows are empty
    module, _, _, _, out = run(keep, x=x, memory=memory, weights=weights, heads=heads)
    expected, attn = reference.multi_head_attention(x, memory, weights, heads, keep)
    close(out, expected.swapaxes(0, 1))
    close(module.attn, attn.transpose(2, 3, 0, 1))


def test_key_and_value_may_come_from_different_places():
    x, memory = sizes.sides(2, d_in=D_MODEL)
    other = sizes.sides(9, d_in=D_MODEL)[1]
    module, _ = program()
    out = module(query=sequence(x), key=sequence(memory), value=sequence(other))
    q, k, _ = reference.project(x, memory, WEIGHTS, HEADS)
    _, _, v = reference.project(x, other, WEIGHTS, HEADS)
    context = reference.merge_heads(reference.attention(q, k, v)[0])
    close(out, (context @ WEIGHTS["W_o"] + WEIGHTS["b_o"]).swapaxes(0, 1))


@pytest.mark.parametrize("leading", [(1, 1), (1, BATCH), (N_Q, 1), (N_Q, BATCH)], ids=str)
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_a_mask_of_leading_dimension_1_or_n_may_be_bools_or_zeros_and_ones(leading, dtype):
    n_q, batch = leading
    keep = FREE[:batch, :, -n_q:]
    want = np.broadcast_to(keep, FREE.shape).copy()
    mask = to_mask(keep).astype(dtype)
    module, _ = program()
    x, memory = map(sequence, sizes.sides(2, d_in=D_MODEL))
    for given_mask in (mask, torch.as_tensor(mask), mask.tolist()):
        module(query=x, key=memory, value=memory, mask=given_mask)
        assert ((module.attn[..., 0] > 0).numpy() == to_mask(want)).all()


def test_prepare_mask_adds_an_axis_for_the_heads():
    module = MultiHeadAttention(HEADS, D_MODEL)
    mask = to_mask(KEEPS["padding"])
    prepared = module.prepare_mask(mask, (N_Q, BATCH, D_MODEL), (N_K, BATCH, D_MODEL))
    assert prepared.shape == (1, N_K, BATCH, 1)
    assert prepared.dtype == torch.bool
    assert (prepared[..., 0].numpy() == mask).all()


def test_prepare_splits_the_last_axis_whatever_comes_before_it():
    prepare = PrepareForMultiHeadAttention(11, 3, 4, bias=True).double()
    rng = np.random.default_rng(0)
    w, b = prepare.linear.weight.detach().numpy(), prepare.linear.bias.detach().numpy()
    for shape in ((11,), (2, 11), (5, 2, 11)):
        x = rng.standard_normal(shape)
        expected = (x @ w.T + b).reshape(*shape[:-1], 3, 4)
        close(prepare(torch.as_tensor(x)), expected)
    for strided in (torch.as_tensor(rng.standard_normal((2, 5, 11))).transpose(0, 1),
                    torch.as_tensor(rng.standard_normal((11, 5, 2))).permute(1, 2, 0)):
        close(prepare(strided), prepare(strided.contiguous()))


def test_bias_is_that_of_query_and_key_alone():
    module = MultiHeadAttention(HEADS, D_MODEL, bias=False)
    biased = [name for name, _ in module.named_parameters() if name.endswith("bias")]
    assert biased == ["value.linear.bias", "output.bias"]
    assert sum(p.numel() for p in module.parameters()) == 4 * D_MODEL ** 2 + 2 * D_MODEL
    weights = WEIGHTS | {"b_q": np.zeros(D_MODEL), "b_k": np.zeros(D_MODEL)}
    module, _ = program(weights=weights, bias=False)
    x, memory = sizes.sides(2, d_in=D_MODEL)
    out = module(query=sequence(x), key=sequence(memory), value=sequence(memory))
    expected, _ = reference.multi_head_attention(x, memory, weights, HEADS)
    close(out, expected.swapaxes(0, 1))


def test_masked_softmax_is_over_the_keys_of_i_j_b_h():
    scores = np.random.default_rng(0).standard_normal((N_Q, N_K, BATCH, HEADS))
    mask = to_mask(KEEPS["both"])[..., None]  # (i, j, b, 1)
    tensor = torch.as_tensor(scores)
    close(masked_softmax(tensor), reference.softmax(scores, axis=1))
    expected = reference.softmax(np.where(mask, scores, -np.inf), axis=1)
    close(masked_softmax(tensor, torch.as_tensor(mask)), expected)


def test_an_empty_row_gets_the_bias_of_the_output_and_sends_back_zeros():
    module, _, x, memory, out = run(masks.padding([0, N_K], N_K))
    close(out[:, 0], module.output.bias.expand(N_Q, -1))
    assert (module.attn[:, :, 0] == 0).all()
    (out * torch.randn_like(out)).sum().backward()
    for side in (x, memory):
        assert side.grad.isfinite().all()
        assert (side.grad[:, 0] == 0).all()
        assert (side.grad[:, 1] != 0).any()


def test_no_nan_is_made_on_the_way_back_from_an_empty_row():
    with torch.autograd.set_detect_anomaly(True):
        *_, out = run(masks.padding([0, N_K], N_K))
        (out * torch.randn_like(out)).sum().backward()


def test_attn_is_stored_before_dropout_detached_and_only_read():
    module, _ = program()
    module.dropout.p = 0.5
    x = sequence(sizes.sides(2, d_in=D_MODEL)[0])
    assert module.attn is None
    module.train()
    torch.manual_seed(0)
    out = module(query=x, key=x, value=x)
    assert not module.attn.requires_grad
    close(module.attn.sum(dim=1), torch.ones(N_Q, BATCH, HEADS))
    module.attn.zero_()
    torch.manual_seed(0)
    assert torch.equal(module(query=x, key=x, value=x), out)
    assert not torch.equal(module(query=x, key=x, value=x), out)
    module.eval()
    assert torch.equal(module(query=x, key=x, value=x), module(query=x, key=x, value=x))


@pytest.mark.parametrize("source", ["fresh", "saved by autograd", "a parameter", "a view of it"])
def test_what_get_scores_returns_is_not_written_to(source):
    table = torch.nn.Parameter(torch.randn(N_Q, N_K, BATCH, HEADS, dtype=torch.float64))

    class Other(MultiHeadAttention):
        def get_scores(self, query, key):
            fresh = super().get_scores(query, key)
            return {"fresh": fresh, "saved by autograd": fresh.tanh(), "a parameter": table,
                    "a view of it": table[:]}[source]

    module, _ = program(Other)
    before = table.detach().clone()
    x, memory = map(sequence, sizes.sides(2, d_in=D_MODEL))
    with torch.no_grad():
        first = module(query=x, key=memory, value=memory)
        assert torch.equal(module(query=x, key=memory, value=memory), first)
    out = module(query=x, key=memory, value=memory)
    (out * torch.randn_like(out)).sum().backward()
    assert torch.equal(table, before)
    if source in ("a parameter", "a view of it"):
        assert (table.grad != 0).all()


@pytest.mark.parametrize("align", ["top_left", "bottom_right"])
def test_alibi_equals_the_reference_with_its_bias(align):
    module, _ = program(AlibiMultiHeadAttention, align=align)
    x, memory = sizes.sides(2, d_in=D_MODEL)
    keep = KEEPS["both"]
    sides = sequence(x), sequence(memory)
    out = module(query=sides[0], key=sides[1], value=sides[1], mask=to_mask(keep))
    q, k, v = reference.project(x, memory, WEIGHTS, HEADS)
    bias = alibi_bias(HEADS, N_Q, N_K, align)
    context, weights = reference.attention(q, k, v, keep, bias)
    expected = reference.merge_heads(context) @ WEIGHTS["W_o"] + WEIGHTS["b_o"]
    close(module.attn, weights.transpose(2, 3, 0, 1))
    close(out, expected.swapaxes(0, 1))
    direction = torch.randn_like(out)
    found = torch.autograd.grad((out * direction).sum(), sides)
    plain = [side.transpose(0, 1).detach().requires_grad_() for side in sides]
    q, k, v = (torch.einsum("bie,ef->bif", side, torch.as_tensor(WEIGHTS[f"W_{name}"]))
               + torch.as_tensor(WEIGHTS[f"b_{name}"])
               for side, name in zip((plain[0], plain[1], plain[1]), "qkv", strict=True))
    q, k, v = (side.unflatten(-1, (HEADS, -1)).transpose(1, 2) for side in (q, k, v))
    additive = torch.as_tensor(np.where(keep, bias, -np.inf))
    context = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=additive)
    outs = context.transpose(1, 2).flatten(-2) @ torch.as_tensor(WEIGHTS["W_o"])
    wanted = torch.autograd.grad((outs.transpose(0, 1) * direction).sum(), plain)
    for got, want in zip(found, wanted, strict=True):
        close(got, want.transpose(0, 1))


def test_mask_and_bias_follow_the_module_to_its_device():
    module = AlibiMultiHeadAttention(HEADS, D_MODEL, align="top_left").to("meta")  # mixes with none
    x, memory = (sequence(side, torch.float32).to("meta") for side in sizes.sides(d_in=D_MODEL))
    for mask in (to_mask(KEEPS["both"]), torch.as_tensor(to_mask(KEEPS["padding"]))):
        out = module(query=x, key=memory, value=memory, mask=mask)
        assert out.device.type == module.attn.device.type == "meta"


def test_alibi_takes_float32_and_the_arguments_of_its_parent():
    module = AlibiMultiHeadAttention(HEADS, D_MODEL, 0.5, False).eval()
    assert module.dropout.p == 0.5
    assert module.key.linear.bias is None
    x = torch.randn(N_Q, BATCH, D_MODEL)
    assert module(query=x, key=x, value=x).dtype == torch.float32


BAD_MASKS = {
    "queries": (np.ones((2, N_K, BATCH), bool), "mask must be (1 or 5, 7, 1 or 2), that is "
                "(i, j, b), got (2, 7, 2)"),
    "one key": (np.ones((N_Q, 1, BATCH), bool), "mask must be (1 or 5, 7, 1 or 2), that is "
                "(i, j, b), got (5, 1, 2)"),
    "examples": (np.ones((N_Q, N_K, 3), bool), "mask must be (1 or 5, 7, 1 or 2), that is "
                 "(i, j, b), got (5, 7, 3)"),
    "batch first": (np.ones((BATCH, N_Q, N_K), bool), "mask must be (1 or 5, 7, 1 or 2), that "
                                                      "is (i, j, b), got (2, 5, 7); the batch "
                                                      "must be the last axis"),
    "two axes": (np.ones((N_Q, N_K), bool), "mask must be (1 or 5, 7, 1 or 2), that is (i, j, "
                                            "b), got (5, 7); if it is the same for all "
                                            "examples, pass mask[:, :, None]"),
}


@pytest.mark.parametrize(("mask", "message"), BAD_MASKS.values(), ids=BAD_MASKS)
def test_a_mask_that_does_not_fit_is_refused(mask, message):
    module = MultiHeadAttention(HEADS, D_MODEL)
    with raises(ValueError, message):
        module.prepare_mask(mask, (N_Q, BATCH, D_MODEL), (N_K, BATCH, D_MODEL))


@pytest.mark.parametrize("framework", [np.asarray, torch.as_tensor])
def test_an_additive_mask_is_refused_rather_than_inverted(framework):
    additive = framework(np.where(to_mask(KEEPS["padding"]), 0, -np.inf))
    module = MultiHeadAttention(HEADS, D_MODEL)
    with raises(TypeError, "mask must be bool (True = may attend), got a float mask of zeros "
                           "only, which is ambiguous: as an additive mask it masks nothing, as "
                           "1 = may attend it masks every key"):
        checks.sequence_mask(np.zeros((5, 7, 2), np.float32), (5, 2, 12), (7, 2, 12))
    message = ("mask must be bool, or 1 (may attend) and 0 (masked), got other numbers; an "
               "additive mask (0 and -inf) would be inverted: pass "
               "utils.masks.from_additive(mask)")
    with raises(TypeError, message):
        module.prepare_mask(additive, (N_Q, BATCH, D_MODEL), (N_K, BATCH, D_MODEL))


@pytest.mark.parametrize("shapes", [
    [(BATCH, N_Q, 12), (BATCH, N_K, 12), (BATCH, N_K, 12)],     # batch first
    [(N_Q, BATCH, 12), (N_K, 1, 12), (N_K, 1, 12)],             # einsum would repeat it
    [(N_Q, BATCH, 12), (N_K, BATCH, 12), (1, BATCH, 12)],       # this too
    [(N_Q, BATCH, 12), (N_K, BATCH, 12), (N_Q, BATCH, 12)],
    [(N_Q, BATCH, 11), (N_K, BATCH, 11), (N_K, BATCH, 11)],
    [(N_Q, 12), (N_K, 12), (N_K, 12)],
], ids=str)
def test_inputs_that_do_not_fit_together_are_refused(shapes):
    module = MultiHeadAttention(HEADS, D_MODEL)
    sides = dict(zip(("query", "key", "value"), map(torch.ones, shapes), strict=True))
    with raises(ValueError, "query, key and value must be (i, b, 12), (j, b, 12), (j, b, 12) "
                f"with the sequence as first axis, got {', '.join(map(str, shapes))}"):
        module(**sides)


def test_heads_that_do_not_divide_the_features_are_refused():
    with raises(ValueError, "d_model=12 is not divisible by n_heads=5 (remainder 2); nearest "
                            "divisors: 2, 3, 4, 6"):
        MultiHeadAttention(5, 12)


def test_query_key_and_value_are_given_by_name():
    x = torch.ones(N_Q, BATCH, D_MODEL)
    with pytest.raises(TypeError, match="positional"):
        MultiHeadAttention(HEADS, D_MODEL)(x, x, x)
