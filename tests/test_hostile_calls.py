"""Calls with bad input: each raises one clear error, and changes no argument.

A row is (function, arguments, error, what its message must contain). The expectations were written
before the calls were tried. Nothing here may crash, hang, or return a number.
"""

import copy
import math

import numpy as np
import pytest
import torch

from utils import checks, masks, reference, sizes
from utils.attention import (
    numpy as numpy_attention,
    positions as in_positions,
    torch as torch_attention,
)
from utils.attention.cache import CausalAttention, PreallocatedCache
from utils.attention.departures import attention_with_sink
from utils.attention.einsum import MultiHeadAttentionNew
from utils.attention.flash import partial, tiled_attention
from utils.attention.grouped import GroupedAttention, folded_attention, grouped_attention
from utils.attention.heads import merge_heads, split_heads
from utils.attention.sequence_first import MultiHeadAttention as SequenceFirst
from utils.models.language_model import LanguageModel, write
from utils.models.ngrams import NGrams, SoftLookup
from utils.models.transformer import EncoderDecoder, translate
from utils.parity import weights
from utils.plots import explore

B, H, I, J, D, DV = 2, 3, 5, 7, 4, 8


def arrays(make=np.asarray):
    return [make(side) for side in sizes.qkv()]


q, k, v = arrays()
tq, tk, tv = arrays(torch.as_tensor)
KEEP = masks.padding([7, 4], J)


def with_a_sink(q, k, v, keep=None):
    return attention_with_sink(q, k, v, torch.zeros(H, dtype=torch.float64), keep)


KERNELS = {"numpy": (numpy_attention.attention, q, k, v),
           "torch": (torch_attention.attention, tq, tk, tv),
           "fused": (torch_attention.fused_attention, tq, tk, tv), "partial": (partial, tq, tk, tv),
           "tiled": (tiled_attention, tq, tk, tv), "grouped": (grouped_attention, tq, tk, tv),
           "folded": (folded_attention, tq, tk, tv),
           "sdpa": (torch_attention.sdpa_with_zeros, tq, tk, tv),
           "with a sink": (with_a_sink, tq, tk, tv), "reference": (reference.attention, q, k, v)}


def kernels():
    for name, (function, *sides) in KERNELS.items():
        numbers = (q, k, v)
        tensors = name not in ("numpy", "reference")
        for n, letter in enumerate("qkv"):
            def given(bad, n=n, sides=sides):
                return [bad if m == n else side for m, side in enumerate(sides)]
            side = sides[n]
            other = torch.as_tensor(numbers[n]) if not tensors else numbers[n]
            yield f"{name}, {letter} is text", function, given("text"), TypeError, ""
            yield f"{name}, {letter} is None", function, given(None), TypeError, ""
            yield f"{name}, complex {letter}", function, given(side + 0j), TypeError, "complex"
            yield f"{name}, {letter} with one axis", function, given(side[0, 0, 0]), ValueError, ""
            if name == "reference":  # it takes any framework, integers and lists
                continue
            yield f"{name}, {letter} is a list", function, given(side.tolist()), TypeError, letter
            whole = side.long() if tensors else side.astype(int)
            yield f"{name}, integer {letter}", function, given(whole), TypeError, "int64"
            yield f"{name}, bool {letter}", function, given(side > 0), TypeError, "bool"
            yield f"{name}, {letter} of another framework", function, given(other), TypeError, "is"
            if tensors:
                half = given(side.half())
                yield f"{name}, {letter} in half", function, half, TypeError, "float16"
            yield f"{name}, {letter} of one example", function, given(side[:1]), ValueError, ""
        q_, k_, v_ = sides
        for rows in (1, 4, 6):
            yield (f"{name}, v of {rows} keys", function, [q_, k_, v_[:, :, :rows]], ValueError,
                   f"{rows}")
        long = np.zeros((B, H, 3000, DV)) if not tensors else torch.zeros(
            B, H, 3000, DV, dtype=torch.float64)
        yield f"{name}, v of 3000 keys", function, [q_, k_, long], ValueError, "3000"
        yield f"{name}, k of width 3", function, [q_, k_[..., :3], v_], ValueError, "k has 3"
        if name == "sdpa":
            continue
        for words, mask, error, said in (
                ("0 and 1", KEEP.astype(float), TypeError, "0 and 1"),
                ("integers", KEEP.astype(int), TypeError, "0 and 1"),
                ("additive", np.where(KEEP, 0.0, -np.inf), TypeError, "from_additive"),
                ("other numbers", KEEP * 0.5, TypeError, "float64"),
                ("short", KEEP[..., :6], ValueError, "axis j"),
                ("five axes", KEEP[None], ValueError, "more axes"),
                ("ambiguous", np.ones((B, I, J), bool), ValueError, "ambiguous"),
                ("(b, j)", KEEP[:, 0, 0], ValueError, "[:, None, None]"),
                ("transposed", np.ones((J, I), bool), ValueError, "transposed")):
            mask = torch.as_tensor(mask) if tensors else mask
            yield f"{name}, mask {words}", function, [q_, k_, v_, mask], error, said
        yield f"{name}, mask is text", function, [q_, k_, v_, "causal"], TypeError, "bool"
    for name in ("fused", "tiled", "grouped"):
        function, *sides = KERNELS[name]
        yield f"{name}, causal of 5 and 7", function, [*sides, None, True], ValueError, "n_q=5"
    for name in ("numpy", "torch"):
        softmax = (numpy_attention if name == "numpy" else torch_attention).masked_softmax
        make = np.asarray if name == "numpy" else torch.as_tensor
        scores = make(np.ones((B, H, I, J)))
        for mask in (np.where(KEEP, 0.0, -np.inf), KEEP.astype(int), KEEP.astype(float)):
            words = "-inf" if np.isneginf(mask).any() else str(mask.dtype)
            yield (f"{name}, softmax with {words}", softmax, [scores, make(mask)], TypeError,
                   "bool")


def layers():
    sizes_of = (("zero width", (0, 3), ValueError, "d_model"),
                ("negative width", (-12, 3), ValueError, "d_model"),
                ("fractional width", (12.0, 3), TypeError, "d_model"),
                ("text", ("12", 3), TypeError, "d_model"),
                ("None", (None, 3), TypeError, "d_model"),
                ("no heads", (12, 0), ValueError, "n_heads"),
                ("-3 heads", (12, -3), ValueError, "n_heads"),
                ("2.5 heads", (12, 2.5), TypeError, "n_heads"),
                ("heads: True", (12, True), TypeError, "n_heads"),
                ("5 heads", (12, 5), ValueError, "remainder 2"))
    for name, build in (("layer", torch_attention.MultiHeadAttention), ("causal", CausalAttention),
                        ("grouped", lambda d, h: GroupedAttention(d, h, 1)),
                        ("divisible", checks.divisible),
                        ("sequence first", lambda d, h: SequenceFirst(h, d))):
        for words, given, error, said in sizes_of:
            yield f"{name}, {words}", build, given, error, said
    for name, n in (("d_in", 0), ("d_in", -1), ("d_in", 3.5), ("d_out", 0), ("d_out", "7")):
        yield (f"layer, {name}={n}", lambda name, n: torch_attention.MultiHeadAttention(
            12, 3, **{name: n}), (name, n), (TypeError, ValueError), name)
    for dropout in (1.5, 1.0, -0.1, math.nan, "0.1", None, True):
        yield (f"layer, dropout={dropout}", torch_attention.MultiHeadAttention, (12, 3, dropout),
               (TypeError, ValueError), "dropout")
    for heads in (0, -1, 4, 2.0, None):
        yield (f"grouped, {heads} kv heads", GroupedAttention, (12, 6, heads),
               (TypeError, ValueError), "n_kv_heads")
    for window in (0, -1, 2.5, "4", True):
        yield (f"causal, window={window}", CausalAttention, (12, 3, window),
               (TypeError, ValueError), "window")
        yield f"room={window}", PreallocatedCache, (window,), (TypeError, ValueError), "room"
    x = torch.zeros(B, I, 12)
    layer = torch_attention.MultiHeadAttention(12, 3)
    for words, given, error, said in (
            ("text", ["x"], TypeError, "x"), ("list", [x.tolist()], TypeError, "x"),
            ("an array", [x.numpy()], TypeError, "x"), ("integers", [x.long()], TypeError, "int64"),
            ("float64", [x.double()], TypeError, "float64"),
            ("width 11", [x[..., :11]], ValueError, "11"),
            ("two axes", [x[0]], ValueError, "three axes"),
            ("four axes", [x[None]], ValueError, "three axes"),
            ("memory of another batch", [x, x[:1]], ValueError, "(1,"),
            ("memory of width 11", [x, x[..., :11]], ValueError, "11"),
            ("memory is text", [x, "memory"], TypeError, "memory"),
            ("additive mask", [x, x, torch.zeros(I, I)], TypeError, "bool"),
            ("causal, 5 and 4", [x, x[:, :4], None, True], ValueError, "n_q=5")):
        yield f"layer of {words}", layer, given, error, said
    for name, layer_ in (("causal layer", CausalAttention(12, 3)),
                         ("grouped layer", GroupedAttention(12, 6, 2))):
        for words, given, error, said in (
                ("text", ["x"], TypeError, "x"), ("integers", [x.long()], TypeError, "int64"),
                ("width 11", [x[..., :11]], ValueError, "11"),
                ("two axes", [x[0]], ValueError, "three axes"),
                ("positions as floats", [x, torch.arange(5.0)], TypeError, "positions"),
                ("four positions", [x, torch.arange(4)], ValueError, "positions")):
            yield f"{name} of {words}", layer_, given, error, said
    new = MultiHeadAttentionNew(3, 12, 4, 4)
    for words, given, error, said in (
            ("k of another batch", [x, x[:1], x], ValueError, "axis b"),
            ("v of 4 tokens", [x, x, x[:, :4]], ValueError, "axis j"),
            ("two axes", [x[0], x, x], ValueError, "array 1"),
            ("additive mask", [x, x, x, torch.zeros(B, I, I)], TypeError, "bool")):
        yield f"einsum layer of {words}", new, given, error, said
    for words, given, error, said in (("text", ("x", 3), TypeError, ""),
                                      ("a list", (x.tolist(), 3), TypeError, ""),
                                      ("two axes", (x[0], 3), ValueError, "three axes"),
                                      ("5 heads", (x, 5), ValueError, "remainder"),
                                      ("2.0 heads", (x, 2.0), TypeError, "n_heads")):
        yield f"split_heads of {words}", split_heads, given, error, said
        yield f"reference.split_heads of {words}", reference.split_heads, given, error, said
    for words, given in (("text", "x"), ("a list", x.tolist()), ("three axes", x)):
        yield f"merge_heads of {words}", merge_heads, (given,), (TypeError, ValueError), (
            "(b, h, i, d)")


def mask_builders():
    counts = ((0, ValueError), (-2, ValueError), (2.5, TypeError), ("7", TypeError),
              (True, TypeError))
    for n, error in counts:
        yield f"causal({n!r})", masks.causal, (n,), error, "n_q"
        yield f"causal(5, {n!r})", masks.causal, (5, n, "top_left"), error, "n_k"
        yield f"offsets({n!r})", masks.offsets, (n,), error, "n_q"
        yield f"window({n!r})", masks.window, (n, 7, 2, 0, "top_left"), error, "n_q"
        yield f"padding([3], {n!r})", masks.padding, ([3], n), error, "n_k"
        yield f"band([1], {n!r})", masks.band, ([1], n), error, "n_k"
        yield f"decoder([3], {n!r})", masks.decoder, ([3], n), error, "n_"
        yield f"alibi({n!r})", in_positions.alibi_slopes, (n,), error, "n_heads"
    yield "causal(None)", masks.causal, (None,), TypeError, "n_q"
    for n, error in ((-1, ValueError), (1.5, TypeError), ("2", TypeError)):
        yield f"window, left={n!r}", masks.window, (5, 5, n), error, "left"
        yield f"window, right={n!r}", masks.window, (5, 5, 1, n), error, "right"
    for n in (1.5, "2", True):
        error = TypeError
        yield f"band, left={n!r}", masks.band, ([1], 5, n), error, "left"
        yield f"band, right={n!r}", masks.band, ([1], 5, 1, n), error, "right"
    for align in (None, "left", "bottom", True, 0):
        yield f"causal(5, 7, {align!r})", masks.causal, (5, 7, align), ValueError, "align"
        yield f"window, align={align!r}", masks.window, (5, 7, 2, 0, align), ValueError, "align"
    for lengths in ([8], [-1], [2.0], 3, "3", None, [True, False], [None], [math.nan]):
        yield f"padding({lengths!r})", masks.padding, (lengths, 7), ValueError, "lengths"
        yield f"valid_lens {lengths!r}", masks.from_valid_lens, (lengths, 7), (
            ValueError), "lengths"
    for where in ([0.5], "x", None, [True]):
        yield f"band at {where!r}", masks.band, (where, 7), TypeError, "positions"


def conventions():
    floats, whole = np.where(KEEP, 0.0, -np.inf), KEEP.astype(int)
    for name in ("to_additive", "to_sdpa", "from_sdpa", "to_key_padding", "from_key_padding",
                 "from_keras", "to_drop", "from_drop", "to_sequence_first", "from_sequence_first"):
        function = getattr(masks, name)
        for words, bad in (("an additive mask", floats), ("integers", whole), ("text", "mask"),
                           ("None", None), ("floats", KEEP.astype(float))):
            yield f"{name} of {words}", function, (bad,), TypeError, "bool"
    for name, rest in (("to_torch_mha", (3,)), ("from_torch_mha", (3,)), ("to_keras", (2, 5)),
                       ("to_onnx", (7,)), ("from_onnx", (7,)), ("to_valid_lens", (2,))):
        function = getattr(masks, name)
        for words, bad in (("an additive mask", floats), ("integers", whole), ("None", None)):
            yield f"{name} of {words}", function, (bad, *rest), TypeError, "bool"
    some = np.random.default_rng(0).random((B, H, I, J)) < 0.5
    for name, rest in (("to_key_padding", ()), ("to_drop", ()), ("to_sequence_first", ()),
                       ("to_valid_lens", (2,))):
        yield f"{name} of a mask per head", getattr(masks, name), (some, *rest), (
            ValueError), "differs between"
        yield f"{name} of five axes", getattr(masks, name), (some[None], *rest), (
            ValueError), "four axes"
        yield f"{name} of three axes", getattr(masks, name), (some[:, 0], *rest), (
            ValueError), "ambiguous"
    yield "from_additive of bools", masks.from_additive, (KEEP,), TypeError, "bool"
    yield "from_additive of a bias", masks.from_additive, (KEEP * 0.5,), ValueError, "bias"
    yield "from_additive of -1e9", masks.from_additive, (np.where(KEEP, 0, -1e9),), (
        ValueError), "bias"
    yield "from_additive of text", masks.from_additive, ("mask",), TypeError, "numbers"
    for heads in (0, 2.5, "3"):
        yield f"to_torch_mha, {heads!r} heads", masks.to_torch_mha, (KEEP, heads), (
            TypeError, ValueError), "n_heads"


def comparisons():
    ones = np.ones(3)
    for words, bad in (("None", None), ("text", "x"), ("complex", ones + 1j),
                       ("objects", np.array([None, 1, 2]))):
        for name in ("difference", "differences", "check_close"):
            function = getattr(checks, name)
            yield f"{name}, {words} first", function, (bad, ones), TypeError, "got"
            yield f"{name}, {words} second", function, (ones, bad), TypeError, "expected"
            yield f"{name}, {words} twice", function, (bad, bad), TypeError, "got"
    for name, error in (("difference", ValueError), ("differences", ValueError),
                        ("check_close", AssertionError)):
        yield f"{name} of (3,) and (4,)", getattr(checks, name), (ones, np.ones(4)), error, "(4,)"
        yield f"{name} of (3,) and (1, 3)", getattr(checks, name), (ones, ones[None]), (
            error), "(1, 3)"
    for words, bad in (("None", None), ("text", "x"), ("complex", q + 1j)):
        yield f"float64 of {words}", reference.float64, (bad,), TypeError, "real"
        yield f"reference.softmax of {words}", reference.softmax, (bad,), TypeError, "real"
    for kind in ("int8", "uint8", "bool", "complex64"):  # int8: 100 − (−100) is −56
        yield f"softmax of {kind}", numpy_attention.softmax, (np.eye(3).astype(kind),), (
            TypeError), kind
    yield "repeat_heads(2, 3)", reference.repeat_heads, (np.ones((2, 5, 4)), 3), ValueError, "2"
    yield "repeat_heads of a matrix", reference.repeat_heads, (np.ones((5, 4)), 3), ValueError, "5"
    W = sizes.weights()
    x, memory = sizes.sides()
    for words, given, error, said in (
            ("5 heads", (x, memory, W, 5), ValueError, "remainder"),
            ("0 heads", (x, memory, W, 0), ValueError, "n_heads"),
            ("3.0 heads", (x, memory, W, 3.0), TypeError, "n_heads"),
            ("another batch", (x, memory[:1], W, 3), ValueError, "(1,"),
            ("an additive mask", (x, memory, W, 3, np.zeros((I, J))), TypeError, "bool")):
        yield f"reference layer of {words}", reference.multi_head_attention, given, error, said


def positions():
    x = torch.zeros(B, H, I, D)
    cos, sin = in_positions.rotary(torch.arange(I), D)
    for d in (0, 3, -2, 2.0, "4"):
        yield f"rotary, d={d!r}", in_positions.rotary, (torch.arange(5), d), (
            TypeError, ValueError), "d"
        yield f"sinusoidal, e={d!r}", in_positions.sinusoidal, (torch.arange(5), d), (
            TypeError, ValueError), "d"
    for words, given, error, said in (
            ("integers", (x.long(), cos, sin), TypeError, "int64"),
            ("text", ("x", cos, sin), TypeError, "x"),
            ("too many angles", (x[..., :2], cos, sin), ValueError, "angles"),
            ("other positions", (x, cos[:4], sin[:4]), ValueError, "broadcast"),
            ("sin of others", (x, cos, sin[:4]), ValueError, "one shape")):
        yield f"rotate of {words}", in_positions.rotate, given, error, said
    for n in (2, 4):
        yield f"a table of {n} rows", in_positions.relative_scores, (
            x, torch.zeros(n, D), masks.offsets(I)), ValueError, "odd"
    for base in (0, -1.0, "x", math.nan):
        yield f"rotary, base={base!r}", in_positions.rotary, (torch.arange(5), 4, base), (
            TypeError, ValueError), "base"


def weight_sets():
    rng = np.random.default_rng(0)
    llama = {f"{name}_proj.weight": rng.standard_normal((rows, 24))
             for name, rows in (("q", 24), ("k", 8), ("v", 8), ("o", 24))}
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    yield "grouped weights", weights.from_linear, (llama, names), ValueError, "repeats the heads"
    yield "no names", weights.from_linear, ([1, 2], names), ValueError, "without names"
    yield "bias_k", weights.from_in_proj, (
        torch.nn.MultiheadAttention(12, 3, add_bias_kv=True).state_dict(),), ValueError, (
        "no place for bias_k, bias_v")
    yield "a list of three", weights.from_dense, ([1, 2, 3],), ValueError, "eight arrays"
    W = sizes.weights()
    for heads in (5, 0, 2.0):
        yield f"to_keras, {heads} heads", weights.to_keras, (W, heads), (
            TypeError, ValueError), "n_heads"
        yield f"to_interleaved, {heads} heads", weights.to_interleaved, (W, heads), (
            TypeError, ValueError), "n_heads"


def models():
    for n, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError),
                     (True, TypeError)):
        yield f"a model of {n!r} layers", LanguageModel, (65, 24, 3, n), error, "n_layers"
        yield f"{n!r} decoder layers", EncoderDecoder, (30, 12, 3, 24, 1, n), error, "n_decoder"
        yield f"{n!r} encoder layers", EncoderDecoder, (30, 12, 3, 24, n, 1), error, "n_encoder"
    decoder, translator = LanguageModel(65, 24, 3, 2), EncoderDecoder(30, 12, 3, 24, 1, 1)
    ids = torch.zeros(2, 5, dtype=torch.long)
    for name, call, size in (("language model", decoder, 65),
                             ("translator", lambda ids: translator(ids, ids), 30)):
        for words, given, error, said in (
                ("floats", ids.float(), TypeError, "float32"),
                ("a list", [[1, 2]], TypeError, "list"),
                ("an array", ids.numpy(), TypeError, "NumPy"), ("text", "abc", TypeError, "str"),
                ("bools", ids > 0, TypeError, "bool"), ("one axis", ids[0], ValueError, "(5,)"),
                ("no tokens", ids[:, :0], ValueError, "at least one token"),
                ("a token too many", ids + size, ValueError, f"0 .. {size - 1}"),
                ("a negative token", ids - 1, ValueError, "-1 .. -1")):
            yield f"{name} of {words}", call, (given,), error, said
    for steps, error in ((-1, ValueError), (2.5, TypeError), ("3", TypeError), (None, TypeError)):
        yield f"translate, {steps!r} steps", translate, (translator, ids, 0, steps), error, "steps"
        yield f"write, length {steps!r}", write, (decoder, ids, steps), error, "length"
    yield "translate from token 99", translate, (translator, ids, 99, 3), ValueError, "99"
    for heat in (-1.0, math.nan, math.inf, "1", None):
        yield f"write at {heat!r}", write, (decoder, ids, 3, heat), (
            TypeError, ValueError), "temperature"
    for n in (0, -1, 1.5, "2"):
        yield f"n-grams of order {n!r}", NGrams, ("abc", n, "abc"), (TypeError, ValueError), "order"
        yield f"a lookup of span {n!r}", SoftLookup, ("abcdef", n), (TypeError, ValueError), "span"
    for text in ("", "xyz"):
        yield f"n-grams of {text!r}", NGrams, (text, 2, "abc"), ValueError, "vocabulary"
    yield "a lookup in a short text", SoftLookup, ("abc", 6), ValueError, "longer than span=6"
    yield "a lookup after a short text", SoftLookup("abcdefghi", 6).votes, ("ab",), (
        ValueError), "at least span=6"


def data():
    for name in ("batch", "n_q", "n_k", "d_head", "d_v", "heads"):
        for n in (0, -1, 1.5):
            yield f"qkv, {name}={n}", lambda name, n: sizes.qkv(**{name: n}), (name, n), (
                TypeError, ValueError), name
    for name in ("batch", "n_q", "n_k", "d_in"):
        yield f"sides, {name}=0", lambda name: sizes.sides(**{name: 0}), (name,), ValueError, name
    for name in ("d_in", "d_model", "d_out"):
        yield f"weights, {name}=0", lambda name: sizes.weights(**{name: 0}), (name,), (
            ValueError), name
    for name in ("batch", "n_k"):
        yield f"lengths, {name}=0", lambda name: sizes.lengths(**{name: 0}), (name,), (
            ValueError), name


def figures():
    for name in ("batch", "length", "heads", "d_head"):
        for n in (0, -1, 1.5, "2", 99):
            yield f"microscope, {name}={n!r}", lambda name, n: explore.reshape_microscope(
                **{name: n}), (name, n), (TypeError, ValueError), name
    for n in (7, 2**18, 9.5, "9"):
        yield f"cost figure of {n!r} tokens", lambda n: explore.cost_crossing(n=n), (n,), (
            TypeError, ValueError), "n must be"


CALLS = [*kernels(), *layers(), *mask_builders(), *conventions(), *comparisons(), *positions(),
         *weight_sets(), *models(), *data(), *figures()]


@pytest.mark.parametrize(("function", "arguments", "error", "said"),
                         [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_a_hostile_call_raises_one_clear_error(function, arguments, error, said):
    before = [copy.deepcopy(one) if hasattr(one, "shape") else one for one in arguments]
    with pytest.raises(error) as caught:
        function(*arguments)
    message = str(caught.value)
    assert said in message
    assert "mat1" not in message
    assert "ufunc" not in message
    assert "out-of-bounds" not in message
    assert len(message) < 500
    for one, other in zip(arguments, before, strict=True):
        if hasattr(one, "shape") and one.dtype != object:
            assert np.array_equal(checks.to_numpy(one), checks.to_numpy(other), equal_nan=True)


def test_there_are_at_least_four_hundred_and_all_are_different():
    assert len({call[0] for call in CALLS}) == len(CALLS) >= 400


@pytest.mark.parametrize("huge", [math.nan, math.inf, 1e38])
@pytest.mark.parametrize("side", ["k", "v"])
@pytest.mark.parametrize("program", [
    torch_attention.attention, torch_attention.fused_attention, grouped_attention,
    folded_attention, tiled_attention], ids=lambda program: program.__name__)
def test_what_a_masked_key_holds_is_ignored_or_gives_nan_and_never_a_wrong_number(
        program, side, huge):
    q, k, v = (torch.from_numpy(x).float() for x in sizes.qkv(seed=3))
    keep = masks.padding(torch.tensor([k.shape[2], k.shape[2] - 3]), k.shape[2])
    (expected, _), sides = reference.attention(q, k, v, keep), {"k": k.clone(), "v": v.clone()}
    sides[side][1, :, -3:] = huge
    context = program(q, **sides, keep=keep)
    context = context[0] if isinstance(context, tuple) else context
    # Example 0 has no padding. In example 1, PyTorch's kernel may give NaN, as its docstring says.
    assert checks.difference(context[0], torch.from_numpy(expected[0]).float()) < 1e-5
    seen = context[1].isnan() | (context[1] - torch.from_numpy(expected[1])).abs().lt(1e-5)
    assert seen.all()
