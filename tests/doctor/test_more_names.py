"""Faults of cross-attention, of projections and of the softmax, in programs written for them."""

import itertools
import math

import pytest
import torch
from torch import nn

from utils import doctor


class Cross(nn.Module):
    """Attention with settings of its own: each test changes what it is about."""

    sides, made_by, relu = "xmm", "qkv", ""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def scored(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-1])

    def weights(self, scores, keep):
        if keep is not None:
            scores = scores.masked_fill(~keep, -torch.inf)
        return scores.softmax(-1)

    def merged(self, context):
        return context.transpose(1, 2).flatten(2)

    def rotated(self, q, k):
        return q, k

    def averaged(self, q, k, v, keep):
        return self.weights(self.scored(q, k), keep) @ v

    def forward(self, x, memory, keep=None):
        inputs = {"x": x, "m": memory}
        layers = {"q": self.query, "k": self.key, "v": self.value}
        heads = []
        for letter, side, layer in zip("qkv", self.sides, self.made_by, strict=True):
            made = layers[layer](inputs[side])
            made = made.relu() if letter in self.relu else made
            heads.append(made.unflatten(-1, (self.n_heads, -1)).transpose(1, 2))
        q, k, v = heads
        context = self.averaged(*self.rotated(q, k), v, keep)
        return self.out(self.merged(context))


class Alone(Cross):
    """Self-attention."""

    def forward(self, x, keep=None):
        return super().forward(x, x, keep)


def of(kind, **changed):
    return type(kind.__name__, (kind,), changed)


def examined(kind, **options):
    return doctor.examine_layer(kind, self_attention=issubclass(kind, Alone), **options)


@pytest.mark.parametrize("kind", [Cross, Alone])
def test_the_program_is_right_as_long_as_nothing_is_changed(kind):
    report = examined(kind)
    assert (report.verdict, report.notes, report.findings) == ("healthy", [], [])


# --- x and memory

@pytest.mark.parametrize("sides", sorted({*map("".join, itertools.product("xm", repeat=3))}
                                         - {"xmm"}))
def test_an_input_that_is_taken_for_the_other_is_named(sides):
    report = examined(of(Cross, sides=sides))
    assert report.names == [("memory ignored" if sides[0] == "x" else "x and memory exchanged",)]
    said = [f"{letter} is made from {'x' if side == 'x' else 'memory'}"
            for letter, side, right in zip("qkv", sides, "xmm", strict=True) if side != right]
    assert [*report.details.values()] == [", ".join(said)]


def test_memory_that_is_ignored_is_seen_where_it_has_another_length():
    report = examined(of(Cross, sides="xxx"), masks="none")
    assert report.names == [("memory ignored",)]
    assert not any("only with" in note for note in report.notes)  # n_q == n_k was not needed


def test_memory_that_is_ignored_is_named_beside_another_fault_and_in_a_function():
    unscaled = of(Cross, sides="xxm", scored=lambda self, q, k: q @ k.mT)
    assert sorted(examined(unscaled).names[0]) == ["memory ignored", "no scale"]

    def layer(x, memory, weights, n_heads, keep):
        q, k, v = ((side @ weights[f"W_{n}"] + weights[f"b_{n}"]).unflatten(
            -1, (n_heads, -1)).transpose(1, 2) for n, side in (("q", memory), ("k", x), ("v", x)))
        context = Cross.averaged(Cross(12, 3), q, k, v, keep)
        return context.transpose(1, 2).flatten(2) @ weights["W_o"] + weights["b_o"]
    report = doctor.examine(layer, "layer", framework="torch")
    assert report.names == [("x and memory exchanged",)]


# --- which projection makes q, k and v

PARTS = {"q": "query", "k": "key", "v": "value"}


@pytest.mark.parametrize("made_by", ["vkv", "qqv", "qkk", "kqv", "qvk"])
@pytest.mark.parametrize("kind", [Cross, Alone])
def test_a_projection_that_is_used_for_another_letter_is_named(kind, made_by):
    report = examined(of(kind, made_by=made_by))
    assert report.names[0] == ("wrong projection",)  # of a swap, there is a second name
    made = [f"{letter} is made with the projection “{PARTS[other]}”"
            for letter, other in zip("qkv", made_by, strict=True) if letter != other]
    assert report.details == {"wrong projection": " and ".join(made)}
    assert len(report.names) == 1 + (kind is Alone and made_by == "kqv") + (made_by == "qvk")
    assert not any(word in str(report) for word in ("chunk", "split", "packed"))


class Packed(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.qkv, self.out = n_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(
            d_model, d_model)

    def forward(self, x, keep=None):
        k, q, v = (side.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for side in self.qkv(x).chunk(3, dim=-1))
        context = Cross.averaged(Cross(12, 3), q, k, v, keep)
        return self.out(context.transpose(1, 2).flatten(2))


def test_what_is_packed_is_still_read_in_another_order():
    report = doctor.examine_layer(Packed, self_attention=True, packed="qkv", roles={"o": "out"})
    assert report.names == [("packed order",), ("q and k swapped",)]
    assert "chunk" in str(report)


def test_a_function_that_uses_one_matrix_twice_is_told_which():
    def layer(x, memory, weights, n_heads, keep):
        q, k, v = ((side @ weights[f"W_{n}"] + weights[f"b_{n}"]).unflatten(
            -1, (n_heads, -1)).transpose(1, 2) for n, side in (("v", x), ("k", memory),
                                                               ("v", memory)))
        context = Cross.averaged(Cross(12, 3), q, k, v, keep)
        return context.transpose(1, 2).flatten(2) @ weights["W_o"] + weights["b_o"]
    report = doctor.examine(layer, "layer", framework="torch")
    assert report.names == [("wrong projection",)]
    assert report.details == {"wrong projection": "q is made with the projection of v"}


# --- softmax over the queries, with a recipe for fully masked rows

def rows_to_zero(weights, keep):
    return torch.where(keep.any(-1, keepdim=True), weights, 0.0)


RECIPES = {
    "where": (-torch.inf, rows_to_zero), "nan_to_num": (-torch.inf, lambda w, keep: w.nan_to_num()),
    "-1e9": (-1e9, lambda w, keep: w), "-1e9, where": (-1e9, rows_to_zero),
    "-1e9, zeroed": (-1e9, lambda w, keep: w.masked_fill(~keep, 0.0))}


def over(axis, recipe, causal=False):
    fill, change = RECIPES[recipe]

    def weights(self, scores, keep):
        allowed = torch.ones(scores.shape, dtype=torch.bool)
        allowed = allowed.tril() if causal else allowed
        allowed = allowed if keep is None else allowed & keep
        return change(scores.masked_fill(~allowed, fill).softmax(axis), allowed)
    return weights


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_softmax_over_queries_is_named_behind_a_recipe(recipe, causal):
    def kernel(axis):
        weights = over(axis, recipe, causal)
        return lambda q, k, v, keep=None: weights(None, Cross.scored(None, q, k), keep) @ v

    for axis, names in ((-2, [("softmax over queries",)]), (-1, [])):
        report = doctor.examine(kernel(axis), causal=causal, framework="torch")
        assert (report.names, report.verdict) == (names, "sick" if names else "healthy")
        layer = of(Alone, weights=over(axis, recipe, causal))
        report = examined(layer, causal=causal)
        assert (report.names, report.verdict) == (names, "sick" if names else "healthy")


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_softmax_over_queries_is_named_beside_another_fault(recipe):
    layer = of(Alone, weights=over(-2, recipe, True),
               scored=lambda self, q, k: q @ k.mT / self.out.in_features ** 0.5)
    assert sorted(examined(layer, causal=True).names[0]) == [
        "scale by sqrt(d_model)", "softmax over queries"]


def test_context_whose_nan_become_0_behind_a_softmax_over_queries_is_named():
    def attend(q, k, v, keep=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores if keep is None else scores.masked_fill(~keep, -torch.inf)
        return (scores.softmax(-2) @ v).nan_to_num()
    assert doctor.examine(attend, framework="torch").names == [("softmax over queries",)]


# --- scaled after the softmax

@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("model", [True, False])
def test_a_division_after_the_softmax_is_named_with_what_its_rows_sum_to(model, before):
    def averaged(self, q, k, v, keep):
        scores = q @ k.mT / (q.shape[-1] ** 0.5 if before else 1)
        root = (self.out.in_features if model else q.shape[-1]) ** 0.5
        return self.weights(scores, keep) / root @ v
    for kind in (Cross, Alone):
        report = examined(of(kind, averaged=averaged))
        assert report.names == [("scaled after softmax",)]
        detail = "each row sums to 1/√d" + "_model" * model
        assert report.details["scaled after softmax"] == detail + (
            "" if before else ", and the scores are not divided")


def test_a_kernel_that_divides_after_the_softmax_is_named():
    def attend(q, k, v, keep=None):
        scores = q @ k.mT if keep is None else (q @ k.mT).masked_fill(~keep, -torch.inf)
        return scores.softmax(-1) / (q.shape[1] * q.shape[-1]) ** 0.5 @ v
    report = doctor.examine(attend, framework="torch")
    assert report.names == [("scaled after softmax",)]
    assert "1/√d_model, and" in report.details["scaled after softmax"]


class ByHead(nn.Module):
    """Packed as (h, d, 3), and divided by √d_model after the softmax."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.qkv, self.out = n_heads, nn.Linear(d_model, 3 * d_model), nn.Linear(
            d_model, d_model)

    def forward(self, x):
        b, n, e = x.shape
        q, k, v = self.qkv(x).view(b, n, self.n_heads, -1, 3).permute(4, 0, 2, 1, 3)
        weights = (q @ k.mT).softmax(-1) / e ** 0.5
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, e))


def test_a_packing_by_head_does_not_hide_the_division():
    report = doctor.examine(ByHead)
    assert report.names == [("scaled after softmax",)]
    assert "interleaved packing" in str(report.notes)


@pytest.mark.parametrize(("factor", "said"), [
    (12 ** -0.5, "each output is 0.29, which is 1/√12;"), (0.25, "0.25, which is 1/4;"),
    (0.7, "each output is 0.7;"), (2.0, "each output is 2;")])
def test_a_probe_says_what_the_rows_of_a_layer_sum_to(factor, said):
    def averaged(self, q, k, v, keep):
        return factor * self.weights(self.scored(q, k).sinh(), keep) @ v
    report = examined(of(Alone, averaged=averaged))
    assert report.verdict == "unexplained"
    assert any(said in finding for finding in report.findings)


def test_the_probe_of_rows_is_silent_where_they_differ_and_counts_where_they_are_1():
    right = examined(of(Alone, scored=lambda self, q, k: (q @ k.mT).sinh()))
    assert any("probes pass" in found and "row sums" in found for found in right.findings)
    skipping = of(Alone, averaged=lambda self, q, k, v, keep: v.sin() + Cross.averaged(
        self, q, k, v, keep))
    assert "row sums" not in str(examined(skipping))


# --- further faults of a layer

def test_heads_that_are_stacked_and_read_as_if_they_were_side_by_side_are_named():
    def merged(self, context):
        b, h, n, d = context.shape
        return torch.stack([*context.unbind(1)]).view(b, n, h * d)
    for kind in (Cross, Alone):
        report = examined(of(kind, merged=merged))
        assert report.names == [("merge without transpose",)]
        assert report.details["merge without transpose"].startswith("heads are stacked as (h, b,")


@pytest.mark.parametrize("kind", [Alone, Cross])
def test_a_token_that_gets_its_own_value_only_is_named(kind):
    report = examined(of(kind, averaged=lambda self, q, k, v, keep: v))
    assert report.names == [("weights not used",)]
    for names, program in (([("weights not used",)], lambda q, k, v, keep: v),
                           ([("k and v swapped",)], lambda q, k, v, keep: Cross.averaged(
                               Cross(12, 3), q, v, k, keep))):
        assert doctor.examine(program, framework="torch").names == names


class Without(Alone):
    """Attention whose heads are returned side by side."""

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        del self.out

    def out(self, x):
        return x


NO_OUTPUT = "It has no W_o, which is not counted as a fault: its output is the heads side by side."


def test_a_layer_without_w_o_is_told_so_beside_its_other_fault():
    by_model = of(Without, scored=lambda self, q, k: q @ k.mT / self.query.in_features ** 0.5)
    for kind, names in ((Without, []), (by_model, [("scale by sqrt(d_model)",)])):
        report = doctor.examine(kind)
        assert report.names == names
        assert NO_OUTPUT in report.notes
    assert NO_OUTPUT not in doctor.examine(Alone).notes
    one = doctor.examine(Without(12, 1), n_heads=1)
    assert NO_OUTPUT not in one.notes


# --- designs

@pytest.mark.parametrize("letters", ["q", "k", "v", "qk", "qv", "kv", "qkv"])
def test_a_relu_on_the_projections_is_a_design(letters):
    for kind in (Cross, Alone):
        report = examined(of(kind, relu=letters))
        assert (report.verdict, report.names) == ("healthy", [])
        assert report.notes == [f"It has a ReLU on its projections: of {', '.join(letters)}."]


def test_a_relu_on_the_projections_does_not_hide_a_fault():
    report = examined(of(Alone, relu="qkv", scored=lambda self, q, k: q @ k.mT))
    assert report.names == [("no scale",)]
    assert report.notes == ["It has a ReLU on its projections: of q, k, v."]


def turned(x, base=10_000.0, sign=1, share=1.0):
    d = int(share * x.shape[-1])
    angle = torch.outer(torch.arange(x.shape[-2]), base ** (-torch.arange(0, d, 2) / d)).to(x)
    a, b, rest = x[..., :d // 2], x[..., d // 2:d], x[..., d:]
    cos, sin = angle.cos(), sign * angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], dim=-1)


def normal(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def both(letters="qk", norm=False, **how):
    def rotated(self, q, k):
        q, k = (normal(q), normal(k)) if norm else (q, k)
        return (turned(q, **how) if "q" in letters else q,
                turned(k, **how) if "k" in letters else k)
    return rotated


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("letter", ["q", "k"])
def test_rope_on_one_of_q_and_k_is_named(letter, sign, norm):
    report = examined(of(Alone, rotated=both(letter, norm, sign=sign)))
    assert report.names == [("RoPE not on both",)]
    assert report.details == {"RoPE not on both": f"only {letter} is rotated"}
    assert any("QK-norm" in note for note in report.notes) == norm


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(("share", "sign"), [(1.0, -1), (0.5, 1), (0.25, 1), (0.5, -1)])
def test_rope_the_other_way_or_of_a_part_is_a_design(share, sign, norm):
    layer = of(Alone, rotated=both(norm=norm, sign=sign, share=share))(48, 3)
    report = examined(layer.__class__, masks="none") if share == 1.0 else doctor.examine_layer(
        layer, n_heads=3, self_attention=True)
    assert (report.verdict, report.names) == ("healthy", [])
    note = next(note for note in report.notes if "RoPE" in note)
    assert ("opposite sign" in note) == (sign == -1)
    assert (f"the first {share:g} of each head" in note) == (share < 1)


def test_rope_the_other_way_is_a_note_where_rope_is_promised():
    for sign, notes in ((1, 0), (-1, 1)):
        layer = of(Alone, rotated=both(sign=sign))
        report = examined(layer, parts={"rope": "halves"})
        assert (report.verdict, report.names) == ("healthy", [])
        assert len([note for note in report.notes if "opposite sign" in note]) == notes
    report = examined(of(Alone, rotated=both("q", sign=-1)), parts={"rope": "halves"})
    assert report.names == [("RoPE not on both",)]


class GroupedHeads(nn.Module):
    """Four heads of q, two of k and v, and a norm of q and k; only q is rotated."""

    letters = "q"

    def __init__(self, d_model, n_heads, n_kv):
        super().__init__()
        self.h, self.kv, self.d = n_heads, n_kv, d_model // n_heads
        self.q_proj, self.o_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(d_model, n_kv * self.d, bias=False) for _ in range(2))

    def forward(self, x):
        q, k, v = (made.unflatten(-1, (-1, self.d)).transpose(1, 2)
                   for made in (self.q_proj(x), self.k_proj(x), self.v_proj(x)))
        q, k = both(self.letters, norm=True)(self, q, k)
        k, v = (side.repeat_interleave(self.h // self.kv, dim=1) for side in (k, v))
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / self.d ** 0.5).masked_fill(hidden, -torch.inf)
        return self.o_proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_rope_on_q_alone_is_named_beside_a_norm_and_groups_of_heads():
    report = doctor.examine(GroupedHeads(64, 8, 2), causal=True, n_heads=8)
    assert report.names == [("RoPE not on both",)]
    right = of(GroupedHeads, letters="qk")(64, 8, 2)
    report = doctor.examine(right, causal=True, n_heads=8)
    assert (report.verdict, report.names) == ("healthy", [])


def sinking(value):
    def weights(self, scores, keep):
        if keep is not None:
            scores = scores.masked_fill(~keep, -torch.inf)
        column = torch.zeros_like(scores[..., :1]) + torch.as_tensor(value).view(-1, 1, 1)
        return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1]
    return weights


@pytest.mark.parametrize("value", [0.0, 0.7, -1.25])
@pytest.mark.parametrize("kind", [Alone, Cross])
def test_the_value_of_a_sink_is_estimated(kind, value):
    report = examined(of(kind, weights=sinking(value)))
    if value or kind is Alone:
        assert (report.verdict, report.names) == ("healthy", [])
        assert any(note.endswith(f"(a sink): of {value:g}.") for note in report.notes)


def test_the_sinks_of_heads_are_estimated_and_hide_no_fault():
    layer = of(Alone, weights=sinking([0.5, -1.0, 2.0]))(12, 3)
    report = doctor.examine_layer(layer, n_heads=3, self_attention=True)
    assert report.verdict == "healthy"
    assert any(note.endswith("(a sink): of 0.5, -1, 2.") for note in report.notes)
    flat = of(Alone, weights=sinking(0.7), scored=lambda self, q, k: 0.3 * q @ k.mT)
    report = examined(flat)
    assert report.names == [("constant scale",)]
    assert any(note.endswith("(a sink): of 0.7.") for note in report.notes)


# --- one off

@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("step", "names"), [(1, [("causal off by one",)]), (0, []),
                                             (-1, [("causal off by one",)])])
def test_a_diagonal_that_is_one_off_is_named_with_a_mask_on_top(step, names, masked):
    def weights(self, scores, keep):
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(step + 1)
        scores = scores.masked_fill(hidden, -torch.inf)
        return Cross.weights(self, scores, keep if masked else None).nan_to_num()
    options = {} if masked else {"masks": "none", "call": lambda m, x, memory, keep: m(x)}
    assert examined(of(Alone, weights=weights), causal=True, **options).names == names


# --- positions in decoding

def decoder(restarts="", scale=True):
    def step(q, k, v, cache):
        held, values = cache or (k[:, :, :0], v[:, :, :0])
        past, n = held.shape[2], q.shape[2]

        def at(x, letter):
            if letter in restarts:
                return turned(x)
            return turned(torch.cat([x.new_zeros(*x.shape[:2], past, x.shape[3]), x], 2))[
                :, :, past:]
        held, values = torch.cat([held, at(k, "k")], 2), torch.cat([values, v], 2)
        hidden = torch.ones(n, past + n, dtype=torch.bool).triu(past + 1)
        scores = at(q, "q") @ held.mT / (q.shape[-1] ** 0.5 if scale else 1.0)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return weights @ values, (held, values)
    return step


@pytest.mark.parametrize("restarts", ["", "qk", "q", "k"])
def test_positions_that_restart_in_each_chunk_are_named(restarts):
    report = doctor.examine_decoder(decoder(restarts), framework="torch")
    assert report.names == ([("positions restart",)] if restarts else [])
    assert report.verdict == ("sick" if restarts else "healthy")
    assert any("RoPE" in note for note in report.notes) == (not restarts)


def test_rope_in_a_decoder_hides_no_fault():
    report = doctor.examine_decoder(decoder(scale=False), framework="torch")
    assert report.names == [("no scale",)]
