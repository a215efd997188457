"""Kinds of programs on which a door that guesses too early is wrong, examined as a user would.

The programs stand in one file, of which the doctor runs what it needs.
"""

import textwrap

import pytest

from utils.doctor import _child

FILE = '''
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, num_heads = 12, 2


class Base(nn.Module):
    """Self-attention in heads; others change how it is built and called."""

    def __init__(self, dim, heads):
        super().__init__()
        self.apart = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))

    def heads(self, x, y=None, z=None):
        sides = x, x if y is None else y, x if z is None else z
        return [to(side).unflatten(-1, (self.apart, -1)).transpose(1, 2) for to, side in zip(
            (self.to_q, self.to_k, self.to_v), sides)]

    def attend(self, q, k, v, hidden=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        return self.attend(*self.heads(x))


class OnlySwitches(Base):
    def forward(self, x, attn_mask=None):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.attend(*self.heads(x), later if attn_mask is not None else None)


class SwitchesTooEarly(Base):
    def forward(self, x, attn_mask=None):
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2)
        return self.attend(*self.heads(x), later if attn_mask is not None else None)


class GlobalSizes(Base):
    def __init__(self):
        super().__init__(WIDTH, num_heads)


def flagged(query, key, value, causal=False):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1)
    return torch.softmax(scores, -1) @ value


def flagged_late(query, key, value, causal=False):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(2)
    return torch.softmax(scores, -1) @ value


class TwoMasks(Base):
    def forward(self, q, k, v, tgt_padding_mask=None, src_padding_mask=None):
        out = self.attend(*self.heads(q, k, v), None if src_padding_mask is None else
                          src_padding_mask[:, None, None] == 0)
        return out


class ManyHeads(Base):
    def __init__(self, feature_dim, total_num_of_att_heads):
        super().__init__(feature_dim, total_num_of_att_heads)


class Unheard(Base):
    def __init__(self, hidden_units, splits):
        super().__init__(hidden_units, splits)


def over_axis_1(q, k, v):
    """Three axes are meant: (b, i, d)."""
    scores = np.matmul(q, k.swapaxes(-1, -2)) / np.sqrt(k.shape[-1])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ v


def two_axes(q, k, v):
    scores = q @ k.T / np.sqrt(k.shape[-1])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ v


class OfLayers:
    """A plain class that holds layers."""

    scale = 1.0

    def __init__(self, dim, n_head):
        self.n_head = n_head
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def __call__(self, x):
        q, k, v = (y.unflatten(-1, (self.n_head, -1)).transpose(1, 2)
                   for y in self.qkv(x).chunk(3, -1))
        weights = (self.scale * q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class OfLayersUnscaled(OfLayers):
    def __call__(self, x):
        self.scale = (x.shape[-1] // self.n_head) ** 0.5
        return super().__call__(x)


class OfAList:
    """Its matrices are in one list."""

    def __init__(self, d_model, num_heads):
        self.num_heads = num_heads
        self.weights = [np.random.standard_normal((d_model, d_model)) for _ in "qkvo"]

    def forward(self, x, memory):
        q, k, v = (np.stack(np.split(side @ w, self.num_heads, -1), 1)
                   for side, w in zip((x, memory, memory), self.weights))
        scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        context = weights / weights.sum(-1, keepdims=True) @ v
        return np.concatenate([*np.moveaxis(context, 1, 0)], -1) @ self.weights[-1]


class OfADict(OfAList):
    """Its matrices are in a dict."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.params = dict(zip(("query", "key", "value", "out"), self.weights))
        del self.weights

    def forward(self, x, memory):
        self.weights = [self.params[name] for name in ("query", "key", "value", "out")]
        return super().forward(x, memory)


class OfOneMatrix(OfAList):
    """Three matrices stand side by side in one."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.W_qkv, self.W_o = np.concatenate(self.weights[:3], -1), self.weights[3]
        del self.weights

    def forward(self, x, memory):
        self.weights = [*np.split(self.W_qkv, 3, -1), self.W_o]
        return super().forward(x, memory)


def turn(y, cos, sin):
    a, b = y.chunk(2, -1)
    return y * cos + torch.cat((-b, a), -1) * sin


class GivenTables(Base):
    def forward(self, hidden_states, rotary_cos, rotary_sin):
        q, k, v = self.heads(hidden_states)
        q, k = turn(q, rotary_cos, rotary_sin), turn(k, rotary_cos, rotary_sin)
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        return self.attend(q, k, v, later)


class OnlyKeysTurn(Base):
    def forward(self, hidden_states, rotary_cos, rotary_sin):
        q, k, v = self.heads(hidden_states)
        return self.attend(q, turn(k, rotary_cos, rotary_sin), v)


class LastAxisOfTheMask(Base):
    """x is (i, b, d), and a mask (i, j, b) masks where it is True; other ranks do nothing."""

    def forward(self, w, mask=None):
        hidden = None
        if mask is not None and mask.ndim == 3:
            hidden = mask.permute(2, 0, 1)[:, None]
        return self.attend(*self.heads(w.transpose(0, 1)), hidden).transpose(0, 1)


class Packed(nn.Module):
    def forward(self, qkv):                              # (b, i, 3 d)
        q, k, v = qkv.chunk(3, dim=-1)
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


class LocalHeads(nn.Module):
    def __init__(self, dim, n_local_heads, n_kv_heads):
        super().__init__()
        self.n_local_heads, self.kv, self.hd = n_local_heads, n_kv_heads, dim // n_local_heads
        self.q_proj, self.o_proj = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.k_proj, self.v_proj = (nn.Linear(dim, n_kv_heads * self.hd) for _ in "kv")

    def forward(self, x, position_embeddings):
        q, k, v = (p(x).unflatten(-1, (-1, self.hd)).transpose(1, 2)
                   for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (turn(y, *position_embeddings) for y in (q, k))
        k, v = (y.repeat_interleave(self.n_local_heads // self.kv, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class DropsInEvaluation(Base):
    def forward(self, x):
        y = F.scaled_dot_product_attention(*self.heads(x), dropout_p=0.25, is_causal=True)
        return self.to_out(y.transpose(1, 2).flatten(2))


class SecondResult(Base):
    def forward(self, query, feat):
        q, k, v = self.heads(query, feat, feat)
        return {"scores": q @ k.mT, "out": self.attend(q, k, v)}


class OfPixels(Base):
    def forward(self, x, height, width):
        assert x.shape[1] == height * width
        return self.attend(*self.heads(x))


class AtAPosition(Base):
    def forward(self, x, start_pos, is_training, mask=None):
        assert start_pos == 0 and not is_training
        return self.attend(*self.heads(x), mask)


class OneLess(Base):
    """A mask of ones and zeros is turned into an added one; its heads are torn."""

    def forward(self, x, mask):                          # (b, j), 1 = may attend
        q, k, v = self.heads(x)
        scores = q @ k.mT / q.shape[-1] ** 0.5 - 1e30 * (1 - mask[:, None, None])
        return self.to_out((scores.softmax(-1) @ v).reshape(x.shape))
'''
# {name: (verdict, faults, what must be said)}
SAID = {
    "OnlySwitches": ("healthy", [], "attn_mask only turns a causal mask on: its content is not"),
    "SwitchesTooEarly": ("sick", ["causal off by one"], "called as (x, attn_mask=mask)"),
    "GlobalSizes": ("healthy", [], "with d_model = 12 and 2 heads"),
    "flagged": ("healthy", [], "causal=True), with q (b, h, i, d), causal by its own mask, it "
                "equals the causal reference"),
    "flagged_late": ("sick", ["causal off by one"], "causal=True)"),
    "TwoMasks": ("healthy", [], "src_padding_mask: (b, j), True = may attend"),
    "ManyHeads": ("healthy", [], "total_num_of_att_heads=3"),
    "Unheard": ("healthy", [], "Guessed, as the names do not say it: splits = n_heads"),
    "over_axis_1": ("sick", ["softmax over queries"],
                    "It also runs with q (b, h, i, d), without an error, but then it mixes"),
    "two_axes": ("healthy", [], "with q (i, d)"),
    "OfLayers": ("healthy", [], "called as (x)"),
    "OfLayersUnscaled": ("sick", ["no scale"], "called as (x)"),
    "OfAList": ("healthy", [], "forward is called as (x, memory)"),
    "OfADict": ("healthy", [], "forward is called as (x, memory)"),
    "OfOneMatrix": ("healthy", [], "forward is called as (x, memory)"),
    "GivenTables": ("healthy", [], "rotary_cos=cos of the angles of RoPE"),
    "OnlyKeysTurn": ("sick", ["RoPE not on both"], "rotary_sin=sin of the angles of RoPE"),
    "LastAxisOfTheMask": ("healthy", [], "mask: (i, j, b), True = masked"),
    "LocalHeads": ("healthy", [], "causal by its own mask"),
    "DropsInEvaluation": ("sick", ["dropout in eval"], "causal by its own mask"),
    "SecondResult": ("healthy", [], "called as (query=q, feat=memory)"),
    "OfPixels": ("healthy", [], "height=n, width=1"),
    "AtAPosition": ("healthy", [], "start_pos=0, is_training=0"),
    "OneLess": ("sick", ["merge without transpose"], "1 = may attend")}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("kinds") / "programs.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize("name", SAID)
def test_a_kind_of_program_is_understood(file, name):
    verdict, faults, said = SAID[name]
    report = _child.examined(file, name, {})
    assert report.verdict == verdict, report
    assert [*dict.fromkeys(one for some in report.names for one in some)] == faults, report
    assert said in " ".join(report.full().split()), report


def test_a_flag_is_set_as_the_reader_asks_for(file):
    assert _child.examined(file, "flagged", {"causal": True}).verdict == "healthy"
    report = _child.examined(file, "flagged_late", {"causal": True})
    assert report.names == [("causal off by one",)]
    assert _child.examined(file, "flagged_late", {"causal": False}).verdict == "healthy"


COMPLETED = {"packed = ...": "packed = torch.cat([q, k, v], -1).flatten(0, 1)",
             "(packed)": "(packed).reshape(v.shape)"}


def test_one_array_of_q_k_and_v_is_asked_for_and_the_code_works_when_it_is_completed(file):
    report = _child.examined(file, "Packed", {})
    assert report.verdict == "could not examine"
    assert report.headline == "it takes q, k and v in one array."
    code = report.adapter
    for before, after in COMPLETED.items():
        assert before in code
        code = code.replace(before, after)
    file.with_name("completed.py").write_text(file.read_text() + textwrap.dedent(code))
    assert report.then == 'examine(kernel, masks="none")'
    again = _child.examined(file.with_name("completed.py"), "kernel", {"masks": "none"})
    assert again.verdict == "healthy", again
