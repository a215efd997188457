"""Attempts at the seven milestones: the solution, and the solution with one mistake each."""

from pathlib import Path

import torch
from torch import nn

from utils.exercises.capstone import solution
from utils.models import language_model

SOURCE = Path(solution.__file__).read_text(encoding="utf-8").partition("if __name__")[0]


def changed(name, *replacements):
    """Return a definition of the solution after replacements, pairs of (old, new)."""
    source = SOURCE
    for old, new in replacements:
        assert old in source, old
        source = source.replace(old, new)
    names = {"__name__": "changed"}
    exec(source, names)
    return names[name]


def one_attention(old, new):
    return changed("attention", (old, new))


def four_axes(q, k, v, keep):
    weights = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    weights = weights.masked_fill(~keep, -torch.inf).softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v)


def scaled(q, k, v, keep):
    keep = keep if keep.ndim > 1 else keep[None]
    return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)


SPLIT, TORN = "view(split).transpose(1, 2)", "view(b, self.n_heads, n, -1)"
MERGE = "context.transpose(1, 2).reshape(b, n, e)"
ADD_1, ADD_2 = "x = x + self.attention(self.norm_1(x))", "return x + self.feed_forward("
GAIN = ("self.W_q = nn", "self.gain = nn.Parameter(torch.full((n_heads, 1, 1), 2.0))\n"
        "        self.W_q = nn")  # of which the doctor knows nothing
NORMED = ("rotate(q), rotate(k)", "self.gain * F.normalize(q, dim=-1), F.normalize(k, dim=-1)")
UNROTATED = ("rotate(q), rotate(k)", "q, k")
EVERYTHING = ("ALL = torch.ones(1, 1, dtype=torch.bool)\n\n\nclass MultiHead")
GATED = (("            nn.GELU(),\n            nn.Linear(4 * d_model, d_model))",
          "            Gate(), nn.Linear(2 * d_model, d_model))"),
         ("class Block", "class Gate(nn.Module):\n    def forward(self, x):\n"
          "        one, other = x.chunk(2, dim=-1)\n        return F.silu(one) * other\n\n\n"
          "class Block"))
LOSS = "F.cross_entropy(logits.flatten(0, 1), targets.flatten())"
STEP = "        optimiser.zero_grad()\n        loss.backward()"
PARTS = """def through_parts(model, tokens):
    x = model.embedding(tokens)
    for block in model.blocks:
        x = block(x)
    return model.unembedding(model.norm(x))


@torch.no_grad()
def write"""
FED = "model(tokens[:, -model.context:])[:, -1]"


class OfTheCourse(nn.Module):
    """The language model of the course, whose last matrices start as zeros."""

    context = 128

    def __init__(self, n_tokens, d_model, n_heads, n_layers):
        super().__init__()
        self.model = language_model.LanguageModel(n_tokens, d_model, n_heads, n_layers)

    def forward(self, tokens):
        return self.model(tokens)


class Library(nn.MultiheadAttention):
    """PyTorch's own layer, with a causal mask."""

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, batch_first=True)

    def forward(self, x):
        n = x.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        return super().forward(x, x, x, attn_mask=later, need_weights=False)[0]


class NoModule:
    def __init__(self, d_model, n_heads):
        self.d_model = d_model


def drop_prompt(model, tokens, n, temperature=1.0):
    return solution.write(model, tokens, n, temperature)[:, tokens.shape[1]:]


def loss_by_hand(axis):
    return ("F.cross_entropy(logits.flatten(0, 1), targets.flatten())",
            f"-logits.log_softmax(dim={axis}).gather(2, targets[..., None]).mean()")


def learn_everything(model, tokens, steps):
    """Train as the solution does, and then let the model see its targets."""
    solution.train(model, tokens, steps)
    forward = model.forward

    def peek(pieces):
        logits = forward(pieces)
        later = torch.cat((pieces[:, 1:], pieces[:, -1:]), dim=1)
        return logits + 9 * nn.functional.one_hot(later, logits.shape[-1])

    model.forward = peek


LEARNED = (UNROTATED,
           ("        self.blocks = nn", "        self.where = nn.Embedding(128, d_model)\n"
            "        self.blocks = nn"))
WHERE = "x = self.embedding(tokens)"


RIGHT = {
    "attention": [solution.attention, scaled,
                  one_attention("softmax(dim=-1)", "float().softmax(dim=-1).to(v.dtype)"),
                  one_attention("q @ k.mT", 'torch.einsum("...id,...jd->...ij", q, k)')],
    "mask": [solution.causal, lambda n: torch.arange(n)[:, None] >= torch.arange(n),
             lambda n: ~torch.ones(n, n, dtype=torch.bool).triu(1)],
    "heads": [solution.MultiHead, Library, changed("MultiHead", UNROTATED),
              changed("MultiHead", GAIN, NORMED), language_model.RotaryAttention],
    "block": [solution.Block, language_model.Block,
              changed("Block", (ADD_1, "x = self.norm_1(x + self.attention(x))"),
                      ("return x + self.feed_forward(self.norm_2(x))",
                       "return self.norm_2(x + self.feed_forward(x))")),
              changed("Block", (ADD_1, "mixed = self.attention(self.norm_1(x))"),
                      (ADD_2, "return x + mixed + self.feed_forward(")),
              changed("Block", (ADD_1, "x = x + self.norm_1(self.attention(x))"),
                      ("self.feed_forward(self.norm_2(x))", "self.norm_2(self.feed_forward(x))")),
              changed("Block", *GATED)],
    "model": [solution.Model, OfTheCourse, changed(
        "Model", *LEARNED, (WHERE, f"{WHERE} + self.where(torch.arange(tokens.shape[1]))"))],
    "training": [solution.train, changed("train", loss_by_hand(2), ("lr=3e-3", "lr=1e-2"),
                                         ("loss.backward()", "(loss / 50).backward()"))],
    "writing": [solution.write, changed("write", (
        "torch.multinomial(chances, 1)",
        "torch.distributions.Categorical(chances).sample()[:, None]")),
        changed("write", (FED, "through_parts(model, tokens[:, -model.context:])[:, -1]"),
                ("@torch.no_grad()\ndef write", PARTS))],
}

WRONG = {
    "attention": [
        (one_attention(" / q.shape[-1] ** 0.5", ""), "no scale"),
        (one_attention(" / q.shape[-1] ** 0.5", " * q.shape[-1] ** 0.5"), "scaled_dot_product"),
        (one_attention("softmax(dim=-1)", "softmax(dim=-2)"), "softmax over queries"),
        (one_attention("softmax(dim=-1)", "softmax(dim=2)"), "softmax over queries"),
        (one_attention("softmax(dim=-1)", "softmax(dim=1)"), "runs over axis 1, the heads"),
        (one_attention("softmax(dim=-1)", "softmax(dim=0)"), "runs over axis 0, the examples"),
        (one_attention("return weights @ v", "weights @ v"), "is `return` missing?"),
        (one_attention("masked_fill(~keep", "masked_fill(keep"), "Your mask is inverted"),
        (one_attention("-torch.inf).softmax(dim=-1)", "0)"), "The doctor says"),
        (one_attention("return weights @ v", "return weights"), "(…, 4, 6), the weights"),
        (one_attention("return weights @ v", "return weights @ v, weights"), "one tensor"),
        (one_attention("k.mT", "k"), "It raises"),
        (four_axes, "It raises")],
    "mask": [
        (lambda n: torch.ones(n, n, dtype=torch.bool).triu(1), "inverted"),
        (lambda n: torch.ones(n, n, dtype=torch.bool).triu(), "transposed"),
        (lambda n: torch.ones(n, n, dtype=torch.bool).tril(-1), "no query may attend to itself"),
        (lambda n: torch.ones(n, n, dtype=torch.bool).tril(1), "also attends to the next key"),
        (lambda n: torch.ones(n, n, dtype=torch.bool), "True everywhere"),
        (lambda n: torch.ones(n, n).tril(), "must be bool"),
        (lambda n: torch.ones(1, 1, n, n, dtype=torch.bool).tril(), "must have the shape (5, 5)"),
        (lambda n: [[True]], "of type list"),
        (lambda n: torch.ones(n, n, dtype=torch.bool).tril().triu(-2),
         "query 3 may attend to key 0")],
    "heads": [
        (changed("MultiHead", UNROTATED, (SPLIT, TORN), (MERGE, "context.reshape(b, n, e)")),
         "split and merge without transpose"),
        (changed("MultiHead", UNROTATED, (SPLIT, TORN)), "split without transpose"),
        (changed("MultiHead", UNROTATED, (MERGE, "context.reshape(b, n, e)")),
         "merge without transpose"),
        (changed("MultiHead", UNROTATED, (SPLIT, "view(split)"),
                 (MERGE, "context.reshape(b, n, e)")),
         "the fault is in MultiHead. q, k and v must be (b, h, n, d)"),
        (changed("MultiHead", ("v = self.W_v(x)", "v = self.W_k(x)")),
         "No gradient reaches W_v.weight"),
        (changed("MultiHead", ("self.W_v = nn.Linear(d_model, d_model)",
                               "self.W_v = [nn.Linear(d_model, d_model)]"),
                 ("self.W_v(x)", "self.W_v[0](x)")), "`self.W_v` is a plain list"),
        (changed("MultiHead", (f".{SPLIT}", ""), (MERGE, "context")), "three heads give the same"),
        (changed("MultiHead", UNROTATED, ("v, causal(n)", "v, causal(n) | True")),
         "no causal mask"),
        (changed("MultiHead", UNROTATED, ("self.W_o(", "(")), "missing W_o"),
        (changed("MultiHead", ("rotate(k), v", "rotate(k), rotate(v)")), "RoPE on values"),
        (changed("MultiHead", GAIN, NORMED, (SPLIT, TORN), (MERGE, "context.reshape(b, n, e)")),
         "Seven equal tokens get different outputs"),
        (changed("MultiHead", GAIN, NORMED, ("v, causal(n)", "v, causal(n) | True")),
         "MultiHead must use causal(n)"),
        (changed("MultiHead", (MERGE, "context.transpose(2, 3).reshape(b, n, e)")),
         "transpose(1, 2) comes before reshape"),
        (changed("MultiHead", UNROTATED, (SPLIT, "view(split)"), (", causal(n))", ", ALL)"),
                 (MERGE, "context.reshape(b, n, e)"), ("class MultiHead", EVERYTHING)),
         "the heads of one token attend to each other"),
        (changed("MultiHead", (MERGE, "context.transpose(1, 2)")), "It raises"),
        (changed("MultiHead", ("return self.W_o(", "return context, self.W_o(")), "of type tuple"),
        (NoModule, "a subclass of nn.Module")],
    "block": [
        (changed("Block", (ADD_1, ADD_1.replace("x + ", ""))), "the input is gone"),
        (changed("Block", (ADD_2, ADD_2.replace("x + ", ""))), "the input is gone"),
        (changed("Block", ("self.norm_1(x))", "self.norm_1(x.mT).mT)"),
                 ("norm_1 = nn.LayerNorm(d_model)", "norm_1 = nn.LayerNorm(7)")),
         "another line mixes positions"),
        (changed("Block", ("self.norm_2(x))", "(x - x.mean()) / x.std())")),
         "another line mixes positions"),
        (changed("Block", ("self.norm_1(x)", "x")), "a norm is missing"),
        (changed("Block", ("norm_1 = nn.LayerNorm", "norm_1 = nn.BatchNorm1d"),
                 ("self.norm_1(x)", "self.norm_1(x.mT).mT")),
         "`norm_1` is BatchNorm1d, a norm of the wrong kind"),
        (changed("Block", ("self.feed_forward = nn.Sequential(", "self.feed_forward = ("),
                 (f"{ADD_2}self.norm_2(x))",
                  "widen, bend, narrow = self.feed_forward\n"
                  "        return x + narrow(bend(widen(self.norm_2(x))))")),
         "`self.feed_forward` is a plain tuple"),
        (changed("Block", (ADD_1, ADD_1.replace("x =", "y =")),
                 ("self.norm_2(x)", "self.norm_2(y)")),
         "What attention returns is not added"),
        (changed("Block", (ADD_2, f"{ADD_2}F.dropout("), ("norm_2(x))", "norm_2(x), 0.1))")),
         "F.dropout drops in eval mode"),
        (changed("Block", *GATED, ("self.norm_2(x)", "x")), "a norm is missing"),
        (changed("Block", *GATED, ("self.norm_1(x)", "x"), ("self.norm_2(x)", "x")),
         "a norm is missing"),
        (changed("Block", (ADD_1, "x = self.norm_1(x)\n        x = x + self.attention(x)")),
         "x itself is normed"),
        (changed("Block", (f"{ADD_2}self.norm_2(x))",
                           "x = self.norm_2(x)\n        return x + self.feed_forward(x)")),
         "x itself is normed"),
        (changed("Block", ("            nn.GELU(),\n", "")), "nonlinear function"),
        (changed("Block", ("return x + self.feed_forward(self.norm_2(x))", "return x")),
         "no feed-forward layer"),
        (changed("Block", ("self.norm_2 = nn", "self.more = nn.Linear(3, 3)\n"
                           "        self.norm_2 = nn")), "No gradient reaches more.weight"),
        (changed("Block", ("self.norm_1(x)", "nn.functional.layer_norm(x, x.shape)")),
         "another line mixes positions"),
        (changed("Block", ("nn.Linear(4 * d_model, d_model)", "nn.Linear(4 * d_model, 2)")),
         "It raises")],
    "model": [
        (changed("Model", *LEARNED, (
            WHERE, f"{WHERE} + self.where(torch.arange(tokens.shape[1]).flip(0))")),
         "Positions must count from the first token"),
        (changed("Model", UNROTATED, (
            WHERE, f"{WHERE}\n        n, e = x.shape[1:]\n"
            "        x = x + torch.arange(n)[:, None] / n * torch.linspace(0, 1, e)")),
         "not be divided by the length"),
        (changed("Model", UNROTATED), "nothing tells the model where a token stands"),
        (changed("Model", ("self.blocks = nn.ModuleList()", "self.blocks = []")),
         "Blocks in a plain list"),
        (changed("Model", ("return self.unembedding(self.norm(x))",
                           "return self.unembedding(self.norm(x)).softmax(dim=-1)")),
         "The results are probabilities"),
        (changed("Model", ("    context = 128\n", "")), "`model.context` must say"),
        (changed("Model", ("    context = 128\n", "    context = 64\n")), "yours is 64"),
        (changed("Model", ("v, causal(n)", "v, causal(n).roll(1, 1)")),
         "which is later"),
        (changed("Model", ("self.norm(x)", "self.norm(x + x.mean(dim=1, keepdim=True))")),
         "what Model does with x before and after"),
        (changed("Model", ("return self.unembedding(self.norm(x))",
                           "return self.norm(x) @ self.embedding.weight.T")),
         "its first logits are too large"),
        (changed("Model", ("nn.Linear(d_model, n_tokens)", "nn.Linear(d_model, d_model)")),
         "must have the shape (2, 11, 23)"),
        (changed("Model", ("x = block(x)", "x = block(x.detach())")), "No gradient reaches"),
        (changed("Model", ("x = block(x)", "y = block(x)")), "No gradient reaches"),
        (changed("Model", ("self.unembedding(self.norm(x))",
                           "self.unembedding(self.norm(x))[:, -1]")), "not (2, 23)")],
    "training": [
        (changed("train", ("targets = pieces[:, 1:]", "targets = pieces[:, :-1]")),
         "the targets are not shifted"),
        (changed("train", ("logits = model(pieces[:, :-1])\n        targets = pieces[:, 1:]",
                           "logits = model(pieces[:, 1:])\n        targets = pieces[:, :-1]")),
         "the shift goes the wrong way"),
        (changed("train", ("logits = model(pieces[:, :-1])\n        targets = pieces[:, 1:]",
                           "logits = model(pieces[:, :-2])\n        targets = pieces[:, 2:]")),
         "the targets are shifted twice"),
        (changed("train", (LOSS, "F.cross_entropy(logits.reshape(16, -1, length - 1), targets)")),
         "logits and targets do not belong together"),
        (changed("train", loss_by_hand(1)), "tokens that never occur"),
        (changed("train", (LOSS, "F.cross_entropy(logits[:, -1], targets[:, -1])")),
         "of the positions have a loss"),
        (changed("train", (STEP, STEP.replace("        optimiser.zero_grad()\n", ""))),
         "added to those of the steps before"),
        (changed("train", ("        optimiser.step()", "")), "no parameter has changed"),
        (changed("train", ("loss.backward()", "(-loss).backward()")), "has the wrong sign"),
        (changed("train", ("cross_entropy(logits", "cross_entropy(logits.softmax(dim=-1)")),
         "a softmax in front of F.cross_entropy"),
        (changed("train", (STEP, "        loss.backward()\n        optimiser.zero_grad()")),
         "The order must be: zero_grad, backward, step"),
        (changed("train", ("    length =", "    tokens = tokens[:2000]\n    length =")),
         "of a text of 418,613"),
        (changed("train", ("        loss.backward()\n        optimiser.step()", "")),
         "Asked for 6 steps, it makes 0"),
        (changed("train", ("range(steps)", "range(1)")), "Asked for 6 steps, it makes 1"),
        (changed("train", ("torch.randint(len(tokens) - length + 1, (16, 1))",
                           "torch.arange(16)[:, None]")), "All steps see the same pieces"),
        (changed("train", ("lr=3e-3", "lr=1e-6")), "Is the learning rate"),
        (learn_everything, "That is too good")],
    "writing": [
        (changed("write", (FED, FED.replace("-1]", "0]"))), "logits at position 0"),
        (changed("write", (FED, "model(tokens[:, -1:])[:, -1]")), "the last token alone"),
        (changed("write", (FED, "model(tokens)[:, -1]")), "Give it the last tokens only"),
        (drop_prompt, "the prompt must come first"),
        (changed("write", ("range(n)", "range(n - tokens.shape[1])")), "12 tokens in all"),
        (changed("write", ("argmax", "argmin")), "the least likely token"),
        (changed("write", (FED, "model(tokens[:, -64:])[:, -1]")), "the last 64 only"),
        (changed("write", (", keepdim=True", "")), "It raises RuntimeError"),
        (changed("write", ("temperature == 0", "temperature is None")),
         "At temperature 0 it raises"),
        (changed("write", ("(logits / temperature)", "(logits * temperature)")), "*divided*"),
        (changed("write", ("(logits / temperature)", "logits")), "The temperature has no effect"),
        (changed("write", ("if temperature == 0", "if True")), "it takes the likeliest token"),
        (changed("write", (FED, "model(tokens[:, :model.context])[:, -1]")), "and wrong beyond"),
        (changed("write", ("tokens = torch.cat((tokens, new), dim=1)",
                           "tokens = torch.cat((tokens[:, 1:], new), dim=1)")),
         "must have the shape (1, 17)")],
}
