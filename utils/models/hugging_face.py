"""Load a state dict in the names of Hugging Face into a ``decoder.Decoder``."""

import torch

from ..checks import decoder as decoder_checks
from . import configuration
from .decoder import Decoder

EMBEDDING, UNEMBEDDING = "model.embed_tokens.weight", "lm_head.weight"
NOT_LEARNED = "rotary_emb.inv_freq"  # stored by older versions; computed from the configuration


def names(plan):
    """Return the names in a state dict for each of ours, {ours: [theirs, …]}.

    Several of theirs are packed into one of ours, along the first axis. ``plan`` is a
    ``configuration.Plan``.
    """
    found = {"embedding.weight": [EMBEDDING], "norm.gain": ["model.norm.weight"]}
    if not plan.tied:
        found["unembedding.weight"] = [UNEMBEDDING]
    for n in range(len(plan.layers)):
        ours, theirs = f"blocks.{n}.", f"model.layers.{n}."
        for part, packed in _of_a_layer(plan).items():
            found[ours + part] = [theirs + name for name in packed]
    return found


def _of_a_layer(plan):
    """Return {ours: [theirs, …]} of one layer."""
    kinds = {"attention.W_qkv": plan.qkv_bias, "attention.W_o": plan.out_bias}
    modules = {"attention.W_qkv": [f"self_attn.{side}_proj" for side in "qkv"],
               "attention.W_o": ["self_attn.o_proj"]}
    found = {f"norms.{place}.gain": [f"{name}.weight"] for place, name in plan.norms.items()}
    if plan.qk_norm != "none":
        found |= {f"attention.{side}_gain": [f"self_attn.{side}_norm.weight"] for side in "qk"}
    if plan.sink:
        found["attention.sink"] = ["self_attn.sinks"]
    if plan.experts is None:
        for part in ("gate", "up", "down"):
            modules[f"feed_forward.{part}"] = [f"mlp.{part}_proj"]
            kinds[f"feed_forward.{part}"] = plan.hidden_bias
    else:
        modules["feed_forward.router"], kinds["feed_forward.router"] = ["mlp.router"], True
        for ours, theirs in (("up", "gate_up_proj"), ("down", "down_proj")):
            for bias in ("", "_bias"):
                found[f"feed_forward.{ours}{bias}"] = [f"mlp.experts.{theirs}{bias}"]
    for ours, theirs in modules.items():
        for kind in ("weight", "bias") if kinds[ours] else ("weight",):
            found[f"{ours}.{kind}"] = [f"{name}.{kind}" for name in theirs]
    return found


def renamed(state, plan):
    """Return the state dict of ``Decoder(plan)``, new tensors, from one in Hugging Face's names.

    ``state`` maps names to tensors or arrays. Raises ValueError when names are missing or left
    over, and when embeddings are tied but ``state`` has another unembedding.
    """
    decoder_checks.state(state)
    table = names(plan)
    wanted = {theirs for packed in table.values() for theirs in packed}
    if missing := sorted(wanted - {*state}):
        hint = ""
        if missing == [UNEMBEDDING]:
            hint = (": the embedding may be used twice, but then the configuration must say "
                    "tie_word_embeddings=True")
        raise ValueError(f"the state dict has no {_few(missing)}{hint}")
    spare = [name for name in state if name not in wanted and not name.endswith(NOT_LEARNED)]
    if plan.tied and UNEMBEDDING in spare:
        spare.remove(UNEMBEDDING)
        one, other = (torch.as_tensor(state[name]) for name in (EMBEDDING, UNEMBEDDING))
        if one.shape != other.shape or not torch.equal(one, other):
            raise ValueError(f"{UNEMBEDDING} differs from {EMBEDDING}, but the configuration says "
                             "tie_word_embeddings=True")
    if spare:
        raise ValueError(f"the configuration has no place for {_few(spare)}")
    return {ours: torch.cat([torch.as_tensor(state[name]) for name in packed])
            for ours, packed in table.items()}


def load(config, state):
    """Return the ``Decoder`` of a configuration with the parameters of ``state``, in evaluation.

    ``config`` is a dict as in a config.json, ``state`` a state dict in Hugging Face's names; the
    parameters keep their dtypes. Raises as ``configuration.read`` and ``renamed``, and ValueError
    for a parameter of another shape, TypeError for a ``state`` that is no dict of tensors.
    """
    plan = configuration.read(config)
    decoder_checks.state(state)
    with torch.device("meta"):  # no memory for numbers that are replaced
        model = Decoder(plan)
    own, widths = model.state_dict(), [plan.n_heads, plan.n_kv_heads, plan.n_kv_heads]
    for ours, packed in names(plan).items():
        for name, heads in zip(packed, widths, strict=False):
            shape = tuple(own[ours].shape)
            if len(packed) > 1:
                shape = (heads * plan.d_head, *shape[1:])
            if name in state and tuple(state[name].shape) != shape:
                raise ValueError(f"{name} must have the shape {shape}, got "
                                 f"{tuple(state[name].shape)}")
    model.load_state_dict(renamed(state, plan), assign=True)
    return model.eval()


def _few(listed):
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(listed[:4]) + more


def to_halves(W, n_heads):
    """Return W (h * d, e), its rows sorted from interleaved to halves.

    So sorted, ``q_proj`` and ``k_proj`` for pairs 2n and 2n + 1 of RoPE serve for pairs n and
    n + d / 2: the scores are the same. Raises ValueError unless the rows are those of n_heads heads
    with an even d, TypeError unless W is a tensor.
    """
    decoder_checks.pairs(W, n_heads)
    rows = W.unflatten(0, (n_heads, -1, 2))  # (h, d / 2, 2, e)
    return rows.transpose(1, 2).flatten(0, 2)


def random_state(config, seed=0):
    """Return random parameters for a configuration, {name: tensor}, in float64.

    Gains are near 1, or near 0 where the factor is 1 + the gain. Raises as ``configuration.read``.
    """
    plan, generator = configuration.read(config), torch.Generator().manual_seed(seed)
    with torch.device("meta"):
        shapes = {name: part.shape for name, part in Decoder(plan).state_dict().items()}
    heads, found = [plan.n_heads, plan.n_kv_heads, plan.n_kv_heads], {}
    for ours, packed in names(plan).items():
        values = torch.randn(shapes[ours], generator=generator, dtype=torch.float64)
        values = values * (shapes[ours][-1] ** -0.5 if len(shapes[ours]) > 1 else 0.2)
        if ours.endswith("gain") and not plan.plus_one:
            values = values + 1
        parts = [values]
        if len(packed) > 1:
            parts = values.split([n * plan.d_head for n in heads])
        found |= zip(packed, parts, strict=True)
    return {name: part.clone() for name, part in found.items()}
