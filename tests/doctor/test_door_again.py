"""What forty programs taught the door: each test is a small program of its kind."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from utils.doctor import _child, _search, _verdict, door, examine
from utils.doctor._search import Switch
from utils.doctor.door import call, names, plan
from utils.doctor.levels import designs


class Plain(nn.Module):
    """Self-attention that tests change."""

    def __init__(self, dim, heads):
        super().__init__()
        self.apart = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))

    def changed(self, q, k):
        return q, k

    def keep(self, n):
        return torch.ones(n, n, dtype=torch.bool)

    def forward(self, x):
        q, k, v = (to(x).unflatten(-1, (self.apart, -1)).transpose(1, 2)
                   for to in (self.to_q, self.to_k, self.to_v))
        q, k = self.changed(q, k)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~self.keep(x.shape[1]), -torch.inf)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Padded(Plain):
    """It is causal by itself, and takes padding, whose mask may also be added as numbers."""

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)
        del self.to_q, self.to_k, self.to_v, self.to_out

    def forward(self, x, timeline_mask=None):
        later = ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return self.mha(x, x, x, attn_mask=later, key_padding_mask=timeline_mask)[0]


def test_padding_of_a_causal_layer_is_found_in_the_middle():
    report = examine(Padded)
    assert report.verdict == "healthy", report
    assert "timeline_mask: (b, j), True = masked" in report.called


class SmallConfig:
    def __init__(self, hidden_size=64, num_heads=8, look_back=3, dropout=0.0):
        self.hidden_size, self.num_heads, self.look_back = hidden_size, num_heads, look_back


class Local(Plain):
    """Its window is in its configuration."""

    def __init__(self, config: SmallConfig):
        super().__init__(config.hidden_size, config.num_heads)
        self.look_back = config.look_back

    def keep(self, n):
        distance = torch.arange(n)[:, None] - torch.arange(n)
        return (distance >= 0) & (distance < self.look_back)


def test_a_configuration_has_the_defaults_of_its_own_class():
    report = examine(Local)
    assert "config=a SmallConfig with small sizes" in report.called
    assert report.verdict == "healthy"
    assert "up to 2 before and 0 after" in " ".join(report.notes)


def test_of_several_explanations_those_with_the_fewest_faults_are_left():
    design, fault = Switch("sink", {"a": 1}, "of 0"), Switch("no scale", {"b": 1})
    found, notes = designs.recognised([(fault, fault), (design, fault)])
    assert (found, len(notes)) == ([(fault,)], 1)
    assert designs.recognised([(fault,)]) == ([(fault,)], [])
    assert designs.recognised([(fault,), (design,)])[0] == [()]
    assert designs.recognised([]) == ([], [])


class WithOptions(Plain):
    """A mask of an unusual name, and an optional argument of another kind."""

    def forward(self, x, alive=None, cache=None):
        assert cache is None
        self.alive = alive
        return super().forward(x)

    def keep(self, n):
        return super().keep(n) if self.alive is None else self.alive[:, None, None, :].bool()


def test_a_mask_of_any_name_is_found_and_what_is_left_out_is_said():
    report = examine(WithOptions)
    assert "called as (x, alive=mask); alive: (b, j), True = may attend" in report.called
    assert report.notes[0].startswith("It was called without cache, so that is not examined.")


class Further(Plain):
    """Self-attention with two optional arguments of which the doctor knows nothing."""

    def forward(self, x, cache=None, flavour=None):
        return super().forward(x)


def test_arguments_that_the_doctor_does_not_know_are_left_out_and_named():
    report = examine(Further)
    assert (report.verdict, report.names) == ("healthy", [])
    assert report.called.endswith("called as (x)")
    assert report.notes[0].startswith(
        "It was called without cache and flavour, so that is not examined. If it is a cache, ")


class TimeNorm(nn.Module):
    def __init__(self, dim, axis):
        super().__init__()
        self.axis, self.gain = axis, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return (x - x.mean(self.axis, keepdim=True)) / x.std(self.axis, keepdim=True) * self.gain


class Normed(Plain):
    """A norm of its own class stands before it."""

    axis = -1

    def __init__(self, dim, heads):
        super().__init__(dim, heads)
        self.norm = TimeNorm(dim, self.axis)

    def keep(self, n):
        return torch.ones(n, n, dtype=torch.bool).tril()

    def forward(self, x):
        return super().forward(self.norm(x))


class NormedOverTime(Normed):
    axis = 1


def test_a_norm_that_is_taken_out_is_named_and_may_leak():
    report = examine(Normed)
    assert report.verdict == "healthy"
    assert "Its TimeNorm was taken out and is not examined." in report.notes
    report = examine(NormedOverTime)
    assert (report.verdict, report.names) == ("sick", [("LayerNorm over time",)])
    assert "its TimeNorm" in report.headline
    assert " as the program without its TimeNorm in " in report.evidence


class Rotated(Plain):
    """It gets complex angles, and may rotate only q."""

    both = True

    def forward(self, x, freqs_cis):
        self.angles = freqs_cis
        return super().forward(x)

    def changed(self, q, k):
        return self.turned(q), self.turned(k) if self.both else k

    def turned(self, q):
        pairs = torch.view_as_complex(q.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self.angles).flatten(-2).to(q.dtype)


class RotatedOnce(Rotated):
    both = False


class RotatedLate(Plain):
    """It makes its own angles, one position later for q."""

    def changed(self, q, k):
        return self.turned(q, 1), self.turned(k, 0)

    def turned(self, q, start):
        steps = torch.arange(start, start + q.shape[2], dtype=q.dtype)
        frequencies = 1e4 ** -(torch.arange(0, q.shape[-1], 2) / q.shape[-1]).to(q.dtype)
        angles = torch.outer(steps, frequencies).repeat(1, 2)
        a, b = q.chunk(2, -1)
        return q * angles.cos() + torch.cat([-b, a], -1) * angles.sin()


def test_rope_is_examined_with_angles_and_its_mistakes_are_named_without_an_option():
    report = examine(Rotated)
    assert report.verdict == "healthy"
    assert any("(RoPE): dimensions 2n and 2n + 1 are rotated together" in note
               for note in report.notes)
    assert examine(RotatedOnce).names == [("RoPE not on both",)]
    assert examine(RotatedLate).names == [("RoPE off by one",)]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("axes", plan.ANGLES)
def test_tables_of_angles_have_the_usual_shapes_and_values(axes, whole):
    d = 8 if whole else 4
    cos, still = (call._positions("cos", call._angles(plan.Angles(axes, whole, table), 5, 8), 5,
                                  torch.zeros(1)) for table in ("pairs", "position 0"))
    assert cos.shape == {"i d": (5, d), "1 i d": (1, 5, d), "1 1 i d": (1, 1, 5, d),
                         "1 i 1 d": (1, 5, 1, d)}[axes]
    cos = cos.reshape(5, d).numpy()
    np.testing.assert_allclose(cos[:, 0], np.cos(np.arange(5)), rtol=1e-5)
    np.testing.assert_allclose(cos[:, d // 4], np.cos(np.arange(5) * 0.1), rtol=1e-5)
    assert (still == 1).all()


def bmm(query, key, value, mask=None):
    scores = torch.bmm(query, key.mT) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    return scores.softmax(dim=1) @ value  # over the queries


def test_of_the_meanings_of_a_mask_the_one_with_the_fewest_faults_is_taken():
    report = examine(bmm)
    assert report.names == [("softmax over queries",)], report
    assert "True = masked (assumed: " in report.called


class Vague(Plain):
    """Its constructor speaks of nothing that the doctor knows."""

    def __init__(self, foo, bar, room):
        super().__init__(foo, bar)
        self.register_buffer("mask", torch.ones(room, room))


class Tempered(Plain):
    """One argument is no size."""

    def __init__(self, dim, heads, sharpness):
        super().__init__(dim, heads)
        self.sharpness = sharpness

    def changed(self, q, k):
        return q * self.sharpness, k


class Optional(Plain):
    """It wants one of two widths."""

    def __init__(self, heads, dim=None, out_dim=None):
        assert dim is not None, "which width?"
        super().__init__(dim, heads)


def test_arguments_that_are_sizes_are_guessed_and_others_are_not():
    report = examine(Vague)
    assert report.verdict == "healthy"
    assert ("Guessed, as the names do not say it: foo = d_model, bar = n_heads, room = a length."
            in report.notes)
    report = examine(Tempered)
    assert (report.verdict, report.headline) == (
        "could not examine", "it is built with sharpness, and the doctor knows no value for that.")
    assert examine(Optional).verdict == "healthy"


class Listed(Plain):
    def forward(self, inputs):
        q, k, v = inputs
        assert q.shape[2:] == k.shape[2:] == v.shape[2:]
        self.sides = iter((q, k, v))
        q, k, v = (to(side).unflatten(-1, (self.apart, -1)).transpose(1, 2) for to, side in zip(
            (self.to_q, self.to_k, self.to_v), inputs, strict=True))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


def test_a_list_of_q_k_and_v_is_found():
    assert door.layer(Listed).options["self_attention"] is False
    report = examine(Listed)
    assert "called as (inputs=[q, k, v])" in report.called
    assert report.verdict == "healthy"


class Flagged(nn.Module):
    """Its mask masks with a flag only, and then takes the place of a causal one."""

    def __init__(self, mask_flag=False):
        super().__init__()
        self.mask_flag = mask_flag

    def forward(self, q, k, v, attn_mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if self.mask_flag:
            if attn_mask is None:
                attn_mask = ~torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril()
            scores = scores.masked_fill(attn_mask, -torch.inf)
        return scores.softmax(-1) @ v


def test_a_mask_is_called_ignored_only_if_no_flag_turns_it_on():
    report = examine(Flagged)
    assert report.verdict == "healthy", report
    assert "Its mask masks only with mask_flag=True, which is not the default." in report.notes
    assert any("takes the place of the causal one" in note for note in report.notes)


class Replaced(Plain):
    """Its mask takes the place of a causal one."""

    def forward(self, x, mask=None):
        self.mask = mask
        return super().forward(x)

    def keep(self, n):
        return super().keep(n).tril() if self.mask is None else self.mask


def test_a_mask_of_a_layer_may_take_the_place_of_its_causal_one():
    report = examine(Replaced)
    assert report.verdict == "healthy", report
    assert any("takes the place of the causal one" in note for note in report.notes)


class MaskedCausal(Plain):
    """It holds a mask and forgets to use what masked_fill returns."""

    def __init__(self, dim, heads, max_T=16):
        super().__init__(dim, heads)
        self.register_buffer("mask", torch.ones(max_T, max_T).tril()[None, None])


class OnlyByName(Plain):
    pass


OnlyByName.__name__ = "CausalAttention"


def test_a_name_and_a_triangle_promise_a_causal_mask():
    assert examine(MaskedCausal).names == [("no causal mask",)]
    report = examine(OnlyByName)
    assert report.verdict == "healthy"
    assert any("Is it to be causal, as its name says so?" in note for note in report.notes)


PROJECT = '''
import torch
from torch import nn
from .registry import MODULES


@MODULES.register_module()
def attend(q, k, v):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


@MODULES.register_module()
def broken(q, k, v=[0][1]):
    return q
'''


def test_a_decorator_that_is_absent_is_left_out_and_said(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(PROJECT)
    report = _child.examined(file, "attend", {})
    assert report.verdict == "healthy"
    assert report.notes[-1] == (
        "attend was made without its decorator @MODULES.register_module(), which needs .registry, "
        "which is not installed (model.py, line 4).")
    report = _child.examined(file, "broken", {})
    assert report.verdict == "could not examine"
    assert "RefusalError" not in str(report)
    assert "IndexError" in report.headline


def test_the_time_limit_moves_that_of_the_search(tmp_path, monkeypatch):
    monkeypatch.setattr(_search, "SECONDS", 2.0)
    monkeypatch.setattr(_child.os, "_exit", lambda status: None)
    request = {"file": str(tmp_path / "no.py"), "name": "a", "options": {}, "seconds": 300.0}
    monkeypatch.setattr(_child, "examined", lambda *_: examine(bmm))
    monkeypatch.setattr(_child.sys, "argv", ["", "", json.dumps(request), str(tmp_path / "out")])
    _child.main()
    assert _search.SECONDS == 10.0


def test_a_search_may_be_limited_and_switches_may_be_tried_alone():
    a, b, c = (Switch(name, {name: 1}) for name in "abc")
    both = {"a": 1, "b": 1}
    assert _search.search([a, b], both.__eq__).found == [(a, b)]
    assert _search.search([a, b], both.__eq__, 1) == ([], 3, 3)
    assert _search.search([a, b], {"c": 1}.__eq__, alone=[c]).found == [(c,)]
    assert not _search.search([a], {"a": 1, "c": 1}.__eq__, alone=[c]).found


class Cross(nn.Module):
    def __init__(self, dim, strange):
        raise ValueError("nobody can build this")

    def forward(self, latents, inputs, mask=None):
        scores = latents @ inputs.mT
        scores = scores + mask
        return latents + scores


def test_the_code_to_complete_fits_the_program():
    code, then = door.adapter(Cross)
    assert "module(latents=x, inputs=memory, mask=None if keep is None else ~keep * -1e9)" in code
    assert "# keep is None, or (b, 1, i, j) with True = may attend" in code
    assert "self_attention" not in then
    assert 'masks="heads alike"' in then
    assert "residual=True" in then
    assert "post_norm" not in then


def test_a_design_without_w_o_is_none_through_a_call_either():
    class NoOutput(Plain):
        def __init__(self, dim, heads):
            super().__init__(dim, heads)
            self.to_out = nn.Identity()

    report = examine(lambda d_model, n_heads: NoOutput(d_model, n_heads), masks="none",
                     self_attention=True, call=lambda module, x, memory, keep: module(x))
    assert report.verdict == "healthy", report


@pytest.mark.parametrize(("argument", "value"), [
    ("n_state", 12), ("latent_dim", 12), ("max_T", names.ROOM), ("n_positions", names.ROOM)])
def test_further_names_of_sizes(argument, value):
    assert names.by_name(argument, 12, 3) == value


def test_what_is_not_searched_says_how_to_search_longer():
    class Exam:
        undefined, random, untried = (), False, "5 of 9"
    verdict, headline = _verdict._without_name(Exam)
    assert verdict == "unexplained"
    assert "--seconds" in headline
    assert {one.settings["rotary"].sign for one in designs.turned()} == {1, -1}
