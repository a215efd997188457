"""Parts of today's models that a program is told to have; grouped modules; layers made in calls."""

import argparse
from functools import partial

import numpy as np
import pytest
import torch
from exact import raises
from torch import nn

from utils import doctor
from utils.doctor import _options, command, faulty
from utils.doctor.faults import TODAY
from utils.doctor.faulty.kernel import Band, Masking

YARN = (0.1 * np.log(4) + 1) ** 2
HALVES = {"rotary": ("halves", 10_000.0)}
RIGHT = {"rope": ("halves", HALVES), "pairs": (("pairs", 5e5), {"rotary": ("pairs", 5e5)}),
         "qk_norm": ("rms", {"unit": "rms"}), "layer": ("layer", {"unit": "layer"}),
         "l2": ("l2", {"unit": "l2"}), "width": ("width", {"unit": "rms of all heads"}),
         "window": (4, {"band": Band(3, 0)}),
         "cap": (30, {"cap": 30.0}), "sink": (0.5, {"sink": 0.5}), "yarn": (4, {"factor": YARN})}
SICK = [
    ("rope", {}, "no RoPE"), ("rope", {"rotary": ("pairs", 10_000.0)}, "other RoPE pairing"),
    ("rope", {"rotary": ("halves", 500_000.0)}, "other RoPE base"),
    ("rope", HALVES | {"shift": 1}, "RoPE off by one"),
    ("rope", HALVES | {"shift": -1}, "RoPE off by one"),
    ("rope", HALVES | {"turned": "q"}, "RoPE not on both"),
    ("rope", HALVES | {"turned": "k"}, "RoPE not on both"),
    ("rope", HALVES | {"turned": "qkv"}, "RoPE on values"),
    ("qk_norm", {}, "no QK-norm"), ("qk_norm", {"unit": "rms of all heads"},
                                    "QK-norm over all heads"),
    ("width", {"unit": "rms"}, "QK-norm of each head"), ("width", {}, "no QK-norm"),
    ("width", {"unit": "rms of all heads", "gain": 0.0}, "other gain"),
    ("qk_norm", {"unit": "rms", "gain": 2.0}, "other gain"),
    ("qk_norm", {"unit": "rms", "gain": 0.0}, "other gain"),
    ("window", {"band": Band(4, 0)}, "window off by one"),
    ("window", {"band": Band(2, 0)}, "window off by one"),
    ("window", {"band": Band(None, 0)}, "no window"), ("window", {}, "no window"),
    ("cap", {}, "other soft-capping"), ("cap", {"cap": 50.0}, "other soft-capping"),
    ("cap", {"cap": 30.0, "masking": Masking("fill", "both", -30.0)},
     "soft-capping after the mask"),
    ("sink", {"sink": 0.5, "sink_scaled": True}, "sink scaled"),
    ("sink", {}, "no sink"), ("sink", {"sink": 0.5, "dropped": "last"}, "other column dropped"),
    ("yarn", {}, "no YaRN factor"), ("yarn", {"factor": YARN ** 2}, "YaRN's factor twice")]


def program(settings):
    return lambda q, k, v, keep: faulty.kernel.attention(q, k, v, keep, **settings)


def part(name):
    return "rope" if name == "pairs" else "qk_norm" if name in ("layer", "l2", "width") else name


@pytest.mark.parametrize("name", RIGHT)
def test_a_program_with_the_part_that_it_is_to_have_is_healthy(name):
    value, settings = RIGHT[name]
    assert doctor.examine(program(settings), parts={part(name): value}).verdict == "healthy"
    assert doctor.examine(program({}), parts={part(name): value}).verdict == "sick"


@pytest.mark.parametrize(("name", "settings", "fault"), SICK)
def test_what_is_wrong_with_a_part_has_a_name(name, settings, fault):
    report = doctor.examine(program(settings), parts={part(name): RIGHT[name][0]})
    assert report.verdict == "sick"
    assert report.names[0] == (fault,)


@pytest.mark.parametrize("cap", [1.5, 20, 50])
@pytest.mark.parametrize("value", [-np.inf, -1e9, -1e4])
def test_a_tanh_that_comes_after_the_mask_has_a_name(cap, value):
    def attend(q, k, v, keep=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if keep is not None:
            scores = scores.masked_fill(~keep, value)
        return (cap * torch.tanh(scores / cap)).softmax(-1) @ v
    report = doctor.examine(attend, parts={"cap": cap})
    assert report.names == [("soft-capping after the mask",)]
    assert f"masked scores become {-cap:g}" in str(report)


def test_a_sink_that_is_scaled_with_the_scores_has_a_name():
    def attend(q, k, v, keep=None):
        scores = q @ k.mT
        if keep is not None:
            scores = scores.masked_fill(~keep, -torch.inf)
        column = torch.full_like(scores[..., :1], -1.5)
        joined = torch.cat((scores, column), dim=-1) / q.shape[-1] ** 0.5
        return joined.softmax(-1)[..., :-1] @ v
    report = doctor.examine(attend, parts={"sink": -1.5})
    assert report.names == [("sink scaled",)]


def test_a_program_without_its_sink_and_with_another_part_gets_a_report():
    rotary = program({"rotary": ("halves", 10_000.0)})
    report = doctor.examine(rotary, parts={"sink": 0})
    assert (report.verdict, report.names) == ("unexplained", [])
    report = doctor.examine(rotary, parts={"sink": 0, "rope": "halves"})
    assert report.names == [("no sink",)]


def test_every_fault_of_a_part_is_among_these():
    assert {fault for _, _, fault in SICK} == {fault.name for fault in TODAY}


def test_a_fault_of_a_part_and_another_one_are_named_together():
    settings = HALVES | {"unit": "rms", "shift": 1, "scale": "none"}
    report = doctor.examine(program(settings), parts={"rope": "halves", "qk_norm": "rms"})
    assert [set(some) for some in report.names] == [{"no scale", "RoPE off by one"}]


def rotated(x, pairing):
    d = x.shape[-1]
    angle = torch.arange(x.shape[-2])[:, None] * 10_000.0 ** (-torch.arange(0, d, 2) / d)
    z = (x.unflatten(-1, (2, d // 2)).movedim(-2, -1) if pairing == "halves"
         else x.unflatten(-1, (d // 2, 2)))
    z = torch.view_as_complex(z.double().contiguous()) * torch.exp(1j * angle.double())
    z = torch.view_as_real(z)
    z = z.movedim(-1, -2) if pairing == "halves" else z
    return z.flatten(-2).to(x.dtype)


def decoder(norm=True, turn="qk", start=True, last=0, window=4):
    """Return a decoding step with a LayerNorm of q and k, RoPE, and a window, or without them."""
    def placed(x, letter, first):
        if norm and letter in "qk":
            x = torch.nn.functional.layer_norm(x, x.shape[-1:], eps=1e-6)
        before = x.new_zeros(*x.shape[:2], first, x.shape[3])
        return rotated(torch.cat([before, x], 2), "halves")[:, :, first:] if letter in turn else x

    def step(q, k, v, cache):
        keys, values = cache or (k[:, :, :0], v[:, :, :0])
        past = keys.shape[2]
        first = past if start else 0
        keys = torch.cat([keys, placed(k, "k", first)], 2)
        values = torch.cat([values, placed(v, "v", first)], 2)
        behind = past + torch.arange(q.shape[2])[:, None] - torch.arange(keys.shape[2])
        hidden = (behind < 0) | (behind >= window)
        scores = placed(q, "q", first + last) @ keys.mT / q.shape[-1] ** 0.5
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values, (keys, values)
    return step


@pytest.mark.parametrize(("options", "names"), [
    ({}, []), ({"turn": ""}, [("no RoPE",)]), ({"norm": False}, [("no QK-norm",)]),
    ({"turn": "q"}, [("RoPE not on both",)]), ({"turn": "qkv"}, [("RoPE on values",)]),
    ({"last": 1}, [("RoPE off by one",)]), ({"start": False}, [("positions restart",)]),
    ({"window": 5}, [("window off by one",)]), ({"window": 99}, [("no window",)])])
def test_the_parts_of_a_decoder_are_examined(options, names):
    parts = {"rope": "halves", "qk_norm": "layer", "window": 4}
    report = doctor.examine_decoder(decoder(**options), parts=parts, framework="torch")
    assert (report.verdict, report.names) == ("sick" if names else "healthy", names)


class Grouped(nn.Module):
    """Attention with fewer heads of k and v, with RoPE if a pairing is given."""

    pairing, tile, fused = "", False, False

    def __init__(self, dim, num_heads, num_kv_heads):
        super().__init__()
        self.h, self.kv, self.d = num_heads, num_kv_heads, dim // num_heads
        sizes = [self.h * self.d, self.kv * self.d, self.kv * self.d]
        if self.fused:
            self.qkv = nn.Linear(dim, sum(sizes))
        else:
            self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, n) for n in sizes)
        self.sizes, self.o_proj = sizes, nn.Linear(dim, dim)

    def forward(self, x):
        sides = self.qkv(x).split(self.sizes, -1) if self.fused else (
            self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (side.unflatten(-1, (-1, self.d)).transpose(1, 2) for side in sides)
        if self.pairing:
            q, k = rotated(q, self.pairing), rotated(k, self.pairing)
        n = self.h // self.kv
        k, v = ((side.repeat(1, n, 1, 1) if self.tile else side.repeat_interleave(n, 1))
                for side in (k, v))
        out = (q @ k.mT / self.d ** 0.5).softmax(-1) @ v
        return self.o_proj(out.transpose(1, 2).flatten(2))


class Tiled(Grouped):
    tile = True


class Fused(Grouped):
    fused = True


class FusedTiled(Tiled):
    fused = True


class Halves(Grouped):
    pairing = "halves"


@pytest.mark.parametrize(("kind", "fault"), [
    (Grouped, ""), (Fused, ""), (Tiled, "tile for repeat"), (FusedTiled, "tile for repeat")])
def test_groups_of_heads_are_a_design_and_tiling_them_a_fault(kind, fault):
    for one in (kind, kind(64, 8, 2)):
        report = doctor.examine(one)
        assert report.names == ([(fault,)] if fault else []), report
        assert report.verdict == ("sick" if fault else "healthy")


def test_the_part_of_a_class_is_examined_at_the_door():
    assert doctor.examine(Halves).notes[0].startswith("It rotates q and k")
    assert doctor.examine(Halves, parts={"rope": "halves"}).verdict == "healthy"
    assert doctor.examine(Halves, parts={"rope": "pairs"}).names == [("other RoPE pairing",)]
    assert doctor.examine(Grouped, parts={"rope": "pairs"}).names == [("no RoPE",)]


class New(nn.Module):
    """A layer whose last projection is made in every call."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x):
        q, k, v = (side(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
                   for side in (self.q, self.k, self.v))
        out = ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        return nn.Linear(x.shape[-1], x.shape[-1])(out)


def test_a_layer_that_is_made_in_every_call_is_named():
    before = nn.Module.register_parameter
    report = doctor.examine(New)
    assert report.names == [("new layer in every call",)]
    assert nn.Module.register_parameter is before


def test_a_division_after_the_softmax_is_named():
    def attend(q, k, v, keep=None):
        scores = q @ k.mT
        if keep is not None:
            scores = scores.masked_fill(~keep, -torch.inf)
        return scores.softmax(-1) / q.shape[-1] ** 0.5 @ v
    assert doctor.examine(attend).names == [("scaled after softmax",)]


def test_a_mask_that_is_transposed_where_it_is_square_is_named():
    def attend(q, k, v, keep=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if keep is not None and keep.shape[-1] == keep.shape[-2]:
            keep = keep.mT
        if keep is not None:
            scores = scores.masked_fill(~keep, -torch.inf)
        return scores.softmax(-1) @ v
    assert doctor.examine(attend).names == [("mask transposed",)]


@pytest.mark.slow
def test_a_block_whose_norm_stands_elsewhere_is_told_to_show_its_attention():
    class Block(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            self.norm = nn.LayerNorm(d_model)
            self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)

        def forward(self, x, padding):
            x = x * ~padding[..., None]  # which masks nothing
            query = self.norm(x)
            return query + self.attention(query, x, x)[0]
    report = doctor.examine(Block)
    assert report.verdict == "could not examine"
    assert "attention, of the class MultiheadAttention" in report.headline


@pytest.mark.parametrize(("parts", "message"), [
    ({"rotary": 1}, "parts has 'rotary'; the known ones are rope, qk_norm, window, cap, sink, "
                    "yarn"),
    ({"rope": "thirds"}, 'rope must be "halves" or "pairs", or (one of them, base), got '
                         "'thirds'"),
    ({"qk_norm": "batch"}, 'qk_norm must be "rms", "layer", "l2" or "width", got \'batch\''),
    ({"window": 0}, "window must be how many keys a query sees, itself included, got 0")])
def test_an_unknown_part_or_value_is_refused(parts, message):
    for level in ("kernel", "layer"):
        with raises(ValueError, message):
            doctor.examine(partial(faulty.kernel.attention), level, parts=parts)


def test_the_command_reads_parts():
    assert _options.parts("rope=pairs:500000,window=4,cap=50,sink=0") == {
        "rope": ("pairs", 500_000.0), "window": 4, "cap": 50.0, "sink": 0.0}
    for text in ("rope=thirds", "window=x", "rotary=1", "cap"):
        with pytest.raises(argparse.ArgumentTypeError):
            _options.parts(text)


def test_the_command_examines_parts(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("def attend(q, k, v, keep=None):\n"
                    "    scores = q @ k.mT / q.shape[-1] ** 0.5\n"
                    "    if keep is not None:\n"
                    "        scores = scores.masked_fill(~keep, float('-inf'))\n"
                    "    return scores.softmax(-1) @ v\n")
    assert command.main([f"{file}:attend", "--parts", "rope=halves", "--framework", "torch"]) == 1
    assert "no RoPE" in capsys.readouterr().out
