"""What a report advises is done, as it is printed, in the shell; then the verdict is no worse."""

import re
import shlex

import pytest

from utils.doctor import _child, command

FILE = '''
import numpy as np
import torch
from torch import nn


class Base(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.apart = heads
        self.first, self.second, self.third, self.fourth = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, keep=None):
        q, k, v = (layer(x).unflatten(-1, (self.apart, -1)).transpose(1, 2)
                   for layer in (self.first, self.second, self.third))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if keep is not None:
            scores = scores.masked_fill(~keep, -1e9)
        return self.fourth((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Tempered(Base):
    def __init__(self, dim, heads, sharpness):
        super().__init__(dim, heads)
        assert sharpness == 1.0


class TemperedCausal(Tempered):
    def forward(self, x):
        return super().forward(x, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril())


class CausalByName(Base):
    def forward(self, x):
        return super().forward(x)


class WithoutNumber(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first, self.second, self.third, self.fourth = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (layer(x).unflatten(-1, (3, -1)).transpose(1, 2)
                   for layer in (self.first, self.second, self.third))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return self.fourth((weights @ v).transpose(1, 2).flatten(2))


built = WithoutNumber(12)


def refusing(q, k, v, keep=None):
    if keep is not None:
        raise NotImplementedError("masks come later")
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def strange(queries, keys, values, sharpness):
    return (sharpness * queries @ keys.mT / keys.shape[-1] ** 0.5).softmax(-1) @ values


class OfDrawers:
    """Its matrices are where the doctor does not look."""

    def __init__(self, dim, heads):
        self.heads, self.drawers = heads, {n: {} for n in range(4)}

    def forward(self, x):
        q, k, v = (np.stack(np.split(x @ self.drawers[n]["inside"], self.heads, -1), 1)
                   for n in range(3))
        weights = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
        context = weights / weights.sum(-1, keepdims=True) @ v
        return np.concatenate([*np.moveaxis(context, 1, 0)], -1) @ self.drawers[3]["inside"]
'''
IN_FLAX = """
import numpy as np
from flax import linen


class Attention(linen.Module):
    def __init__(self, num_heads):
        self.num_heads = num_heads

    def __call__(self, x):
        q, k, v = (np.stack(np.split(x @ self.held[n]["kernel"], self.num_heads, -1), 1)
                   for n in ("query", "key", "value"))
        weights = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
        context = weights / weights.sum(-1, keepdims=True) @ v
        return np.concatenate([*np.moveaxis(context, 1, 0)], -1) @ self.held["out"]["kernel"]
"""
FLAX = """
class Module:
    def apply(self, variables, x):
        self.held = variables["params"]
        return self(x)
"""
RANK = ("could not examine", "unexplained", "sick", "healthy")


def run(capsys, words):
    """Run the command, its words as a shell would split them; return (verdict, what it prints)."""
    status = command.main(shlex.split(words))
    verdict = next(name for name, number in command.STATUS.items() if number == status)
    return verdict, capsys.readouterr().out


def code_of(text):
    """Return the blocks of code in a report, and the command after them."""
    blocks = re.findall(r"(?:^ {6}.*\n|^ *\n)+", text, re.MULTILINE)
    blocks = [re.sub("^ {6}", "", block, flags=re.MULTILINE) for block in blocks if block.strip()]
    return blocks[0], blocks[-1].strip()


@pytest.mark.parametrize(("name", "completed"), [
    ("Tempered", {"sharpness=...": "sharpness=1.0"}),
    ("TemperedCausal", {"sharpness=...": "sharpness=1.0"}),
    ("strange", {"sharpness=...": "sharpness=1.0"}),
    ("OfDrawers", {"...  ": 'one.drawers = [{"inside": w} for w in (W_q, W_k, W_v, W_o)]'})])
def test_code_is_completed_and_the_command_examines_it(tmp_path, capsys, name, completed):
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    verdict, text = run(capsys, f"{file}:{name}")
    assert verdict == "could not examine", text
    code, then = code_of(text)
    for before, after in completed.items():
        assert code.count(before) == 1, code
        code = code.replace(before, after + "  ")
    file.write_text(f"{FILE}\n\n{code}")
    assert then.startswith(f"{command.COMMAND} {file}:"), then
    verdict, text = run(capsys, then.removeprefix(command.COMMAND))
    assert verdict == "healthy", text


def test_a_layer_of_jax_is_told_as_that_and_three_lines_make_a_function_of_it(tmp_path, capsys):
    """With a stand-in for Flax, whose layers hold no weights, either."""
    file, names = tmp_path / "mine.py", '("query", "key", "value", "out"), (W_q, W_k, W_v, W_o)'
    (tmp_path / "flax").mkdir()
    (tmp_path / "flax" / "linen.py").write_text(FLAX)
    file.write_text(IN_FLAX)
    verdict, text = run(capsys, f"{file}:Attention")
    assert verdict == "could not examine"
    assert "it is a layer of Flax, which the doctor does not examine" in " ".join(text.split())
    code, then = code_of(text)
    filled = "{name: {'kernel': w} for name, w in zip(" + names + ")}"
    file.write_text(f"{IN_FLAX}\n\n{code.replace('...', filled)}")
    assert run(capsys, then.removeprefix(command.COMMAND))[0] == "healthy"


@pytest.mark.parametrize(("name", "said", "filled"), [
    ("CausalByName", "`--causal`", {}),
    ("built", "`--n-heads …`", {"…": "3"}),
    ("refusing", "`--masks none`", {})])
def test_an_option_is_given_as_it_is_printed(tmp_path, capsys, name, said, filled):
    file = tmp_path / "mine.py"
    file.write_text(FILE.replace("CausalByName", "CausalAttention"))
    name = name.replace("CausalByName", "CausalAttention")
    before, text = run(capsys, f"{file}:{name}")
    assert said in " ".join(text.split()), text
    option = said.strip("`")
    for placeholder, value in filled.items():
        option = option.replace(placeholder, value)
    after, text = run(capsys, f"{file}:{name} {option}")
    assert RANK.index(after) >= RANK.index(before) or name == "CausalAttention", text
    if name == "CausalAttention":  # it attends to later tokens: that is what was asked
        assert "no causal mask" in text
    else:
        assert after == "healthy"


OWN_MASK = FILE + """

class Sets:
    def __init__(self, keep):
        self.keep = keep


class WithSets(Base):
    def forward(self, x, mask=None, past=None):
        return super().forward(x, mask.keep if mask is not None else None)
"""
CALL = """

def call(module, x, memory, keep):
    return module(x, None if keep is None else Sets(keep))
"""
STEP = """

def step(q, k, v, cache):
    keys, values = cache or (k[:, :, :0], v[:, :, :0])
    keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
    hidden = torch.ones(q.shape[2], keys.shape[2], dtype=torch.bool).triu(
        1 + keys.shape[2] - q.shape[2])
    scores = (q @ keys.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ values, (keys, values)
"""


def test_a_mask_and_a_cache_of_its_own_kind_are_examined_as_the_notes_say(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(OWN_MASK)
    verdict, text = run(capsys, f"{file}:WithSets")
    text = " ".join(text.split())
    assert (verdict, "But its mask (mask) was not examined." in text) == ("healthy", True), text
    assert "Write a function call(module, x, memory, keep)" in text
    assert "with `--call call` and `--self-attention`" in text
    assert "examine a function step(q, k, v, cache)" in text
    assert "with `--level decoding`" in text
    file.write_text(OWN_MASK + CALL + STEP)
    verdict, text = run(capsys, f"{file}:call")
    assert verdict == "could not examine"
    assert "examine that module, or its class, with `--call call`" in " ".join(text.split())
    verdict, text = run(capsys, f"{file}:WithSets --call call --self-attention")
    assert (verdict, "with a mask" in " ".join(text.split())) == ("healthy", True), text
    verdict, text = run(capsys, f"{file}:step --level decoding")
    assert verdict == "healthy", text


def test_every_option_that_a_sentence_names_is_one_of_the_command():
    """The texts of the package are searched, so that no new sentence names an option in vain."""
    found = {option for text in (file.read_text("utf-8") for file in _child.DOCTOR.rglob("*.py"))
             for option in re.findall(r"[^`]`(\w+)=[^`]*`", text)}
    known = {action.dest for action in command.parser()._actions}
    assert {"causal", "masks", "n_heads", "roles", "call", "self_attention"} <= found <= known


def test_options_are_spelled_as_the_shell_spells_them():
    spelled = {"causal=True": "--causal", 'masks="heads alike"': "--masks heads-alike",
               "n_heads=…": "--n-heads …", "causal=False": "--causal no", "call=…": "--call …",
               'roles={"q": name, "k": name}': "--roles q=name,k=name"}
    for option, words in spelled.items():
        assert command.spelled({"a": [f"Pass `{option}`."]}) == {"a": [f"Pass `{words}`."]}
        command.parser().parse_args(["a.py:b", *words.replace("…", "3").split()])
